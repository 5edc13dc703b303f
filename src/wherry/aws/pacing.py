"""How often AWS may be asked, and how long to wait before asking again.

A `Limiter` is shared by all that ask the same service of the same account and region from this
process. It has lanes that do not wait for each other: a flood of submissions must not hold up a
cancellation, nor the look at a job. A lane halves its rate when AWS throttles, and grows back with
every success. It knows nothing of AWS but the rates that AWS documents.
"""

from __future__ import annotations

import threading
import time as _time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Seconds = float
Clock = Callable[[], float]
Chance = Callable[[], float]
"""Gives numbers from 0 to 1, evenly spread."""


@dataclass(frozen=True)
class Rate:
    """The bounds of a lane, in calls a second.

    Args:
        most: where it begins, and grows back to.
        least: what it never goes below. Each call that was throttled also waits by itself
            (`backoff`), so that this need not be small.
    """

    most: float
    least: float = 2.0


SUBMIT, END, LOOK = "submit", "end", "look"
"""The lanes: new jobs, cancellations, and all else."""

RATES: Mapping[str, Rate] = {
    SUBMIT: Rate(50.0, least=10.0),  # userguide/service_limits: SubmitJob, for each account
    END: Rate(50.0, least=10.0),
    LOOK: Rate(100.0),  # not published; whoever asks too often is told
}

_LANES = {
    "SubmitJob": SUBMIT,
    "CancelJob": END,
    "CancelJobs": END,
    "TerminateJob": END,
    "TerminateJobs": END,
}


def lane_of(operation: str) -> str:
    """Return the lane that an operation goes through."""
    return _LANES.get(operation, LOOK)


class Lane:
    """One lane: lets calls through at a rate, as evenly as needed and in bursts of a second.

    All methods may be called from any thread.

    Args:
        rate: its bounds.
        time: tells how time passes, in seconds.
    """

    def __init__(self, rate: Rate, *, time: Clock = _time.monotonic) -> None:
        self._bounds = rate
        self._time = time
        self._lock = threading.Lock()
        self._rate = rate.most
        self._tokens = rate.most
        self._at = time()
        self._halved_at = float("-inf")

    @property
    def rate(self) -> float:
        """Calls a second, at present."""
        return self._rate

    def reserve(self) -> Seconds:
        """Take the next place; returns how long to wait until it is there."""
        with self._lock:
            self._refill()
            self._tokens -= 1.0
            return max(0.0, -self._tokens / self._rate)

    def succeeded(self) -> None:
        """Take note of a call that was not throttled."""
        with self._lock:
            if self._rate < self._bounds.most:
                self._refill()
                self._rate = min(self._bounds.most, self._rate + 1.0)

    def throttled(self) -> None:
        """Take note of a call that was throttled.

        The calls that were on their way together are throttled together; that halves once.
        """
        with self._lock:
            now = self._time()
            if now - self._halved_at < 1.0:
                return
            self._refill()
            self._halved_at = now
            self._rate = max(self._bounds.least, self._rate / 2.0)
            self._tokens = min(self._tokens, 1.0)

    def _refill(self) -> None:
        now = self._time()
        gained = max(0.0, now - self._at) * self._rate
        self._tokens = min(self._rate, self._tokens + gained)
        self._at = now


class Limiter:
    """The lanes of one service in one account and region.

    Args:
        rates: the bounds of each lane.
        time: tells how time passes, in seconds.
    """

    def __init__(self, rates: Mapping[str, Rate] = RATES, *, time: Clock = _time.monotonic) -> None:
        self._lanes = {name: Lane(rate, time=time) for name, rate in rates.items()}

    def lane(self, operation: str) -> Lane:
        """Return the lane that an operation goes through."""
        return self._lanes[lane_of(operation)]


def backoff(attempt: int, chance: Chance, *, base: Seconds, cap: Seconds = 20.0) -> Seconds:
    """Return how long to wait before a call is repeated: full jitter, growing with each failure.

    Source: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/

    Args:
        attempt: how many have failed so far, from 1.
        chance: gives numbers from 0 to 1.
        base: the longest first wait.
        cap: the longest wait.

    >>> [backoff(attempt, lambda: 1.0, base=0.5) for attempt in (1, 2, 3, 99)]
    [0.5, 1.0, 2.0, 20.0]
    """
    return chance() * float(min(cap, base * 2 ** min(attempt - 1, 30)))
