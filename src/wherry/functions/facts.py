"""What can be said of a job without waiting for it: names, states, attempts, log."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wherry.errors import StateError
from wherry.specs.states import AppState, is_terminal

if TYPE_CHECKING:
    from wherry.functions.executor import Executor
    from wherry.functions.progress import Progress
    from wherry.functions.records import AppPart, JobRecord
    from wherry.schedulers.api import Stream
    from wherry.specs.diagnosis import Diagnosis
    from wherry.specs.status import AttemptStatus, ReplicaStatus

ROLE = "call"
"""The name of the role that a call's processes have."""


class Facts:
    """What is known of a job or of one part of it; `Job` adds waiting for the value."""

    _executor: Executor
    _progress: Progress
    _child: int | None

    if TYPE_CHECKING:

        def done(self) -> bool:
            """Tell whether it has ended."""

        def _look(self, *, fresh: bool = False) -> None: ...

        def _shown_state(self) -> str: ...

    @property
    def record(self) -> JobRecord:
        """What was submitted."""
        return self._progress.record

    @property
    def id(self) -> str:
        """Its id; `Executor.attach` and `wherry result` take it."""
        return self.record.id if self._child is None else f"{self.record.id}:{self.number}"

    @property
    def number(self) -> int:
        """Its place among the parts of its job; 0 for a job of one."""
        return self._child or 0

    @property
    def kind(self) -> str:
        """What it is: single, array, child, gang or node."""
        if self._child is None:
            return self.record.kind
        return {"array": "child", "gang": "node"}.get(self.record.kind, self.record.kind)

    @property
    def name(self) -> str:
        """Its name."""
        return self.record.name

    @property
    def environment(self) -> str:
        """The kind of its executor, such as ``local``."""
        return self.record.environment

    @property
    def executor(self) -> Executor:
        """Where it runs."""
        return self._executor

    @property
    def handle(self) -> str:
        """The handle of its app, for every `wherry` command."""
        return self.record.handles[0]

    @property
    def provider_id(self) -> str:
        """What the provider calls it."""
        app, index = self.record.app_of(self._process)
        part = index if self._child is not None else None
        return self._executor.provider_id(app.app_id, part)

    @property
    def created(self) -> float:
        """When it was submitted, in seconds since the epoch."""
        return self.record.created

    @property
    def phase(self) -> str:
        """What it did when it was last heard of: fetching, installing, running or storing.

        Empty before the first word, which comes after a second, and for jobs of this machine.
        """
        import json

        from wherry.errors import MissingObjectError
        from wherry.worker.formats import beat_key

        key = beat_key(self.record.app_of(self._process)[0].job, self._process)
        try:
            found: str = json.loads(self._progress.store.read(key)).get("phase", "")
        except MissingObjectError:
            return ""
        return found

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of its input files."""
        return self.record.inputs

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.environment} {self._shown_state()}>"

    @property
    def status(self) -> AppState:
        """Its state."""
        self._look()
        if self._child is None:
            return self._progress.state()
        return self._progress.child_state(self._child)

    @property
    def in_progress(self) -> bool:
        """Whether it has not ended.

        Raises:
            WherryError: that cannot be told at present (`succeeded` and `failed` raise it too).
        """
        return not is_terminal(self._sure_state())

    @property
    def succeeded(self) -> bool:
        """Whether it has ended with a value."""
        return self._sure_state() is AppState.SUCCEEDED

    @property
    def failed(self) -> bool:
        """Whether it has ended without one: failed, cancelled or forgotten."""
        state = self._sure_state()
        return is_terminal(state) and state is not AppState.SUCCEEDED

    def _sure_state(self) -> AppState:
        state = self.status
        trouble = self._progress.trouble
        if trouble is not None and not is_terminal(state):
            raise trouble
        if state is AppState.UNKNOWN:
            raise StateError(f"the state of {self.id} is not known; `job.why()` may say more")
        return state

    @property
    def raw_status(self) -> str:
        """The provider's word for its state; Wherry's where it has none."""
        described = self._executor.scheduler.describe(self._app_id)
        state = self.status.name
        return (described.raw_state if described is not None else None) or state

    @property
    def status_reason(self) -> str:
        """Why it is in this state, in words; empty where there is nothing to say."""
        self._look()
        replica = self._replica()
        if self._child is not None and replica is not None:
            return replica.reason
        status = self._progress.status(self.record.app_of(self._process)[0])
        return (status.msg if status is not None else "") or (replica.reason if replica else "")

    @property
    def exit_code(self) -> int | None:
        """Its process's exit code; ``None`` while it runs, and when a signal ended it."""
        self._look()
        replica = self._replica()
        if replica is not None and is_terminal(replica.state):
            return replica.exit_code
        header = self._progress.headers.get(self._process)
        return header.get("exit") if header is not None and self.done() else None

    @property
    def attempts(self) -> tuple[AttemptStatus, ...]:
        """Its attempts, oldest first."""
        self._look(fresh=True)
        replica = self._replica()
        latest = replica.attempts if replica is not None else ()
        if not self.record.earlier:
            return latest
        found = (*self._progress.earlier_attempts(self._process), *latest)
        return tuple(replace(attempt, number=n) for n, attempt in enumerate(found, 1))

    def why(self) -> Diagnosis:
        """Say why it is in its state: causes, most likely first, and what to do.

        Raises:
            UnknownAppError: its scheduler has no record of it.
        """
        return self._executor.scheduler.why(self._app_id)

    def log(
        self, *, follow: bool = False, stream: Stream | None = None, attempt: int | None = None
    ) -> Any:
        """Return what it has written, as text; with ``follow``, its lines as they are written.

        Args:
            follow: iterate over the lines until its end.
            stream: stdout or stderr; both together when ``None``.
            attempt: only of this attempt, from 1.

        Raises:
            UnknownAppError: its scheduler has no record of it.
        """
        app, index = self.record.app_of(self._process)
        apps = [app]
        if self.record.earlier and not follow:
            if attempt is None:
                apps = [*self.record.earlier, app]
            else:
                app, attempt = self._attempt_of(attempt)
                apps = [app]
        scheduler = self._executor.scheduler
        logs = (
            scheduler.log_iter(
                one.app_id, ROLE, index, should_tail=follow, streams=stream, attempt=attempt
            )
            for one in apps
        )
        lines: Iterator[str] = itertools.chain.from_iterable(logs)
        return lines if follow else "".join(lines)

    def _attempt_of(self, number: int) -> tuple[AppPart, int]:
        """Return the app that made an attempt, and its number there."""
        app, _ = self.record.app_of(self._process)
        for earlier in self.record.earlier:
            described = self._executor.scheduler.describe(earlier.app_id)
            replicas = described.to_status().roles[0].replicas if described is not None else ()
            made = next((len(r.attempts) for r in replicas if r.id == self._process), 0)
            if number <= made:
                return earlier, number
            number -= made
        return app, number

    @property
    def _process(self) -> int:
        """The number of its process."""
        return self._child or 0

    @property
    def _app_id(self) -> str:
        return self.record.app_of(self._process)[0].app_id

    def _replica(self) -> ReplicaStatus | None:
        return self._progress.replica(self._process)
