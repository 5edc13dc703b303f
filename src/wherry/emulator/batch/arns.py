"""Amazon Resource Names of what AWS Batch keeps: made in one place, and read back."""

from __future__ import annotations

from wherry.emulator.settings import ACCOUNT

QUEUE = "job-queue"
ENVIRONMENT = "compute-environment"
DEFINITION = "job-definition"
POLICY = "scheduling-policy"
CONSUMABLE = "consumable-resource"
SERVICE_ENVIRONMENT = "service-environment"
QUOTA_SHARE = "quota-share"
JOB = "job"

_PARTITIONS = {"cn-": "aws-cn", "us-gov-": "aws-us-gov"}


def partition(region: str) -> str:
    """Return the part of AWS that a region belongs to.

    >>> partition("eu-central-1"), partition("cn-north-1")
    ('aws', 'aws-cn')
    """
    found = (name for prefix, name in _PARTITIONS.items() if region.startswith(prefix))
    return next(found, "aws")


def make(region: str, kind: str, name: str) -> str:
    """Return the ARN of a resource of AWS Batch.

    >>> make("us-east-1", QUEUE, "main")
    'arn:aws:batch:us-east-1:123456789012:job-queue/main'
    """
    return f"arn:{partition(region)}:batch:{region}:{ACCOUNT}:{kind}/{name}"


def cluster(region: str, environment: str, uuid: str) -> str:
    """Return the ARN of the ECS cluster that Batch makes for a compute environment."""
    return f"arn:{partition(region)}:ecs:{region}:{ACCOUNT}:cluster/AWSBatch-{environment}-{uuid}"


def role(region: str, name: str) -> str:
    """Return the ARN of a role of this account; a full ARN stays as it is."""
    if name.startswith("arn:"):
        return name
    return f"arn:{partition(region)}:iam::{ACCOUNT}:role/{name.lstrip('/')}"


def is_arn(text: str) -> bool:
    """Tell an ARN from a name."""
    return text.startswith("arn:")


def kind_of(arn: str) -> str:
    """Return the kind of resource that an ARN of AWS Batch names; empty for any other text.

    >>> kind_of("arn:aws:batch:us-east-1:123456789012:job-queue/main")
    'job-queue'
    """
    parts = arn.split(":", 5)
    if len(parts) != 6 or parts[2] != "batch":
        return ""
    path = parts[5].split("/")
    return QUOTA_SHARE if QUOTA_SHARE in path[2:] else path[0]


def name_of(ref: str) -> str:
    """Return the name in an ARN, or the text itself when it is a name.

    >>> name_of("arn:aws:batch:us-east-1:123456789012:job-definition/train:3")
    'train:3'
    """
    return ref.split("/", 1)[1] if is_arn(ref) and "/" in ref else ref
