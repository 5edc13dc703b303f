"""What is known of a job queue when a request is made, or later, before it is sent.

A request is made without the network; whoever has asked AWS hands the answer in as `QueueFacts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

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
