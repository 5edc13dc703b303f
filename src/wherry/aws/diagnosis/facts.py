"""What was seen: the job, and all around it that its state makes worth a look.

`Facts` is everything that causes are deduced from; nothing in it judges. Gathering it is
`gathering`'s business.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from wherry.aws.diagnosis.asked import last_of
from wherry.aws.diagnosis.environments import Environment
from wherry.aws.diagnosis.images import Reference
from wherry.aws.documents import Document
from wherry.aws.jobs import JobView


@dataclass(frozen=True)
class Queue:
    """A job queue.

    Args:
        name: its name.
        state, status, reason: ``ENABLED``, ``VALID`` and what AWS says of them.
        priority: over other queues of the same environments.
        environments: the ARNs of its environments, in their order.
        policy: the ARN of its scheduling policy; empty for first come, first served.
        limits: its ``jobStateTimeLimitActions``.
    """

    name: str
    state: str = "ENABLED"
    status: str = "VALID"
    reason: str = ""
    priority: int = 0
    environments: tuple[str, ...] = ()
    policy: str = ""
    limits: tuple[Document, ...] = ()


@dataclass(frozen=True)
class Line:
    """The front of a queue, as GetJobQueueSnapshot tells it.

    Args:
        arns: of the first jobs, at most 100, in their order.
        updated_at: seconds since the epoch.
        used: vCPUs that the queue's jobs use.
        shares: vCPUs that each share uses, those that use most first.
    """

    arns: tuple[str, ...] = ()
    updated_at: float = 0.0
    used: float = 0.0
    shares: tuple[tuple[str, float], ...] = ()

    def place(self, arn: str) -> int | None:
        """Return a job's place, from 1; nothing when it is not among the first."""
        return self.arns.index(arn) + 1 if arn in self.arns else None


@dataclass(frozen=True)
class Policy:
    """A fair-share policy.

    Args:
        name: its name.
        reservation: per cent of the vCPUs that are kept for shares that do not run yet.
        weights: by share identifier, or the beginning of one with ``*``.
    """

    name: str
    reservation: int = 0
    weights: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Consumable:
    """A consumable resource that the job takes.

    Args:
        name: its name.
        asked: how much the job takes.
        total, used: how much there is, and how much others have; ``None`` when it is gone.
    """

    name: str
    asked: int
    total: int | None = None
    used: int = 0

    @property
    def free(self) -> int:
        """How much nobody has."""
        return (self.total or 0) - self.used


class Presence(Enum):
    """Whether something is there."""

    THERE = "there"
    MISSING = "missing"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Role:
    """An IAM role.

    Args:
        arn: which.
        purpose: what it is for, in words, such as ``job role``.
        service: who must be allowed to assume it, such as ``ecs-tasks.amazonaws.com``.
        presence: whether it exists.
        trusts: whether its trust policy lets that service; ``None`` when that is not known.
    """

    arn: str
    purpose: str
    service: str
    presence: Presence = Presence.UNKNOWN
    trusts: bool | None = None


@dataclass(frozen=True)
class Image:
    """A container image.

    Args:
        reference: how it is named.
        repository, tag: whether they are there; only ECR of the job's region is asked.
    """

    reference: Reference
    repository: Presence = Presence.UNKNOWN
    tag: Presence = Presence.UNKNOWN


@dataclass(frozen=True)
class Group:
    """A log group, and whether it is there; ``made`` when the log driver makes it."""

    name: str
    presence: Presence = Presence.UNKNOWN
    is_made: bool = False


@dataclass(frozen=True)
class Log:
    """How a log ends.

    Args:
        group, stream: where it is.
        lines: the last ones.
        presence: whether the stream is there.
    """

    group: str = ""
    stream: str = ""
    lines: tuple[str, ...] = ()
    presence: Presence = Presence.UNKNOWN


@dataclass(frozen=True)
class Facts:
    """Everything that was seen.

    Args:
        job_id: what was asked about.
        now: seconds since the epoch, as AWS counts them.
        job: ``None`` when AWS does not know it, or may not be asked.
        is_visible: whether AWS could be asked for jobs at all.
        parent: the array or multi-node job of a child or node.
        dependencies: the jobs that it depends on, as far as AWS knows them.
        forgotten: the ids of those that AWS does not know any more.
        child: of an array that waits, a child that waits.
        failed: summaries of the children that failed, at most a page of them.
        sample: the child that failed first.
        nodes: of a multi-node job.
        queue, environments, line, head, policy: where it waits, and who is first.
        consumables, roles, images, group: what it needs to start.
        closed_groups: security groups of environments of which none lets anything out.
        log: how its log ends.
        unseen: a sentence for each thing that could not be looked at.
    """

    job_id: str
    now: float
    job: JobView | None = None
    is_visible: bool = True
    parent: JobView | None = None
    dependencies: tuple[JobView, ...] = ()
    forgotten: tuple[str, ...] = ()
    child: JobView | None = None
    failed: tuple[JobView, ...] = ()
    sample: JobView | None = None
    nodes: tuple[JobView, ...] = ()
    queue: Queue | None = None
    environments: tuple[Environment, ...] = ()
    line: Line | None = None
    head: JobView | None = None
    policy: Policy | None = None
    consumables: tuple[Consumable, ...] = ()
    roles: tuple[Role, ...] = ()
    images: tuple[Image, ...] = ()
    group: Group | None = None
    closed_groups: tuple[str, ...] = ()
    log: Log = field(default_factory=Log)
    unseen: tuple[str, ...] = ()

    @property
    def waiting_since(self) -> float:
        """When the job, or the child that is looked at, began to wait for room.

        AWS does not say when a job became RUNNABLE; it was after its submission, after its last
        attempt and after what it depends on.
        """
        job = self.waiter
        last = None if job is None else last_of(job)
        times = [
            job.created_at if job else None,
            last.stopped_at if last else None,
            *(each.stopped_at for each in self.dependencies),
        ]
        return max(time or 0.0 for time in times)

    @property
    def waited(self) -> float:
        """For how many seconds it has waited for room."""
        return max(0.0, self.now - self.waiting_since)

    @property
    def waiter(self) -> JobView | None:
        """Who waits: the job itself, or of an array one of its children."""
        return self.child or self.job

    @property
    def in_line(self) -> JobView | None:
        """What stands in line for who waits: nodes do so as one job."""
        waiter = self.waiter
        return self.parent if waiter is not None and waiter.kind == "node" else waiter

    @property
    def counts(self) -> dict[str, int]:
        """How many children of an array are in each state."""
        return dict(self.job.counts) if self.job is not None else {}

    @property
    def open_environments(self) -> tuple[Environment, ...]:
        """The environments in which jobs are placed."""
        return tuple(each for each in self.environments if each.is_open)

    @property
    def has_ended(self) -> bool:
        """Whether the job has ended."""
        return self.job is not None and self.job.ended
