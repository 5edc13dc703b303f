"""AWS's own command line drives every operation of AWS Batch that the emulator offers."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from awscli.clidriver import create_clidriver
from botocore import xform_name

from support.waiting import until
from wherry.emulator.server.emulator import Emulator
from wherry.emulator.settings import Settings

Aws = Callable[..., Any]
NOT_OFFERED = {
    "DescribeServiceJob",
    "ListServiceJobs",
    "SubmitServiceJob",
    "TerminateServiceJob",
    "TerminateServiceJobs",
    "UpdateServiceJob",
}
USED: set[str] = set()


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator(Settings(port=0, engine="process", scale=60)) as running:
        yield running


@pytest.fixture
def aws(emulator: Emulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Aws:
    # AWS_DATA_PATH is set by the command line itself, when it is imported.
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        if name != "AWS_DATA_PATH":
            monkeypatch.delenv(name)
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))

    driver = create_clidriver()

    def run(service: str, command: str, **options: Any) -> Any:
        if service == "batch":
            USED.add(command)
        words = [service, command, "--output", "json"]
        for name, value in options.items():
            words += [f"--{name.replace('_', '-')}", *_word(value)]
        printed = io.StringIO()
        with redirect_stdout(printed):
            code = driver.main(words)
        assert code == 0, f"aws {' '.join(words)} ended with {code}: {printed.getvalue()}"
        return json.loads(printed.getvalue() or "{}")

    return run


def _word(value: Any) -> list[str]:
    if value is True:
        return []
    if isinstance(value, dict) and all(isinstance(part, str) for part in value.values()):
        return [",".join(f"{key}={part}" for key, part in value.items())]
    if isinstance(value, dict) or (isinstance(value, list) and isinstance(value[0], dict)):
        return [json.dumps(value)]
    return [str(part) for part in value] if isinstance(value, list) else [str(value)]


def compute_environments(aws: Aws):
    made = aws(
        "batch",
        "create-compute-environment",
        compute_environment_name="cli-ce",
        type="MANAGED",
        compute_resources={
            "type": "EC2",
            "minvCpus": 0,
            "maxvCpus": 16,
            "instanceTypes": ["optimal"],
            "subnets": ["subnet-1"],
            "securityGroupIds": ["sg-1"],
            "instanceRole": "ecsInstanceRole",
        },
    )
    aws(
        "batch",
        "update-compute-environment",
        compute_environment="cli-ce",
        compute_resources={"maxvCpus": 32},
    )
    described = aws("batch", "describe-compute-environments", compute_environments=["cli-ce"])

    found = described["computeEnvironments"][0]
    assert found["computeEnvironmentArn"] == made["computeEnvironmentArn"]
    assert (found["status"], found["computeResources"]["maxvCpus"]) == ("VALID", 32)

    aws("batch", "update-compute-environment", compute_environment="cli-ce", state="DISABLED")
    aws("batch", "delete-compute-environment", compute_environment="cli-ce")
    until(
        lambda: (
            not aws("batch", "describe-compute-environments", compute_environments=["cli-ce"])[
                "computeEnvironments"
            ]
        ),
        "the environment to be gone",
    )


def queues_and_scheduling_policies(aws: Aws):
    policy = aws(
        "batch",
        "create-scheduling-policy",
        name="cli-policy",
        fairshare_policy={"shareDecaySeconds": 600, "computeReservation": 10},
    )["arn"]
    aws(
        "batch",
        "update-scheduling-policy",
        arn=policy,
        fairshare_policy={
            "shareDecaySeconds": 60,
            "shareDistribution": [{"shareIdentifier": "team*", "weightFactor": 0.5}],
        },
    )
    described = aws("batch", "describe-scheduling-policies", arns=[policy])
    assert described["schedulingPolicies"][0]["fairsharePolicy"]["shareDecaySeconds"] == 60
    listed = aws("batch", "list-scheduling-policies")["schedulingPolicies"]
    assert {"arn": policy} in listed

    queue = aws(
        "batch",
        "create-job-queue",
        job_queue_name="cli-queue",
        priority=7,
        scheduling_policy_arn=policy,
        compute_environment_order=[{"order": 1, "computeEnvironment": "main"}],
    )["jobQueueArn"]
    aws("batch", "update-job-queue", job_queue="cli-queue", priority=9)
    found = aws("batch", "describe-job-queues", job_queues=[queue])["jobQueues"][0]
    assert (found["priority"], found["schedulingPolicyArn"]) == (9, policy)

    aws("batch", "tag-resource", resource_arn=queue, tags={"team": "blue"})
    assert aws("batch", "list-tags-for-resource", resource_arn=queue)["tags"] == {"team": "blue"}
    aws("batch", "untag-resource", resource_arn=queue, tag_keys=["team"])
    assert aws("batch", "list-tags-for-resource", resource_arn=queue)["tags"] == {}

    assert "frontOfQueue" in aws("batch", "get-job-queue-snapshot", job_queue=queue)

    aws("batch", "update-job-queue", job_queue=queue, state="DISABLED")
    aws("batch", "delete-job-queue", job_queue=queue)
    until(
        lambda: not aws("batch", "describe-job-queues", job_queues=[queue])["jobQueues"],
        "the queue to be gone",
    )
    aws("batch", "delete-scheduling-policy", arn=policy)


def consumable_resources(aws: Aws):
    arn = aws(
        "batch",
        "create-consumable-resource",
        consumable_resource_name="licences",
        total_quantity=3,
        resource_type="REPLENISHABLE",
    )["consumableResourceArn"]
    aws(
        "batch",
        "update-consumable-resource",
        consumable_resource=arn,
        operation="ADD",
        quantity=2,
    )
    found = aws("batch", "describe-consumable-resource", consumable_resource="licences")
    assert (found["totalQuantity"], found["availableQuantity"]) == (5, 5)
    listed = aws("batch", "list-consumable-resources")["consumableResources"]
    assert [entry["consumableResourceName"] for entry in listed] == ["licences"]
    jobs = aws("batch", "list-jobs-by-consumable-resource", consumable_resource=arn)
    assert jobs["jobs"] == []
    aws("batch", "delete-consumable-resource", consumable_resource=arn)


def a_job_from_definition_to_log(aws: Aws):
    definition = aws(
        "batch",
        "register-job-definition",
        job_definition_name="cli-echo",
        type="container",
        container_properties={
            "image": "busybox",
            "command": ["echo", "hello", "Ref::who"],
            "resourceRequirements": [
                {"type": "VCPU", "value": "1"},
                {"type": "MEMORY", "value": "128"},
            ],
        },
        parameters={"who": "nobody"},
    )
    job = aws(
        "batch",
        "submit-job",
        job_name="hello",
        job_queue="main",
        job_definition="cli-echo",
        parameters={"who": "world"},
    )["jobId"]

    def ended() -> Any:
        (found,) = aws("batch", "describe-jobs", jobs=[job])["jobs"]
        return found if found["status"] in ("SUCCEEDED", "FAILED") else None

    found = until(ended, "the job's end")
    assert found["status"] == "SUCCEEDED"
    assert found["container"]["exitCode"] == 0
    events = until(
        lambda: aws(
            "logs",
            "get-log-events",
            log_group_name="/aws/batch/job",
            log_stream_name=found["container"]["logStreamName"],
        )["events"],
        "the log",
    )
    assert [event["message"] for event in events] == ["hello world"]
    listed = aws("batch", "list-jobs", job_queue="main", job_status="SUCCEEDED")
    assert job in [summary["jobId"] for summary in listed["jobSummaryList"]]
    described = aws("batch", "describe-job-definitions", job_definition_name="cli-echo")
    assert described["jobDefinitions"][0]["revision"] == definition["revision"]
    aws("batch", "deregister-job-definition", job_definition=definition["jobDefinitionArn"])


def jobs_are_ended_one_by_one_and_in_bulk(aws: Aws):
    aws(
        "batch",
        "register-job-definition",
        job_definition_name="cli-sleep",
        type="container",
        container_properties={
            "image": "busybox",
            "command": ["sleep", "600"],
            "resourceRequirements": [
                {"type": "VCPU", "value": "1"},
                {"type": "MEMORY", "value": "128"},
            ],
        },
    )

    def submit() -> str:
        made = aws(
            "batch",
            "submit-job",
            job_name="nap",
            job_queue="main",
            job_definition="cli-sleep",
        )
        return str(made["jobId"])

    jobs = [submit() for _ in range(4)]
    aws("batch", "terminate-job", job_id=jobs[0], reason="enough")
    aws("batch", "cancel-job", job_id=jobs[1], reason="too late, perhaps")
    aws("batch", "terminate-jobs", jobs=jobs[1:3], reason="both")
    aws("batch", "cancel-jobs", jobs=jobs[3:], reason="not begun, perhaps")
    aws("batch", "terminate-job", job_id=jobs[3], reason="the last")

    def all_ended() -> Any:
        found = aws("batch", "describe-jobs", jobs=jobs)["jobs"]
        return found if {job["status"] for job in found} == {"FAILED"} else None

    reasons = {job["jobId"]: job["statusReason"] for job in until(all_ended, "four ends")}
    assert reasons[jobs[0]] == "enough"
    assert reasons[jobs[2]] == "both"


def queues_for_sagemaker(aws: Aws):
    environment = aws(
        "batch",
        "create-service-environment",
        service_environment_name="cli-sagemaker",
        service_environment_type="SAGEMAKER_TRAINING",
        capacity_limits=[{"maxCapacity": 4, "capacityUnit": "ml.m5.large"}],
    )["serviceEnvironmentArn"]
    policy = aws(
        "batch",
        "create-scheduling-policy",
        name="cli-quota",
        quota_share_policy={"idleResourceAssignmentStrategy": "FIFO"},
    )["arn"]
    queue = aws(
        "batch",
        "create-job-queue",
        job_queue_name="cli-shared",
        job_queue_type="SAGEMAKER_TRAINING",
        priority=1,
        scheduling_policy_arn=policy,
        service_environment_order=[{"order": 1, "serviceEnvironment": environment}],
    )["jobQueueArn"]
    share = aws(
        "batch",
        "create-quota-share",
        quota_share_name="blue",
        job_queue="cli-shared",
        capacity_limits=[{"maxCapacity": 4, "capacityUnit": "ml.m5.large"}],
        resource_sharing_configuration={"strategy": "RESERVE"},
        preemption_configuration={"inSharePreemption": "DISABLED"},
    )["quotaShareArn"]
    aws("batch", "update-quota-share", quota_share_arn=share, state="DISABLED")
    found = aws("batch", "describe-quota-share", quota_share_arn=share)
    assert (found["quotaShareName"], found["state"]) == ("blue", "DISABLED")
    listed = aws("batch", "list-quota-shares", job_queue="cli-shared")["quotaShares"]
    assert [entry["quotaShareArn"] for entry in listed] == [share]

    aws("batch", "delete-quota-share", quota_share_arn=share)
    aws("batch", "update-job-queue", job_queue=queue, state="DISABLED")
    aws("batch", "delete-job-queue", job_queue=queue)
    until(
        lambda: not aws("batch", "describe-job-queues", job_queues=[queue])["jobQueues"],
        "the queue to be gone",
    )
    aws("batch", "update-service-environment", service_environment=environment, state="DISABLED")
    described = aws("batch", "describe-service-environments", service_environments=[environment])
    assert described["serviceEnvironments"][0]["state"] == "DISABLED"
    aws("batch", "delete-service-environment", service_environment=environment)


def test_every_operation_is_driven_by_the_aws_command_line(aws: Aws):
    compute_environments(aws)
    queues_and_scheduling_policies(aws)
    consumable_resources(aws)
    a_job_from_definition_to_log(aws)
    jobs_are_ended_one_by_one_and_in_bulk(aws)
    queues_for_sagemaker(aws)

    model = botocore.session.get_session().get_service_model("batch")
    commands = {xform_name(name, "-") for name in set(model.operation_names) - NOT_OFFERED}
    assert commands - USED == set()
