"""One stream is read to its end, whatever its pages look like, and no line is lost or repeated."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.cloud import client, emulator, unique
from support.cloud import run as run_job
from support.fake_logs import GROUP, FakeLogs, Time
from wherry.aws.calls import Calls
from wherry.aws.logs import STREAM, StreamReader, missing
from wherry.emulator.faults import Fault
from wherry.emulator.server.emulator import Emulator
from wherry.errors import AwsError


@pytest.fixture(scope="module")
def running() -> Iterator[Emulator]:
    with emulator() as made:
        yield made


def fake(**options: Any) -> tuple[Time, FakeLogs, StreamReader]:
    clock = Time()
    logs = FakeLogs(clock, **options)
    logs.create("s")
    return clock, logs, StreamReader(logs, GROUP, "s")


def texts(events: Any) -> list[str]:
    return [event.text for event in events]


@given(
    count=st.integers(0, 40),
    page=st.integers(1, 7),
    gaps=st.booleans(),
    looks=st.lists(st.integers(0, 40), max_size=5).map(sorted),
)
@settings(deadline=None)
def test_all_lines_are_read_once_however_often_one_looks(
    count: int, page: int, gaps: bool, looks: list[int]
) -> None:
    clock, logs, reader = fake(page=page, gaps=gaps)
    for number in range(count):
        logs.write("s", f"line {number}", at=number)

    found = []
    for second in [*looks, 41]:
        clock.now = max(clock.now, 1_700_000_000.0 + second)
        found += texts(reader.read())
        assert reader.at_end

    assert found == [f"line {number}" for number in range(count)]


def test_the_end_is_where_the_same_token_comes_back() -> None:
    _, logs, reader = fake(page=2, gaps=True)
    for number in range(3):
        logs.write("s", str(number), at=0.0)

    assert texts(reader.read()) == ["0", "1", "2"]
    assert texts(reader.read()) == []


def test_a_token_that_has_expired_loses_and_repeats_nothing() -> None:
    clock, logs, reader = fake(page=2)
    for number in range(5):
        logs.write("s", str(number), at=number)
    clock.now += 10
    seen = texts(reader.read())
    logs.write("s", "5", at=4.0, comes=20.0)
    logs.write("s", "6", at=100_000)
    clock.now += 100_001

    assert seen + texts(reader.read()) == ["0", "1", "2", "3", "4", "5", "6"]


def test_a_token_that_expires_among_pages_does_no_harm() -> None:
    clock, logs, reader = fake(page=2)
    for number in range(5):
        logs.write("s", str(number), at=number)
    clock.now += 10
    reading = reader.read()
    seen = [next(reading).text for _ in range(2)]
    clock.now += 90_000

    assert seen + texts(reading) == ["0", "1", "2", "3", "4"]


def test_events_that_come_late_are_found_by_looking_again() -> None:
    clock, logs, reader = fake()
    logs.write("s", "early", at=1)
    logs.write("s", "late", at=2, comes=8)
    logs.write("s", "on time", at=3)
    clock.now += 5
    assert texts(reader.read()) == ["early", "on time"]
    clock.now += 5
    assert texts(reader.read()) == []

    assert texts(reader.again()) == ["late"]
    assert texts(reader.again()) == []


def test_pages_without_an_end_are_given_up() -> None:
    asked = 0

    def call(operation: str, /, **params: Any) -> Any:
        nonlocal asked
        asked += 1
        return {"events": [], "nextForwardToken": f"f/{asked}"}

    assert texts(StreamReader(call, GROUP, "s").read()) == []
    assert asked <= 200


def test_a_span_of_time_is_read_to_the_millisecond(running: Emulator) -> None:
    logs = client(running, "logs")
    group = unique("/group")
    logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName="s")
    now = int(time.time() * 1000)
    events = [{"timestamp": now + i, "message": f"{i}"} for i in range(5)]
    logs.put_log_events(logGroupName=group, logStreamName="s", logEvents=events)
    call = Calls(logs, service="logs").call

    reader = StreamReader(call, group, "s", since=now + 1, until=now + 3)

    assert texts(reader.read()) == ["1", "2"]


def test_a_stream_of_many_pages_is_read_whole(running: Emulator) -> None:
    batch, logs = client(running, "batch"), client(running, "logs")
    program = "for i in range(25000): print(i, 'x' * 100)"
    job = run_job(batch, [sys.executable, "-c", program])
    calls = Calls(logs, service="logs")

    reader = StreamReader(calls.call, GROUP, job["container"]["logStreamName"])
    found = texts(reader.read())

    assert found == [f"{i} {'x' * 100}" for i in range(25_000)]
    assert calls.counts["GetLogEvents"] < 12


def test_throttling_and_failures_are_borne(running: Emulator) -> None:
    batch, logs = client(running, "batch"), client(running, "logs")
    job = run_job(batch, ["echo", "here"])
    numbers = [
        running.faults.add(Fault("throttle", service="logs", every=2)),
        running.faults.add(Fault("server-error", service="logs", every=3)),
    ]
    try:
        call = Calls(logs, service="logs", chance=lambda: 0.05).call
        reader = StreamReader(call, GROUP, job["container"]["logStreamName"])
        assert texts(reader.read()) == ["here"]
    finally:
        for number in numbers:
            running.faults.remove(number)


def test_a_stream_that_is_not_there_is_told_from_other_trouble(running: Emulator) -> None:
    call = Calls(client(running, "logs"), service="logs").call

    with pytest.raises(AwsError) as stream:
        StreamReader(call, GROUP, unique("none")).page()
    with pytest.raises(AwsError) as group:
        StreamReader(call, unique("/none"), "s").page()

    assert (missing(stream.value), missing(group.value)) == (STREAM, "group")
    assert missing(AwsError("no", code="AccessDeniedException")) == ""
