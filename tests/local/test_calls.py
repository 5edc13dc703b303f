"""Function calls on this machine: each is a fork, and behaves like a fresh process."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from support.call_bench import Call, calls
from support.local_bench import is_alive, until
from wherry.schedulers.local import host_client
from wherry.specs import AppState

__all__ = ["calls"]


def test_a_call_returns_its_value(calls):
    call = calls.submit(lambda x: x + 1, 41)

    assert call.end().state is AppState.SUCCEEDED
    assert call.values() == [42]


def test_a_call_is_a_fork_of_the_host_and_not_of_the_client(calls):
    call = calls.submit(lambda: (os.getpid(), os.getsid(0), "wherry.schedulers.api" in sys.modules))
    call.end()
    ((pid, session, has_client_modules),) = call.values()

    assert pid == session != os.getpid()
    assert not has_client_modules
    assert host_client._hosts


def test_what_it_writes_is_in_its_log_and_in_its_outcome(calls):
    def talk():
        print("to stdout")
        print("to stderr", file=sys.stderr)
        os.system("echo from a child")

    call = calls.submit(talk)
    call.end()

    assert sorted(call.log().splitlines()) == ["from a child", "to stderr", "to stdout"]
    header, parts = call.outcome()
    assert bytes(parts[header["stdout"]]) == b"to stdout\nfrom a child\n"
    assert bytes(parts[header["stderr"]]) == b"to stderr\n"


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (lambda: sys.exit(3), 3),
        (lambda: os._exit(7), 7),
        (lambda: 1 / 0, 1),
        (lambda: sys.exit("a word"), 1),
    ],
)
def test_it_has_an_exit_code_of_its_own(calls, function, code):
    call = calls.submit(function)

    assert call.end().state is AppState.FAILED
    assert call.exit_code() == code


def test_a_segfault_is_told_and_leaves_a_traceback(calls):
    def crash():
        import ctypes

        ctypes.string_at(0)

    call = calls.submit(crash)
    described = call.end()

    assert "SIGSEGV" in described.roles_statuses[0].replicas[0].reason
    assert "Segmentation fault" in call.log()
    assert "in crash" in call.log()
    assert "supervisor" not in call.log()


def test_signals_are_handled_as_in_a_fresh_interpreter(calls):
    def handlers():
        return {
            number: signal.getsignal(number)
            for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP, signal.SIGPIPE)
        }, signal.getsignal(signal.SIGINT) is signal.default_int_handler

    call = calls.submit(handlers)
    call.end()
    ((found, interrupts),) = call.values()

    assert found == {
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGCHLD: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
        signal.SIGPIPE: signal.SIG_IGN,
    }
    assert interrupts


def test_it_has_no_descriptors_but_its_own(calls):
    def descriptors():
        return [int(name) for name in os.listdir("/proc/self/fd")]

    call = calls.submit(descriptors)
    call.end()

    assert len([fd for fd in call.values()[0] if fd > 2]) <= 1


def test_its_stack_begins_with_its_own_frames(calls):
    def names():
        import traceback

        return [Path(frame.filename).name for frame in traceback.extract_stack()]

    call = calls.submit(names)
    call.end()

    assert not {"supervisor.py", "launching.py", "guard.py", "loop.py"} & set(call.values()[0])


def test_atexit_and_threads_are_waited_for(calls, tmp_path):
    def leave(folder):
        import atexit
        import threading
        import time

        atexit.register(lambda: Path(folder, "atexit").write_text("ran"))
        threading.Thread(
            target=lambda: (time.sleep(0.1), Path(folder, "thread").write_text("ran"))
        ).start()

    calls.submit(leave, str(tmp_path)).end()

    assert (tmp_path / "atexit").read_text() == "ran"
    assert (tmp_path / "thread").read_text() == "ran"


def test_random_numbers_differ_between_the_children_of_an_array(calls):
    def draw(_):
        import random

        return random.random()

    call = calls.map(draw, range(8))
    call.end()

    assert len({call.values(child)[0] for child in range(8)}) == 8


def test_environment_and_folder_are_those_of_the_client_at_submission(calls, monkeypatch, tmp_path):
    calls.submit(lambda: None).end()
    monkeypatch.setenv("SET_LATER", "yes")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.chdir(tmp_path)

    call = calls.submit(lambda: (os.environ.get("SET_LATER"), os.environ.get("HOME"), os.getcwd()))
    call.end()

    assert call.values() == [("yes", None, str(tmp_path))]


def test_variables_that_an_interpreter_reads_at_its_start_count_too(calls, monkeypatch):
    calls.submit(lambda: None).end()
    monkeypatch.setenv("PYTHONHASHSEED", "7")

    first, second = calls.submit(lambda: hash("word")), calls.submit(lambda: hash("word"))
    first.end()
    second.end()

    assert first.values() == second.values()


def test_variables_of_the_role_that_come_too_late_get_an_interpreter_of_their_own(calls):
    call = calls.submit(lambda: sys.flags.optimize, env={"PYTHONOPTIMIZE": "1"})
    call.end()

    assert call.values() == [1]


def test_modules_come_from_the_clients_path(calls, tmp_path, monkeypatch):
    calls.submit(lambda: None).end()
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "of_the_user.py").write_text("ANSWER = 42\n")
    monkeypatch.syspath_prepend(str(folder))

    def answer():
        import of_the_user

        return of_the_user.ANSWER

    call = calls.submit(answer)
    call.end()

    assert call.values() == [42]


def test_a_failed_attempt_is_made_again(calls, tmp_path):
    def fail_once(folder):
        with Path(folder, "attempts").open("a") as file:
            file.write("x")
        if len(Path(folder, "attempts").read_text()) == 1:
            os._exit(9)
        return os.environ["WHERRY_ATTEMPT"]

    call = calls.submit(fail_once, str(tmp_path), max_retries=2)

    assert call.end().state is AppState.SUCCEEDED
    assert call.values() == ["2"]


def test_a_timeout_ends_it(calls):
    def hang():
        import time

        time.sleep(1000)

    call = calls.submit(hang, timeout=0.3)
    described = call.end()

    assert described.state is AppState.FAILED
    assert "timed out" in described.roles_statuses[0].replicas[0].reason


def test_cancelling_ends_what_it_started_too(calls, tmp_path):
    call = calls.submit(spawn_and_hang, str(tmp_path))
    pids = [pid_of(call, tmp_path / name) for name in ("child", "daemon")]

    calls.scheduler.cancel(call.app_id, "enough")

    assert call.end().state is AppState.CANCELLED
    assert not any(map(is_alive, pids))


def test_a_daemon_of_one_child_ends_with_it_and_not_with_the_app(calls, tmp_path):
    def leave_daemon(item):
        import time

        if item == 0:
            daemonize(str(tmp_path / "daemon"))
        else:
            while not (tmp_path / "go").exists():
                time.sleep(0.01)

    call = calls.map(leave_daemon, range(2))
    daemon = pid_of(call, tmp_path / "daemon")

    until(lambda: not is_alive(daemon), "the daemon's end")
    (tmp_path / "go").touch()

    assert call.end().state is AppState.SUCCEEDED


def test_memory_beyond_a_limit_is_an_error_of_the_call(calls):
    def fill():
        return len(bytearray(1 << 32))

    call = calls.submit(fill, ulimits={"as": (1 << 30, 1 << 30)})

    assert call.end().state is AppState.FAILED
    assert "MemoryError" in call.log()


def test_a_flood_of_output_is_kept_whole(calls):
    def flood():
        for number in range(50_000):
            print(number)

    call = calls.submit(flood)
    call.end()

    assert call.log().splitlines() == [str(number) for number in range(50_000)]


def test_an_array_has_a_process_a_log_and_an_exit_code_each(calls):
    def answer(number):
        print(f"I am {number} of {os.environ['WHERRY_REPLICA_ID']}")
        if number == 7:
            sys.exit(5)
        return os.getpid()

    call = calls.map(answer, range(60))
    described = call.end()
    replicas = described.roles_statuses[0].replicas

    assert [replica.attempts[-1].exit_code for replica in replicas] == [
        5 if index == 7 else 0 for index in range(60)
    ]
    assert [call.log(k) for k in range(60)] == [f"I am {k} of {k}\n" for k in range(60)]
    assert len({call.values(k)[0] for k in range(60) if k != 7}) == 59


def test_two_threads_may_submit_at_once(calls):
    made: list[Call] = []

    def submit():
        for number in range(5):
            made.append(calls.submit(lambda x: x, number))

    threads = [threading.Thread(target=submit) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for call in made:
        call.end()

    assert sorted(call.values()[0] for call in made) == sorted([*range(5), *range(5)])
    assert len(host_client._hosts) <= 2


def pid_of(call, path):
    """Return the pid that a call writes into a file; say what became of a call that does not."""

    def written() -> str:
        described = call.scheduler.describe(call.app_id)
        text = path.read_text().strip() if path.exists() else ""
        ended = described.to_status().is_terminal()
        assert text or not ended, (described.msg, call.log())
        return text

    return int(until(written, f"a pid in {path}", 60))


def daemonize(path):
    """Leave a process behind that has a session and a parent of its own, by forks alone."""
    import time

    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            Path(path + ".new").write_text(str(os.getpid()))
            os.rename(path + ".new", path)
            time.sleep(1000)
        os._exit(0)
    os.wait()


def spawn_and_hang(folder):
    """Start a child and a daemon, and wait for ever."""
    import subprocess
    import time

    child = subprocess.Popen(["sleep", "1000"])
    Path(folder, "child").write_text(str(child.pid))
    daemonize(f"{folder}/daemon")
    time.sleep(1000)
