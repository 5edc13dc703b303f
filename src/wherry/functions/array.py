"""A map that was submitted as one job, and its parts: counts, results in order, reruns."""

from __future__ import annotations

import concurrent.futures
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload
from weakref import WeakValueDictionary

from wherry.errors import ResultError, StateError
from wherry.functions import outcome
from wherry.functions.handle import Job
from wherry.specs.states import AppState

if TYPE_CHECKING:
    from collections.abc import Callable

    from wherry.functions.executor import Executor
    from wherry.functions.progress import Progress

_WINDOW = 64
_WINDOW_BYTES = 64 << 20
_LOOK_AGAIN = 5.0


class ChildJob(Job):
    """One item of a map, or one node of a gang."""

    def __init__(
        self, executor: Executor, progress: Progress, child: int, item: int, number: int
    ) -> None:
        super().__init__(executor, progress, child, item)
        self._number = number

    @property
    def number(self) -> int:
        """Its place among the parts of its job."""
        return self._number

    def cancel(self, reason: str = "") -> bool:
        """End it; only where its scheduler can end one part of an app.

        Raises:
            StateError: it cannot; end the whole job.
        """
        if self.done():
            return False
        app, index = self.record.app_of(self._process)
        self._executor.cancel_part(app.app_id, index, reason or "cancelled by its client")
        return True

    def delete(self) -> None:
        """Refuse: the parts of a job are removed together.

        Raises:
            StateError: always.
        """
        raise StateError(f"{self.id} is a part of {self.record.id}; delete that one")

    def adopt(self, answer: outcome.Answer) -> None:
        """Take an outcome that was read already, and be done."""
        self._progress.headers[self._process] = answer.header
        if self._progress.child_ended(self._process):
            with self._settling:
                error = answer.error(self._item)
                try:
                    self._value = answer.value(self._item) if error is None else self._value
                except ResultError as cannot:
                    error = cannot
                self._error = error
            self.settle()


class _Family(Job):
    """A job of several parts."""

    def __init__(self, executor: Executor, progress: Progress) -> None:
        super().__init__(executor, progress)
        self._parts: WeakValueDictionary[int, ChildJob] = WeakValueDictionary()

    @property
    def children(self) -> Sequence[ChildJob]:
        """Its parts, made when they are asked for."""
        return _Children(self)

    def __len__(self) -> int:
        return self.record.count

    @overload
    def __getitem__(self, number: int) -> ChildJob: ...
    @overload
    def __getitem__(self, number: slice) -> list[ChildJob]: ...
    def __getitem__(self, number: int | slice) -> ChildJob | list[ChildJob]:
        """Return one part; equal numbers give the same one."""
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        place = number + len(self) if number < 0 else number
        if not 0 <= place < len(self):
            raise IndexError(f"{self.id} has {len(self)} parts; there is no {number}")
        found = self._parts.get(place)
        if found is None:
            found = self._parts.setdefault(place, self._made(place))
        return found

    def _made(self, number: int) -> ChildJob:
        child = self.record.child_of(number)
        item = number % self.record.chunksize if self.record.kind == "array" else 0
        return ChildJob(self._executor, self._progress, child, item, number)

    def __iter__(self) -> Iterator[ChildJob]:
        return (self[number] for number in range(len(self)))

    def status_counts(self) -> dict[AppState, int]:
        """Count the processes in each state; states that none is in are left out."""
        self._look()
        self._progress.status(self.record.apps[0])
        return {state: count for state, count in self._progress.counts().items() if count}

    @property
    def exit_codes(self) -> list[int | None]:
        """The exit code of each part, in order."""
        return [replica.exit_code if replica else None for replica in self._replicas()]

    @property
    def status_reasons(self) -> list[str]:
        """Why each part is in its state, in order."""
        return [replica.reason if replica else "" for replica in self._replicas()]

    def failures(self) -> list[ChildJob]:
        """Return the parts that have ended so far without a value, in order."""
        self._look()
        return [self[number] for number in self._failed_numbers()]

    def as_completed(self, timeout: float | None = None) -> Iterator[ChildJob]:
        """Give the parts as they end.

        Args:
            timeout: seconds for all of them together; for ever when ``None``.

        Raises:
            TimeoutError: not all have ended in time.
        """
        yield from concurrent.futures.as_completed(list(self), timeout)  # type: ignore[misc]

    def _replicas(self) -> list[Any]:
        self._look()
        return [self._progress.replica(self.record.child_of(n)) for n in range(len(self))]

    def _failed_numbers(self) -> list[int]:
        suspects = [
            child
            for child in range(self.record.children)
            if self._progress.child_ended(child) and not self._surely_well(child)
        ]
        numbers: list[int] = []
        for child, answer in self._answers(suspects):
            numbers += [
                self._first_of(child) + place
                for place in range(self._size_of(child))
                if answer is None or answer.error_of(place) is not None
            ]
        return numbers

    def _surely_well(self, child: int) -> bool:
        replica = self._progress.replica(child)
        return (
            replica is not None
            and replica.state is AppState.SUCCEEDED
            and (self._progress.status(self.record.app_of(child)[0]) is not None)
        )

    def _first_of(self, child: int) -> int:
        return child * self.record.chunksize if self.record.kind == "array" else child

    def _size_of(self, child: int) -> int:
        if self.record.kind != "array":
            return 1
        return min(self.record.chunksize, self.record.count - self._first_of(child))

    def _answers(self, children: Sequence[int]) -> Iterator[tuple[int, outcome.Answer | None]]:
        """Read the outcomes of some children, in their order, a window at a time."""
        for start in range(0, len(children), _WINDOW):
            window = children[start : start + _WINDOW]
            keys = {self._progress.key(child): child for child in window}
            found: dict[int, outcome.Answer | None] = {}
            for key, data in self._progress.store.read_many(list(keys)):
                where = f"{self._progress.store.url}/{key}"
                answer = outcome.decoded(data, where) if data is not None else None
                found[keys[key]] = answer
            for child in window:
                yield child, found.get(child)


class GangJob(_Family):
    """A call that several processes run together; its value is that of node 0."""


class ArrayJob(_Family):
    """A map that was submitted: one handle over all of its items.

    ``runs[17]`` is the job of item 17, with its own log, status and result; with a ``chunksize``,
    items share a process.
    """

    @property
    def indices(self) -> Sequence[int]:
        """For each item, its place in the map that was submitted first (a rerun has fewer)."""
        return self.record.indices if self.record.indices is not None else range(len(self))

    def result(self, timeout: float | None = None) -> list[Any]:
        """Wait for all items and return their values in order.

        Raises:
            BaseException: that of the first item that has none.
            TimeoutError: it has not ended in time; it goes on.
        """
        self._block(timeout)
        return list(self.results())

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for all items and return the first one's exception that has one."""
        self._block(timeout)
        for number in self._failed_numbers():
            return self[number].exception()
        return None

    def results(
        self, *, return_exceptions: bool = False, timeout: float | None = None
    ) -> Iterator[Any]:
        """Give the values in the order of the items, as soon as they are there.

        Only a window of them is in memory at a time.

        Args:
            return_exceptions: give an exception in place of a value that there is not, instead of
                raising it.
            timeout: seconds for all of them together; for ever when ``None``.

        Raises:
            BaseException: that of the first item without a value.
            TimeoutError: not all have ended in time.
        """
        for child, answer in self._in_order(timeout):
            for place in range(self._size_of(child)):
                try:
                    value = self._value_of(child, place, answer)
                except BaseException as error:
                    if not return_exceptions or isinstance(error, _NOT_OF_ITEMS):
                        raise
                    value = error
                yield value

    def as_completed(self, timeout: float | None = None) -> Iterator[ChildJob]:
        """Give the items as they end, with their values at hand; memory stays bounded.

        Args:
            timeout: seconds for all of them together; for ever when ``None``.

        Raises:
            TimeoutError: not all have ended in time.
        """
        waiting = set(range(self.record.children))
        for ready in self._ready(timeout, waiting):
            waiting.difference_update(ready)
            for child, answer in self._answers(ready):
                for place in range(self._size_of(child)):
                    job = self[self._first_of(child) + place]
                    if answer is not None:
                        job.adopt(answer)
                    job.settle()
                    yield job

    def retry_failed(self, memory: float | None = None) -> ArrayJob:
        """Run the items again that have ended without a value, as a new array of just those.

        Args:
            memory: GiB for each process; what it was when ``None``.

        Raises:
            StateError: none has failed.
        """
        failed = self.failures()
        if not failed:
            raise StateError(f"no item of {self.id} has failed; there is nothing to run again")
        indices = [self.indices[job.number] for job in failed]
        again = self._executor.rerun(self.record, indices, memory)
        if not isinstance(again, ArrayJob):
            raise TypeError(f"a rerun of {self.id} is an array, not {again!r}")
        return again

    def _is_well(self) -> bool:
        counts = self._progress.counts()
        if counts[AppState.SUCCEEDED] == self.record.children:
            return True
        return not self._failed_numbers()

    def _was_cancelled(self) -> bool:
        return self._progress.state() is AppState.CANCELLED and not self._is_well()

    def _fetched(self) -> BaseException | None:
        return self.exception()

    def _value_of(self, child: int, place: int, answer: outcome.Answer | None) -> Any:
        if answer is not None and not self._progress.final(child, answer.header):
            answer = self._progress.fetch(child)
        if answer is not None:
            return answer.value(place)
        return self[self._first_of(child) + place].result()

    def _in_order(self, timeout: float | None) -> Iterator[tuple[int, outcome.Answer | None]]:
        at, count = 0, self.record.children
        waiting = set(range(count))
        for ready in self._ready(timeout, waiting):
            waiting.difference_update(ready)
            end = at
            while end < count and end not in waiting:
                end += 1
            yield from self._answers(range(at, end))
            at = end

    def _ready(self, timeout: float | None, waiting: set[int]) -> Iterator[list[int]]:
        """Give the children that have ended since the last time, until all have."""
        import threading
        import time

        deadline = None if timeout is None else time.monotonic() + timeout
        changed = threading.Event()
        listener: Callable[[], None] = changed.set
        try:
            while waiting:
                changed.clear()
                if not self._progress.ended:
                    self._progress.listen(listener)
                    self._watch_progress()
                    self._look()
                ready = sorted(c for c in waiting if self._progress.child_ended(c))
                if ready:
                    yield ready
                    continue
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise concurrent.futures.TimeoutError(
                        f"{len(waiting)} of {self.record.children} parts of {self.id} had not "
                        f"ended after {timeout:g} seconds; they go on"
                    )
                if self._progress.trouble is not None:
                    raise self._progress.trouble
                changed.wait(_LOOK_AGAIN if left is None else min(left, _LOOK_AGAIN))
        finally:
            self._progress.ignore(listener)

    def _watch_progress(self) -> None:
        from wherry.functions.watcher import watcher

        watcher().watch(self._progress)


class _Children(Sequence[ChildJob]):
    """The parts of a job as a sequence."""

    def __init__(self, family: _Family) -> None:
        self._family = family

    def __len__(self) -> int:
        return len(self._family)

    @overload
    def __getitem__(self, number: int) -> ChildJob: ...
    @overload
    def __getitem__(self, number: slice) -> list[ChildJob]: ...
    def __getitem__(self, number: int | slice) -> ChildJob | list[ChildJob]:
        return self._family[number]

    def __repr__(self) -> str:
        counts = Counter("ended" if job.done() else "going on" for job in self)
        return f"<{len(self)} parts of {self._family.id}: {dict(counts)}>"


_NOT_OF_ITEMS = (KeyboardInterrupt, GeneratorExit)
