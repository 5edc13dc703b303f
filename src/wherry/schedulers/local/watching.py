"""Follow the events of one app as they are written, and wake up when something changes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from typing import Any

from wherry.engine.kernel import IN_MODIFY, Watch
from wherry.schedulers.local.events import EVENTS_FILE
from wherry.schedulers.local.record import Record
from wherry.schedulers.local.settling import settle_if_lost

_LONGEST_WAIT = 1.0


class EventTail:
    """The events of one app, from the first to the last, each handed out once.

    Args:
        record: the app's record.
        journal_path: where the end is announced of an app that turns out to be lost.
    """

    def __init__(self, record: Record, journal_path: str) -> None:
        self._record = record
        self._journal = journal_path
        self._path = f"{record.directory}/{EVENTS_FILE}"
        self._fd = -1
        self._rest = b""
        self.finished = False

    def read(self) -> list[dict[str, Any]]:
        """Return the events that were written since the last call."""
        data = self._rest + self._new_bytes()
        whole, newline, self._rest = data.rpartition(b"\n")
        events = []
        for line in (whole + newline).splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            events.append(event)
            self.finished = self.finished or event["e"] == "finished"
        return events

    def check_alive(self) -> None:
        """See to it that an app which nobody supervises gets its last event."""
        if not self.finished:
            settle_if_lost(self._record, self._journal)

    def close(self) -> None:
        """Close the file; may be called many times."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _new_bytes(self) -> bytes:
        if self._fd < 0:
            try:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return b""
        pieces = []
        while piece := os.read(self._fd, 1 << 20):
            pieces.append(piece)
        return b"".join(pieces)


class Wakeup:
    """Blocks until the app's events, or files beside them, were written to.

    Args:
        record: the app's record.
        files: further files.
    """

    def __init__(self, record: Record, files: Iterable[str] = ()) -> None:
        self._watch = Watch([f"{record.directory}/{EVENTS_FILE}", *files], IN_MODIFY)

    def add(self, path: str) -> None:
        """Watch one more file, or the files of a folder."""
        self._watch.add(path)

    def wait(self, tail: EventTail, deadline: float | None = None) -> bool:
        """Block for a change; an app without a supervisor is settled meanwhile.

        Args:
            tail: the app's events.
            deadline: of the monotonic clock; none when ``None``.

        Returns:
            Whether the deadline has not passed.
        """
        seconds = _LONGEST_WAIT
        if deadline is not None:
            seconds = min(seconds, deadline - time.monotonic())
            if seconds <= 0:
                return False
        if not self._watch.wait(seconds):
            tail.check_alive()
        return True

    def close(self) -> None:
        """Stop watching; may be called many times."""
        self._watch.close()
