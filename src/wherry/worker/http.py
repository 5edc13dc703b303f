"""HTTP/1.1 in a few lines: connections that are kept, and bodies that are never copied.

Python's own client costs 30 ms to load, and gathers a body before it hands it out.
"""

from __future__ import annotations

import os
import socket
from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from .formats import Buffer

_HEAD_MOST = 1 << 18
_READ = 1 << 16
_KEPT_MOST = 32
_NO_BODY = (204, 304)


class HttpError(OSError):
    """The other side went away, or said what is not HTTP."""


class Answer:
    """What came back.

    Attributes:
        status: such as 200.
        headers: by their names in lower case.
        body: empty when it went into the given buffer.
        filled: how many bytes went there.
    """

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        self.status = status
        self.headers = headers
        self.body = b""
        self.filled = 0


class Pool:
    """Connections to servers, kept for the next request. May be used from any thread.

    Args:
        timeout: seconds that the other side may be silent.
    """

    def __init__(self, timeout: float = 60.0) -> None:
        self._timeout = timeout
        self._kept: dict[tuple[str, int, bool], list[_Connection]] = {}
        self._lock = allocate_lock()
        self._pid = os.getpid()
        self._tls: ssl.SSLContext | None = None

    def request(
        self,
        url: str,
        method: str = "GET",
        headers: dict[str, str] | None = None,
        body: Sequence[Buffer] = (),
        into: memoryview | None = None,
    ) -> Answer:
        """Send a request and return the answer.

        Args:
            url: with http or https, the path encoded as it is sent.
            method: such as GET.
            headers: besides Host and Content-Length.
            body: its parts.
            into: where the body of a 200 or 206 goes; it may be shorter than this.

        Raises:
            OSError: there was no whole answer.
        """
        secure, host, port, path = split(url)
        where = (host, port, secure)
        while True:
            link = self._take(where)
            fresh = link is None
            if link is None:
                link = _Connection(self._connect(host, port, secure=secure))
            try:
                answer = link.exchange(method, path, _name(host, port, secure), headers, body, into)
            except BaseException as error:
                link.close()
                if isinstance(error, OSError) and not fresh and not link.answered:
                    continue  # It had been kept too long: that is no failure of the server.
                raise
            self._give_back(where, link)
            return answer

    def close(self) -> None:
        """Close what is kept."""
        with self._lock:
            links = [link for kept in self._kept.values() for link in kept]
            self._kept.clear()
        for link in links:
            link.close()

    def __del__(self) -> None:
        self.close()

    def _take(self, where: tuple[str, int, bool]) -> _Connection | None:
        with self._lock:
            if self._pid != os.getpid():
                # After a fork, the connections are the other process's.
                self._pid = os.getpid()
                self._kept.clear()
            kept = self._kept.get(where)
            return kept.pop() if kept else None

    def _give_back(self, where: tuple[str, int, bool], link: _Connection) -> None:
        with self._lock:
            kept = self._kept.setdefault(where, [])
            if link.reusable and len(kept) < _KEPT_MOST:
                kept.append(link)
                return
        link.close()

    def _connect(self, host: str, port: int, *, secure: bool) -> socket.socket:
        made = socket.create_connection((host, port), timeout=self._timeout)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not secure:
            return made
        with self._lock:
            if self._tls is None:
                self._tls = _tls()
        try:
            return self._tls.wrap_socket(made, server_hostname=host)
        except BaseException:
            made.close()
            raise


class _Connection:
    """One connection."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._ahead = b""
        self.answered = False
        self.reusable = False

    def close(self) -> None:
        self._link.close()

    def exchange(
        self,
        method: str,
        path: str,
        host: str,
        headers: dict[str, str] | None,
        body: Sequence[Buffer],
        into: memoryview | None,
    ) -> Answer:
        self.answered = self.reusable = False
        size = sum(memoryview(part).nbytes for part in body)
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if size or method in ("PUT", "POST"):
            lines.append(f"Content-Length: {size}")
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        self._send([head, *body], size)
        while True:
            answer = self._read_head()
            if answer.status >= 200:
                break
        self._read_body(method, answer, into)
        return answer

    def _send(self, parts: list[Buffer], size: int) -> None:
        if size <= _READ:
            self._link.sendall(b"".join(parts))
            return
        for part in parts:
            self._link.sendall(part)

    def _read_head(self) -> Answer:
        data = self._ahead
        while (end := data.find(b"\r\n\r\n")) < 0:
            if len(data) > _HEAD_MOST:
                raise HttpError("the answer's header has no end")
            data += self._receive()
            self.answered = True
        first, *lines = data[:end].decode("latin-1").split("\r\n")
        self._ahead = data[end + 4 :]
        words = first.split(None, 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
            raise HttpError(f"the answer is not HTTP: {first[:100]!r}")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        return Answer(int(words[1]), headers)

    def _read_body(self, method: str, answer: Answer, into: memoryview | None) -> None:
        headers = answer.headers
        self.reusable = headers.get("connection", "").lower() != "close"
        if method == "HEAD" or answer.status in _NO_BODY:
            return
        if "chunked" in headers.get("transfer-encoding", "").lower():
            answer.body = self._read_chunks()
        elif "content-length" in headers:
            size = int(headers["content-length"])
            if into is not None and answer.status in (200, 206) and size <= into.nbytes:
                self._fill(into[:size])
                answer.filled = size
                return
            data = bytearray(size)
            self._fill(memoryview(data))
            answer.body = bytes(data)
        else:
            self.reusable = False
            answer.body = self._read_all()
        if into is not None and answer.status in (200, 206) and len(answer.body) <= into.nbytes:
            answer.filled = len(answer.body)
            into[: answer.filled] = answer.body
            answer.body = b""

    def _fill(self, view: memoryview) -> None:
        ahead = min(len(self._ahead), view.nbytes)
        view[:ahead] = self._ahead[:ahead]
        self._ahead = self._ahead[ahead:]
        while ahead < view.nbytes:
            got = self._link.recv_into(view[ahead:])
            if not got:
                raise HttpError(f"the connection ended {view.nbytes - ahead:,} bytes too early")
            ahead += got

    def _read_chunks(self) -> bytes:
        body = []
        while size := int(self._read_line().partition(b";")[0], 16):
            data = bytearray(size)
            self._fill(memoryview(data))
            body.append(data)
            self._read_line()
        while self._read_line():
            pass
        return b"".join(body)

    def _read_line(self) -> bytes:
        while b"\r\n" not in self._ahead:
            self._ahead += self._receive()
        line, _, self._ahead = self._ahead.partition(b"\r\n")
        return line

    def _read_all(self) -> bytes:
        body = [self._ahead]
        self._ahead = b""
        while data := self._link.recv(_READ):
            body.append(data)
        return b"".join(body)

    def _receive(self) -> bytes:
        data = self._link.recv(_READ)
        if not data:
            raise HttpError("the connection ended before the answer did")
        return data


def split(url: str) -> tuple[bool, str, int, str]:
    """Take a URL apart: whether it is https, host, port, and the path with the query."""
    scheme, _, rest = url.partition("://")
    if scheme not in ("http", "https"):
        raise HttpError(f"{url!r} begins neither with http:// nor https://")
    place, _, path = rest.partition("/")
    if place.startswith("["):
        host, _, tail = place[1:].partition("]")
        port = tail[1:]
    else:
        host, _, port = place.partition(":")
    if port and not port.isdigit():
        raise HttpError(f"{url!r} has no port number after its host")
    default = 443 if scheme == "https" else 80
    return scheme == "https", host, int(port or default), f"/{path}"


def host_of(url: str) -> str:
    """Return what the Host header says for a URL."""
    secure, host, port, _ = split(url)
    return _name(host, port, secure)


def _name(host: str, port: int, secure: bool) -> str:
    shown = f"[{host}]" if ":" in host else host
    return shown if port == (443 if secure else 80) else f"{shown}:{port}"


def _tls() -> ssl.SSLContext:
    import ssl

    bundle = os.environ.get("AWS_CA_BUNDLE") or os.environ.get("SSL_CERT_FILE") or None
    return ssl.create_default_context(cafile=bundle)
