"""The logs of many replicas as they grow: whole lines, none lost, few calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.fake_logs import GROUP, START, FakeFeed, FakeLogs, Time, job
from wherry.aws.jobs import ContainerView
from wherry.aws.log_groups import GroupReader, SharedStream
from wherry.aws.logs import Call
from wherry.errors import CredentialsError, ThrottledError
from wherry.schedulers.aws_batch.log_follow import Follower
from wherry.schedulers.aws_batch.log_notices import Notices
from wherry.schedulers.aws_batch.replicas import Replica


class World:
    """Replicas whose jobs and logs are made up, and somebody who follows them."""

    def __init__(self, count: int, **options: Any) -> None:
        self.count = count
        self.time = Time()
        self.logs = FakeLogs(self.time, **options)
        self.feed = FakeFeed(self.time)
        self.told: list[str] = []
        self.seen: list[tuple[float, int, str]] = []

    def at(self, second: float, k: int, status: str, *streams: str, **fields: Any) -> None:
        """Plan that a replica's job changes."""
        self.time.at(second, lambda: self.feed.put(job(f"j:{k}", status, *streams, **fields)))

    def runs(self, k: int, begin: float, end: float, *, stream: bool = True) -> str:
        """Plan that a replica runs once; returns its stream."""
        name = f"s{k}"
        self.at(begin, k, "RUNNING", name)
        self.at(end, k, "SUCCEEDED", name, ended_at=end)
        if stream:
            self.logs.create(name)
        return name

    def follow(self) -> dict[int, list[str]]:
        """Follow to the end; returns the lines of each replica, in the order of their coming."""
        feed: Any = self.feed
        call_of: Callable[[str], Call] = lambda _region: self.logs  # noqa: E731
        follower = Follower(
            feed,
            [Replica("main", k, f"j:{k}") for k in range(self.count)],
            call_of,
            Notices(self.told.append),
            time=self.time,
            wall=self.time,
            sleep=lambda seconds: self.time.go_to(self.time.now + seconds),
        )
        found: dict[int, list[str]] = {}
        for chunk in follower.chunks():
            assert chunk.data.endswith(b"\n")
            for line in chunk.data.decode().splitlines():
                self.seen.append((self.time.now - START, chunk.replica, line))
                found.setdefault(chunk.replica, []).append(line)
        return found


def test_all_lines_of_all_replicas_come_in_the_order_of_each() -> None:
    world = World(250)
    for k in range(250):
        stream = world.runs(k, 10 + k % 7, 60 + k % 5)
        for number in range(20):
            world.logs.write(stream, f"{k}.{number}", at=20 + number)

    assert world.follow() == {k: [f"{k}.{n}" for n in range(20)] for k in range(250)}
    assert world.told == []


def test_a_thousand_that_write_now_and_then_cost_a_few_calls_a_second() -> None:
    world = World(1000)
    for k in range(1000):
        stream = world.runs(k, 10, 200)
        for number in range(5):
            world.logs.write(stream, str(number), at=20 + number * 30 + k % 29)

    world.follow()

    assert len(world.seen) == 5000
    assert world.logs.calls_between(60, 120) <= 4 * 60
    assert len(world.logs.calls) < 1000


def test_a_thousand_idle_ones_cost_at_most_30_calls_a_minute() -> None:
    world = World(1000)
    for k in range(1000):
        world.logs.write(world.runs(k, 10, 1000), "hello", at=11)

    world.follow()

    assert world.logs.calls_between(200, 260) <= 30


def test_two_idle_ones_cost_no_more_than_one() -> None:
    world = World(2)
    for k in range(2):
        world.logs.write(world.runs(k, 10, 1000), "hello", at=11)

    world.follow()

    assert world.logs.calls_between(11.5, 71.5) <= 30
    assert world.logs.calls_between(200, 260) <= 16


def test_lines_are_seen_within_a_second_while_they_come() -> None:
    world = World(50)
    for k in range(50):
        stream = world.runs(k, 10, 100)
        for number in range(60):
            world.logs.write(stream, str(11 + number), at=11 + number)

    world.follow()

    assert max(seen - int(line) for seen, _, line in world.seen if int(line) > 20) <= 1.0


def test_what_ended_long_ago_is_read_in_a_call_for_a_hundred() -> None:
    world = World(1000)
    for k in range(1000):
        world.feed.put(job(f"j:{k}", "SUCCEEDED", f"s{k}", ended_at=0))
        world.logs.create(f"s{k}")
        world.logs.write(f"s{k}", f"of {k}", at=0)
    world.time.now += 1000

    assert world.follow() == {k: [f"of {k}"] for k in range(1000)}
    assert world.logs.counts == Counter(FilterLogEvents=10)
    assert world.time.now - START == 1000


def test_last_lines_that_come_late_are_not_lost() -> None:
    world = World(3)
    for k in range(3):
        stream = world.runs(k, 10, 20 + k)
        world.logs.write(stream, "last", at=19, comes=24)

    assert world.follow() == {k: ["last"] for k in range(3)}


def test_lines_that_come_minutes_late_among_others_that_do_not_are_not_lost() -> None:
    world = World(2)
    loud, late = world.runs(0, 10, 2000), world.runs(1, 10, 2000)
    for number in range(190):
        world.logs.write(loud, str(number), at=20 + 10 * number)
    world.logs.write(late, "first", at=20)
    for number in range(10):
        world.logs.write(late, f"held up {number}", at=100 + 60 * number, comes=1000)
    world.logs.write(late, "after", at=1001)

    found = world.follow()

    assert found[1] == ["first", *(f"held up {number}" for number in range(10)), "after"]
    assert found[0] == [str(number) for number in range(190)]


def test_a_host_whose_clock_is_behind_is_heard() -> None:
    world = World(2)
    right, wrong = world.runs(0, 10, 400), world.runs(1, 10, 400)
    for number in range(300):
        world.logs.write(right, str(number), at=20 + number)
        world.logs.write(wrong, str(number), at=20 + number - 200, comes=20 + number)

    found = world.follow()

    assert found[0] == found[1] == [str(number) for number in range(300)]
    delays = [seen - 20 - int(line) for seen, k, line in world.seen if k == 1]
    assert max(delays) < 10


def test_attempts_follow_one_another() -> None:
    world = World(2)
    world.runs(1, 0, 100)
    world.at(0, 0, "RUNNING", "one")
    world.at(30, 0, "RUNNABLE", "one", "", ended_at=30)
    world.at(31, 0, "RUNNING", "one", "two", ended_at=30)
    world.at(60, 0, "SUCCEEDED", "one", "two", ended_at=30)
    for stream in ("one", "two"):
        world.logs.create(stream)
    world.logs.write("one", "1a", at=1)
    world.logs.write("one", "1b", at=29, comes=34)
    world.logs.write("two", "2a", at=31)

    assert world.follow() == {0: ["1a", "1b", "2a"]}


def test_a_line_that_was_cut_is_whole_though_its_parts_come_apart() -> None:
    world = World(2)
    world.runs(1, 0, 100)
    stream = world.runs(0, 0, 100)
    world.logs.write(stream, "a" * 262_118, at=1)
    world.logs.write(stream, "b", at=1, comes=20)

    assert world.follow() == {0: ["a" * 262_118 + "b"]}


# -- streams that are not there -------------------------------------------------------------------


def test_streams_that_are_missing_do_not_keep_the_others_from_being_read() -> None:
    world = World(150)
    for k in range(150):
        stream = world.runs(k, 10, 200, stream=k not in (7, 77))
        if k not in (7, 77):
            world.logs.write(stream, f"of {k}", at=50)

    found = world.follow()

    assert found == {k: [f"of {k}"] for k in range(150) if k not in (7, 77)}
    (told,) = world.told
    assert told.startswith("no log of main/7, main/77: ")
    assert world.logs.calls_between(100, 160) <= 60


def test_a_stream_that_comes_late_is_read_from_its_beginning() -> None:
    world = World(3)
    for k in range(3):
        world.runs(k, 10, 100, stream=k != 1)
    world.time.at(40, lambda: world.logs.write("s1", "a", at=11, comes=40))
    world.logs.write("s0", "b", at=40)

    assert world.follow() == {0: ["b"], 1: ["a"]}
    assert world.told == [] or "s1" in world.told[0]


def test_all_streams_missing_is_one_line() -> None:
    world = World(300)
    for k in range(300):
        world.runs(k, 10, 20, stream=False)

    assert world.follow() == {}
    (told,) = world.told
    assert told.startswith("no log of main/")
    assert "and 297 more: " in told
    assert len(world.logs.calls) < 1000


def test_jobs_that_never_ran_are_one_line() -> None:
    world = World(30)
    for k in range(30):
        world.at(5, k, "FAILED", reason="Task failed to start")

    assert world.follow() == {}
    assert world.told == [
        "no log of main/0, main/1, main/2 and 27 more: main/0: it never ran (Task failed to start)"
    ]
    assert world.logs.calls == []


def test_output_that_goes_elsewhere_is_told_of_once() -> None:
    world = World(30)
    containers = (ContainerView(log_driver="splunk"),)
    for k in range(30):
        world.at(1, k, "RUNNING", containers=containers)
        world.at(50, k, "SUCCEEDED", containers=containers)

    assert world.follow() == {}
    assert world.time.now - START >= 50
    (told,) = world.told
    assert "splunk" in told


def test_a_stream_of_long_ago_that_is_not_there_is_not_waited_for() -> None:
    world = World(2)
    for k in range(2):
        world.feed.put(job(f"j:{k}", "FAILED", f"s{k}", ended_at=0))
    world.time.now += 100_000

    assert world.follow() == {}
    assert world.time.now - START == 100_000
    assert len(world.told) == 1


# -- trouble --------------------------------------------------------------------------------------


def test_what_was_read_before_a_page_failed_is_neither_lost_nor_repeated() -> None:
    world = World(2, page=3)
    for k in range(2):
        stream = world.runs(k, 10, 100)
        for number in range(20):
            world.logs.write(stream, str(number), at=20 + number)
    for second in (25, 32, 39):
        world.time.at(second, lambda: world.logs.failures.append(ThrottledError("too much")))

    expected = [str(number) for number in range(20)]
    assert world.follow() == {0: expected, 1: expected}
    assert world.told == ["the log is late: too much; trying on"]


def test_what_does_not_pass_ends_it() -> None:
    world = World(2)
    for k in range(2):
        world.runs(k, 10, 100)
    world.logs.failures.append(CredentialsError("no such key"))

    with pytest.raises(CredentialsError):
        world.follow()


@given(
    lines=st.lists(
        st.tuples(st.integers(0, 4), st.floats(10, 190), st.sampled_from([0, 1, 3, 7, 20, 60])),
        max_size=60,
    ),
    page=st.integers(1, 10),
    gaps=st.booleans(),
)
@settings(deadline=None, max_examples=80)
def test_no_line_is_lost_or_repeated_whenever_it_comes(
    lines: list[tuple[int, float, int]], page: int, gaps: bool
) -> None:
    world = World(5, page=page, gaps=gaps)
    for k in range(5):
        world.runs(k, 10, 300)
    come = dict.fromkeys(range(5), 0.0)
    expected: dict[int, list[str]] = {}
    for number, (k, at, delay) in enumerate(sorted(lines, key=lambda line: line[1])):
        come[k] = max(come[k], at + delay)  # a driver sends in order
        world.logs.write(f"s{k}", str(number), at=at, comes=come[k])
        expected.setdefault(k, []).append(str(number))

    assert world.follow() == expected


def test_a_look_reaches_back_less_far_when_much_is_written() -> None:
    time = Time()
    logs = FakeLogs(time)
    logs.create("s")
    for number in range(20_000):
        logs.write("s", str(number), at=number / 100)
    reader, stream = GroupReader(logs, GROUP), SharedStream("s")

    found = []
    for second in range(201):
        time.now = START + second
        found += [event.text for _, event in reader.look([stream])]

    assert found == [str(number) for number in range(20_000)]
    assert stream.floor > (time.now - 60) * 1000
