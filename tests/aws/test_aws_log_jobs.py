"""Jobs are described in full when they have a log, and no more often than that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from support.fake_logs import Time
from wherry.aws.calls import Calls
from wherry.aws.jobs import JobView, view
from wherry.aws.log_jobs import JobFeed, OneLook
from wherry.aws.log_places import FORGOTTEN, attempt_logs, known_streams, remembered


class Client:
    """AWS Batch, as far as it describes jobs."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.asked: list[list[str]] = []

    def describe_jobs(self, jobs: list[str]) -> Any:
        self.asked.append(jobs)
        return {"jobs": [self.jobs[each] for each in jobs if each in self.jobs]}

    def runs(self, k: int, *streams: str, status: str = "RUNNING", attempts: int = 1) -> None:
        over = status in ("SUCCEEDED", "FAILED")
        *earlier, last = streams
        ended = [*earlier, last] if over else earlier
        self.jobs[f"j:{k}"] = {
            "jobId": f"j:{k}",
            "jobQueue": "q",
            "status": status,
            "retryStrategy": {"attempts": attempts},
            "attempts": [
                {"container": {"logStreamName": name}, "startedAt": 1, "stoppedAt": 2}
                for name in ended
            ],
            "container": {"logStreamName": last, "image": "busybox"},
        }


class Watch:
    """What the poller tells of the children of a large array."""

    def __init__(self) -> None:
        self.latest: dict[str, JobView] = {}
        self.gone: frozenset[str] = frozenset()
        self.done = False

    def __call__(self, ids: Iterable[str]) -> Watch:
        return self

    def tell(self, k: int, status: str, started_at: float | None = None) -> None:
        self.latest[f"j:{k}"] = JobView(f"j:{k}", status, started_at=started_at)

    def wait(self, timeout: float | None = None) -> bool:
        return True

    def close(self) -> None:
        pass


def feed(client: Client, watch: Watch, **options: Any) -> tuple[Time, JobFeed]:
    time = Time()
    return time, JobFeed(Calls(client), watch, [], time=time, sleep=print, **options)


def streams(feed: JobFeed) -> list[list[str]]:
    return [
        [place.stream for log in attempt_logs(job) for place in log.places]
        for job in feed.changed()
    ]


def test_children_that_begin_to_run_are_described_together() -> None:
    client, watch = Client(), Watch()
    for k in range(250):
        client.runs(k, f"s{k}")
        watch.tell(k, "RUNNING", 1.0)
    _, jobs = feed(client, watch)

    assert sorted(streams(jobs)) == sorted([f"s{k}"] for k in range(250))
    assert [len(asked) for asked in client.asked] == [100, 100, 50]
    assert streams(jobs) == []


def test_children_that_wait_are_not_described() -> None:
    client, watch = Client(), Watch()
    watch.tell(0, "RUNNABLE")
    _, jobs = feed(client, watch)

    assert streams(jobs) == []
    assert client.asked == []


def test_the_end_of_a_child_with_one_attempt_costs_nothing() -> None:
    client, watch = Client(), Watch()
    client.runs(0, "s")
    watch.tell(0, "RUNNING", 1.0)
    _, jobs = feed(client, watch)
    assert streams(jobs) == [["s"]]

    watch.tell(0, "SUCCEEDED", 1.0)
    (job,) = jobs.changed()

    assert [log.over for log in attempt_logs(job)] == [True]
    assert len(client.asked) == 1


def test_the_end_of_a_child_that_may_be_retried_shows_all_attempts() -> None:
    client, watch = Client(), Watch()
    client.runs(0, "one", attempts=3)
    watch.tell(0, "RUNNING", 1.0)
    _, jobs = feed(client, watch)
    assert streams(jobs) == [["one"]]

    watch.tell(0, "RUNNABLE")
    assert streams(jobs) == [["one"]]
    client.runs(0, "one", "two", status="SUCCEEDED", attempts=3)
    watch.tell(0, "SUCCEEDED", 2.0)

    assert streams(jobs) == [["one", "two"]]


def test_a_retry_that_no_list_has_shown_is_found_within_a_minute() -> None:
    client, watch = Client(), Watch()
    client.runs(0, "one", attempts=3)
    watch.tell(0, "RUNNING", 1.0)
    time, jobs = feed(client, watch)
    assert streams(jobs) == [["one"]]

    client.runs(0, "one", "two", attempts=3)
    assert streams(jobs) == []
    time.now += 61

    assert streams(jobs) == [["one", "two"]]


def test_a_job_that_runs_and_names_no_stream_yet_is_asked_for_again() -> None:
    client, watch = Client(), Watch()
    client.runs(0, "")
    watch.tell(0, "RUNNING", 1.0)
    time, jobs = feed(client, watch)

    assert streams(jobs) == []
    client.runs(0, "s")
    time.now += 4
    assert streams(jobs) == []
    time.now += 2
    assert streams(jobs) == [["s"]]


def test_what_aws_has_forgotten_is_what_was_kept_of_it() -> None:
    client, watch = Client(), Watch()
    client.runs(0, "one", "two", status="FAILED")
    kept = remembered(known_streams([view(client.jobs["j:0"])]))
    watch.gone, watch.done = frozenset(("j:0", "j:1")), True
    _, jobs = feed(client, watch, kept=kept)

    known = {job.id: job for job in jobs.changed()}

    assert [log.places[0].stream for log in attempt_logs(known["j:0"])] == ["one", "two"]
    assert {job.status for job in known.values()} == {FORGOTTEN}
    assert jobs.over


def test_one_look_at_jobs_that_are_over_says_all() -> None:
    client = Client()
    client.runs(0, "s", status="FAILED")
    watch = OneLook(Calls(client), ["j:0", "j:1"])
    jobs = JobFeed(Calls(client), lambda ids: watch, ["j:0", "j:1"])

    jobs.wait(5)

    assert [job.id for job in jobs.changed()] == ["j:0", "j:1"]
    assert jobs.over
    assert client.asked == [["j:0", "j:1"]]
