"""GetLogEvents, answered by us from moto's data; and what FilterLogEvents is told.

moto's own answer loses lines: its tokens are positions, and the token that it gives for an empty
stream points behind an event that has yet to come, so that a client that follows a log from its
beginning never sees the first line. Ours point behind or before an event that was given.

What AWS documents, and holds here: a page is at most 10,000 events and 1 MB; the first page is the
newest unless ``startFromHead``; both tokens always come; the end is where the same token comes
back; ``startTime`` is included, ``endTime`` is not.
https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_GetLogEvents.html
"""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_left
from typing import Any

from wherry.emulator.batch.ports import Document
from wherry.emulator.cloud import moto

MAX_EVENTS = 10_000
MAX_BYTES = 1_048_576
EVENT_OVERHEAD = 26

Key = tuple[int, int]
"""What events are ordered by: time, then the order in which they came."""


class LogsError(Exception):
    """A refusal of CloudWatch Logs.

    Args:
        code: the error's name on the wire.
        message: what the client is told.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class LogPages:
    """Answers GetLogEvents. May be called from any thread."""

    def __init__(self) -> None:
        self._ordered: weakref.WeakKeyDictionary[Any, _Ordered] = weakref.WeakKeyDictionary()

    def get(self, region: str, request: Document) -> Document:
        """Return one page.

        Args:
            region: whose logs.
            request: what GetLogEvents was given.

        Raises:
            LogsError: something is missing, wrong or unknown.
        """
        limit = _limit(request)
        stream = _stream(region, request)
        ordered = self._ordered.setdefault(stream, _Ordered())
        events = ordered.events_of(stream)
        low, high = _window(events, request.get("startTime"), request.get("endTime"))
        token = request.get("nextToken")
        if token is None:
            head = bool(request.get("startFromHead", False))
            position, forward = (low, True) if head else (high, False)
        else:
            forward, key = _parsed(str(token))
            position = min(max(bisect_left(events, key, key=_key), low), high)
        begin, end = _page(events, position, forward, limit, low, high)
        page = events[begin:end]
        return {
            "events": [event.to_response_dict() for event in page],
            "nextForwardToken": _forward(events, end, page, token),
            "nextBackwardToken": _backward(events, begin, page, token),
        }


def as_moto_takes_it(region: str, request: Document) -> Document:
    """Put a FilterLogEvents request into words that moto honours.

    moto passes over ``logStreamNamePrefix``, and gives stream after stream unless it is asked to
    interleave, which AWS has done always since 2019.

    Args:
        region: whose logs.
        request: what FilterLogEvents was given.
    """
    changed = {**request, "interleaved": True}
    prefix = changed.pop("logStreamNamePrefix", None)
    group = moto.backend("logs", region).groups.get(request.get("logGroupName"))
    if prefix and group is not None:
        names = [name for name in list(group.streams) if name.startswith(prefix)]
        changed["logStreamNames"] = names or [""]  # moto takes none for all
    return changed


class _Ordered:
    """The events of a stream in order, without sorting them again for each page."""

    def __init__(self) -> None:
        self._checked = 0
        self._last: Key = (0, 0)
        self._in_order = True
        self._lock = threading.Lock()

    def events_of(self, stream: Any) -> list[Any]:
        events: list[Any] = stream.events
        with self._lock:
            count = len(events)
            for event in events[self._checked : count]:
                key = _key(event)
                self._in_order = self._in_order and key >= self._last
                self._last = key
            self._checked = count
        return events[:count] if self._in_order else sorted(events[:count], key=_key)


def _key(event: Any) -> Key:
    return (event.timestamp, event.event_id)


def _limit(request: Document) -> int:
    limit = request.get("limit")
    if limit is None:
        return MAX_EVENTS
    if not isinstance(limit, int) or not 1 <= limit <= MAX_EVENTS:
        bound = (
            f"less than or equal to {MAX_EVENTS}"
            if isinstance(limit, int) and limit > MAX_EVENTS
            else "greater than or equal to 1"
        )
        raise LogsError(
            "InvalidParameterException",
            f"1 validation error detected: Value '{limit}' at 'limit' failed to satisfy"
            f" constraint: Member must have value {bound}",
        )
    return limit


def _stream(region: str, request: Document) -> Any:
    name, identifier = request.get("logGroupName"), request.get("logGroupIdentifier")
    if bool(name) == bool(identifier):
        raise LogsError(
            "InvalidParameterException",
            "Exactly one of logGroupName and logGroupIdentifier must be given.",
        )
    group_name = name or str(identifier).rpartition(":log-group:")[2].removesuffix(":*")
    group = moto.backend("logs", region).groups.get(group_name)
    if group is None:
        raise LogsError("ResourceNotFoundException", "The specified log group does not exist.")
    stream = group.streams.get(request.get("logStreamName"))
    if stream is None:
        raise LogsError("ResourceNotFoundException", "The specified log stream does not exist.")
    return stream


def _window(events: list[Any], start: int | None, end: int | None) -> tuple[int, int]:
    low = bisect_left(events, (start, -1), key=_key) if start else 0
    high = bisect_left(events, (end, -1), key=_key) if end is not None else len(events)
    return low, max(low, high)


def _page(
    events: list[Any], position: int, forward: bool, limit: int, low: int, high: int
) -> tuple[int, int]:
    """Take events from a position on, or up to it, until there are enough."""
    begin = end = position
    size = 0
    while end - begin < limit and (end < high if forward else begin > low):
        event = events[end if forward else begin - 1]
        size += len(event.message.encode("utf-8", "replace")) + EVENT_OVERHEAD
        if size > MAX_BYTES and begin < end:
            break
        begin, end = (begin, end + 1) if forward else (begin - 1, end)
    return begin, end


def _forward(events: list[Any], end: int, page: list[Any], given: str | None) -> str:
    """Point behind the last event of the page."""
    if page:
        ms, number = _key(page[-1])
        return f"f/{_digits((ms, number + 1))}"
    if given is not None and given.startswith("f/"):
        return given
    return f"f/{_digits(_behind(events, end))}"


def _backward(events: list[Any], begin: int, page: list[Any], given: str | None) -> str:
    """Point before the first event of the page."""
    if page:
        return f"b/{_digits(_key(page[0]))}"
    if given is not None and given.startswith("b/"):
        return given
    return f"b/{_digits(_behind(events, begin))}"


def _behind(events: list[Any], index: int) -> Key:
    if index == 0:
        return (0, 0)
    ms, number = _key(events[index - 1])
    return (ms, number + 1)


def _digits(key: Key) -> str:
    return f"{key[0]:028d}{key[1]:028d}"


def _parsed(token: str) -> tuple[bool, Key]:
    direction, _, digits = token.partition("/")
    if direction not in ("f", "b") or len(digits) != 56 or not digits.isdecimal():
        raise LogsError("InvalidParameterException", "The specified nextToken is invalid.")
    return direction == "f", (int(digits[:28]), int(digits[28:]))
