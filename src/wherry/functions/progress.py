"""What is known of one job at present: which outcomes are in the store, what its scheduler says.

A result in the store beats a status: a child whose value has arrived has succeeded, whatever is
said of its process. Looking is cheap for one job, and is done at intervals for large arrays.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from wherry.functions import outcome, records
from wherry.specs.states import AppState, is_terminal
from wherry.worker.formats import out_key

if TYPE_CHECKING:
    from wherry.functions.records import AppPart, JobRecord
    from wherry.schedulers.api import Scheduler
    from wherry.specs.status import AppStatus, AttemptStatus, ReplicaStatus
    from wherry.store.api import Store
    from wherry.worker.formats import Header

_LONGEST_PAUSE = 3.0
_SHARE = 20
"""A large array is looked at for at most one part of this many of the time."""
_EXCEPTION_CODE = 1
_ON_ITS_WAY = 300.0
"""Seconds in which a client that lives may be about to start what it has recorded."""

Statuses = Mapping[str, "AppStatus | None"]


class Progress:
    """What is known of one job.

    Args:
        record: what was submitted.
        store: where its outcomes arrive.
        scheduler: who runs it.
        more: asked at its end; submits it again if it ran out of memory and may have more, and
            returns what then runs.

    Attributes:
        ended: whether nothing will change any more.
        trouble: why the last look failed, such as a store that does not answer.
    """

    def __init__(
        self,
        record: JobRecord,
        store: Store,
        scheduler: Scheduler[Any],
        more: Callable[[Progress], JobRecord | None] | None = None,
    ) -> None:
        self.record = record
        self._more = more
        self.store = store
        self.scheduler = scheduler
        self.ended = False
        self.trouble: Exception | None = None
        self.headers: dict[int, Header] = {}
        self.arrived: dict[int, int] = {}
        self.not_before = 0.0
        self._statuses: dict[str, AppStatus | None] = {}
        self._replicas: dict[int, ReplicaStatus] = {}
        self._describe_after: dict[str, float] = {}
        self._lock = threading.RLock()
        self._listeners: list[Callable[[], None]] = []
        self._stopped = False

    @property
    def is_array(self) -> bool:
        """Whether the job is a map."""
        return self.record.kind == "array"

    def listen(self, listener: Callable[[], None]) -> None:
        """Have something called after each look, until the job has ended."""
        with self._lock:
            if listener not in self._listeners:
                self._listeners.append(listener)

    def ignore(self, listener: Callable[[], None]) -> None:
        """Call something no more."""
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)

    @property
    def wanted(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    def refresh(self, statuses: Statuses | None = None) -> None:
        """Look at the store, and at the scheduler where the store does not tell enough.

        Args:
            statuses: what the scheduler says, where it was asked already.

        Raises:
            StoreError: the store does not answer.
        """
        with self._lock:
            if self.ended:
                return
            began = time.monotonic()
            if self.is_array:
                self._look_at_array(statuses)
            else:
                self._look_at_few(statuses)
            now = time.monotonic()
            self.not_before = now + min(_SHARE * (now - began), _LONGEST_PAUSE)
            self.trouble = None

    def look(self, statuses: Statuses | None = None) -> None:
        """Refresh, and tell the listeners; who does not answer is asked again later."""
        try:
            self.refresh(statuses)
        except Exception as error:  # noqa: BLE001 — one job's trouble is not that of all watched
            self.trouble = error
            return
        for listener in list(self._listeners):
            listener()

    def state(self) -> AppState:
        """Return the job's state as of the last look."""
        states = {self.app_state(app) for app in self.record.apps}
        if len(states) == 1:
            return states.pop()
        for state in (AppState.RUNNING, AppState.PENDING, AppState.SUBMITTED):
            if state in states:
                return state
        for state in (AppState.FAILED, AppState.CANCELLED, AppState.EXPIRED):
            if state in states:
                return state
        return AppState.UNKNOWN

    def app_state(self, app: AppPart) -> AppState:
        """Return the state of one of the job's apps."""
        if self._all_well(app):
            return AppState.SUCCEEDED
        status = self._statuses.get(app.app_id)
        if status is not None and status.is_terminal():
            return status.state
        if self.ended and self._headers_of(app):
            return AppState.FAILED
        if status is None:
            return AppState.EXPIRED if self.ended else AppState.UNSUBMITTED
        return status.state

    def status(self, app: AppPart) -> AppStatus | None:
        """Return what the scheduler said last; asks it again unless that was its last word.

        A result may arrive before its process has ended.
        """
        status = self._statuses.get(app.app_id)
        if status is None or (self.ended and not status.is_terminal()):
            with self._lock:
                self._ask()
        return self._statuses.get(app.app_id)

    def replica(self, child: int) -> ReplicaStatus | None:
        """Return what the scheduler knows of one child; asks for more where it only counted."""
        app, _ = self.record.app_of(child)
        status = self.status(app)
        self._note(app, status)
        known = self._replicas.get(child)
        if known is None or (not is_terminal(known.state) and _is_counted(status)):
            self._describe(app)
        return self._replicas.get(child)

    def _describe(self, app: AppPart) -> None:
        """Ask for an app's processes one by one; not again before it may have changed much."""
        began = time.monotonic()
        if began < self._describe_after.get(app.app_id, 0.0):
            return
        described = self.scheduler.describe(app.app_id)
        if described is not None:
            self._note(app, described.to_status())
        now = time.monotonic()
        pause = max(self.scheduler.poll_seconds, min(_SHARE * (now - began), _LONGEST_PAUSE))
        self._describe_after[app.app_id] = now + pause

    def child_state(self, child: int) -> AppState:
        """Return one child's state."""
        header = self.headers.get(child)
        if header is None and child in self.arrived:
            header = self._peek(child)
            if header is not None:
                self.headers[child] = header
        if header is not None and outcome.Answer(header, []).ok:
            return AppState.SUCCEEDED
        if header is not None and self.final(child, header):
            return AppState.FAILED
        status = self._statuses.get(self.record.app_of(child)[0].app_id)
        replica = self._replicas.get(child)
        if replica is None and status is None:
            return AppState.EXPIRED if self.ended else AppState.UNSUBMITTED
        if _is_counted(status):
            replica = self.replica(child)
        elif replica is None and status is not None:
            return status.state
        return AppState.UNKNOWN if replica is None else replica.state

    def child_ended(self, child: int) -> bool:
        """Tell whether nothing will change any more about one child."""
        if self.ended:
            return True
        header = self.headers.get(child)
        if header is not None:
            return self.final(child, header)
        if child in self.arrived and self._first_is_final:
            return True
        replica = self._replicas.get(child)
        return replica is not None and is_terminal(replica.state)

    @property
    def _first_is_final(self) -> bool:
        """Whether what leaves an outcome is not run again: AWS retries what lost its host."""
        record = self.record
        on_aws = record.environment == "aws_batch" and not record.retry_exceptions
        return on_aws or not record.retries

    def final(self, child: int, header: Header) -> bool:
        """Tell whether an outcome is the last one of its child: no retry comes after it."""
        if outcome.Answer(header, []).ok or self._first_is_final or self.ended:
            return True
        if header.get("exit") == _EXCEPTION_CODE and not self.record.retry_exceptions:
            return True
        if header.get("attempt", 1) > self.record.retries:
            return True
        replica = self._replicas.get(child)
        return replica is not None and is_terminal(replica.state)

    def counts(self) -> Counter[AppState]:
        """Count the children in each state, by what the scheduler says."""
        counts: Counter[AppState] = Counter()
        for app in self.record.apps:
            status = self._statuses.get(app.app_id)
            known = status.counts() if status is not None else {}
            counts.update(known)
            rest = app.children - sum(known.values())
            if rest > 0:
                counts[AppState.UNSUBMITTED if status is None else status.state] += rest
        return counts

    def fetch(self, child: int) -> outcome.Answer | None:
        """Read one child's outcome whole; ``None`` when there is none.

        Raises:
            CorruptObjectError: it is not what was stored.
        """
        app, _ = self.record.app_of(child)
        answer = outcome.fetch(self.store, app.job, child)
        if answer is not None:
            self.headers[child] = answer.header
        return answer

    def key(self, child: int) -> str:
        """Return the key of one child's outcome."""
        return out_key(self.record.app_of(child)[0].job, child)

    def stop_rest(self, reason: str) -> None:
        """End what still runs, once."""
        if not self._stopped:
            self._stopped = True
            for app in self.record.apps:
                self.scheduler.cancel(app.app_id, reason)

    def _look_at_few(self, statuses: Statuses | None) -> None:
        self._peek_missing()
        if self._few_have_answered():
            self._conclude()
            return
        self._ask(statuses)
        if self._over():
            self._peek_missing()
            self._conclude()

    def _conclude(self) -> None:
        """Take note of the end, unless there is more memory to go on with."""
        following = self._more(self) if self._more is not None else None
        if following is None:
            self.ended = True
            return
        self.record = following
        for known in (self.headers, self.arrived, self._statuses, self._replicas):
            known.clear()

    def earlier_attempts(self, child: int) -> list[AttemptStatus]:
        """Return the attempts that a child made with less memory, oldest first."""
        found: list[AttemptStatus] = []
        for app in self.record.earlier:
            described = self.scheduler.describe(app.app_id)
            for role in described.to_status().roles if described is not None else ():
                for replica in role.replicas:
                    if replica.id == child:
                        found += replica.attempts
        return found

    def _peek_missing(self) -> None:
        for child in range(self.record.children):
            header = self.headers.get(child)
            if header is None or not outcome.Answer(header, []).ok:
                found = self._peek(child)
                if found is not None:
                    self.headers[child] = found

    def _few_have_answered(self) -> bool:
        return len(self.headers) == self.record.children and all(
            self.final(child, header) for child, header in self.headers.items()
        )

    def _look_at_array(self, statuses: Statuses | None) -> None:
        self._ask(statuses)
        over = self._over()
        self._list()
        for app in self.record.apps:
            self._look_for_silent_ends(app)
        everything = len(self.arrived) == self.record.children and self._first_is_final
        self.ended = over or everything
        most = self.record.max_failures
        if most is not None and not self.ended:
            failed = self.counts()[AppState.FAILED]
            if failed > most:
                self.stop_rest(
                    f"stopped: {failed} children have failed, and max_failures is {most}"
                )

    def _look_for_silent_ends(self, app: AppPart) -> None:
        """Ask which children have ended without an outcome, where the counts say that some have."""
        status = self._statuses.get(app.app_id)
        if status is None or not _is_counted(status):
            return
        ended = sum(count for state, count in status.counts().items() if is_terminal(state))
        children = range(app.first, app.first + app.children)
        if ended > sum(child in self.arrived or self._has_stopped(child) for child in children):
            self._describe(app)

    def _has_stopped(self, child: int) -> bool:
        replica = self._replicas.get(child)
        return replica is not None and is_terminal(replica.state)

    def _list(self) -> None:
        for app in self.record.apps:
            prefix = out_key(app.job, 0)[:-1]
            for info in self.store.list(prefix):
                name = info.key[len(prefix) :]
                if name.isdigit():
                    self.arrived[int(name)] = info.size

    def _ask(self, statuses: Statuses | None = None) -> None:
        wanted = [app.app_id for app in self.record.apps]
        told = self.scheduler.statuses(wanted) if statuses is None else statuses
        for app in self.record.apps:
            status = told.get(app.app_id)
            self._statuses[app.app_id] = status
            self._note(app, status)

    def _note(self, app: AppPart, status: AppStatus | None) -> None:
        for role in status.roles if status is not None else ():
            for replica in role.replicas:
                self._replicas[app.first + replica.id] = replica

    def _over(self) -> bool:
        """Tell whether every app has ended, or is not known to its scheduler any more."""
        states = [self._statuses.get(app.app_id) for app in self.record.apps]
        return all(self._is_gone() if s is None else s.is_terminal() for s in states)

    def _is_gone(self) -> bool:
        """Tell whether what is not known was forgotten, and is not about to be started."""
        if time.time() - self.record.created > _ON_ITS_WAY:
            return True
        return not records.is_at_work(self.record.client)

    def _all_well(self, app: AppPart) -> bool:
        if self.is_array:
            status = self._statuses.get(app.app_id)
            return status is not None and status.state is AppState.SUCCEEDED
        headers = self._headers_of(app)
        return bool(headers) and all(outcome.Answer(header, []).ok for header in headers)

    def _headers_of(self, app: AppPart) -> list[Header]:
        children = range(app.first, app.first + app.children)
        found = [self.headers[child] for child in children if child in self.headers]
        return found if len(found) == app.children else []

    def _peek(self, child: int) -> Header | None:
        return outcome.peek(self.store, self.key(child))


def _is_counted(status: AppStatus | None) -> bool:
    """Tell whether a scheduler has only counted an app's processes."""
    return status is not None and bool(status.roles) and bool(status.roles[0].counted)
