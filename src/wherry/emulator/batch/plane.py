"""The life of all jobs of a region, as one machine that is driven from outside.

The plane has no thread, no lock and no time of its own: a service, or a test, calls operations,
hands it what engines tell, and calls `advance`. Whatever is long (an array of 10,000 children, say)
is put on the agenda and done a few jobs at a time, so that nobody waits long for the lock. Calls to
the engine wait in the outbox until the state that led to them has been saved.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wherry.emulator.batch import (
    attempts,
    consumption,
    ending,
    expiry,
    holding,
    lifecycle,
    saving,
)
from wherry.emulator.batch.book import Book, Entry
from wherry.emulator.batch.dependencies import Links
from wherry.emulator.batch.errors import ClientError
from wherry.emulator.batch.records import ENDED
from wherry.emulator.engines.api import TaskEnded, TaskEvent, TaskStarted

if TYPE_CHECKING:
    from wherry.emulator.batch.attempts import Flight
    from wherry.emulator.batch.catalog import Catalog
    from wherry.emulator.batch.placing import Placing
    from wherry.emulator.batch.ports import Archive, Document, Surroundings
    from wherry.emulator.batch.retries import Outcome
    from wherry.emulator.clock import Clock
    from wherry.emulator.engines.api import Engine
    from wherry.emulator.faults import Fault, Faults

AT_ONCE = 400
"""How many jobs of the agenda one `advance` looks at."""


class Plane:
    """The jobs of one region.

    Args:
        region: where they are.
        catalog: queues, definitions and the rest.
        placing: decides which job starts, and where.
        engine: runs tasks.
        surroundings: the rest of AWS.
        clock: emulated time.
        faults: what goes wrong on purpose.
        archive: where jobs outlive the process; nothing for memory alone.
        efs_root: the folder that has a folder for each file system of EFS that jobs mount.

    Attributes:
        book: all jobs.
        links: who waits for whom.
        flights: what the engine has, by task id.
        agenda: ids of jobs to look at.
        outbox: calls to the engine that are still to be made.
        held: jobs that a fault keeps where they are.
        outcomes: how the main nodes ended of multi-node jobs that still have other nodes.
        networks: of multi-node jobs that run.
        users: which jobs ask for which consumable resource.
        views: descriptions of containers that jobs share.
        unplaced: whether something has changed that lets other jobs start.
    """

    def __init__(
        self,
        region: str,
        catalog: Catalog,
        placing: Placing,
        engine: Engine,
        surroundings: Surroundings,
        clock: Clock,
        faults: Faults,
        archive: Archive | None = None,
        efs_root: str = "",
    ) -> None:
        self.region = region
        self.catalog = catalog
        self.placing = placing
        self.engine = engine
        self.surroundings = surroundings
        self.clock = clock
        self.faults = faults
        self.archive = archive
        self.efs_root = efs_root
        self.book = Book()
        self.links = Links()
        self.flights: dict[str, Flight] = {}
        self.agenda: deque[str] = deque()
        self.outbox: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self.held: dict[str, Fault] = {}
        self.outcomes: dict[str, Outcome] = {}
        self.networks: dict[str, str] = {}
        self.users = consumption.Users()
        self.unplaced = True
        self.views: dict[tuple[str, str, int], Document] = {}
        self._reminders: list[tuple[float, int, str, str, int]] = []
        self._numbers = itertools.count()
        self._hook_in()

    # -- driving ----------------------------------------------------------------------------------

    def resume(self) -> None:
        """Take up what an earlier life has left in the archive; once, before anything else."""
        saving.load(self)

    def on_event(self, event: TaskEvent) -> None:
        """Take what an engine tells; unknown tasks are ignored."""
        if isinstance(event, TaskStarted):
            attempts.started(self, event)
        elif isinstance(event, TaskEnded):
            attempts.ended(self, event)

    def advance(self) -> bool:
        """Do what is due and what is possible; tells whether there is more to do at once."""
        now = self.clock.now()
        self._remember(now)
        for job in holding.release(self):
            _LET_GO[job.status](self, job)
        self._work_off()
        self._place(now)
        self.save()
        while self.outbox:
            call, arguments = self.outbox.popleft()
            call(*arguments)
        return bool(self.agenda)

    def next_due(self) -> float | None:
        """Return the emulated time at which `advance` is to be called again by itself."""
        now = self.clock.now()
        if self.agenda or self.outbox or self.unplaced:
            return now
        due = [self._reminders[0][0]] if self._reminders else []
        changes = self.placing.next_due(now)
        if changes is not None:
            due.append(changes)
        if self.held:
            due.append(now + holding.ASKED_EVERY * self.clock.scale)
        return min(due, default=None)

    def save(self) -> None:
        """Hand what has changed to the archive."""
        saving.save(self)

    # -- for the rooms of the plane ---------------------------------------------------------------

    def remind(self, due: float, what: str, job_id: str, mark: int) -> None:
        """Have something looked at when its time comes."""
        heapq.heappush(self._reminders, (due, next(self._numbers), what, job_id, mark))

    def forget_later(self, job: Entry) -> None:
        """Have an ended job forgotten when its days are over."""
        if not job.parent:
            self.remind(job.stopped_at / 1000 + expiry.KEPT, "expiry", job.id, 0)

    def forget_network(self, parent: Entry) -> None:
        """Have the network of a multi-node job removed."""
        network = self.networks.pop(parent.id, "")
        if network:
            self.outbox.append((self.engine.forget_network, (network,)))

    # -- inside -----------------------------------------------------------------------------------

    def _hook_in(self) -> None:
        self.catalog.in_use = self._is_in_use
        self.catalog.end_jobs = lambda queue: self._end_all(queue.arn)
        self.catalog.job_tags = self._tags

    def _remember(self, now: float) -> None:
        while self._reminders and self._reminders[0][0] <= now:
            _, _, what, job_id, mark = heapq.heappop(self._reminders)
            job = self.book.jobs.get(job_id)
            if job is None:
                continue
            if what == "timeout":
                attempts.time_is_up(self, job, mark)
            elif job.ended:
                expiry.when_due(self, job)

    def _work_off(self) -> None:
        for _ in range(min(AT_ONCE, len(self.agenda))):
            job = self.book.jobs.get(self.agenda.popleft())
            if job is not None:
                lifecycle.consider(self, job)

    def _place(self, now: float) -> None:
        """Start what can start, end what waited too long, and say why the others wait."""
        self.unplaced = False
        for placed in self.placing.place(now):
            job = self.book.jobs.get(placed.job_id)
            if job is None or job.status != "RUNNABLE":
                self.placing.release(placed.job_id, now)
                continue
            lifecycle.start(self, job, placed.places)
        for job_id, reason in self.placing.overdue(now):
            job = self.book.jobs.get(job_id)
            if job is not None:
                ending.cancel(self, job, reason)
        for job_id, reason in self.placing.reasons(now):
            job = self.book.jobs.get(job_id)
            if job is not None:
                lifecycle.explain(self, job, reason)

    def _is_in_use(self, arn: str) -> bool:
        """Tell whether a queue, a consumable resource or an environment has jobs."""
        if self.book.is_busy(arn) or self.users.are_busy(arn):
            return True
        return any(flight.place.environment_arn == arn for flight in self.flights.values())

    def _end_all(self, queue_arn: str) -> None:
        for job in list(self.book.in_queue(queue_arn)):
            if job.status not in ENDED:
                ending.terminate(self, job, "Job queue was deleted")

    def _tags(self, arn: str, tags: dict[str, str] | None) -> dict[str, str] | None:
        job = self.book.find(arn)
        if job is None:
            return None
        if job.parent:
            raise ClientError(f"Tags are not supported for the child job {job.id}")
        if tags is not None:
            job.tags = dict(tags)
            self.book.touch(job)
        return dict(job.tags)


def _again(plane: Plane, job: Entry) -> None:
    plane.agenda.append(job.id)


_LET_GO: dict[str, Callable[[Plane, Entry], None]] = {
    "SUBMITTED": _again,
    "PENDING": _again,
    "RUNNABLE": lambda plane, job: lifecycle.wait_for_place(plane, job, front=len(job.runs) > 0),
    "STARTING": lifecycle.launch,
}
"""What becomes of a job, by its state, when the fault that held it is off."""
