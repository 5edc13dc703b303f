"""Requests to the Engine under the supervisor's loop: many in flight, none waited for."""

from __future__ import annotations

import socket
from collections import deque

from wherry.engine.docker.connection import API_VERSION, decoded, dial, encoded
from wherry.engine.docker.http import Answer, BrokenAnswerError, query, request_bytes
from wherry.engine.docker.refusals import hinted, needed_version, silent, words_of
from wherry.errors import DockerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from wherry.engine.docker.connection import Body
    from wherry.engine.docker.http import Params
    from wherry.engine.loop import Loop, Timer

PATIENCE = 120.0
"""Seconds that the Engine may take for one answer; starting many containers keeps it busy."""

_DIAL_SECONDS = 2.0
_MOST = 8
_MOST_IDLE = 4
_READ_SIZE = 1 << 18
_UPGRADE = {"Connection": "Upgrade", "Upgrade": "tcp"}
_REFUSED_FROM = 400
_WOULD_BLOCK = (BlockingIOError, InterruptedError)


class Reply:
    """What became of a request.

    Attributes:
        status: of HTTP; 0 when the Engine gave no answer.
        document: what it answered.
        words: what it refused with, or why there is no answer.
    """

    __slots__ = ("document", "status", "words")

    def __init__(self, status: int, document: Any = None, words: str = "") -> None:
        self.status = status
        self.document = document
        self.words = words

    @property
    def ok(self) -> bool:
        """Whether the Engine did as it was asked."""
        return 0 < self.status < _REFUSED_FROM

    @property
    def lost(self) -> bool:
        """Whether nobody knows what the Engine did."""
        return self.status == 0


class _Request:
    """One request, and whom to tell of its answer."""

    __slots__ = ("body", "method", "on_reply", "patience", "target")

    def __init__(
        self,
        method: str,
        target: str,
        body: bytes | None,
        on_reply: Callable[[Reply], None],
        patience: float | None,
    ) -> None:
        self.method = method
        self.target = target
        self.body = body
        self.on_reply = on_reply
        self.patience = patience


class Calls:
    """Asks one Engine.

    Args:
        loop: what calls back; never before a call of this object has returned.
        address: as `wherry.engine.docker.address.engine_address` gives it.
        most: how many requests are in flight; the others queue.
    """

    def __init__(self, loop: Loop, address: str, most: int = _MOST) -> None:
        self.loop = loop
        self.address = address
        self.version = API_VERSION
        self._most = most
        self._in_flight = 0
        self._queue: deque[_Request] = deque()
        self._idle: list[socket.socket] = []

    def ask(
        self,
        method: str,
        path: str,
        on_reply: Callable[[Reply], None],
        params: Params | None = None,
        body: Body = None,
        *,
        patience: float | None = PATIENCE,
        urgent: bool = False,
    ) -> None:
        """Ask for something.

        Args:
            method, path, params, body: as for `wherry.engine.docker.connection.Engine.request`.
            on_reply: told of the answer, or that there is none.
            patience: seconds to wait for it; ``None`` waits for ever.
            urgent: whether it does not queue: stopping, and what the Engine answers when
                something ends.
        """
        request = _Request(method, path + query(params), encoded(body), on_reply, patience)
        if urgent:
            _Exchange(self, request, counted=False).begin()
        else:
            self._queue.append(request)
            self._next()

    def open(
        self,
        method: str,
        path: str,
        on_open: Callable[[Reply], None],
        on_data: Callable[[bytes], None],
        on_end: Callable[[], None],
        params: Params | None = None,
    ) -> Tap:
        """Ask for an answer that is read as it comes.

        Args:
            method, path, params: as for `ask`.
            on_open: told that it begins, or why not.
            on_data: told of its bytes.
            on_end: told of its end, however that came; not after `Tap.close`.
        """
        request = _Request(method, path + query(params), None, on_open, PATIENCE)
        tap = Tap(self, request, on_data, on_end)
        tap.begin()
        return tap

    def close(self) -> None:
        """Close the connections that are kept for later."""
        while self._idle:
            self._idle.pop().close()

    # For exchanges.

    def message(self, request: _Request, headers: Mapping[str, str] | None = None) -> bytes:
        """Return a request as it is sent."""
        target = f"/v{self.version}{request.target}"
        return request_bytes(request.method, target, request.body, headers)

    def line(self) -> tuple[socket.socket, bool]:
        """Return a connection, and whether it was used before."""
        if self._idle:
            return self._idle.pop(), True
        return dial(self.address, _DIAL_SECONDS), False

    def landed(self, line: socket.socket | None, *, counted: bool) -> None:
        """Take a connection back, if it can still be used, and send what is queued."""
        if line is not None:
            if len(self._idle) < _MOST_IDLE:
                self._idle.append(line)
            else:
                line.close()
        if counted:
            self._in_flight -= 1
            self._next()

    def _next(self) -> None:
        while self._queue and self._in_flight < self._most:
            self._in_flight += 1
            _Exchange(self, self._queue.popleft(), counted=True).begin()


class _Exchange:
    """One request on its way."""

    def __init__(self, calls: Calls, request: _Request, *, counted: bool) -> None:
        self._calls = calls
        self._request = request
        self._counted = counted
        self._timer: Timer | None = None
        self._line: socket.socket | None = None

    def begin(self) -> None:
        """Send it."""
        loop = self._calls.loop
        self._answer = Answer(self._request.method)
        try:
            self._line, self._was_used = self._calls.line()
            self._line.settimeout(_DIAL_SECONDS)
            self._line.sendall(self._calls.message(self._request))
            self._line.setblocking(False)
        except (DockerError, OSError) as error:
            problem = str(error)
            if self._line is not None and self._was_used:
                self._drop_line()
                self.begin()
                return
            self._drop_line()
            loop.call_later(0, lambda: self._end(Reply(0, words=problem)))
            return
        loop.add(self._line.fileno(), self._on_event)
        if self._request.patience is not None and self._timer is None:
            self._timer = loop.call_later(self._request.patience, self._give_up)

    def _on_event(self, _: int) -> None:
        self._read()
        while _holds_more(self._line):
            self._read()

    def _read(self) -> None:
        if self._line is None:
            return
        answer = self._answer
        try:
            data = self._line.recv(_READ_SIZE)
            if data:
                answer.feed(data)
            elif not answer.started and self._was_used:
                self._again()  # An idle connection, which the Engine had closed.
                return
            else:
                answer.end()
        except _WOULD_BLOCK:
            return
        except (OSError, BrokenAnswerError) as error:
            if _wants_more(error):
                return
            if not answer.started and self._was_used:
                self._again()
                return
            self._end(Reply(0, words=f"the Docker Engine at {self._calls.address}: {error}"))
            return
        if answer.done:
            self._answered()

    def _answered(self) -> None:
        answer = self._answer
        body = answer.take()
        needed = needed_version(answer.status, body)
        if needed and needed != self._calls.version:
            self._calls.version = needed
            self._again()
        elif answer.status >= _REFUSED_FROM:
            self._end(Reply(answer.status, words=hinted(words_of(body))))
        else:
            self._end(Reply(answer.status, decoded(answer, body)))

    def _again(self) -> None:
        self._drop_line()
        self.begin()

    def _give_up(self) -> None:
        words = str(silent(self._calls.address, self._request.patience or 0))
        self._end(Reply(0, words=words))

    def _drop_line(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            self._calls.loop.remove(line.fileno())
            line.close()

    def _end(self, reply: Reply) -> None:
        if self._timer is not None:
            self._timer.cancel()
        kept = None
        if self._answer.done and self._answer.keeps and self._line is not None:
            self._calls.loop.remove(self._line.fileno())
            kept, self._line = self._line, None
        self._drop_line()
        self._calls.landed(kept, counted=self._counted)
        self._request.on_reply(reply)


class Tap:
    """An answer that is read as it comes; see `Calls.open`."""

    def __init__(
        self,
        calls: Calls,
        request: _Request,
        on_data: Callable[[bytes], None],
        on_end: Callable[[], None],
    ) -> None:
        self._calls = calls
        self._request = request
        self._on_data = on_data
        self._on_end = on_end
        self._answer = Answer(request.method)
        self._line: socket.socket | None = None
        self._timer: Timer | None = None
        self._told = False
        self._paused = False

    def begin(self) -> None:
        """Send the request, on a connection of its own."""
        loop = self._calls.loop
        try:
            self._line = dial(self._calls.address, _DIAL_SECONDS)
            self._line.sendall(self._calls.message(self._request, _UPGRADE))
            self._line.setblocking(False)
        except (DockerError, OSError) as error:
            problem = str(error)
            self.close()
            loop.call_later(0, lambda: self._request.on_reply(Reply(0, words=problem)))
            return
        loop.add(self._line.fileno(), self._on_event)
        self._timer = loop.call_later(PATIENCE, self._give_up)

    def pause(self) -> None:
        """Read no more for now: whoever writes has to wait."""
        if self._line is not None and not self._paused:
            self._paused = True
            self._calls.loop.remove(self._line.fileno())

    def resume(self) -> None:
        """Read on."""
        if self._line is not None and self._paused:
            self._paused = False
            self._calls.loop.add(self._line.fileno(), self._on_event)
            if _holds_more(self._line):
                self._calls.loop.call_later(0, lambda: self._on_event(0))

    def close(self) -> None:
        """Hang up; nothing more is told."""
        if self._timer is not None:
            self._timer.cancel()
        line, self._line = self._line, None
        if line is not None:
            if not self._paused:
                self._calls.loop.remove(line.fileno())
            line.close()

    def _on_event(self, _: int) -> None:
        self._read()
        while not self._paused and _holds_more(self._line):
            self._read()

    def _read(self) -> None:
        line = self._line
        if line is None:
            return
        answer = self._answer
        try:
            data = line.recv(_READ_SIZE)
            if data and answer.upgraded:
                self._on_data(data)
                return
            if data:
                answer.feed(data)
            else:
                answer.end()
        except _WOULD_BLOCK:
            return
        except (OSError, BrokenAnswerError) as error:
            if not _wants_more(error):
                self._over(f"the Docker Engine at {self._calls.address}: {error}")
            return
        if answer.started and not self._told:
            self._tell()
        if answer.started and answer.status < _REFUSED_FROM:
            self._hand_on()
        if not data or answer.done:
            self._over("")

    def _hand_on(self) -> None:
        answer = self._answer
        piece = answer.take()
        if answer.upgraded:
            piece, answer.rest = answer.rest, b""
        if piece and self._line is not None:
            self._on_data(piece)

    def _tell(self) -> None:
        """Say that it begins, or once the refusal is complete, that it does not."""
        answer = self._answer
        if answer.status >= _REFUSED_FROM:
            return
        self._told = True
        if self._timer is not None:
            self._timer.cancel()
        self._request.on_reply(Reply(answer.status))

    def _over(self, problem: str) -> None:
        if self._line is None:
            return
        answer = self._answer
        self.close()
        if self._told:
            self._on_end()
        elif answer.started and answer.status >= _REFUSED_FROM:
            words = hinted(words_of(answer.take()))
            self._request.on_reply(Reply(answer.status, words=words))
        else:
            self._request.on_reply(Reply(0, words=problem or "the Docker Engine hung up"))

    def _give_up(self) -> None:
        self._over(str(silent(self._calls.address, PATIENCE)))


def _holds_more(line: socket.socket | None) -> bool:
    """Tell whether TLS has taken bytes from the kernel that nothing will announce again."""
    pending = getattr(line, "pending", None)
    return bool(pending and pending())


def _wants_more(error: Exception) -> bool:
    """Tell whether TLS only waits for more bytes."""
    return type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError")
