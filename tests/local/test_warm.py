"""Hosts, zygotes and supervisors that are killed in the middle of a call, and clients that go."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from support.call_bench import Call, Calls, calls
from support.local_bench import is_alive, pid_in, until
from wherry.schedulers.local import LocalScheduler, host_client
from wherry.specs import AppState

__all__ = ["calls"]

CLIENT = """
import os, sys, time
from pathlib import Path
sys.path[:0] = {path!r}
from support.call_bench import Calls
from wherry.schedulers.local import LocalScheduler, host_client

def note_and_wait(folder):
    with Path(folder, "runs").open("a") as file:
        file.write("x")
    Path(folder, "pid.new").write_text(str(os.getpid()))
    os.rename(Path(folder, "pid.new"), Path(folder, "pid"))
    while not Path(folder, "go").exists():
        time.sleep(0.01)
    return "done"

calls = Calls(LocalScheduler("test"), Path({folder!r}, "store"))
call = calls.submit(note_and_wait, {folder!r})
{then}
(host,) = host_client._hosts.values()
print(call.app_id, call.job, host.pid, flush=True)
sys.stdin.read()
"""


def note_and_wait(folder):
    """Write down that this ran, and wait to be told to go on."""
    import time

    with Path(folder, "runs").open("a") as file:
        file.write("x")
    Path(folder, "pid.new").write_text(str(os.getpid()))
    os.rename(Path(folder, "pid.new"), Path(folder, "pid"))
    while not Path(folder, "go").exists():
        time.sleep(0.01)
    return "done"


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text())


def supervisor_of(call: Call) -> int:
    path = Path(os.environ["WHERRY_HOME"], "apps", call.app_id, "events.jsonl")
    return int(json.loads(path.read_text().splitlines()[0])["pid"])


def host_pid() -> int:
    return host_client._hosts[host_client._surroundings()].pid


def test_a_killed_supervisor_leaves_nothing_and_its_call_is_not_run_again(calls, tmp_path):
    call = calls.submit(note_and_wait, str(tmp_path), max_retries=3)
    pid = pid_in(tmp_path / "pid")

    os.kill(supervisor_of(call), signal.SIGKILL)
    described = call.end()

    assert described.state is AppState.FAILED
    assert "supervisor was killed" in described.msg
    assert not is_alive(pid)
    assert not call.processes()
    assert runs(tmp_path) == 1


def test_supervisor_and_guard_killed_together_leave_nothing(calls, tmp_path):
    call = calls.submit(fork_and_wait, str(tmp_path))
    pids = [pid_in(tmp_path / name) for name in ("daemon", "pid")]
    supervisor = psutil.Process(supervisor_of(call))
    guard = supervisor.parent()

    guard.suspend()
    supervisor.kill()
    guard.kill()
    described = call.end()

    assert described.state is AppState.FAILED
    until(lambda: not any(map(is_alive, pids)), "the call's end")
    assert not call.processes()
    assert runs(tmp_path) == 1


def test_a_killed_host_takes_nothing_with_it(calls, tmp_path):
    call = calls.submit(note_and_wait, str(tmp_path))
    pid_in(tmp_path / "pid")

    os.kill(host_pid(), signal.SIGKILL)
    (tmp_path / "go").touch()

    assert call.end().state is AppState.SUCCEEDED
    assert call.values() == ["done"]
    assert runs(tmp_path) == 1


def test_after_a_killed_host_the_next_call_has_another(calls):
    calls.submit(lambda: None).end()
    first = host_pid()
    os.kill(first, signal.SIGKILL)
    until(lambda: not is_alive(first), "the host's end")

    call = calls.submit(lambda: 1)
    call.end()

    assert call.values() == [1]
    assert host_pid() != first


def test_a_host_that_dies_before_it_forks_leaves_the_call_to_a_program(calls, tmp_path):
    calls.submit(lambda: None).end()
    os.kill(host_pid(), signal.SIGSTOP)
    import threading

    host = host_pid()
    killer = threading.Timer(0.3, lambda: os.kill(host, signal.SIGKILL))
    killer.start()
    (tmp_path / "go").touch()
    call = calls.submit(note_and_wait, str(tmp_path))
    killer.join()

    assert call.end().state is AppState.SUCCEEDED
    assert call.values() == ["done"]
    assert runs(tmp_path) == 1


def test_a_killed_zygote_takes_its_forks_along_and_is_done_without(calls, tmp_path):
    def answer(number):
        with (tmp_path / "runs").open("a") as file:
            file.write("x")
        if number in (0, 6):
            until_there(str(tmp_path / "go"))
        return number

    def until_there(path):
        import time

        while not os.path.exists(path):
            time.sleep(0.01)

    call = calls.map(answer, range(40), cfg={"max_parallel": 2})
    zygote = until(lambda: zygote_of(call), "a zygote")
    (tmp_path / "runs").touch()
    until(lambda: runs(tmp_path) == 7, "the call that waits")
    zygote.kill()
    until(lambda: not psutil.pid_exists(zygote.pid), "the zygote's end")
    events = Path(call.scheduler._directory(call.app_id), "events.jsonl")
    until(lambda: "killed by" in events.read_text(), "the end of what it had forked")
    (tmp_path / "go").touch()

    replicas = call.end().roles_statuses[0].replicas
    failed = [replica.id for replica in replicas if replica.state is AppState.FAILED]
    assert set(failed) <= {0, 6}
    assert 6 in failed
    assert "SIGKILL" in replicas[6].reason
    assert [call.values(k)[0] for k in range(40) if k not in failed] == [
        k for k in range(40) if k not in failed
    ]
    assert runs(tmp_path) == 40
    assert not call.processes()


def test_the_zygotes_of_a_killed_supervisor_go_with_it(calls, tmp_path):
    def wait(_):
        import time

        time.sleep(1000)

    call = calls.map(wait, range(10))
    zygote = until(lambda: zygote_of(call), "a zygote")

    os.kill(supervisor_of(call), signal.SIGKILL)

    assert call.end().state is AppState.FAILED
    assert not is_alive(zygote.pid)
    assert not call.processes()


@pytest.mark.parametrize(
    "source",
    [
        "import _thread, time; _thread.start_new_thread(time.sleep, (5,))",
        "import os; NAME = os.environ.get('WHERRY_REPLICA_ID')",
        "HANDLE = open(__file__)",
        "import subprocess; CHILD = subprocess.Popen(['sleep', '0.5'])",
    ],
)
def test_modules_that_a_fork_would_break_are_loaded_by_each_child(
    calls, tmp_path, monkeypatch, source
):
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "of_the_user.py").write_text(
        f"import os\n{source}\nPID = os.getpid()\ndef own(_): return PID == os.getpid()\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    import of_the_user

    call = calls.map(of_the_user.own, range(12))
    monkeypatch.delitem(sys.modules, "of_the_user")

    assert call.end().state is AppState.SUCCEEDED
    assert [call.values(k)[0] for k in range(12)] == [True] * 12


def test_what_a_module_writes_when_it_is_imported_is_in_every_log(calls, tmp_path, monkeypatch):
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "talkative.py").write_text("print('imported')\ndef name(number): return number\n")
    monkeypatch.syspath_prepend(str(folder))
    import talkative

    call = calls.map(talkative.name, range(30))
    monkeypatch.delitem(sys.modules, "talkative")
    call.end()

    assert {call.log(k) for k in range(30)} == {"imported\n"}


def test_a_killed_client_takes_its_calls_and_its_host_along(tmp_path):
    with client(tmp_path) as process:
        _, _, host = process.stdout.readline().split()
        pid = pid_in(tmp_path / "pid")

        process.kill()

        until(lambda: not is_alive(pid), "the call's end")
        until(lambda: not is_alive(int(host)), "the host's end")
    assert runs(tmp_path) == 1


def test_a_detached_call_outlives_client_and_host(tmp_path):
    with client(tmp_path, then="calls.scheduler.detach(call.app_id)") as process:
        app_id, job, host = process.stdout.readline().split()
        pid_in(tmp_path / "pid")

        process.kill()
        until(lambda: not is_alive(int(host)), "the host's end")
        (tmp_path / "go").touch()

    call = Call(app_id, job, tmp_path / "store", LocalScheduler("test"))
    assert call.end().state is AppState.SUCCEEDED
    assert call.values() == ["done"]
    assert runs(tmp_path) == 1


def test_a_forked_client_has_a_host_of_its_own(calls):
    calls.submit(lambda: None).end()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            own = Calls(LocalScheduler("test"), calls.store)
            call = own.submit(lambda x: x * 2, 21)
            call.end()
            os.write(write_end, json.dumps([call.values(), host_pid()]).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(write_end)
    values, host = json.loads(os.read(read_end, 1000))
    os.waitpid(child, 0)

    assert values == [42]
    assert host != host_pid()
    until(lambda: not is_alive(host), "the end of the child's host")


def test_a_client_that_was_started_in_isolation(tmp_path):
    with client(tmp_path, flags=["-I"], then="") as process:
        app_id, job, _ = process.stdout.readline().split()
        (tmp_path / "go").touch()
        call = Call(app_id, job, tmp_path / "store", LocalScheduler("test"))

        assert call.end().state is AppState.SUCCEEDED
        assert call.values() == ["done"]


def test_finders_of_editable_installs_are_there(tmp_path, monkeypatch):
    """An editable install may be a finder that a ``.pth`` file adds when an interpreter starts."""
    import venv

    venv.create(tmp_path / "env", system_site_packages=False, symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    (site,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    (tmp_path / "hidden_module.py").write_text("ANSWER = 42\n")
    (site / "of_editable.py").write_text(
        textwrap.dedent(f"""
        import sys
        from importlib.util import spec_from_file_location
        class Finder:
            @classmethod
            def find_spec(cls, name, path=None, target=None):
                if name == "hidden_module":
                    return spec_from_file_location(name, {str(tmp_path / "hidden_module.py")!r})
        sys.meta_path.append(Finder)
        """)
    )
    (site / "of_editable.pth").write_text("import of_editable\n")
    then = (
        "def answer():\n    import hidden_module\n    return hidden_module.ANSWER\n"
        "call = calls.submit(answer)\ncall.end()"
    )
    with client(tmp_path, then=then, python=str(python)) as process:
        app_id, job, _ = process.stdout.readline().split()

        call = Call(app_id, job, tmp_path / "store", LocalScheduler("test"))
        assert call.values() == [42]


class client:  # noqa: N801 — used as a function
    """A client in a process of its own, which ends with the test."""

    def __init__(self, folder: Path, *, then: str = "", flags=(), python: str = sys.executable):
        path = [str(Path(__file__).parents[1]), *sys.path]
        script = CLIENT.format(path=path, folder=str(folder), then=then)
        self.process = subprocess.Popen(
            [python, *flags, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> subprocess.Popen[str]:
        return self.process

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def zygote_of(call: Call) -> psutil.Process | None:
    """Find a process that carries the app's mark, and no attempt's."""
    for process in call.processes():
        try:
            words = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue  # It has ended meanwhile.
        if not any(word.startswith(b"WHERRY_ATTEMPT_ID=") for word in words):
            return process
    return None


def outcomes(call: Call) -> list[str]:
    folder = call.store / "jobs" / call.job / "out"
    return [name for name in os.listdir(folder) if name.isdigit()] if folder.is_dir() else []


def fork_and_wait(folder):
    """Leave a daemon by forks alone, and wait to be told to go on."""
    import time

    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            Path(folder, "daemon.new").write_text(str(os.getpid()))
            os.rename(Path(folder, "daemon.new"), Path(folder, "daemon"))
            time.sleep(1000)
        os._exit(0)
    os.wait()
    with Path(folder, "runs").open("a") as file:
        file.write("x")
    Path(folder, "pid").write_text(str(os.getpid()))
    time.sleep(1000)
