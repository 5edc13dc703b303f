"""Logs of apps in memory."""

from __future__ import annotations

import threading
from datetime import datetime, timezone

import pytest

from wherry.errors import UnknownAppError, UnknownNameError, WaitTimeout
from wherry.schedulers.api import Stream
from wherry.specs import AppDef, Role
from wherry.testing import Clock, LogLine, MemoryScheduler, Outcome

START = 1000
LOG = [
    LogLine("first", at=0),
    LogLine("second", Stream.STDERR, at=10),
    LogLine("third", at=20),
]


def app(**fields):
    return AppDef("a", [Role(**{"name": "main", "entrypoint": "prog", **fields})])


def started(*outcomes, auto=True, **fields):
    scheduler = MemoryScheduler(clock=Clock(START, auto=auto))
    scheduler.script(*outcomes)
    return scheduler, scheduler.submit(app(**fields), {})


def moment(seconds):
    return datetime.fromtimestamp(START + seconds, timezone.utc)


def test_lines_appear_at_their_time():
    scheduler, app_id = started(Outcome.succeed(after=30, log=LOG))

    assert list(scheduler.log_iter(app_id, "main")) == ["first\n"]
    scheduler.clock.advance(10)
    assert list(scheduler.log_iter(app_id, "main")) == ["first\n", "second\n"]
    scheduler.clock.advance(20)
    assert list(scheduler.log_iter(app_id, "main")) == ["first\n", "second\n", "third\n"]


def test_text_is_a_line_on_standard_output_at_the_start():
    scheduler, app_id = started(Outcome.hang(log=["with its end\n", "without", "50%\r"]))

    lines = list(scheduler.log_iter(app_id, "main", streams=Stream.STDOUT))

    assert lines == ["with its end\n", "without\n", "50%\r"]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"streams": Stream.STDOUT}, ["first\n", "third\n"]),
        ({"streams": Stream.STDERR}, ["second\n"]),
        ({"streams": Stream.COMBINED}, ["first\n", "second\n", "third\n"]),
        ({"regex": "^(f|t).*d?$"}, ["first\n", "third\n"]),
        ({"since": moment(10)}, ["second\n", "third\n"]),
        ({"until": moment(10)}, ["first\n"]),
        ({"since": moment(5), "until": moment(15)}, ["second\n"]),
        ({"attempt": 1}, ["first\n", "second\n", "third\n"]),
    ],
)
def test_lines_are_chosen(chosen, expected):
    scheduler, app_id = started(Outcome.succeed(after=30, log=LOG))
    scheduler.clock.advance(30)

    assert list(scheduler.log_iter(app_id, "main", **chosen)) == expected


def test_what_a_stopped_attempt_had_not_written_is_not_there():
    scheduler, app_id = started(Outcome.hang(log=LOG))
    scheduler.clock.advance(15)

    scheduler.cancel(app_id)
    scheduler.clock.advance(15)

    assert list(scheduler.log_iter(app_id, "main")) == ["first\n", "second\n"]


def test_the_attempts_follow_each_other():
    scheduler, app_id = started(Outcome.fail(log=["one"]), Outcome.fail(log=["two"]), max_retries=1)

    assert list(scheduler.log_iter(app_id, "main")) == ["one\n", "two\n"]
    assert list(scheduler.log_iter(app_id, "main", attempt=2)) == ["two\n"]


def test_a_replica_has_its_own_log():
    scheduler = MemoryScheduler()
    scheduler.script(Outcome.succeed(log=["zero"]), replica=0)
    scheduler.script(Outcome.succeed(log=["one"]), replica=1)
    app_id = scheduler.submit(app(num_replicas=2), {})

    assert list(scheduler.log_iter(app_id, "main", 1)) == ["one\n"]


def test_a_line_can_be_sought():
    scheduler, app_id = started(Outcome.succeed(log=[f"line {k}" for k in range(100)]))

    lines = scheduler.log_iter(app_id, "main")

    assert lines[50] == "line 50\n"
    assert next(lines) == "line 51\n"
    assert lines[0] == "line 0\n"
    assert lines[10:12] == ["line 10\n", "line 11\n"]
    for index in (100, -1):
        with pytest.raises(IndexError):
            lines[index]


def test_a_tail_moves_the_clock_to_the_last_line_of_the_last_attempt():
    scheduler, app_id = started(
        Outcome.fail(after=30, log=LOG), Outcome.succeed(after=5, log=["again"]), max_retries=1
    )

    lines = list(scheduler.log_iter(app_id, "main", should_tail=True))

    assert lines == ["first\n", "second\n", "third\n", "again\n"]
    assert scheduler.clock.now() == START + 35


def test_a_tail_of_what_never_ends_says_so_after_its_lines():
    scheduler, app_id = started(Outcome.hang(log=LOG))
    lines = scheduler.log_iter(app_id, "main", should_tail=True)

    assert [next(lines) for _ in LOG] == ["first\n", "second\n", "third\n"]
    with pytest.raises(WaitTimeout, match="nothing more is scripted"):
        next(lines)


def test_a_tail_on_a_manual_clock_follows_another_thread():
    scheduler, app_id = started(Outcome.succeed(after=30, log=LOG), auto=False)
    seen = []
    thread = threading.Thread(
        target=lambda: seen.extend(scheduler.log_iter(app_id, "main", should_tail=True))
    )
    thread.start()

    for _ in range(3):
        scheduler.clock.advance(10)
    thread.join()

    assert seen == ["first\n", "second\n", "third\n"]


def test_the_logs_of_all_replicas_are_followed_in_the_order_of_time():
    scheduler = MemoryScheduler()
    for k in range(2):
        log = [LogLine(f"{k} at {at}", at=at) for at in (k, k + 10)]
        scheduler.script(Outcome.succeed(after=20, log=log), replica=k)
    app_id = scheduler.submit(app(num_replicas=2), {})

    chunks = list(scheduler.follow(app_id))

    assert [(chunk.role, chunk.data) for chunk in chunks] == [
        ("main", b"0 at 0\n"),
        ("main", b"1 at 1\n"),
        ("main", b"0 at 10\n"),
        ("main", b"1 at 11\n"),
    ]
    with pytest.raises(UnknownAppError):
        scheduler.follow("never-was")


def test_the_bytes_of_a_log_are_those_that_were_written():
    scheduler, app_id = started(Outcome.succeed(log=["caf\u00e9", "50%\r"]))

    assert b"".join(scheduler.log_bytes(app_id, "main")) == "caf\u00e9\n50%\r".encode()


def test_a_log_of_what_is_not_there_is_an_error_at_once():
    scheduler, app_id = started(Outcome.succeed())

    with pytest.raises(UnknownAppError, match="did you mean 'a-1'"):
        scheduler.log_iter("a-2", "main")
    with pytest.raises(UnknownNameError, match="did you mean 'main'"):
        scheduler.log_iter(app_id, "mian")
    for k in (1, -1):
        with pytest.raises(UnknownNameError, match="it has 1, from 0"):
            scheduler.log_iter(app_id, "main", k)
    with pytest.raises(UnknownNameError, match="no attempt 2"):
        scheduler.log_iter(app_id, "main", attempt=2)
    with pytest.raises(ValueError, match="no such stream"):
        scheduler.log_iter(app_id, "main", streams="stdin")
    with pytest.raises(ValueError, match="not a regular expression"):
        scheduler.log_iter(app_id, "main", regex="(")
