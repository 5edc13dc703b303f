"""What CloudWatch Logs keeps are events; what programs wrote are lines. Here one becomes the other.

The awslogs driver makes an event of each line, without its newline. It drops empty lines, replaces
what is not UTF-8, and cuts lines of more than 256 KB; only the last can be undone. `Recent` tells
events that were handed out from those that were not, when the same ones are read twice. Nothing
here makes calls.

Sources: moby/moby, daemon/logger/awslogs (``processEvent``, ``maximumBytesPerEvent``) and
daemon/logger/copier.go (parts of a line follow one another).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from wherry.aws.documents import Document

Milliseconds = int
"""Since the epoch, as CloudWatch Logs counts, or between two such moments."""

_OVERHEAD = 26
_FULL = (262_144 - _OVERHEAD, 1_048_576 - _OVERHEAD)
"""The bytes of an event at which the driver cuts a line; CloudWatch has allowed 1 MB since 2025."""

_CHARACTER = 4
_LONE_SURROGATES = re.compile("[\ud800-\udfff]")


class Event(NamedTuple):
    """One event.

    Args:
        at: when it was written, by the clock of its host.
        text: what was written.
        ingested: when it reached CloudWatch Logs, by the clock of AWS.
    """

    at: Milliseconds
    text: str
    ingested: Milliseconds


def event_of(document: Document) -> Event:
    """Read an event of GetLogEvents or FilterLogEvents."""
    at = int(document.get("timestamp") or 0)
    ingested = document.get("ingestionTime")
    return Event(at, str(document.get("message", "")), at if ingested is None else int(ingested))


class Lines:
    """Makes lines of the events of one stream, in their order.

    A program that writes lines of exactly the length at which the driver cuts will see two of them
    as one; CloudWatch Logs does not keep what would tell them apart.
    """

    def __init__(self) -> None:
        self._begun: list[str] = []

    def feed(self, event: Event) -> list[str]:
        r"""Return the lines that end with an event, each with its ``\n``."""
        text = event.text
        if not text.isascii():
            text = _LONE_SURROGATES.sub("\ufffd", text)
        if _is_cut(text):
            self._begun.append(text)
            return []
        if self._begun:
            text = "".join((*self._begun, text))
            self._begun.clear()
        if "\n" not in text:
            return [text + "\n"]
        return _split(text)

    def rest(self) -> list[str]:
        """Return the line that has begun, when nothing follows any more."""
        if not self._begun:
            return []
        text = "".join(self._begun)
        self._begun.clear()
        return _split(text)


def _is_cut(text: str) -> bool:
    """Tell whether the driver has probably cut a line here; it never cuts inside a character."""
    if len(text) * _CHARACTER < _FULL[0] - _CHARACTER:
        return False
    size = len(text.encode())
    return any(full - _CHARACTER < size <= full for full in _FULL)


def _split(text: str) -> list[str]:
    """Split at newlines alone; drivers with a pattern for multi-line events keep them inside."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line + "\n" for line in lines]


class Recent:
    """The events of one stream that were handed out lately, so that none is handed out twice.

    Args:
        window: how far behind the newest one they are remembered; events that are older count as
            handed out.
    """

    def __init__(self, window: Milliseconds) -> None:
        self.window = window
        self.newest: Milliseconds | None = None
        self._seconds: dict[int, dict[int, int]] = {}
        self._oldest_second = 0

    def add(self, event: Event) -> None:
        """Take note of an event that is handed out."""
        second = event.at // 1000
        counter = self._seconds.get(second)
        if counter is None:
            counter = self._seconds[second] = {}
        identity = hash(event)
        counter[identity] = counter.get(identity, 0) + 1
        if self.newest is None or event.at > self.newest:
            self.newest = event.at
            self._forget((event.at - self.window) // 1000)

    def _forget(self, before: int) -> None:
        if before <= self._oldest_second:
            return
        self._oldest_second = before
        for second in [each for each in self._seconds if each < before]:
            del self._seconds[second]

    @property
    def since(self) -> Milliseconds | None:
        """From where on a second reading tells new events from old ones."""
        if self.newest is None:
            return None
        return max(self._oldest_second * 1000, self.newest - self.window)

    def comparison(self) -> Callable[[Event], bool]:
        """Begin a second reading from `since` on, or from earlier.

        Returns:
            Tells of each event, in any order, whether it is a new one.
        """
        since = self.since
        if since is None:
            return _everything
        left = {second: counter.copy() for second, counter in self._seconds.items()}

        def is_new(event: Event) -> bool:
            if event.at < since:
                return False
            counter = left.get(event.at // 1000)
            identity = hash(event)
            left_over = 0 if counter is None else counter.get(identity, 0)
            if counter is None or left_over <= 0:
                return True
            counter[identity] = left_over - 1
            return False

        return is_new


def _everything(_event: Event) -> bool:
    return True
