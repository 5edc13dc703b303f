"""One look at many jobs, in as few calls as it takes.

Jobs are described 100 at a time, those first that were not looked at for the longest time; where
many children of one array are wanted, the array is described and its `Family` says more. What one
look costs has a bound: of tens of thousands of single jobs a part is looked at each time. This is
what one thread knows; `polling` has the thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from wherry.aws import jobs, lookup
from wherry.aws.cadence import MOST_CALLS
from wherry.aws.calls import Calls
from wherry.aws.families import Family
from wherry.aws.jobs import JobView
from wherry.aws.pacing import Clock, Seconds
from wherry.errors import WherryError

LARGE = 50
"""From how many children of one array on it is followed as a family."""

LIST_CALLS = 3
"""How many pages of children one look may list."""

DESCRIBE_CALLS = MOST_CALLS - LIST_CALLS

VISIBLE_WITHIN: Seconds = 30.0
"""How long a job that was never seen may yet appear: AWS's answers are behind."""

ABSENT_LOOKS = 2
"""After how many looks in vain a job that was seen is gone."""


@dataclass
class Found:
    """What one look has shown.

    Args:
        moved: the jobs that are in another state than before, or are new, by id.
        counted: the jobs of which something else has changed, such as an array's counts.
        gone: the ids that AWS does not know, or no more.
        calls: what it has cost.
        error: why it ended before its time; what it had shown until then stays true.
    """

    moved: dict[str, JobView] = field(default_factory=dict)
    counted: dict[str, JobView] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    calls: int = 0
    error: WherryError | None = None


@dataclass
class _Absent:
    """A job that AWS did not mention: since when, and in how many looks."""

    since: float
    looks: int = 0


class Rounds:
    """Looks at jobs, and remembers what they looked like.

    Args:
        calls: asks AWS Batch.
        time: tells how time passes, in seconds.
        patience: how long after its first failure a call is given up; short, as there will be
            another look.
        visible_within: how long a job that was never seen may yet appear.
    """

    def __init__(
        self,
        calls: Calls,
        *,
        time: Clock,
        patience: Seconds = 5.0,
        visible_within: Seconds = VISIBLE_WITHIN,
    ) -> None:
        self._calls = calls
        self._time = time
        self._patience = patience
        self._visible_within = visible_within
        self._views: dict[str, JobView] = {}
        self._families: dict[str, Family] = {}
        self._looked: dict[str, int] = {}
        self._absent: dict[str, _Absent] = {}
        self._number = 0

    def look(self, wanted: frozenset[str], *, only_new: bool = False) -> Found:
        """Look at jobs.

        Args:
            wanted: the ids of all that somebody waits for.
            only_new: look only at those that were never looked at.
        """
        self._forget_others(wanted)
        direct = self._arrange(wanted)
        found = Found()
        try:
            self._describe(self._chosen(direct, only_new=only_new), found)
            self._list_children(found)
        except WherryError as error:
            found.error = error
        found.gone &= wanted
        for parent in self._families.keys() & found.moved.keys() - wanted:
            found.counted[parent] = found.moved.pop(parent)
        return found

    def view(self, job_id: str) -> JobView | None:
        """Return what a job looked like; ``None`` for one that was never seen."""
        known = self._views.get(job_id)
        if known is None and jobs.parent_of(job_id) in self._families:
            index = jobs.index_of(job_id)
            return self._families[jobs.parent_of(job_id)].children.get(index or 0)
        return known

    # -- what to ask for ------------------------------------------------------------------------

    def _arrange(self, wanted: frozenset[str]) -> list[str]:
        """Return the ids to describe: an array in place of its children, where they are many."""
        children: dict[str, list[str]] = {}
        direct = []
        for job_id in wanted:
            parent, mark, index = job_id.partition(":")
            if mark:
                children.setdefault(parent, []).append(index)
            else:
                direct.append(job_id)
        for parent in self._families.keys() - children.keys():
            del self._families[parent]
        for parent, texts in children.items():
            indices = frozenset(map(int, texts))
            if parent in self._families:
                self._families[parent].want(indices)
            elif len(indices) > LARGE:
                self._families[parent] = Family(parent, indices)
            else:
                direct.extend(jobs.child_id(parent, index) for index in indices)
        return list({*self._families, *direct})

    def _chosen(self, direct: list[str], *, only_new: bool) -> list[str]:
        """Return those that are looked at now: who has waited for it the longest."""
        if only_new:
            direct = [each for each in direct if each not in self._looked]
        most = DESCRIBE_CALLS * lookup.AT_ONCE
        if len(direct) > most:
            direct = sorted(direct, key=lambda each: self._looked.get(each, -1))[:most]
        return direct

    def _forget_others(self, wanted: frozenset[str]) -> None:
        """Forget what nobody waits for any more; an array may be there for its children."""
        kept = wanted | self._families.keys()
        for table in (self._views, self._looked, self._absent):
            for job_id in table.keys() - kept:
                del table[job_id]

    # -- asking ---------------------------------------------------------------------------------

    def _describe(self, chosen: list[str], found: Found) -> None:
        for start in range(0, len(chosen), lookup.AT_ONCE):
            some = chosen[start : start + lookup.AT_ONCE]
            found.calls += 1
            seen = lookup.describe(self._calls, some, patience=self._patience)
            self._number += 1
            self._looked.update(dict.fromkeys(some, self._number))
            self._take(seen, found)
            self._note_absent([each for each in some if each not in seen], found)

    def _take(self, seen: dict[str, JobView], found: Found) -> None:
        for job_id, job in seen.items():
            self._absent.pop(job_id, None)
            before = self._views.get(job_id)
            self._views[job_id] = job
            if before is None or before.status != job.status:
                found.moved[job_id] = job
            elif before.document != job.document:
                found.counted[job_id] = job

    def _note_absent(self, ids: Iterable[str], found: Found) -> None:
        now = self._time()
        for job_id in ids:
            absent = self._absent.setdefault(job_id, _Absent(now))
            absent.looks += 1
            patient = job_id not in self._views and now - absent.since < self._visible_within
            if patient or absent.looks < ABSENT_LOOKS:
                continue
            found.gone.add(job_id)
            if job_id in self._families:
                family = self._families[job_id]
                found.gone.update(jobs.child_id(job_id, index) for index in family.indices)

    def _list_children(self, found: Found) -> None:
        pages = LIST_CALLS
        for parent, family in list(self._families.items()):
            array = self._views.get(parent)
            if array is None or not family.wants(array) or not pages:
                continue
            moved, calls = family.list_some(self._calls, pages, patience=self._patience)
            pages -= calls
            found.calls += calls
            found.moved.update(moved)
