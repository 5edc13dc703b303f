"""CloudWatch Logs of jobs: how output becomes events, and how events are read page by page."""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.cloud import GROUP, client, define, emulator, lines, run, unique
from support.waiting import until
from wherry.emulator.clock import Clock
from wherry.emulator.cloud.log_pages import LogPages, LogsError
from wherry.emulator.cloud.logs import MAX_EVENT_BYTES, LogSink, LogStore
from wherry.emulator.engines.api import Container, Task
from wherry.emulator.faults import Fault, Faults
from wherry.emulator.server.emulator import Emulator

REGION = "us-east-1"


@pytest.fixture(scope="module")
def running() -> Iterator[Emulator]:
    with emulator() as made:
        yield made


class Written:
    """A sink with a container that writes to it."""

    def __init__(self, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.clock = Clock()
        self.store = LogStore()
        self.sink = LogSink(self.store, self.clock, self.faults)
        self.stream = unique("stream")
        self.container = Container("default", "busybox", log_group=GROUP, log_stream=self.stream)
        labels = (("job-id", "j"), ("job-name", "name"), ("queue", "main"))
        self.task = Task(uuid.uuid4().hex, REGION, (self.container,), labels=labels)
        self.sink.open_stream(REGION, GROUP, self.stream, create_group=False)

    def write(self, *pieces: bytes) -> Written:
        for piece in pieces:
            self.sink(self.task, self.container, piece)
        return self

    def page(self, **more: Any) -> dict[str, Any]:
        request = {"logGroupName": GROUP, "logStreamName": self.stream, "startFromHead": True}
        return LogPages().get(REGION, {**request, **more})

    @property
    def texts(self) -> list[str]:
        return [event["message"] for event in self.page()["events"]]


# -- output becomes events ------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=40), max_size=12))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_events_are_the_lines_however_output_is_cut(pieces: list[bytes]) -> None:
    output = b"".join(pieces)

    texts = Written().write(*[piece for piece in pieces if piece], b"").texts

    assert texts == [line.decode("utf-8", "replace") for line in output.split(b"\n") if line]


def test_a_carriage_return_belongs_to_the_line() -> None:
    assert Written().write(b"a\r\nb\n", b"").texts == ["a\r", "b"]


def test_a_last_line_without_end_comes_with_the_end() -> None:
    written = Written().write(b"whole\nhalf")
    written.write(b"")

    assert written.texts == ["whole", "half"]


def test_a_long_line_is_cut_at_256_kb_and_never_inside_a_character() -> None:
    line = ("a" + "ä" * MAX_EVENT_BYTES).encode()

    texts = Written().write(line + b"\n", b"").texts

    assert "".join(texts).encode() == line
    assert len(texts) == 3
    assert all(MAX_EVENT_BYTES - 3 <= len(text.encode()) <= MAX_EVENT_BYTES for text in texts[:2])


def test_a_program_that_never_ends_a_line_is_not_kept_in_memory() -> None:
    written = Written()
    for _ in range(3):
        written.write(b"x" * MAX_EVENT_BYTES)
    written.sink.start()
    written.sink.stop()

    assert [len(text) for text in written.texts] == [MAX_EVENT_BYTES] * 2


def test_events_are_dated_in_emulated_time_and_never_go_back() -> None:
    written = Written()
    written.write(b"a\n")
    written.clock.advance(86_400 * 30)
    written.write(b"b\n", b"")

    first, second = (event["timestamp"] for event in written.page()["events"])

    assert 86_400_000 * 30 <= second - first < 86_400_000 * 30 + 60_000


def test_lines_are_there_while_the_job_runs(running: Emulator) -> None:
    batch, logs = client(running, "batch"), client(running, "logs")
    program = "import sys,time; print('early', flush=True); time.sleep(1000)"
    job = batch.submit_job(
        jobName="a", jobQueue="main", jobDefinition=define(batch, [sys.executable, "-c", program])
    )["jobId"]

    def seen() -> list[str]:
        found = batch.describe_jobs(jobs=[job])["jobs"][0]
        return lines(logs, found) if "logStreamName" in found["container"] else []

    assert until(seen, "the first line") == ["early"]
    assert batch.describe_jobs(jobs=[job])["jobs"][0]["status"] == "RUNNING"
    batch.terminate_job(jobId=job, reason="seen")


def test_a_job_that_is_over_has_its_whole_log(running: Emulator) -> None:
    batch, logs = client(running, "batch"), client(running, "logs")

    job = run(batch, [sys.executable, "-c", "for i in range(3000): print('line', i)"])

    assert lines(logs, job) == [f"line {i}" for i in range(3000)]


def test_a_group_that_is_missing_fails_the_start_in_ecs_words(running: Emulator) -> None:
    batch = client(running, "batch")
    options = {"awslogs-group": unique("/missing")}

    job = run(batch, ["true"], logConfiguration={"logDriver": "awslogs", "options": options})

    assert job["status"] == "FAILED"
    assert job["statusReason"] == "Task failed to start"
    assert re.fullmatch(
        r"ResourceInitializationError: failed to validate logger args: create stream has been"
        r" retried 1 times: failed to create Cloudwatch log stream: ResourceNotFoundException: The"
        r" specified log group does not exist\.",
        job["container"]["reason"],
    )


def test_a_group_is_made_where_the_definition_asks_for_it(running: Emulator) -> None:
    batch, logs = client(running, "batch"), client(running, "logs")
    group = unique("/mine")
    options = {"awslogs-group": group, "awslogs-create-group": "true"}

    job = run(
        batch, ["echo", "here"], logConfiguration={"logDriver": "awslogs", "options": options}
    )

    assert lines(logs, job, group) == ["here"]


# -- faults ---------------------------------------------------------------------------------------


def test_a_missing_stream_never_comes_into_being() -> None:
    faults = Faults()
    faults.add(Fault("no-log-stream", job="name"))
    written = Written(faults).write(b"lost\n", b"")

    with pytest.raises(LogsError, match="log stream does not exist"):
        written.page()


def test_a_missing_stream_is_that_of_the_jobs_that_are_meant() -> None:
    faults = Faults()
    faults.add(Fault("no-log-stream", job="other"))

    assert Written(faults).write(b"kept\n", b"").texts == ["kept"]


def test_a_late_stream_comes_late_with_all_that_is_in_it() -> None:
    faults = Faults()
    faults.add(Fault("late-log-stream", value="0.3"))
    written = Written(faults)
    written.sink.start()
    try:
        written.write(b"a\n", b"b\n", b"")
        with pytest.raises(LogsError, match="log stream does not exist"):
            written.page()

        def there() -> list[str]:
            try:
                return written.texts
            except LogsError:
                return []

        assert until(there, "the stream") == ["a", "b"]
    finally:
        written.sink.stop()


# -- pages ----------------------------------------------------------------------------------------


def test_a_reader_who_comes_before_the_first_line_loses_nothing() -> None:
    written = Written()
    tail = written.page(startFromHead=False)
    assert tail["events"] == []

    written.write(b"first\nsecond\n", b"")

    page = written.page(nextToken=tail["nextForwardToken"])
    assert [event["message"] for event in page["events"]] == ["first", "second"]


def test_the_end_is_where_the_same_token_comes_back() -> None:
    written = Written().write(b"a\nb\n", b"")
    page = written.page()

    end = written.page(nextToken=page["nextForwardToken"])
    again = written.page(nextToken=end["nextForwardToken"])

    assert end["events"] == again["events"] == []
    assert page["nextForwardToken"] == end["nextForwardToken"] == again["nextForwardToken"]


def test_a_follower_sees_what_is_written_after_the_end_was_reached() -> None:
    written = Written().write(b"a\n")
    written.sink.start()
    written.sink.stop()
    token = written.page()["nextForwardToken"]
    token = written.page(nextToken=token)["nextForwardToken"]

    written.write(b"b\n", b"")

    page = written.page(nextToken=token)
    assert [event["message"] for event in page["events"]] == ["b"]


@given(count=st.integers(0, 25), limit=st.integers(1, 8), head=st.booleans())
@settings(max_examples=60, deadline=None)
def test_walking_all_pages_gives_every_line_once(count: int, limit: int, head: bool) -> None:
    expected = [f"line {i}" for i in range(count)]
    written = Written().write(*[f"{line}\n".encode() for line in expected], b"")
    direction = "nextForwardToken" if head else "nextBackwardToken"
    found: list[str] = []
    page = written.page(limit=limit, startFromHead=head)
    while True:
        texts = [event["message"] for event in page["events"]]
        assert len(texts) <= limit
        found = found + texts if head else texts + found
        token = page[direction]
        page = written.page(limit=limit, nextToken=token, startFromHead=head)
        if page[direction] == token and not page["events"]:
            break

    assert found == expected


def test_going_back_from_the_end_gives_what_came_before() -> None:
    written = Written().write(*[f"{i}\n".encode() for i in range(6)], b"")
    last = written.page(limit=2, startFromHead=False)
    before = written.page(limit=2, nextToken=last["nextBackwardToken"])
    forward = written.page(limit=2, nextToken=before["nextForwardToken"])

    assert [event["message"] for event in last["events"]] == ["4", "5"]
    assert [event["message"] for event in before["events"]] == ["2", "3"]
    assert [event["message"] for event in forward["events"]] == ["4", "5"]


def test_a_page_holds_at_most_one_megabyte() -> None:
    written = Written().write(*[b"x" * 200_000 + b"\n" for _ in range(12)], b"")

    page = written.page()

    assert len(page["events"]) == 5
    assert len(written.page(nextToken=page["nextForwardToken"])["events"]) == 5


def test_a_page_holds_at_most_ten_thousand_events() -> None:
    written = Written().write(b"x\n" * 10_001, b"")

    page = written.page()

    assert len(page["events"]) == 10_000
    assert len(written.page(nextToken=page["nextForwardToken"])["events"]) == 1


def test_a_start_is_included_and_an_end_is_not() -> None:
    written = Written()
    for line in (b"a\n", b"b\n", b"c\n"):
        written.clock.advance(10)
        written.write(line)
    written.write(b"")
    times = [event["timestamp"] for event in written.page()["events"]]

    page = written.page(startTime=times[1], endTime=times[2])

    assert [event["message"] for event in page["events"]] == ["b"]


@pytest.mark.parametrize("limit", [0, 10_001])
def test_a_limit_out_of_bounds_is_refused(running: Emulator, limit: int) -> None:
    logs = client(running, "logs", parameter_validation=False)

    with pytest.raises(logs.exceptions.InvalidParameterException):
        logs.get_log_events(logGroupName=GROUP, logStreamName="a", limit=limit)


def test_a_token_that_nobody_gave_is_refused(running: Emulator) -> None:
    batch, logs = client(running, "batch"), client(running, "logs")
    stream = run(batch, ["true"])["container"]["logStreamName"]

    with pytest.raises(logs.exceptions.InvalidParameterException, match="nextToken is invalid"):
        logs.get_log_events(logGroupName=GROUP, logStreamName=stream, nextToken="f/1")


def test_a_stream_that_does_not_exist_is_told_from_a_group(running: Emulator) -> None:
    logs = client(running, "logs")
    run(client(running, "batch"), ["true"])

    with pytest.raises(logs.exceptions.ResourceNotFoundException, match="log stream does not"):
        logs.get_log_events(logGroupName=GROUP, logStreamName=unique())
    with pytest.raises(logs.exceptions.ResourceNotFoundException, match="log group does not"):
        logs.get_log_events(logGroupName=unique(), logStreamName="a")


def test_filtering_over_several_streams_gives_every_line_once(running: Emulator) -> None:
    batch, logs = client(running, "batch"), client(running, "logs")
    jobs = [run(batch, ["sh", "-c", f"echo {n}-a; echo {n}-b; echo {n}-c"]) for n in (1, 2)]
    streams = [job["container"]["logStreamName"] for job in jobs]
    pages = logs.get_paginator("filter_log_events").paginate(
        logGroupName=GROUP,
        logStreamNames=streams,
        interleaved=True,
        PaginationConfig={"PageSize": 4},
    )

    found = sorted(event["message"] for page in pages for event in page["events"])

    assert found == ["1-a", "1-b", "1-c", "2-a", "2-b", "2-c"]


def test_filtering_by_a_prefix_gives_those_streams_alone(running: Emulator) -> None:
    batch, logs = client(running, "batch"), client(running, "logs")
    mine, _ = run(batch, ["echo", "mine"]), run(batch, ["echo", "other"])
    prefix = mine["container"]["logStreamName"].partition("/")[0]

    found = logs.filter_log_events(logGroupName=GROUP, logStreamNamePrefix=prefix)["events"]
    none = logs.filter_log_events(logGroupName=GROUP, logStreamNamePrefix=unique())["events"]

    assert [event["message"] for event in found] == ["mine"]
    assert none == []


def test_streams_of_a_definition_are_listed_by_their_prefix(running: Emulator) -> None:
    batch, logs = client(running, "batch"), client(running, "logs")
    job = run(batch, ["true"])
    stream = job["container"]["logStreamName"]

    found = logs.describe_log_streams(
        logGroupName=GROUP, logStreamNamePrefix=stream.partition("/")[0]
    )["logStreams"]

    assert [entry["logStreamName"] for entry in found] == [stream]


def test_events_far_ahead_of_the_machines_clock_are_kept() -> None:
    with emulator() as made:
        made.clock.advance(86_400 * 365)
        batch, logs = client(made, "batch"), client(made, "logs")

        job = run(batch, ["echo", "from the future"])

        assert lines(logs, job) == ["from the future"]


def test_a_user_may_write_streams_of_their_own(running: Emulator) -> None:
    logs, group = client(running, "logs"), unique("/own")
    logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName="s")
    import time

    now = int(time.time() * 1000)
    later = [{"timestamp": now, "message": "later"}]
    earlier = [{"timestamp": now - 1000, "message": "earlier"}]
    logs.put_log_events(logGroupName=group, logStreamName="s", logEvents=later)
    logs.put_log_events(logGroupName=group, logStreamName="s", logEvents=earlier)

    page = logs.get_log_events(logGroupName=group, logStreamName="s", startFromHead=True)

    assert [event["message"] for event in page["events"]] == ["earlier", "later"]


def test_a_deleted_stream_is_gone_for_readers(running: Emulator) -> None:
    batch, logs = client(running, "batch"), client(running, "logs")
    stream = run(batch, ["echo", "x"])["container"]["logStreamName"]

    logs.delete_log_stream(logGroupName=GROUP, logStreamName=stream)

    with pytest.raises(ClientError, match="log stream does not exist"):
        logs.get_log_events(logGroupName=GROUP, logStreamName=stream)
