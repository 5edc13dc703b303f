"""One thread in which all that concerns tasks happens in turn, and which keeps the alarms."""

from __future__ import annotations

import heapq
import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable

_log = logging.getLogger(__name__)

Action = Callable[[], None]


class Keeper:
    """Runs actions one after the other, in a thread that lives from `open` to `close`."""

    def __init__(self) -> None:
        self._actions: queue.SimpleQueue[Action | None] = queue.SimpleQueue()
        self._alarms: list[tuple[float, int, Action]] = []
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="docker-tasks", daemon=True)
        self._thread.start()

    def do(self, action: Action) -> None:
        """Run an action soon, from any thread; before `open`, it waits for it."""
        self._actions.put(action)

    def later(self, seconds: float, action: Action) -> None:
        """Run an action after so many seconds; only for actions to call."""
        heapq.heappush(self._alarms, (time.monotonic() + seconds, next(self._numbers), action))

    def close(self) -> None:
        """Run what was given before, and end the thread; alarms are forgotten."""
        if self._thread is None:
            return
        self._actions.put(None)
        self._thread.join()
        self._thread = None

    def _run(self) -> None:
        while True:
            action = self._next()
            if action is None:
                return
            try:
                action()
            except Exception:  # noqa: BLE001 — one bad action must not stop the others
                _log.exception("an action of the Docker engine failed")

    def _next(self) -> Action | None:
        pause = self._alarms[0][0] - time.monotonic() if self._alarms else None
        try:
            # An alarm that is due goes first, so that many actions cannot hold it up.
            if pause is None or pause > 0:
                return self._actions.get(timeout=pause)
        except queue.Empty:
            pass
        return heapq.heappop(self._alarms)[2]
