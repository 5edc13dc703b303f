"""Sockets and threads: listens on a few addresses, and calls one WSGI application.

Built on werkzeug's threaded server with moto's request handler, which keeps headers that have an
underscore. werkzeug closes the connection after every answer; clients of AWS keep theirs, and a
connection for each request costs them more than the request, so the part that writes the answer
is ours. This room knows nothing of AWS.
"""

from __future__ import annotations

import errno
import os
import socket
import threading
from typing import TYPE_CHECKING, Any

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.exceptions import ClientDisconnected, InternalServerError
from werkzeug.serving import ThreadedWSGIServer
from werkzeug.wsgi import LimitedStream

from wherry.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from _typeshed.wsgi import WSGIApplication

LOOPBACK = "127.0.0.1"
LOCAL_ADDRESS = "wherry.local_address"
"""The key of the environ that says which of our addresses the request came to."""

SENT_HEADERS = "wherry.sent_headers"
"""The key of the environ that has the headers as they were sent: names, values, order."""

_BODILESS = frozenset((204, 304))
_DRAIN_LIMIT = 16 * 1024 * 1024


class ConnectionCut(Exception):  # noqa: N818 — an order, not an error
    """Raised by an application that wants the connection broken without an answer."""


class Listener:
    """One port on several addresses.

    Args:
        app: answers requests, in many threads at once.
        port: which port; 0 for any that is free.
    """

    def __init__(self, app: WSGIApplication, port: int) -> None:
        self._app = app
        self.port = port
        self._sockets: list[socket.socket] = []
        self._servers: list[_Server] = []
        self._threads: list[threading.Thread] = []

    def bind(self, address: str = LOOPBACK) -> None:
        """Take the port on one more address; the first call settles which port it is.

        Raises:
            LaunchError: the port or the address cannot be had.
        """
        bound = _bound(address, self.port)
        self.port = bound.getsockname()[1]
        self._sockets.append(bound)

    @property
    def addresses(self) -> list[str]:
        """The addresses it listens on."""
        return [str(bound.getsockname()[0]) for bound in self._sockets]

    def serve(self) -> None:
        """Answer requests, in threads of its own."""
        for bound in self._sockets[len(self._servers) :]:
            server = _Server(bound, self._app)
            thread = threading.Thread(
                target=server.serve_forever,
                kwargs={"poll_interval": 0.05},
                name=f"wherry-listen-{bound.getsockname()[0]}",
                daemon=True,
            )
            self._servers.append(server)
            self._threads.append(thread)
            thread.start()

    def stop(self, patience: float = 5.0) -> None:
        """Close all sockets and end all threads; harmless when repeated.

        Args:
            patience: real seconds that requests have to end by themselves after their connections
                were closed.
        """
        for server in self._servers:
            server.shutdown()
        for bound in self._sockets:
            bound.close()
        for server in self._servers:
            server.end_connections(patience)
        for thread in self._threads:
            thread.join(patience)
        self._sockets, self._servers, self._threads = [], [], []


class _Server(ThreadedWSGIServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, bound: socket.socket, app: WSGIApplication) -> None:
        host, port = bound.getsockname()[:2]
        super().__init__(host, port, app, _Handler, fd=bound.fileno())
        self._lock = threading.Lock()
        self._open: dict[socket.socket, threading.Thread] = {}

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open[request] = threading.current_thread()
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._open.pop(request, None)

    def end_connections(self, patience: float) -> None:
        with self._lock:
            still_open = dict(self._open)
        for connection in still_open:
            _shut(connection)
        for thread in still_open.values():
            if thread is not threading.current_thread():
                thread.join(patience)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is the client's business."""


class _Handler(MotoRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    rbufsize = 64 * 1024

    def run_wsgi(self) -> None:
        """Call the application and write its answer; the connection stays open for the next."""
        environ = self.make_environ()
        self.environ = environ
        environ[SENT_HEADERS] = list(self.headers.items())
        environ[LOCAL_ADDRESS] = self.connection.getsockname()[0]
        if not environ.get("wsgi.input_terminated"):
            environ["wsgi.input"] = LimitedStream(
                environ["wsgi.input"], int(environ.get("CONTENT_LENGTH") or 0)
            )
        try:
            self._answer(environ)
            self._drain(environ["wsgi.input"])
        except (ConnectionCut, ClientDisconnected, ConnectionError, TimeoutError):
            self.close_connection = True
            _shut(self.connection)

    def _answer(self, environ: dict[str, Any]) -> None:
        reply = _Reply(self)
        try:
            body = self.server.app(environ, reply.start)
            reply.send(body)
        except (ConnectionCut, ClientDisconnected, ConnectionError, TimeoutError):
            raise
        except Exception as error:
            _log_failure(self.path, error)
            if reply.begun:
                raise ConnectionCut from error
            reply = _Reply(self)
            reply.send(InternalServerError()(environ, reply.start))

    def _drain(self, stream: Any) -> None:
        """Read what the application left of the body, so that the next request can be found."""
        left = _DRAIN_LIMIT
        while left > 0:
            piece = stream.read(min(left, 64 * 1024))
            if not piece:
                return
            left -= len(piece)
        raise ConnectionCut

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 — as in werkzeug
        """Keep standard error clean; what fails is logged where it fails."""


class _Reply:
    """Writes one answer: head and first piece in one go."""

    def __init__(self, handler: _Handler) -> None:
        self._handler = handler
        self._status = ""
        self._headers: list[tuple[str, str]] = []
        self.begun = False
        self._chunked = False

    def start(
        self,
        status: str,
        headers: list[tuple[str, str]],
        exc_info: object = None,  # noqa: ARG002 — of the interface
    ) -> Callable[[bytes], object]:
        self._status, self._headers = status, headers
        return self._write

    def send(self, body: Iterable[bytes]) -> None:
        pieces = body if isinstance(body, (list, tuple)) else None
        try:
            if pieces is not None and "content-length" not in self._names():
                self._headers = [*self._headers, ("Content-Length", str(sum(map(len, pieces))))]
            for piece in body:
                self._write(piece)
            if not self.begun:
                self._write(b"")
            if self._chunked:
                self._handler.wfile.write(b"0\r\n\r\n")
        finally:
            close = getattr(body, "close", None)
            if close is not None:
                close()

    def _names(self) -> set[str]:
        return {name.lower() for name, _ in self._headers}

    def _write(self, data: bytes) -> None:
        head = b"" if self.begun else self._head()
        self.begun = True
        if self._handler.command == "HEAD":
            data = b""
        elif self._chunked and data:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if head or data:
            self._handler.wfile.write(head + data)

    def _head(self) -> bytes:
        handler, code = self._handler, int(self._status.split(None, 1)[0])
        names = self._names()
        lines = [f"HTTP/1.1 {self._status}"]
        lines += [f"{name}: {value}" for name, value in self._headers]
        if "date" not in names:
            lines.append(f"Date: {handler.date_time_string()}")
        if "server" not in names:
            lines.append("Server: wherry")
        bodiless = handler.command == "HEAD" or code in _BODILESS or code < 200
        if "content-length" not in names and "transfer-encoding" not in names and not bodiless:
            if handler.request_version >= "HTTP/1.1":
                self._chunked = True
                lines.append("Transfer-Encoding: chunked")
            else:
                handler.close_connection = True
        if handler.close_connection and "connection" not in names:
            lines.append("Connection: close")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _log_failure(path: str, error: Exception) -> None:
    import logging

    logging.getLogger("wherry.emulator").error("request %s failed", path, exc_info=error)


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def _bound(address: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
        made.listen(512)
    except OSError as error:
        made.close()
        raise LaunchError(_why_not(address, port, error)) from error
    return made


def _why_not(address: str, port: int, error: OSError) -> str:
    if error.errno != errno.EADDRINUSE:
        return f"cannot listen on {address}:{port}: {error.strerror}"
    holder = _holder(port)
    who = f" by {holder}" if holder else " by a program of another user, or in another container"
    return (
        f"port {port} of {address} is in use{who}; stop it (`wherry emulator stop` if it is an"
        " emulator), or take another port with --port, 0 for any that is free"
    )


def _holder(port: int) -> str:
    """Name the process that listens on a port, when it is one that we may look at."""
    inodes = _listening_inodes(port)
    for pid in filter(str.isdigit, _listed("/proc")):
        for number in _listed(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(f"/proc/{pid}/fd/{number}")
            except OSError:
                continue
            if target.startswith("socket:[") and target[8:-1] in inodes:
                return f"process {pid} ({_command(pid)})"
    return ""


def _listening_inodes(port: int) -> set[str]:
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as lines:
                rows = [line.split() for line in lines]
        except OSError:
            continue
        found |= {
            row[9]
            for row in rows[1:]
            if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port
        }
    return found


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _command(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as raw:
            words = raw.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "unknown"
    return words if len(words) <= 60 else words[:57] + "..."
