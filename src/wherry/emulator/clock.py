"""The emulator's time, which may go faster than the machine's, and may jump ahead.

All times that AWS would show, and all delays that AWS would keep (the 60 seconds that a timeout
has at least, the 30 seconds of grace, the days until a job is forgotten), are in emulated seconds.
Only the programs inside jobs live in real time.
"""

from __future__ import annotations

import threading
import time
import types
import weakref
from collections.abc import Callable

from wherry.errors import UsageError


class Clock:
    """Tells emulated time. All methods may be called from any thread.

    Args:
        scale: emulated seconds for each real second.
        wall: tells the time at which the clock begins, in seconds since the epoch.
        monotonic: tells how real time passes, in seconds. A test may give its own.

    >>> real = [0.0]
    >>> clock = Clock(60, wall=lambda: 1000.0, monotonic=lambda: real[0])
    >>> real[0] += 2
    >>> clock.now()
    1120.0
    >>> clock.advance(5)
    >>> clock.now()
    1125.0
    """

    def __init__(
        self,
        scale: float = 1.0,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], Callable[[], object] | None]] = []
        self._since = monotonic()
        self._then = wall()
        self._scale = _checked(scale)

    @property
    def scale(self) -> float:
        """Emulated seconds for each real second."""
        return self._scale

    def now(self) -> float:
        """Return the emulated time, in seconds since the epoch."""
        with self._lock:
            return self._then + (self._monotonic() - self._since) * self._scale

    def now_ms(self) -> int:
        """Return the emulated time in milliseconds, as AWS Batch shows it."""
        return int(self.now() * 1000)

    def real_seconds(self, emulated: float) -> float:
        """Return how many real seconds an emulated span takes at the present scale."""
        return max(0.0, emulated) / self._scale

    def set_scale(self, scale: float) -> None:
        """Let time go at another pace from now on.

        Raises:
            UsageError: the scale is not a positive number.
        """
        checked = _checked(scale)
        with self._lock:
            now = self._monotonic()
            self._then += (now - self._since) * self._scale
            self._since = now
            self._scale = checked
        self._tell()

    def advance(self, seconds: float) -> None:
        """Jump ahead.

        Raises:
            UsageError: the span is negative.
        """
        if not seconds >= 0:
            raise UsageError(f"the clock can only go forward; got {seconds!r} seconds")
        with self._lock:
            self._then += seconds
        self._tell()

    def on_change(self, listener: Callable[[], object]) -> None:
        """Call a listener, without arguments, after each `set_scale` and `advance`.

        A bound method does not keep its object alive: what has been dropped is not told any more.
        """
        bound = isinstance(listener, types.MethodType)
        self._listeners.append(weakref.WeakMethod(listener) if bound else lambda: listener)

    def _tell(self) -> None:
        for find in list(self._listeners):
            listener = find()
            if listener is None:
                self._listeners.remove(find)
            else:
                listener()


def _checked(scale: float) -> float:
    if not 0 < scale < float("inf"):
        raise UsageError(f"the clock's scale is emulated seconds per second; got {scale!r}")
    return float(scale)
