"""Sees that no tree of processes holds more memory than its container may.

A container's limit is kept by the kernel; here, the agent looks. Resident sizes are quick to add
up, but count a page that several processes share once for each; so that before a tree is killed,
its proportional sizes are asked for, which count each page once. Files that are merely cached do
not count. Between two looks a tree may pass its limit.

Facts: proc(5), ``statm``, ``smaps_rollup``; proc_vmstat ``oom_kill``.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wherry.engine.attempt import Attempt, Family
    from wherry.engine.loop import Loop, Timer

_INTERVAL = 0.25
_SHARE_OF_TIME = 20
"""A look may take a twentieth of the time: with many processes, there are fewer looks."""

_PAGE = os.sysconf("SC_PAGE_SIZE")


class MemoryWatch:
    """Looks at intervals, as long as something runs.

    Args:
        loop: what calls back.
        family: all that runs.
        on_excess: called with each attempt that holds too much.
    """

    def __init__(self, loop: Loop, family: Family, on_excess: Callable[[Attempt], None]) -> None:
        self._loop = loop
        self._family = family
        self._on_excess = on_excess
        self._limits: dict[Attempt, int] = {}
        self._timer: Timer | None = None

    def add(self, attempt: Attempt, limit: int) -> None:
        """Watch an attempt; the limit is in bytes."""
        self._limits[attempt] = limit
        if self._timer is None:
            self._timer = self._loop.call_later(_INTERVAL, self._look)

    def remove(self, attempt: Attempt) -> None:
        """Watch it no more."""
        self._limits.pop(attempt, None)

    def _look(self) -> None:
        self._timer = None
        if not self._limits:
            return
        begun = time.monotonic()
        for attempt, limit in list(self._limits.items()):
            if attempt.status is None and _holds_more(self._family.members(attempt), limit):
                self._on_excess(attempt)
        taken = time.monotonic() - begun
        self._timer = self._loop.call_later(max(_INTERVAL, taken * _SHARE_OF_TIME), self._look)


def _holds_more(pids: Iterable[int], limit: int) -> bool:
    pids = list(pids)
    return sum(map(_resident, pids)) > limit and sum(map(_proportional, pids)) > limit


def _resident(pid: int) -> int:
    fields = _contents(f"/proc/{pid}/statm").split()
    return int(fields[1]) * _PAGE if len(fields) > 1 else 0


def _proportional(pid: int) -> int:
    for line in _contents(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return _resident(pid)


def kernel_oom_kills() -> int:
    """Count the processes that the kernel has killed for want of memory."""
    _, _, rest = _contents("/proc/vmstat").partition(b"\noom_kill ")
    return int(rest.split(None, 1)[0]) if rest else 0


def _contents(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""
