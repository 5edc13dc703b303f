"""The service of one region: the plane and the catalog behind a lock, and the thread that drives.

HTTP threads come in through `call`; what engines tell is queued and handled by the control thread,
which sleeps until there is something to do or the next moment (emulated) at which something is due.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from wherry.emulator.batch import actions, expiry, job_operations
from wherry.emulator.batch.catalog import Catalog
from wherry.emulator.batch.catalog_operations import OPERATIONS
from wherry.emulator.batch.errors import ClientError
from wherry.emulator.batch.placement import Machine, Placement
from wherry.emulator.batch.plane import Plane
from wherry.emulator.batch.ports import Archive, Document, Surroundings

if TYPE_CHECKING:
    from wherry.emulator.clock import Clock
    from wherry.emulator.engines.api import Engine, TaskEvent
    from wherry.emulator.faults import Faults
    from wherry.emulator.settings import Settings

T = TypeVar("T")

_log = logging.getLogger(__name__)

_CHANGES = ("Create", "Update", "Delete", "Register", "Deregister")
"""How the names of operations begin after which jobs may be placed otherwise."""

VCPUS_A_CORE = 16.0
"""What the machine gives to jobs for each of its cores, unless it is told otherwise."""


class BatchService:
    """AWS Batch in one region. All methods may be called from any thread.

    Args:
        region: which.
        engine: runs tasks; its events for tasks that `owns` knows go to `on_task_event`.
        surroundings: the rest of AWS.
        clock: emulated time.
        faults: what goes wrong on purpose.
        settings: how big the machine is.
        archive: where state outlives the process; nothing for memory alone.
        efs_root: the folder that has a folder for each file system of EFS that jobs mount; one
            among this user's temporary files when empty.

    Attributes:
        catalog: queues, environments, definitions and the rest.
        plane: the jobs.
    """

    def __init__(
        self,
        region: str,
        engine: Engine,
        surroundings: Surroundings,
        clock: Clock,
        faults: Faults,
        settings: Settings,
        archive: Archive | None = None,
        *,
        efs_root: str = "",
    ) -> None:
        self._lock = threading.RLock()
        self._wake = threading.Condition(threading.Lock())
        self._awake = False
        self._events: deque[TaskEvent] = deque()
        self._stopping = False
        self._defect = ""
        self._thread: threading.Thread | None = None
        self._clock = clock
        self.region = region
        self.catalog = Catalog(region, clock, archive)
        self._placing = Placement(self.catalog, machine_of(settings), faults)
        self.plane = Plane(
            region,
            self.catalog,
            self._placing,
            engine,
            surroundings,
            clock,
            faults,
            archive,
            efs_root,
        )

    def start(self) -> None:
        """Take up what an earlier life has left, and begin to drive; once."""
        with self._lock:
            self.plane.resume()
            self.plane.save()
        self._clock.on_change(self.wake)
        self._thread = threading.Thread(
            target=self._drive, name=f"wherry-batch-{self.region}", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop driving, once what was done has been saved; harmless when repeated."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._stopping = True
        self.wake()
        thread.join()
        with self._lock:
            self.plane.save()

    def call(self, operation: str, params: Document) -> Document:
        """Do an operation of the API.

        Args:
            operation: its name, such as ``SubmitJob``.
            params: the request, checked against the model.

        Returns:
            The answer.

        Raises:
            BatchError: what AWS would say.
        """
        do = job_operations.OPERATIONS.get(operation)
        if do is None:
            return self._call_catalog(operation, params)
        with self._lock:
            answer = do(self.plane, params)
            self.plane.save()
        if operation not in job_operations.READ_ONLY:
            self.wake()
        return answer

    def on_task_event(self, event: TaskEvent) -> None:
        """Take what an engine tells; returns at once."""
        self._events.append(event)
        self.wake()

    def owns(self, task_id: str) -> bool:
        """Tell whether a task belongs to a job of this region and has not ended."""
        return task_id in self.plane.flights

    def wake(self) -> None:
        """Let the control thread look at what has changed."""
        with self._wake:
            self._awake = True
            self._wake.notify()

    # -- actions ----------------------------------------------------------------------------------

    def reclaim(self, instance_or_job: str) -> list[str]:
        """Take an instance away, as Spot does; see `actions.reclaim`."""
        return self._act(lambda: actions.reclaim(self.plane, instance_or_job))

    def lose_agent(self, job_id: str) -> None:
        """Lose the agent of a job's host; see `actions.lose_agent`."""
        self._act(lambda: actions.lose_agent(self.plane, job_id))

    def expire(self, job_id: str | None = None) -> int:
        """Forget an ended job, or all of them, now; see `expiry.expire`."""
        return self._act(lambda: expiry.expire(self.plane, job_id))

    def status(self) -> Document:
        """Return how many jobs are in each state, of each queue too, and the instances in use."""
        with self._lock:
            found = actions.status(self.plane)
        if self._defect:
            said = f"a defect of this emulator ({self._defect}) may hold jobs up; its log has more"
            found["notes"].append(said)
        return found

    # -- inside -----------------------------------------------------------------------------------

    def _call_catalog(self, operation: str, params: Document) -> Document:
        do = OPERATIONS.get(operation)
        if do is None:
            raise ClientError(f"The emulator does not know the operation {operation}")
        with self._lock:
            answer = do(self.catalog, params)
            self.plane.save()
            if operation.startswith(_CHANGES):
                self._placing.changed()
                self.plane.unplaced = True
        self.wake()
        return answer

    def _act(self, action: Callable[[], T]) -> T:
        with self._lock:
            answer = action()
            self.plane.save()
        self.wake()
        return answer

    def _drive(self) -> None:
        while not self._stopping:
            try:
                self._step()
            except Exception as defect:  # noqa: BLE001 — it must not stop all other jobs
                self._defect = f"{type(defect).__name__}: {defect}"
                _log.exception("the control thread of AWS Batch in %s failed", self.region)
                with self._wake:
                    self._wake.wait(0.1)

    def _step(self) -> None:
        with self._lock:
            for _ in range(len(self._events)):
                self.plane.on_event(self._events.popleft())
            more = self.plane.advance()
            due = self.plane.next_due()
        if more:
            # Whoever waits for the lock gets it now.
            with self._wake:
                self._wake.wait(0.0005)
            return
        self._sleep(due)

    def _sleep(self, due: float | None) -> None:
        with self._wake:
            if not self._awake and not self._events and not self._stopping:
                left = None if due is None else self._clock.real_seconds(due - self._clock.now())
                self._wake.wait(left)
            self._awake = False


def machine_of(settings: Settings) -> Machine:
    """Return what this machine gives to jobs."""
    import os

    cores = os.cpu_count() or 1
    hard = settings.vcpus is not None or settings.memory_mib is not None
    vcpus = settings.vcpus if settings.vcpus is not None else cores * VCPUS_A_CORE
    return Machine(vcpus, settings.memory_mib, settings.gpus, hard)
