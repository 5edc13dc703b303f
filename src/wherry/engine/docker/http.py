"""HTTP/1.1 as far as the Engine speaks it: one request as bytes, and an answer taken apart."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Params = Mapping[str, "str | int | bool | Mapping[str, Any] | list[Any] | None"]

_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")
_HEAD_MOST = 1 << 18
_LINE_END = 2
_SWITCHING, _NO_CONTENT, _NOT_MODIFIED = 101, 204, 304


class BrokenAnswerError(Exception):
    """What came is no HTTP, or it ended too early."""


def quote(text: str) -> str:
    """Write a text so that it may stand in a path or a query.

    >>> quote("a b/c:1")
    'a%20b/c%3A1'
    """
    raw = text.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in raw)


def query(params: Params | None) -> str:
    """Write parameters as the end of an address; what is ``None`` is left out.

    >>> query({"all": True, "tail": 5, "since": None, "filters": {"label": ["a=b"]}})
    '?all=1&tail=5&filters=%7B%22label%22%3A%5B%22a%3Db%22%5D%7D'
    """
    pairs = [f"{name}={quote(_param(value))}" for name, value in (params or {}).items()
             if value is not None]  # fmt: skip
    return "?" + "&".join(pairs) if pairs else ""


def _param(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, str | int):
        return str(value)
    return encode_json(value).decode()


def encode_json(value: object) -> bytes:
    """Write a document as compact JSON."""
    import json

    return json.dumps(value, separators=(",", ":")).encode()


def request_bytes(
    method: str,
    target: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    host: str = "docker",
) -> bytes:
    """Write a request.

    Args:
        method: of HTTP.
        target: path and query.
        body: what is sent with it.
        headers: besides Host, Content-Length, and Content-Type where it is JSON.
        host: the Engine's name.
    """
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "User-Agent: wherry"]
    given = dict(headers or {})
    if body is not None:
        given.setdefault("Content-Type", "application/json")
    if body is not None or method in ("POST", "PUT"):
        given["Content-Length"] = str(len(body or b""))
    lines += [f"{name}: {value}" for name, value in given.items()]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + (body or b"")


class Answer:
    """Takes one answer apart as its bytes come, cut anywhere.

    Args:
        method: of the request; an answer to HEAD has no body.

    Attributes:
        status: of HTTP; 0 before the head has come.
        headers: by lower-case name.
        started: whether the head has come.
        done: whether the whole answer has come.
        upgraded: whether the connection is no HTTP any more: `rest` and all that follows is raw.
        keeps: whether the connection can take another request once this answer is done.
        rest: bytes beyond this answer.
    """

    def __init__(self, method: str = "GET") -> None:
        self._method = method
        self._buffer = b""
        self._body: list[bytes] = []
        self._left: int | None = None  # bytes of the body, or of a chunk; None: until the end
        self._chunked = False
        self._in_trailer = False
        self.status = 0
        self.headers: dict[str, str] = {}
        self.started = self.done = self.upgraded = False
        self.keeps = True
        self.rest = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the connection.

        Raises:
            BrokenAnswerError: they are no HTTP.
        """
        if self.done or self.upgraded:
            self.rest += data
            return
        if self.started:
            self._take(self._buffer + data if self._buffer else data)
            return
        self._buffer += data
        head, end, rest = self._buffer.partition(b"\r\n\r\n")
        if end:
            self._buffer = b""
            if self._is_final(head):
                self._take(rest)
            elif rest:
                self.feed(rest)
        elif len(self._buffer) > _HEAD_MOST:
            raise BrokenAnswerError("the head of its answer does not end")

    def end(self) -> None:
        """Take note that the connection is at its end.

        Raises:
            BrokenAnswerError: the answer was not complete.
        """
        if self.done or self.upgraded:
            return
        if not self.started or self._chunked or self._left is not None:
            raise BrokenAnswerError("it hung up in the middle of an answer")
        self.done, self.keeps = True, False

    def take(self) -> bytes:
        """Return what has come of the body since the last call."""
        body = b"".join(self._body)
        self._body.clear()
        return body

    def _is_final(self, head: bytes) -> bool:
        """Read a head; tells whether it is the answer's own, and not that of ``100 Continue``."""
        first, *lines = head.decode("latin-1").split("\r\n")
        protocol, _, rest = first.partition(" ")
        code = rest[:3]
        if not protocol.startswith("HTTP/1.") or not code.isdigit():
            raise BrokenAnswerError(f"its answer is no HTTP/1.1: {first[:80]!r}")
        status = int(code)
        if 100 <= status < 200 and status != _SWITCHING:
            return False
        self.status = status
        for line in lines:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self.started = True
        self.keeps = self.headers.get("connection", "").lower() != "close" and "1.1" in protocol
        self._plan_body()
        return True

    def _plan_body(self) -> None:
        headers = self.headers
        if self.status == _SWITCHING:
            self.upgraded = True
        elif "chunked" in headers.get("transfer-encoding", "").lower():
            self._chunked, self._left = True, 0
        elif self._method == "HEAD" or self.status in (_NO_CONTENT, _NOT_MODIFIED):
            self.done = True
        elif headers.get("content-length", "").isdigit():
            self._left = int(headers["content-length"])
            self.done = self._left == 0

    def _take(self, data: bytes) -> None:
        self._buffer = b""
        if self.done or self.upgraded:
            self.rest += data
        elif self._chunked:
            self._take_chunks(data)
        elif self._left is None:
            self._body.append(data)
        else:
            self._body.append(data[: self._left])
            self.rest = data[self._left :]
            self._left -= len(self._body[-1])
            self.done = self._left == 0

    def _take_chunks(self, data: bytes) -> None:
        at = 0
        while at < len(data) and not self.done:
            if self._left:  # of a chunk, with the two bytes that end it
                piece = data[at : at + self._left]
                if self._left > _LINE_END:
                    self._body.append(piece[: self._left - _LINE_END])
                at += len(piece)
                self._left -= len(piece)
                continue
            line_end = data.find(b"\r\n", at)
            if line_end < 0:
                self._buffer = data[at:]
                return
            self._chunk_line(data[at:line_end])
            at = line_end + 2
        self.rest = data[at:]

    def _chunk_line(self, line: bytes) -> None:
        if self._in_trailer:
            self.done = not line
            return
        try:
            size = int(line.partition(b";")[0], 16)
        except ValueError:
            raise BrokenAnswerError(f"a chunk of its answer begins with {line[:20]!r}") from None
        if size:
            self._left = size + _LINE_END
        else:
            self._in_trailer = True
