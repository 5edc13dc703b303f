"""Tasks of several containers on a real Docker Engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.engine import Bench, bench, container
from wherry.emulator.engines.api import (
    ESSENTIAL_EXITED,
    FAILED_TO_START,
    ContainerEnd,
    Dependency,
    Mount,
    TaskEnded,
    TaskStarted,
)


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """An engine for all tests of this file, which leaves the credentials' address to others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ECS_CONTAINER_METADATA_URI_V4", "http://169.254.170.2/v4/host")
        with bench(tmp_path_factory.mktemp("state")) as made:
            yield made


SERVE = "mkdir /w; echo served > /w/index.html; echo ready; exec httpd -f -p 8080 -h /w"
ASK = "until wget -q -O - http://localhost:8080/; do sleep 0.1; done"


def test_containers_of_a_task_reach_each_other_at_localhost(docker: Bench) -> None:
    made = docker.start(
        container("sh", "-c", SERVE, name="server", essential=False),
        container("sh", "-c", ASK, name="client", depends_on=(Dependency("server", "START"),)),
    )

    assert docker.end(made, "client") == ContainerEnd(0)
    assert b"served" in docker.output(made, "client")
    # An essential container's end has ended the other.
    assert docker.end(made, "server").exit_code in (137, 143)
    assert docker.ended(made).reason == ESSENTIAL_EXITED
    assert [type(event) for event in docker.events(made)] == [TaskStarted, TaskEnded]


def test_the_first_container_may_be_over_before_the_second_begins(docker: Bench) -> None:
    scratch = (Mount("/scratch", volume="scratch"),)
    made = docker.start(
        container(
            "sh", "-c", "echo made > /scratch/x", name="init", essential=False, mounts=scratch
        ),
        container(
            "cat",
            "/scratch/x",
            name="main",
            depends_on=(Dependency("init", "SUCCESS"),),
            mounts=scratch,
        ),
    )

    assert docker.end(made, "main") == ContainerEnd(0)
    assert docker.end(made, "init") == ContainerEnd(0)
    assert docker.output(made, "main") == b"made\n"


def test_complete_is_content_with_any_code(docker: Bench) -> None:
    made = docker.start(
        container("sh", "-c", "exit 4", name="first", essential=False),
        container("true", name="main", depends_on=(Dependency("first", "COMPLETE"),)),
    )

    assert docker.ended(made).containers == {"first": ContainerEnd(4), "main": ContainerEnd(0)}


def test_success_that_never_comes_ends_the_task(docker: Bench) -> None:
    made = docker.start(
        container("sh", "-c", "exit 4", name="first", essential=False),
        container("true", name="main", depends_on=(Dependency("first", "SUCCESS"),)),
    )

    ended = docker.ended(made)

    assert ended.reason == FAILED_TO_START
    assert ended.containers == {"first": ContainerEnd(4), "main": ContainerEnd(None)}
    assert [type(event) for event in docker.events(made)] == [TaskEnded]


def test_an_essential_one_that_cannot_start_ends_those_that_run(docker: Bench) -> None:
    made = docker.start(
        container("sleep", "100", name="runs", essential=False),
        container("/no/such", name="main", depends_on=(Dependency("runs", "START"),)),
    )

    ended = docker.ended(made)

    assert ended.reason == FAILED_TO_START
    assert ended.containers["main"].exit_code is None
    assert ended.containers["main"].reason.startswith("CannotStartContainerError: ")
    assert ended.containers["runs"].exit_code in (137, 143)


def test_one_that_is_not_essential_may_fail_to_start(docker: Bench) -> None:
    made = docker.start(
        container("/no/such", name="extra", essential=False),
        container("sh", "-c", "sleep 1; exit 5", name="main"),
    )

    ended = docker.ended(made)

    assert ended.reason == ESSENTIAL_EXITED
    assert ended.containers["main"] == ContainerEnd(5)
    assert ended.containers["extra"].exit_code is None


LISTENS = "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.1; done"


def test_those_that_depend_on_others_are_stopped_first(docker: Bench) -> None:
    made = docker.start(
        container("sh", "-c", LISTENS, name="base"),
        container("sh", "-c", LISTENS, name="top", depends_on=(Dependency("base", "START"),)),
    )
    docker.says(made, b"ready", "base")
    docker.says(made, b"ready", "top")

    docker.engine.stop(made.id, 30)

    assert docker.ended(made).containers == {"base": ContainerEnd(0), "top": ContainerEnd(0)}
    story = [item for item in docker.story if isinstance(item, tuple) and item[0] == made.id]
    assert story.index((made.id, "top", b"")) < story.index((made.id, "base", b"asked\n"))


def test_each_has_its_own_time_to_stop(docker: Bench) -> None:
    made = docker.start(
        container("sh", "-c", "trap '' TERM; echo ready; sleep 100", name="deaf", essential=False),
        container("sh", "-c", "sleep 1", name="main"),
    )

    assert docker.end(made, "deaf") == ContainerEnd(137)


def test_a_dependency_that_takes_too_long_ends_the_task(docker: Bench) -> None:
    made = docker.start(
        container("sleep", "100", name="slow", essential=False, start_timeout=0.3),
        container("true", name="main", depends_on=(Dependency("slow", "COMPLETE"),)),
    )

    ended = docker.ended(made)

    assert ended.reason == FAILED_TO_START
    assert ended.containers["main"] == ContainerEnd(None)


def test_a_task_may_share_processes_and_memory_segments(docker: Bench) -> None:
    made = docker.start(
        container("sh", "-c", "echo x > /dev/shm/x; exec sleep 99", name="a", essential=False),
        container(
            "sh",
            "-c",
            "until cat /dev/shm/x; do sleep 0.1; done; ps",
            name="b",
            depends_on=(Dependency("a", "START"),),
        ),
        pid_mode="task",
        ipc_mode="task",
    )

    assert docker.end(made, "b") == ContainerEnd(0)
    assert b"x\n" in docker.output(made, "b")
    assert b"sleep 99" in docker.output(made, "b")


def test_a_lost_task_loses_all_its_containers(docker: Bench) -> None:
    made = docker.start(
        container("sh", "-c", "echo over", name="over", essential=False),
        container("sleep", "100", name="runs"),
    )
    docker.started(made)
    docker.says(made, b"over", "over")

    docker.engine.lose(made.id, "gone")

    ended = docker.ended(made)
    assert ended.reason == "gone"
    assert ended.containers == {"over": ContainerEnd(None), "runs": ContainerEnd(None)}


def test_a_pod_is_over_when_all_its_containers_have_ended(docker: Bench) -> None:
    scratch = (Mount("/scratch", volume="scratch"),)
    waits = "trap 'exit 9' TERM; until test -e /scratch/x; do sleep 0.1; done; sleep 1 & wait"
    made = docker.start(
        container("sh", "-c", "touch /scratch/x; exit 4", name="one", mounts=scratch),
        container("sh", "-c", f"{waits}; exit 5", name="other", mounts=scratch),
        ends_with="all",
    )

    ended = docker.ended(made)

    assert ended.containers == {"one": ContainerEnd(4), "other": ContainerEnd(5)}
    assert ended.reason == ESSENTIAL_EXITED
