"""However a call ends, it is told as what it is, in the same words on every executor."""

from __future__ import annotations

import concurrent.futures
import ctypes
import os
import signal
import sys
import threading
import time

import pytest

from support.waiting import until
from wherry import AppState, errors
from wherry.schedulers.local.replica import oom_kills

SECONDS = 100


def leave():
    os._exit(3)


def leave_well():
    os._exit(0)


def segfault():
    ctypes.string_at(0)


def end_by(number):
    os.kill(os.getpid(), number)
    time.sleep(60)


def recurse(depth=0):
    return recurse(depth + 1)


def returns_a_lock():
    return {"model": [threading.Lock()]}


def returns_a_generator():
    return (n for n in range(3))


def raises_what_stays_there():
    class Stubborn(Exception):  # noqa: N818
        def __reduce__(self):
            raise TypeError("I stay here")

    raise Stubborn("of no use elsewhere")


def raises_what_needs_more():
    class Particular(Exception):  # noqa: N818
        def __init__(self, name, number):
            super().__init__(f"{name} has {number}")

    raise Particular("the shelf", 3)


def raises_a_class_of_its_own_machine():
    import types

    module = types.ModuleType("only_there")
    exec("class Odd(Exception): pass", module.__dict__)
    sys.modules["only_there"] = module
    raise module.Odd("made there")


@pytest.mark.parametrize(
    ("fn", "args", "error", "words"),
    [
        (int, ["word"], ValueError, "invalid literal"),
        (sys.exit, [4], errors.JobExitError, r"exit code 4; return a value"),
        (sys.exit, ["no more"], errors.JobExitError, r"no more"),
        (leave, [], errors.JobExitError, r"exit code 3 .*os\._exit.*job\.log\(\)"),
        (leave_well, [], errors.ResultError, r"left no result; os\._exit\(0\)"),
        (segfault, [], errors.JobKilledError, r"SIGSEGV"),
        (end_by, [signal.SIGKILL], errors.JobKilledError, "SIGKILL"),
        (end_by, [signal.SIGTERM], errors.JobKilledError, "SIGTERM"),
        (recurse, [], RecursionError, "recursion"),
        (returns_a_lock, [], errors.ResultError, r"\['model'\]\[0\] is a _thread.lock.*return"),
        (returns_a_generator, [], errors.ResultError, "return a list"),
        (raises_what_stays_there, [], errors.RemoteError, "Stubborn: of no use elsewhere"),
        (raises_what_needs_more, [], errors.RemoteError, "Particular: the shelf has 3"),
        (raises_a_class_of_its_own_machine, [], errors.RemoteError, "only_there.Odd: made there"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_each_end_has_a_class_and_says_what_to_do(request, anywhere, fn, args, error, words):
    if signal.SIGKILL in args:
        request.getfixturevalue("one_out_of_memory")
    job = submitted_apart(anywhere, fn, args)

    with pytest.raises(error, match=words):
        job.result(SECONDS)
    assert job.status in (AppState.FAILED, AppState.SUCCEEDED)
    assert type(job.exception()) is error


def submitted_apart(ex, fn, args):
    """Submit a call; again, if the kernel has ended something of other tests' meanwhile."""
    while True:
        kills = oom_kills()
        job = ex.submit(fn, *args)
        job.exception(SECONDS)
        if oom_kills() == kills:
            return job


def test_too_much_memory_names_the_limit(make_anywhere, one_out_of_memory):
    def greedy():
        held = bytearray(b"x") * (1 << 30)
        time.sleep(20)
        return len(held)

    ex = make_anywhere(memory=0.25)
    job = ex.submit(greedy)

    with pytest.raises(errors.JobMemoryError, match=r"256 MiB.*memory="):
        job.result(SECONDS)


def test_too_long_a_call_is_told_as_such(make_anywhere):
    ex = make_anywhere(timeout=1.0)
    job = ex.submit(time.sleep, 600)

    with pytest.raises(errors.JobTimeoutError, match=r"timeout=") as caught:
        job.result(SECONDS)
    assert isinstance(caught.value, TimeoutError)


def test_a_function_may_fork_and_leave_a_daemon(anywhere):
    def forks():
        import multiprocessing

        with multiprocessing.get_context("fork").Pool(2) as pool:
            squares = pool.map(abs, [-1, -2])
        if not os.fork():
            os.setsid()
            if not os.fork():
                time.sleep(300)
            os._exit(0)
        return squares

    assert anywhere.submit(forks).result(SECONDS) == [1, 2]


def test_endless_output_can_be_cancelled_and_the_client_stays_small(anywhere):
    import resource

    def floods():
        line = b"y" * 4000 + b"\n"
        while True:
            os.write(1, line)
            time.sleep(0.001)

    job = anywhere.submit(floods)
    lines = job.log(follow=True)
    until(lambda: job.status is AppState.RUNNING, "the start", 60)
    assert next(lines) == "y" * 4000 + "\n"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    job.cancel("enough")
    with pytest.raises((errors.JobCancelledError, concurrent.futures.CancelledError)):
        job.result(SECONDS)

    assert len(job.outcome().stdout) <= 1 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10
