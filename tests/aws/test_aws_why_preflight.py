"""Before a job is sent: what can never run there is certain, what may be tomorrow is a warning."""

from __future__ import annotations

from typing import Any

import pytest

from support.why_world import ACCOUNT, REGION, ROLE, World, wants
from wherry.aws.diagnosis import SessionServices, preflight
from wherry.emulator import Running
from wherry.specs.diagnosis import Certainty, Finding


@pytest.fixture
def world(wherry_aws: Running) -> World:
    return World(wherry_aws)


def definition(
    vcpus: float = 1, memory: int = 128, gpus: int = 0, **container: Any
) -> dict[str, Any]:
    properties = {
        "image": "alpine:3",
        "command": ["true"],
        "resourceRequirements": wants(vcpus, memory, gpus),
        **container,
    }
    return {"type": "container", "containerProperties": properties}


def found(
    world: World, defined: dict[str, Any], queue: str = "main", **submission: Any
) -> list[Finding]:
    request = {"jobName": "train", "jobQueue": queue, **submission}
    return preflight(SessionServices(world.session), request, defined)


def codes(findings: list[Finding]) -> list[tuple[str, Certainty]]:
    return [(finding.code, finding.certainty) for finding in findings]


def test_what_fits_has_nothing_against_it(world: World) -> None:
    assert found(world, definition()) == []


def test_what_no_host_can_hold_is_certain(world: World) -> None:
    world.queue("small", {})

    assert codes(found(world, definition(memory=64_000), "small")) == [
        ("too-much-memory", Certainty.CERTAIN)
    ]


def test_what_is_perhaps_too_large_is_a_warning(world: World) -> None:
    world.queue("small", {})

    assert codes(found(world, definition(memory=7800), "small")) == [
        ("memory-of-a-whole-host", Certainty.LIKELY)
    ]


def test_overrides_count(world: World) -> None:
    world.queue("small", {})
    less = {"containerOverrides": {"resourceRequirements": wants(1, 1000)}}

    assert found(world, definition(memory=64_000), "small", **less) == []


def test_a_gpu_on_fargate_is_refused_and_so_is_an_odd_pair(world: World) -> None:
    fargate = {"platformCapabilities": ["FARGATE"]}

    with_gpu = found(world, definition(1, 2048, gpus=1) | fargate, "fargate")
    odd = found(world, definition(1, 2000) | fargate, "fargate")

    assert codes(with_gpu)[0] == ("no-gpu-on-fargate", Certainty.CERTAIN)
    assert codes(odd)[0] == ("not-a-fargate-size", Certainty.CERTAIN)


def test_a_job_for_ec2_cannot_run_on_fargate(world: World) -> None:
    assert codes(found(world, definition(), "fargate"))[0] == (
        "wrong-platform",
        Certainty.CERTAIN,
    )


def test_a_gang_cannot_run_on_spot(world: World) -> None:
    container = definition()["containerProperties"]
    nodes = {
        "numNodes": 2,
        "mainNode": 0,
        "nodeRangeProperties": [{"targetNodes": "0:", "container": container}],
    }
    gang = {"type": "multinode", "nodeProperties": nodes}

    assert codes(found(world, gang, "spot"))[0] == ("no-multi-node", Certainty.CERTAIN)
    assert found(world, gang, "main") == []


def test_a_queue_that_does_not_exist_or_is_disabled_is_told(world: World) -> None:
    world.queue("closed", {})
    world.batch.update_job_queue(jobQueue="closed", state="DISABLED")

    assert codes(found(world, definition(), "nowhere")) == [("queue-unknown", Certainty.CERTAIN)]
    assert codes(found(world, definition(), "closed")) == [("queue-disabled", Certainty.CERTAIN)]


def test_an_environment_that_is_closed_today_is_a_warning(world: World) -> None:
    world.queue("small", {})
    world.batch.update_compute_environment(computeEnvironment="small", state="DISABLED")

    assert codes(found(world, definition(), "small")) == [("environments-closed", Certainty.LIKELY)]


def test_image_roles_and_log_group_are_looked_for(world: World) -> None:
    image = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/team/train:v2"
    log = {"logDriver": "awslogs", "options": {"awslogs-group": "/team/train"}}
    defined = definition(image=image, jobRoleArn=f"{ROLE}nobody", logConfiguration=log)

    assert {code for code, _ in codes(found(world, defined))} == {
        "image-not-found",
        "job-role-missing",
        "log-group-missing",
    }


def test_consumable_resources_are_looked_for(world: World) -> None:
    world.batch.create_consumable_resource(consumableResourceName="licence", totalQuantity=1)
    asked = {"consumableResourceList": [{"consumableResource": "licence", "quantity": 2}]}

    findings = found(world, definition(), consumableResourcePropertiesOverride=asked)

    assert codes(findings) == [("consumable-too-small", Certainty.CERTAIN)]


def test_what_could_not_be_looked_at_is_said_and_nothing_refused(world: World) -> None:
    world.fault("access-denied", operation="DescribeJobQueues")

    [finding] = found(world, definition(memory=10**6))

    assert finding.code == "not-looked-at"
    assert finding.certainty is Certainty.POSSIBLE
    assert "batch:DescribeJobQueues" in finding.detail
