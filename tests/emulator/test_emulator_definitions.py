"""Job definitions: revisions, what is refused, and what AWS adds to what was sent."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.emulator_api import CONTAINER, FARGATE_CONTAINER, REGION, Api, arn
from wherry.emulator.batch import node_rules
from wherry.emulator.batch.catalog import Catalog
from wherry.emulator.batch.errors import ClientError
from wherry.emulator.clock import Clock

DAY = 86_400


MEMORY = [{"type": "MEMORY", "value": "4"}]


@pytest.fixture
def clock() -> Clock:
    return Clock(wall=lambda: 1_000_000_000.0, monotonic=lambda: 0.0)


@pytest.fixture
def api(clock) -> Api:
    return Api(Catalog(REGION, clock))


def revisions(api: Api, **request: Any) -> list[str]:
    found = api("DescribeJobDefinitions", **request)["jobDefinitions"]
    return [f"{each['jobDefinitionName']}:{each['revision']}" for each in found]


def fargate(api: Api, **change: Any) -> None:
    properties = {**FARGATE_CONTAINER, **change}
    api.definition(platformCapabilities=["FARGATE"], containerProperties=properties)


def ecs(api: Api, *containers: dict[str, Any], **task: Any) -> None:
    properties = {"taskProperties": [{"containers": list(containers), **task}]}
    api.definition(containerProperties=None, ecsProperties=properties)


def multinode(api: Api, nodes: int, *ranges: dict[str, Any], main: int = 0) -> None:
    properties = {"numNodes": nodes, "mainNode": main, "nodeRangeProperties": list(ranges)}
    api.definition(type="multinode", containerProperties=None, nodeProperties=properties)


def eks(api: Api, **pod: Any) -> None:
    api.definition(containerProperties=None, eksProperties={"podProperties": pod})


def nodes(target: str, **container: Any) -> dict[str, Any]:
    return {"targetNodes": target, "container": {**CONTAINER, **container}}


# -- revisions


def test_revisions_count_up_and_deregistered_ones_keep_counting(api):
    assert api.definition("jd") == arn("job-definition", "jd:1")
    assert api.definition("jd") == arn("job-definition", "jd:2")
    api("DeregisterJobDefinition", jobDefinition="jd:2")
    api("DeregisterJobDefinition", jobDefinition=arn("job-definition", "jd:1"))

    assert api.definition("jd") == arn("job-definition", "jd:3")


def test_a_deregistered_revision_is_inactive_for_180_days_and_then_gone(api, clock):
    api.definition("jd")
    api("DeregisterJobDefinition", jobDefinition="jd:1")

    clock.advance(180 * DAY - 1)
    assert api.described("jd")["status"] == "INACTIVE"
    clock.advance(1)
    assert revisions(api, jobDefinitionName="jd") == []
    assert api.definition("jd") == arn("job-definition", "jd:2")


def test_a_name_means_its_latest_active_revision(api):
    for _ in range(3):
        api.definition("jd")
    api("DeregisterJobDefinition", jobDefinition="jd:3")

    assert api.catalog.definition("jd").revision == 2
    assert api.catalog.definition("jd:1").revision == 1
    assert api.catalog.definition(arn("job-definition", "jd:2")).revision == 2


@pytest.mark.parametrize("ref", ["jd", "jd:1", "jd:9", "jd:x", "no", arn("job-definition", "jd:1")])
def test_what_is_inactive_or_unknown_is_refused_for_jobs_in_aws_s_words(api, ref):
    api.definition("jd")
    api("DeregisterJobDefinition", jobDefinition="jd:1")

    with pytest.raises(ClientError, match="does not exist or is not in ACTIVE status"):
        api.catalog.definition(ref)


def test_to_deregister_needs_a_revision_that_exists(api):
    api.definition("jd")

    with pytest.raises(ClientError, match="name:revision"):
        api("DeregisterJobDefinition", jobDefinition="jd")
    with pytest.raises(ClientError, match="does not exist"):
        api("DeregisterJobDefinition", jobDefinition="jd:2")


# -- describing


def test_descriptions_are_by_name_by_list_and_by_status_newest_first(api):
    for name in ("b", "a", "b", "b"):
        api.definition(name)
    api("DeregisterJobDefinition", jobDefinition="b:2")

    assert revisions(api) == ["a:1", "b:3", "b:2", "b:1"]
    assert revisions(api, jobDefinitionName="b") == ["b:3", "b:2", "b:1"]
    assert revisions(api, jobDefinitionName="b", status="ACTIVE") == ["b:3", "b:1"]
    assert revisions(api, status="INACTIVE") == ["b:2"]
    wanted = ["b:1", arn("job-definition", "b:2"), "no:1", "b:1"]
    assert revisions(api, jobDefinitions=wanted) == ["b:1", "b:2"]


def test_descriptions_come_in_pages(api):
    for _ in range(12):
        api.definition("jd")
    api.definition("jd-2")

    seen: list[str] = []
    request: dict[str, Any] = {"maxResults": 5}
    while True:
        answer = api("DescribeJobDefinitions", **request)
        seen += [each["jobDefinitionArn"] for each in answer["jobDefinitions"]]
        if "nextToken" not in answer:
            break
        request["nextToken"] = answer["nextToken"]

    expected = [f"jd:{number}" for number in range(12, 0, -1)] + ["jd-2:1"]
    assert seen == [arn("job-definition", each) for each in expected]


def test_a_list_goes_with_nothing_else(api):
    with pytest.raises(ClientError, match="JobDefinitions and MaxResults cannot both be set"):
        api("DescribeJobDefinitions", jobDefinitions=["a:1"], maxResults=3)


# -- what AWS adds


def test_a_definition_is_shown_with_empty_lists_for_what_was_not_given(api):
    api.definition("jd")

    assert api.described() == {
        "jobDefinitionName": "jd",
        "jobDefinitionArn": arn("job-definition", "jd:1"),
        "revision": 1,
        "status": "ACTIVE",
        "type": "container",
        "parameters": {},
        "tags": {},
        "containerOrchestrationType": "ECS",
        "containerProperties": {
            **CONTAINER,
            "environment": [],
            "mountPoints": [],
            "secrets": [],
            "ulimits": [],
            "volumes": [],
        },
    }


def test_the_old_vcpus_and_memory_are_shown_as_they_were_given(api):
    api.definition(containerProperties={"image": "busybox", "vcpus": 2, "memory": 256})

    shown = api.described()["containerProperties"]
    assert (shown["vcpus"], shown["memory"], shown["resourceRequirements"]) == (2, 256, [])


def test_the_old_vcpus_and_memory_of_nodes_may_stand_in_several_ranges(api):
    ranges = [
        {"targetNodes": "0:", "container": {"image": "busybox", "vcpus": 1}},
        {"targetNodes": "0:1", "container": {"memory": 64}},
        {"targetNodes": "2:", "container": {"resourceRequirements": MEMORY}},
    ]

    multinode(api, 3, *ranges)

    shown = api.described()["nodeProperties"]["nodeRangeProperties"]
    assert [each["container"].get("memory") for each in shown] == [None, 64, None]


@pytest.mark.parametrize("member", ["vcpus", "memory"])
def test_fargate_does_not_know_the_old_members(api, member):
    with pytest.raises(ClientError, match=f"{member} is not applicable for Fargate"):
        fargate(api, **{member: 1})


def test_fargate_shows_its_platform_and_network(api):
    fargate(api)

    shown = api.described()
    assert shown["platformCapabilities"] == ["FARGATE"]
    assert shown["containerProperties"]["fargatePlatformConfiguration"] == {
        "platformVersion": "LATEST"
    }
    assert shown["containerProperties"]["networkConfiguration"] == {"assignPublicIp": "DISABLED"}


def test_what_was_given_comes_back(api):
    given = {
        "parameters": {"x": "1"},
        "schedulingPriority": 5,
        "retryStrategy": {
            "attempts": 3,
            "evaluateOnExit": [
                {"onStatusReason": "Host EC2*", "action": "RETRY"},
                {"onReason": "*", "action": "EXIT"},
            ],
        },
        "timeout": {"attemptDurationSeconds": 60},
        "propagateTags": True,
        "tags": {"a": "b"},
        "platformCapabilities": ["EC2"],
        "consumableResourceProperties": {
            "consumableResourceList": [{"consumableResource": "c", "quantity": 2}]
        },
    }

    api.definition(**given)

    shown = api.described()
    assert {member: shown[member] for member in given} == given


def test_the_one_container_of_a_task_is_named_and_essential(api):
    ecs(api, CONTAINER)

    task = api.described()["ecsProperties"]["taskProperties"][0]
    assert task["containers"][0]["name"] == "default"
    assert task["containers"][0]["essential"] is True
    assert task["volumes"] == []


# -- what is refused


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"image": None}, "ECS Container Image must be provided."),
        ({"resourceRequirements": []}, "vCPU is required."),
        ({"resourceRequirements": [{"type": "VCPU", "value": "1"}]}, "Memory is required."),
        ({"vcpus": 1, "resourceRequirements": MEMORY}, None),
        ({"vcpus": 0, "resourceRequirements": MEMORY}, "vCPU must be at least 1, got 0."),
        ({"memory": 3, "vcpus": 1, "resourceRequirements": []}, "at least 4 Mib, got 3 Mib"),
        ({"environment": [{"name": "AWS_BATCH_X", "value": "1"}]}, "cannot start with AWS_BATCH"),
        ({"environment": [{"value": "1"}]}, "Environment variable name is required."),
        ({"networkConfiguration": {}}, "networkConfiguration not applicable for EC2."),
        (
            {"fargatePlatformConfiguration": {}},
            "fargatePlatformConfiguration not applicable for EC2.",
        ),
        ({"runtimePlatform": {}}, "runtimePlatform is not applicable for EC2."),
        (
            {"secrets": [{"name": "s", "valueFrom": "arn"}]},
            "executionRoleArn cannot be empty when using secrets",
        ),
        ({"linuxParameters": {"maxSwap": 1}}, "swappiness value is required."),
        ({"linuxParameters": {"maxSwap": -1}}, "Invalid swap memory size: -1"),
        ({"volumes": [{"name": "a b"}]}, "should match a valid pattern"),
        ({"volumes": [{"name": "a"}, {"name": "a"}]}, "Volume names must be unique"),
    ],
)
def test_containers_are_checked(api, change, words):
    properties = {"containerProperties": {**CONTAINER, **change}}
    if words is None:
        api.definition(**properties)
        return
    with pytest.raises(ClientError, match=re.escape(words)):
        api.definition(**properties)


@pytest.mark.parametrize(
    ("requirement", "words"),
    [
        ({"type": "VCPU", "value": "0.5"}, "vCPU must be at least 1, got 0.5."),
        ({"type": "VCPU", "value": "many"}, "Value many for resourceRequirement VCPU"),
        ({"type": "GPU", "value": "0.5"}, "Value 0.5 for resourceRequirement GPU"),
        ({"type": "GPU", "value": "0"}, "GPU must be at least 1"),
        ({"type": "MEMORY", "value": "3"}, "Memory must be at least 4 Mib, got 3 Mib."),
        ({"type": "MEMORY", "value": "1.5"}, "Value 1.5 for resourceRequirement MEMORY"),
    ],
)
def test_amounts_are_checked(api, requirement, words):
    others = [
        each for each in CONTAINER["resourceRequirements"] if each["type"] != requirement["type"]
    ]

    with pytest.raises(ClientError, match=re.escape(words)):
        api.definition(
            containerProperties={**CONTAINER, "resourceRequirements": [*others, requirement]}
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"executionRoleArn": None}, "executionRoleArn is required for Fargate jobs."),
        ({"privileged": True}, "Fargate requires that the ‘privileged’ setting be ‘false’"),
        (
            {"ulimits": [{"name": "nofile", "softLimit": 1, "hardLimit": 1}]},
            "ulimits is not applicable for Fargate.",
        ),
        ({"instanceType": "m5.large"}, "instanceType is not applicable for Fargate."),
        ({"linuxParameters": {"sharedMemorySize": 64}}, "linuxParameter.sharedMemorySize"),
        (
            {"linuxParameters": {"tmpfs": [{"containerPath": "/t", "size": 1}]}},
            "linuxParameter.tmpfs",
        ),
        ({"linuxParameters": {"devices": [{"hostPath": "/dev/x"}]}}, "linuxParameter.devices"),
        ({"linuxParameters": {"swappiness": 1}}, "linuxParameter.swappiness"),
        ({"logConfiguration": {"logDriver": "syslog"}}, "Log driver for Fargate is not valid"),
        ({"volumes": [{"name": "v", "host": {"sourcePath": "/x"}}]}, "host.sourcePath"),
        ({"runtimePlatform": {"cpuArchitecture": "MIPS"}}, "cpuArchitecture MIPS"),
        ({"runtimePlatform": {"operatingSystemFamily": "BEOS"}}, "operatingSystemFamily BEOS"),
        (
            {
                "resourceRequirements": [
                    *FARGATE_CONTAINER["resourceRequirements"],
                    {"type": "GPU", "value": "1"},
                ]
            },
            "GPU is not applicable for Fargate.",
        ),
    ],
)
def test_fargate_is_checked(api, change, words):
    with pytest.raises(ClientError, match=re.escape(words)):
        fargate(api, **change)


def test_what_fargate_shows_can_be_registered_again(api):
    fargate(api, linuxParameters={"initProcessEnabled": True}, privileged=False)
    shown = api.described()["containerProperties"]

    api.definition(platformCapabilities=["FARGATE"], containerProperties=shown)

    assert api.described()["containerProperties"] == shown


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"containerProperties": None}, "ECS Container Image must be provided."),
        ({"type": "multinode", "containerProperties": None}, "Node properties of multinode job"),
        ({"platformCapabilities": ["EC2", "FARGATE"]}, "Exactly 1 capability must be provided."),
        (
            {"platformCapabilities": ["LAMBDA"]},
            "Capability LAMBDA is not valid. Valid capabilities",
        ),
        (
            {"platformCapabilities": ["MANAGED_INSTANCES"]},
            "Cannot use ECS containerProperties for MANAGED_INSTANCES",
        ),
        (
            {"ecsProperties": {"taskProperties": [{"containers": [CONTAINER]}]}},
            "Cannot use both ECS containerProperties and ecsProperties",
        ),
        ({"retryStrategy": {}}, "RetryAttempts must be provided with retry strategy."),
        (
            {"retryStrategy": {"attempts": 2, "evaluateOnExit": [{"action": "EXIT"}]}},
            "EvaluateOnExit should contain at least one",
        ),
        ({"type": "other"}, "type can only be one of"),
    ],
)
def test_whole_definitions_are_checked(api, request_, words):
    with pytest.raises(ClientError, match=re.escape(words)):
        api.definition(**request_)


@pytest.mark.parametrize(
    ("rule", "good"),
    [
        ({"onExitCode": "137"}, True),
        ({"onExitCode": "1*"}, True),
        ({"onExitCode": "*"}, True),
        ({"onExitCode": "-1"}, False),
        ({"onExitCode": "1*3"}, False),
        ({"onReason": "CannotPullContainerError:*"}, True),
        ({"onReason": "*Error"}, False),
        ({"onStatusReason": "Host EC2*"}, True),
        ({"onStatusReason": "Host EC2 (instance*"}, False),
    ],
)
def test_patterns_of_exit_rules_have_the_documented_characters(api, rule, good):
    retry = {"attempts": 2, "evaluateOnExit": [{**rule, "action": "RETRY"}]}
    if good:
        api.definition(retryStrategy=retry)
        return
    with pytest.raises(ClientError, match="contains restricted characters"):
        api.definition(retryStrategy=retry)


@given(pattern=st.text(alphabet="aZ09.: \t*()-_/é", min_size=1, max_size=12))
def test_a_reason_passes_exactly_if_its_characters_are_documented(pattern):
    body = pattern[:-1] if pattern.endswith("*") else pattern
    documented = all(each.isspace() or each in ".:" or each.isalnum() for each in body)
    documented = documented and body.isascii()
    retry = {"attempts": 2, "evaluateOnExit": [{"onReason": pattern, "action": "EXIT"}]}
    try:
        Api().definition(retryStrategy=retry)
    except ClientError:
        assert not documented
    else:
        assert documented


# -- several containers


A = {**CONTAINER, "name": "a"}
B = {**CONTAINER, "name": "b"}


def waits(container: dict[str, Any], on: str, condition: str = "START") -> dict[str, Any]:
    return {**container, "dependsOn": [{"containerName": on, "condition": condition}]}


def test_containers_may_wait_for_each_other(api):
    ecs(api, {**A, "essential": False}, waits(B, "a", "SUCCESS"))

    shown = api.described()["ecsProperties"]["taskProperties"][0]["containers"]
    assert shown[1]["dependsOn"] == [{"containerName": "a", "condition": "SUCCESS"}]


@pytest.mark.parametrize(
    ("containers", "words"),
    [
        ([A, A], "Container names must be unique"),
        ([A, CONTAINER], "Container name is required"),
        ([{**A, "essential": False}], "At least one container must be set as essential"),
        ([A, waits(B, "c")], "containerName c must reference a defined container."),
        ([A, waits(B, "b")], "A container can not depend on itself."),
        ([waits(A, "b"), waits(B, "a")], "Container dependencies can not have cycles."),
        ([A, waits(B, "a", "SUCCESS")], "if the target is essential"),
        ([A, waits(B, "a", "LATER")], "TaskContainer dependency LATER is not valid."),
        ([waits(A, "b")], "can not be used in a single-container job."),
        ([{**A, "image": ""}], "ECS Container Image must be provided."),
        ([{**A, "resourceRequirements": []}], "vCPU is required."),
    ],
)
def test_tasks_are_checked(api, containers, words):
    with pytest.raises(ClientError, match=re.escape(words)):
        ecs(api, *containers)


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ({"pidMode": "all"}, "Valid capabilities: [host, task]"),
        ({"ipcMode": "all"}, "Valid values are: [host, task, none]"),
        ({"networkMode": "host"}, "networkMode is not applicable for EC2."),
        ({"ephemeralStorage": {"sizeInGiB": 30}}, "ephemeralStorage is not applicable for EC2."),
    ],
)
def test_modes_of_tasks_are_checked(api, task, words):
    with pytest.raises(ClientError, match=re.escape(words)):
        ecs(api, A, **task)


def test_exactly_one_task_is_allowed(api):
    properties = {"taskProperties": [{"containers": [A]}, {"containers": [B]}]}

    with pytest.raises(ClientError, match="Exactly 1 taskProperties"):
        api.definition(containerProperties=None, ecsProperties=properties)


def test_on_fargate_the_sum_of_the_containers_is_what_must_be_on_offer(api):
    def needs(vcpus: str, mib: str) -> list[dict[str, str]]:
        return [{"type": "VCPU", "value": vcpus}, {"type": "MEMORY", "value": mib}]

    def register(first: str) -> None:
        containers = [
            {**A, "resourceRequirements": needs(first, "1536")},
            {**B, "resourceRequirements": needs("0.25", "512")},
        ]
        task = {"executionRoleArn": "arn", "containers": containers}
        api.definition(
            containerProperties=None,
            platformCapabilities=["FARGATE"],
            ecsProperties={"taskProperties": [task]},
        )

    register("0.75")
    with pytest.raises(ClientError, match=r"\(1\.25 vCPU, 2048 MiB\) not valid"):
        register("1")


# -- several nodes


def test_ranges_may_lie_within_each_other(api):
    multinode(api, 6, nodes("0:"), nodes("2:3", image="other"), nodes("5"), main=5)

    assert api.described()["nodeProperties"]["mainNode"] == 5


@pytest.mark.parametrize(
    ("count", "ranges", "words"),
    [
        (4, [nodes("0:2")], "Node range properties must account for all nodes."),
        (4, [nodes("1:")], "Node range properties must account for all nodes."),
        (4, [nodes("0:4")], "targetNodes 0:4 is out of range"),
        (4, [nodes("3:0")], "targetNodes 3:0 is out of range"),
        (4, [nodes("a:b")], "targetNodes should contain only digits."),
        (4, [nodes("")], "targetNodes should contain only digits."),
        (4, [nodes("0:2"), nodes("1:3")], "can be nested but can not overlap"),
        (4, [nodes("0:"), nodes("0:3")], "Duplicate targetNodes"),
        (2, [{"targetNodes": "0:"}], "Must specify container for node range 0:"),
        (2, [nodes("0:", resourceRequirements=[])], "vCPU is required."),
        (
            2,
            [{**nodes("0:"), "instanceTypes": ["m5.large"]}],
            "only allowed for ecsProperties jobs.",
        ),
        (
            2,
            [{**nodes("0:"), "ecsProperties": {"taskProperties": [{"containers": [A]}]}}],
            "NodeRangeProperties can not use both ecsProperties and container fields",
        ),
    ],
)
def test_ranges_are_checked(api, count, ranges, words):
    with pytest.raises(ClientError, match=re.escape(words)):
        multinode(api, count, *ranges)


@pytest.mark.parametrize("main", [-1, 2])
def test_the_main_node_must_be_one_of_the_nodes(api, main):
    with pytest.raises(ClientError, match="Main node index is out of range"):
        multinode(api, 2, nodes("0:"), main=main)


@pytest.mark.parametrize("platform", ["FARGATE", "MANAGED_INSTANCES"])
def test_several_nodes_are_for_ec2_alone(api, platform):
    properties = {"numNodes": 2, "mainNode": 0, "nodeRangeProperties": [nodes("0:")]}

    with pytest.raises(ClientError, match="does not support MNP jobs"):
        api.definition(
            type="multinode",
            containerProperties=None,
            nodeProperties=properties,
            platformCapabilities=[platform],
        )


@given(first=st.integers(0, 30), length=st.integers(1, 30))
def test_a_range_written_in_full_means_what_it_says(first, length):
    last = first + length - 1

    assert node_rules.span(f"{first}:{last}", 100) == (first, last)
    assert node_rules.span(f"{first}:", last + 1) == (first, last)
    assert node_rules.span(f":{last}", 100) == (0, last)


# -- pods

POD = {
    "image": "busybox",
    "resources": {"limits": {"cpu": "1", "memory": "512Mi"}, "requests": {"cpu": "0.5"}},
}


def test_a_pod_is_kept(api):
    eks(api, containers=[POD], volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}])

    shown = api.described()
    assert shown["containerOrchestrationType"] == "EKS"
    pod = shown["eksProperties"]["podProperties"]
    assert pod["containers"][0]["name"] == "Default"
    assert pod["containers"][0]["command"] == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"containers": []}, "Containers must be provided for Batch on EKS jobs."),
        ({"containers": [POD, POD]}, "Container names must be unique"),
        ({"containers": [{"image": "i"}]}, "cpu is required"),
        ({"dnsPolicy": "Mine"}, "Unsupported DNS policy value."),
        ({"volumes": [{"name": "v", "emptyDir": {"medium": "Disk"}}]}, "Invalid Volume mount."),
        ({"metadata": {"namespace": "default"}}, "cannot be the default"),
        ({"containers": [{**POD, "volumeMounts": [{"name": "v"}]}]}, "must reference a defined"),
    ],
)
def test_pods_are_checked(api, change, words):
    with pytest.raises(ClientError, match=re.escape(words)):
        eks(api, **{"containers": [POD], **change})


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"cpu": "100m", "memory": "512Mi"}, "Value 100m for type cpu"),
        ({"cpu": "0.3", "memory": "512Mi"}, "Value 0.3 for type cpu"),
        ({"cpu": "1", "memory": "1Gi"}, "Value 1Gi for type memory"),
        ({"cpu": "1", "memory": "3Mi"}, "Memory must be at least 4 Mib"),
        ({"cpu": "1", "memory": "4Mi", "disk": "1"}, "disk is not a supported type"),
    ],
)
def test_resources_of_pods_are_checked(api, limits, words):
    with pytest.raises(ClientError, match=re.escape(words)):
        eks(api, containers=[{"image": "i", "resources": {"limits": limits}}])
