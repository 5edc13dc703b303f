"""What is known of a job queue when a request is made, or later, before it is sent.

A request is made without the network; whoever has asked AWS hands the answer in as `QueueFacts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from wherry.aws.documents import Document
from wherry.errors import InvalidSpecError, UsageError


class Platform(str, Enum):
    """What the compute environments of a queue are made of."""

    EC2 = "EC2"
    FARGATE = "FARGATE"
    EKS = "EKS"
    MANAGED_INSTANCES = "MANAGED_INSTANCES"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class QueueFacts:
    """A queue, as far as a request depends on it.

    Args:
        platform: what its environments are made of.
        scheduling_policy: whether it has one, so that jobs must name a share.
        gangs: whether an environment can run multi-node parallel jobs: managed and on-demand.
        environments: the names of its environments.
    """

    platform: Platform = Platform.EC2
    scheduling_policy: bool | None = None
    gangs: bool = True
    environments: tuple[str, ...] = ()


# ``computeResources.type``, and what it comes to here.
_TYPES = {
    "EC2": Platform.EC2,
    "SPOT": Platform.EC2,
    "FARGATE": Platform.FARGATE,
    "FARGATE_SPOT": Platform.FARGATE,
    "ECS_MANAGED_INSTANCES": Platform.MANAGED_INSTANCES,
}


def queue_facts(queue: Document, environments: Sequence[Document]) -> QueueFacts:
    """Read the facts from what AWS says of a queue and of its compute environments.

    Args:
        queue: one of DescribeJobQueues.
        environments: those of DescribeComputeEnvironments that belong to it.
    """
    platforms = [_platform(environment) for environment in environments]
    return QueueFacts(
        platform=platforms[0] if platforms else Platform.EC2,
        scheduling_policy=bool(queue.get("schedulingPolicyArn")),
        gangs=any(map(_has_gangs, environments)) or not environments,
        environments=tuple(str(each["computeEnvironmentName"]) for each in environments),
    )


def _platform(environment: Document) -> Platform:
    if environment.get("containerOrchestrationType") == "EKS":
        return Platform.EKS
    # An unmanaged environment has no resources of its own to tell; its hosts are EC2's.
    return _TYPES.get((environment.get("computeResources") or {}).get("type", ""), Platform.EC2)


def _has_gangs(environment: Document) -> bool:
    kind = (environment.get("computeResources") or {}).get("type")
    return environment.get("type") != "UNMANAGED" and kind == "EC2"


def check_queue(queue: str, facts: QueueFacts, share_id: str | None, *, gang: bool) -> None:
    """Refuse what the queue cannot take.

    Raises:
        UsageError: a share where there are none, or none where there must be; a gang that no
            environment could run; a platform that this scheduler does not use.
    """
    if facts.platform not in (Platform.EC2, Platform.FARGATE):
        raise UsageError(
            f"queue {queue!r} runs on {facts.platform}, which this scheduler does not use; "
            "it uses queues of EC2 instances and of Fargate"
        )
    if facts.scheduling_policy and share_id is None:
        raise UsageError(
            f"queue {queue!r} has a scheduling policy, so that each job must name its share; "
            "set one with -cfg share_id=…"
        )
    if facts.scheduling_policy is False and share_id is not None:
        raise UsageError(
            f"queue {queue!r} has no scheduling policy, so that it has no shares; "
            f"leave out share_id={share_id}"
        )
    if gang and facts.platform is Platform.FARGATE:
        raise InvalidSpecError(
            f"queue {queue!r} runs on Fargate, which has no multi-node jobs; use a queue of EC2 "
            "instances, or make the replicas independent of each other (array=True)"
        )
    if gang and not facts.gangs:
        raise InvalidSpecError(
            f"queue {queue!r} has only Spot or unmanaged environments, which AWS Batch does not "
            "use for multi-node jobs; use a queue of on-demand EC2 instances"
        )
