"""The log of one replica as it grows: nothing is lost, and an idle tail asks little."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.fake_logs import START, FakeFeed, FakeLogs, Time, job
from wherry.aws.jobs import ContainerView
from wherry.aws.logs import Call
from wherry.errors import AwsError, CredentialsError, ThrottledError, UnknownNameError
from wherry.schedulers.aws_batch.log_notices import Notices
from wherry.schedulers.aws_batch.log_reading import Wanted
from wherry.schedulers.aws_batch.log_tail import ReplicaTail
from wherry.schedulers.aws_batch.replicas import Replica


class World:
    """One replica whose job and log are made up, and a tail on it."""

    def __init__(self, **options: Any) -> None:
        self.time = Time()
        self.logs = FakeLogs(self.time, **options)
        self.feed = FakeFeed(self.time)
        self.told: list[str] = []
        self.seen: list[tuple[float, str]] = []

    def at(self, second: float, status: str, *streams: str, **fields: Any) -> None:
        """Plan that the job changes."""
        self.time.at(second, lambda: self.feed.put(job("j", status, *streams, **fields)))

    def tail(self, wanted: Wanted | None = None) -> Iterator[str]:
        feed: Any = self.feed
        call_of: Callable[[str], Call] = lambda _region: self.logs  # noqa: E731
        return ReplicaTail(
            feed,
            Replica("main", 0, "j"),
            wanted or Wanted(),
            call_of,
            Notices(self.told.append),
            time=self.time,
            wall=self.time,
            sleep=lambda seconds: self.time.go_to(self.time.now + seconds),
        ).lines()

    def read(self, wanted: Wanted | None = None, until: float = float("inf")) -> list[str]:
        """Read the tail to its end, or to a time."""
        tail = self.tail(wanted)
        for line in tail:
            self.seen.append((self.time.now - START, line))
            if self.time.now - START >= until:
                break
        return [line for _, line in self.seen]

    @property
    def now(self) -> float:
        return self.time.now - START


def running(begin: float, end: float, *texts: tuple[float, str], **options: Any) -> World:
    """A job that runs between two seconds and writes in them."""
    world = World(**options)
    world.at(0, "RUNNABLE")
    world.at(begin, "RUNNING", "s")
    world.at(end, "SUCCEEDED", "s", ended_at=end)
    world.logs.create("s")
    for second, text in texts:
        world.logs.write("s", text, at=second)
    return world


def test_a_tail_waits_through_all_states_and_ends_after_the_last_line() -> None:
    world = running(600, 700, (601, "first"), (650, "second"), (700, "last"))

    assert world.read() == ["first\n", "second\n", "last\n"]
    assert world.told == []
    assert world.logs.calls_between(0, 600) == 0


def test_lines_are_seen_within_a_second_while_they_come() -> None:
    world = running(10, 70, *((10 + second, str(second)) for second in range(1, 60)))

    world.read()

    delays = [seen - 10 - int(line) for seen, line in world.seen]
    assert len(delays) == 59
    assert max(delays[3:]) <= 1.0


def test_an_idle_minute_costs_at_most_30_calls_and_fewer_when_it_goes_on() -> None:
    world = running(10, 1000, (11, "only"))

    world.read()

    assert world.logs.calls_between(11, 71) <= 30
    assert world.logs.calls_between(300, 360) <= 16


def test_lines_that_come_some_seconds_after_the_end_are_not_lost() -> None:
    world = running(10, 20, (11, "first"))
    world.logs.write("s", "late", at=19.5, comes=23.5)

    assert world.read() == ["first\n", "late\n"]


def test_a_line_that_comes_late_and_out_of_order_is_not_lost() -> None:
    world = running(10, 40, (11, "a"), (39, "c"))
    world.logs.write("s", "b", at=20, comes=39.9)

    assert sorted(world.read()) == ["a\n", "b\n", "c\n"]


def test_what_ended_long_ago_is_read_without_waiting() -> None:
    world = World()
    world.feed.put(job("j", "FAILED", "s", ended_at=0))
    world.logs.create("s")
    world.logs.write("s", "old", at=0)
    world.time.now += 1000

    assert world.read() == ["old\n"]
    assert world.now == 1000
    assert len(world.logs.calls) == 2


def test_each_attempt_is_read_to_its_end_before_the_next() -> None:
    world = World()
    world.at(0, "RUNNING", "one")
    world.at(30, "RUNNABLE", "one", "", ended_at=30)
    world.at(40, "RUNNING", "one", "two", ended_at=30)
    world.at(60, "SUCCEEDED", "one", "two", ended_at=30)
    for stream in ("one", "two"):
        world.logs.create(stream)
    world.logs.write("one", "1a", at=1)
    world.logs.write("one", "1b", at=29, comes=34)
    world.logs.write("two", "2a", at=41)

    assert world.read() == ["1a\n", "1b\n", "2a\n"]


def test_one_attempt_alone_is_waited_for_and_followed_to_its_own_end() -> None:
    world = World()
    world.at(0, "RUNNING", "one")
    world.at(40, "RUNNING", "one", "two", ended_at=30)
    world.at(60, "RUNNING", "one", "two", "three", ended_at=60)
    for stream in ("one", "two", "three"):
        world.logs.create(stream)
        world.logs.write(stream, f"of {stream}", at=1)

    assert world.read(Wanted(attempt=2)) == ["of two\n"]
    assert 60 <= world.now < 80


def test_an_attempt_that_never_comes_is_an_error() -> None:
    world = running(1, 5)

    with pytest.raises(UnknownNameError, match="main/0 has no attempt 2; it has made 1"):
        world.read(Wanted(attempt=2))


def test_a_stream_that_comes_late_is_waited_for() -> None:
    world = running(10, 20)
    del world.logs.streams["s"]
    world.time.at(26, lambda: world.logs.write("s", "late", at=15, comes=26))

    assert world.read() == ["late\n"]
    assert world.told == []


def test_a_stream_that_never_came_is_told_of_once() -> None:
    world = running(10, 200)
    del world.logs.streams["s"]

    assert world.read() == []
    (told,) = world.told
    assert "no log of main/0" in told
    assert "'s' in the log group '/aws/batch/job'" in told
    assert world.logs.calls_between(100, 160) <= 30


def test_a_stream_of_long_ago_that_is_not_there_is_not_waited_for() -> None:
    world = World()
    world.feed.put(job("j", "FAILED", "s", ended_at=0))
    world.time.now += 100_000

    assert world.read() == []
    assert world.now == 100_000
    assert len(world.told) == 1


def test_a_group_that_is_not_there_is_told_of() -> None:
    world = World()
    lost = ContainerView(log_stream="s", log_group="/mine")
    world.at(0, "RUNNING")
    made = job("j", "FAILED", "s", ended_at=1)
    (attempt,) = made.attempts
    attempt = type(attempt)(1, (lost,), stopped_at=attempt.stopped_at)
    world.time.at(1, lambda: world.feed.put(type(made)("j", "FAILED", attempts=(attempt,))))

    assert world.read() == []
    assert world.told == ["no log of main/0: the log group '/mine' does not exist"]


def test_a_job_that_never_ran_says_why_it_has_no_log() -> None:
    world = World()
    world.at(0, "RUNNABLE")
    world.at(5, "FAILED", reason="Dependent Job failed")

    assert world.read() == []
    assert world.told == ["no log of main/0: it never ran (Dependent Job failed)"]


def test_output_that_goes_elsewhere_is_told_of_and_the_end_is_waited_for() -> None:
    world = World()
    containers = (ContainerView(log_driver="splunk"),)
    world.at(0, "RUNNING", containers=containers)
    world.at(500, "SUCCEEDED", containers=containers)

    assert world.read() == []
    assert world.now >= 500
    (told,) = world.told
    assert "log driver 'splunk', and not to CloudWatch Logs" in told


def test_a_tail_bears_it_when_aws_does_not_answer_for_a_while() -> None:
    world = running(10, 100, (11, "a"), (50, "b"))
    world.time.at(
        40, lambda: world.logs.failures.extend(ThrottledError("too much") for _ in range(3))
    )

    assert world.read() == ["a\n", "b\n"]
    assert world.told == ["the log is late: too much; trying on"]


def test_a_tail_ends_with_what_does_not_pass() -> None:
    world = running(10, 100, (11, "a"))
    world.logs.failures.append(CredentialsError("no such key"))

    with pytest.raises(CredentialsError):
        world.read()


def test_a_tail_gives_up_when_aws_does_not_answer_for_very_long() -> None:
    world = running(10, 100_000, (11, "a"))
    world.time.at(
        40, lambda: world.logs.failures.extend(ThrottledError("too much") for _ in range(10_000))
    )

    with pytest.raises(AwsError):
        world.read()
    assert 900 <= world.now <= 1500


def test_a_tail_until_a_time_ends_then_though_the_job_goes_on() -> None:
    world = running(10, 100_000, *((second, str(second)) for second in range(11, 60)))

    found = world.read(Wanted(until=int((START + 30) * 1000)))

    assert found == [f"{second}\n" for second in range(11, 30)]
    assert world.now < 60


def test_a_tail_since_a_time_begins_there() -> None:
    world = running(10, 100, *((second, str(second)) for second in range(11, 60)))

    found = world.read(Wanted(since=int((START + 50) * 1000)))

    assert found == [f"{second}\n" for second in range(50, 60)]


@given(
    lines=st.lists(st.tuples(st.floats(10, 90), st.floats(0, 4)), max_size=40),
    page=st.integers(1, 10),
    gaps=st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_no_line_is_lost_or_repeated_whenever_it_comes(
    lines: list[tuple[float, float]], page: int, gaps: bool
) -> None:
    world = running(10, 90, page=page, gaps=gaps)
    come = 0.0
    for number, (at, delay) in enumerate(sorted(lines)):
        come = max(come, at + delay)  # a driver sends in order
        world.logs.write("s", str(number), at=at, comes=come)

    assert sorted(world.read(), key=int) == [f"{number}\n" for number in range(len(lines))]
