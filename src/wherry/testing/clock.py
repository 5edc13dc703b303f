"""A clock that tests turn by hand, with timers that fire when it passes them.

It knows nothing of apps. Everything that happens in a `MemoryScheduler` happens in a timer, so
the order of events is the same in every run.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
from collections.abc import Callable

from wherry.errors import UsageError

START = 1_704_067_200.0
"""Where clocks begin: 2024-01-01 00:00:00 UTC."""

_PER_SECOND = 1_000_000


class Timer:
    """Something that is to happen; made by `Clock.call_later`."""

    def __init__(self, action: Callable[[], object]) -> None:
        self.action = action
        self.cancelled = False

    def cancel(self) -> None:
        """Let it not happen; does nothing when it has happened already."""
        self.cancelled = True


class Clock:
    """Time that passes only when it is told to.

    Time is kept in whole microseconds, so ten steps of 0.1 s are one second. All methods may be
    called from any thread; timers fire in the thread that moves the clock.

    Args:
        start: what `now` says at first, in seconds since the epoch.
        auto: what a wait does. With ``True``, the clock goes straight to what happens next, so
            that nobody sleeps. With ``False``, the waiting thread blocks until another one calls
            `advance` (or changes something, for instance by cancelling an app).

    >>> clock = Clock(start=0)
    >>> timer = clock.call_later(10, lambda: print("it is", clock.now()))
    >>> clock.advance(4)
    >>> clock.now()
    4.0
    >>> clock.wait()
    it is 10.0
    True
    """

    def __init__(self, start: float = START, *, auto: bool = True) -> None:
        self.auto = auto
        self.changed = threading.Condition()
        """The lock over the clock and all that lives by it; told whenever something happened."""
        self._start = start
        self._elapsed = 0
        self._timers: list[tuple[int, int, Timer]] = []
        self._order = itertools.count()
        self._happened = 0

    def now(self) -> float:
        """Return the time, in seconds since the epoch."""
        with self.changed:
            return self._start + self._elapsed / _PER_SECOND

    def advance(self, seconds: float) -> None:
        """Let time pass; what becomes due meanwhile happens, in order and at its own time.

        Args:
            seconds: how many; 0 lets happen what is due now.

        Raises:
            UsageError: the number is negative or not finite.
        """
        steps = _steps(seconds)
        with self.changed:
            self._go_to(self._elapsed + steps)

    def call_later(self, seconds: float, action: Callable[[], object]) -> Timer:
        """Let something happen when so much time has passed.

        Args:
            seconds: from now; with 0 it happens the next time the clock is moved.
            action: called in the thread that moves the clock, which waits for it.

        Returns:
            The timer, which can be cancelled.

        Raises:
            UsageError: the number is negative or not finite.
        """
        timer = Timer(action)
        steps = _steps(seconds)
        with self.changed:
            heapq.heappush(self._timers, (self._elapsed + steps, next(self._order), timer))
        return timer

    def wait(self, timeout: float = math.inf, until: Callable[[], bool] | None = None) -> bool:
        """Wait until something has happened, or until the time is over.

        Args:
            timeout: at most so many seconds of this clock.
            until: go on waiting until this is true; asked whenever something has happened.

        Returns:
            Whether anything can still happen: ``False`` says that no timer is left, which an
            ``auto`` clock can know.
        """
        with self.changed:
            limit = math.inf if timeout == math.inf else self._elapsed + _steps(timeout)
            return self._hurry(limit, until) if self.auto else self._block(limit, until)

    def touch(self) -> None:
        """Wake those who wait, because something has changed although no time passed."""
        with self.changed:
            self._happened += 1
            self.changed.notify_all()

    def _hurry(self, limit: float, until: Callable[[], bool] | None) -> bool:
        while (due := self._next_due()) is not None and due <= limit:
            self._go_to(due)
            if until is None or until():
                return True
        if limit != math.inf:
            self._go_to(int(limit))
        return due is not None

    def _block(self, limit: float, until: Callable[[], bool] | None) -> bool:
        seen = self._happened
        self.changed.wait_for(
            lambda: (
                self._elapsed >= limit or (self._happened != seen and (until is None or until()))
            )
        )
        return True

    def _go_to(self, target: int) -> None:
        while (due := self._next_due()) is not None and due <= target:
            _, _, timer = heapq.heappop(self._timers)
            self._elapsed = max(self._elapsed, due)
            timer.action()
        self._elapsed = max(self._elapsed, target)
        self.touch()

    def _next_due(self) -> int | None:
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None


def _steps(seconds: float) -> int:
    if not math.isfinite(seconds) or seconds < 0:
        raise UsageError(f"time goes forward, by 0 seconds or more, not by {seconds!r}")
    return round(seconds * _PER_SECOND)
