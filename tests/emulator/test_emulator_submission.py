"""SubmitJob: what it answers, and what it refuses."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest

from support.emulated import SIMPLE, World, multinode
from wherry.emulator.batch import limits
from wherry.emulator.batch.errors import ClientError
from wherry.emulator.batch.records import SchedulingPolicy


@pytest.fixture
def world() -> World:
    return World()


def refused(world: World, **params: Any) -> str:
    """Return the message of a submission that is refused."""
    with pytest.raises(ClientError) as caught:
        world.submit(**params)
    return caught.value.message


def test_it_answers_name_id_and_arn(world: World) -> None:
    answer = world.call("SubmitJob", jobName="a_b-1", jobQueue="main", jobDefinition="simple")

    assert answer["jobName"] == "a_b-1"
    assert uuid.UUID(answer["jobId"]).version == 4
    assert answer["jobArn"] == f"arn:aws:batch:us-east-1:123456789012:job/{answer['jobId']}"


def test_the_same_request_twice_makes_two_jobs(world: World) -> None:
    assert world.submit() != world.submit()


@pytest.mark.parametrize("name", ["", "-a", "_a", "a b", "a.b", "x" * 129])
def test_a_name_that_aws_does_not_take_is_refused(world: World, name: str) -> None:
    assert "Job name" in refused(world, jobName=name)


def test_a_name_of_128_characters_is_taken(world: World) -> None:
    assert world.describe(world.submit(jobName="x" * 128))["jobName"] == "x" * 128


def test_queue_and_definition_go_by_name_and_by_arn(world: World) -> None:
    definition = world.define("other", SIMPLE)

    job = world.describe(world.submit(definition.arn, jobQueue=world.queue.arn))

    assert (job["jobQueue"], job["jobDefinition"]) == (world.queue.arn, definition.arn)


def test_a_definition_without_revision_is_its_latest_active_one(world: World) -> None:
    world.define("many", SIMPLE)
    second = world.define("many", SIMPLE)
    third = world.define("many", SIMPLE)
    third.status = "INACTIVE"

    assert world.describe(world.submit("many"))["jobDefinition"] == second.arn


def test_an_inactive_definition_is_refused(world: World) -> None:
    definition = world.define("old", SIMPLE)
    definition.status = "INACTIVE"

    assert "old:1" in refused(world, definition="old:1")


def test_unknown_queue_and_definition_are_refused(world: World) -> None:
    assert "nowhere" in refused(world, jobQueue="nowhere")
    assert "nothing" in refused(world, definition="nothing")


def test_a_disabled_queue_is_refused(world: World) -> None:
    world.queue.state = "DISABLED"

    assert "ENABLED" in refused(world)


@pytest.mark.parametrize("size", [-1, 0, 1, 10_001])
def test_an_array_size_outside_2_to_10000_is_refused(world: World, size: int) -> None:
    assert "Array size" in refused(world, arrayProperties={"size": size})


@pytest.mark.parametrize("size", [2, 10_000])
def test_an_array_size_at_the_edge_is_taken(world: World, size: int) -> None:
    job = world.submit(arrayProperties={"size": size}, settle=False)

    assert world.describe(job)["arrayProperties"]["size"] == size


def test_a_multi_node_job_cannot_be_an_array(world: World) -> None:
    world.define("gang", multinode())

    assert "Array jobs" in refused(world, definition="gang", arrayProperties={"size": 2})


def test_twenty_dependencies_are_taken_and_one_more_is_refused(world: World) -> None:
    others = [{"jobId": world.submit()} for _ in range(21)]

    world.submit(dependsOn=others[:20])

    assert "20" in refused(world, dependsOn=others)


def test_an_unknown_dependency_is_refused(world: World) -> None:
    missing = str(uuid.uuid4())

    assert missing in refused(world, dependsOn=[{"jobId": missing}])


def test_a_payload_of_more_than_30_kib_is_refused_in_the_words_of_aws(world: World) -> None:
    message = refused(world, parameters={"x": "y" * (47 * 1024 - 200)})

    assert re.search(r"Job size must be less than 30 KiB, got 4[67] KiB", message)


@pytest.mark.parametrize("seconds", [0, 59])
def test_a_timeout_below_60_seconds_is_refused(world: World, seconds: int) -> None:
    assert "60" in refused(world, timeout={"attemptDurationSeconds": seconds})


@pytest.mark.parametrize("attempts", [0, 11])
def test_attempts_outside_1_to_10_are_refused(world: World, attempts: int) -> None:
    assert "10" in refused(world, retryStrategy={"attempts": attempts})


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([{"onReason": "*", "action": "EXIT"}] * 6, "EvaluateOnExit can have at most 5"),
        ([{"action": "EXIT"}], "at least one of onExitCode, onReason or onStatusReason"),
        ([{"onExitCode": "1*2", "action": "EXIT"}], "restricted characters"),
        ([{"onExitCode": "a", "action": "EXIT"}], "restricted characters"),
        ([{"onStatusReason": "Host EC2 (instance*", "action": "RETRY"}], "restricted characters"),
        ([{"onReason": "x" * 513, "action": "RETRY"}], "cannot exceed 512 characters"),
    ],
)
def test_rules_that_aws_does_not_take_are_refused_in_its_words(
    world: World, rules: list[dict[str, str]], words: str
) -> None:
    assert words in refused(world, retryStrategy={"attempts": 2, "evaluateOnExit": rules})


def test_rules_without_attempts_are_refused(world: World) -> None:
    rules = [{"onReason": "*", "action": "EXIT"}]

    assert "RetryAttempts must be provided" in refused(
        world, retryStrategy={"evaluateOnExit": rules}
    )


@pytest.mark.parametrize("priority", [-1, 10_000])
def test_a_priority_outside_0_to_9999_is_refused(world: World, priority: int) -> None:
    assert "between 0 and 9999" in refused(world, schedulingPriorityOverride=priority)


def test_no_more_than_a_million_jobs_can_be_submitted_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert limits.SUBMITTED_JOBS == 1_000_000
    monkeypatch.setattr(limits, "SUBMITTED_JOBS", 3)
    world.submit(settle=False)
    world.submit(settle=False, arrayProperties={"size": 2})

    assert "SUBMITTED state is 3" in refused(world)
    world.settle()
    world.submit()


_ELSEWHERE = "arn:aws:batch:eu-west-1:123456789012"


def test_a_queue_or_definition_of_another_region_is_refused_with_the_reason(world: World) -> None:
    queue = refused(world, jobQueue=f"{_ELSEWHERE}:job-queue/main")
    definition = refused(world, definition=f"{_ELSEWHERE}:job-definition/simple:1")

    assert queue.startswith(f"JobQueue {_ELSEWHERE}:job-queue/main not found.")
    assert definition.startswith("JobDefinition name simple:1 does not exist or is not in ACTIVE")
    for message, here in ((queue, "job-queue/main"), (definition, "job-definition/simple:1")):
        assert "another region or account" in message
        assert f"arn:aws:batch:us-east-1:123456789012:{here}" in message


def test_an_arn_of_another_kind_is_refused_with_the_reason(world: World) -> None:
    arn = "arn:aws:batch:us-east-1:123456789012:job-definition/simple:1"

    assert "no ARN of a job-queue" in refused(world, jobQueue=arn)


def test_a_definition_in_the_old_style_is_overridden_in_the_old_style(world: World) -> None:
    old = {"image": "busybox", "command": ["true"], "vcpus": 1, "memory": 64}
    world.define("old", {**SIMPLE, "containerProperties": old})

    job = world.submit("old", containerOverrides={"vcpus": 2, "memory": 128})

    shown = world.describe(job)["container"]
    assert (shown["vcpus"], shown["memory"], shown["resourceRequirements"]) == (2, 128, [])
    [container] = world.task_of(job).containers
    assert (container.vcpus, container.memory_mib) == (2, 128)
    assert next(iter(world.plane.flights.values())).place.instance_type == "m5.large"


def test_fifty_tags_are_taken_and_one_more_is_refused(world: World) -> None:
    tags = {f"key{n}": "value" for n in range(51)}

    assert "50" in refused(world, tags=tags)
    del tags["key0"]
    assert world.describe(world.submit(tags=tags))["tags"] == tags


def test_a_share_identifier_is_refused_by_a_queue_without_a_policy(world: World) -> None:
    assert "Share identifier" in refused(world, shareIdentifier="a")


def test_a_share_identifier_is_required_by_a_fair_share_queue(world: World) -> None:
    policy = SchedulingPolicy("fair", world.catalog.arn("scheduling-policy", "fair"), {})
    policy.document["fairsharePolicy"] = {}
    world.catalog.keep(policy)
    world.add_queue("fair", scheduling_policy_arn=policy.arn)

    assert "Share identifier" in refused(world, jobQueue="fair")
    job = world.submit(jobQueue="fair", shareIdentifier="teamA", schedulingPriorityOverride=7)
    shown = world.describe(job)
    assert (shown["shareIdentifier"], shown["schedulingPriority"]) == ("teamA", 7)


def test_a_queue_has_at_most_500_active_shares(world: World) -> None:
    policy = SchedulingPolicy("fair", world.catalog.arn("scheduling-policy", "fair"), {})
    policy.document["fairsharePolicy"] = {}
    world.catalog.keep(policy)
    world.add_queue("fair", scheduling_policy_arn=policy.arn)
    jobs = [
        world.submit(jobQueue="fair", shareIdentifier=f"s{n}", settle=False) for n in range(500)
    ]

    world.submit(jobQueue="fair", shareIdentifier="s7", settle=False)
    assert "500" in refused(world, jobQueue="fair", shareIdentifier="another")
    world.call("TerminateJob", jobId=jobs[0], reason="x")
    world.submit(jobQueue="fair", shareIdentifier="another", settle=False)


def test_names_beginning_with_aws_batch_cannot_be_overridden(world: World) -> None:
    environment = [{"name": "AWS_BATCH_JOB_ID", "value": "mine"}]

    assert "AWS_BATCH" in refused(world, containerOverrides={"environment": environment})


def test_the_request_is_not_changed(world: World) -> None:
    overrides = {"environment": [{"name": "A", "value": "1"}]}
    world.run(world.submit(containerOverrides=overrides))

    assert overrides == {"environment": [{"name": "A", "value": "1"}]}


def test_parameters_and_overrides_are_described(world: World) -> None:
    world.define("with", SIMPLE, parameters={"a": "1", "b": "2"})

    shown = world.describe(
        world.submit(
            "with",
            parameters={"b": "3"},
            containerOverrides={
                "command": ["echo", "Ref::b"],
                "resourceRequirements": [{"type": "MEMORY", "value": "256"}],
            },
        )
    )

    assert shown["parameters"] == {"a": "1", "b": "3"}
    assert shown["container"]["command"] == ["echo", "Ref::b"]
    assert {"type": "MEMORY", "value": "256"} in shown["container"]["resourceRequirements"]
    assert {"type": "VCPU", "value": "1"} in shown["container"]["resourceRequirements"]


def test_a_request_overrides_retry_strategy_timeout_and_tag_propagation(world: World) -> None:
    world.define(
        "full", SIMPLE, retryStrategy={"attempts": 5}, timeout={"attemptDurationSeconds": 99}
    )

    plain = world.describe(world.submit("full"))
    other = world.describe(
        world.submit(
            "full",
            retryStrategy={"attempts": 2},
            timeout={"attemptDurationSeconds": 60},
            propagateTags=True,
        )
    )

    assert plain["retryStrategy"]["attempts"] == 5
    assert plain["timeout"] == {"attemptDurationSeconds": 99}
    assert plain["propagateTags"] is False
    assert other["retryStrategy"]["attempts"] == 2
    assert other["timeout"] == {"attemptDurationSeconds": 60}
    assert other["propagateTags"] is True
