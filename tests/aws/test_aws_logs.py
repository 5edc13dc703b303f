"""Logs of apps, from the emulator over HTTP."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from support.cloud import client, emulator, over
from support.log_apps import Apps, Job
from support.waiting import until
from wherry.aws import lookup
from wherry.aws.log_places import known_streams
from wherry.emulator.faults import Fault
from wherry.emulator.server.emulator import Emulator
from wherry.errors import UnknownNameError, UsageError
from wherry.schedulers.api import Stream
from wherry.schedulers.aws_batch import log_follow, log_tail
from wherry.schedulers.aws_batch.logs import milliseconds
from wherry.schedulers.aws_batch.replicas import AppJobs
from wherry.schedulers.aws_batch.shape import Group, Kind


@pytest.fixture(scope="module")
def running() -> Iterator[Emulator]:
    with emulator() as made:
        yield made


@pytest.fixture
def apps(running: Emulator) -> Apps:
    return Apps(running)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator's lines are there at once; do not wait five seconds for late ones."""
    for module in (log_tail, log_follow):
        monkeypatch.setattr(module, "LATE_LINES", 1.0)
        monkeypatch.setattr(module, "LATE_STREAM", 2.0)


def ended(apps: Apps, app: AppJobs) -> AppJobs:
    for job in app.jobs:
        over(apps.batch, job.id)
    return app


def is_running(apps: Apps, app: AppJobs) -> Any:
    (job,) = app.jobs
    return apps.batch.describe_jobs(jobs=[job.id])["jobs"][0]["status"] == "RUNNING"


# -- what there is --------------------------------------------------------------------------------


def test_the_lines_of_a_single_job(apps: Apps) -> None:
    app = ended(apps, apps.submit("echo out; echo err >&2; printf 'a\\rb\\n\\033[1mc'"))

    assert list(apps.logs.lines(app, "main")) == ["out\n", "err\n", "a\rb\n", "\x1b[1mc\n"]
    assert b"".join(apps.logs.data(app, "main")) == b"out\nerr\na\rb\n\x1b[1mc\n"


def test_an_index_seeks(apps: Apps) -> None:
    app = ended(apps, apps.submit("seq 0 99"))
    lines = apps.logs.lines(app, "main")

    assert lines[50] == "50\n"
    assert next(lines) == "51\n"
    assert lines[3] == "3\n"
    assert lines[97:] == ["97\n", "98\n", "99\n"]


def test_lines_in_which_something_is_found(apps: Apps) -> None:
    app = ended(apps, apps.submit("seq 0 30"))

    assert list(apps.logs.lines(app, "main", regex="^[12]5$")) == ["15\n", "25\n"]
    with pytest.raises(UsageError, match="not a regular expression"):
        apps.logs.lines(app, "main", regex="(")


def test_a_long_line_is_whole(apps: Apps) -> None:
    app = ended(apps, apps.submit("head -c 600000 /dev/zero | tr '\\0' x; echo; echo end"))

    assert list(apps.logs.lines(app, "main")) == ["x" * 600_000 + "\n", "end\n"]


def test_a_span_of_time(apps: Apps) -> None:
    app = ended(apps, apps.submit("echo early; sleep 0.7; echo late"))
    job = apps.batch.describe_jobs(jobs=[app.jobs[0].id])["jobs"][0]
    (early, late) = client(apps.emulator, "logs").get_log_events(
        logGroupName="/aws/batch/job",
        logStreamName=job["container"]["logStreamName"],
        startFromHead=True,
    )["events"]
    moment = datetime.fromtimestamp(late["timestamp"] / 1000, timezone.utc)

    assert early["timestamp"] < late["timestamp"]
    assert list(apps.logs.lines(app, "main", since=moment)) == ["late\n"]
    assert list(apps.logs.lines(app, "main", until=moment)) == ["early\n"]


def test_a_time_without_a_zone_is_local() -> None:
    naive = datetime(2026, 1, 31, 8, 0, 0, 123_999)
    assert milliseconds(naive) == int(naive.timestamp()) * 1000 + 123
    assert milliseconds(datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc)) == 1000
    assert milliseconds(None) is None


def test_each_attempt_in_order_or_one(apps: Apps) -> None:
    script = "echo attempt $AWS_BATCH_JOB_ATTEMPT; test $AWS_BATCH_JOB_ATTEMPT = 3"
    app = ended(apps, apps.submit(script, retryStrategy={"attempts": 3}))

    assert list(apps.logs.lines(app, "main")) == ["attempt 1\n", "attempt 2\n", "attempt 3\n"]
    assert list(apps.logs.lines(app, "main", attempt=2)) == ["attempt 2\n"]
    with pytest.raises(UnknownNameError, match="main/0 has no attempt 4; it has made 3"):
        list(apps.logs.lines(app, "main", attempt=4))
    with pytest.raises(UsageError, match="counted from 1"):
        apps.logs.lines(app, "main", attempt=0)


def test_without_a_tail_nothing_is_waited_for(apps: Apps) -> None:
    number = apps.emulator.faults.add(Fault("hold", value="RUNNABLE"))
    try:
        app = apps.submit("echo late")
        assert list(apps.logs.lines(app, "main")) == []
        assert b"".join(apps.logs.data(app, "main")) == b""
        assert apps.told == []
    finally:
        apps.emulator.faults.remove(number)


def test_only_both_streams_together_can_be_had(apps: Apps) -> None:
    app = AppJobs("app", Kind.SINGLE, [Group("main", 0, 1)], [Job("x")])

    for read in (apps.logs.data, apps.logs.follow):
        arguments: tuple[Any, ...] = (app,) if read == apps.logs.follow else (app, "main", 0)
        with pytest.raises(ValueError, match="keeps stdout and stderr together"):
            read(*arguments, Stream.STDERR)
    with pytest.raises(ValueError, match="stdout alone cannot be had; ask for combined"):
        apps.logs.lines(app, "main", streams=Stream.STDOUT)


def test_an_unknown_role_or_replica_is_an_error_and_never_anothers_log(apps: Apps) -> None:
    app = AppJobs("aws_batch://s/app", Kind.ARRAY, [Group("main", 0, 3)], [Job("x", 0, 3)])

    with pytest.raises(UnknownNameError, match=r"role of aws_batch://s/app: 'mian'; did you mean"):
        apps.logs.lines(app, "mian")
    with pytest.raises(UnknownNameError, match="no replica 3; it has replicas 0 to 2"):
        apps.logs.data(app, "main", 3)
    with pytest.raises(UnknownNameError, match="no replica -1"):
        apps.logs.lines(app, "main", -1)


def test_of_several_containers_the_essential_ones_have_the_log(apps: Apps, hurried: None) -> None:
    app = apps.containers(
        main=("echo a; sleep 0.4; echo c", True),
        other=("sleep 0.2; echo b; sleep 5", True),
        helper=("echo helping", False),
    )

    assert sorted(apps.logs.lines(app, "main", should_tail=True)) == ["a\n", "b\n", "c\n"]
    assert list(apps.logs.lines(app, "main")) == ["a\n", "b\n", "c\n"]


# -- children and nodes ---------------------------------------------------------------------------


def test_each_child_of_an_array_has_its_own_log(apps: Apps) -> None:
    app = ended(apps, apps.array("echo child $AWS_BATCH_JOB_ARRAY_INDEX", 5))

    for k in (3, 0, 4):
        assert list(apps.logs.lines(app, "main", k)) == [f"child {k}\n"]


def test_an_app_of_several_arrays_is_numbered_through(apps: Apps) -> None:
    parts = [apps.array("echo $AWS_BATCH_JOB_ARRAY_INDEX", 2) for _ in range(2)]
    (first,), (second,) = parts[0].jobs, parts[1].jobs
    jobs = [first, Job(second.id, 2, 2)]
    app = ended(apps, AppJobs("app", Kind.ARRAY, [Group("main", 0, 4)], jobs))

    assert [list(apps.logs.lines(app, "main", k)) for k in range(4)] == [
        ["0\n"],
        ["1\n"],
        ["0\n"],
        ["1\n"],
    ]


def test_each_node_of_a_gang_has_its_own_log(apps: Apps) -> None:
    script = "echo node $AWS_BATCH_JOB_NODE_INDEX; test $AWS_BATCH_JOB_NODE_INDEX = 0 && sleep 3"
    app = ended(apps, apps.gang(script, Group("leader", 0, 1), Group("worker", 1, 2)))

    assert list(apps.logs.lines(app, "leader")) == ["node 0\n"]
    assert list(apps.logs.lines(app, "worker", 0)) == ["node 1\n"]
    assert list(apps.logs.lines(app, "worker", 1)) == ["node 2\n"]


def test_a_hundred_replicas_in_a_row_are_read_in_a_few_calls(apps: Apps) -> None:
    app = ended(apps, apps.array("echo child $AWS_BATCH_JOB_ARRAY_INDEX", 30))
    before = sum(apps.calls().values())

    found = [b"".join(apps.logs.data(app, "main", k)) for k in range(30)]

    assert found == [b"child %d\n" % k for k in range(30)]
    assert sum(apps.calls().values()) - before <= 6


# -- tails ----------------------------------------------------------------------------------------


def test_a_tail_begins_before_the_job_runs_and_ends_after_its_last_line(
    apps: Apps, hurried: None
) -> None:
    number = apps.emulator.faults.add(Fault("hold", value="RUNNABLE"))
    app = apps.submit("for i in 1 2 3; do echo $i; sleep 0.3; done; printf last")
    found: list[str] = []
    reader = threading.Thread(
        target=lambda: found.extend(apps.logs.lines(app, "main", should_tail=True))
    )
    reader.start()
    until(lambda: "DescribeJobs" in apps.calls(), "the tail to look")
    apps.emulator.faults.remove(number)
    reader.join(60)

    assert found == ["1\n", "2\n", "3\n", "last\n"]


def test_a_tail_hands_out_lines_while_the_job_runs(apps: Apps) -> None:
    app = apps.submit("echo early; sleep 1000")

    assert next(apps.logs.lines(app, "main", should_tail=True)) == "early\n"
    assert is_running(apps, app)
    apps.batch.terminate_job(jobId=app.jobs[0].id, reason="seen")


def test_a_tail_of_retries_has_all_attempts(apps: Apps, hurried: None) -> None:
    script = "echo attempt $AWS_BATCH_JOB_ATTEMPT; test $AWS_BATCH_JOB_ATTEMPT = 2"
    app = apps.submit(script, retryStrategy={"attempts": 2})

    assert list(apps.logs.lines(app, "main", should_tail=True)) == ["attempt 1\n", "attempt 2\n"]


def test_a_late_stream_is_waited_for(apps: Apps) -> None:
    number = apps.emulator.faults.add(Fault("late-log-stream", value="3"))
    try:
        app = apps.submit("echo here")
        assert list(apps.logs.lines(app, "main", should_tail=True)) == ["here\n"]
        assert apps.told == []
    finally:
        apps.emulator.faults.remove(number)


@pytest.mark.parametrize("tail", [True, False])
def test_a_stream_that_never_came_is_told_of_beside_the_log(
    apps: Apps, hurried: None, tail: bool
) -> None:
    number = apps.emulator.faults.add(Fault("no-log-stream"))
    try:
        app = apps.submit("echo lost")
        ended(apps, app)
        assert list(apps.logs.lines(app, "main", should_tail=tail)) == []
    finally:
        apps.emulator.faults.remove(number)
    (told,) = apps.told
    assert told.startswith("no log of main/0: AWS Batch names the stream 'def-")
    assert told.endswith("/aws/batch/job', and it does not exist")


def test_a_job_that_could_not_start_says_why_it_has_no_log(apps: Apps) -> None:
    number = apps.emulator.faults.add(Fault("pull-failure", value="pull access denied"))
    try:
        app = ended(apps, apps.submit("echo lost"))
    finally:
        apps.emulator.faults.remove(number)

    assert list(apps.logs.lines(app, "main", should_tail=True)) == []
    (told,) = apps.told
    assert "pull access denied" in told


def test_a_throttled_tail_goes_on(apps: Apps, hurried: None) -> None:
    number = apps.emulator.faults.add(Fault("throttle", service="logs", rate=0.5))
    try:
        app = apps.submit("for i in 1 2 3 4; do echo $i; sleep 0.2; done")
        assert list(apps.logs.lines(app, "main", should_tail=True)) == [
            "1\n",
            "2\n",
            "3\n",
            "4\n",
        ]
    finally:
        apps.emulator.faults.remove(number)


def test_a_log_group_of_the_jobs_own_is_read(apps: Apps) -> None:
    options = {"awslogs-group": "/own/group", "awslogs-create-group": "true"}
    log = {"logDriver": "awslogs", "options": options}
    app = ended(apps, apps.submit("echo here", container={"logConfiguration": log}))

    assert list(apps.logs.lines(app, "main")) == ["here\n"]
    assert next(apps.logs.follow(app)).data == b"here\n"


def test_a_driver_that_is_not_awslogs_is_told_of(apps: Apps, hurried: None) -> None:
    log = {"logDriver": "json-file"}
    app = apps.submit("echo here", container={"logConfiguration": log})

    assert list(apps.logs.lines(app, "main", should_tail=True)) == []
    (told,) = apps.told
    assert "log driver 'json-file'" in told


# -- all replicas ---------------------------------------------------------------------------------


def follow(apps: Apps, app: AppJobs) -> dict[tuple[str, int], bytes]:
    found: dict[tuple[str, int], bytes] = {}
    for chunk in apps.logs.follow(app):
        key = (chunk.role, chunk.replica)
        found[key] = found.get(key, b"") + chunk.data
    return found


def test_following_a_large_array_costs_few_calls(apps: Apps, hurried: None) -> None:
    app = apps.array("echo $AWS_BATCH_JOB_ARRAY_INDEX; sleep 0.5; echo bye", 60)

    assert follow(apps, app) == {("main", k): b"%d\nbye\n" % k for k in range(60)}
    assert sum(apps.calls().values()) < 120


def test_following_an_array_with_retries_has_all_attempts(apps: Apps, hurried: None) -> None:
    script = "echo $AWS_BATCH_JOB_ATTEMPT; test $AWS_BATCH_JOB_ATTEMPT = 2"
    app = apps.array(script, 4, retryStrategy={"attempts": 2})

    assert follow(apps, app) == {("main", k): b"1\n2\n" for k in range(4)}


def test_following_a_gang(apps: Apps, hurried: None) -> None:
    script = "echo node $AWS_BATCH_JOB_NODE_INDEX; test $AWS_BATCH_JOB_NODE_INDEX = 0 && sleep 3"
    app = apps.gang(script, Group("leader", 0, 1), Group("worker", 1, 2))

    assert follow(apps, app) == {
        ("leader", 0): b"node 0\n",
        ("worker", 0): b"node 1\n",
        ("worker", 1): b"node 2\n",
    }


def test_following_what_has_ended_reads_it_all_and_ends(apps: Apps) -> None:
    app = ended(apps, apps.array("seq 0 $AWS_BATCH_JOB_ARRAY_INDEX", 3))

    assert follow(apps, app) == {
        ("main", 0): b"0\n",
        ("main", 1): b"0\n1\n",
        ("main", 2): b"0\n1\n2\n",
    }


def test_following_tells_of_streams_that_never_came(apps: Apps, hurried: None) -> None:
    number = apps.emulator.faults.add(Fault("no-log-stream", job="lossy"))
    try:
        app = apps.array("echo lost", 3, name="lossy")
        assert follow(apps, app) == {}
    finally:
        apps.emulator.faults.remove(number)
    (told,) = apps.told
    assert told.startswith("no log of main/0, main/1, main/2: main/0: AWS Batch names the stream")


# -- when AWS Batch has forgotten -----------------------------------------------------------------


def test_a_forgotten_job_is_read_by_what_was_kept_of_it() -> None:
    with emulator() as made:
        apps = Apps(made)
        script = "echo attempt $AWS_BATCH_JOB_ATTEMPT; test $AWS_BATCH_JOB_ATTEMPT = 2"
        app = ended(apps, apps.submit(script, retryStrategy={"attempts": 2}))
        ids = [job.id for job in app.jobs]
        kept = known_streams(lookup.describe(apps.session.calls(), ids).values())
        made.clock.advance(timedelta(days=8).total_seconds())
        until(lambda: not apps.batch.describe_jobs(jobs=ids)["jobs"], "the job to be forgotten")

        known = AppJobs(app.handle, app.kind, app.groups, app.jobs, over=True, streams=kept)

        assert list(apps.logs.lines(known, "main")) == ["attempt 1\n", "attempt 2\n"]
        begun = time.monotonic()
        assert list(apps.logs.lines(known, "main", should_tail=True, attempt=1)) == ["attempt 1\n"]
        assert follow(apps, known) == {("main", 0): b"attempt 1\nattempt 2\n"}
        assert time.monotonic() - begun < 20
        with pytest.raises(UnknownNameError, match="no attempt 3; it has made 2"):
            list(apps.logs.lines(known, "main", should_tail=True, attempt=3))

        assert list(apps.logs.lines(app, "main")) == []
        (told,) = apps.told
        assert told.startswith("no log of main/0: AWS Batch does not know the job any more")
