"""What clients of others do, as their documents and sources show it: nothing here is ours but AWS.

The clients themselves were tried by hand, each from its package: `docs/emulator.md` has the list.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore
import pytest
from botocore import xform_name
from botocore.exceptions import ClientError

from support.cloud import client, define, emulator, lines, over, unique
from support.waiting import until
from wherry.emulator.server.emulator import Emulator

BATCH = Path(botocore.__file__).parent / "data" / "batch" / "2016-08-10"
EXAMPLES = json.loads((BATCH / "examples-1.json").read_text())["examples"]
PAGINATORS = json.loads((BATCH / "paginators-1.json").read_text())["pagination"]


@pytest.fixture(scope="module")
def aws() -> Iterator[Emulator]:
    with emulator() as running:
        yield running


@pytest.fixture(scope="module")
def batch(aws: Emulator) -> Any:
    return client(aws, "batch")


# -- the examples of the API reference ------------------------------------------------------------

ORDER = (
    "CreateComputeEnvironment",
    "CreateJobQueue",
    "RegisterJobDefinition",
    "SubmitJob",
    "DescribeComputeEnvironments",
    "DescribeJobDefinitions",
    "DescribeJobQueues",
    "DescribeJobs",
    "ListJobs",
    "TagResource",
    "UntagResource",
    "ListTagsForResource",
    "CancelJob",
    "TerminateJob",
    "UpdateJobQueue",
    "DeleteJobQueue",
    "UpdateComputeEnvironment",
    "DeleteComputeEnvironment",
    "DeregisterJobDefinition",
)
"""All operations that have examples; what one needs, others have made before."""

MADE_BY_NO_EXAMPLE = {
    "CreateComputeEnvironment": ("computeEnvironmentName", "C4OnDemand", "P2OnDemand"),
    "CreateJobQueue": ("jobQueueName", "LowPriority", "GPGPU"),
    "RegisterJobDefinition": ("jobDefinitionName", "sleep30", "sleep60"),
}
"""What examples use and none makes: made like another one, under the name that is used."""


def _requests(operation: str) -> Iterator[dict[str, Any]]:
    member, like, name = MADE_BY_NO_EXAMPLE.get(operation, ("", "", ""))
    for example in EXAMPLES[operation]:
        request = example["input"]
        yield request
        if like and request[member] == like:
            yield {**request, member: name}


def test_every_example_of_the_api_reference_is_answered_with_the_members_that_it_shows(batch: Any):
    assert set(ORDER) == set(EXAMPLES)
    for operation in ORDER:
        shown = {name for each in EXAMPLES[operation] for name in each.get("output") or ()}
        for request in _requests(operation):
            if operation == "DeregisterJobDefinition":
                # The example is older than the reference, which wants a revision.
                with pytest.raises(ClientError, match="name and revision"):
                    batch.deregister_job_definition(**request)
                request = {"jobDefinition": f"{request['jobDefinition']}:1"}
            answer = getattr(batch, xform_name(operation))(**request)
            assert shown <= set(answer), operation


# -- paginators -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def asked(batch: Any) -> dict[str, dict[str, Any]]:
    """Make three of everything; what each paginator is to be asked, if it wants to be asked."""
    word = unique("page")
    batch.create_scheduling_policy(
        name=word, quotaSharePolicy={"idleResourceAssignmentStrategy": "FIFO"}
    )
    for number in range(3):
        name = f"{word}-{number}"
        _make_for_sagemaker(batch, word, number)
        batch.create_consumable_resource(consumableResourceName=name, totalQuantity=9)
        batch.create_scheduling_policy(name=name, fairsharePolicy={})
        _submit(batch, name, f"{word}-0")
    return {
        "ListJobs": {"jobQueue": "main", "filters": [{"name": "JOB_NAME", "values": [f"{word}*"]}]},
        "ListJobsByConsumableResource": {"consumableResource": f"{word}-0"},
        "DescribeJobDefinitions": {"status": "ACTIVE"},
        "ListQuotaShares": {"jobQueue": word},
    }


def _make_for_sagemaker(batch: Any, word: str, number: int) -> None:
    batch.create_service_environment(
        serviceEnvironmentName=f"{word}-{number}",
        serviceEnvironmentType="SAGEMAKER_TRAINING",
        capacityLimits=[{"maxCapacity": 4, "capacityUnit": "ml.m5.large"}],
    )
    if number == 0:
        policy = f"arn:aws:batch:us-east-1:123456789012:scheduling-policy/{word}"
        batch.create_job_queue(
            jobQueueName=word,
            jobQueueType="SAGEMAKER_TRAINING",
            priority=1,
            schedulingPolicyArn=policy,
            serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": f"{word}-0"}],
        )
    batch.create_quota_share(
        quotaShareName=f"share-{number}",
        jobQueue=word,
        capacityLimits=[{"maxCapacity": 4, "capacityUnit": "ml.m5.large"}],
        resourceSharingConfiguration={"strategy": "RESERVE"},
        preemptionConfiguration={"inSharePreemption": "DISABLED"},
    )


def _submit(batch: Any, name: str, resource: str) -> None:
    wanted = [{"consumableResource": resource, "quantity": 1}]
    batch.submit_job(
        jobName=name,
        jobQueue="main",
        jobDefinition=define(batch, ["sleep", "60"]),
        consumableResourcePropertiesOverride={"consumableResourceList": wanted},
    )


NOT_OFFERED = "ListServiceJobs"
"""Jobs of SageMaker do not exist here."""


@pytest.mark.parametrize("operation", sorted(set(PAGINATORS) - {NOT_OFFERED}))
def test_pages_of_every_size_make_up_the_same_list(
    batch: Any, asked: dict[str, dict[str, Any]], operation: str
):
    paginator = batch.get_paginator(xform_name(operation))
    key = PAGINATORS[operation]["result_key"]

    def walk(size: int) -> list[str]:
        config = {"PageSize": size}
        pages = list(paginator.paginate(**asked.get(operation, {}), PaginationConfig=config))
        assert all(len(page[key]) <= size for page in pages)
        return [_arn(entry) for page in pages for entry in page[key]]

    whole = walk(100)
    assert len(set(whole)) == len(whole) >= 3
    assert walk(1) == walk(2) == whole


def _arn(entry: dict[str, Any]) -> str:
    """Return what identifies an entry of any list: its first ARN is its own, save for jobs."""
    return entry.get("jobArn") or next(
        entry[name] for name in entry if name.lower().endswith("arn")
    )


# -- habits of single clients ---------------------------------------------------------------------


def test_a_definition_is_looked_up_by_name_as_nextflow_does(batch: Any):
    """nextflow: AwsBatchTaskHandler.findJobDef, and github.com/boto/boto3/issues/2908."""
    name = unique("nf-image")
    for _ in range(2):
        batch.register_job_definition(
            jobDefinitionName=name,
            type="container",
            parameters={"nf-token": "abc"},
            containerProperties={"image": "x", "vcpus": 1, "memory": 64, "command": ["true"]},
        )
    batch.deregister_job_definition(jobDefinition=f"{name}:2")

    found = batch.describe_job_definitions(jobDefinitionName=name, status="ACTIVE")

    assert [each["revision"] for each in found["jobDefinitions"]] == [1]
    assert found["jobDefinitions"][0]["parameters"] == {"nf-token": "abc"}
    assert batch.describe_job_definitions(jobDefinitions=[name])["jobDefinitions"] == []


@pytest.mark.parametrize(
    ("platform", "queue", "capability"),
    [("EC2", "fargate", "EC2"), ("FARGATE", "main", "FARGATE")],
)
def test_a_queue_refuses_what_its_environments_cannot_run_in_the_words_that_aegea_waits_for(
    batch: Any, platform: str, queue: str, capability: str
):
    """aegea/batch.py, submit: it then makes a definition for Fargate and submits again."""
    role = {"executionRoleArn": "arn:aws:iam::123456789012:role/ecsTaskExecutionRole"}
    definition = define(batch, ["true"], platform=platform, **role)

    with pytest.raises(ClientError) as caught:
        batch.submit_job(jobName="x", jobQueue=queue, jobDefinition=definition)

    assert (
        "Job Queue is attached to Compute Environment that can not run Jobs with capability"
        f" {capability}"
    ) in str(caught.value)


def test_policies_that_aws_keeps_can_be_attached_to_roles(aws: Emulator):
    iam = client(aws, "iam")
    name = unique("role")
    trust = {"Version": "2012-10-17", "Statement": []}
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))
    policy = "arn:aws:iam::aws:policy/service-role/AWSBatchServiceRole"

    iam.attach_role_policy(RoleName=name, PolicyArn=policy)

    attached = iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]
    assert [entry["PolicyArn"] for entry in attached] == [policy]


STACK = """
Parameters:
  Types: {Type: CommaDelimitedList, Default: "m5.large, m5.xlarge"}
Resources:
  Role:
    Type: AWS::IAM::Role
    Properties:
      AssumeRolePolicyDocument: {Version: "2012-10-17", Statement: []}
      ManagedPolicyArns: ["arn:aws:iam::aws:policy/service-role/AWSBatchServiceRole"]
  Environment:
    Type: AWS::Batch::ComputeEnvironment
    Properties:
      Type: MANAGED
      ServiceRole: !GetAtt Role.Arn
      ComputeResources:
        Type: EC2
        MinvCpus: 0
        MaxvCpus: 4
        InstanceTypes: !Ref Types
        InstanceRole: ecsInstanceRole
        Subnets: [subnet-1]
        SecurityGroupIds: [sg-1]
Outputs:
  Environment: {Value: !Ref Environment}
"""


def test_a_stack_may_leave_a_list_to_its_default_and_name_policies_of_aws(
    aws: Emulator, batch: Any
):
    """cloudknot's templates do both."""
    stacks = client(aws, "cloudformation")
    name = unique("stack")

    stacks.create_stack(StackName=name, TemplateBody=STACK, Capabilities=["CAPABILITY_IAM"])

    (stack,) = stacks.describe_stacks(StackName=name)["Stacks"]
    assert stack["StackStatus"] == "CREATE_COMPLETE"
    arn = stack["Outputs"][0]["OutputValue"]
    (made,) = batch.describe_compute_environments(computeEnvironments=[arn])["computeEnvironments"]
    assert made["computeResources"]["instanceTypes"] == ["m5.large", "m5.xlarge"]
    stacks.delete_stack(StackName=name)


def test_a_stack_with_a_list_where_text_belongs_is_refused(aws: Emulator):
    stacks = client(aws, "cloudformation")
    wrong = STACK.replace("Type: MANAGED", "Type: [MANAGED]")

    with pytest.raises(ClientError) as caught:
        stacks.create_stack(StackName=unique("stack"), TemplateBody=wrong)

    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_a_hundred_clients_at_once_get_an_answer_each(aws: Emulator, batch: Any):
    definition = define(batch, ["echo", "Ref::number"])
    submitted: dict[int, str] = {}

    def work(number: int, mine: Any) -> None:
        job = mine.submit_job(
            jobName=f"client-{number}",
            jobQueue="main",
            jobDefinition=definition,
            parameters={"number": str(number)},
        )
        submitted[number] = job["jobId"]
        mine.list_jobs(jobQueue="main")

    clients = [client(aws, "batch") for _ in range(10)]
    threads = [
        threading.Thread(target=work, args=(number, clients[number % len(clients)]))
        for number in range(100)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    jobs = [submitted[number] for number in range(100)]

    def ended() -> bool:
        found = batch.describe_jobs(jobs=jobs)["jobs"]
        return Counter(job["status"] for job in found)["SUCCEEDED"] == len(jobs)

    until(ended, "the end of all jobs", seconds=60)
    assert lines(client(aws, "logs"), over(batch, submitted[42])) == ["42"]


def test_a_payload_of_a_megabyte_is_refused_and_the_connection_goes_on(batch: Any):
    definition = define(batch, ["true"])

    for _ in range(2):
        with pytest.raises(ClientError, match="Job size must be less than 30 KiB, got 977 KiB"):
            batch.submit_job(
                jobName="big",
                jobQueue="main",
                jobDefinition=definition,
                parameters={"x": "y" * 1_000_000},
            )
    assert batch.describe_job_queues()["jobQueues"]
