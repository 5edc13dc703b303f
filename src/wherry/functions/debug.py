"""Calls in this very process, one after the other: breakpoints, `pdb` and profilers work."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from wherry.errors import StateError, UnknownAppError, UnknownNameError
from wherry.functions import records
from wherry.functions.array import ArrayJob, ChildJob, GangJob
from wherry.functions.executor import Executor
from wherry.functions.handle import ROLE, Job
from wherry.functions.outcome import Outcome
from wherry.functions.submission import job_name
from wherry.specs.diagnosis import Diagnosis, Finding
from wherry.specs.states import AppState
from wherry.specs.status import AppStatus, AttemptStatus, ReplicaStatus, RoleStatus

if TYPE_CHECKING:
    from wherry.functions.options import Options
    from wherry.functions.records import JobRecord
    from wherry.schedulers.api import Scheduler

_NOT_HERE = ("timeout", "retries", "deps", "inputs", "outputs", "env", "memory")


class DebugExecutor(Executor):
    """Runs each call right here, when it is submitted; nothing is pickled, stored or recorded.

    Args:
        session, options: see `Executor`; limits, deps and files are not honoured, with a warning.
    """

    environment = "debug"
    backend = "debug"
    in_place = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._jobs: dict[str, Job] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run ``fn(*args, **kwargs)`` now; returns its job, which has ended."""
        self._require_open()
        self.check(self._defaults)
        nodes = self._defaults.nodes
        calls = [_called(fn, args, kwargs) for _ in range(nodes)]
        return self._kept("gang" if nodes > 1 else "single", fn, calls)

    def map_array(
        self,
        fn: Callable[..., Any],
        /,
        *iterables: Iterable[Any],
        chunksize: int = 1,
        max_failures: int | None = None,
    ) -> ArrayJob:
        """Run ``fn`` for each item now; returns the job, which has ended."""
        del chunksize
        self._require_open()
        self.check(self._defaults)
        calls: list[_Ended] = []
        for args in zip(*iterables, strict=False):
            failed = sum(call.error is not None for call in calls)
            if max_failures is not None and failed > max_failures:
                calls.append(_Ended(cancelled=True))
            else:
                calls.append(_called(fn, args, {}))
        made: ArrayJob = self._kept("array", fn, calls)
        return made

    def look_up(self, job: str) -> Any:
        """Return the job with this id."""
        return self.attach(job)

    def attach(self, job: str) -> Any:
        """Return the job with this id, of this executor."""
        whole, _, number = job.partition(":")
        if whole not in self._jobs:
            raise UnknownAppError(
                f"there is no job {job!r} here; those of a DebugExecutor end with their process"
            )
        found: Any = self._jobs[whole]
        return found[int(number)] if number else found

    def jobs(
        self, kind: str | None = None, status: Any = None, since: float | None = None
    ) -> Iterator[Job]:
        """Give the jobs that were submitted here, newest first."""
        from wherry.functions.kinds import checked_kind, wanted_states

        checked_kind(kind)
        wanted = wanted_states(status)
        for job in reversed(list(self._jobs.values())):
            right_kind = kind in (None, job.kind)
            right_state = not wanted or job.status in wanted
            if right_kind and right_state and (since is None or job.created >= since):
                yield job

    def check(self, options: Options) -> None:
        """Warn of options that mean nothing here."""
        plain = type(options)()
        for name in _NOT_HERE:
            if getattr(options, name) != getattr(plain, name):
                warnings.warn(
                    f"DebugExecutor runs the call in this process and does not honour {name}=",
                    RuntimeWarning,
                    stacklevel=4,
                )

    def make_scheduler(self) -> Scheduler[Any]:
        """Refuse: nothing here needs one."""
        raise StateError("a DebugExecutor has no scheduler; use a LocalExecutor to run apps")

    def delete(self, record: JobRecord) -> None:
        """Forget a job."""
        self._jobs.pop(record.id, None)

    def rerun(
        self,
        record: JobRecord,
        indices: Sequence[int] | None = None,
        memory: float | None = None,
    ) -> Any:
        """Refuse: a call is not kept.

        Raises:
            StateError: always.
        """
        del indices, memory
        raise StateError(f"{record.id} ran in this process and was not kept; submit it again")

    def provider_id(self, app_id: str, part: int | None) -> str:
        """Return this process's id."""
        import os

        del app_id, part
        return str(os.getpid())

    def _kept(self, kind: str, fn: Any, calls: list[_Ended]) -> Any:
        record = _record(kind, job_name(fn, self._defaults), calls, self)
        told: Any = _Told(record, calls)
        cls = {"single": _DebugJob, "array": _DebugArray, "gang": _DebugGang}[kind]
        job = cls(self, told)
        job.settle()
        self._jobs[record.id] = job
        return job


class _Ended:
    """What came of one call."""

    def __init__(self, *, cancelled: bool = False) -> None:
        self.value: Any = None
        self.error: BaseException | None = None
        self.warnings: list[dict[str, Any]] = []
        self.began = self.ended = time.time()
        self.cpu = 0.0
        self.cancelled = cancelled
        if cancelled:
            from wherry.functions.failures import JobCancelledError

            self.error = JobCancelledError("stopped: too many items have failed")

    @property
    def state(self) -> AppState:
        """How it ended."""
        if self.cancelled:
            return AppState.CANCELLED
        return AppState.SUCCEEDED if self.error is None else AppState.FAILED


def _called(fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> _Ended:
    """Call the function; `KeyboardInterrupt` and a debugger's quit are the user's."""
    ended = _Ended()
    cpu = time.process_time()
    try:
        ended.value = fn(*args, **kwargs)
    except (Exception, SystemExit) as error:
        if type(error).__name__ == "BdbQuit":
            raise
        ended.error = error
    ended.ended, ended.cpu = time.time(), time.process_time() - cpu
    return ended


class _Told:
    """What is known of a job that ran here: everything, from the beginning."""

    def __init__(self, record: JobRecord, calls: list[_Ended]) -> None:
        self.record = record
        self.calls = calls
        self.ended = True
        self.trouble = None
        self.headers: dict[int, Any] = {}

    def state(self) -> AppState:
        """Return the job's state."""
        states = {call.state for call in self.calls}
        for state in (AppState.FAILED, AppState.CANCELLED):
            if state in states:
                return state
        return AppState.SUCCEEDED

    def child_state(self, child: int) -> AppState:
        """Return one call's state."""
        return self.calls[child].state

    def child_ended(self, child: int) -> bool:
        """Tell that it has ended."""
        del child
        return True

    def replica(self, child: int) -> ReplicaStatus:
        """Return what a scheduler would know."""
        call = self.calls[child]
        reason = "" if call.error is None else f"{type(call.error).__name__}: {call.error}"
        attempt = AttemptStatus(
            number=1,
            state=call.state,
            exit_code=0 if call.error is None else 1,
            reason=reason,
            started_at=call.began,
            ended_at=call.ended,
        )
        return ReplicaStatus(child, call.state, ROLE, reason=reason, attempts=(attempt,))

    def status(self, app: object) -> AppStatus:
        """Return what a scheduler would say."""
        del app
        replicas = tuple(self.replica(child) for child in range(len(self.calls)))
        reason = next((replica.reason for replica in replicas if replica.reason), "")
        return AppStatus(self.state(), msg=reason, roles=(RoleStatus(ROLE, replicas),))

    def counts(self) -> dict[AppState, int]:
        """Count the calls in each state."""
        return self.status(None).counts()

    def ignore(self, listener: object) -> None:
        """Nobody listens to what has ended."""
        del listener


class _Here(Job):
    """What differs of a handle when all is known already."""

    def _look(self, *, fresh: bool = False) -> None:
        del fresh

    def _calls(self) -> list[_Ended]:
        told: Any = self._progress
        calls: list[_Ended] = told.calls
        return calls

    def _is_well(self) -> bool:
        if self._child is None:
            return all(call.error is None for call in self._calls())
        return self._calls()[self._child].error is None

    def _was_cancelled(self) -> bool:
        return self._child is not None and self._calls()[self._child].cancelled

    def _fetched(self) -> BaseException | None:
        call = self._calls()[self._process]
        self._value = call.value
        return call.error

    def outcome(self, timeout: float | None = None) -> Outcome:
        """Return all that came of it."""
        del timeout
        call = self._calls()[self._process]
        wall = call.ended - call.began
        return Outcome(value=call.value, error=call.error, wall=wall, cpu=call.cpu)

    @property
    def raw_status(self) -> str:
        """Its state."""
        return self.status.name

    def why(self) -> Diagnosis:
        """Say why it is in its state."""
        found = (Finding("exception", self.status_reason),) if self.status_reason else ()
        return Diagnosis(self.id, self.status, findings=found)

    def log(self, **_: Any) -> Any:
        """Refuse: the output went to this process's own.

        Raises:
            UnknownNameError: always.
        """
        raise UnknownNameError(f"{self.id} ran in this process; see this one's output")


class _DebugJob(_Here):
    """A single call."""


class _DebugChild(_Here, ChildJob):
    """One call of several."""


class _DebugArray(_Here, ArrayJob):
    """A map."""

    def _failed_numbers(self) -> list[int]:
        return [n for n, call in enumerate(self._calls()) if call.error is not None]

    def _fetched(self) -> BaseException | None:
        return self.exception()

    def results(
        self, *, return_exceptions: bool = False, timeout: float | None = None
    ) -> Iterator[Any]:
        """Give the values in the order of the items."""
        del timeout
        for call in self._calls():
            if call.error is not None and not return_exceptions:
                raise call.error
            yield call.value if call.error is None else call.error

    def as_completed(self, timeout: float | None = None) -> Iterator[ChildJob]:
        """Give the items; all have ended."""
        del timeout
        yield from self

    def _made(self, number: int) -> ChildJob:
        child = _DebugChild(self._executor, self._progress, number, 0, number)
        child.settle()
        return child


class _DebugGang(_Here, GangJob):
    """A gang, whose nodes ran one after the other."""

    def _failed_numbers(self) -> list[int]:
        return [n for n, call in enumerate(self._calls()) if call.error is not None]

    def _made(self, number: int) -> ChildJob:
        child = _DebugChild(self._executor, self._progress, number, 0, number)
        child.settle()
        return child


def _record(kind: str, name: str, calls: list[_Ended], executor: DebugExecutor) -> JobRecord:
    job = records.make_id(name)
    return records.JobRecord(
        id=job,
        kind=kind,
        name=name,
        created=time.time(),
        environment=executor.environment,
        settings={},
        store="",
        scheduler=executor.backend,
        session=executor.session,
        cfg={},
        apps=(records.AppPart(job, 0, len(calls), {}, job),),
        count=len(calls),
    )
