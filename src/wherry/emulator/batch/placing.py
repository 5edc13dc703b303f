"""What the life of a job and the choice of its place tell each other.

`Plane` (the life of jobs) says which jobs wait, and asks where they can go; `Placement` (queues,
capacity, fair share) answers. Neither knows the other's insides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from wherry.emulator.batch.ports import Document


@dataclass(frozen=True)
class NodeNeed:
    """What one node asks for, and how many nodes ask for the same.

    Attributes:
        count: nodes; 1 for all that is not multi-node.
        vcpus, memory_mib, gpus: of one node, all its containers together.
        instance_type: the only type that will do; empty for any.
    """

    count: int
    vcpus: float
    memory_mib: int
    gpus: int
    instance_type: str = ""


@dataclass(frozen=True)
class Waiting:
    """A job that has become RUNNABLE.

    Attributes:
        job_id, arn, job_name: which.
        queue_arn: where it waits.
        share: its share identifier, if it has one.
        priority: its scheduling priority within the share.
        nodes: what it asks for.
        platforms: platform capabilities of its definition: ``EC2``, ``FARGATE``, …
        architecture: ``X86_64`` or ``ARM64`` where the definition says so; else empty.
        consumables: consumable resource ARN, quantity.
        since: emulated time at which it became RUNNABLE, in seconds.
        front: whether it goes before all others of its queue, because it is retried.
    """

    job_id: str
    arn: str
    job_name: str
    queue_arn: str
    share: str
    priority: int
    nodes: tuple[NodeNeed, ...]
    platforms: tuple[str, ...]
    architecture: str
    consumables: tuple[tuple[str, int], ...]
    since: float
    front: bool = False


@dataclass(frozen=True)
class Place:
    """Where one node of a job runs.

    Attributes:
        environment_arn, environment_name: the compute environment.
        cluster_arn: its ECS cluster.
        instance_id: the EC2 instance, ``i-…``; empty on Fargate.
        instance_type: its type; empty on Fargate.
        instance_arn: the container instance; empty on Fargate.
    """

    environment_arn: str
    environment_name: str
    cluster_arn: str
    instance_id: str
    instance_type: str
    instance_arn: str


@dataclass(frozen=True)
class Placed:
    """A job that can start now; one place for each node, in the order of the nodes."""

    job_id: str
    places: tuple[Place, ...]


class Placing(Protocol):
    """Decides who starts where. Called under the plane's lock; never blocks; keeps no clock."""

    def add(self, waiting: Waiting) -> None:
        """Let a job wait."""

    def remove(self, job_id: str) -> None:
        """Let it wait no more, because it was ended; unknown ids are ignored."""

    def place(self, now: float) -> list[Placed]:
        """Take all that can start now out of their queues; each keeps its place until `release`."""

    def release(self, job_id: str, now: float) -> None:
        """Give back the places of a job whose attempt is over; unknown ids are ignored."""

    def drop_instance(self, instance_id: str) -> None:
        """The instance is gone; its jobs keep their places until they are released."""

    def reasons(self, now: float) -> list[tuple[str, str]]:
        """Return job id and status reason for each job whose reason for waiting has changed.

        An empty text takes an earlier reason back.
        """

    def overdue(self, now: float) -> list[tuple[str, str]]:
        """Return job id and status reason of each job that a queue's time limit now cancels."""

    def next_due(self, now: float) -> float | None:
        """Return the emulated time at which `reasons` or `overdue` may change by themselves."""

    def snapshot(self, queue_arn: str, now: float) -> Document:
        """Return what GetJobQueueSnapshot answers."""

    def changed(self) -> None:
        """Queues, environments, policies or consumable resources have changed."""
