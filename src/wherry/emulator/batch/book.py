"""All jobs that are known, and the indexes by which they are found.

The book counts and finds; it decides nothing, and knows neither engine nor queue.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field

from wherry.emulator.batch.placing import Place
from wherry.emulator.batch.records import ENDED, STATES, Job

_MEMBERS = {"array": ("child", ":"), "multinode": ("node", "#")}
"""What jobs consist of, and what stands between the job's id and the member's index."""


@dataclass(eq=False)
class Entry(Job):
    """A job with what only its life needs to know, beyond what the API shows.

    Attributes:
        serial: the order of submission; children and nodes have their parent's.
        line: the order in which it became RUNNABLE; 0 if it never did.
        places: where the present attempt runs, one place for each node.
        wish: the reason that came with a cancellation or termination.
        timed_out: whether the present attempt is being ended by its timeout.
        opened: whether an array's own dependencies have succeeded.
        doomed: whether something that it depends on has failed.
        look: what decides the parts of its description that it shares with others.
        counts: of an array: how many children are in each state.
        counted_at: when `counts` last changed, in milliseconds.
        flying: of a multi-node job: how many of its tasks have not ended.
    """

    serial: int = 0
    line: int = 0
    places: tuple[Place, ...] = ()
    wish: str = ""
    timed_out: bool = False
    opened: bool = False
    doomed: bool = False
    look: tuple[str, str, int] = ("", "", 0)
    counts: dict[str, int] = field(default_factory=dict)
    counted_at: int = 0
    flying: int = 0

    @property
    def ended(self) -> bool:
        """Whether it will not change any more."""
        return self.status in ENDED

    def members(self) -> list[Entry]:
        """Make the children of a new array, or the nodes of a new multi-node job.

        They share all that they can with it.
        """
        if self.kind not in _MEMBERS:
            return []
        kind, mark = _MEMBERS[self.kind]
        return [
            Entry(
                id=f"{self.id}{mark}{index}",
                arn=f"{self.arn}{mark}{index}",
                name=self.name,
                queue_arn=self.queue_arn,
                definition=self.definition,
                request=self.request,
                created_at=self.created_at,
                parent=self.id,
                index=index,
                kind=kind,
                serial=self.serial,
                look=self.look if kind == "child" else (*self.look[:2], index),
            )
            for index in range(self.children)
        ]


class Book:
    """The jobs.

    Attributes:
        jobs: every job by its id, in the order of submission.
        families: the children or nodes of a job, by its id, in the order of their index.
        changed: jobs that have to be saved.
        gone: ids of jobs that were removed since the last save.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, Entry] = {}
        self.families: dict[str, list[Entry]] = {}
        self.changed: dict[str, Entry] = {}
        self.gone: list[str] = []
        self._queues: dict[str, dict[str, dict[str, Entry]]] = {}
        self._totals = dict.fromkeys(STATES, 0)
        self._shares: dict[str, dict[str, int]] = {}
        self._serials = itertools.count(1)
        self._lines = itertools.count(1)

    def next_serial(self) -> int:
        """Return a number for a new submission."""
        return next(self._serials)

    def next_line(self) -> int:
        """Return a number for a job that becomes RUNNABLE."""
        return next(self._lines)

    def begin_after(self, serial: int, line: int) -> None:
        """Go on numbering where an earlier life ended."""
        self._serials = itertools.count(serial + 1)
        self._lines = itertools.count(line + 1)

    def find(self, reference: str) -> Entry | None:
        """Return the job with an id or an ARN.

        AWS takes ARNs where it asks for ids: TorchX 0.7.0 depends on it.
        """
        found = self.jobs.get(reference.rpartition("/")[2])
        return found if found is not None and reference in (found.id, found.arn) else None

    def add(self, job: Entry) -> None:
        """Take in a submission, with the children or nodes that it consists of."""
        family = job.members()
        self.jobs[job.id] = job
        self._count(job, 1)
        if job.kind == "array":
            job.counts = dict.fromkeys(STATES, 0)
        if family:
            self.families[job.id] = family
        for member in family:
            self.jobs[member.id] = member
            self._count(member, 1)
        self.changed[job.id] = job

    def remove(self, job: Entry) -> int:
        """Forget a job and its family; returns how many that were."""
        family = self.families.pop(job.id, [])
        for member in (*family, job):
            self._count(member, -1)
            del self.jobs[member.id]
            self.changed.pop(member.id, None)
            self.gone.append(member.id)
        return 1 + len(family)

    def move(self, job: Entry, status: str) -> None:
        """Note that a job is in another state."""
        self._count(job, -1)
        job.status = status
        self._count(job, 1)
        self.changed[job.id] = job

    def touch(self, job: Entry) -> None:
        """Note that a job has changed otherwise."""
        self.changed[job.id] = job

    def parent_of(self, job: Entry) -> Entry:
        """Return the array or multi-node job that a child or node belongs to."""
        return self.jobs[job.parent]

    def family_of(self, job: Entry) -> list[Entry]:
        """Return the children or nodes of a job; nothing for one that has none."""
        return self.families.get(job.id, [])

    def in_queue(self, queue_arn: str, statuses: Iterable[str] = STATES) -> Iterator[Entry]:
        """Return the jobs that were submitted to a queue and are in one of some states."""
        by_status = self._queues.get(queue_arn, {})
        for status in statuses:
            yield from by_status.get(status, {}).values()

    def is_busy(self, queue_arn: str) -> bool:
        """Tell whether a queue has a job that has not ended."""
        by_status = self._queues.get(queue_arn, {})
        return any(jobs for status, jobs in by_status.items() if status not in ENDED)

    def shares(self, queue_arn: str) -> Set[str]:
        """Return the share identifiers of a queue that have jobs which have not ended."""
        return self._shares.get(queue_arn, {}).keys()

    def count(self, status: str) -> int:
        """Return how many jobs, children and nodes included, are in a state."""
        return self._totals[status]

    def totals(self) -> dict[str, int]:
        """Return how many jobs, children and nodes included, are in each state."""
        return dict(self._totals)

    def totals_of(self, queue_arn: str) -> dict[str, int]:
        """Return how many submissions to a queue are in each state."""
        by_status = self._queues.get(queue_arn, {})
        return {status: len(by_status.get(status, ())) for status in STATES}

    def _count(self, job: Entry, step: int) -> None:
        self._totals[job.status] += step
        if job.kind == "child":
            counts = self.jobs[job.parent].counts
            counts[job.status] = counts.get(job.status, 0) + step
        if job.parent:
            return
        ids = self._queues.setdefault(job.queue_arn, {}).setdefault(job.status, {})
        if step > 0:
            ids[job.id] = job
        else:
            del ids[job.id]
        share = job.request.get("shareIdentifier")
        if share and not job.ended:
            self._count_share(job.queue_arn, share, step)

    def _count_share(self, queue_arn: str, share: str, step: int) -> None:
        active = self._shares.setdefault(queue_arn, {})
        active[share] = active.get(share, 0) + step
        if not active[share]:
            del active[share]
