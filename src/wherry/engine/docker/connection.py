"""A client of the Docker Engine for whoever can wait: requests, several in flight, and streams.

>>> with Engine(engine_address(os.environ)) as engine:  # doctest: +SKIP
...     engine.request("GET", "/containers/json", {"all": True})
"""

from __future__ import annotations

import os
import socket
import time

from wherry.engine.docker.address import Place
from wherry.engine.docker.http import Answer, BrokenAnswerError, encode_json, query, request_bytes
from wherry.engine.docker.refusals import needed_version, refusal, silent, unreachable
from wherry.errors import DockerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType
    from typing import Any

    from wherry.engine.docker.http import Params

    Body = Mapping[str, Any] | list[Any] | bytes | None

API_VERSION = "1.41"
"""Docker since 20.10 and Podman since 3 speak it; an Engine that wants a later one says so."""

_CONNECT_SECONDS = 10.0
_READ_SIZE = 1 << 18
_MOST_IDLE = 8
_REFUSED_FROM = 400


def dial(address: str, timeout: float = _CONNECT_SECONDS) -> socket.socket:
    """Connect to an Engine.

    Args:
        address: as `engine_address` gives it.
        timeout: seconds, for this and for what is done with the socket later.

    Raises:
        DockerError: nobody answers there, or this user may not.
    """
    place = Place(address)
    try:
        if place.path:
            line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            line.settimeout(timeout)
            try:
                line.connect(place.path)
            except BaseException:
                line.close()
                raise
            return line
        line = socket.create_connection((place.host, place.port), timeout)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _encrypted(line, place) if place.tls else line
    except TimeoutError:
        raise silent(address, timeout) from None
    except OSError as error:
        raise unreachable(address, error) from None


def _encrypted(line: socket.socket, place: Place) -> socket.socket:
    import ssl

    try:
        context = ssl.create_default_context()
        if not place.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if place.certs:
            authority = os.path.join(place.certs, "ca.pem")
            if place.verify and os.path.exists(authority):
                context.load_verify_locations(authority)
            own = os.path.join(place.certs, "cert.pem")
            if os.path.exists(own):
                context.load_cert_chain(own, os.path.join(place.certs, "key.pem"))
        return context.wrap_socket(line, server_hostname=place.host)
    except BaseException:
        line.close()
        raise


def encoded(body: Body) -> bytes | None:
    """Return a body as it is sent."""
    return body if body is None or isinstance(body, bytes) else encode_json(body)


def decoded(answer: Answer, body: bytes) -> Any:
    """Return the body of an answer: a document, or text, or bytes where it is neither."""
    if not body:
        return None
    kind = answer.headers.get("content-type", "")
    if "tar" in kind or "octet-stream" in kind:
        return body
    if "json" in kind:
        import json

        try:
            return json.loads(body)
        except ValueError:
            pass  # Many documents, one a line; see `Stream.documents`.
    return body.decode(errors="replace")


class Engine:
    """One Docker Engine; connections are made when they are needed, and kept.

    Args:
        address: as `engine_address` gives it.
        timeout: seconds that it may be silent.
    """

    def __init__(self, address: str, *, timeout: float = 60.0) -> None:
        self.address = address
        self.timeout = timeout
        self.version = API_VERSION
        self._idle: list[socket.socket] = []

    def request(
        self,
        method: str,
        path: str,
        params: Params | None = None,
        body: Body = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Ask, and wait for the answer.

        Args:
            method: of HTTP.
            path: after the version, such as ``/containers/json``.
            params: the query; what is not a text or a number is sent as JSON.
            body: a document, or bytes as they are.
            headers: further ones, such as ``X-Registry-Auth``.
            timeout: seconds, if not the client's own.

        Returns:
            The document; text or bytes where the answer is none; ``None`` where it is empty.

        Raises:
            DockerError: the Engine is not there, is silent, or refuses; `status` tells which.
        """
        return self.begin(method, path, params, body, headers=headers).finish(timeout)

    def begin(
        self,
        method: str,
        path: str,
        params: Params | None = None,
        body: Body = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Pending:
        """Ask, and do not wait; several may be under way, each on a connection of its own."""
        return Pending(self, method, path + query(params), encoded(body), headers)

    def stream(
        self,
        method: str,
        path: str,
        params: Params | None = None,
        body: Body = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Stream:
        """Ask, and read the answer as it comes: attach, logs, pull, events.

        Args:
            method, path, params, body, headers: as for `request`.
            timeout: seconds until its first byte.

        Raises:
            DockerError: the Engine is not there, is silent, or refuses.
        """
        pending = self.begin(method, path, params, body, headers=headers)
        return pending.streamed(timeout)

    def close(self) -> None:
        """Close the connections that are kept; may be called many times."""
        while self._idle:
            self._idle.pop().close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def line(self) -> tuple[socket.socket, bool]:
        """Return a connection, and whether it was used before."""
        while self._idle:
            line = self._idle.pop()
            if _is_open(line):
                return line, True
            line.close()
        return dial(self.address), False

    def keep(self, line: socket.socket) -> None:
        """Take back a connection that can be used again."""
        if len(self._idle) < _MOST_IDLE:
            self._idle.append(line)
        else:
            line.close()


class Pending:
    """A request under way; `finish` or `streamed` has to follow, or `drop`."""

    def __init__(
        self,
        engine: Engine,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str] | None,
    ) -> None:
        self._engine = engine
        self._method, self._target, self._body = method, target, body
        self._headers = headers
        self._send()

    def finish(self, timeout: float | None = None) -> Any:
        """Wait for the answer.

        Raises:
            DockerError: the Engine is silent, or refuses.
        """
        body = self._whole(timeout)
        if self._is_too_old(body):
            body = self._whole(timeout)
        if self._answer.status >= _REFUSED_FROM:
            raise refusal(self._answer.status, body)
        return decoded(self._answer, body)

    def streamed(self, timeout: float | None = None) -> Stream:
        """Wait for the beginning of the answer.

        Raises:
            DockerError: the Engine is silent, or refuses.
        """
        self._begin_answer(timeout)
        if self._answer.status >= _REFUSED_FROM:
            body = self._whole(timeout)
            if not self._is_too_old(body):
                raise refusal(self._answer.status, body)
            return self.streamed(timeout)
        return Stream(self._engine.address, self._line, self._answer)

    def drop(self) -> None:
        """Hang up."""
        self._line.close()

    def _send(self) -> None:
        engine = self._engine
        target = f"/v{engine.version}{self._target}"
        message = request_bytes(self._method, target, self._body, self._headers)
        self._line, was_used = engine.line()
        try:
            self._line.settimeout(engine.timeout)
            try:
                self._line.sendall(message)
            except (BrokenPipeError, ConnectionResetError):
                # An Engine that was restarted; or it refuses early, and has said why already.
                if was_used:
                    self._line.close()
                    self._line = dial(engine.address)
                    self._line.settimeout(engine.timeout)
                    self._line.sendall(message)
        except TimeoutError:
            self._line.close()
            raise silent(engine.address, engine.timeout) from None
        except OSError as error:
            self._line.close()
            raise unreachable(engine.address, error) from None
        self._answer = Answer(self._method)

    def _is_too_old(self, body: bytes) -> bool:
        """Send it again in the version that the Engine wants; tells whether it wants another."""
        needed = needed_version(self._answer.status, body)
        if not needed or needed == self._engine.version:
            return False
        self._engine.version = needed
        self._send()
        return True

    def _begin_answer(self, timeout: float | None) -> None:
        deadline = self._deadline(timeout)
        while not self._answer.started:
            self._receive(deadline, timeout)

    def _whole(self, timeout: float | None) -> bytes:
        deadline = self._deadline(timeout)
        while not self._answer.done and not self._answer.upgraded:
            self._receive(deadline, timeout)
        if self._answer.keeps and self._answer.done and not self._answer.rest:
            self._engine.keep(self._line)
        else:
            self._line.close()
        return self._answer.take()

    def _deadline(self, timeout: float | None) -> float:
        return time.monotonic() + (self._engine.timeout if timeout is None else timeout)

    def _receive(self, deadline: float, timeout: float | None) -> None:
        seconds = self._engine.timeout if timeout is None else timeout
        try:
            self._line.settimeout(max(0.001, deadline - time.monotonic()))
            data = self._line.recv(_READ_SIZE)
            if data:
                self._answer.feed(data)
            else:
                self._answer.end()
        except TimeoutError:
            self._line.close()
            raise silent(self._engine.address, seconds) from None
        except OSError as error:
            self._line.close()
            raise unreachable(self._engine.address, error) from None
        except BrokenAnswerError as error:
            self._line.close()
            raise DockerError(f"the Docker Engine at {self._engine.address}: {error}") from None


class Stream:
    """An answer that is read as it comes; iterate over its pieces, and `close` it.

    Attributes:
        status, headers: of the answer.
    """

    def __init__(self, address: str, line: socket.socket, answer: Answer) -> None:
        self._address = address
        self._line = line
        self._answer = answer
        self.status = answer.status
        self.headers = answer.headers

    def read(self, timeout: float | None = None) -> bytes:
        """Wait for the next bytes.

        Args:
            timeout: seconds; for ever when ``None``.

        Returns:
            Some bytes, or none at the end.

        Raises:
            TimeoutError: nothing came in time.
            DockerError: the Engine hung up in the middle.
        """
        answer = self._answer
        while True:
            if answer.upgraded:
                piece, answer.rest = answer.rest, b""
            else:
                piece = answer.take()
            if piece or answer.done:
                return piece
            self._line.settimeout(timeout)
            try:
                data = self._line.recv(_READ_SIZE)
                if answer.upgraded:
                    return data
                if data:
                    answer.feed(data)
                else:
                    answer.end()
            except TimeoutError:
                raise
            except OSError as error:
                raise unreachable(self._address, error) from None
            except BrokenAnswerError as error:
                raise DockerError(f"the Docker Engine at {self._address}: {error}") from None

    def documents(self) -> Iterator[Any]:
        """Go through an answer of one JSON document a line: pull, build, events."""
        import json

        rest = b""
        for piece in self:
            *lines, rest = (rest + piece).split(b"\n")
            yield from (json.loads(line) for line in lines if line.strip())
        if rest.strip():
            yield json.loads(rest)

    def fileno(self) -> int:
        """Return the descriptor of the connection."""
        return self._line.fileno()

    def close(self) -> None:
        """Hang up; may be called many times, and from another thread to end a `read`."""
        try:
            self._line.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # It has been hung up already.
        self._line.close()

    def __iter__(self) -> Iterator[bytes]:
        while piece := self.read():
            yield piece

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _is_open(line: socket.socket) -> bool:
    """Tell whether an idle connection can still be used: nothing to read, and not at its end."""
    try:
        line.setblocking(False)
        line.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except (OSError, ValueError):
        # `ssl` knows no MSG_PEEK.
        return False
    return False
