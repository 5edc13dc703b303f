"""Compute environments: what is refused, what is shown, and when they can go."""

from __future__ import annotations

import re

import pytest

from support.emulator_api import EC2_RESOURCES, FARGATE_RESOURCES, Api, arn
from wherry.emulator.batch.errors import ClientError

PROVIDER = {
    "infrastructureRoleArn": "arn:aws:iam::123456789012:role/infrastructure",
    "instanceLaunchTemplate": {
        "ec2InstanceProfileArn": "arn:aws:iam::123456789012:instance-profile/p",
        "networkConfiguration": {"subnets": ["subnet-1"], "securityGroups": ["sg-1"]},
    },
}


@pytest.fixture
def api() -> Api:
    return Api()


def described(api: Api, name: str = "ce") -> dict:
    found = api("DescribeComputeEnvironments", computeEnvironments=[name])
    return found["computeEnvironments"][0]


def test_a_new_environment_is_valid_and_has_a_cluster(api):
    made = api.environment("ce")

    shown = described(api)
    assert shown["computeEnvironmentArn"] == made == arn("compute-environment", "ce")
    assert (shown["state"], shown["status"]) == ("ENABLED", "VALID")
    assert shown["statusReason"] == "ComputeEnvironment Healthy"
    assert shown["containerOrchestrationType"] == "ECS"
    assert shown["ecsClusterArn"] == (
        f"arn:aws:ecs:us-east-1:123456789012:cluster/AWSBatch-ce-{shown['uuid']}"
    )
    assert shown["computeResources"]["desiredvCpus"] == 0
    assert shown["serviceRole"].endswith("/AWSServiceRoleForBatch")


@pytest.mark.parametrize("kind", ["FARGATE", "FARGATE_SPOT"])
def test_a_fargate_environment_shows_nothing_of_ec2(api, kind):
    api.environment("ce", {**FARGATE_RESOURCES, "type": kind})

    assert described(api)["computeResources"] == {**FARGATE_RESOURCES, "type": kind}


def test_an_unmanaged_environment_needs_a_service_role(api):
    request = {"computeEnvironmentName": "ce", "type": "UNMANAGED", "unmanagedvCpus": 8}
    with pytest.raises(ClientError, match=r"ServiceRole is required\."):
        api("CreateComputeEnvironment", **request)

    api("CreateComputeEnvironment", **request, serviceRole="batch")

    assert described(api)["unmanagedvCpus"] == 8
    assert described(api)["serviceRole"] == "arn:aws:iam::123456789012:role/batch"


def test_an_environment_of_managed_instances_needs_a_provider(api):
    resources = {"type": "ECS_MANAGED_INSTANCES", "maxvCpus": 8}
    with pytest.raises(ClientError, match="managedInstancesProvider is required"):
        api.environment("ce", resources)

    api.environment("ce", {**resources, "managedInstancesProvider": PROVIDER})

    assert described(api)["computeResources"]["managedInstancesProvider"] == PROVIDER


def test_an_environment_on_eks_has_no_cluster_of_ecs(api):
    api(
        "CreateComputeEnvironment",
        computeEnvironmentName="ce",
        type="MANAGED",
        computeResources={**EC2_RESOURCES, "allocationStrategy": "BEST_FIT_PROGRESSIVE"},
        eksConfiguration={
            "eksClusterArn": "arn:aws:eks:us-east-1:123456789012:cluster/c",
            "kubernetesNamespace": "jobs",
        },
    )

    assert described(api)["containerOrchestrationType"] == "EKS"
    assert "ecsClusterArn" not in described(api)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"instanceRole": ""}, "Instance role is required."),
        ({"minvCpus": None}, "Resource minvCpus is required."),
        ({"instanceTypes": []}, "Resource instanceTypes are required."),
        ({"subnets": []}, "Subnets are required."),
        ({"securityGroupIds": []}, "Security group ids are required."),
        ({"minvCpus": -1}, "minvCpus should be greater than or equal to 0."),
        ({"minvCpus": 17}, "maxvCpus should be greater than or equal to minvCpus."),
        ({"desiredvCpus": 17}, "desiredvCpus should be between minvCpus and maxvCpus."),
        ({"instanceTypes": ["m5.gigantic"]}, "Instance type m5.gigantic is not supported."),
        ({"instanceTypes": ["Large"]}, "Instance type Large is not supported."),
        ({"instanceTypes": ["m5", "m6g"]}, "arm-based instance type cannot be used"),
        ({"instanceTypes": ["optimal", "default_arm64"]}, "arm-based instance type cannot be used"),
        ({"allocationStrategy": "SPOT_CAPACITY_OPTIMIZED"}, "only available for SPOT"),
        ({"type": "SPOT"}, "compute resource spotIamFleetRole is required."),
        ({"bidPercentage": 101}, "Bid percentage must be between 0 to 100."),
        ({"launchTemplate": {"version": "1"}}, "One of LaunchTemplateId"),
        ({"scalingPolicy": {"minScaleDownDelayMinutes": 19}}, "must be between 20 and 10080"),
        ({"managedInstancesProvider": PROVIDER}, "managedInstancesProvider is not applicable"),
    ],
)
def test_resources_of_ec2_are_checked(api, change, words):
    with pytest.raises(ClientError, match=re.escape(words)):
        api.environment("ce", {**EC2_RESOURCES, **change})


@pytest.mark.parametrize(
    "name", ["optimal", "default_x86_64", "default_arm64", "c5", "p4d.24xlarge"]
)
def test_instance_types_families_and_bundles_are_known(api, name):
    api.environment("ce", {**EC2_RESOURCES, "instanceTypes": [name]})

    assert described(api)["computeResources"]["instanceTypes"] == [name]


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("minvCpus", 1),
        ("desiredvCpus", 1),
        ("instanceTypes", ["optimal"]),
        ("instanceRole", "role"),
        ("allocationStrategy", "BEST_FIT"),
        ("imageId", "ami-1"),
        ("ec2KeyPair", "key"),
        ("tags", {"a": "b"}),
        ("placementGroup", "group"),
        ("bidPercentage", 50),
        ("launchTemplate", {"launchTemplateName": "t"}),
        ("ec2Configuration", [{"imageType": "ECS_AL2023"}]),
    ],
)
def test_fargate_refuses_what_is_ec2_s(api, member, value):
    with pytest.raises(ClientError, match=f"{member} is not applicable for Fargate"):
        api.environment("ce", {**FARGATE_RESOURCES, member: value})


def test_fargate_needs_security_groups(api):
    with pytest.raises(ClientError, match="Security group ids are required"):
        api.environment("ce", {**FARGATE_RESOURCES, "securityGroupIds": []})


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"type": "MANAGED"}, "computeResources must be provided for a MANAGED"),
        (
            {"type": "MANAGED", "computeResources": EC2_RESOURCES, "unmanagedvCpus": 1},
            "unmanagedvCpus is not applicable for managed",
        ),
        (
            {"type": "MANAGED", "computeResources": EC2_RESOURCES, "state": "DISABLED"},
            "must be created in ENABLED state",
        ),
        (
            {"type": "UNMANAGED", "computeResources": FARGATE_RESOURCES, "serviceRole": "r"},
            "Cannot create an UNMANAGED Fargate",
        ),
        (
            {"type": "UNMANAGED", "serviceRole": "AWSServiceRoleForBatch"},
            "Service Linked Role cannot be used",
        ),
    ],
)
def test_types_and_states_are_checked(api, request_, words):
    with pytest.raises(ClientError, match=words):
        api("CreateComputeEnvironment", computeEnvironmentName="ce", **request_)


def test_a_name_is_taken_once(api):
    api.environment("ce")

    with pytest.raises(ClientError, match="Object already exists"):
        api.environment("ce")


def test_an_update_changes_what_it_names_and_nothing_else(api):
    api.environment("ce")

    api(
        "UpdateComputeEnvironment",
        computeEnvironment="ce",
        state="DISABLED",
        computeResources={"maxvCpus": 32, "minvCpus": 4},
        updatePolicy={"terminateJobsOnUpdate": True},
    )

    shown = described(api)
    assert shown["state"] == "DISABLED"
    assert shown["computeResources"]["maxvCpus"] == 32
    assert shown["computeResources"]["desiredvCpus"] == 4
    assert shown["computeResources"]["instanceTypes"] == ["m5.large"]
    assert shown["updatePolicy"] == {
        "terminateJobsOnUpdate": True,
        "jobExecutionTimeoutMinutes": 30,
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"computeResources": {"type": "FARGATE"}}, "cannot be changed from EC2 to FARGATE"),
        ({"computeResources": {"maxvCpus": 0}}, "maxvCpus should be greater than 0"),
        ({"updatePolicy": {"jobExecutionTimeoutMinutes": 0}}, "between 1 and 7200"),
        ({"unmanagedvCpus": 3}, "unmanagedvCpus is not applicable"),
    ],
)
def test_an_update_that_aws_would_refuse_changes_nothing(api, change, words):
    api.environment("ce")
    before = described(api)

    with pytest.raises(ClientError, match=words):
        api("UpdateComputeEnvironment", computeEnvironment="ce", **change)

    assert described(api) == before


def test_only_a_disabled_environment_without_queue_can_be_deleted(api):
    api.environment("ce")
    api.queue("jq", ["ce"])
    with pytest.raises(ClientError, match="must be in DISABLED state"):
        api("DeleteComputeEnvironment", computeEnvironment="ce")
    api("UpdateComputeEnvironment", computeEnvironment="ce", state="DISABLED")
    with pytest.raises(ClientError, match="Cannot delete, found existing JobQueue relationship"):
        api("DeleteComputeEnvironment", computeEnvironment="ce")
    api("UpdateJobQueue", jobQueue="jq", state="DISABLED")
    api("DeleteJobQueue", jobQueue="jq")

    api("DeleteComputeEnvironment", computeEnvironment=arn("compute-environment", "ce"))

    assert api("DescribeComputeEnvironments")["computeEnvironments"] == []


def test_an_environment_with_jobs_is_not_deleted(api):
    api.environment("ce")
    api("UpdateComputeEnvironment", computeEnvironment="ce", state="DISABLED")
    api.catalog.in_use = lambda used: used == arn("compute-environment", "ce")

    with pytest.raises(ClientError, match="jobs are still running"):
        api("DeleteComputeEnvironment", computeEnvironment="ce")


def test_unknown_names_are_absent_from_a_description_but_not_from_an_update(api):
    assert api("DescribeComputeEnvironments", computeEnvironments=["no"]) == {
        "computeEnvironments": []
    }
    with pytest.raises(ClientError, match="ComputeEnvironment no does not exist"):
        api("UpdateComputeEnvironment", computeEnvironment="no")


def test_environments_of_another_region_are_unknown(api):
    api.environment("ce")
    elsewhere = arn("compute-environment", "ce").replace("us-east-1", "eu-west-1")

    with pytest.raises(ClientError, match="does not exist"):
        api("UpdateComputeEnvironment", computeEnvironment=elsewhere)


def test_names_and_a_page_size_do_not_go_together(api):
    with pytest.raises(ClientError, match="ComputeEnvironments and MaxResults cannot both be set"):
        api("DescribeComputeEnvironments", computeEnvironments=["ce"], maxResults=1)
