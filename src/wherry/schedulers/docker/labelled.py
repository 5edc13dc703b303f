"""Apps as the Engine alone knows them: described, listed, read and cancelled by their labels.

That is how an app is found whose record is with another user or home, or lost. What a record has
besides (why it waits, what it would still start) is not known here, and said so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from types import TracebackType
from typing import Any

from wherry.engine.docker.connection import Engine
from wherry.errors import DockerError, UnknownNameError, unknown
from wherry.home import home
from wherry.schedulers.api import (
    DescribeAppResponse,
    ListAppResponse,
    LogChunk,
    Stream,
    compiled,
)
from wherry.schedulers.docker import labels
from wherry.schedulers.docker.boxes import Box, Seen, read_box, read_line
from wherry.schedulers.docker.entries import Entries
from wherry.schedulers.docker.states import CREATED
from wherry.schedulers.lines import LogLines
from wherry.schedulers.local.events import CONTROL_FILE
from wherry.schedulers.local.logs import lines_of, lines_of_tail
from wherry.schedulers.local.supervised import post
from wherry.specs.states import is_terminal

Document = dict[str, Any]
Key = tuple[str, int]

_AT_ONCE = 8
_GRACE_SECONDS = 10
_NOT_FOUND, _NOT_MODIFIED, _CONFLICT = 404, 304, 409
_LOOK_AGAIN = 1.0
_EVENTS = ("create", "start", "die", "destroy")


class Labelled:
    """The apps of one Engine.

    Args:
        engine: the Engine; closed with this.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __enter__(self) -> Labelled:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; may be called many times."""
        self._engine.close()

    def _another(self) -> Labelled:
        """Return another way to the same Engine, for what is read later."""
        return Labelled(Engine(self._engine.address))

    # What is known.

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Tell what the Engine knows of an app; ``None`` where that is nothing.

        Raises:
            DockerError: the Engine is not there, or refuses.
        """
        boxes = self._boxes(app_id)
        if not boxes:
            return None
        return Seen(boxes, self._cancelled().get(app_id)).describe()

    def apps(self) -> list[ListAppResponse]:
        """List all apps that something is left of, newest first.

        Raises:
            DockerError: the Engine is not there, or refuses.
        """
        apps: dict[str, list[Box]] = {}
        for line in self._containers(labels.APP_ID):
            box = read_line(line)
            apps.setdefault(box.labels[labels.APP_ID], []).append(box)
        notes = self._cancelled() if apps else {}
        found = [Seen(boxes, notes.get(app_id)).line() for app_id, boxes in apps.items()]
        return sorted(found, key=lambda line: line.created_at or 0, reverse=True)

    def leftovers(self) -> Iterator[ListAppResponse]:
        """List the ended apps that were started with this home, and have no record there."""
        for line in self.apps():
            mine = line.tags.get(labels.HOME) == home()
            if mine and is_terminal(line.state) and not os.path.isdir(_record(line.app_id)):
                yield line

    def ports(self, app_id: str) -> str:
        """Say where the ports of an app's containers are published."""
        words = []
        for line in self._containers(f"{labels.APP_ID}={app_id}"):
            box = read_line(line)
            for port in line.get("Ports") or ():
                if port.get("PublicPort"):
                    place = f"{port.get('IP') or '0.0.0.0'}:{port['PublicPort']}"  # noqa: S104
                    words.append(f"{box.role}/{box.replica} {port['PrivatePort']} at {place}")
        return ", ".join(sorted(words))

    # What can be done.

    def cancel(self, app_id: str, reason: str, *, kill: bool) -> None:
        """End an app: ask its supervisor if that can be reached, else stop its containers."""
        boxes = self._boxes(app_id)
        if not boxes or is_terminal(Seen(boxes, None).state()[0]):
            return
        reason = " ".join(reason.split()) or "cancelled"
        control = os.path.join(boxes[0].labels.get(labels.HOME, ""), "apps", app_id, CONTROL_FILE)
        message = f"{'kill' if kill else 'cancel'}\t{reason}\n".encode()[:4096]
        if os.path.isabs(control) and _posted(control, message):
            return
        self._note(app_id, reason)
        self._each(
            ("POST", f"/containers/{box.id}/stop", {"t": 0 if kill else _GRACE_SECONDS})
            for box in boxes
            if not is_terminal(box.state)
        )

    def remove(self, app_id: str) -> None:
        """Remove all that is left of an app: containers, networks, and the note of its end."""
        chosen = {"filters": {"label": [f"{labels.APP_ID}={app_id}"]}}
        containers = self._containers(f"{labels.APP_ID}={app_id}")
        self._each(
            ("DELETE", f"/containers/{one['Id']}", {"force": True, "v": True}) for one in containers
        )
        networks = self._engine.request("GET", "/networks", chosen)
        self._each(("DELETE", f"/networks/{one['Id']}", None) for one in networks)
        volumes = self._engine.request("GET", "/volumes", chosen).get("Volumes") or ()
        self._each(("DELETE", f"/volumes/{one['Name']}", None) for one in volumes)

    def wait_for_change(self, app_id: str, timeout: float, *, until_end: bool) -> None:
        """Block until something happened to an app's containers, or for ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        filters = {"label": [f"{labels.APP_ID}={app_id}"], "event": list(_EVENTS)}
        with self._engine.stream("GET", "/events", {"filters": filters}) as events:
            while (seconds := deadline - time.monotonic()) > 0:
                answer = self.describe(app_id)
                if answer is None or is_terminal(answer.state):
                    return
                try:
                    events.read(min(seconds, _LOOK_AGAIN) if until_end else seconds)
                except TimeoutError:
                    continue
                if not until_end:
                    return

    # Logs.

    def lines(
        self,
        app_id: str,
        role: str,
        k: int,
        stream: Stream,
        *,
        regex: str | None,
        since: datetime | None,
        until: datetime | None,
        should_tail: bool,
        attempt: int | None,
    ) -> LogLines:
        """Read the lines of one replica; the arguments are those of `Scheduler.log_iter`.

        Raises:
            UnknownNameError: the app has no such role, replica or attempt.
        """
        pattern = compiled(regex)
        self._require(app_id, role, k, attempt)
        end = None if until is None else until.timestamp()
        span = {
            "since": None if since is None else f"{since.timestamp():.6f}",
            "until": None if end is None else f"{end:.6f}",
        }
        since_alone = {"since": span["since"]}  # what cuts the lines of a tail sees to its end

        def start() -> Iterator[str]:
            with self._another() as own:
                if should_tail:
                    growing = own.tail(app_id, (role, k), stream, attempt, since_alone)
                    lines = lines_of_tail(growing, end)
                else:
                    lines = (
                        line
                        for box in own.attempts(app_id, (role, k), attempt)
                        for line in lines_of(own.pieces(box, stream, span), None)
                    )
                for line in lines:
                    text = line.decode(errors="backslashreplace")
                    if pattern is None or pattern.search(text):
                        yield text

        return LogLines(start)

    def log_bytes(
        self, app_id: str, role: str, k: int, stream: Stream, *, attempt: int | None
    ) -> Iterator[bytes]:
        """Read what one replica has written so far, in large pieces."""
        self._require(app_id, role, k, attempt)
        return self._all_pieces(app_id, (role, k), stream, attempt)

    def _all_pieces(
        self, app_id: str, key: Key, stream: Stream, attempt: int | None
    ) -> Iterator[bytes]:
        with self._another() as own:
            for box in own.attempts(app_id, key, attempt):
                yield from own.pieces(box, stream, {})

    def follow(self, app_id: str, stream: Stream) -> Iterator[LogChunk]:
        """Read what all replicas write, as they write it, until the app's last byte."""
        import queue
        import threading

        with self:
            keys = Seen(self._boxes(app_id), None).expected()
            if len(keys) == 1:
                for piece in self.tail(app_id, keys[0], stream, None, {}):
                    if piece:
                        yield LogChunk(*keys[0], piece)
                return
        chunks: queue.SimpleQueue[LogChunk | None] = queue.SimpleQueue()

        def read(key: Key) -> None:
            try:
                with self._another() as own:
                    for lines in _whole_lines(own.tail(app_id, key, stream, None, {})):
                        chunks.put(LogChunk(*key, lines))
            finally:
                chunks.put(None)

        for key in keys:
            threading.Thread(target=read, args=(key,), daemon=True).start()
        left = len(keys)
        while left:
            chunk = chunks.get()
            if chunk is None:
                left -= 1
            else:
                yield chunk

    def tail(
        self, app_id: str, key: Key, stream: Stream, attempt: int | None, span: Document
    ) -> Iterator[bytes | None]:
        """Read one replica's log as it grows; ``None`` after each attempt."""
        read: set[str] = set()
        while True:
            answer = self.describe(app_id)
            for box in self.attempts(app_id, key, attempt):
                if box.id not in read and box.word != CREATED:
                    read.add(box.id)
                    yield from self._to_its_end(box, stream, span)
                    yield None
                    break
            else:
                if answer is None or is_terminal(answer.state):
                    return
                self.wait_for_change(app_id, _LOOK_AGAIN, until_end=False)

    def _to_its_end(self, box: Box, stream: Stream, span: Document) -> Iterator[bytes]:
        had = 0
        if not is_terminal(box.state):
            for piece in self.pieces(box, stream, {**span, "follow": True}):
                had += len(piece)
                yield piece
        # An Engine that follows may miss what came just before the end.
        for piece in self.pieces(box, stream, span):
            fresh = piece[had:]
            had = max(0, had - len(piece))
            if fresh:
                yield fresh

    def pieces(self, box: Box, stream: Stream, params: Document) -> Iterator[bytes]:
        """Read what the Engine has kept of one container's output, in large pieces."""
        wanted = {
            "stdout": stream is not Stream.STDERR,
            "stderr": stream is not Stream.STDOUT,
            **params,
        }
        entries = Entries()
        try:
            with self._engine.stream("GET", f"/containers/{box.id}/logs", wanted) as answer:
                for data in answer:
                    yield entries.feed(data)
        except DockerError as error:
            if error.status != _NOT_FOUND:  # It was removed meanwhile.
                raise

    def attempts(self, app_id: str, key: Key, attempt: int | None) -> list[Box]:
        """Return the containers of one replica in their order, or the one of an attempt."""
        mine = [box for box in self._boxes(app_id) if (box.role, box.replica) == key]
        chosen = [box for box in mine if attempt is None or box.attempt == attempt]
        return sorted(chosen, key=lambda box: box.attempt)

    def _require(self, app_id: str, role: str, k: int, attempt: int | None) -> None:
        boxes = self._boxes(app_id)
        counts: dict[str, int] = {}
        for name, index in Seen(boxes, None).expected():
            counts[name] = max(counts.get(name, 0), index + 1)
        if role not in counts:
            raise UnknownNameError(unknown(f"role of {app_id}:", role, counts))
        if not 0 <= k < counts[role]:
            last = counts[role] - 1
            choice = "only replica 0" if last == 0 else f"replicas 0 to {last}"
            raise UnknownNameError(f"role {role!r} of {app_id} has no replica {k}; it has {choice}")
        made = max((b.attempt for b in boxes if (b.role, b.replica) == (role, k)), default=0)
        if attempt is not None and not 1 <= attempt <= made:
            raise UnknownNameError(
                f"{role}/{k} of {app_id} has no attempt {attempt}; it has made {made}, counted "
                "from 1"
            )

    # The Engine.

    def _containers(self, label: str) -> list[Document]:
        found: list[Document] = self._engine.request(
            "GET", "/containers/json", {"all": True, "filters": {"label": [label]}}
        )
        return [one for one in found if one.get("Labels", {}).get(labels.APP_ID)]

    def _boxes(self, app_id: str) -> list[Box]:
        ids = [one["Id"] for one in self._containers(f"{labels.APP_ID}={app_id}")]
        paths = (("GET", f"/containers/{one}/json", None) for one in ids)
        return [read_box(one) for one in self._each(paths)]

    def _cancelled(self) -> dict[str, str]:
        """Return why apps were cancelled by somebody without a record of them."""
        answer = self._engine.request("GET", "/volumes", {"filters": {"label": [labels.CANCELLED]}})
        notes = [one.get("Labels") or {} for one in answer.get("Volumes") or ()]
        return {note.get(labels.APP_ID, ""): note.get(labels.CANCELLED, "") for note in notes}

    def _note(self, app_id: str, reason: str) -> None:
        note = {labels.APP_ID: app_id, labels.CANCELLED: reason}
        # The first note stays: the Engine makes no second volume of a name.
        if app_id not in self._cancelled():
            body = {"Name": f"wherry-cancelled-{app_id}", "Labels": note}
            self._engine.request("POST", "/volumes/create", None, body)

    def _each(self, asked: Iterable[tuple[str, str, Document | None]]) -> list[Document]:
        """Ask for many things, a few at a time; what is gone or settled already is passed over."""
        answers = []
        waiting = [*asked]
        while waiting:
            now, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
            pending = [self._engine.begin(*one) for one in now]
            for one in pending:
                try:
                    answers.append(one.finish())
                except DockerError as error:
                    if error.status not in (_NOT_FOUND, _NOT_MODIFIED, _CONFLICT):
                        raise
        return answers


def _record(app_id: str) -> str:
    return os.path.join(home(), "apps", app_id)


def _posted(path: str, message: bytes) -> bool:
    try:
        return post(path, message)
    except OSError:
        return False  # Somebody else's.


def _whole_lines(pieces: Iterator[bytes | None]) -> Iterator[bytes]:
    kept = b""
    for piece in pieces:
        if piece is None:
            if kept:
                yield kept + b"\n"
            kept = b""
            continue
        lines, newline, kept = (kept + piece).rpartition(b"\n")
        if newline:
            yield lines + newline
