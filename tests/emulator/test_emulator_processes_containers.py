"""A task of several containers as processes: order, essential ones, time-outs, what they share."""

from __future__ import annotations

import pytest

from support.process_engine import end_of, open_bench, until
from wherry.emulator.engines.api import (
    ESSENTIAL_EXITED,
    FAILED_TO_START,
    Container,
    Dependency,
    Mount,
    TaskStarted,
)

WAITS = "trap 'echo told; exit 9' TERM; touch up; echo ready; while :; do sleep 0.02; done"


@pytest.fixture
def bench(tmp_path):
    with open_bench(tmp_path) as bench:
        yield bench


def shell(name: str, script: str, *after: str, **fields) -> Container:
    """A container; `after` are its dependencies, such as ``other:SUCCESS``."""
    needs = tuple(Dependency(*need.split(":")) for need in after)
    return Container(name, "image", ("sh", "-c", script), depends_on=needs, **fields)


def test_the_end_of_an_essential_container_stops_the_others(bench):
    task = bench.start_task(
        shell("main", "while ! test -e ../helper/up; do sleep 0.01; done; exit 4"),
        shell("helper", WAITS, essential=False),
    )
    ended = bench.ended(task)

    assert ended.reason == ESSENTIAL_EXITED
    assert end_of(ended, "main") == (4, "")
    assert end_of(ended, "helper") == (9, "")


def test_the_end_of_a_container_of_a_pod_stops_nobody(bench):
    task = bench.start_task(
        shell("one", "exit 4"),
        shell("other", "while ! test -e go; do sleep 0.01; done; exit 5"),
        ends_with="all",
    )
    bench.started(task)
    until(lambda: list(bench.scratch.glob("**/other")), "the folder of the other one")
    [folder] = bench.scratch.glob("**/other")
    (folder / "go").touch()

    ended = bench.ended(task)

    assert (end_of(ended, "one"), end_of(ended, "other")) == ((4, ""), (5, ""))
    assert ended.reason == ESSENTIAL_EXITED


def test_a_pod_whose_first_container_fails_never_starts_the_others(bench):
    ended = bench.run_task(
        shell("first", "exit 3", essential=False),
        shell("one", "echo never", "first:SUCCESS"),
        shell("other", "echo never", "first:SUCCESS"),
        ends_with="all",
    )

    assert ended.reason == FAILED_TO_START
    assert end_of(ended, "first") == (3, "")
    assert end_of(ended, "one") == end_of(ended, "other") == (None, "")


def test_a_pod_of_which_one_cannot_start_is_stopped(bench):
    missing = Container("other", "image", ("no-such-program",))

    ended = bench.run_task(shell("one", WAITS), missing, ends_with="all")

    assert end_of(ended, "one")[0] in (9, 143)
    assert end_of(ended, "other")[0] is None


def test_a_container_that_does_not_heed_its_stop_is_killed_after_its_own_time(bench):
    stubborn = "trap '' TERM; touch up; while :; do sleep 0.02; done"

    ended = bench.run_task(
        shell("main", "while ! test -e ../other/up; do sleep 0.01; done"),
        shell("other", stubborn, stop_timeout=0.2),
    )

    assert end_of(ended, "other") == (137, "")


def test_the_end_of_another_container_is_noted_and_no_more(bench):
    ended = bench.run_task(
        shell("extra", "exit 3", essential=False), shell("main", "exit 0", "extra:COMPLETE")
    )

    assert end_of(ended, "extra") == (3, "")
    assert end_of(ended, "main") == (0, "")


def test_success_is_waited_for(bench):
    task = bench.start_task(
        shell("main", "cat ../first/file", "first:SUCCESS"),
        shell("first", "sleep 0.1; echo written > file", essential=False),
    )
    bench.ended(task)

    assert bench.output(task, "main") == "written\n"


def test_a_start_is_waited_for(bench):
    task = bench.start_task(
        shell("main", "while ! test -e ../first/up; do sleep 0.01; done", "first:START"),
        shell("first", WAITS, essential=False),
    )
    ended = bench.ended(task)

    assert end_of(ended, "main") == (0, "")
    assert end_of(ended, "first") == (9, "")


def test_a_failure_where_success_is_needed_ends_the_task_before_it_starts(bench):
    ended = bench.run_task(
        shell("main", "echo never", "first:SUCCESS"), shell("first", "exit 1", essential=False)
    )

    code, reason = end_of(ended, "main")
    assert ended.reason == FAILED_TO_START
    assert code == 143
    assert reason == (
        "CannotStartContainerError: dependency graph: failed to resolve container ordering "
        "dependency [first] for target [main] as dependency did not exit successfully."
    )
    assert TaskStarted not in map(type, bench.events)


def test_what_waits_for_something_that_cannot_start_never_does(bench):
    missing = Container("first", "image", ("no-such-program",), essential=False)

    ended = bench.run_task(shell("main", "true", "first:START"), missing)

    assert end_of(ended, "first")[0] is None
    assert "dependency will never start" in end_of(ended, "main")[1]


def test_a_dependency_that_takes_too_long_ends_the_task(bench):
    ended = bench.run_task(
        shell("main", "true", "first:COMPLETE"),
        shell("first", WAITS, essential=False, start_timeout=0.3),
    )

    assert (
        "ordering dependency [first] for target [main] has timed out." in end_of(ended, "main")[1]
    )
    assert end_of(ended, "main")[0] == 143
    assert end_of(ended, "first") == (9, "")


def test_a_time_to_start_does_not_bind_what_nobody_waits_for(bench):
    ended = bench.run_task(shell("main", "sleep 0.3", start_timeout=0.05))

    assert end_of(ended, "main") == (0, "")


def test_containers_that_wait_for_each_other_end_the_task(bench):
    ended = bench.run_task(shell("a", "true", "b:START"), shell("b", "true", "a:START"))

    assert ended.reason == FAILED_TO_START
    assert "circular" in end_of(ended, "a")[1]


def test_a_missing_program_of_an_essential_container_stops_those_that_run(bench):
    missing = Container("main", "image", ("no-such-program",))

    ended = bench.run_task(shell("other", WAITS, essential=False), missing)

    assert ended.reason == FAILED_TO_START
    assert end_of(ended, "main")[0] is None
    assert end_of(ended, "other")[0] in (9, 143)


def test_those_that_depend_on_others_are_stopped_first(bench):
    writes = (
        "trap 'echo {0} >> ../base/order; exit 0' TERM; echo ready; while :; do sleep 0.02; done"
    )
    task = bench.start_task(
        shell(
            "base",
            "touch order; trap 'echo base >> order; cat order; exit 0' TERM; echo ready; "
            "while :; do sleep 0.02; done",
        ),
        shell("top", writes.format("top"), "base:START"),
    )
    bench.says(task, "ready", "base")
    bench.says(task, "ready", "top")

    bench.engine.stop(task, 20)
    bench.ended(task)

    assert bench.output(task, "base") == "ready\ntop\nbase\n"


def test_the_grace_of_a_stop_is_for_all_containers_together(bench):
    stubborn = "trap '' TERM; echo ready; while :; do sleep 0.02; done"
    task = bench.start_task(
        shell("base", stubborn), shell("top", stubborn, "base:START", stop_timeout=100)
    )
    bench.says(task, "ready", "base")
    bench.says(task, "ready", "top")

    bench.engine.stop(task, 0.3)
    ended = bench.ended(task)

    assert (end_of(ended, "base"), end_of(ended, "top")) == ((137, ""), (137, ""))


def test_what_has_not_started_when_the_task_is_stopped_never_does(bench):
    task = bench.start_task(
        shell("first", WAITS, essential=False), shell("main", "echo never", "first:COMPLETE")
    )
    bench.says(task, "ready", "first")

    bench.engine.stop(task, 20)
    ended = bench.ended(task)

    assert end_of(ended, "first") == (9, "")
    assert end_of(ended, "main") == (None, "")
    assert bench.output(task, "main") == ""


def test_containers_have_folders_of_their_own_and_share_volumes(bench):
    mount = (Mount("/shared", volume="v"),)
    task = bench.start_task(
        shell("reader", "ls; cat shared/f", "writer:SUCCESS", mounts=mount),
        shell("writer", "echo text > shared/f; touch mine", mounts=mount, essential=False),
    )
    bench.ended(task)

    assert bench.output(task, "reader").split() == ["shared", "tmp", "text"]


def test_a_task_has_started_when_its_first_essential_container_runs(bench):
    task = bench.start_task(
        shell("first", "sleep 0.1; echo done", essential=False),
        shell("main", "echo runs", "first:COMPLETE"),
    )
    bench.ended(task)

    told = [what for task_id, what in bench.order if task_id == task]
    assert told.index("output") < told.index("TaskStarted") < told.index("TaskEnded")
    assert told.count("TaskStarted") == 1
