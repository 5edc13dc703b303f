"""Jobs on Amazon EKS: a pod for each attempt, as DescribeJobs shows it."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from support.emulated import World
from support.emulator_api import read
from wherry.emulator.batch.definitions import document_of
from wherry.emulator.batch.ports import Document
from wherry.emulator.engines.api import (
    ESSENTIAL_EXITED,
    FAILED_TO_START,
    OUT_OF_MEMORY,
    ContainerEnd,
    TaskEnded,
)

CLUSTER = "arn:aws:eks:us-east-1:123456789012:cluster/c"


def container(name: str) -> Document:
    return {
        "name": name,
        "image": "busybox",
        "command": ["true"],
        "resources": {"limits": {"cpu": "1", "memory": "128Mi"}},
    }


def pod(*names: str, first: tuple[str, ...] = (), **more: Any) -> Document:
    """Return a definition of a pod, as AWS completes it."""
    properties = {"containers": [container(name) for name in names], **more}
    if first:
        properties["initContainers"] = [container(name) for name in first]
    request = {"type": "container", "eksProperties": {"podProperties": properties}}
    return document_of(request)


@pytest.fixture
def world() -> World:
    """A world whose environment belongs to a cluster of EKS, with a definition of two containers.

    An init container goes before them.
    """
    world = World()
    environment = world.catalog.environment("ce")
    environment.eks = {"eksClusterArn": CLUSTER, "kubernetesNamespace": "batch"}
    environment.ecs_cluster_arn = ""
    world.catalog.keep(environment)
    world.placement.changed()
    world.define("pod", pod("one", "other", first=("init",)))
    return world


def ends(world: World, job: str, why: str = ESSENTIAL_EXITED, **codes: int | None) -> None:
    """Let the containers of a job's pod end."""
    task = world.task_of(job)
    world.engine.tasks.pop(task.id)
    world.tell(TaskEnded(task.id, why, {name: ContainerEnd(code) for name, code in codes.items()}))


def attempts(world: World, job: str) -> list[Document]:
    """Return ``eksAttempts``, after a look at whether the whole answer is as the model has it."""
    answer = world.call("DescribeJobs", jobs=[job])
    found: list[Document] = read("DescribeJobs", answer)["jobs"][0]["eksAttempts"]
    return found


def properties(world: World, job: str) -> Document:
    found: Document = world.describe(job)["eksProperties"]["podProperties"]
    return found


def test_a_pod_is_handed_to_the_engine_as_one_that_ends_with_all_its_containers(
    world: World,
) -> None:
    task = world.task_of(world.submit("pod"))

    assert task.ends_with == "all"
    assert [one.name for one in task.containers] == ["init", "one", "other"]


def test_a_job_succeeds_when_all_containers_of_its_pod_ended_with_0(world: World) -> None:
    job = world.submit("pod")
    world.begin(job)
    ends(world, job, init=0, one=0, other=0)

    assert world.status(job) == "SUCCEEDED"


@pytest.mark.parametrize("codes", [{"one": 1, "other": 0}, {"one": 0, "other": 1}])
def test_a_job_fails_with_any_container_of_its_pod(world: World, codes: dict[str, int]) -> None:
    job = world.submit("pod")
    world.begin(job)
    ends(world, job, init=0, **codes)

    shown = world.describe(job)
    assert (shown["status"], shown["statusReason"]) == ("FAILED", ESSENTIAL_EXITED)


def test_what_is_shown_while_a_pod_runs_is_its_name_and_its_node(world: World) -> None:
    job = world.submit("pod")
    assert world.describe(job)["eksAttempts"] == []
    task = world.begin(job)

    shown = properties(world, job)

    instance = next(iter(world.plane.flights.values())).place.instance_id
    assert shown["podName"] == f"aws-batch.{uuid.UUID(task.id)}"
    assert shown["nodeName"] == f"{instance}.ec2.internal"
    assert [one["name"] for one in shown["containers"]] == ["one", "other"]
    assert not any("exitCode" in one for one in shown["containers"])
    assert "container" not in world.describe(job)


def test_exit_codes_and_reasons_are_shown_for_each_container(world: World) -> None:
    job = world.submit("pod")
    task = world.begin(job)
    codes = {
        "init": ContainerEnd(0),
        "one": ContainerEnd(137, OUT_OF_MEMORY),
        "other": ContainerEnd(3),
    }
    world.engine.tasks.pop(task.id)
    world.tell(TaskEnded(task.id, ESSENTIAL_EXITED, codes))

    shown = properties(world, job)

    one, other = shown["containers"]
    assert (one["exitCode"], one["reason"]) == (137, OUT_OF_MEMORY)
    assert (other["exitCode"], "reason" in other) == (3, False)
    assert shown["initContainers"][0]["exitCode"] == 0


def test_each_ended_attempt_is_shown_with_its_pod(world: World) -> None:
    job = world.submit("pod", retryStrategy={"attempts": 2})
    first = world.begin(job)
    world.turn(5)
    ends(world, job, init=0, one=1, other=0)
    second = world.begin(job)
    ends(world, job, init=0, one=0, other=0)

    shown = attempts(world, job)

    assert [one["podName"] for one in shown] == [
        f"aws-batch.{uuid.UUID(task.id)}" for task in (first, second)
    ]
    assert shown[0]["containers"] == [
        {"name": "one", "exitCode": 1},
        {"name": "other", "exitCode": 0},
    ]
    assert shown[0]["initContainers"] == [{"name": "init", "exitCode": 0}]
    assert (shown[0]["eksClusterArn"], shown[0]["podNamespace"]) == (CLUSTER, "batch")
    assert shown[0]["nodeName"].endswith(".ec2.internal")
    assert shown[0]["stoppedAt"] - shown[0]["startedAt"] == 5000
    assert shown[0]["statusReason"] == ESSENTIAL_EXITED
    assert world.describe(job)["attempts"] == []
    assert world.status(job) == "SUCCEEDED"


def test_a_namespace_of_the_pod_is_shown_instead_of_the_environments(world: World) -> None:
    world.define("named", pod("one", metadata={"namespace": "mine"}))
    job = world.submit("named")
    world.run(job)

    assert attempts(world, job)[0]["podNamespace"] == "mine"


def test_an_init_container_that_fails_decides_with_its_code(world: World) -> None:
    rules = [{"onExitCode": "3", "action": "RETRY"}, {"onReason": "*", "action": "EXIT"}]
    strategy = {"attempts": 3, "evaluateOnExit": rules}
    job = world.submit("pod", retryStrategy=strategy)
    ends(world, job, FAILED_TO_START, init=3, one=None, other=None)
    assert world.status(job) == "STARTING"
    ends(world, job, FAILED_TO_START, init=4, one=None, other=None)

    assert world.status(job) == "FAILED"
    assert [one["initContainers"][0]["exitCode"] for one in attempts(world, job)] == [3, 4]
    assert attempts(world, job)[0]["containers"] == [{"name": "one"}, {"name": "other"}]


def test_a_lost_host_leaves_a_pod_without_codes(world: World) -> None:
    job = world.submit("pod")
    task = world.begin(job)
    world.engine.tasks.pop(task.id)
    world.tell(TaskEnded(task.id, "Host EC2 (instance i-1) terminated.", {}))

    [shown] = attempts(world, job)
    assert shown["statusReason"] == "Host EC2 (instance i-1) terminated."
    assert shown["containers"] == [{"name": "one"}, {"name": "other"}]


def test_a_container_without_a_name_is_called_default(world: World) -> None:
    nameless = {key: value for key, value in container("x").items() if key != "name"}
    properties_ = {"podProperties": {"containers": [nameless]}}
    world.define("plain", document_of({"type": "container", "eksProperties": properties_}))
    job = world.submit("plain")
    world.run(job, code=2)

    assert attempts(world, job)[0]["containers"] == [{"name": "Default", "exitCode": 2}]
    assert properties(world, job)["containers"][0]["exitCode"] == 2


def test_an_attempt_is_still_described_when_its_environment_has_gone(world: World) -> None:
    job = world.submit("pod")
    world.begin(job)
    ends(world, job, init=0, one=0, other=0)
    world.catalog.remove(world.catalog.environment("ce"))

    [shown] = attempts(world, job)

    assert "eksClusterArn" not in shown
    assert shown["podName"].startswith("aws-batch.")


def test_capacity_of_pods_is_counted_in_cpu(world: World) -> None:
    job = world.submit("pod")
    world.begin(job)

    [summary] = world.call("ListJobs", jobQueue="main")["jobSummaryList"]

    assert summary["capacityUsage"] == [{"capacityUnit": "cpu", "quantity": 2}]


def test_jobs_of_ecs_show_no_pods(world: World) -> None:
    job = world.submit()
    world.run(job)

    assert attempts(world, job) == []
    assert len(world.describe(job)["attempts"]) == 1
