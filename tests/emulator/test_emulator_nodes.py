"""Multi-node parallel jobs: the main node decides."""

from __future__ import annotations

import pytest

from support.emulated import World, multinode


@pytest.fixture
def world() -> World:
    world = World()
    world.define("gang", multinode(3))
    return world


def states(world: World, job: str) -> list[str]:
    """Return the states of the job and of its nodes."""
    return [world.status(one) for one in (job, *(f"{job}#{index}" for index in range(3)))]


def test_the_main_node_starts_first(world: World) -> None:
    job = world.submit("gang")

    assert states(world, job) == ["STARTING", "STARTING", "RUNNABLE", "RUNNABLE"]
    assert len(world.engine.tasks) == 1


def test_the_others_start_when_the_main_node_runs_and_are_told_its_address(world: World) -> None:
    job = world.submit("gang")
    main = world.begin(f"{job}#0", address="10.9.8.7")
    assert states(world, job) == ["RUNNING", "RUNNING", "STARTING", "STARTING"]

    name = "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"
    assert name not in dict(main.containers[0].env)
    for index in (1, 2):
        env = dict(world.task_of(f"{job}#{index}").containers[0].env)
        assert env[name] == "10.9.8.7"
        assert env["AWS_BATCH_JOB_NODE_INDEX"] == str(index)
        assert env["AWS_BATCH_JOB_NUM_NODES"] == "3"


def test_another_main_node_may_be_named(world: World) -> None:
    world.define("last", multinode(3, main=2))
    job = world.submit("last")

    assert states(world, job) == ["STARTING", "RUNNABLE", "RUNNABLE", "STARTING"]


def test_the_nodes_of_a_job_share_a_network_which_is_forgotten_in_the_end(world: World) -> None:
    job = world.submit("gang")
    main = world.begin(f"{job}#0")
    other = world.begin(f"{job}#1")
    assert main.network == other.network != ""

    world.end(f"{job}#0")
    world.obey()

    assert world.engine.networks == [main.network]


def test_the_end_of_the_main_node_stops_the_rest_and_decides(world: World) -> None:
    job = world.submit("gang")
    for index in range(3):
        world.begin(f"{job}#{index}")

    world.end(f"{job}#0", 0)
    assert len(world.engine.stops) == 2
    assert {grace for _, grace in world.engine.stops} == {30.0}
    assert world.status(job) == "RUNNING"
    world.obey()

    assert states(world, job) == ["SUCCEEDED", "SUCCEEDED", "FAILED", "FAILED"]
    assert world.describe(job)["statusReason"] == "Essential container in task exited"


def test_the_job_fails_with_its_main_node(world: World) -> None:
    job = world.submit("gang")
    for index in range(3):
        world.begin(f"{job}#{index}")
    world.end(f"{job}#1", 0)
    world.end(f"{job}#2", 0)
    world.end(f"{job}#0", 9)

    assert states(world, job) == ["FAILED", "FAILED", "SUCCEEDED", "SUCCEEDED"]
    assert world.describe(f"{job}#0")["container"]["exitCode"] == 9
    assert world.describe(job)["attempts"][0]["container"]["exitCode"] == 9


def test_the_death_of_another_node_changes_nothing_and_is_not_retried(world: World) -> None:
    job = world.submit("gang", retryStrategy={"attempts": 3})
    for index in range(3):
        world.begin(f"{job}#{index}")

    world.end(f"{job}#1", 1)

    assert states(world, job) == ["RUNNING", "RUNNING", "FAILED", "RUNNING"]
    assert not world.engine.stops
    world.end(f"{job}#0", 0)
    world.obey()
    assert world.status(job) == "SUCCEEDED"


def test_a_retry_of_the_main_node_starts_the_whole_set_again(world: World) -> None:
    job = world.submit("gang", retryStrategy={"attempts": 2})
    for index in range(3):
        world.begin(f"{job}#{index}")
    world.end(f"{job}#1", 1)
    world.end(f"{job}#0", 1)
    world.obey()
    assert states(world, job) == ["STARTING", "STARTING", "RUNNABLE", "RUNNABLE"]

    for index in range(3):
        world.begin(f"{job}#{index}")
    world.end(f"{job}#0", 0)
    world.obey()

    assert world.status(job) == "SUCCEEDED"
    assert len(world.describe(job)["attempts"]) == 2
    assert len(world.describe(f"{job}#1")["attempts"]) == 2


def test_a_main_node_that_cannot_start_ends_the_job(world: World) -> None:
    job = world.submit("gang")
    world.fail_to_start(f"{job}#0", "CannotPullContainerError: no")

    assert states(world, job) == ["FAILED"] * 4
    assert world.describe(job)["statusReason"] == "Task failed to start"


def test_a_timeout_is_for_the_whole_job(world: World) -> None:
    job = world.submit(
        "gang", timeout={"attemptDurationSeconds": 60}, retryStrategy={"attempts": 3}
    )
    for index in range(3):
        world.begin(f"{job}#{index}")
    world.turn(60)
    assert len(world.engine.stops) == 3
    world.obey()

    assert states(world, job) == ["FAILED"] * 4
    assert world.describe(job)["statusReason"] == "Job attempt duration exceeded timeout"


def test_terminating_the_job_stops_all_nodes(world: World) -> None:
    job = world.submit("gang", retryStrategy={"attempts": 3})
    world.begin(f"{job}#0")
    world.begin(f"{job}#1")
    world.call("TerminateJob", jobId=job, reason="stop")
    world.settle()
    assert len(world.engine.stops) == 3
    assert world.status(job) == "RUNNING"
    world.obey()

    assert states(world, job) == ["FAILED"] * 4
    assert {world.describe(f"{job}#{n}")["statusReason"] for n in range(3)} == {"stop"}
    assert world.describe(job)["statusReason"] == "stop"


def test_terminated_before_the_main_node_runs_no_other_node_starts(world: World) -> None:
    job = world.submit("gang")
    world.call("TerminateJob", jobId=job, reason="stop")
    world.settle()
    world.begin(f"{job}#0")
    world.obey()

    assert len(world.engine.started) == 1
    assert states(world, job) == ["FAILED"] * 4


def test_the_number_of_nodes_can_be_overridden(world: World) -> None:
    job = world.submit("gang", nodeOverrides={"numNodes": 5})

    assert world.describe(job)["nodeProperties"]["numNodes"] == 5
    assert world.knows(f"{job}#4")
    assert not world.knows(f"{job}#5")


def test_a_node_is_described_with_its_place_in_the_set(world: World) -> None:
    job = world.submit("gang")
    world.begin(f"{job}#0")

    main, other = world.describe(f"{job}#0"), world.describe(f"{job}#1")
    assert main["nodeDetails"] == {"nodeIndex": 0, "isMainNode": True}
    assert other["nodeDetails"] == {"nodeIndex": 1, "isMainNode": False}
    assert main["container"]["image"] == "busybox"
    assert world.describe(job)["nodeProperties"]["mainNode"] == 0
    assert "nodeDetails" not in world.describe(job)


def test_all_nodes_get_places_or_none() -> None:
    world = World(vcpus=4)
    world.define("gang", multinode(3))
    world.begin(world.submit())
    world.begin(world.submit())

    job = world.submit("gang")

    assert states(world, job) == ["RUNNABLE"] * 4
