"""Array jobs: children, and a parent that counts them."""

from __future__ import annotations

import pytest

from support.emulated import World
from wherry.emulator.batch.records import STATES


@pytest.fixture
def world() -> World:
    return World()


def array(world: World, size: int = 3, **params: object) -> str:
    """Submit an array; returns its id."""
    return world.submit(arrayProperties={"size": size}, **params)


def summary(world: World, job: str) -> dict[str, int]:
    """Return the states of the children that there are any in."""
    counts = world.describe(job)["arrayProperties"]["statusSummary"]
    assert set(counts) == set(STATES)
    return {status: count for status, count in counts.items() if count}


def test_children_have_the_parents_id_and_their_index(world: World) -> None:
    job = array(world)

    child = world.describe(f"{job}:2")
    assert child["arrayProperties"] == {"index": 2}
    assert child["jobArn"] == world.describe(job)["jobArn"] + ":2"
    assert child["jobName"] == "job"


def test_the_parent_is_pending_while_children_run_and_succeeds_with_the_last(
    world: World,
) -> None:
    job = array(world)
    for index in range(3):
        assert world.status(job) == "PENDING"
        world.run(f"{job}:{index}")

    assert world.states(job) == ["PENDING", "SUCCEEDED"]
    assert summary(world, job) == {"SUCCEEDED": 3}


def test_the_summary_counts_children_by_state(world: World) -> None:
    job = array(world)
    world.begin(f"{job}:0")
    world.run(f"{job}:1", code=1)

    assert summary(world, job) == {"RUNNING": 1, "FAILED": 1, "STARTING": 1}


def test_one_failed_child_fails_the_parent_after_the_others_have_ended(world: World) -> None:
    job = array(world)
    world.run(f"{job}:0", code=1)
    assert world.status(job) == "PENDING"
    world.run(f"{job}:1")
    world.run(f"{job}:2")

    shown = world.describe(job)
    assert shown["status"] == "FAILED"
    assert shown["statusReason"] == "Array Child Job failed"


def test_children_are_told_their_index_and_the_size(world: World) -> None:
    job = array(world)

    env = dict(world.task_of(f"{job}:1").containers[0].env)
    assert env["AWS_BATCH_JOB_ARRAY_INDEX"] == "1"
    assert env["AWS_BATCH_JOB_ARRAY_SIZE"] == "3"
    assert env["AWS_BATCH_JOB_ID"] == f"{job}:1"


def test_children_share_timeout_and_retries_but_not_tags(world: World) -> None:
    job = array(
        world,
        tags={"a": "b"},
        retryStrategy={"attempts": 2},
        timeout={"attemptDurationSeconds": 60},
    )

    child = world.describe(f"{job}:0")
    assert child["tags"] == {}
    assert child["retryStrategy"]["attempts"] == 2
    assert child["timeout"] == {"attemptDurationSeconds": 60}


def test_a_child_is_retried_by_itself(world: World) -> None:
    job = array(world, retryStrategy={"attempts": 2})
    world.run(f"{job}:0", code=1)
    assert world.status(f"{job}:0") == "STARTING"
    world.run(f"{job}:0")
    world.run(f"{job}:1")
    world.run(f"{job}:2")

    assert world.status(job) == "SUCCEEDED"
    assert len(world.describe(f"{job}:0")["attempts"]) == 2
    assert len(world.describe(f"{job}:1")["attempts"]) == 1


def test_terminating_the_parent_reaches_all_children(world: World) -> None:
    job = array(world)
    world.begin(f"{job}:0")
    world.run(f"{job}:1")

    world.call("TerminateJob", jobId=job, reason="stop it")
    world.settle()
    world.obey()

    shown = world.describe(job)
    assert (shown["status"], shown["statusReason"]) == ("FAILED", "stop it")
    assert shown["isTerminated"]
    assert summary(world, job) == {"SUCCEEDED": 1, "FAILED": 2}
    for index in (0, 2):
        child = world.describe(f"{job}:{index}")
        assert (child["statusReason"], child["isTerminated"]) == ("stop it", True)


def test_terminating_one_child_fails_the_parent_and_leaves_the_others(world: World) -> None:
    job = array(world)
    world.call("TerminateJob", jobId=f"{job}:1", reason="only this")
    world.settle()
    world.obey()

    assert world.status(f"{job}:0") == "STARTING"
    world.run(f"{job}:0")
    world.run(f"{job}:2")
    assert world.status(job) == "FAILED"
    assert world.describe(f"{job}:1")["statusReason"] == "only this"


def test_cancelling_the_parent_ends_what_has_not_started() -> None:
    world = World(vcpus=2)
    job = array(world, size=5)
    world.begin(f"{job}:0")

    world.call("CancelJob", jobId=job, reason="never mind")
    world.settle()
    assert summary(world, job) == {"RUNNING": 1, "STARTING": 1, "FAILED": 3}
    world.end(f"{job}:0")
    world.run(f"{job}:1")

    shown = world.describe(job)
    assert (shown["status"], shown["statusReason"]) == ("FAILED", "never mind")
    assert shown["isCancelled"]


def test_a_child_of_a_cancelled_array_is_not_retried() -> None:
    world = World(vcpus=2)
    job = array(world, size=2, retryStrategy={"attempts": 3})
    world.begin(f"{job}:0")
    world.run(f"{job}:1")
    world.call("CancelJob", jobId=job, reason="never mind")
    world.settle()
    world.end(f"{job}:0", 1)

    assert world.status(f"{job}:0") == "FAILED"
    assert world.status(job) == "FAILED"


def test_cancelling_an_array_that_waits_waits_for_what_it_depends_on(world: World) -> None:
    first = world.submit()
    job = array(world, dependsOn=[{"jobId": first}])
    world.call("CancelJob", jobId=job, reason="never mind")
    world.settle()
    assert world.status(job) == "PENDING"

    world.run(first)

    assert world.status(job) == "FAILED"
    assert summary(world, job) == {"FAILED": 3}
    assert not world.engine.tasks


def test_ten_thousand_children_share_their_request_and_definition(world: World) -> None:
    job = array(world, size=10_000, settle=False)

    family = world.plane.book.families[job]
    assert len(family) == 10_000
    assert all(child.request is family[0].request for child in family)
    assert summary(world, job) == {"SUBMITTED": 10_000}


def test_children_become_runnable_a_few_at_a_time(world: World) -> None:
    job = array(world, size=2_000, settle=False)

    world.plane.advance()

    counts = world.describe(job)["arrayProperties"]["statusSummary"]
    assert counts["SUBMITTED"] > 0
    world.settle()
    assert summary(world, job) == {"STARTING": 64, "RUNNABLE": 1936}
