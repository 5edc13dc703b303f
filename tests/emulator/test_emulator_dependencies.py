"""What jobs wait for."""

from __future__ import annotations

from typing import Any

import pytest

from support.emulated import World, multinode
from wherry.emulator.batch.errors import ClientError


@pytest.fixture
def world() -> World:
    return World()


def after(*jobs: str, kind: str = "") -> list[dict[str, str]]:
    """Return ``dependsOn``."""
    return [{"jobId": job, **({"type": kind} if kind else {})} for job in jobs]


def test_a_job_with_a_dependency_is_pending_until_that_succeeds(world: World) -> None:
    first = world.submit()
    second = world.submit(dependsOn=after(first))
    assert world.status(second) == "PENDING"

    world.run(first)

    assert world.states(second) == ["PENDING", "RUNNABLE", "STARTING"]


def test_all_dependencies_have_to_succeed(world: World) -> None:
    first, second = world.submit(), world.submit()
    job = world.submit(dependsOn=after(first, second))

    world.run(first)
    assert world.status(job) == "PENDING"
    world.run(second)
    assert world.status(job) == "STARTING"


def test_a_failed_dependency_fails_the_job_and_what_waits_for_that(world: World) -> None:
    first = world.submit()
    second = world.submit(dependsOn=after(first))
    third = world.submit(dependsOn=after(second))

    world.run(first, code=1)

    for job in (second, third):
        shown = world.describe(job)
        assert (shown["status"], shown["statusReason"]) == ("FAILED", "Dependent Job failed")
        assert shown["attempts"] == []
        assert "exitCode" not in shown["container"]


def test_dependencies_that_have_ended_count_at_once(world: World) -> None:
    good, bad = world.submit(), world.submit()
    world.run(good)
    world.run(bad, code=1)

    assert world.status(world.submit(dependsOn=after(good))) == "STARTING"
    assert world.status(world.submit(dependsOn=after(bad))) == "FAILED"


def test_a_retried_dependency_is_waited_for(world: World) -> None:
    first = world.submit(retryStrategy={"attempts": 2})
    second = world.submit(dependsOn=after(first))
    world.run(first, code=1)
    assert world.status(second) == "PENDING"

    world.run(first)

    assert world.status(second) == "STARTING"


def test_a_dependency_on_an_array_waits_for_all_of_it(world: World) -> None:
    first = world.submit(arrayProperties={"size": 2})
    second = world.submit(dependsOn=after(first))
    world.run(f"{first}:0")
    assert world.status(second) == "PENDING"

    world.run(f"{first}:1")

    assert world.status(second) == "STARTING"


def test_a_failed_child_fails_what_waits_for_the_array(world: World) -> None:
    first = world.submit(arrayProperties={"size": 2})
    second = world.submit(dependsOn=after(first))
    world.run(f"{first}:0", code=1)
    world.run(f"{first}:1")

    assert world.status(second) == "FAILED"


def test_a_job_can_wait_for_one_child(world: World) -> None:
    first = world.submit(arrayProperties={"size": 2})
    second = world.submit(dependsOn=after(f"{first}:1"))

    world.run(f"{first}:1")

    assert world.status(second) == "STARTING"


def test_n_to_n_pairs_the_children(world: World) -> None:
    first = world.submit(arrayProperties={"size": 3})
    second = world.submit(arrayProperties={"size": 3}, dependsOn=after(first, kind="N_TO_N"))
    assert {world.status(f"{second}:{index}") for index in range(3)} == {"PENDING"}

    world.run(f"{first}:1")
    assert [world.status(f"{second}:{index}") for index in range(3)] == [
        "PENDING",
        "STARTING",
        "PENDING",
    ]
    world.run(f"{first}:0", code=1)
    assert world.status(f"{second}:0") == "FAILED"
    assert world.status(f"{second}:2") == "PENDING"


def test_an_array_with_its_own_dependency_keeps_its_children_back(world: World) -> None:
    first = world.submit()
    second = world.submit(arrayProperties={"size": 2}, dependsOn=after(first))
    assert world.status(second) == "PENDING"
    assert not [task for task in world.engine.started if second in dict(task.labels).values()]

    world.run(first)

    assert world.status(f"{second}:0") == "STARTING"


def test_an_array_fails_with_all_children_when_its_dependency_fails(world: World) -> None:
    first = world.submit()
    second = world.submit(arrayProperties={"size": 3}, dependsOn=after(first))

    world.run(first, code=1)

    shown = world.describe(second)
    assert (shown["status"], shown["statusReason"]) == ("FAILED", "Dependent Job failed")
    assert shown["arrayProperties"]["statusSummary"]["FAILED"] == 3


def test_sequential_children_run_one_after_the_other(world: World) -> None:
    job = world.submit(arrayProperties={"size": 3}, dependsOn=[{"type": "SEQUENTIAL"}])

    for index in range(3):
        assert [world.status(f"{job}:{one}") for one in range(index, 3)] == [
            "STARTING",
            *["PENDING"] * (2 - index),
        ]
        world.run(f"{job}:{index}")

    assert world.status(job) == "SUCCEEDED"


def test_one_failure_stops_the_rest_of_a_sequence(world: World) -> None:
    job = world.submit(arrayProperties={"size": 1000}, dependsOn=[{"type": "SEQUENTIAL"}])
    world.run(f"{job}:0")

    world.run(f"{job}:1", code=1)

    counts = world.describe(job)["arrayProperties"]["statusSummary"]
    assert (counts["SUCCEEDED"], counts["FAILED"]) == (1, 999)
    assert world.status(job) == "FAILED"
    assert world.describe(f"{job}:999")["statusReason"] == "Dependent Job failed"


def test_a_multi_node_job_waits_with_its_nodes(world: World) -> None:
    world.define("gang", multinode())
    first = world.submit()
    job = world.submit("gang", dependsOn=after(first))
    assert (world.status(job), world.status(f"{job}#1")) == ("PENDING", "PENDING")

    world.run(first, code=1)

    assert (world.status(job), world.status(f"{job}#1")) == ("FAILED", "FAILED")


def _refusals(first: str, three: str, gang: str) -> list[tuple[dict[str, Any], str]]:
    return [
        ({"dependsOn": after(first, kind="N_TO_N")}, "array"),
        ({"dependsOn": after(three, kind="N_TO_N"), "arrayProperties": {"size": 2}}, "same size"),
        ({"dependsOn": after(first, kind="N_TO_N"), "arrayProperties": {"size": 2}}, "same size"),
        ({"dependsOn": [{"type": "SEQUENTIAL"}]}, "array"),
        ({"dependsOn": [{"type": "N_TO_N"}], "arrayProperties": {"size": 2}}, "jobId"),
        ({"dependsOn": [{}]}, "jobId"),
        ({"dependsOn": after(f"{gang}#1")}, "node"),
    ]


def test_dependencies_that_make_no_sense_are_refused(world: World) -> None:
    world.define("gang", multinode())
    first, three = world.submit(), world.submit(arrayProperties={"size": 3})
    gang = world.submit("gang")

    for params, word in _refusals(first, three, gang):
        with pytest.raises(ClientError, match=word):
            world.submit(**params)


def test_dependencies_are_described(world: World) -> None:
    first = world.submit()

    assert world.describe(world.submit(dependsOn=after(first)))["dependsOn"] == after(first)


def test_a_dependency_may_be_an_arn_and_is_shown_as_an_id(world: World) -> None:
    first = world.submit()
    arn = world.describe(first)["jobArn"]
    job = world.submit(dependsOn=[{"jobId": arn}])
    assert world.status(job) == "PENDING"
    assert world.describe(job)["dependsOn"] == [{"jobId": first}]

    world.run(first)

    assert world.status(job) == "STARTING"


def test_arrays_may_be_paired_by_arn(world: World) -> None:
    first = world.submit(arrayProperties={"size": 2})
    arn = world.describe(first)["jobArn"]
    job = world.submit(arrayProperties={"size": 2}, dependsOn=[{"jobId": arn, "type": "N_TO_N"}])
    assert world.describe(job)["dependsOn"] == [{"jobId": first, "type": "N_TO_N"}]

    world.run(f"{first}:1")

    assert [world.status(f"{job}:{index}") for index in (0, 1)] == ["PENDING", "STARTING"]
