"""Hands requests to S3 to a real server, both ways as they come.

A signature covers the Host header, so a request is sent on with the one that it came with, its path
and its query letter by letter; the other server then finds the signature good, if it knows the key.
Credentials of jobs are made up by STS, and no other server knows them. So a server that checks
signatures is given with a key of its own, as ``http://KEY:SECRET@HOST:PORT``, and every request is
signed anew with it; what only a signature of the client could say (a presigned address that has
expired, say) is then not checked.
"""

from __future__ import annotations

import collections
import datetime as dt
import hashlib
import hmac
import http.client
import select
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit
from xml.sax.saxutils import escape

from wherry.emulator.server.listening import SENT_HEADERS
from wherry.errors import UsageError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

_PIECE = 256 * 1024
_PATIENCE = 300.0
_MOST_IDLE = 32
_HOP_BY_HOP = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
_SIGNATURE_HEADERS = frozenset(
    ("authorization", "date", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token")
)
_SIGNATURE_QUERY = frozenset(
    name.lower()
    for name in (
        "X-Amz-Algorithm",
        "X-Amz-Credential",
        "X-Amz-Date",
        "X-Amz-Expires",
        "X-Amz-SignedHeaders",
        "X-Amz-Signature",
        "X-Amz-Security-Token",
        "AWSAccessKeyId",
        "Signature",
        "Expires",
    )
)
_UNSIGNED = "UNSIGNED-PAYLOAD"


@dataclass(frozen=True)
class Target:
    """A server of S3.

    Attributes:
        host, port: where it is.
        secure: whether over TLS.
        key, secret: with which requests are signed anew; empty to leave signatures as they are.
    """

    host: str
    port: int
    secure: bool = False
    key: str = ""
    secret: str = ""


def target_of(url: str) -> Target:
    """Read ``http://[KEY:SECRET@]HOST:PORT``.

    Raises:
        UsageError: it is not one.
    """
    parts = urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        port = 0
    if parts.scheme not in ("http", "https") or not parts.hostname or not port:
        raise UsageError(f"expected an S3 server such as http://127.0.0.1:8333, not {url!r}")
    key, secret = unquote(parts.username or ""), unquote(parts.password or "")
    return Target(parts.hostname, port, parts.scheme == "https", key, secret)


class Handover:
    """A WSGI application that lets another server answer.

    Args:
        target: that server.
        region: for signatures that are made anew.
        own: key and secret that the emulator's clients have, for requests of the emulator itself.
    """

    def __init__(self, target: Target, region: str, own: tuple[str, str]) -> None:
        self._target = target
        key, secret = (target.key, target.secret) if target.key else own
        self._own = replace(target, key=key, secret=secret)
        self._region = region
        self._pool = _Pool(target)

    def close(self) -> None:
        """Close the connections that wait to be used again."""
        self._pool.close()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Send a request on, and give its answer back."""
        method = str(environ["REQUEST_METHOD"])
        uri = _uri(environ)
        headers = _headers(environ)
        body: Iterator[bytes] | None = _pieces(environ)
        if self._target.key:
            uri, headers, body = self._signed(method, uri, headers, body, environ)
        connection = self._pool.take()
        try:
            _send(connection, method, uri, headers, body)
            answer = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return _unreachable(self._target, error, start_response)
        given = [(k, v) for k, v in answer.getheaders() if k.lower() not in _HOP_BY_HOP]
        start_response(f"{answer.status} {answer.reason or 'Unknown'}", given)
        return _Streamed(connection, answer, self._pool)

    def make_bucket(self, bucket: str) -> None:
        """Make a bucket, unless it is there.

        Raises:
            OSError: the server does not answer.
        """
        headers = [("Host", f"{self._target.host}:{self._target.port}"), ("Content-Length", "0")]
        uri = f"/{quote(bucket)}"
        headers = signed(self._own, self._region, "PUT", uri, headers)
        connection = _connection(self._target, patience=5.0)
        try:
            _send(connection, "PUT", uri, headers, None)
            connection.getresponse().read()
        finally:
            connection.close()

    def _signed(
        self,
        method: str,
        uri: str,
        headers: list[tuple[str, str]],
        body: Iterator[bytes] | None,
        environ: WSGIEnvironment,
    ) -> tuple[str, list[tuple[str, str]], Iterator[bytes] | None]:
        """Take a client's signature off and put ours on."""
        if str(environ.get("HTTP_X_AMZ_CONTENT_SHA256", "")).startswith("STREAMING-AWS4-"):
            # Each piece has a signature that goes on from that of the head, which is replaced.
            headers, body = _unwrapped(headers), _contents(environ["wsgi.input"])
        bare = _without_signature(uri)
        return bare, signed(self._target, self._region, method, bare, headers), body


def signed(
    target: Target, region: str, method: str, uri: str, headers: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Sign a request (signature version 4), whatever signature it has.

    https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html

    Args:
        target: whose key.
        region: of the scope.
        method, uri: path and query as they will be sent.
        headers: with the Host header.

    Returns:
        The headers with the signature.
    """
    now = dt.datetime.now(dt.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    digest = next((v for k, v in headers if k.lower() == "x-amz-content-sha256"), _UNSIGNED)
    kept = [(k, v) for k, v in headers if k.lower() not in _SIGNATURE_HEADERS]
    kept += [("X-Amz-Date", now), ("X-Amz-Content-SHA256", digest)]
    covered = sorted(
        (k.lower(), " ".join(v.split()))
        for k, v in kept
        if k.lower() == "host" or k.lower().startswith("x-amz-")
    )
    names = ";".join(name for name, _ in covered)
    path, _, query = uri.partition("?")
    lines = [method, path, _canonical_query(query)]
    lines += [f"{name}:{value}" for name, value in covered]
    canonical = "\n".join([*lines, "", names, digest])
    scope = f"{now[:8]}/{region}/s3/aws4_request"
    to_sign = "\n".join(("AWS4-HMAC-SHA256", now, scope, _sha256(canonical)))
    key = f"AWS4{target.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={target.key}/{scope}, SignedHeaders={names},"
        f" Signature={signature}"
    )
    return [*kept, ("Authorization", authorization)]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical_query(query: str) -> str:
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    encoded = sorted((_encoded(name), _encoded(value)) for name, _, value in pairs)
    return "&".join(f"{name}={value}" for name, value in encoded)


def _encoded(text: str) -> str:
    return quote(unquote(text), safe="-_.~")


def _without_signature(uri: str) -> str:
    path, _, query = uri.partition("?")
    kept = [
        pair
        for pair in query.split("&")
        if pair and unquote(pair.partition("=")[0]).lower() not in _SIGNATURE_QUERY
    ]
    return f"{path}?{'&'.join(kept)}" if kept else path


def _unwrapped(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the headers of a body without the frames of signed pieces."""
    given = {name.lower(): value for name, value in headers}
    dropped = {"content-length", "x-amz-content-sha256", "x-amz-trailer"}
    dropped |= {"x-amz-decoded-content-length", "content-encoding"}
    codings = [
        word.strip()
        for word in given.get("content-encoding", "").split(",")
        if word.strip() not in ("", "aws-chunked")
    ]
    kept = [(name, value) for name, value in headers if name.lower() not in dropped]
    kept.append(("Content-Length", given.get("x-amz-decoded-content-length", "0")))
    return kept + ([("Content-Encoding", ", ".join(codings))] if codings else [])


def _contents(stream: Any) -> Iterator[bytes]:
    """Yield what is in the pieces of a signed stream: ``SIZE;chunk-signature=…`` before each.

    https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html
    """
    while True:
        head = stream.readline()
        size = int(head.partition(b";")[0] or b"0", 16)
        if size == 0:
            break
        while size:
            piece = stream.read(min(size, _PIECE))
            if not piece:
                return
            size -= len(piece)
            yield piece
        stream.readline()
    while stream.read(_PIECE):
        pass  # trailers


def _uri(environ: WSGIEnvironment) -> str:
    """Return path and query letter by letter, since a signature covers them."""
    raw = str(environ.get("RAW_URI") or environ["REQUEST_URI"])
    if raw.startswith("/"):
        return raw
    parts = urlsplit(raw)
    return f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"


def _headers(environ: WSGIEnvironment) -> list[tuple[str, str]]:
    original = environ.get(SENT_HEADERS)
    given = list(original) if original is not None else list(_from_environ(environ))
    chunked = [(k, v) for k, v in given if k.lower() == "transfer-encoding"]
    return [(k, v) for k, v in given if k.lower() not in _HOP_BY_HOP and k.lower() != "expect"] + (
        [("Transfer-Encoding", "chunked")] if chunked else []
    )


def _from_environ(environ: WSGIEnvironment) -> Iterator[tuple[str, str]]:
    for name, value in environ.items():
        if name.startswith("HTTP_"):
            yield name[5:].replace("_", "-").title(), str(value)
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(name):
            yield name.replace("_", "-").title(), str(environ[name])


def _pieces(environ: WSGIEnvironment) -> Iterator[bytes] | None:
    stream = environ["wsgi.input"]
    if not environ.get("wsgi.input_terminated") and not int(environ.get("CONTENT_LENGTH") or 0):
        return None
    return iter(lambda: stream.read(_PIECE), b"")


def _send(
    connection: http.client.HTTPConnection,
    method: str,
    uri: str,
    headers: list[tuple[str, str]],
    body: Iterator[bytes] | None,
) -> None:
    connection.putrequest(method, uri, skip_host=True, skip_accept_encoding=True)
    for name, value in headers:
        connection.putheader(name, value.encode("latin-1"))
    chunked = any(name.lower() == "transfer-encoding" for name, _ in headers)
    connection.endheaders()
    for piece in body or ():
        connection.send(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
    if chunked:
        connection.send(b"0\r\n\r\n")


class _Pool:
    """Connections to a server that wait to be used again; a new one for each costs more than S3."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._idle: collections.deque[http.client.HTTPConnection] = collections.deque()
        self._closed = False

    def take(self) -> http.client.HTTPConnection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return _connection(self._target)
            if _is_fresh(connection):
                return connection
            connection.close()

    def give(self, connection: http.client.HTTPConnection) -> None:
        if self._closed or len(self._idle) >= _MOST_IDLE:
            connection.close()
        else:
            self._idle.append(connection)

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()


def _connection(target: Target, patience: float = _PATIENCE) -> http.client.HTTPConnection:
    kind = http.client.HTTPSConnection if target.secure else http.client.HTTPConnection
    return kind(target.host, target.port, timeout=patience)


def _is_fresh(connection: http.client.HTTPConnection) -> bool:
    """Tell whether the other side has left a connection open: what is closed has an end to read."""
    return connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]


class _Streamed:
    """The other server's answer, piece by piece; what is read to its end frees the connection."""

    def __init__(
        self,
        connection: http.client.HTTPConnection,
        answer: http.client.HTTPResponse,
        pool: _Pool,
    ) -> None:
        self._connection = connection
        self._answer = answer
        self._pool = pool

    def __iter__(self) -> Iterator[bytes]:
        return iter(lambda: self._answer.read1(_PIECE), b"")

    def close(self) -> None:
        if self._answer.length == 0:
            self._answer.read()  # `read1` leaves an answer open whose last byte it has read
        if self._answer.isclosed() and not self._answer.will_close:
            self._pool.give(self._connection)
        else:
            self._answer.close()
            self._connection.close()


def _unreachable(
    target: Target, error: Exception, start_response: StartResponse
) -> Iterable[bytes]:
    message = f"the S3 server at {target.host}:{target.port} does not answer: {error}"
    body = f"<Error><Code>ServiceUnavailable</Code><Message>{escape(message)}</Message></Error>"
    start_response("503 Service Unavailable", [("Content-Type", "application/xml")])
    return [body.encode()]
