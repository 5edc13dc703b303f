"""Each call is as fresh as a process of its own, however it was forked; and it is told whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil

from support.call_bench import calls
from support.local_bench import until
from wherry.schedulers.local import host_client
from wherry.specs import AppState

__all__ = ["calls"]


def telling_its_ancestors():
    """Return a function that goes by value, wherever this module is."""

    def ancestors():
        return [process.pid for process in psutil.Process().parents()]

    return ancestors


def test_a_function_may_change_its_folder_and_its_environment(calls, tmp_path):
    def change(number):
        seen = (os.getcwd(), os.environ.get("LEFT_BY_A_CALL"))
        os.chdir("/")
        os.environ["LEFT_BY_A_CALL"] = str(number)
        return seen

    call = calls.map(change, range(12))

    assert call.end().state is AppState.SUCCEEDED
    assert {call.values(k)[0] for k in range(12)} == {(os.getcwd(), None)}
    assert os.environ.get("LEFT_BY_A_CALL") is None


def test_a_function_may_handle_signals_and_the_next_call_has_none_of_it(calls):
    def handle(number):
        before = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        got = []
        signal.signal(signal.SIGTERM, lambda *_: got.append("SIGTERM"))
        os.kill(os.getpid(), signal.SIGTERM)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        return before, got

    call = calls.map(handle, range(12))

    assert call.end().state is AppState.SUCCEEDED
    assert [call.values(k)[0] for k in range(12)] == [(True, ["SIGTERM"])] * 12


def test_three_hundred_children_have_a_process_a_log_and_a_result_each(calls):
    def tell(number):
        print(f"child {number}")
        return number, os.getpid(), os.getppid()

    call = calls.map(tell, range(300))
    described = call.end()

    told = [call.values(k)[0] for k in range(300)]
    assert described.state is AppState.SUCCEEDED
    assert [number for number, _, _ in told] == list(range(300))
    assert len({pid for _, pid, _ in told}) == 300
    by_parent = {parent: sum(p == parent for _, _, p in told) for _, _, parent in told}
    assert len(by_parent) == 2, "one is the supervisor, the other the process that loaded it once"
    assert max(by_parent.values()) > 200
    assert [call.log(k) for k in range(300)] == [f"child {k}\n" for k in range(300)]
    assert {replica.attempts[-1].exit_code for replica in described.roles_statuses[0].replicas} == {
        0
    }
    assert not call.processes()


def test_the_outcome_has_the_output_to_its_last_byte(calls):
    def write(number):
        os.write(1, b"out %d\n" % number * 4000)
        os.write(2, b"last words of %d\n" % number)

    call = calls.map(write, range(20))
    assert call.end().state is AppState.SUCCEEDED

    for k in range(20):
        header, parts = call.outcome(k)
        assert bytes(parts[header["stdout"]]) == b"out %d\n" % k * 4000
        assert bytes(parts[header["stderr"]]) == b"last words of %d\n" % k
    left = list(Path(os.environ["WHERRY_HOME"]).rglob("*.logged"))
    assert not left


def test_the_umask_is_that_of_the_client_at_submission(calls, tmp_path):
    def make(path):
        with open(path, "w"):
            pass
        return os.stat(path).st_mode & 0o777

    before = os.umask(0o022)
    try:
        first = calls.submit(make, str(tmp_path / "first"))
        first.end()
        os.umask(0o077)
        second = calls.submit(make, str(tmp_path / "second"))
        second.end()
    finally:
        os.umask(before)

    assert first.values() == [0o644]
    assert second.values() == [0o600]


def test_a_host_has_one_spare_pair_and_takes_it_for_the_next_call(calls):
    calls.submit(telling_its_ancestors()).end()
    host = psutil.Process(host_client._hosts[host_client._surroundings()].pid)
    spare = until(lambda: spare_of(host), "a spare pair")

    second = calls.submit(telling_its_ancestors())
    second.end()

    (found,) = second.values()
    assert spare[0] in found
    assert spare[1] in found


def test_a_killed_spare_is_done_without(calls):
    calls.submit(telling_its_ancestors()).end()
    host = psutil.Process(host_client._hosts[host_client._surroundings()].pid)
    pair = until(lambda: spare_of(host), "a spare pair")
    for pid in pair:
        psutil.Process(pid).kill()
    until(lambda: not any(map(psutil.pid_exists, pair)), "the end of both")

    again = calls.submit(telling_its_ancestors())

    assert again.end().state is AppState.SUCCEEDED
    (found,) = again.values()
    assert host.pid in found


def test_a_client_leaves_neither_a_host_nor_a_spare_nor_a_warning(tmp_path):
    program = textwrap.dedent(
        """
        import psutil, sys
        from wherry.functions.local import LocalExecutor
        from wherry.schedulers.local import host_client

        executor = LocalExecutor()
        for number in range(3):
            assert executor.submit(abs, -number).result() == number
        (host,) = host_client._hosts.values()
        print(host.pid, *[child.pid for child in psutil.Process(host.pid).children(True)])
        """
    )
    client = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )

    pids = [int(word) for word in client.stdout.split()]
    assert client.stderr == ""
    until(lambda: not any(map(psutil.pid_exists, pids)), "the end of host and spare")


def spare_of(host: psutil.Process) -> tuple[int, int] | None:
    """Find a guard and a supervisor below a host that have no app."""
    for guard in host.children():
        try:
            below = guard.children()
            is_pair = len(below) == 1 and not below[0].children()
            if is_pair and not is_marked(guard.pid):
                return guard.pid, below[0].pid
        except (OSError, psutil.NoSuchProcess):
            continue  # It has ended meanwhile.
    return None


def is_marked(pid: int) -> bool:
    """Tell whether a process holds an app's events."""
    links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    return any(link.endswith("events.jsonl") for link in links)
