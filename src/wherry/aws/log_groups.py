"""Reading many streams of one log group at once: a hundred in each call.

FilterLogEvents takes the names of up to 100 streams and gives their events from a time on. It has
no token to go on with later, so that each look begins a little earlier than the last one ended, and
passes over what was handed out. How much earlier follows from how much is written: minutes where
that is little, seconds where it is much.

What reaches CloudWatch later than that is not seen by such a look. A stream that was quiet for
longer is therefore looked at from its own last event on before anything of it is handed out, and so
is every stream at its end (`SharedStream.rewind`). Since a driver sends what one container writes
in order, nothing is lost, however late it comes.

Source: the API model, FilterLogEvents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from wherry.aws.documents import Document
from wherry.aws.log_events import Event, Milliseconds, Recent, event_of
from wherry.aws.logs import GROUP, Call, answered_at, missing
from wherry.aws.pacing import Seconds
from wherry.errors import AwsError

AT_ONCE = 100
"""Streams that FilterLogEvents takes."""

_WINDOW: tuple[Milliseconds, Milliseconds] = (15_000, 300_000)
"""How far back a look reaches at least and at most. The awslogs driver sends every five seconds."""

_OWN_WINDOW: Milliseconds = 60_000
"""How far apart the events of one stream may arrive in the wrong order."""

_AGAIN = (250, 1000)
"""How many events that are known a look may bring before it reaches back further, or less far."""

_TRIES = 40
"""How many calls a look may spend on finding out which of its streams are missing."""


class SharedStream:
    """One stream among others.

    Args:
        name: its name.
        begin: before this time it has nothing.
    """

    def __init__(self, name: str, begin: Milliseconds = 0) -> None:
        self.name = name
        self.floor = begin
        """All before this time was handed out."""
        self.missing = ""
        """What is not there, since the last look: see `wherry.aws.logs.missing`."""
        self.again = False
        """Whether it has something new that only the next look, which is due at once, will show."""
        self.recent = Recent(_OWN_WINDOW)
        self._begin = begin
        self._behind: Milliseconds | None = None

    @property
    def silent(self) -> bool:
        """Whether nothing was read of it yet."""
        return self.recent.newest is None

    @property
    def last(self) -> Milliseconds:
        """The time of its own last event."""
        newest = self.recent.newest
        return self._begin if newest is None else newest

    @property
    def behind(self) -> Milliseconds:
        """How far its host's clock is behind that of AWS, at most."""
        return max(0, self._behind or 0)

    def take(self, event: Event) -> None:
        """Take note of an event that is handed out."""
        self.recent.add(event)
        delay = event.ingested - event.at
        self._behind = delay if self._behind is None else min(self._behind, delay)

    def rewind(self) -> None:
        """Have the next look begin before its own last event, whatever other streams have."""
        since = self.recent.since
        self.floor = self._begin if since is None else since


@dataclass
class _Look:
    """What is known in the course of one look.

    Args:
        start: where it begins.
        now: when it was begun, by the clock of AWS.
        is_new: tells new events of each stream from known ones.
        sure: the streams of which it sees all that was not handed out.
        unsure: the others, as far as there is something new of them.
        known: how many events were passed over.
    """

    start: Milliseconds
    now: Milliseconds
    is_new: dict[str, Callable[[Event], bool]]
    sure: set[str]
    unsure: set[str] = field(default_factory=set)
    known: int = 0


class GroupReader:
    """Reads streams of one log group.

    Args:
        call: asks CloudWatch Logs.
        group: the log group.
    """

    def __init__(self, call: Call, group: str) -> None:
        self.group = group
        self._call = call
        self._window = _WINDOW[1]
        self.calls = 0
        """How many calls were made."""
        self.heard_at: Seconds | None = None
        """When CloudWatch Logs answered last, by the clock of AWS; seconds since the epoch."""

    def look(self, streams: Sequence[SharedStream]) -> Iterator[tuple[SharedStream, Event]]:
        """Yield the new events of some streams; those of one stream in their order.

        Afterwards `SharedStream.missing` and `SharedStream.again` say which were not there, and
        which have to be looked at again.

        Args:
            streams: any number of them.

        Raises:
            AwsError: AWS refused, or does not answer.
        """
        # Those that begin at about the same time together: a call begins at the earliest.
        ordered = sorted(streams, key=lambda each: each.floor)
        for start in range(0, len(ordered), AT_ONCE):
            yield from self._look_safely(ordered[start : start + AT_ONCE], [_TRIES])

    def _look_safely(
        self, streams: Sequence[SharedStream], tries: list[int]
    ) -> Iterator[tuple[SharedStream, Event]]:
        """Look at some streams; where one is missing, at each half of them."""
        try:
            yield from self._look(streams)
            return
        except AwsError as error:
            what = missing(error)
            if not what:
                raise
        tries[0] -= 2
        if what == GROUP or len(streams) == 1 or tries[0] < 0:
            for stream in streams:
                stream.missing = what
            return
        middle = len(streams) // 2
        for half in (streams[:middle], streams[middle:]):
            yield from self._look_safely(half, tries)

    def _look(self, streams: Sequence[SharedStream]) -> Iterator[tuple[SharedStream, Event]]:
        by_name = {stream.name: stream for stream in streams}
        look = self._begin(streams)
        for document in self._events(by_name, look):
            stream = by_name.get(str(document.get("logStreamName", "")))
            if stream is None:
                continue
            event = event_of(document)
            if self._is_wanted(stream, event, look):
                stream.take(event)
                yield stream, event
        self._finish(streams, look)

    def _begin(self, streams: Sequence[SharedStream]) -> _Look:
        start = min(stream.floor for stream in streams)
        for stream in streams:
            stream.again = False
            stream.missing = ""
        return _Look(
            start,
            0,
            {stream.name: stream.recent.comparison() for stream in streams},
            {stream.name for stream in streams if start <= stream.last},
        )

    def _events(self, names: Iterable[str], look: _Look) -> Iterator[Document]:
        params: Document = {"logGroupName": self.group, "logStreamNames": list(names)}
        if look.start:
            params["startTime"] = look.start
        while True:
            self.calls += 1
            answer = self._call("FilterLogEvents", **params)
            self.heard_at = answered_at(answer)
            look.now = look.now or int((self.heard_at or 0) * 1000)
            yield from answer.get("events") or ()
            token = answer.get("nextToken")
            if not token or token == params.get("nextToken"):
                return
            params["nextToken"] = token

    def _is_wanted(self, stream: SharedStream, event: Event, look: _Look) -> bool:
        if not look.is_new[stream.name](event):
            look.known += 1
            return False
        if stream.name not in look.sure:
            look.unsure.add(stream.name)
            return False
        return True

    def _finish(self, streams: Sequence[SharedStream], look: _Look) -> None:
        """Note how far the streams were read, and reach less far back when that is too much."""
        least, most = _WINDOW
        if look.known > _AGAIN[1]:
            self._window = max(least, self._window // 2)
        elif look.known < _AGAIN[0]:
            self._window = min(most, self._window * 2)
        for stream in streams:
            stream.again = stream.name in look.unsure
            if stream.again:
                stream.rewind()
            else:
                # What comes after the look was begun is no older than this.
                floor = look.now - self._window - stream.behind
                stream.floor = max(stream.floor, floor)
