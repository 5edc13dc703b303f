"""The Engine's client over real sockets: against an Engine, and against one that misbehaves."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.engine import image, require_engine
from wherry.engine.docker.address import engine_address
from wherry.engine.docker.connection import Engine
from wherry.errors import DockerError


@pytest.fixture
def engine() -> Iterator[Engine]:
    require_engine()
    with Engine(engine_address(os.environ)) as made:
        yield made


def test_many_requests_are_in_flight_at_once(engine: Engine) -> None:
    pending = [engine.begin("GET", "/info") for _ in range(12)]

    assert len({request.finish()["ID"] for request in reversed(pending)}) == 1


def test_a_refusal_has_the_engines_words_and_status(engine: Engine) -> None:
    with pytest.raises(DockerError, match="No such container: nosuch") as caught:
        engine.request("GET", "/containers/nosuch/json")

    assert caught.value.status == 404


def test_output_is_read_as_it_comes(engine: Engine) -> None:
    body = {
        "Image": image("busybox"),
        "Cmd": ["echo", "hello"],
        "HostConfig": {"NetworkMode": "none"},
    }
    made = engine.request("POST", "/containers/create", body=body)["Id"]
    try:
        options = {"stream": True, "stdout": True, "stderr": True}
        with engine.stream("POST", f"/containers/{made}/attach", options) as output:
            engine.request("POST", f"/containers/{made}/start")
            data = b"".join(output)
    finally:
        engine.request("DELETE", f"/containers/{made}", {"force": True})

    assert data == b"\1\0\0\0\0\0\0\6hello\n"


class Pretender:
    """Answers like an Engine, with what a test gives it.

    Args:
        path: of its socket.
        answer: returns the bytes for the request so far; nothing to stay silent.
    """

    def __init__(self, path: Path, answer: Callable[[bytes], bytes]) -> None:
        self.address = f"unix://{path}"
        self.requests: list[bytes] = []
        self._answer = answer
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        self._lines: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._socket.accept()
                self._lines.append(line)
                threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := line.recv(65536):
                self.requests.append(data)
                answer = self._answer(data)
                if answer:
                    line.sendall(answer)
                if b"Connection: close" in answer:
                    line.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for line in self._lines:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
            line.close()


def said(status: str, body: bytes, *headers: str) -> bytes:
    head = [f"HTTP/1.1 {status}", "Content-Type: application/json",
            f"Content-Length: {len(body)}", *headers]  # fmt: skip
    return "\r\n".join([*head, "", ""]).encode() + body


@contextlib.contextmanager
def pretender(path: Path, answer: Callable[[bytes], bytes]) -> Iterator[Pretender]:
    made = Pretender(path, answer)
    try:
        yield made
    finally:
        made.close()


def test_an_engine_that_hangs_is_given_up(tmp_path: Path) -> None:
    with pretender(tmp_path / "s", lambda _: b"") as silent, Engine(silent.address) as engine:
        with pytest.raises(DockerError, match=r"did not answer within 0\.2 s"):
            engine.request("GET", "/info", timeout=0.2)


def test_an_engine_that_wants_a_later_version_gets_it(tmp_path: Path) -> None:
    refusal = (
        b'{"message":"client version 1.41 is too old. Minimum supported API version is 1.44, x"}'
    )

    def answer(request: bytes) -> bytes:
        return said("200 OK", b'{"ok":1}') if b"/v1.44/" in request else said("400 Bad", refusal)

    with pretender(tmp_path / "s", answer) as modern, Engine(modern.address) as engine:
        assert engine.request("GET", "/info") == {"ok": 1}
        assert engine.request("GET", "/info") == {"ok": 1}

        assert [b"/v1.44/" in request for request in modern.requests] == [False, True, True]


def test_a_kept_connection_that_was_closed_is_made_anew(tmp_path: Path) -> None:
    with pretender(tmp_path / "s", lambda _: said("200 OK", b"1")) as first:
        engine = Engine(first.address)
        assert engine.request("GET", "/info") == 1
    (tmp_path / "s").unlink()
    with pretender(tmp_path / "s", lambda _: said("200 OK", b"2")), engine:
        assert engine.request("GET", "/info") == 2


def test_an_engine_that_hangs_up_in_the_middle_is_an_error(tmp_path: Path) -> None:
    def answer(_: bytes) -> bytes:
        return b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{"

    with pretender(tmp_path / "s", answer) as flaky, Engine(flaky.address) as engine:
        with pytest.raises(DockerError, match="hung up in the middle"):
            engine.request("GET", "/info")


def test_where_nobody_answers_the_error_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(DockerError, match="start it with"):
        Engine(f"unix://{tmp_path}/nosuch").request("GET", "/info")
