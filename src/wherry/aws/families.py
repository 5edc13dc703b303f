"""The children of one large array, followed without asking for each of them.

The array's own description says how many children are in each state. Only when that has changed
are children listed, a state at a time and no more pages in one look than it is allowed: first
those that are few and about to matter (failed, starting, running), then those that have succeeded.
Children that wait are never listed: they are those that are left over. That a child has ended is
never deduced, unless the array has ended too, since a child that is retried goes back.
"""

from __future__ import annotations

from collections.abc import Mapping

from wherry.aws import jobs
from wherry.aws.calls import Calls, next_page
from wherry.aws.documents import Document
from wherry.aws.jobs import JobView
from wherry.errors import AwsError

_PAGE = 1000
_LISTED = (jobs.FAILED, jobs.STARTING, jobs.RUNNING, jobs.SUCCEEDED)


class Family:
    """The children of one array.

    Args:
        parent: the array's id.
        indices: the children that are wanted.
    """

    def __init__(self, parent: str, indices: frozenset[int]) -> None:
        self.parent = parent
        self.indices = indices
        self.children: dict[int, JobView] = {}
        self._swept: Mapping[str, int] | None = None
        self._sweep: _Sweep | None = None

    def want(self, indices: frozenset[int]) -> None:
        """Take note of which children are wanted now."""
        if not indices <= self.indices:
            self._swept = None
        self.indices = indices

    def wants(self, array: JobView) -> bool:
        """Take the array's newest description; tell whether children have to be listed."""
        if self._sweep is None and (array.counts != self._swept or self._is_left_open(array)):
            self._sweep = _Sweep(array, self._known())
        return self._sweep is not None

    def _is_left_open(self, array: JobView) -> bool:
        """Tell whether an array has ended, and not all of its children have, as far as is known."""
        return array.ended and not all(
            index in self.children and self.children[index].ended for index in self.indices
        )

    def list_some(
        self, calls: Calls, pages: int, **options: float
    ) -> tuple[dict[str, JobView], int]:
        """List children, or go on listing them.

        Args:
            calls: asks AWS Batch.
            pages: how many there may be.
            options: for each call.

        Returns:
            The children that are in another state than before, by id; and how many calls it took.

        Raises:
            AwsError: AWS refused, or does not answer; the next time goes on where this one was.
        """
        sweep = self._sweep
        if sweep is None:
            return {}, 0
        taken = 0
        while not sweep.done and taken < pages:
            self._next_page(sweep, calls, **options)
            taken += 1
        if not sweep.done:
            return {}, taken
        self._sweep, self._swept = None, sweep.counts
        return self._take(sweep), taken

    def _next_page(self, sweep: _Sweep, calls: Calls, **options: float) -> None:
        try:
            sweep.next_page(calls, **options)
        except AwsError as error:
            if not error.passing:
                self._sweep = None  # the token of a page may have become too old
            raise

    def _known(self) -> dict[str, int]:
        """Return how many children are known to have ended, by state."""
        known = dict.fromkeys(jobs.ENDED, 0)
        for child in self.children.values():
            if child.ended:
                known[child.status] += 1
        return known

    def _take(self, sweep: _Sweep) -> dict[str, JobView]:
        changed = [
            (index, jobs.view(document))
            for index, document in sweep.seen.items()
            if self._would_change(index, str(document.get("status", "")))
        ]
        changed.extend(
            (index, sweep.deduced(index))
            for index in self.indices - sweep.seen.keys()
            if sweep.rest is not None and self._may_be_deduced(index, sweep.rest)
        )
        self.children.update(changed)
        return {child.id: child for index, child in changed if index in self.indices}

    def _would_change(self, index: int, state: str) -> bool:
        before = self.children.get(index)
        return before is None or not (before.ended or before.status == state)

    def _may_be_deduced(self, index: int, rest: str) -> bool:
        """Tell whether a child that is in no list is known to be in the state of the rest.

        One that was running, and is in no list, has just moved on; the next look will tell.
        """
        if not self._would_change(index, rest):
            return False
        before = self.children.get(index)
        return before is None or before.status in jobs.WAITING or rest in jobs.ENDED


class _Sweep:
    """One look at the children, which may take several rounds.

    Args:
        array: the array.
        known: how many children are known to be in each state that is an end.

    Attributes:
        counts: the array's counts at its beginning.
        seen: index → what a list said of the child.
        rest: the state of the children that are in no list; ``None`` where it cannot be known. It
            is an end only if all children have ended.
    """

    def __init__(self, array: JobView, known: Mapping[str, int]) -> None:
        self.counts = dict(array.counts)
        self._array = array
        self.seen: dict[int, Document] = {}
        self.rest: str | None = None
        self._states = self._to_list(known)
        self._token: Document = {}

    @property
    def done(self) -> bool:
        return not self._states

    def next_page(self, calls: Calls, **options: float) -> None:
        params: Document = {
            "arrayJobId": self._array.id,
            "jobStatus": self._states[0],
            "maxResults": _PAGE,
            **self._token,
        }
        answer = calls.call("ListJobs", **params, **options)
        for document in answer.get("jobSummaryList") or ():
            index = jobs.index_of(str(document.get("jobId", "")))
            if index is not None:
                self.seen[index] = document
        self._token = next_page(answer)
        if not self._token:
            self._states.pop(0)

    def deduced(self, index: int) -> JobView:
        """Return a child that is in no list."""
        array = self._array
        return JobView(
            id=jobs.child_id(array.id, index),
            arn=jobs.child_id(array.arn, index) if array.arn else "",
            name=array.name,
            status=self.rest or "",
            queue=array.queue,
            definition=array.definition,
            created_at=array.created_at,
            index=index,
            attempts_allowed=array.attempts_allowed,
            timeout=array.timeout,
        )

    def _to_list(self, known: Mapping[str, int]) -> list[str]:
        """Return the states to list; what is in none of them is in the state `_rest`."""
        counts, size = self.counts, self._array.array_size
        full = next((state for state in jobs.ENDED if counts.get(state, 0) >= size > 0), None)
        if full is not None:
            self.rest = full
            return []
        if self._array.ended:
            # All have ended, and the counts may be late: the shorter list says who did otherwise.
            few, many = sorted(jobs.ENDED, key=lambda state: counts.get(state, 0))
            if sum(counts.get(state, 0) for state in jobs.ENDED) >= size:
                self.rest = many
                return [few]
            return [few, many]
        waiting = [state for state in jobs.WAITING if counts.get(state)]
        self.rest = waiting[-1] if waiting else None
        return [
            state
            for state in _LISTED
            if counts.get(state, 0) > (known[state] if state in jobs.ENDED else 0)
        ]
