"""One call that was submitted: a future that outlives the process which submitted it."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wherry.errors import MissingObjectError, ResultError, StateError, UnknownNameError
from wherry.functions import failures
from wherry.functions.facts import ROLE, Facts
from wherry.functions.files import Outputs
from wherry.functions.outcome import Answer, Outcome
from wherry.functions.watcher import watcher
from wherry.specs.states import AppState, is_terminal

if TYPE_CHECKING:
    from wherry.functions.executor import Executor
    from wherry.functions.progress import Progress

_LOOK_AGAIN = 5.0
_PATIENCE = 20.0
_UNSET: Any = object()


class _Waiters(list[Any]):
    """Those who wait for a future; the first one sets the watcher on it."""

    def __init__(self, on_first: Callable[[], None]) -> None:
        super().__init__()
        self._on_first = on_first

    def append(self, waiter: Any) -> None:
        """Add one."""
        super().append(waiter)
        self._on_first()


class Job(Facts, concurrent.futures.Future[Any]):
    """A call that was submitted, in this process or another, or one part of such.

    It is a `concurrent.futures.Future`: ``wait`` and ``as_completed`` take it, and ``await job``
    works. Unlike other futures it lives on when its process ends; `Executor.attach` makes it again
    from its `id`.

    Args:
        executor: where it runs.
        progress: what is known of it.
        child: which process of it this is the handle of; the whole when ``None``.
        item: which of that process's items.
    """

    def __init__(
        self,
        executor: Executor,
        progress: Progress,
        child: int | None = None,
        item: int = 0,
    ) -> None:
        super().__init__()
        self._executor = executor
        self._progress = progress
        self._child = child
        self._item = item
        self._value: Any = _UNSET
        self._error: BaseException | None = None
        self._settling = threading.RLock()
        self._waiters: Any = _Waiters(self._watch)
        self._looked = 0.0

    # -- the future -------------------------------------------------------------------------------

    def done(self) -> bool:
        """Tell whether it has ended."""
        if not super().done():
            self._look()
        return super().done()

    def running(self) -> bool:
        """Tell whether it runs at present."""
        return not self.done() and self.status is AppState.RUNNING

    def cancelled(self) -> bool:
        """Tell whether somebody ended it."""
        self._look()
        return super().cancelled()

    def cancel(self, reason: str = "") -> bool:
        """End it; tells whether it has not ended by itself already.

        Args:
            reason: kept with its status.
        """
        if self.done():
            return False
        self._cancel(reason or "cancelled by its client")
        return True

    def result(self, timeout: float | None = None) -> Any:
        """Wait for its end and return its value.

        Args:
            timeout: seconds; for ever when ``None``.

        Raises:
            BaseException: what the function raised, as it raised it, with the remote traceback
                as its cause; or why there is no value (see `wherry.errors.JobError`).
            TimeoutError: it has not ended in time; it goes on.
        """
        self._block(timeout)
        error = self._settled_error()
        if error is not None:
            try:
                raise error
            finally:
                del error  # The exception's traceback has this frame.
        return self._value

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for its end and return what `result` would raise; ``None`` when it has a value.

        Raises:
            CancelledError: somebody ended it (as with other futures, this one is raised).
            TimeoutError: it has not ended in time; it goes on.
        """
        self._block(timeout)
        error = self._settled_error()
        if isinstance(error, concurrent.futures.CancelledError):
            raise error
        return error

    def outcome(self, timeout: float | None = None) -> Outcome:
        """Wait for its end and return all that came of it, raising nothing of the function's.

        Args:
            timeout: seconds; for ever when ``None``.
        """
        self._block(timeout)
        answer = self._answer()
        if answer is None or self._was_cancelled():
            return Outcome(error=self._settled_error(), stdout=self._tail())
        found = answer.outcome(self._item)
        if self.record.earlier:
            before = len(self._progress.earlier_attempts(self._process))
            found = replace(found, attempt=before + found.attempt)
        return found

    def add_done_callback(self, fn: Callable[[Any], object]) -> None:
        """Have something called with this job when it has ended; see `concurrent.futures`."""
        super().add_done_callback(fn)
        if not super().done():
            self._watch()

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait for its value without blocking the event loop."""
        return self._awaited().__await__()

    async def _awaited(self) -> Any:
        import asyncio

        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def tell(_: object) -> None:
            loop.call_soon_threadsafe(finish)

        def finish() -> None:
            if not ended.done():
                ended.set_result(None)

        self.add_done_callback(tell)
        await ended
        return await loop.run_in_executor(None, self.result)

    def watch(self) -> None:
        """Have somebody look at it from now on, so that `done` callbacks and limits hold."""
        self._watch()

    # -- afterwards -------------------------------------------------------------------------------

    @property
    def outputs(self) -> Outputs:
        """Its output files, by name; waits for its end."""
        self._block(None)
        header = self._progress.headers.get(self._process)
        if header is None:
            answer = self._answer()
            header = answer.header if answer is not None else {}
        job = self.record.app_of(self._process)[0].job
        return Outputs(self._progress.store, job, self._process, header.get("outputs", {}))

    def rerun(self) -> Any:
        """Submit the same call again; returns the new job."""
        return self._executor.rerun(self.record)

    def delete(self) -> None:
        """Remove its objects and records; functions and arguments that others share stay.

        Raises:
            StateError: it has not ended.
        """
        if not self.done():
            raise StateError(f"{self.id} has not ended; cancel it first")
        self._executor.delete(self.record)

    # -- within the room --------------------------------------------------------------------------

    def _cancel(self, reason: str) -> None:
        for app in self.record.apps:
            self._executor.scheduler.cancel(app.app_id, reason)
        self._look(fresh=True)

    def _shown_state(self) -> str:
        if super().done():
            return "ended"
        return str(self._progress.state())

    def _watch(self) -> None:
        if not super().done():
            self._progress.listen(self.settle)
            watcher().watch(self._progress)

    def _look(self, *, fresh: bool = False) -> None:
        """Refresh what is known, unless it has just been."""
        if super().done() and not fresh:
            return
        now = time.monotonic()
        pace = self._executor.scheduler.poll_seconds if self._executor.scheduler.remote else 0.0
        due = now >= self._progress.not_before and now >= self._looked + pace
        if fresh or due or self._progress.ended:
            self._looked = now
            self._progress.refresh()
            self.settle()

    def _block(self, timeout: float | None) -> None:
        """Wait for the end.

        Raises:
            TimeoutError: of `concurrent.futures`.
        """
        if super().done():
            return
        self._look()
        deadline = None if timeout is None else time.monotonic() + timeout
        troubled = 0.0
        while not super().done():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise concurrent.futures.TimeoutError(
                    f"{self.id} had not ended after {timeout:g} seconds and goes on; "
                    "`job.result()` waits again, `job.cancel()` ends it"
                )
            self._pause(_LOOK_AGAIN if left is None else min(left, _LOOK_AGAIN))
            trouble = self._progress.trouble
            troubled = (troubled or time.monotonic()) if trouble is not None else 0.0
            if trouble is not None and time.monotonic() - troubled > _PATIENCE:
                raise trouble

    def _pause(self, seconds: float) -> None:
        if watcher().is_here:
            # A callback of one job waits for another: nobody else would look.
            self._executor.scheduler.wait_for_change(self._app_id, seconds)
            self._look(fresh=True)
            return
        self._watch()
        with self._condition:
            if not concurrent.futures.Future.done(self):
                self._condition.wait(seconds)

    def settle(self) -> None:
        """Complete the future, once, if the job has ended."""
        with self._settling:
            if super().done() or not self._has_ended():
                return
            self._progress.ignore(self.settle)
            if self._was_cancelled():
                super().cancel()
                self.set_running_or_notify_cancel()
            elif self._is_well():
                self.set_result(None)
            else:
                self.set_exception(failures.placeholder())

    def _has_ended(self) -> bool:
        if self._child is None:
            return self._progress.ended
        return self._progress.child_ended(self._child)

    def _is_well(self) -> bool:
        header = self._progress.headers.get(self._process)
        if header is None and self._child is not None:
            answer = self._progress.fetch(self._child)
            header = answer.header if answer is not None else None
        return header is not None and Answer(header, []).error_of(self._item) is None

    def _was_cancelled(self) -> bool:
        if self._progress.headers.get(self._process) is not None and self._is_well():
            return False
        replica = self._replica()
        if replica is not None and is_terminal(replica.state):
            return replica.state is AppState.CANCELLED
        return self._progress.state() is AppState.CANCELLED

    def _settled_error(self) -> BaseException | None:
        """Return why there is no value; the value is fetched now, and kept."""
        with self._settling:
            if self._value is _UNSET and self._error is None:
                self._error = self._fetched()
            return self._error

    def _fetched(self) -> BaseException | None:
        """Fetch the value; return why there is none."""
        if self._was_cancelled():
            return failures.JobCancelledError(f"job {self.id}: {self.status_reason or 'cancelled'}")
        answer = self._answer()
        if answer is None:
            return self._without_answer()
        error = answer.error(self._item)
        if error is None:
            try:
                self._value = answer.value(self._item)
            except ResultError as cannot:
                return cannot
        return error

    def _answer(self) -> Answer | None:
        return self._progress.fetch(self._process)

    def _without_answer(self) -> BaseException:
        """Say why a job that has ended left nothing in the store."""
        if self._process in self._progress.headers or self._process in self._progress.arrived:
            return MissingObjectError(
                f"the outcome of {self.id} was there and is gone: "
                f"{self._progress.store.url}/{self._progress.key(self._process)}; "
                "run the job again (`job.rerun()`)"
            )
        replica = self._replica()
        status = self._progress.status(self.record.app_of(self._process)[0])
        state = replica.state if replica is not None else self._progress.state()
        if status is None:
            state = AppState.EXPIRED
        why = status.msg if status is not None else ""
        role: Any = self.record.app_of(self._process)[0].plain["roles"][0]
        limit = int(role.get("resource", {}).get("memMB", 0) or 0)
        return failures.of_replica(replica, state, why, self.id, self._cause(state), limit)

    def _cause(self, state: AppState) -> str:
        """Return the code of the most likely cause, where asking for it says more."""
        if state is not AppState.FAILED or not self._executor.scheduler.remote:
            return ""
        found = self.why().cause
        return found.code if found is not None else ""

    def _tail(self) -> str:
        from wherry.errors import UnknownAppError

        try:
            text: str = self.log()
        except (UnknownAppError, UnknownNameError):
            return ""
        return text[-(1 << 20) :]


__all__ = ["ROLE", "Job"]
