"""One container on a real Docker Engine: what it gets, what it says, how it ends."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.engine import Bench, bench, client, container, left, task
from support.waiting import until
from wherry.emulator.engines.api import (
    ESSENTIAL_EXITED,
    FAILED_TO_START,
    OUT_OF_MEMORY,
    ContainerEnd,
    Device,
    Mount,
    TaskEnded,
    TaskEvent,
    TaskStarted,
    Tmpfs,
)


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """An engine for all tests of this file, which leaves the credentials' address to others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ECS_CONTAINER_METADATA_URI_V4", "http://169.254.170.2/v4/host")
        with bench(tmp_path_factory.mktemp("state")) as made:
            yield made


# What it is given.


def test_the_command_gets_its_words_and_its_environment(docker: Bench) -> None:
    end, said = docker.run(
        "sh", "-c", 'echo "$0|$1|$GREETING"', "a b", "", env=(("GREETING", "hello = world"),)
    )

    assert said == "a b||hello = world\n"
    assert end == ContainerEnd(0)


def test_without_a_command_the_image_s_own_runs(docker: Bench) -> None:
    end, said = docker.run()  # sh, whose input is empty

    assert (end, said) == (ContainerEnd(0), "")


def test_an_entrypoint_comes_before_the_command(docker: Bench) -> None:
    _, said = docker.run("b", "c", entrypoint=("echo", "a"))

    assert said == "a b c\n"


def test_it_runs_as_the_user_that_was_asked_for(docker: Bench) -> None:
    _, by_number = docker.run("sh", "-c", "id -u; id -g", user="1234:5678")
    _, by_name = docker.run("id", "-u", user="nobody")

    assert by_number == "1234\n5678\n"
    assert by_name == "65534\n"


def test_it_begins_in_its_working_directory(docker: Bench) -> None:
    _, said = docker.run("pwd", working_dir="/etc")

    assert said == "/etc\n"


def test_shared_memory_tmpfs_and_ulimits_are_as_asked(docker: Bench) -> None:
    _, said = docker.run(
        "sh",
        "-c",
        "df -m /dev/shm /scratch | tail -n 2 | awk '{print $2}'; ulimit -n; ulimit -Hn;"
        " grep ' /scratch ' /proc/mounts",
        shm_mib=37,
        tmpfs=(Tmpfs("/scratch", 11, ("noexec",)),),
        ulimits=(("nofile", 1000, 2000),),
    )

    lines = said.splitlines()
    assert lines[:4] == ["37", "11", "1000", "2000"]
    assert "noexec" in lines[4]


def test_a_read_only_root_cannot_be_written(docker: Bench) -> None:
    end, said = docker.run("touch", "/new", read_only_root=True)

    assert end.exit_code == 1
    assert "Read-only" in said


def test_a_folder_of_this_machine_is_seen_and_may_be_read_only(
    docker: Bench, tmp_path: Path
) -> None:
    (tmp_path / "given").write_text("from here\n")
    source = str(tmp_path)

    end, said = docker.run(
        "sh",
        "-c",
        "cat /in/given; echo back > /out/made; touch /in/no",
        mounts=(Mount("/in", source, read_only=True), Mount("/out", source)),
    )

    assert "from here\n" in said
    assert (tmp_path / "made").read_text() == "back\n"
    assert end.exit_code == 1
    assert not (tmp_path / "no").exists()


def test_a_device_of_this_machine_is_seen(docker: Bench) -> None:
    _, said = docker.run(
        "sh", "-c", "head -c 3 /dev/mine | od -An -tx1", devices=(Device("/dev/zero", "/dev/mine"),)
    )

    assert said.split() == ["00", "00", "00"]


def test_an_init_process_is_there_when_asked_for(docker: Bench) -> None:
    _, without = docker.run("cat", "/proc/1/comm")
    _, with_init = docker.run("cat", "/proc/1/comm", init=True)

    assert without == "cat\n"
    assert "init" in with_init


def test_cpu_shares_are_soft_and_a_hard_limit_is_a_quota(docker: Bench) -> None:
    files = (
        "cat /sys/fs/cgroup/cpu/cpu.shares /sys/fs/cgroup/cpu/cpu.cfs_quota_us"
        if os.path.exists("/sys/fs/cgroup/cpu")
        else "cat /sys/fs/cgroup/cpu.weight /sys/fs/cgroup/cpu.max"
    )

    _, soft = docker.run("sh", "-c", files, vcpus=0.5)
    _, hard = docker.run("sh", "-c", files, vcpus=4, hard_cpu=True)

    assert soft.split()[0] in ("512", "20")
    assert soft.split()[1] in ("-1", "max")
    assert hard.split()[1] == "400000"


def test_it_can_have_the_machine_s_network_and_processes(docker: Bench) -> None:
    made = docker.start(
        container("sh", "-c", "ls /sys/class/net; readlink /proc/1/exe; echo $$"),
        host_network=True,
        pid_mode="host",
    )

    assert docker.end(made) == ContainerEnd(0)
    said = docker.output(made).decode().split()
    assert set(os.listdir("/sys/class/net")) & set(said) > {"lo"}
    assert int(said[-1]) > 1


def test_who_looks_into_the_engine_sees_whose_container_it_is(docker: Bench) -> None:
    made = docker.start(container("sleep", "60"), labels=(("com.example.job", "my job"),))
    docker.started(made)

    assert left("my job", "com.example.job") == [f"/wherry-{docker.name}-{made.id}-default"]

    docker.engine.lose(made.id, "seen enough")
    docker.ended(made)


# How it ends.


def test_start_and_end_are_told_once_and_all_output_comes_between(docker: Bench) -> None:
    made = docker.start(container("sh", "-c", "echo one; sleep 0.2; echo two >&2; exit 3"))

    assert docker.end(made) == ContainerEnd(3)
    assert [type(event) for event in docker.events(made)] == [TaskStarted, TaskEnded]
    assert docker.ended(made).reason == ESSENTIAL_EXITED
    assert docker.output(made) == b"one\ntwo\n"
    story = [item for item in docker.story if isinstance(item, tuple) and item[0] == made.id]
    assert [data for *_, data in story].count(b"") == 1
    last = docker.story.index((made.id, "default", b""))
    assert last < docker.story.index(docker.ended(made))


def test_the_start_is_told_with_the_address(docker: Bench) -> None:
    made = docker.start(container("sh", "-c", "hostname -i; sleep 60"))
    address = docker.started(made).address

    docker.says(made, address.encode())
    docker.engine.stop(made.id, 0)
    docker.ended(made)


def test_a_signal_is_128_and_its_number(docker: Bench) -> None:
    end, _ = docker.run("sh", "-c", "sh -c 'kill -SEGV $$'; exit $?")

    assert end.exit_code == 139


def test_a_program_that_takes_too_much_memory_is_killed(docker: Bench) -> None:
    end, _ = docker.run("tail", "/dev/zero", memory_mib=16, max_swap_mib=0)

    assert end == ContainerEnd(137, OUT_OF_MEMORY)


def test_the_reason_says_so_too_when_only_a_child_was_killed(docker: Bench) -> None:
    end, said = docker.run(
        "sh", "-c", "tail /dev/zero; echo survived", memory_mib=16, max_swap_mib=0
    )

    assert "survived" in said
    assert end == ContainerEnd(0, OUT_OF_MEMORY)


def test_as_little_memory_as_batch_allows_is_enough_for_the_engine(docker: Bench) -> None:
    end, _ = docker.run("true", memory_mib=4)

    assert end == ContainerEnd(0)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"image": "no-such-registry.invalid/nothing:1"}, "CannotPullContainerError: "),
        ({"image": "NOT A NAME"}, "CannotPullContainerError: "),
        (
            {"mounts": (Mount("relative", "/tmp"),)},
            "CannotCreateContainerError: Error response from daemon: ",
        ),
        (
            {"entrypoint": ("/no/such/program",)},
            "CannotStartContainerError: Error response from daemon: ",
        ),
        (
            {"devices": (Device("/dev/no-such-device", "/dev/x"),)},
            "CannotStartContainerError: Error response from daemon: ",
        ),
        ({"gpus": 1}, "CannotStartContainerError: Error response from daemon: "),
    ],
)
def test_what_cannot_start_says_why_and_has_no_code(
    docker: Bench, asked: dict[str, object], reason: str
) -> None:
    if "gpus" in asked and os.path.exists("/dev/nvidia0"):
        pytest.skip("this machine has a GPU")
    made = docker.start(container("true", **asked))

    ended = docker.ended(made)

    assert ended.reason == FAILED_TO_START
    assert ended.containers["default"].exit_code is None
    assert ended.containers["default"].reason.startswith(reason)
    assert len(ended.containers["default"].reason) > len(reason)
    assert [type(event) for event in docker.events(made)] == [TaskEnded]


def test_a_privileged_container_sees_all_or_is_refused_with_the_engine_s_words(
    docker: Bench,
) -> None:
    end, _ = docker.run("sh", "-c", "grep CapEff /proc/self/status", privileged=True)

    refused = end.exit_code is None and end.reason.startswith(
        ("CannotStartContainerError: Error response", "CannotCreateContainerError: Error response")
    )
    assert refused or end == ContainerEnd(0)


def test_a_start_that_fails_on_purpose_makes_no_container(docker: Bench) -> None:
    made = docker.start(container("true"), start_fault="CannotPullContainerError: because")

    assert docker.end(made) == ContainerEnd(None, "CannotPullContainerError: because")
    assert docker.ended(made).reason == FAILED_TO_START


# Stopping.

WAITS_FOR_TERM = "trap 'echo asked; exit 7' TERM; echo ready; while :; do sleep 0.1; done"


def test_stop_asks_first(docker: Bench) -> None:
    made = docker.start(container("sh", "-c", WAITS_FOR_TERM))
    docker.says(made, b"ready")

    docker.engine.stop(made.id, 30)

    assert docker.end(made) == ContainerEnd(7)
    assert docker.output(made) == b"ready\nasked\n"
    assert docker.ended(made).reason == ESSENTIAL_EXITED


def test_stop_kills_what_does_not_listen(docker: Bench) -> None:
    made = docker.start(container("sh", "-c", "trap '' TERM; echo ready; sleep 100"))
    docker.says(made, b"ready")

    docker.engine.stop(made.id, 0.2)

    assert docker.end(made) == ContainerEnd(137)


def test_a_task_that_is_stopped_at_once_never_runs_or_is_stopped(docker: Bench) -> None:
    made = docker.start(container("sh", "-c", "trap '' TERM; sleep 100"))
    docker.engine.stop(made.id, 0)
    docker.engine.stop(made.id, 0)

    assert docker.end(made).exit_code in (None, 137)
    assert [type(event) for event in docker.events(made)].count(TaskEnded) == 1


def test_a_lost_task_has_no_code(docker: Bench) -> None:
    made = docker.start(container("sh", "-c", "echo ready; sleep 100"))
    docker.says(made, b"ready")

    docker.engine.lose(made.id, "Host EC2 (instance i-0) terminated.")

    ended = docker.ended(made)
    assert ended.reason == "Host EC2 (instance i-0) terminated."
    assert ended.containers == {"default": ContainerEnd(None)}


def test_what_is_not_known_cannot_be_stopped_and_that_is_no_error(docker: Bench) -> None:
    docker.engine.stop("unknown", 1)
    docker.engine.lose("unknown", "gone")
    docker.engine.forget_network("unknown")

    assert docker.run("true")[0] == ContainerEnd(0)


def test_a_container_that_somebody_removes_has_ended(docker: Bench) -> None:
    made = docker.start(container("sh", "-c", "echo ready; sleep 100"))
    docker.says(made, b"ready")

    with client() as engine:
        engine.remove_container(f"wherry-{docker.name}-{made.id}-default", force=True)

    assert docker.end(made).exit_code == 137


def test_nothing_of_a_task_that_is_over_stays_in_the_engine(docker: Bench) -> None:
    made = docker.start(container("touch", "/kept/x", mounts=(Mount("/kept", volume="scratch"),)))

    assert docker.end(made) == ContainerEnd(0)

    until(lambda: not left(made.id, "org.wherry.emulator.task"), "the removal of all of it")


# Output.


def test_bytes_come_as_they_were_written(docker: Bench, tmp_path: Path) -> None:
    data = bytes(range(256)) * 40_000
    (tmp_path / "data").write_bytes(data)

    made = docker.start(
        container("cat", "/in/data", mounts=(Mount("/in", str(tmp_path), read_only=True),))
    )

    assert docker.end(made) == ContainerEnd(0)
    assert hashlib.sha256(docker.output(made)).digest() == hashlib.sha256(data).digest()


def test_output_comes_while_the_container_runs(docker: Bench) -> None:
    made = docker.start(container("sh", "-c", "printf 'no newline'; sleep 100"))

    docker.says(made, b"no newline")

    assert not any(isinstance(event, TaskEnded) for event in docker.events(made))
    docker.engine.stop(made.id, 0)
    docker.ended(made)


def test_many_containers_that_end_at_once_lose_nothing(docker: Bench) -> None:
    made = [docker.start(container("echo", f"number {number}")) for number in range(16)]

    for number, each in enumerate(made):
        assert docker.end(each) == ContainerEnd(0)
        assert docker.output(each) == f"number {number}\n".encode()


def test_threads_do_not_grow_with_containers(docker: Bench) -> None:
    def count() -> int:
        return sum(1 for thread in threading.enumerate() if thread.name.startswith("docker-"))

    docker.run("true")
    made = [docker.start(container("sleep", "100")) for _ in range(12)]
    for each in made:
        docker.started(each)
    running = count()
    for each in made:
        docker.engine.lose(each.id, "enough")
    for each in made:
        docker.ended(each)

    assert running <= 3 + 8 + 4 + 3


def test_a_listener_may_start_the_next_task(docker: Bench) -> None:
    first = task(container("true"))
    following = task(container("echo", "next"))

    def chain(event: TaskEvent) -> None:
        if isinstance(event, TaskEnded) and event.task_id == first.id:
            docker.engine.start(following)

    docker.listeners.append(chain)
    docker.engine.start(first)

    assert docker.end(following) == ContainerEnd(0)
    docker.listeners.clear()
