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


def host_name(region: str, instance_id: str) -> str:
    """Return the name of an instance in its network (EC2 user guide, resource names).

    >>> host_name("eu-west-1", "i-0123456789abcdef")
    'i-0123456789abcdef.eu-west-1.compute.internal'
    """
    zone = "ec2" if region == "us-east-1" else f"{region}.compute"
    return f"{instance_id}.{zone}.internal"


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


def region_of(arn: str) -> str:
    """Return the region in an ARN.

    >>> region_of("arn:aws:batch:us-east-1:123456789012:job-queue/main")
    'us-east-1'
    """
    return arn.split(":", 4)[3]


def why_foreign(ref: str, region: str, kind: str) -> str:
    """Say what keeps an ARN from naming a resource of a kind here; nothing for any other text.

    Args:
        ref: what a request names the resource by.
        region: where it is looked for.
        kind: what it is to be, such as `QUEUE`.

    Returns:
        A sentence, or an empty text.
    """
    here = make(region, kind, name_of(ref))
    if not is_arn(ref) or ref == here:
        return ""
    if kind_of(ref) != kind:
        return f"That is no ARN of a {kind}, such as {make(region, kind, 'NAME')}."
    return f"The ARN is of another region or account; in this one it would be {here}."


def name_of(ref: str) -> str:
    """Return the name in an ARN, or the text itself when it is a name.

    >>> name_of("arn:aws:batch:us-east-1:123456789012:job-definition/train:3")
    'train:3'
    """
    return ref.split("/", 1)[1] if is_arn(ref) and "/" in ref else ref
