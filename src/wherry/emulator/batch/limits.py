"""The documented numbers of AWS Batch, each with its source, and the checks that use them.

Sources: *limits* is https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html, *model*
is the API model that botocore carries (version 2016-08-10), *tags* is
https://docs.aws.amazon.com/batch/latest/userguide/using-tags.html. Numbers that concern jobs stand
here too; whoever accepts jobs enforces them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from wherry.emulator.batch.errors import RefusedError, refuse

# -- resources ------------------------------------------------------------------------------------

QUEUES = 50  # limits
ENVIRONMENTS = 50  # limits
ENVIRONMENTS_PER_QUEUE = 3  # limits
CONSUMABLE_RESOURCES = 50_000  # limits
QUOTA_SHARES_PER_QUEUE = 20  # limits
SERVICE_CAPACITY_LIMITS = 5  # measured: badmintoncryer/cdk-preflight, batch-se-capacity-limits-max
CONSUMABLES_PER_JOB = 5  # measured: the same, batch-jd-consumable-resource-list-max
SHARES = 500  # limits: active share identifiers of a queue
DEFINITION_BYTES = 24 * 1024  # limits: job definition size for RegisterJobDefinition
DEFINITION_KEPT_DAYS = 180  # model: DeregisterJobDefinition
NAME_LENGTH = 128  # model: names of all resources, and jobName
DESCRIBED = 100  # model: names or ARNs in one Describe call
PAGE = 100  # model: maxResults of everything but ListJobs
FARGATE_SUBNETS = 16  # model: ComputeResource.subnets
FARGATE_SECURITY_GROUPS = 5  # ECS: AwsVpcConfiguration, five security groups
EC2_CONFIGURATIONS = 2  # model: ComputeResource.ec2Configuration, one or two values
LAUNCH_TEMPLATE_OVERRIDES = 10  # model: LaunchTemplateSpecification.overrides
SCALE_DOWN_MINUTES = (20, 10_080)  # model: ComputeScalingPolicy; 0 switches it off
SCALE_IN_SECONDS = (-1, 3600)  # model: InfrastructureOptimization.scaleInAfter
UPDATE_TIMEOUT_MINUTES = (1, 7200)  # model: UpdatePolicy.jobExecutionTimeoutMinutes
TIME_LIMIT_SECONDS = (600, 86_400)  # model: JobStateTimeLimitAction.maxTimeSeconds
SHARE_DECAY_SECONDS = (0, 604_800)  # model: FairsharePolicy.shareDecaySeconds
COMPUTE_RESERVATION = (0, 99)  # model: FairsharePolicy.computeReservation
WEIGHT = (0.0001, 999.9999)  # model: ShareAttributes.weightFactor

# -- job definitions ------------------------------------------------------------------------------

IMAGE_LENGTH = 255  # model: ContainerProperties.image
VOLUME_NAME_LENGTH = 255  # model: Volume.name
MEMORY_MIB = 4  # model: ContainerProperties.memory, the least
ATTEMPTS = (1, 10)  # model: RetryStrategy.attempts
EXIT_RULES = 5  # model: RetryStrategy.evaluateOnExit
EXIT_PATTERN_LENGTH = 512  # model: EvaluateOnExit
TIMEOUT_SECONDS = 60  # userguide/job_timeouts, the least
PRIORITY = (0, 9999)  # model: schedulingPriority
CONTAINERS = 10  # model: EcsProperties.taskProperties, EksPodProperties
NODE_GROUPS = 5  # userguide/mnp-node-groups
NODES = 1000  # userguide/multi-node-parallel-jobs: ECS's limit for a cluster
EPHEMERAL_GIB = (21, 200)  # model: EphemeralStorage
SWAPPINESS = (0, 100)  # model: LinuxParameters
CONTAINER_TIMEOUT_SECONDS = (2, 120)  # model: TaskContainerProperties, the most is Fargate's

FARGATE_MEMORY_MIB: Mapping[str, tuple[int, ...]] = {
    "0.25": (512, 1024, 2048),
    "0.5": tuple(range(1024, 4096 + 1, 1024)),
    "1": tuple(range(2048, 8192 + 1, 1024)),
    "2": tuple(range(4096, 16_384 + 1, 1024)),
    "4": tuple(range(8192, 30_720 + 1, 1024)),
    "8": tuple(range(16_384, 61_440 + 1, 4096)),
    "16": tuple(range(32_768, 122_880 + 1, 8192)),
    "32": (61_440, 122_880, 249_856),
}
"""What memory goes with how many vCPUs on Fargate; model: ResourceRequirement.value."""

# -- jobs, enforced where jobs are accepted -------------------------------------------------------

DEPENDENCIES = 20  # limits
ARRAY_SIZE = (2, 10_000)  # limits; model: ArrayProperties.size
SUBMIT_BYTES = 30 * 1024  # limits: payload of SubmitJob
OVERRIDES_CHARACTERS = 8192  # ECS RunTask; Netflix/metaflow#1482, ASFHyP3/hyp3#3041
DESCRIBED_JOBS = 100  # model: DescribeJobs; pegasus-isi/pegasus#2086
BULK_JOBS = 50  # model: CancelJobs, TerminateJobs
REASON_LENGTH = 1024  # model: CancelJob.reason, TerminateJob.reason
SHARE_LENGTH = 255  # model: SubmitJob.shareIdentifier
SUBMITTED_JOBS = 1_000_000  # limits: jobs in SUBMITTED
LIST_PAGE = 1000  # model: ListJobs.maxResults
LIST_PAGE_FILTERED = 100  # model: ListJobs.maxResults with filters
SNAPSHOT_JOBS = 100  # model: GetJobQueueSnapshot
CONTAINER_REASON_LENGTH = 255  # model: ContainerDetail.reason
FINISHED_KEPT_DAYS = 7  # userguide/job_states: at least

# -- tags -----------------------------------------------------------------------------------------

TAGS = 50  # tags; model: TagrisTagsMap
TAG_KEY_LENGTH = 128  # tags; model: TagKey
TAG_VALUE_LENGTH = 256  # tags; model: TagValue

_JOB_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{NAME_LENGTH - 1}}}\Z")
_RESOURCE_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{NAME_LENGTH}}}\Z")
_SHARE = re.compile(rf"[A-Za-z0-9_-]{{1,{SHARE_LENGTH}}}\Z")
_TAG_CHARACTERS = re.compile(r"[\w\s.:/=+\-@]*\Z")


def check_job_name(name: str) -> None:
    """Refuse a job's name that is too long or has other characters than AWS takes.

    Raises:
        ClientError: it is refused, in the words of fluidattacks/makes#697.
    """
    refuse(not _JOB_NAME.match(name), "Job name should match valid pattern")


def check_name(kind: str, name: str) -> None:
    """Refuse a name that is too long or has other characters than AWS takes.

    Args:
        kind: what it is the name of, in AWS's words, such as ``Job Queue``.
        name: what was written.

    Raises:
        ClientError: it is refused.
    """
    refuse(not _RESOURCE_NAME.match(name), f"{kind} name should match a valid pattern.")


def check_share(share: str) -> None:
    """Refuse a job's share identifier that is too long or has odd characters.

    The model says alphanumeric; the service takes ``-`` and ``_`` too (measured:
    badmintoncryer/cdk-preflight, rule batch-sp-share-identifier-pattern).

    Raises:
        ClientError: it is refused.
    """
    refuse(not _SHARE.match(share), "ShareIdentifier name should match a valid pattern.")


def check_tags(tags: Mapping[str, str]) -> None:
    """Refuse too many tags, and keys and values that are too long or reserved.

    An empty map passes: SDK users send one when they have no tags.

    Raises:
        ClientError: they are refused.
    """
    refuse(len(tags) > TAGS, f"Number of tags {len(tags)} exceeds the limit of {TAGS}")
    for key, value in tags.items():
        refuse(
            not 1 <= len(key) <= TAG_KEY_LENGTH,
            f"Tag key {key!r} should have 1 to {TAG_KEY_LENGTH} characters",
        )
        refuse(
            len(value) > TAG_VALUE_LENGTH,
            f"Value of tag {key!r} should have at most {TAG_VALUE_LENGTH} characters",
        )
        refuse(
            key.lower().startswith("aws:"),
            f"Tag key {key!r} is not valid: the prefix aws: is reserved",
        )
        refuse(
            not (_TAG_CHARACTERS.match(key) and _TAG_CHARACTERS.match(value)),
            f"Tag {key!r} has characters other than letters, numbers, spaces and . : / = + - @ _",
        )


def check_range(member: str, value: float | None, least: float, most: float) -> None:
    """Refuse a number outside its range; one that was not given passes.

    Raises:
        ClientError: it is refused.
    """
    refuse(
        value is not None and not least <= value <= most,
        f"{member} must be between {least} and {most}, but is {value}",
    )


def check_count(member: str, values: Sequence[object], most: int) -> None:
    """Refuse a list that is too long.

    Raises:
        ClientError: it is refused.
    """
    refuse(
        len(values) > most,
        f"Maximum number of {member} supported is {most}, but {len(values)} were given",
    )


def check_reason(reason: str) -> None:
    """Refuse the reason of CancelJob or TerminateJob when it is too long.

    Raises:
        ClientError: it is refused.
    """
    refuse(
        len(reason) > REASON_LENGTH,
        f"Reason must have at most {REASON_LENGTH} characters, but has {len(reason)}",
    )


def check_array_size(size: int) -> None:
    """Refuse the size of an array job outside 2 to 10,000.

    Raises:
        ClientError: it is refused.
    """
    least, most = ARRAY_SIZE
    refuse(
        not least <= size <= most,
        f"Array size must be between {least} and {most}, but is {size}",
    )


def check_submit_size(request: Mapping[str, Any]) -> None:
    """Refuse a SubmitJob request above 30 KiB, in the words of ASFHyP3/hyp3#3041.

    Raises:
        ClientError: it is refused.
    """
    _check_size("Job size", request, SUBMIT_BYTES)


def check_definition_size(request: Mapping[str, Any]) -> None:
    """Refuse a job definition above 24 KiB.

    Raises:
        ClientError: it is refused.
    """
    _check_size("Job definition size", request, DEFINITION_BYTES)


def _check_size(what: str, request: Mapping[str, Any], most: int) -> None:
    size = len(json.dumps(request, separators=(",", ":"), ensure_ascii=False).encode())
    if size > most:
        raise RefusedError(
            f"{what} must be less than {most // 1024} KiB, got {-(-size // 1024)} KiB"
        )
