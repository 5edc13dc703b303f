"""Read the log files of local apps: lines, ranges of time, tails, and everything at once."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime

from wherry.engine.output import COMBINED, STDERR, STDOUT, TIMELINE, TIMELINE_RECORD
from wherry.schedulers.api import LogChunk, Stream, compiled
from wherry.schedulers.lines import LogLines
from wherry.schedulers.local.events import log_prefix
from wherry.schedulers.local.record import Record, read_events
from wherry.schedulers.local.watching import EventTail, Wakeup

FILES = {Stream.COMBINED: COMBINED, Stream.STDOUT: STDOUT, Stream.STDERR: STDERR}
_COLUMN = {COMBINED: 1, STDOUT: 2, STDERR: 3}
_CHUNK = 1 << 20
_RESOLUTION = 0.01


def replica_lines(
    record: Record,
    role: str,
    k: int,
    stream: Stream,
    *,
    journal_path: str,
    regex: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    should_tail: bool = False,
    attempt: int | None = None,
) -> LogLines:
    """Read the lines of one replica, over all its attempts or one.

    The arguments are those of `Scheduler.log_iter`.
    """
    pattern = compiled(regex)
    span = (_seconds(since), _seconds(until))

    def start() -> Iterator[str]:
        name = FILES[stream]
        if should_tail:
            pieces = _tail_pieces(record, role, k, name, journal_path, span[0], attempt)
            lines = lines_of_tail(pieces, span[1])
        else:
            lines = _lines_so_far(record, role, k, name, span, attempt)
        for line in lines:
            text = line.decode(errors="backslashreplace")
            if pattern is None or pattern.search(text):
                yield text

    return LogLines(start)


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def replica_bytes(
    record: Record, role: str, k: int, stream: Stream, attempt: int | None = None
) -> Iterator[bytes]:
    """Read what one replica has written so far, in large pieces."""
    for prefix in _prefixes(record, role, k, attempt):
        yield from _pieces(f"{prefix}.{FILES[stream]}", 0, None)


def follow_all(record: Record, stream: Stream, journal_path: str) -> Iterator[LogChunk]:
    """Read what all replicas write, as they write it, until the app's last byte."""
    roles = record.plain_app.get("roles", ())
    alone = sum(role.get("num_replicas", 1) for role in roles) == 1
    tail, wakeup = EventTail(record, journal_path), Wakeup(record)
    followed: dict[tuple[str, int], _Followed] = {}
    try:
        while True:
            finished = tail.finished
            for event in tail.read():
                if event["e"] == "started":
                    one = _Followed(record, event, FILES[stream], whole_lines=not alone)
                    followed[one.role, one.k] = one
                    wakeup.add(one.folder)
                elif event["e"] == "ended" and (event["role"], event["k"]) in followed:
                    one = followed.pop((event["role"], event["k"]))
                    yield from one.rest()
            for one in followed.values():
                yield from one.new()
            if finished:
                for one in followed.values():
                    yield from one.rest()
                return
            if not tail.finished:
                wakeup.wait(tail)
    finally:
        tail.close()
        wakeup.close()
        for one in followed.values():
            one.close()


class _Followed:
    """The log file of one running attempt.

    Args:
        record: the app's record.
        event: the event of its start.
        name: which file.
        whole_lines: whether an unfinished line is kept back until its end comes.
        since: pass over what was written before (seconds since the epoch).
    """

    def __init__(
        self,
        record: Record,
        event: dict[str, object],
        name: str,
        *,
        whole_lines: bool,
        since: float | None = None,
    ) -> None:
        self.role, self.k = str(event["role"]), int(str(event["k"]))
        self._prefix = log_prefix(record.log_dir, self.role, self.k, int(str(event["n"])))
        self.folder = os.path.dirname(self._prefix)
        self._name = name
        self._whole_lines = whole_lines
        self._since = since
        self._kept = b""
        self._fd = -1

    def new(self) -> Iterator[LogChunk]:
        """Hand out what was written since the last call."""
        if self._fd < 0:
            self._open()
        while self._fd >= 0 and (data := os.read(self._fd, _CHUNK)):
            if self._whole_lines:
                data, newline, self._kept = (self._kept + data).rpartition(b"\n")
                data += newline
            if data:
                yield LogChunk(self.role, self.k, data)

    def _open(self) -> None:
        """Open the file, which is made with the first bytes, and pass over what is too old."""
        try:
            self._fd = os.open(f"{self._prefix}.{self._name}", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        if self._since is not None:
            begin, _ = _range_of(self._prefix, self._name, self._since, None)
            os.lseek(self._fd, begin, os.SEEK_SET)

    def rest(self) -> Iterator[LogChunk]:
        """Hand out the rest of a file that is complete, and close it."""
        yield from self.new()
        kept, self._kept = self._kept, b""
        if kept:
            yield LogChunk(self.role, self.k, kept + b"\n")
        self.close()

    def close(self) -> None:
        """Close the file; may be called many times."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _prefixes(record: Record, role: str, k: int, attempt: int | None) -> list[str]:
    """List what the paths of a replica's files begin with, attempt by attempt."""
    numbers = [attempt] if attempt is not None else range(1, attempts_made(record, role, k) + 1)
    return [log_prefix(record.log_dir, role, k, number) for number in numbers]


def attempts_made(record: Record, role: str, k: int) -> int:
    """Count the attempts that a replica has made so far."""
    events = read_events(record.directory)
    mine = (event for event in events if event.get("role") == role and event.get("k") == k)
    return max((event["n"] for event in mine if "n" in event), default=0)


def _lines_so_far(
    record: Record,
    role: str,
    k: int,
    name: str,
    span: tuple[float | None, float | None],
    attempt: int | None,
) -> Iterator[bytes]:
    for prefix in _prefixes(record, role, k, attempt):
        begin, end = _range_of(prefix, name, *span)
        pieces = _pieces(f"{prefix}.{name}", begin, None)
        yield from lines_of(pieces, None if end is None else end - begin)


def lines_of(pieces: Iterator[bytes], until: int | None) -> Iterator[bytes]:
    """Cut bytes into lines; a line that begins at or behind ``until`` is left out."""
    kept, position = [b""], 0
    for piece in pieces:
        whole, newline, rest = piece.rpartition(b"\n")
        if not newline:
            kept.append(piece)
            continue
        for line in _split(b"".join([*kept, whole, newline])):
            if until is not None and position >= until:
                return
            position += len(line)
            yield line
        kept = [rest]
    last = b"".join(kept)
    if last and (until is None or position < until):
        yield last


def _split(block: bytes) -> list[bytes]:
    """Split at newlines alone (``splitlines`` would split at ``\\r`` too), and keep them."""
    return [line + b"\n" for line in block[:-1].split(b"\n")]


def _pieces(path: str, begin: int, end: int | None) -> Iterator[bytes]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        position = begin
        while end is None or position < end:
            most = _CHUNK if end is None else min(_CHUNK, end - position)
            data = os.pread(fd, most, position)
            if not data:
                return
            position += len(data)
            yield data
    finally:
        os.close(fd)


def _range_of(
    prefix: str, name: str, since: float | None, until: float | None
) -> tuple[int, int | None]:
    """Find the bytes of a file that were written in a span of time, to a hundredth of a second.

    The first line may have begun before ``since``; it is left out.
    """
    begin, end = 0, None
    if since is None and until is None:
        return begin, end
    column = _COLUMN[name]
    marks = _marks(prefix)
    size = _size(f"{prefix}.{name}")
    if since is not None:
        later = (int(mark[column]) for mark in marks if mark[0] > since - _RESOLUTION)
        begin = _line_start(f"{prefix}.{name}", next(later, size))
    if until is not None:
        end = next((int(mark[column]) for mark in marks if mark[0] >= until), None)
    return begin, end


def _marks(prefix: str) -> list[tuple[float, int, int, int]]:
    """Read the timeline; without one, all was written when the combined log was."""
    try:
        with open(f"{prefix}.{TIMELINE}", "rb") as file:
            data = file.read()
    except FileNotFoundError:
        try:
            return [(os.stat(f"{prefix}.{COMBINED}").st_mtime, 0, 0, 0)]
        except FileNotFoundError:
            return []
    usable = len(data) - len(data) % TIMELINE_RECORD.size
    return list(TIMELINE_RECORD.iter_unpack(data[:usable]))


def _line_start(path: str, position: int) -> int:
    """Return where the first line begins at or behind a position."""
    if position == 0:
        return 0
    for piece in _pieces(path, position - 1, None):
        newline = piece.find(b"\n")
        if newline >= 0:
            return position + newline
        position += len(piece)
    return position


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _tail_pieces(
    record: Record,
    role: str,
    k: int,
    name: str,
    journal_path: str,
    since: float | None,
    attempt: int | None,
) -> Iterator[bytes | None]:
    """Read one replica's file as it grows; ``None`` after each attempt."""
    tail, wakeup = EventTail(record, journal_path), Wakeup(record)
    current: _Followed | None = None
    try:
        while True:
            finished = tail.finished
            for event in tail.read():
                mine = event.get("role") == role and event.get("k") == k
                if not mine or (attempt is not None and event.get("n") != attempt):
                    continue
                if event["e"] == "started":
                    current = _Followed(record, event, name, whole_lines=False, since=since)
                    wakeup.add(current.folder)
                elif event["e"] == "ended" and current is not None:
                    yield from (chunk.data for chunk in current.rest())
                    yield None
                    current = None
            if current is not None:
                yield from (chunk.data for chunk in current.new())
            if finished:
                return
            if not tail.finished:
                wakeup.wait(tail)
    finally:
        tail.close()
        wakeup.close()
        if current is not None:
            current.close()


def lines_of_tail(pieces: Iterator[bytes | None], until: float | None) -> Iterator[bytes]:
    """Cut a growing log into lines; a progress bar's unfinished line is handed out in parts."""
    kept = b""
    for piece in pieces:
        if until is not None and time.time() >= until:
            return
        if piece is None:
            if kept:
                yield kept
            kept = b""
            continue
        block, newline, kept = (kept + piece).rpartition(b"\n")
        if newline:
            yield from _split(block + newline)
        shown = kept.rfind(b"\r") + 1
        if shown and shown < len(kept):
            yield kept[:shown]
            kept = kept[shown:]
    if kept:
        yield kept
