"""A task of one container as a process: its command, environment, folder, limits and end."""

from __future__ import annotations

import os
import resource
import socket
import sys
from pathlib import Path

import pytest

from support.process_engine import end_of, is_alive, open_bench, until
from wherry.emulator.engines.api import (
    ESSENTIAL_EXITED,
    FAILED_TO_START,
    OUT_OF_MEMORY,
    Container,
    Device,
    Mount,
    TaskStarted,
    Tmpfs,
)
from wherry.errors import LaunchError, StateError

HOST_GONE = "Host EC2 (instance i-0123) terminated."


@pytest.fixture
def bench(tmp_path):
    with open_bench(tmp_path / "scratch") as bench:
        yield bench


def folders(bench) -> list[str]:
    """The folders of tasks that are on the disk."""
    return [path.name for home in bench.scratch.iterdir() for path in home.iterdir()]


# The end.


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_a_task_ends_with_the_exit_code_of_its_program(bench, code):
    ended = bench.run("sh", "-c", f"exit {code}")

    assert ended.reason == ESSENTIAL_EXITED
    assert end_of(ended) == (code, "")


@pytest.mark.parametrize(("name", "code"), [("KILL", 137), ("TERM", 143), ("SEGV", 139)])
def test_a_signal_is_a_code_above_128(bench, name, code):
    assert end_of(bench.run("sh", "-c", f"kill -{name} $$")) == (code, "")


def test_each_event_comes_once_and_output_ends_before_the_task_does(bench):
    task = bench.start("echo", "hello")
    bench.ended(task)

    told = [what for task_id, what in bench.order if task_id == task]
    assert told == ["TaskStarted", "output", "end of output", "TaskEnded"]


# Commands.


def test_a_program_is_looked_up_in_the_path_of_the_task(bench, tmp_path):
    tool = tmp_path / "bin" / "only-here"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho found $1\n")
    tool.chmod(0o755)

    task = bench.start("only-here", "it", env=(("PATH", f"{tool.parent}:/usr/bin:/bin"),))

    assert end_of(bench.ended(task)) == (0, "")
    assert bench.output(task) == "found it\n"


def test_an_entry_point_comes_before_the_command(bench):
    task = bench.start("a", "b", entrypoint=("echo", "-n"))
    bench.ended(task)

    assert bench.output(task) == "a b"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("no-such-program", 'exec: "no-such-program": executable file not found in $PATH'),
        ("./none", 'exec: "./none": stat ./none: no such file or directory'),
        ("/etc/passwd", 'exec: "/etc/passwd": permission denied'),
        ("/etc", 'exec: "/etc": is a directory'),
    ],
)
def test_a_missing_program_fails_the_start_in_the_words_of_the_container_runtime(
    bench, command, words
):
    ended = bench.run(command)

    exit_code, reason = end_of(ended)
    assert ended.reason == FAILED_TO_START
    assert exit_code is None
    assert reason.startswith("CannotStartContainerError: Error response from daemon: ")
    assert words in reason
    assert len(reason) <= 255
    assert TaskStarted not in map(type, bench.events)


@pytest.mark.parametrize(
    ("text", "words"),
    [("echo no shebang\n", "exec format error"), ("#!/no/such\n", "no such file or directory")],
)
def test_a_file_that_is_no_program_fails_inside_the_started_container(bench, tmp_path, text, words):
    script = tmp_path / "script"
    script.write_text(text)
    script.chmod(0o755)

    task = bench.start(str(script))
    ended = bench.ended(task)

    assert (ended.reason, end_of(ended)) == (ESSENTIAL_EXITED, (255, ""))
    assert bench.output(task) == f"exec {script}: {words}\n"


def test_without_a_command_there_is_nothing_to_run(bench):
    ended = bench.run()

    code, reason = end_of(ended)
    assert ended.reason == FAILED_TO_START
    assert code is None
    assert reason.startswith("CannotStartContainerError: the process engine has no image")


def test_a_start_that_fails_on_purpose_has_its_reason_and_no_code(bench):
    containers = Container("a", "image", ("true",)), Container("b", "image", ("true",))

    ended = bench.run_task(*containers, start_fault="CannotPullContainerError: no")

    assert ended.reason == FAILED_TO_START
    assert end_of(ended, "a") == (None, "CannotPullContainerError: no")
    assert end_of(ended, "b") == (None, "")


# Surroundings.


def test_nothing_of_the_emulators_environment_reaches_a_task(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    with open_bench(tmp_path) as bench:
        task = bench.start("env", env=(("A", "1"), ("B", "two words")))
        bench.ended(task)

    given = dict(line.split("=", 1) for line in bench.output(task).splitlines())
    assert given.keys() == {"PATH", "LANG", "HOME", "TMPDIR", "WHERRY_TASK", "A", "B"}
    assert (given["A"], given["B"]) == ("1", "two words")


def test_a_task_starts_in_a_folder_of_its_own_that_goes_when_it_ends(bench):
    script = "pwd; echo $HOME; touch $TMPDIR/x; mkdir -p deep/er; touch deep/er/f; chmod 0 deep"

    task = bench.start("sh", "-c", script)
    ended = bench.ended(task)

    cwd, home = bench.output(task).splitlines()
    assert end_of(ended) == (0, "")
    assert cwd == home
    assert os.path.basename(cwd) == task
    assert folders(bench) == []


def test_a_task_reads_nothing_from_standard_input(bench):
    task = bench.start("sh", "-c", "cat; readlink /proc/self/fd/0")
    bench.ended(task)

    assert bench.output(task) == "/dev/null\n"


def test_a_task_inherits_no_descriptor_of_the_agent(bench):
    task = bench.start("sh", "-c", "ls /proc/$$/fd")
    bench.ended(task)

    assert bench.output(task).split() == ["0", "1", "2"]


def test_both_streams_come_in_the_order_of_writing(bench):
    task = bench.start("sh", "-c", "for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done")
    bench.ended(task)

    expected = [f"{stream} {i}" for i in range(1, 6) for stream in ("out", "err")]
    assert bench.output(task).splitlines() == expected


def test_a_mount_is_a_link_in_the_tasks_folder(bench, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "in").write_text("from outside")
    mount = Mount("/mnt/data", source=str(data))

    task = bench.start("sh", "-c", "cat mnt/data/in; echo back > mnt/data/out", mounts=(mount,))
    bench.ended(task)

    assert bench.output(task) == "from outside"
    assert (data / "out").read_text() == "back\n"
    assert (data / "in").exists()
    assert any("/data is found as data" in note for note in bench.engine.notes)


def test_a_mount_at_its_own_path_needs_no_link(bench, tmp_path):
    mount = Mount(str(tmp_path), source=str(tmp_path))

    task = bench.start("ls", "-A", mounts=(mount,))
    bench.ended(task)

    assert bench.output(task) == "tmp\n"


def test_a_mount_never_leads_out_of_the_folder(bench, tmp_path):
    mount = Mount("/../../../escaped", source=str(tmp_path))

    task = bench.start("ls", mounts=(mount,))
    bench.ended(task)

    assert bench.output(task).split() == ["escaped", "tmp"]


def test_a_mount_below_a_mount_is_left_out_and_said(bench, tmp_path):
    mounts = Mount("/a", source=str(tmp_path / "a")), Mount("/a/b", source=str(tmp_path / "b"))

    bench.run("true", mounts=mounts)

    assert list((tmp_path / "a").iterdir()) == []
    assert "A mount below another mount is left out." in bench.engine.notes


def test_what_a_process_does_not_have_of_a_container_is_said_once(bench):
    fields = {
        "user": "nobody",
        "privileged": True,
        "read_only_root": True,
        "gpus": 1,
        "tmpfs": (Tmpfs("/scratch", 16),),
        "devices": (Device("/dev/null", "/dev/x"),),
        "mounts": (Mount("/data", volume="v", read_only=True),),
    }
    bench.run("true", **fields)
    bench.run("true", **fields)

    notes = bench.engine.notes
    for word in ("Images", "vCPUs", "Memory", "GPUs", "user", "privileged", "readonlyRoot"):
        assert sum(word in note.partition(" ")[0] for note in notes) == 1, word
    assert len(notes) == len(set(notes))


def test_nothing_is_said_that_no_task_asked_for(bench):
    bench.run("true")

    assert [note.partition(" ")[0] for note in bench.engine.notes] == ["Images", "vCPUs", "Memory"]


def test_live_tasks_of_a_network_have_addresses_of_their_own_that_connect(bench):
    listen = (
        "import socket,sys,os; s=socket.create_server((sys.argv[1],0));"
        "print(s.getsockname()[1],flush=True); print(s.accept()[0].recv(9).decode())"
    )
    nodes = [bench.start("sleep", "60", network="job") for _ in range(3)]
    addresses = [bench.started(node).address for node in nodes]
    assert len(set(addresses)) == 3
    assert all(address.startswith("127.") for address in addresses)

    server = bench.start(sys.executable, "-c", listen, addresses[0])
    port = int(bench.says(server, "\n"))
    with socket.create_connection((addresses[0], port), source_address=(addresses[1], 0)) as sent:
        sent.sendall(b"hello")
    bench.ended(server)

    assert bench.output(server).endswith("hello\n")


def test_a_task_without_a_network_is_at_loopback(bench):
    task = bench.start("true")

    assert bench.started(task).address == "127.0.0.1"
    assert bench.engine.endpoint(4566) == "http://127.0.0.1:4566"
    assert bench.engine.addresses() == ()


# Limits.


@pytest.mark.parametrize(
    ("name", "flag", "value", "shown"),
    [
        ("nofile", "-n", 100, "100"),
        ("core", "-c", 0, "0"),
        ("fsize", "-f", 4096, "4"),
        ("stack", "-s", 1 << 20, "1024"),
        ("memlock", "-l", 1 << 16, "64"),
        ("cpu", "-t", 77, "77"),
    ],
)
def test_ulimits_are_those_of_the_job_definition(bench, name, flag, value, shown):
    script = f"ulimit -S {flag}; ulimit -H {flag}"

    task = bench.start("bash", "-c", script, ulimits=((name, value, value),))
    bench.ended(task)

    assert bench.output(task).split() == [shown, shown]


def test_a_task_has_the_emulators_own_limits_where_none_are_given(bench):
    task = bench.start("bash", "-c", "ulimit -S -n; ulimit -H -n")
    bench.ended(task)

    assert [int(word) for word in bench.output(task).split()] == list(
        resource.getrlimit(resource.RLIMIT_NOFILE)
    )


def test_a_limit_that_nobody_knows_fails_the_start(bench):
    ended = bench.run("true", ulimits=(("nofiles", 1, 1),))

    assert end_of(ended) == (None, "CannotCreateContainerError: invalid ulimit type: nofiles")


HOG = "import time; block = bytearray({mib} << 20); print('full', flush=True); time.sleep(60)"


def test_a_tree_that_holds_too_much_memory_is_killed_for_it(bench):
    script = f'{sys.executable} -c "{HOG.format(mib=100)}" & wait'

    ended = bench.run("sh", "-c", script, memory_mib=60)

    assert ended.reason == ESSENTIAL_EXITED
    assert end_of(ended) == (137, OUT_OF_MEMORY)


def test_pages_that_processes_share_count_once(bench):
    shared = (
        "import os, time\n"
        "block = bytearray(os.urandom(1 << 20)) * 40\n"
        "children = [os.fork() for _ in range(1)]\n"
        "for _ in range(3):\n"
        "    if 0 not in children: children.append(os.fork())\n"
        "if 0 in children: time.sleep(60)\n"
        "time.sleep(1.2)\n"
        "print('done', flush=True)\n"
    )

    task = bench.start(sys.executable, "-S", "-c", shared, memory_mib=120)

    assert end_of(bench.ended(task)) == (0, "")


# Being told to stop.

STUBBORN = "trap 'echo told' TERM; echo ready; while :; do sleep 0.05; done"
POLITE = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.05; done"


def test_a_stop_lets_a_program_end_by_itself(bench):
    task = bench.start("sh", "-c", POLITE)
    bench.says(task, "ready")

    bench.engine.stop(task, 20)

    assert end_of(bench.ended(task)) == (7, "")
    assert bench.output(task) == "ready\nbye\n"


def test_a_program_that_does_not_heed_a_stop_is_killed_after_the_grace(bench):
    task = bench.start("sh", "-c", STUBBORN)
    bench.says(task, "ready")

    bench.engine.stop(task, 0.3)
    ended = bench.ended(task)

    assert (ended.reason, end_of(ended)) == (ESSENTIAL_EXITED, (137, ""))
    assert "told" in bench.output(task)


def test_only_the_program_itself_is_asked_to_end(bench):
    """As in a container, where signals go to process 1."""
    inner = "trap 'echo inner' TERM; echo ready; while :; do sleep 0.05; done"
    script = f"trap 'echo outer; exit 0' TERM; sh -c \"{inner}\" & while :; do sleep 0.05; done"
    task = bench.start("sh", "-c", script)
    bench.says(task, "ready")

    bench.engine.stop(task, 20)
    bench.ended(task)

    assert bench.output(task) == "ready\nouter\n"


def test_a_stop_that_follows_the_start_at_once_ends_the_task(bench):
    task = bench.start("sleep", "60")
    bench.engine.stop(task, 20)

    assert end_of(bench.ended(task)) == (143, "")


def test_a_lost_task_has_no_exit_code(bench):
    task = bench.start("sh", "-c", STUBBORN)
    bench.says(task, "ready")

    bench.engine.lose(task, HOST_GONE)

    ended = bench.ended(task)
    assert (ended.reason, end_of(ended)) == (HOST_GONE, (None, ""))


def test_a_task_can_be_lost_right_after_its_start(bench):
    task = bench.start("sleep", "60")
    bench.engine.lose(task, HOST_GONE)

    assert bench.ended(task).reason == HOST_GONE


def test_words_about_unknown_tasks_are_ignored(bench):
    bench.engine.stop("0" * 32, 1)
    bench.engine.lose("0" * 32, "why")
    bench.engine.forget_network("none")

    assert end_of(bench.run("true")) == (0, "")


DAEMON = (
    "import os, sys, time\n"
    "if os.fork(): sys.exit(int(sys.argv[1]))\n"
    "os.setsid()\n"
    "if os.fork(): os._exit(0)\n"
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print(os.getpid(), flush=True)\n"
    "time.sleep(60)\n"
)


def test_a_program_need_not_wait_for_what_it_leaves_behind(bench):
    bench.start("sleep", "60")

    task = bench.start(sys.executable, "-S", "-c", DAEMON, "5")
    ended = bench.ended(task)

    assert end_of(ended) == (5, "")
    assert all(not is_alive(int(pid)) for pid in bench.output(task).split())


def test_what_a_program_leaves_behind_is_killed_when_it_ends(bench):
    other = bench.start("sleep", "60")
    script = f"{sys.executable} -S -c '{DAEMON}' 0; while :; do sleep 0.01; done"
    task = bench.start("sh", "-c", script)
    daemon = int(bench.says(task, "\n"))
    assert is_alive(daemon)

    bench.engine.stop(task, 20)
    bench.ended(task)

    assert not is_alive(daemon)
    assert all(type(event) is TaskStarted for event in bench.events if event.task_id == other)


def test_even_without_its_environment_it_is_known_by_its_folder(bench):
    bench.start("sleep", "60")
    bench.start("sleep", "60")
    script = f"env -i {sys.executable} -S -c '{DAEMON}' 0; while :; do sleep 0.01; done"
    task = bench.start("sh", "-c", script)
    daemon = int(bench.says(task, "\n"))

    bench.engine.stop(task, 20)
    bench.ended(task)

    assert not is_alive(daemon)


# The engine itself.


def test_closing_ends_what_runs_as_if_its_host_had_gone(tmp_path):
    with open_bench(tmp_path / "scratch") as bench:
        task = bench.start("sh", "-c", STUBBORN)
        bench.says(task, "ready")
        agent = bench.engine.agent

    ended = bench.ended(task)
    assert (ended.reason, end_of(ended)) == ("Host EC2 terminated.", (None, ""))
    assert not is_alive(agent)
    assert list((tmp_path / "scratch").iterdir()) == []


def test_closing_again_is_harmless(tmp_path):
    with open_bench(tmp_path) as bench:
        bench.engine.close()

    bench.engine.close()
    assert bench.engine.agent == 0


def test_a_closed_engine_takes_no_task(tmp_path):
    with open_bench(tmp_path) as bench:
        pass

    with pytest.raises(StateError, match="not open"):
        bench.start("true")


def test_an_engine_that_cannot_keep_folders_does_not_open(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(LaunchError, match="process engine"):
        with open_bench(tmp_path / "file"):
            pass


def test_what_an_earlier_life_left_behind_is_removed(tmp_path):
    (tmp_path / "tasks-old" / "0123").mkdir(parents=True)
    (tmp_path / "mine").mkdir()

    with open_bench(tmp_path):
        assert not (tmp_path / "tasks-old").exists()
        assert (tmp_path / "mine").exists()


def test_two_engines_share_a_scratch_folder_in_peace(tmp_path):
    with open_bench(tmp_path) as first:
        task = first.start("sh", "-c", "echo ready; while ! test -e go; do sleep 0.01; done; pwd")
        first.says(task, "ready")
        with open_bench(tmp_path) as second:
            assert end_of(second.run("true")) == (0, "")
        folder = next(path for path in tmp_path.rglob(task))
        Path(folder, "go").touch()

        assert end_of(first.ended(task)) == (0, "")


def test_a_listener_that_fails_does_not_stop_the_engine(bench, caplog):
    def fail(data):
        raise RuntimeError("sink")

    bench.take = fail
    task = bench.start("echo", "hello")
    bench.ended(task)
    until(lambda: "was not taken" in caplog.text)
    bench.take = lambda data: None

    assert end_of(bench.run("true")) == (0, "")
