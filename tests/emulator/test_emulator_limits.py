"""Each documented number of AWS Batch: what lies at the limit passes, what lies past it does not.

Limits that concern jobs are tested where jobs are accepted, as far as they have no check of their
own here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.emulator_api import (
    CONTAINER,
    EC2_RESOURCES,
    FARGATE_CONTAINER,
    FARGATE_RESOURCES,
    Api,
    arn,
)
from wherry.emulator.batch import limits
from wherry.emulator.batch.errors import ClientError

Do = Callable[[Api, Any], object]


def environment(**change: Any) -> Callable[[Api], object]:
    return lambda api: api.environment("new", {**EC2_RESOURCES, **change})


def container(**change: Any) -> dict[str, Any]:
    return {"containerProperties": {**CONTAINER, **change}}


def environments(api: Api, count: int) -> None:
    for number in range(count):
        api.environment(f"ce{number}")


def queues(api: Api, count: int) -> None:
    api.environment()
    for number in range(count):
        api.queue(f"jq{number}")


def environments_of_a_queue(api: Api, count: int) -> None:
    environments(api, count)
    api.queue("jq", [f"ce{number}" for number in range(count)])


def quota_shares(api: Api, count: int) -> None:
    api(
        "CreateServiceEnvironment",
        serviceEnvironmentName="se",
        serviceEnvironmentType="SAGEMAKER_TRAINING",
        capacityLimits=[{"maxCapacity": 5, "capacityUnit": "NUM_INSTANCES"}],
    )
    quota = {"idleResourceAssignmentStrategy": "FIFO"}
    policy = api("CreateSchedulingPolicy", name="q", quotaSharePolicy=quota)["arn"]
    api(
        "CreateJobQueue",
        jobQueueName="jq",
        priority=1,
        jobQueueType="SAGEMAKER_TRAINING",
        schedulingPolicyArn=policy,
        serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": "se"}],
    )
    for number in range(count):
        api(
            "CreateQuotaShare",
            quotaShareName=f"s{number}",
            jobQueue="jq",
            capacityLimits=[{"maxCapacity": 1, "capacityUnit": "ml.m5.large"}],
            resourceSharingConfiguration={"strategy": "RESERVE"},
            preemptionConfiguration={"inSharePreemption": "DISABLED"},
        )


def definition_of_bytes(api: Api, size: int) -> None:
    fixed = len(
        '{"jobDefinitionName":"jd","type":"container","containerProperties":'
        '{"image":"busybox","command":[""],"resourceRequirements":'
        '[{"type":"VCPU","value":"1"},{"type":"MEMORY","value":"128"}]}}'
    )
    api.definition("jd", **container(command=["x" * (size - fixed)]))


def service_capacity(api: Api, count: int) -> None:
    api(
        "CreateServiceEnvironment",
        serviceEnvironmentName="se",
        serviceEnvironmentType="SAGEMAKER_TRAINING",
        capacityLimits=[
            {"maxCapacity": 1, "capacityUnit": f"ml.m5.{number}xlarge"} for number in range(count)
        ],
    )


def nodes(api: Api, count: int) -> None:
    ranges = [{"targetNodes": "0:", "container": CONTAINER}]
    properties = {"numNodes": count, "mainNode": 0, "nodeRangeProperties": ranges}
    api.definition("jd", type="multinode", containerProperties=None, nodeProperties=properties)


def node_groups(api: Api, count: int) -> None:
    ranges = [{"targetNodes": f"{number}:", "container": CONTAINER} for number in range(count)]
    properties = {"numNodes": count, "mainNode": 0, "nodeRangeProperties": ranges}
    api.definition("jd", type="multinode", containerProperties=None, nodeProperties=properties)


def containers_of_a_task(api: Api, count: int) -> None:
    containers = [{**CONTAINER, "name": f"c{number}"} for number in range(count)]
    properties = {"taskProperties": [{"containers": containers}]}
    api.definition("jd", containerProperties=None, ecsProperties=properties)


def time_limit(api: Api, seconds: int) -> None:
    api.environment()
    action = {
        "state": "RUNNABLE",
        "reason": "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
        "maxTimeSeconds": seconds,
        "action": "CANCEL",
    }
    api.queue("jq", jobStateTimeLimitActions=[action])


def fair(api: Api, **policy: Any) -> None:
    api("CreateSchedulingPolicy", name="p", fairsharePolicy=policy)


def exit_rules(api: Api, count: int) -> None:
    rules = [{"onReason": f"r{number}*", "action": "EXIT"} for number in range(count)]
    api.definition("jd", retryStrategy={"attempts": 2, "evaluateOnExit": rules})


def exit_pattern(api: Api, length: int) -> None:
    rule = {"onStatusReason": "x" * length, "action": "EXIT"}
    api.definition("jd", retryStrategy={"attempts": 2, "evaluateOnExit": [rule]})


def consumables_of_a_job(api: Api, count: int) -> None:
    wanted = [{"consumableResource": f"c{number}", "quantity": 1} for number in range(count)]
    api.definition("jd", consumableResourceProperties={"consumableResourceList": wanted})


def tags(api: Api, count: int) -> None:
    api.definition("jd", tags={f"k{number}": "" for number in range(count)})


def ephemeral(api: Api, gib: int) -> None:
    properties = {**FARGATE_CONTAINER, "ephemeralStorage": {"sizeInGiB": gib}}
    api.definition("jd", platformCapabilities=["FARGATE"], containerProperties=properties)


def described(api: Api, count: int) -> None:
    many = [f"n{number}:1" for number in range(count)]
    api("DescribeJobDefinitions", jobDefinitions=many)
    api("DescribeComputeEnvironments", computeEnvironments=many)
    api("DescribeJobQueues", jobQueues=many)
    api("DescribeSchedulingPolicies", arns=[arn("scheduling-policy", each) for each in many])


def subnets(api: Api, count: int) -> None:
    many = [f"subnet-{number}" for number in range(count)]
    api.environment("ce", {**FARGATE_RESOURCES, "subnets": many})


def security_groups(api: Api, count: int) -> None:
    many = [f"sg-{number}" for number in range(count)]
    api.environment("ce", {**FARGATE_RESOURCES, "securityGroupIds": many})


def swappiness(api: Api, value: int) -> None:
    linux = {"maxSwap": 1, "swappiness": value}
    api.definition("jd", **container(linuxParameters=linux))


def stop_timeout(api: Api, seconds: int) -> None:
    properties = {
        "taskProperties": [{"containers": [{**CONTAINER, "name": "a", "stopTimeout": seconds}]}]
    }
    api.definition("jd", containerProperties=None, ecsProperties=properties)


def memory(api: Api, mib: int) -> None:
    needs = [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": str(mib)}]
    api.definition("jd", **container(resourceRequirements=needs))


def weight(api: Api, factor: float) -> None:
    fair(api, shareDistribution=[{"shareIdentifier": "a", "weightFactor": factor}])


def shares(api: Api, count: int) -> None:
    fair(api, shareDistribution=[{"shareIdentifier": f"s{number}"} for number in range(count)])


MOST: list[tuple[str, Do, int]] = [
    ("environments", environments, limits.ENVIRONMENTS),
    ("queues", queues, limits.QUEUES),
    ("environments of a queue", environments_of_a_queue, limits.ENVIRONMENTS_PER_QUEUE),
    ("quota shares", quota_shares, limits.QUOTA_SHARES_PER_QUEUE),
    ("service capacity", service_capacity, limits.SERVICE_CAPACITY_LIMITS),
    ("bytes of a definition", definition_of_bytes, limits.DEFINITION_BYTES),
    ("nodes", nodes, limits.NODES),
    ("node groups", node_groups, limits.NODE_GROUPS),
    ("containers of a task", containers_of_a_task, limits.CONTAINERS),
    ("time limit", time_limit, limits.TIME_LIMIT_SECONDS[1]),
    ("share decay", lambda a, n: fair(a, shareDecaySeconds=n), limits.SHARE_DECAY_SECONDS[1]),
    ("reservation", lambda a, n: fair(a, computeReservation=n), limits.COMPUTE_RESERVATION[1]),
    ("shares", shares, limits.SHARES),
    ("attempts", lambda a, n: a.definition(retryStrategy={"attempts": n}), limits.ATTEMPTS[1]),
    ("exit rules", exit_rules, limits.EXIT_RULES),
    ("exit pattern", exit_pattern, limits.EXIT_PATTERN_LENGTH),
    ("consumables of a job", consumables_of_a_job, limits.CONSUMABLES_PER_JOB),
    ("tags", tags, limits.TAGS),
    ("tag key", lambda a, n: a.definition(tags={"k" * n: ""}), limits.TAG_KEY_LENGTH),
    ("tag value", lambda a, n: a.definition(tags={"k": "v" * n}), limits.TAG_VALUE_LENGTH),
    ("image", lambda a, n: a.definition(**container(image="i" * n)), limits.IMAGE_LENGTH),
    ("priority", lambda a, n: a.definition(schedulingPriority=n), limits.PRIORITY[1]),
    ("ephemeral storage", ephemeral, limits.EPHEMERAL_GIB[1]),
    ("described", described, limits.DESCRIBED),
    ("page", lambda a, n: a("DescribeJobQueues", maxResults=n), limits.PAGE),
    ("subnets", subnets, limits.FARGATE_SUBNETS),
    ("security groups", security_groups, limits.FARGATE_SECURITY_GROUPS),
    ("swappiness", swappiness, limits.SWAPPINESS[1]),
    ("name of a definition", lambda a, n: a.definition("n" * n), limits.NAME_LENGTH),
    ("name of an environment", lambda a, n: a.environment("n" * n), limits.NAME_LENGTH),
    (
        "name of a policy",
        lambda a, n: a("CreateSchedulingPolicy", name="n" * n),
        limits.NAME_LENGTH,
    ),
    (
        "name of a consumable",
        lambda a, n: a("CreateConsumableResource", consumableResourceName="n" * n),
        limits.NAME_LENGTH,
    ),
    (
        "EC2 images",
        lambda a, n: environment(ec2Configuration=[{"imageType": "ECS_AL2023"}] * n)(a),
        limits.EC2_CONFIGURATIONS,
    ),
    (
        "scale-down delay",
        lambda a, n: environment(scalingPolicy={"minScaleDownDelayMinutes": n})(a),
        limits.SCALE_DOWN_MINUTES[1],
    ),
]
LEAST: list[tuple[str, Do, int]] = [
    ("time limit", time_limit, limits.TIME_LIMIT_SECONDS[0]),
    ("attempts", lambda a, n: a.definition(retryStrategy={"attempts": n}), limits.ATTEMPTS[0]),
    (
        "timeout",
        lambda a, n: a.definition(timeout={"attemptDurationSeconds": n}),
        limits.TIMEOUT_SECONDS,
    ),
    ("priority", lambda a, n: a.definition(schedulingPriority=n), limits.PRIORITY[0]),
    ("nodes", nodes, 1),
    ("containers of a task", containers_of_a_task, 1),
    ("memory", memory, limits.MEMORY_MIB),
    ("ephemeral storage", ephemeral, limits.EPHEMERAL_GIB[0]),
    ("stop timeout", stop_timeout, limits.CONTAINER_TIMEOUT_SECONDS[0]),
    ("share decay", lambda a, n: fair(a, shareDecaySeconds=n), limits.SHARE_DECAY_SECONDS[0]),
    ("reservation", lambda a, n: fair(a, computeReservation=n), limits.COMPUTE_RESERVATION[0]),
    ("page", lambda a, n: a("DescribeJobQueues", maxResults=n), 1),
    (
        "scale-down delay",
        lambda a, n: environment(scalingPolicy={"minScaleDownDelayMinutes": n})(a),
        limits.SCALE_DOWN_MINUTES[0],
    ),
]


def names(cases: list[tuple[str, Do, int]]) -> list[str]:
    return [name for name, _, _ in cases]


@pytest.mark.parametrize(("_name", "do", "most"), MOST, ids=names(MOST))
def test_the_most_passes_and_one_more_does_not(_name, do, most):
    do(Api(), most)
    with pytest.raises(ClientError):
        do(Api(), most + 1)


@pytest.mark.parametrize(("_name", "do", "least"), LEAST, ids=names(LEAST))
def test_the_least_passes_and_one_less_does_not(_name, do, least):
    do(Api(), least)
    with pytest.raises(ClientError):
        do(Api(), least - 1)


def test_weights_have_a_least_and_a_most():
    for factor in limits.WEIGHT:
        weight(Api(), factor)
    for factor in (0.00009, 1000):
        with pytest.raises(ClientError, match=r"between 0\.0001 and 999\.9999"):
            weight(Api(), factor)


def test_consumable_resources_have_a_most(monkeypatch):
    monkeypatch.setattr(limits, "CONSUMABLE_RESOURCES", 2)
    api = Api()
    for name in "ab":
        api("CreateConsumableResource", consumableResourceName=name)

    with pytest.raises(ClientError, match="Maximum number of consumable resources"):
        api("CreateConsumableResource", consumableResourceName="c")


@pytest.mark.parametrize(
    ("vcpus", "memory_mib"),
    [(vcpus, each) for vcpus, sizes in limits.FARGATE_MEMORY_MIB.items() for each in sizes],
)
def test_fargate_takes_all_documented_pairs(vcpus, memory_mib):
    fargate(vcpus, memory_mib)


@pytest.mark.parametrize(
    ("vcpus", "memory_mib"),
    [
        ("0.25", 4096),
        ("0.5", 512),
        ("1", 1024),
        ("1", 2049),
        ("2", 17_408),
        ("4", 4096),
        ("8", 17_408),
        ("16", 36_864),
        ("32", 126_976),
        ("3", 8192),
        ("64", 249_856),
    ],
)
def test_fargate_refuses_other_pairs_in_aws_s_words(vcpus, memory_mib):
    words = (
        rf"Fargate resource requirements \({float(vcpus):.2f} vCPU, {memory_mib} MiB\) not valid"
    )
    with pytest.raises(ClientError, match=words):
        fargate(vcpus, memory_mib)


def fargate(vcpus: str, memory_mib: int) -> None:
    needs = [{"type": "VCPU", "value": vcpus}, {"type": "MEMORY", "value": str(memory_mib)}]
    properties = {**FARGATE_CONTAINER, "resourceRequirements": needs}
    Api().definition("jd", platformCapabilities=["FARGATE"], containerProperties=properties)


# -- limits of jobs, by the checks that whoever accepts jobs calls

CHECKS: list[tuple[str, Callable[[int], None], int, int]] = [
    ("array size", limits.check_array_size, 2, 10_000),
    ("job name", lambda n: limits.check_job_name("n" * n), 1, 128),
    ("share", lambda n: limits.check_share("s" * n), 1, 255),
    ("reason", lambda n: limits.check_reason("r" * n), 0, 1024),
    ("request", lambda n: limits.check_submit_size({"a": "x" * (n - 8)}), 8, 30 * 1024),
]


@pytest.mark.parametrize(
    ("_name", "check", "least", "most"), CHECKS, ids=[name for name, _, _, _ in CHECKS]
)
def test_limits_of_jobs_hold_at_both_ends(_name, check, least, most):
    check(least)
    check(most)
    with pytest.raises(ClientError):
        check(most + 1)


@pytest.mark.parametrize("size", [1, 0, -1])
def test_an_array_of_one_is_refused(size):
    with pytest.raises(ClientError, match="between 2 and 10000"):
        limits.check_array_size(size)


@pytest.mark.parametrize("name", ["", "-a", "_a", "a.b", "a b", "ü", "a\n"])
def test_names_of_jobs_have_a_pattern(name):
    with pytest.raises(ClientError, match="Job name should match valid pattern"):
        limits.check_job_name(name)


@pytest.mark.parametrize("name", ["", "a.b", "a b", "a/b", "ü", "a\n"])
def test_names_of_resources_have_a_pattern(name):
    with pytest.raises(ClientError, match="Job definition name should match a valid pattern"):
        Api().definition(name)


@pytest.mark.parametrize("key", ["", "aws:name", "AWS:name", "a<b"])
def test_keys_of_tags_have_a_pattern(key):
    with pytest.raises(ClientError, match="Tag"):
        Api().definition(tags={key: "v"})


def test_an_empty_map_of_tags_is_fine():
    assert Api().definition(tags={}) == arn("job-definition", "jd:1")


def test_the_size_of_a_request_is_told_in_the_words_that_users_report():
    with pytest.raises(ClientError, match="Job size must be less than 30 KiB, got 47 KiB"):
        limits.check_submit_size({"a": "x" * (47 * 1024 - 20)})
