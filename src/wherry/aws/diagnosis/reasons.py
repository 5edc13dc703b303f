"""What AWS says of jobs that stay RUNNABLE, in plain words: a table.

The keys are documented (AWS Batch user guide, "Jobs stuck in a RUNNABLE status"). AWS gives a
reason only to the first job of a queue, after some minutes; it can be false while an environment
scales up (nextflow-io/nextflow#7479).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CANCELLED = "Canceled by JobStateTimeLimit action due to reason:"
"""How the reason of a job begins that a queue's time limit ended (the same pages)."""


@dataclass(frozen=True)
class Reason:
    """What a key means.

    Args:
        key: as AWS writes it.
        code: its name for programs.
        summary: what is the matter.
        resolution: what to do.
        can_be_false: whether it may be said of an environment that only scales up.
    """

    key: str
    code: str
    summary: str
    resolution: str
    can_be_false: bool = True


_TABLE = (
    Reason(
        "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
        "no-capacity",
        "AWS has no instances of the wanted types free at the moment.",
        "Wait; or add instance types, sizes and subnets in other zones to the environment, and a "
        "second environment (on demand beside Spot) to the queue.",
    ),
    Reason(
        "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE",
        "above-max-vcpus",
        "The job needs more vCPUs than its environments may ever have.",
        "Raise maxvCpus of the environment, or ask for less.",
    ),
    Reason(
        "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
        "does-not-fit",
        "The job asks for more vCPUs, memory or GPUs than any instance of its queue has.",
        "Ask for less, or add larger instance types to the environment. Hosts keep a part of "
        "their memory for themselves.",
    ),
    Reason(
        "MISCONFIGURATION:EC2_INSTANCE_CONFIGURATION_UNSUPPORTED",
        "unsupported-instances",
        "None of the environment's instance types can be launched the way it is set up.",
        "Check that the types exist in the region and zones of the subnets, and that the image "
        "(AMI) is made for their architecture and boot mode.",
    ),
    Reason(
        "MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS",
        "service-role",
        "AWS Batch may not do what it has to do to launch instances: a permission is missing "
        "from its service role.",
        "Give the environment the service-linked role AWSServiceRoleForBatch, or attach "
        "AWSBatchServiceRole to its own; a key policy or a service control policy may forbid it.",
        can_be_false=False,
    ),
    Reason(
        "ACTION_REQUIRED",
        "environments-invalid",
        "All compute environments of the queue are INVALID.",
        "Look at the status reason of each environment, and mend or replace it.",
        can_be_false=False,
    ),
    Reason(
        "UNDETERMINED",
        "undetermined",
        "AWS Batch sees that the queue is blocked, and does not know why.",
        "Look whether instances are launched and register with ECS: a route to the internet or "
        "VPC endpoints, the security group's outbound rules, the instance role, the EC2 or Spot "
        "vCPU quota.",
    ),
)
REASONS: Mapping[str, Reason] = {reason.key: reason for reason in _TABLE}
"""Every documented reason by its key."""


def reason_of(text: str) -> Reason | None:
    """Return what AWS means by a status reason; nothing for one that is not in the table.

    >>> reason_of("UNDETERMINED - Batch job is blocked, root cause is undetermined.").code
    'undetermined'
    """
    rest = text.removeprefix(CANCELLED).strip()
    return REASONS.get(rest.split(" ", 1)[0].rstrip(".:")) if rest else None


def says(who: str, words: str) -> str:
    """Put somebody's own words into a sentence.

    >>> says("AWS", "All is well.")
    'AWS says: "All is well".'
    """
    return f'{who} says: "{words.strip().rstrip(".")}".'
