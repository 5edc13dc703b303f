"""Definition and overrides: what comes out of them, and what SubmitJob refuses."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from support.definitions import (
    container,
    definition,
    ecs,
    eks,
    env,
    job_of,
    multinode,
    sizes,
)
from wherry.emulator.batch import tasks
from wherry.emulator.batch.errors import ClientError
from wherry.emulator.batch.sizes import of_container


def effective(its, kind="single", **request) -> dict[str, Any]:
    return tasks.effective(job_of(its, kind, **request))


def merged(properties: dict[str, Any], **overrides: Any) -> dict[str, Any]:
    found: dict[str, Any] = effective(definition(**properties), containerOverrides=overrides)
    return found["container"]


def of(entries: list[dict[str, str]], key: str = "name") -> dict[str, str]:
    return {entry[key]: entry["value"] for entry in entries}


# -- one container --------------------------------------------------------------------------------


def test_the_command_is_replaced():
    assert merged({"command": ["a", "b"]}, command=["c"])["command"] == ["c"]


def test_the_environment_is_merged_by_name():
    result = merged({"environment": env(A="1", B="2")}, environment=env(B="3", C="4"))

    assert of(result["environment"]) == {"A": "1", "B": "3", "C": "4"}


def test_resource_requirements_are_merged_by_type():
    result = merged({}, resourceRequirements=[{"type": "MEMORY", "value": "512"}])

    assert of(result["resourceRequirements"], "type") == {"VCPU": "1", "MEMORY": "512"}


def test_old_overrides_do_not_touch_resource_requirements():
    result = merged({}, vcpus=8, memory=4096)

    assert of(result["resourceRequirements"], "type") == {"VCPU": "1", "MEMORY": "256"}


_OLD: dict[str, Any] = {"vcpus": 1, "memory": 256, "resourceRequirements": []}


def test_old_overrides_override_old_members():
    result = merged(_OLD, vcpus=8, memory=4096)

    assert (result["vcpus"], result["memory"]) == (8, 4096)
    assert result["resourceRequirements"] == []


def test_a_requirement_of_the_request_takes_the_place_of_an_old_member():
    result = merged(_OLD, vcpus=8, resourceRequirements=[{"type": "VCPU", "value": "2"}])

    assert of(result["resourceRequirements"], "type") == {"VCPU": "2"}
    assert "vcpus" not in result
    assert result["memory"] == 256


def test_a_container_shows_empty_lists_as_aws_does():
    result = merged({})

    assert result["command"] == result["volumes"] == result["ulimits"] == []
    assert result["image"] == "busybox"


def test_nothing_given_is_changed():
    its = definition(environment=env(A="1"), command=["a"], vcpus=1)
    request = {
        "containerOverrides": {
            "environment": env(A="2"),
            "vcpus": 4,
            "resourceRequirements": [{"type": "GPU", "value": "1"}],
        }
    }
    before = copy.deepcopy((its.document, request))

    effective(its, **request)

    assert (its.document, request) == before


def test_children_of_an_array_share_one_document():
    its = definition()
    first = job_of(its, "child", index=0)
    second = job_of(its, "child", index=1)
    second.request = first.request

    assert tasks.effective(first) is tasks.effective(second)


def test_another_request_does_not_get_the_same_document():
    its = definition(command=["a"])

    one = effective(its, containerOverrides={"command": ["b"]})
    other = effective(its, containerOverrides={"command": ["c"]})

    assert one["container"]["command"] != other["container"]["command"]


# -- consumable resources -------------------------------------------------------------------------


def test_consumable_resources_are_merged_by_name():
    its = definition()
    its.document["consumableResourceProperties"] = {
        "consumableResourceList": [
            {"consumableResource": "a", "quantity": 1},
            {"consumableResource": "b", "quantity": 2},
        ]
    }
    override = {"consumableResourceList": [{"consumableResource": "b", "quantity": 5}]}

    result = effective(its, consumableResourcePropertiesOverride=override)

    entries = result["consumableResourceProperties"]["consumableResourceList"]
    assert [entry["quantity"] for entry in entries] == [1, 5]


# -- several containers ---------------------------------------------------------------------------


def test_containers_of_ecs_are_overridden_by_name():
    its = ecs(container(name="a", command=["1"]), container(name="b", command=["2"]))
    override = {"taskProperties": [{"containers": [{"name": "b", "command": ["3"]}]}]}

    result = effective(its, ecsPropertiesOverride=override)

    [task] = result["ecsProperties"]["taskProperties"]
    assert [each["command"] for each in task["containers"]] == [["1"], ["3"]]


def test_containers_of_a_pod_are_overridden_by_name():
    its = eks(
        {"name": "a", "image": "x", "args": ["1"], "resources": {"limits": {"cpu": "1"}}},
        {"name": "b", "image": "y"},
        initContainers=[{"name": "i", "image": "z"}],
    )
    override = {
        "podProperties": {
            "containers": [
                {
                    "name": "a",
                    "args": ["2"],
                    "env": env(A="1"),
                    "resources": {"limits": {"memory": "64Mi"}},
                }
            ],
            "initContainers": [{"name": "i", "image": "zz"}],
            "metadata": {"labels": {"l": "v"}},
        }
    }

    pod = effective(its, eksPropertiesOverride=override)["eksProperties"]["podProperties"]

    assert pod["containers"][0]["args"] == ["2"]
    assert pod["containers"][0]["resources"] == {"limits": {"cpu": "1", "memory": "64Mi"}}
    assert pod["containers"][1] == {"name": "b", "image": "y"}
    assert pod["initContainers"][0]["image"] == "zz"
    assert pod["metadata"] == {"labels": {"l": "v"}}


def test_a_pods_only_container_may_go_without_a_name():
    its = eks({"image": "x"})
    override = {"podProperties": {"containers": [{"name": "Default", "image": "y"}]}}

    pod = effective(its, eksPropertiesOverride=override)["eksProperties"]["podProperties"]

    assert pod["containers"][0]["image"] == "y"


# -- nodes ----------------------------------------------------------------------------------------


def node(its, index: int, **request) -> dict[str, Any]:
    found: dict[str, Any] = effective(its, "node", index=index, **request)
    return found["container"]


def test_a_node_has_what_its_range_says():
    its = multinode(
        ("0:0", {"container": container(image="main")}),
        ("1:", {"container": container(image="rest")}),
        number=3,
    )

    assert [node(its, index)["image"] for index in range(3)] == ["main", "rest", "rest"]


@pytest.mark.parametrize(
    ("wide", "narrow", "size"),
    [
        ({"memory": 64}, {"resourceRequirements": sizes("1", "512")}, 512),
        ({"resourceRequirements": sizes("1", "512")}, {"memory": 64}, 64),
        ({"memory": 64}, {"memory": 128}, 128),
        ({"memory": 64}, {"vcpus": 2}, 64),
    ],
)
def test_a_narrow_range_says_how_large_its_nodes_are_in_either_style(wide, narrow, size):
    plain = {"image": "x", "vcpus": 1, "resourceRequirements": []}
    its = multinode(
        ("0:", {"container": {**plain, **wide}}),
        ("1:", {"container": {"resourceRequirements": [], **narrow}}),
        number=2,
    )

    assert of_container(node(its, 1))[1] == size


def test_nested_ranges_override_wider_ones():
    memory = [{"type": "MEMORY", "value": "512"}]
    its = multinode(
        ("0:10", {"container": container(image="wide", command=["a"])}),
        (
            "4:5",
            {"container": {"image": "narrow", "command": [], "resourceRequirements": memory}},
        ),
        number=11,
    )

    assert node(its, 4)["image"] == "narrow"
    assert node(its, 4)["command"] == ["a"]
    assert of(node(its, 4)["resourceRequirements"], "type") == {"VCPU": "1", "MEMORY": "512"}
    assert node(its, 6)["image"] == "wide"


@pytest.mark.parametrize(
    ("target", "hit"),
    [("1:2", [1, 2]), (":1", [0, 1]), ("2:", [2, 3]), ("3", [3]), (":", [0, 1, 2, 3])],
)
def test_node_overrides_reach_the_nodes_that_they_name(target, hit):
    its = multinode(("0:", {"container": container(command=["old"])}), number=4)
    override = {"targetNodes": target, "containerOverrides": {"command": ["new"]}}

    request = {"nodeOverrides": {"nodePropertyOverrides": [override]}}

    commands = [node(its, index, **request)["command"] for index in range(4)]
    assert [index for index, command in enumerate(commands) if command == ["new"]] == hit


def test_the_number_of_nodes_can_be_overridden():
    its = multinode(("0:", {"container": container()}), number=2)

    whole = effective(its, "multinode", nodeOverrides={"numNodes": 5})

    assert whole["nodeProperties"]["numNodes"] == 5
    assert node(its, 4, nodeOverrides={"numNodes": 5})["image"] == "busybox"


def test_a_multi_node_job_shows_the_overrides_of_whole_ranges():
    its = multinode(
        ("0:0", {"container": container()}), ("1:", {"container": container()}), number=3
    )
    override = {"targetNodes": "1:2", "containerOverrides": {"command": ["new"]}}

    whole = effective(its, "multinode", nodeOverrides={"nodePropertyOverrides": [override]})

    ranges = whole["nodeProperties"]["nodeRangeProperties"]
    assert "command" not in ranges[0]["container"]
    assert ranges[1]["container"]["command"] == ["new"]


def test_a_node_shows_its_instance_type():
    its = multinode(("0:", {"container": container(), "instanceTypes": ["c5.xlarge"]}), number=2)

    assert node(its, 0)["instanceType"] == "c5.xlarge"


# -- what is refused ------------------------------------------------------------------------------

_ONE = definition()
_ECS = ecs(container(name="a"))
_EKS = eks({"name": "a", "image": "x"})
_NODES = multinode(("0:", {"container": container()}), number=2)
_CLOSED = multinode(("0:1", {"container": container()}), number=2)
_COMMAND = {"command": ["x"]}


def fargate(**properties):
    its = definition(resourceRequirements=sizes("1", "2048"), **properties)
    its.document["platformCapabilities"] = ["FARGATE"]
    return its


def node_overrides(target: str = "0:", **overrides: Any) -> dict[str, Any]:
    return {"nodePropertyOverrides": [{"targetNodes": target, **overrides}]}


def _consumables(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"consumableResourceList": list(entries)}


_REFUSED = {
    "container overrides of nodes": (_NODES, {"containerOverrides": _COMMAND}, "multinode"),
    "container overrides of ECS": (_ECS, {"containerOverrides": _COMMAND}, "should not be set"),
    "container overrides of a pod": (_EKS, {"containerOverrides": _COMMAND}, "should not be set"),
    "node overrides of a container": (_ONE, {"nodeOverrides": {"numNodes": 2}}, "Node overrides"),
    "ECS overrides of a container": (
        _ONE,
        {"ecsPropertiesOverride": {"taskProperties": []}},
        "ECS properties",
    ),
    "an empty command string": (_ONE, {"containerOverrides": {"command": [""]}}, "empty string"),
    "a reserved name": (
        _ONE,
        {"containerOverrides": {"environment": env(AWS_BATCH_X="1")}},
        "cannot start with AWS_BATCH",
    ),
    "a reserved name in ECS": (
        _ECS,
        {
            "ecsPropertiesOverride": {
                "taskProperties": [
                    {"containers": [{"name": "a", "environment": env(AWS_BATCH_X="1")}]}
                ]
            }
        },
        "cannot start with AWS_BATCH",
    ),
    "a reserved name in a pod": (
        _EKS,
        {
            "eksPropertiesOverride": {
                "podProperties": {"containers": [{"name": "a", "env": env(AWS_BATCH_X="1")}]}
            }
        },
        "cannot start with AWS_BATCH",
    ),
    "a reserved name of nodes": (
        _NODES,
        {"nodeOverrides": node_overrides(containerOverrides={"environment": env(AWS_BATCH="")})},
        "AWS_BATCH",
    ),
    "a container that is not there": (
        _ECS,
        {"ecsPropertiesOverride": {"taskProperties": [{"containers": [{"name": "zz"}]}]}},
        "zz",
    ),
    "a container of a pod that is not there": (
        _EKS,
        {"eksPropertiesOverride": {"podProperties": {"containers": [{"name": "zz"}]}}},
        "zz",
    ),
    "no number": (_ONE, {"containerOverrides": {"resourceRequirements": sizes("many")}}, "many"),
    "too little memory": (
        _ONE,
        {"containerOverrides": {"resourceRequirements": sizes("1", "2")}},
        "Memory must be at least 4 Mib, got 2 Mib",
    ),
    "less than a virtual CPU on EC2": (
        _ONE,
        {"containerOverrides": {"resourceRequirements": sizes("0.5")}},
        "vCPU must be at least 1, got 0.5",
    ),
    "the same requirement twice": (
        _ONE,
        {"containerOverrides": {"resourceRequirements": [*sizes("1"), *sizes("2")]}},
        "duplicates",
    ),
    "consumable resources without a quantity": (
        _ONE,
        {"consumableResourcePropertiesOverride": _consumables({"consumableResource": "a"})},
        "quantity",
    ),
    "consumable resources of nodes, named twice": (
        _NODES,
        {
            "nodeOverrides": node_overrides(
                consumableResourcePropertiesOverride=_consumables(
                    {"consumableResource": "a", "quantity": 1},
                    {"consumableResource": "a", "quantity": 2},
                )
            )
        },
        "duplicate consumableResource",
    ),
    "half a GPU": (
        _ONE,
        {"containerOverrides": {"resourceRequirements": sizes(gpus="0.5")}},
        "GPU",
    ),
    "an old number that is too small": (_ONE, {"containerOverrides": {"vcpus": 0}}, "vCPU"),
    "a pair that Fargate has not": (
        fargate(),
        {"containerOverrides": {"resourceRequirements": [{"type": "VCPU", "value": "8"}]}},
        "Fargate",
    ),
    "a size that Fargate has not": (
        fargate(),
        {"containerOverrides": {"resourceRequirements": sizes("3", "8192")}},
        "Fargate",
    ),
    "a GPU on Fargate": (
        fargate(),
        {"containerOverrides": {"resourceRequirements": [{"type": "GPU", "value": "1"}]}},
        "GPU",
    ),
    "an old number on Fargate": (
        fargate(),
        {"containerOverrides": {"vcpus": 1}},
        "vcpus is not applicable for Fargate. Use resource requirements instead.",
    ),
    "more nodes without an open range": (_CLOSED, {"nodeOverrides": {"numNodes": 3}}, "open"),
    "an array of nodes": (_NODES, {"arrayProperties": {"size": 2}}, "Array"),
    "nodes that are not there": (_NODES, {"nodeOverrides": node_overrides("1:5")}, "1:5"),
    "a range that is none": (_NODES, {"nodeOverrides": node_overrides("a:b")}, "only digits"),
    "fewer nodes than the main one": (
        multinode(("0:", {"container": container()}), number=4, main=3),
        {"nodeOverrides": {"numNodes": 2}},
        "main node",
    ),
    "fewer nodes than a range begins with": (
        multinode(
            ("0:1", {"container": container()}), ("2:", {"container": container()}), number=4
        ),
        {"nodeOverrides": {"numNodes": 2}},
        "lower boundary",
    ),
}


@pytest.mark.parametrize("case", _REFUSED)
def test_is_refused(case):
    its, request, words = _REFUSED[case]

    with pytest.raises(ClientError, match=words):
        tasks.check(its, request, {"EC2"})


_ALLOWED = {
    "nothing": (_ONE, {}),
    "empty overrides of another kind": (_NODES, {"containerOverrides": {}}),
    "a pair that Fargate has": (
        fargate(),
        {"containerOverrides": {"resourceRequirements": sizes("0.25", "512")}},
    ),
    "whole virtual CPUs written otherwise": (
        fargate(),
        {"containerOverrides": {"resourceRequirements": sizes("1.0", "2048")}},
    ),
    "more nodes with an open range": (_NODES, {"nodeOverrides": {"numNodes": 9}}),
    "an empty value": (_ONE, {"containerOverrides": {"environment": env(A="")}}),
    "a name with AWS in it": (_ONE, {"containerOverrides": {"environment": env(AWS_X="1")}}),
}


@pytest.mark.parametrize("case", _ALLOWED)
def test_is_allowed(case):
    its, request = _ALLOWED[case]

    tasks.check(its, request, {"EC2", "FARGATE"})


def test_nodes_do_not_run_on_fargate():
    with pytest.raises(ClientError, match="Fargate"):
        tasks.check(_NODES, {}, {"FARGATE", "FARGATE_SPOT"})
