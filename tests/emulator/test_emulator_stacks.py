"""A stack of CloudFormation with all that Batch needs: what it makes is there for jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.cloud import client, emulator, lines, over, unique
from wherry.emulator.cloud.stacks import as_request
from wherry.emulator.server.emulator import Emulator

Template = dict[str, Any]


def role(service: str) -> Template:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": f"{service}.amazonaws.com"},
        "Action": "sts:AssumeRole",
    }
    document = {"Version": "2012-10-17", "Statement": [statement]}
    return {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": document}}


def template(queue: str, group: str, word: str = "hello") -> Template:
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Parameters": {"MaxVcpus": {"Type": "Number", "Default": 32}},
        "Resources": {
            "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
            "Subnet": {
                "Type": "AWS::EC2::Subnet",
                "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "10.0.0.0/24"},
            },
            "Group": {
                "Type": "AWS::EC2::SecurityGroup",
                "Properties": {"GroupDescription": "jobs", "VpcId": {"Ref": "Vpc"}},
            },
            "ServiceRole": role("batch"),
            "InstanceRole": role("ec2"),
            "JobRole": role("ecs-tasks"),
            "Profile": {
                "Type": "AWS::IAM::InstanceProfile",
                "Properties": {"Path": "/", "Roles": [{"Ref": "InstanceRole"}]},
            },
            "Logs": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": group}},
            "Bucket": {"Type": "AWS::S3::Bucket", "Properties": {}},
            "Fair": {
                "Type": "AWS::Batch::SchedulingPolicy",
                "Properties": {"FairsharePolicy": {"ShareDecaySeconds": 600}},
            },
            "Licences": {
                "Type": "AWS::Batch::ConsumableResource",
                "Properties": {"ResourceType": "REPLENISHABLE", "TotalQuantity": 3},
            },
            "Environment": {
                "Type": "AWS::Batch::ComputeEnvironment",
                "Properties": {
                    "Type": "MANAGED",
                    "ServiceRole": {"Fn::GetAtt": ["ServiceRole", "Arn"]},
                    "ComputeResources": {
                        "Type": "EC2",
                        "MinvCpus": 0,
                        "MaxvCpus": {"Ref": "MaxVcpus"},
                        "InstanceTypes": ["optimal"],
                        "InstanceRole": {"Fn::GetAtt": ["Profile", "Arn"]},
                        "Subnets": [{"Ref": "Subnet"}],
                        "SecurityGroupIds": [{"Ref": "Group"}],
                    },
                },
            },
            "Queue": {
                "Type": "AWS::Batch::JobQueue",
                "Properties": {
                    "JobQueueName": queue,
                    "Priority": "5",
                    "ComputeEnvironmentOrder": [
                        {"Order": 1, "ComputeEnvironment": {"Ref": "Environment"}}
                    ],
                },
            },
            "Definition": {
                "Type": "AWS::Batch::JobDefinition",
                "Properties": {
                    "Type": "container",
                    "Parameters": {"Word": word},
                    "ContainerProperties": {
                        "Image": "busybox",
                        "Command": ["echo", "Ref::Word"],
                        "JobRoleArn": {"Fn::GetAtt": ["JobRole", "Arn"]},
                        "Environment": [{"Name": "BUCKET", "Value": {"Ref": "Bucket"}}],
                        "ResourceRequirements": [
                            {"Type": "VCPU", "Value": "1"},
                            {"Type": "MEMORY", "Value": "128"},
                        ],
                        "LogConfiguration": {
                            "LogDriver": "awslogs",
                            "Options": {"awslogs-group": {"Ref": "Logs"}},
                        },
                    },
                },
            },
        },
        "Outputs": {
            "QueueArn": {"Value": {"Ref": "Queue"}},
            "QueueAtt": {"Value": {"Fn::GetAtt": ["Queue", "JobQueueArn"]}},
            "DefinitionArn": {"Value": {"Ref": "Definition"}},
            "EnvironmentArn": {"Value": {"Fn::GetAtt": ["Environment", "ComputeEnvironmentArn"]}},
            "PolicyArn": {"Value": {"Fn::GetAtt": ["Fair", "Arn"]}},
            "LicencesArn": {"Value": {"Ref": "Licences"}},
        },
    }


class Stack:
    """A stack that is made from the template."""

    def __init__(self, running: Emulator) -> None:
        self.formation = client(running, "cloudformation")
        self.name, self.queue, self.group = unique("stack"), unique("queue"), unique("/stack")
        self.body = template(self.queue, self.group)
        self.formation.create_stack(StackName=self.name, TemplateBody=json.dumps(self.body))

    @property
    def outputs(self) -> dict[str, str]:
        found = self.formation.describe_stacks(StackName=self.name)["Stacks"][0]
        return {output["OutputKey"]: output["OutputValue"] for output in found["Outputs"]}

    @property
    def status(self) -> str:
        found = self.formation.describe_stacks(StackName=self.name)["Stacks"][0]
        return str(found["StackStatus"])

    def update(self) -> None:
        self.formation.update_stack(StackName=self.name, TemplateBody=json.dumps(self.body))

    def delete(self) -> None:
        self.formation.delete_stack(StackName=self.name)


@pytest.fixture(scope="module")
def running() -> Iterator[Emulator]:
    with emulator() as made:
        yield made


@pytest.fixture
def stack(running: Emulator) -> Stack:
    return Stack(running)


def test_a_job_runs_on_what_a_stack_has_made(running: Emulator, stack: Stack) -> None:
    batch, outputs = client(running, "batch"), stack.outputs

    job_id = batch.submit_job(
        jobName="a", jobQueue=outputs["QueueArn"], jobDefinition=outputs["DefinitionArn"]
    )["jobId"]

    job = over(batch, job_id)
    assert stack.status == "CREATE_COMPLETE"
    assert job["status"] == "SUCCEEDED"
    assert lines(client(running, "logs"), job, stack.group) == ["hello"]


def test_what_a_stack_puts_out_is_what_batch_knows(running: Emulator, stack: Stack) -> None:
    batch, outputs = client(running, "batch"), stack.outputs

    queue = batch.describe_job_queues(jobQueues=[stack.queue])["jobQueues"][0]
    environment = batch.describe_compute_environments(
        computeEnvironments=[outputs["EnvironmentArn"]]
    )["computeEnvironments"][0]

    assert outputs["QueueArn"] == outputs["QueueAtt"] == queue["jobQueueArn"]
    assert queue["priority"] == 5
    assert environment["computeResources"]["maxvCpus"] == 32
    assert batch.describe_scheduling_policies(arns=[outputs["PolicyArn"]])["schedulingPolicies"]
    found = batch.describe_consumable_resource(consumableResource=outputs["LicencesArn"])
    assert found["totalQuantity"] == 3


def test_an_update_reaches_batch(running: Emulator, stack: Stack) -> None:
    batch, before = client(running, "batch"), stack.outputs
    resources = stack.body["Resources"]
    resources["Queue"]["Properties"]["Priority"] = 9
    resources["Environment"]["Properties"]["ComputeResources"]["MaxvCpus"] = 64
    resources["Definition"]["Properties"]["Parameters"] = {"Word": "later"}
    resources["Licences"]["Properties"]["TotalQuantity"] = 7

    stack.update()

    after = stack.outputs
    queue = batch.describe_job_queues(jobQueues=[stack.queue])["jobQueues"][0]
    environment = batch.describe_compute_environments(
        computeEnvironments=[after["EnvironmentArn"]]
    )["computeEnvironments"][0]
    licences = batch.describe_consumable_resource(consumableResource=after["LicencesArn"])
    old = batch.describe_job_definitions(jobDefinitions=[before["DefinitionArn"]])
    assert stack.status == "UPDATE_COMPLETE"
    assert queue["priority"] == 9
    assert environment["computeResources"]["maxvCpus"] == 64
    assert licences["totalQuantity"] == 7
    assert after["DefinitionArn"] == before["DefinitionArn"].removesuffix("1") + "2"
    assert [found["status"] for found in old["jobDefinitions"]] == ["INACTIVE"]


def test_deleting_a_stack_deletes_what_it_made(running: Emulator, stack: Stack) -> None:
    batch, outputs = client(running, "batch"), stack.outputs

    stack.delete()

    assert batch.describe_job_queues(jobQueues=[stack.queue])["jobQueues"] == []
    environments = batch.describe_compute_environments(
        computeEnvironments=[outputs["EnvironmentArn"]]
    )["computeEnvironments"]
    assert environments == []
    assert (
        batch.describe_scheduling_policies(arns=[outputs["PolicyArn"]])["schedulingPolicies"] == []
    )
    with pytest.raises(batch.exceptions.ClientException):
        batch.describe_consumable_resource(consumableResource=outputs["LicencesArn"])
    with pytest.raises(ClientError):
        stack.formation.describe_stacks(StackName=stack.name)


def test_what_batch_refuses_fails_the_stack_with_its_words(running: Emulator) -> None:
    formation = client(running, "cloudformation")
    body = template(unique("queue"), unique("/group"))
    body["Resources"]["Queue"]["Properties"]["ComputeEnvironmentOrder"] = [
        {"Order": 1, "ComputeEnvironment": "arn:aws:batch:us-east-1:123456789012:nothing"}
    ]

    with pytest.raises(ClientError, match="Compute Environments must be created"):
        formation.create_stack(StackName=unique("bad"), TemplateBody=json.dumps(body))


def test_each_emulator_makes_its_own(running: Emulator) -> None:
    with emulator() as other:
        stack = Stack(other)

        here, there = client(running, "batch"), client(other, "batch")
        assert there.describe_job_queues(jobQueues=[stack.queue])["jobQueues"]
        assert here.describe_job_queues(jobQueues=[stack.queue])["jobQueues"] == []


def test_properties_become_the_members_of_a_request() -> None:
    request = as_request(
        "RegisterJobDefinition",
        {
            "RetryStrategy": {"Attempts": "3", "EvaluateOnExit": [{"OnExitCode": 1}]},
            "Timeout": {"AttemptDurationSeconds": "60"},
            "PropagateTags": "true",
            "Parameters": {"Kept": "As It Is"},
            "Unknown": 1,
        },
    )

    assert request == {
        "retryStrategy": {"attempts": 3, "evaluateOnExit": [{"onExitCode": "1"}]},
        "timeout": {"attemptDurationSeconds": 60},
        "propagateTags": True,
        "parameters": {"Kept": "As It Is"},
    }
