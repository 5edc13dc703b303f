"""In which order the jobs of one queue start: first come, first served, or fair shares.

An order knows which jobs wait and how much each share has used; it knows nothing of capacity. It
is asked for its head again and again during one pass over the queues, and told what became of it.

AWS does not publish its formula for fair shares; what is known (API reference, FairsharePolicy; AWS
HPC blog, "Deep dive on fair-share scheduling") is kept: usage is the virtual CPU seconds of jobs
that run and of those that ran lately, those of long ago count less, a share with half the weight
factor gets twice as much, and part of the capacity is held back for shares that do not run yet.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from wherry.emulator.batch import limits
from wherry.emulator.batch.placing import Waiting
from wherry.emulator.batch.ports import Document

LEAST_DECAY = 600.0
"""The time window, in seconds, that ``shareDecaySeconds`` of 0 stands for."""

_FRONT = 1 << 30


class Line:
    """Jobs that wait, highest level first, within a level in the order of their coming.

    Adding, removing and looking at the first take the same time however many wait.
    """

    def __init__(self) -> None:
        self._levels: dict[int, OrderedDict[str, Waiting]] = {}
        self._order: list[int] = []  # the levels with a minus, so that the highest comes first

    def __len__(self) -> int:
        return sum(len(level) for level in self._levels.values())

    def __iter__(self) -> Iterator[Waiting]:
        for negative in self._order:
            yield from self._levels[-negative].values()

    def __bool__(self) -> bool:
        return bool(self._order)

    def add(self, waiting: Waiting, level: int, *, first: bool = False) -> None:
        """Let a job stand at the end of its level, or at the beginning."""
        if level not in self._levels:
            self._levels[level] = OrderedDict()
            bisect.insort(self._order, -level)
        self._levels[level][waiting.job_id] = waiting
        if first:
            self._levels[level].move_to_end(waiting.job_id, last=False)

    def remove(self, job_id: str, level: int) -> None:
        """Take a job out; harmless when it is not there."""
        jobs = self._levels.get(level)
        if jobs is not None and jobs.pop(job_id, None) is not None and not jobs:
            del self._levels[level]
            self._order.remove(-level)

    def head(self) -> Waiting | None:
        """Return the first job."""
        if not self._order:
            return None
        return next(iter(self._levels[-self._order[0]].values()))


class Order(Protocol):
    """In which order the jobs of one queue start."""

    def add(self, waiting: Waiting) -> None:
        """Let a job wait."""

    def remove(self, waiting: Waiting) -> None:
        """Let a job wait no more."""

    def begin(self, now: float) -> None:
        """A pass over the queues begins."""

    def head(self) -> Waiting | None:
        """Return the job whose turn it is; nothing when nobody's turn can come in this pass."""

    def hold(self, waiting: Waiting) -> None:
        """The head cannot start now."""

    def park(self, waiting: Waiting) -> None:
        """The head can never start, as things are."""

    def unpark(self) -> None:
        """Things are no longer as they were."""

    def started(self, job_id: str, share: str, vcpus: float, now: float) -> None:
        """A job has got its places."""

    def ended(self, job_id: str, now: float) -> None:
        """A job has given its places back; unknown ids are ignored."""

    def stuck(self) -> Waiting | None:
        """Return the job that is first in the queue, whether or not it can ever start."""

    def first(self, count: int, now: float) -> list[Waiting]:
        """Return the first jobs in the order in which they would start."""

    def everybody(self) -> Iterator[Waiting]:
        """Return all who wait, within a share in their order."""

    def allowance(self, most: float) -> float:
        """Return how many of an amount of virtual CPUs a reservation leaves to the queue now."""

    def usage(self) -> dict[str, float]:
        """Return the virtual CPUs that each share uses now."""


class Fifo:
    """First come, first served; the head holds up those behind it.

    "If a job cannot be placed, it blocks the queue" (user guide, "Jobs stuck in a RUNNABLE
    status"). Scheduling priorities mean nothing here.
    """

    def __init__(self) -> None:
        self._line = Line()
        self._is_held = False
        self._running: dict[str, float] = {}

    def add(self, waiting: Waiting) -> None:
        """Let a job wait."""
        self._line.add(waiting, _FRONT if waiting.front else 0)

    def remove(self, waiting: Waiting) -> None:
        """Let a job wait no more."""
        self._line.remove(waiting.job_id, _FRONT if waiting.front else 0)

    def begin(self, _now: float) -> None:
        """Begin a pass."""
        self._is_held = False

    def head(self) -> Waiting | None:
        """Return the job whose turn it is."""
        return None if self._is_held else self._line.head()

    def hold(self, _waiting: Waiting) -> None:
        """The head cannot start now."""
        self._is_held = True

    def park(self, _waiting: Waiting) -> None:
        """The head can never start."""
        self._is_held = True

    def unpark(self) -> None:
        """Let those that never could start try again; here they do all the time."""

    def started(self, job_id: str, _share: str, vcpus: float, _now: float) -> None:
        """A job has got its places."""
        self._running[job_id] = vcpus

    def ended(self, job_id: str, _now: float) -> None:
        """A job has given its places back."""
        self._running.pop(job_id, None)

    def stuck(self) -> Waiting | None:
        """Return the job that is first."""
        return self._line.head()

    def first(self, count: int, _now: float) -> list[Waiting]:
        """Return the first jobs in their order."""
        return list(itertools.islice(self._line, count))

    def everybody(self) -> Iterator[Waiting]:
        """Return all who wait."""
        return iter(self._line)

    def allowance(self, _most: float) -> float:
        """Return how many virtual CPUs the queue may use."""
        return float("inf")

    def usage(self) -> dict[str, float]:
        """Return the virtual CPUs of each share."""
        return {"": sum(self._running.values())} if self._running else {}


@dataclass
class _Share:
    """One share: who waits in it, and what it has used.

    Attributes:
        line: who waits.
        weight: its weight factor.
        vcpus: what runs now.
        used: virtual CPU seconds up to `then`, those of long ago discounted.
    """

    weight: float
    line: Line = field(default_factory=Line)
    vcpus: float = 0.0
    used: float = 0.0
    then: float = 0.0

    def settle(self, now: float, window: float) -> None:
        """Terminate instances that nobody uses."""
        # du/dt = vcpus - u/window has this closed solution, so nothing need be summed up.
        kept = math.exp(-max(0.0, now - self.then) / window)
        level = self.vcpus * window
        self.used, self.then = level + (self.used - level) * kept, max(now, self.then)

    def score(self, window: float, more: float = 0.0) -> float:
        """Return how much the share has had of what is its due; the least goes first."""
        return (self.used / window + self.vcpus + more) * self.weight


class Fair:
    """Fair shares.

    A head that cannot start now holds up its queue, so that a large job gets its turn; one that
    never can is set aside. Jobs that wait for a consumable resource hold up their share alone.

    Args:
        policy: ``fairsharePolicy``.
    """

    def __init__(self, policy: Document) -> None:
        self._shares: OrderedDict[str, _Share] = OrderedDict()
        self._parked: OrderedDict[str, Waiting] = OrderedDict()
        self._running: dict[str, tuple[str, float]] = {}
        self._heap: list[tuple[float, int, str]] | None = None
        self._ties = itertools.count()
        self._held: set[str] = set()
        self._now = 0.0
        self.set_policy(policy)

    def set_policy(self, policy: Document) -> None:
        """Take note of the policy as it is now."""
        self._window = max(LEAST_DECAY, float(policy.get("shareDecaySeconds") or 0))
        self._reservation = float(policy.get("computeReservation") or 0) / 100
        self._weights = {
            entry["shareIdentifier"]: float(entry.get("weightFactor") or 1.0)
            for entry in policy.get("shareDistribution") or ()
        }
        for name, share in self._shares.items():
            share.weight = self._weight(name)
        self._heap = None

    def add(self, waiting: Waiting) -> None:
        """Let a job wait."""
        self._share(waiting.share).line.add(waiting, _level(waiting))
        self._heap = None

    def remove(self, waiting: Waiting) -> None:
        """Let a job wait no more."""
        if self._parked.pop(waiting.job_id, None) is None:
            self._share(waiting.share).line.remove(waiting.job_id, _level(waiting))

    def begin(self, now: float) -> None:
        """Begin a pass."""
        self._now = now
        self._held.clear()
        self._heap = None
        self._forget_idle(now)

    def head(self) -> Waiting | None:
        """Return the job whose turn it is."""
        if self._heap is None:
            self._heap = [self._entry(name) for name in self._contenders()]
            heapq.heapify(self._heap)
        while self._heap:
            name = self._heap[0][2]
            job = self._shares[name].line.head() if name not in self._held else None
            if job is not None:
                return job
            heapq.heappop(self._heap)
        return None

    def hold(self, waiting: Waiting) -> None:
        """The head cannot start now."""
        self._held.add(waiting.share)

    def park(self, waiting: Waiting) -> None:
        """The head can never start."""
        self._share(waiting.share).line.remove(waiting.job_id, _level(waiting))
        self._parked[waiting.job_id] = waiting

    def unpark(self) -> None:
        """Let those that never could start try again."""
        for waiting in reversed(self._parked.values()):
            self._share(waiting.share).line.add(waiting, _level(waiting), first=True)
        self._parked.clear()
        self._heap = None

    def started(self, job_id: str, share: str, vcpus: float, now: float) -> None:
        """A job has got its places."""
        its = self._share(share)
        its.settle(now, self._window)
        its.vcpus += vcpus
        self._running[job_id] = (share, vcpus)
        if self._heap and self._heap[0][2] == share:
            heapq.heapreplace(self._heap, self._entry(share))

    def ended(self, job_id: str, now: float) -> None:
        """A job has given its places back."""
        share, vcpus = self._running.pop(job_id, ("", 0.0))
        if vcpus:
            its = self._share(share)
            its.settle(now, self._window)
            its.vcpus -= vcpus

    def stuck(self) -> Waiting | None:
        """Return the job that is first."""
        return next(iter(self._parked.values()), None) or next(iter(self.first(1, self._now)), None)

    def first(self, count: int, now: float) -> list[Waiting]:
        """Return the first jobs in their order."""
        found = list(itertools.islice(self._parked.values(), count))
        lines = {name: iter(self._shares[name].line) for name in self._contenders()}
        more = dict.fromkeys(lines, 0.0)
        heap = [(self._score(name, now), number, name) for number, name in enumerate(lines)]
        heapq.heapify(heap)
        while heap and len(found) < count:
            _, number, name = heap[0]
            job = next(lines[name], None)
            if job is None:
                heapq.heappop(heap)
                continue
            found.append(job)
            more[name] += vcpus_of(job)
            heapq.heapreplace(heap, (self._score(name, now, more[name]), number, name))
        return found

    def everybody(self) -> Iterator[Waiting]:
        """Return all who wait."""
        lines = (share.line for share in self._shares.values())
        return itertools.chain(self._parked.values(), *lines)

    def allowance(self, most: float) -> float:
        """Return how many virtual CPUs the queue may use."""
        if not self._reservation:
            return float("inf")
        active = sum(1 for share in self._shares.values() if share.line or share.vcpus)
        return most * (1 - self._reservation ** max(1, active))

    def usage(self) -> dict[str, float]:
        """Return the virtual CPUs of each share."""
        return {name: share.vcpus for name, share in self._shares.items() if share.vcpus}

    def _share(self, name: str) -> _Share:
        if name not in self._shares:
            self._shares[name] = _Share(self._weight(name), then=self._now)
        return self._shares[name]

    def _contenders(self) -> Iterator[str]:
        # Shares beyond the limit wait until others are over.
        active = (name for name, share in self._shares.items() if share.line or share.vcpus)
        admitted = itertools.islice(active, limits.SHARES)
        return (name for name in admitted if self._shares[name].line)

    def _entry(self, name: str) -> tuple[float, int, str]:
        return (self._score(name, self._now), next(self._ties), name)

    def _score(self, name: str, now: float, more: float = 0.0) -> float:
        share = self._shares[name]
        share.settle(now, self._window)
        return share.score(self._window, more)

    def _weight(self, name: str) -> float:
        if name in self._weights:
            return self._weights[name]
        prefixes = [
            word for word in self._weights if word.endswith("*") and name.startswith(word[:-1])
        ]
        return self._weights[max(prefixes, key=len)] if prefixes else 1.0

    def _forget_idle(self, now: float) -> None:
        if len(self._shares) <= limits.SHARES:
            return
        for name, share in list(self._shares.items()):
            if not share.line and not share.vcpus and now - share.then > self._window:
                del self._shares[name]


def vcpus_of(waiting: Waiting) -> float:
    """Return the virtual CPUs of all nodes of a job."""
    return sum(need.vcpus * need.count for need in waiting.nodes)


def _level(waiting: Waiting) -> int:
    return _FRONT if waiting.front else waiting.priority
