"""What a region has from the start, so that a first job needs one definition and no more.

Roles, a bucket, and three queues, each with an environment of its own: ``main`` on EC2, ``spot``
and ``fargate``. Subnets and security group are those of moto's default VPC.
"""

from __future__ import annotations

from collections.abc import Callable

from wherry.emulator.batch.errors import BatchError
from wherry.emulator.batch.ports import Document
from wherry.emulator.cloud import moto
from wherry.emulator.settings import ACCOUNT

BUCKET = "wherry"
SERVICE_ROLE = "wherry-batch-service"
EXECUTION_ROLE = "ecsTaskExecutionRole"
JOB_ROLE = "wherry-job"
INSTANCE_ROLE = "ecsInstanceRole"
MAX_VCPUS = 256

_ROLES = {
    SERVICE_ROLE: "batch",
    EXECUTION_ROLE: "ecs-tasks",
    JOB_ROLE: "ecs-tasks",
    INSTANCE_ROLE: "ec2",
}
"""Which service may assume each role. No policies: moto lets everybody do everything."""

_EC2: Document = {"minvCpus": 0, "instanceTypes": ["optimal"]}
_QUEUES: dict[str, Document] = {
    "main": {"type": "EC2", **_EC2},
    "spot": {"type": "SPOT", "allocationStrategy": "SPOT_CAPACITY_OPTIMIZED", **_EC2},
    "fargate": {"type": "FARGATE"},
}


def role_arn(name: str, region: str) -> str:
    """Return the ARN of a role."""
    return f"arn:{moto.partition(region)}:iam::{ACCOUNT}:role/{name}"


def make_account(region: str, make_bucket: Callable[[str], None] | None = None) -> None:
    """Make what all regions share: the roles and the bucket.

    Args:
        region: whose partition it is for.
        make_bucket: makes the bucket where S3 is not moto's.
    """
    _make_roles(region)
    (make_bucket or _make_bucket)(BUCKET)


def make_queues(region: str, call: Callable[[str, Document], Document]) -> None:
    """Make a region's queues, unless they are there from an earlier life.

    Args:
        region: which.
        call: carries out an operation of Batch in it.
    """
    known = {queue["jobQueueName"] for queue in call("DescribeJobQueues", {})["jobQueues"]}
    for name, resources in _QUEUES.items():
        if name not in known:
            _make_queue(name, resources, region, call)


def _make_roles(region: str) -> None:
    import json

    iam = moto.backend("iam", region)
    present = {role.name for role in iam.get_roles()}
    for name, service in _ROLES.items():
        if name in present:
            continue
        statement = {
            "Effect": "Allow",
            "Principal": {"Service": f"{service}.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
        trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        iam.create_role(name, trust, "/", None, None, [], 3600)
    if INSTANCE_ROLE not in {profile.name for profile in iam.get_instance_profiles()}:
        iam.create_instance_profile(INSTANCE_ROLE, "/", [])
        iam.add_role_to_instance_profile(INSTANCE_ROLE, INSTANCE_ROLE)


def _make_bucket(name: str) -> None:
    s3 = moto.backend("s3", "us-east-1")
    if name not in s3.buckets:
        s3.create_bucket(name, "us-east-1")


def _make_queue(
    name: str,
    resources: Document,
    region: str,
    call: Callable[[str, Document], Document],
) -> None:
    subnets, group = _network(region)
    profile = f"arn:{moto.partition(region)}:iam::{ACCOUNT}:instance-profile/{INSTANCE_ROLE}"
    request = {
        "computeEnvironmentName": name,
        "type": "MANAGED",
        "state": "ENABLED",
        "serviceRole": role_arn(SERVICE_ROLE, region),
        "computeResources": {
            "maxvCpus": MAX_VCPUS,
            "subnets": subnets,
            "securityGroupIds": [group],
            **({"instanceRole": profile} if "instanceTypes" in resources else {}),
            **resources,
        },
    }
    queue = {
        "jobQueueName": name,
        "state": "ENABLED",
        "priority": 1,
        "computeEnvironmentOrder": [{"order": 1, "computeEnvironment": name}],
    }
    try:
        call("CreateComputeEnvironment", request)
    except BatchError as error:
        if "already exists" not in error.message:
            raise
    call("CreateJobQueue", queue)


def _network(region: str) -> tuple[list[str], str]:
    """Return the subnets of the default VPC, and its security group."""
    ec2 = moto.backend("ec2", region)
    subnets = sorted(
        subnet.id
        for zone in ec2.subnets.values()
        for subnet in zone.values()
        if subnet.default_for_az
    )
    group = ec2.get_default_security_group()
    return subnets, str(group.id)
