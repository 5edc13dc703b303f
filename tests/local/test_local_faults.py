"""Things that go wrong: killed processes, full disks, missing programs, low limits."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from support.local_bench import Bench, event_lines, is_alive, pid_in, until
from wherry.errors import LaunchError
from wherry.schedulers.local import LocalScheduler
from wherry.specs import AppDef, AppState, Role

ESCAPES = """
trap '' TERM HUP INT
(setsid sh -c 'trap "" TERM HUP INT; echo $$ > daemon; exec sleep 1000' > /dev/null 2>&1 &)
setsid sleep 1000 &
sleep 1000 &
echo ready
wait
"""
"""A program that ignores signals, with children in other groups and sessions, and a daemon."""


def supervisors(app_id: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if any(word.endswith(f"/apps/{app_id}") for word in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return sorted(found, key=lambda process: process.create_time())


@pytest.fixture
def escaping(bench: Bench) -> str:
    app_id = bench.start(bench.app(ESCAPES.replace("$$", "$$$$")))
    bench.wait_for_line(app_id, "ready")
    pid_in(bench.folder / "daemon")
    assert len(bench.survivors()) >= 4
    return app_id


def test_cancel_reaches_descendants_that_left_the_group(bench: Bench, escaping: str) -> None:
    bench.scheduler.cancel(escaping)

    assert bench.end(escaping).state is AppState.CANCELLED
    assert not bench.survivors()


def test_a_killed_supervisor_takes_everything_with_it(bench: Bench, escaping: str) -> None:
    guard, supervisor = supervisors(escaping)
    assert guard.pid == supervisor.ppid()

    supervisor.kill()
    ended = bench.end(escaping)

    assert ended.state is AppState.FAILED
    assert "supervisor was killed (signal 9)" in ended.msg
    assert not bench.survivors()


def test_a_killed_guard_changes_nothing(bench: Bench) -> None:
    app_id = bench.start(bench.app("echo ready; while ! test -e go; do sleep 0.02; done"))
    bench.wait_for_line(app_id, "ready")

    supervisors(app_id)[0].kill()
    (bench.folder / "go").touch()

    assert bench.end(app_id).state is AppState.SUCCEEDED


def test_supervisor_and_guard_killed_at_once_are_settled_by_whoever_looks(
    bench: Bench, escaping: str
) -> None:
    processes = supervisors(escaping)
    for process in processes:
        process.suspend()
    for process in processes:
        process.kill()

    ended = LocalScheduler("other").describe(escaping)
    until(lambda: LocalScheduler("other").describe(escaping).to_status().is_terminal(), "the end")  # type: ignore[union-attr]

    assert ended is not None
    assert not bench.survivors()
    assert event_lines(bench, escaping).read_text().count('"finished"') == 1


CLIENT = """
import sys
from wherry.schedulers.local import LocalScheduler
from wherry.specs import AppDef, Role
scheduler = LocalScheduler("client")
env = {"TEST_MARK": sys.argv[1]}
role = Role("role", entrypoint="sh", args=["-c", sys.argv[2]], env=env)
app_id = scheduler.submit(AppDef("app", [role]), {"grace": 0.3})
if "detach" in sys.argv[3:]:
    scheduler.detach(app_id)
print(app_id, flush=True)
sys.stdin.read()
"""


def start_client(bench: Bench, *words: str) -> tuple[subprocess.Popen[str], str]:
    script = ESCAPES.replace("$$", "$$$$")
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, bench.mark, script, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert client.stdout is not None
    app_id = client.stdout.readline().strip()
    bench.wait_for_line(app_id, "ready")
    pid_in(bench.folder / "daemon")
    return client, app_id


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_attached_app_dies_with_its_client(bench: Bench, number: signal.Signals) -> None:
    client, app_id = start_client(bench)

    client.send_signal(number)
    client.communicate()
    ended = bench.end(app_id)

    assert ended.state is AppState.CANCELLED
    assert "its client ended" in ended.msg
    assert not bench.survivors()


def test_a_detached_app_survives_its_client(bench: Bench) -> None:
    client, app_id = start_client(bench, "detach")

    client.kill()
    client.communicate()

    described = bench.scheduler.describe(app_id)
    assert described is not None
    assert described.state is AppState.RUNNING
    assert bench.survivors()
    bench.scheduler.cancel(app_id)
    bench.end(app_id)


def test_client_and_supervisor_killed_together_leave_nothing(bench: Bench) -> None:
    client, app_id = start_client(bench)

    for process in [*supervisors(app_id)[1:], psutil.Process(client.pid)]:
        process.kill()
    client.communicate()

    assert bench.end(app_id).state is AppState.FAILED
    assert not bench.survivors()


def test_the_machine_going_down_cancels(bench: Bench, escaping: str) -> None:
    for process in supervisors(escaping):
        process.terminate()

    ended = bench.end(escaping)
    assert ended.state is AppState.CANCELLED
    assert "SIGTERM" in ended.msg


def test_a_program_that_leaves_a_daemon_behind_ends_with_it(bench: Bench) -> None:
    script = "(setsid sh -c 'echo $$$$ > daemon; exec sleep 1000' > /dev/null 2>&1 &); echo started"
    ended = bench.run(script)

    assert ended.state is AppState.SUCCEEDED
    assert not is_alive(pid_in(bench.folder / "daemon"))


def test_a_daemon_with_an_empty_environment_is_found_too(bench: Bench) -> None:
    script = (
        "(setsid env -i sh -c 'echo $$$$ > daemon; exec sleep 1000' &) ; echo started; "
        "while ! test -s daemon; do sleep 0.02; done"
    )
    ended = bench.run(script, replicas=2, array=True)

    assert ended.state is AppState.SUCCEEDED
    assert not is_alive(pid_in(bench.folder / "daemon"))


def test_a_daemon_of_one_replica_leaves_the_others_alone(bench: Bench) -> None:
    script = (
        "test $WHERRY_REPLICA_ID = 1 && exit 0; "
        "(setsid sh -c 'echo $$$$ > daemon; exec sleep 1000' > /dev/null 2>&1 &); "
        "while ! test -e go; do sleep 0.02; done"
    )
    app_id = bench.start(bench.app(script, replicas=2))
    daemon = pid_in(bench.folder / "daemon")
    until(
        lambda: '"k":1,"n":1,"code":0' in event_lines(bench, app_id).read_text(), "replica 1's end"
    )

    assert is_alive(daemon)
    (bench.folder / "go").touch()
    bench.end(app_id)
    assert not is_alive(daemon)


# What cannot be started.


@pytest.mark.parametrize(
    ("entrypoint", "said"),
    [
        ("no-such-program-at-all", "no program 'no-such-program-at-all'"),
        ("slep", "did you mean 'sleep'"),
        ("./missing.sh", "no program"),
        ("./plain.txt", "not executable"),
        (".", "no program"),
        ("./", "is a folder"),
        ("plain.txt", "write './plain.txt'"),
    ],
)
def test_a_program_that_is_not_there_is_told_before_anything_is_made(
    bench: Bench, own_home: Path, entrypoint: str, said: str
) -> None:
    (bench.folder / "plain.txt").write_text("no program\n")

    with pytest.raises(LaunchError, match=said):
        bench.start(AppDef("app", [Role("role", entrypoint=entrypoint)]))
    assert not (own_home / "apps").exists()


def test_a_file_that_is_no_program_says_so(bench: Bench, own_home: Path) -> None:
    script = bench.folder / "broken"
    script.write_text("just text, no first line\n")
    script.chmod(0o755)

    with pytest.raises(LaunchError, match="#!/bin/sh"):
        bench.start(AppDef("app", [Role("role", entrypoint="./broken")]))
    assert not os.listdir(own_home / "apps")


def test_a_gang_that_starts_half_is_rolled_back(bench: Bench, own_home: Path) -> None:
    good = Role(
        "good", entrypoint="sleep", args=["1000"], env={"TEST_MARK": bench.mark}, num_replicas=5
    )
    broken = bench.folder / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)

    with pytest.raises(LaunchError, match="could not start"):
        bench.start(AppDef("app", [good, Role("bad", entrypoint=str(broken))]))

    assert not bench.survivors()
    assert not os.listdir(own_home / "apps")
    assert not list(bench.scheduler.list())


def test_a_program_that_vanishes_from_an_array_fails_that_replica(bench: Bench) -> None:
    program = bench.folder / "once"
    program.write_text("#!/bin/sh\nrm -f once\n")
    program.chmod(0o755)
    role = Role("role", entrypoint="./once", num_replicas=2)

    ended = bench.run(AppDef("app", [role], array=True), max_parallel=1)

    assert ended.state is AppState.FAILED
    assert "no such program" in ended.msg
    assert ended.roles_statuses[0].replicas[1].exit_code == 127


def test_no_permission_for_the_log_folder_is_told(bench: Bench) -> None:
    (bench.folder / "file").write_text("")

    with pytest.raises(LaunchError, match=r"log_dir.*folder that you may write to"):
        bench.start(bench.app("true"), log_dir=str(bench.folder / "file"))


def test_a_log_folder_on_a_read_only_disk_is_told(bench: Bench) -> None:
    with pytest.raises(LaunchError, match="/proc/wherry"):
        bench.start(bench.app("true"), log_dir="/proc/wherry")


LOW_LIMIT = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, int(sys.argv[1])))
from wherry.errors import LaunchError
from wherry.schedulers.local import LocalScheduler
from wherry.specs import AppDef, Role
scheduler = LocalScheduler("client")
role = Role("role", entrypoint="sh", args=["-c", "ulimit -n; sleep 0.2"], num_replicas=250)
try:
    app_id = scheduler.submit(AppDef("app", [role]), {})
except LaunchError as error:
    print("refused:", error)
else:
    scheduler.wait_for_change(app_id, 100, until_end=True)
    print(scheduler.describe(app_id).state, *scheduler.log_iter(app_id, "role", 249))
"""


@pytest.mark.parametrize("hard", [256, 4096])
def test_250_replicas_at_a_low_file_limit(tmp_path: Path, hard: int) -> None:
    home = tmp_path / "open-home"
    home.mkdir()
    env = {**os.environ, "WHERRY_HOME": str(home), "WHERRY_RUNTIME_DIR": f"{home}/run"}
    # Root may raise its own limit; without that privilege it is like everybody else.
    unprivileged = ["setpriv", "--bounding-set", "-sys_resource"] if os.getuid() == 0 else []

    answer = subprocess.run(
        [*unprivileged, sys.executable, "-c", LOW_LIMIT, str(hard)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        cwd=home,
    )

    if hard == 256:
        assert "refused: 250 replicas at once need" in answer.stdout, answer.stderr
        assert "ulimit" in answer.stdout
        assert not os.listdir(home / "apps")
    else:
        assert answer.stdout.split() == ["SUCCEEDED", "256"], answer.stderr


# Disks.


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    mount = tmp_path / "disk"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {made.stderr.strip()}")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


def test_a_full_disk_holds_the_log_back_until_there_is_room(bench: Bench, small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(900_000))
    app_id = bench.start(bench.app("seq 1 20000; echo last >&2"), log_dir=str(small_disk))
    log = small_disk / app_id / "role" / "0.combined.log"
    until(lambda: shutil.disk_usage(small_disk).free == 0 and log.exists(), "a full disk")

    described = bench.scheduler.describe(app_id)
    ballast.unlink()
    ended = bench.end(app_id)

    assert described is not None
    assert described.state is AppState.RUNNING
    assert ended.state is AppState.SUCCEEDED
    assert bench.log(app_id).split() == [*map(str, range(1, 20001)), "last"]


def test_a_disk_that_stays_full_ends_the_app_with_that_reason(
    bench: Bench, small_disk: Path
) -> None:
    app = bench.app("seq 1 10000000")
    app_id = bench.start(app, log_dir=str(small_disk), disk_patience=0.5)

    ended = bench.end(app_id)

    assert ended.state is AppState.FAILED
    assert "No space left on device" in ended.msg
    assert str(small_disk) in ended.msg


def test_the_end_is_written_down_even_on_a_full_disk(
    bench: Bench, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHERRY_HOME", str(small_disk))
    script = f"head -c 2000000 /dev/zero > {small_disk}/hog 2> /dev/null; exit 5"
    ended = bench.run(bench.app(script))

    assert ended.state is AppState.FAILED
    assert ended.to_status().exit_code == 5


# Records.


def test_a_power_cut_at_any_byte_of_the_last_event_gives_a_right_state(bench: Bench) -> None:
    app_id = bench.run("exit 3").app_id
    bench.wait_for_supervisor(app_id)
    events = event_lines(bench, app_id)
    whole = events.read_bytes()
    last = whole[:-1].rfind(b"\n") + 1

    for cut in range(last, len(whole)):
        events.write_bytes(whole[:cut])
        described = LocalScheduler("after").describe(app_id)
        assert described is not None
        assert described.state is AppState.FAILED
        assert described.roles_statuses[0].replicas[0].exit_code == 3
        assert all(json.loads(line) for line in events.read_bytes().splitlines())


def test_two_clients_cancelling_at_once_agree(bench: Bench) -> None:
    app_id = bench.start(bench.app("echo ready; sleep 60"))
    bench.wait_for_line(app_id, "ready")
    reasons = [f"reason {number}" for number in range(8)]

    threads = [
        threading.Thread(target=LocalScheduler("c").cancel, args=(app_id, reason))
        for reason in reasons
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended = bench.end(app_id)

    assert ended.state is AppState.CANCELLED
    assert ended.msg in reasons
    assert event_lines(bench, app_id).read_text().count('"cancelling"') == 1


def test_a_clock_that_is_set_back_changes_no_state(bench: Bench) -> None:
    app_id = bench.run("true").app_id
    events = event_lines(bench, app_id)
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    for age, line in enumerate(lines):
        line["t"] -= 3600 * age
    events.write_text("".join(json.dumps(line) + "\n" for line in lines))

    described = LocalScheduler("after").describe(app_id)
    assert described is not None
    assert described.state is AppState.SUCCEEDED


def test_a_client_that_dies_before_the_launch_leaves_a_right_state(
    bench: Bench, own_home: Path
) -> None:
    app_id = bench.run("true").app_id
    bench.wait_for_supervisor(app_id)
    event_lines(bench, app_id).unlink()

    described = LocalScheduler("after").describe(app_id)
    assert described is not None
    assert described.state is AppState.FAILED
    assert "before it was started" in described.msg


def test_nothing_that_the_supervisor_has_open_reaches_the_program(bench: Bench) -> None:
    ended = bench.run("ls /proc/self/fd | tr '\\n' ' '")

    assert bench.log(ended.app_id).split()[:3] == ["0", "1", "2"]
    assert len(bench.log(ended.app_id).split()) == 4  # `ls` opens the folder itself.


def test_signals_that_python_ignores_are_not_ignored_in_programs(bench: Bench) -> None:
    ended = bench.run("grep SigIgn /proc/self/status")

    ignored = int(bench.log(ended.app_id).split()[1], 16)
    assert not ignored & (1 << (signal.SIGPIPE - 1))


def test_the_programs_file_limit_is_the_clients(bench: Bench) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ended = bench.run("ulimit -Sn; ulimit -Hn")

    assert bench.log(ended.app_id).split() == [str(soft), str(hard)]


def test_an_app_with_a_hundred_replicas_needs_few_descriptors(bench: Bench) -> None:
    app_id = bench.start(
        bench.app("echo ready; while ! test -e go; do sleep 0.1; done", replicas=100)
    )
    for k in (0, 99):
        bench.wait_for_line(app_id, "ready", k)

    supervisor = supervisors(app_id)[1]
    descriptors, threads = supervisor.num_fds(), supervisor.num_threads()
    (bench.folder / "go").touch()
    bench.end(app_id)

    assert threads == 1
    assert descriptors < 320


def test_sigstop_of_the_program_does_not_stop_the_kill(bench: Bench) -> None:
    app_id = bench.start(bench.app("echo $$$$ > pid; kill -STOP $$$$; sleep 60"))
    pid = pid_in(bench.folder / "pid")
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "the stop")

    bench.scheduler.cancel(app_id)

    assert bench.end(app_id).state is AppState.CANCELLED


def test_the_suite_itself_notices_survivors() -> None:
    """The check for orphans can fail: it finds a process that is there."""
    from support.local_bench import processes_with

    mark = f"mark-{time.time_ns()}"
    child = subprocess.Popen(["sleep", "60"], env={**os.environ, "TEST_MARK": mark})
    found = until(lambda: processes_with(mark), "the child")
    child.kill()
    child.wait()

    assert [process.pid for process in found] == [child.pid]
    assert textwrap.dedent(ESCAPES)
