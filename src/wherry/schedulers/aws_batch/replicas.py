"""Which job is which replica: the child of an array, the node of a gang, or the job itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from wherry.aws import jobs
from wherry.aws.documents import Document
from wherry.errors import UnknownNameError, unknown
from wherry.schedulers.aws_batch.shape import Group, Kind


class JobRange(Protocol):
    """One of the jobs behind an app, and the replicas that are its own; `JobRef` is one."""

    @property
    def id(self) -> str:
        """AWS's id."""

    @property
    def first(self) -> int:
        """The number of its first replica within the app."""

    @property
    def count(self) -> int:
        """How many replicas it has."""


@dataclass(frozen=True)
class Replica:
    """One replica, and its job.

    Args:
        role: its role.
        k: its index within the role.
        job_id: AWS's id of the job, child or node.
    """

    role: str
    k: int
    job_id: str

    def __str__(self) -> str:
        return f"{self.role}/{self.k}"


@dataclass(frozen=True)
class AppJobs:
    """The jobs behind an app.

    Args:
        handle: the app's name in messages.
        kind: what it is at AWS Batch.
        groups: its roles.
        jobs: its jobs, in the order of their replicas.
        over: whether it is known to have ended.
        streams: what a record keeps of its log streams (`wherry.aws.log_places.known_streams`).
    """

    handle: str
    kind: Kind
    groups: Sequence[Group]
    jobs: Sequence[JobRange]
    over: bool = False
    streams: Sequence[Document] = ()

    def replica(self, role: str, k: int) -> Replica:
        """Return one replica.

        Raises:
            UnknownNameError: there is no such role or replica.
        """
        group = next((each for each in self.groups if each.role == role), None)
        if group is None:
            names = [each.role for each in self.groups]
            raise UnknownNameError(unknown(f"role of {self.handle}:", role, names))
        if not 0 <= k < group.count:
            last = group.count - 1
            choice = "only replica 0" if last == 0 else f"replicas 0 to {last}"
            raise UnknownNameError(
                f"role {role!r} of {self.handle} has no replica {k}; it has {choice}"
            )
        return Replica(role, k, self._job_id(group.first + k))

    def replicas(self) -> Iterator[Replica]:
        """Yield all replicas, in the order of their numbers."""
        for group in self.groups:
            for k in range(group.count):
                yield Replica(group.role, k, self._job_id(group.first + k))

    def number(self, replica: Replica) -> int:
        """Return a replica's number within the app."""
        return replica.k + next(each.first for each in self.groups if each.role == replica.role)

    def _job_id(self, number: int) -> str:
        for job in self.jobs:
            if job.first <= number < job.first + job.count:
                return self._member(job, number - job.first)
        raise UnknownNameError(f"{self.handle} has no job for its replica {number}")

    def _member(self, job: JobRange, index: int) -> str:
        if self.kind is Kind.GANG:
            return jobs.node_id(job.id, index)
        if self.kind is Kind.ARRAY and job.count > 1:
            return jobs.child_id(job.id, index)
        return job.id
