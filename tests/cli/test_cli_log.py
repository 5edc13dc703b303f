"""``wherry log``: whose lines, which lines."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.cli.targets import read_ranges
from wherry.errors import UsageError
from wherry.schedulers.api import Stream
from wherry.testing import MemoryScheduler, Outcome
from wherry.testing.outcomes import LogLine

COMMAND = (sys.executable, "-m", "wherry.cli")


@pytest.fixture
def app(invoke: Callable, memory: MemoryScheduler) -> str:
    """The id of an app of five replicas that wrote a line each, and one on stderr."""
    for k in range(5):
        lines = [LogLine(f"out {k}"), LogLine(f"err {k}", Stream.STDERR)]
        memory.script(Outcome.succeed(log=lines), replica=k)
    assert invoke("run", "--array", "5", "utils.echo").code == 0
    return "echo-1"


def test_lines_of_all_replicas_have_a_prefix(invoke: Callable, app: str) -> None:
    done = invoke("log", app)

    expected = [f"echo/{k} {word} {k}" for k in range(5) for word in ("out", "err")]
    assert (done.code, done.out.splitlines()) == (0, expected)


@pytest.mark.parametrize(
    ("replicas", "shown"),
    [("0,3-4", [0, 3, 4]), ("4,0", [4, 0]), ("1-2,2", [1, 2])],
)
def test_some_replicas_can_be_chosen(
    invoke: Callable, app: str, replicas: str, shown: list[int]
) -> None:
    done = invoke("log", "--streams", "stdout", f"memory://wherry/{app}/echo/{replicas}")

    assert done.out.splitlines() == [f"echo/{k} out {k}" for k in shown]


def test_lines_of_one_replica_have_no_prefix(invoke: Callable, app: str) -> None:
    assert invoke("log", f"{app}/echo/2").out == "out 2\nerr 2\n"


@pytest.mark.parametrize(("stream", "word"), [("stdout", "out"), ("stderr", "err")])
def test_one_stream_can_be_chosen(invoke: Callable, app: str, stream: str, word: str) -> None:
    assert invoke("log", "--streams", stream, f"{app}/echo/1").out == f"{word} 1\n"


@pytest.mark.parametrize("follow", [(), ("-f",)])
def test_lines_can_be_searched(invoke: Callable, app: str, follow: tuple[str, ...]) -> None:
    done = invoke("log", *follow, "--regex", "err [13]", app)

    assert done.out.splitlines() == ["echo/1 err 1", "echo/3 err 3"]


def test_lines_can_be_chosen_by_time(invoke: Callable, memory: MemoryScheduler) -> None:
    memory.script(Outcome.succeed(after=100, log=[LogLine("early"), LogLine("late", at=60)]))
    began = memory.clock.now()
    invoke("run", "utils.echo")
    from wherry.cli.times import show_time

    middle = show_time(began + 30)

    assert invoke("log", "echo-1", "--since", middle).out == "late\n"
    assert invoke("log", "-f", "echo-1", "--until", middle).out == "early\n"


def test_one_attempt_can_be_chosen(invoke: Callable, memory: MemoryScheduler) -> None:
    memory.script(Outcome.fail(1, log=["first"]), attempt=1)
    memory.script(Outcome.succeed(log=["second"]), attempt=2)
    Path("again.py").write_text(
        "import wherry\n\n"
        "def again() -> wherry.AppDef:\n"
        "    role = wherry.Role('main', entrypoint='x', max_retries=1)\n"
        "    return wherry.AppDef('again', [role])\n"
    )
    invoke("run", "again.py:again")

    assert invoke("log", "again-1").out == "first\nsecond\n"
    assert invoke("log", "--attempt", "2", "again-1").out == "second\n"
    assert invoke("log", "-f", "--attempt", "1", "again-1").out == "first\n"


def test_many_replicas_can_be_followed_by_time(invoke: Callable, app: str) -> None:
    done = invoke("log", "-f", "--since", "1000w", "--streams", "stdout", app)

    assert sorted(done.out.splitlines()) == [f"echo/{k} out {k}" for k in range(5)]


def test_a_log_is_followed_to_the_end_of_the_app(wherry: Callable) -> None:
    os.mkfifo("go")
    handle = wherry(
        "run", "-d", "utils.sh", f"echo one; read word < {Path('go').resolve()}; printf last"
    ).out.strip()
    with subprocess.Popen([*COMMAND, "log", "-f", handle], stdout=subprocess.PIPE) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == b"one\n"
        Path("go").write_text("go\n")
        assert following.stdout.read() == b"last"

    assert following.returncode == 0


def test_a_log_of_a_running_app_does_not_wait(wherry: Callable) -> None:
    handle = wherry("run", "-d", "utils.sh", "sleep 3600").out.strip()

    assert wherry("log", handle).code == 0
    wherry("cancel", "--kill", handle)


def test_bytes_pass_untouched_into_a_pipe(wherry: Callable) -> None:
    handle = wherry("run", "-d", "--wait", "utils.sh", r"printf '\033[1m\377\000\r'").out.strip()

    done = subprocess.run([*COMMAND, "log", handle], capture_output=True, timeout=60, check=True)

    assert done.stdout == b"\x1b[1m\xff\x00\r"


def test_a_reader_that_goes_away_is_no_error(wherry: Callable) -> None:
    handle = wherry("run", "-d", "--wait", "utils.sh", "yes | head -n 1000000").out.strip()
    with subprocess.Popen(
        [*COMMAND, "log", handle], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as reading:
        assert reading.stdout is not None
        assert reading.stderr is not None
        assert reading.stdout.readline() == b"y\n"
        reading.stdout.close()
        assert reading.stderr.read() == b""

    assert reading.returncode == 141


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("nothing", "no record of app 'nothing'"),
        ("memory://wherry/echo-2", "did you mean memory://wherry/echo-1"),
        ("nowhere://wherry/echo-1", "unknown scheduler 'nowhere'"),
        ("echo-1/ecko", "did you mean 'echo'"),
        ("echo-1/echo/9", "no replica 9; it has replicas 0 to 4"),
        ("echo-1/echo/0-99999999", "no replica 99999999"),
        ("echo-1/echo/x", "0,1,3-5"),
        ("echo-1/echo/3-1", "ends before it begins"),
        ("echo-1/echo/", "0,1,3-5"),
    ],
)
def test_what_does_not_exist_is_told_at_once(
    invoke: Callable, app: str, target: str, problem: str
) -> None:
    for options in ((), ("-f",)):
        done = invoke("log", *options, target)

        assert (done.code, done.out) == (2, "")
        assert problem in done.err


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--regex", "("), "not a regular expression"),
        (("--streams", "stdoot"), "did you mean 'stdout'"),
        (("--since", "yesterday"), "ISO time"),
        (("--attempt", "0"), "whole number from 1"),
        (("--tial",), "did you mean '--tail'"),
    ],
)
def test_options_that_cannot_be_are_told(
    invoke: Callable, app: str, options: tuple[str, ...], problem: str
) -> None:
    done = invoke("log", app, *options)

    assert (done.code, done.out) == (2, "")
    assert problem in done.err


def test_a_stream_that_is_not_offered_is_a_usage_error(
    invoke: Callable, app: str, memory: MemoryScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def only_combined(*_: object, **__: object) -> object:
        raise ValueError("only combined logs are kept here")

    monkeypatch.setattr(memory, "log_bytes", only_combined)

    done = invoke("log", "--streams", "stderr", app)

    assert done.code == 2
    assert "only combined logs are kept here" in done.err


def test_too_many_replicas_are_not_followed_one_by_one(invoke: Callable) -> None:
    invoke("run", "--array", "65", "utils.echo")

    done = invoke("log", "-f", "--since", "1h", "echo-1")

    assert done.code == 2
    assert "name fewer" in done.err


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1))
def test_ranges_are_read_as_written(spans: list[tuple[int, int]]) -> None:
    ranges = [(min(span), max(span)) for span in spans]
    text = ",".join(f"{a}-{b}" if a != b else str(a) for a, b in ranges)

    assert read_ranges(text) == ranges


@given(st.text(alphabet="0123456789,- ab²", max_size=8))
def test_ranges_are_read_or_refused(text: str) -> None:
    try:
        ranges = read_ranges(text)
    except UsageError:
        return
    assert all(0 <= first <= last for first, last in ranges)
