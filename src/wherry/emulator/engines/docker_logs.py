"""The output of all containers, read by one thread.

The Engine sends both streams of a container over one connection, in frames; their bytes are handed
on as they come, without decoding, joining or keeping them. This module knows sockets and frames,
and nothing of tasks.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from wherry.engine.docker.frames import Frames

_log = logging.getLogger(__name__)

READ_SIZE = 256 * 1024


@dataclass
class Stream:
    """One container's output.

    Attributes:
        connection: where it comes from.
        sink: gets the bytes.
        ended: called once after the last bytes, and not when the stream was dropped.
        delivered: how many bytes of each stream were handed on.
    """

    connection: socket.socket
    sink: Callable[[bytes], None]
    ended: Callable[[], None]
    delivered: dict[int, int] = field(default_factory=dict)
    frames: Frames = field(default_factory=Frames)


class Streams:
    """Reads all streams in one thread, which lives from `open` to `close`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changes: list[tuple[Stream, bool]] = []
        self._closing = False
        self._selector: selectors.BaseSelector | None = None
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Start the thread."""
        self._selector = selectors.DefaultSelector()
        self._waker, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="docker-output", daemon=True)
        self._thread.start()

    def add(self, stream: Stream) -> None:
        """Begin to read a stream."""
        stream.connection.setblocking(False)
        self._change(stream, wanted=True)

    def drop(self, stream: Stream) -> None:
        """Stop reading a stream, and close it; harmless when it has ended."""
        self._change(stream, wanted=False)

    def close(self) -> None:
        """Close all streams and end the thread."""
        if self._thread is None:
            return
        self._closing = True
        self._wake()
        self._thread.join()
        self._thread = None

    def _change(self, stream: Stream, *, wanted: bool) -> None:
        with self._lock:
            self._changes.append((stream, wanted))
        self._wake()

    def _wake(self) -> None:
        # Full means that it will wake anyway; closed means that nobody is there.
        with contextlib.suppress(OSError):
            self._waker.send(b"x")

    def _run(self) -> None:
        selector = self._selector
        assert selector is not None  # noqa: S101 — `open` made it before it started this thread
        reading: set[int] = set()
        while not self._closing:
            for key, _ in selector.select():
                if key.data is None:
                    self._drain()
                elif not self._read(key.data):
                    self._end(selector, reading, key.data)
                    key.data.ended()
            self._apply(selector, reading)
        self._apply(selector, reading)
        for key in list(selector.get_map().values()):
            if key.data is not None:
                self._end(selector, reading, key.data)
        selector.close()
        self._waker.close()
        self._woken.close()

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass

    def _apply(self, selector: selectors.BaseSelector, reading: set[int]) -> None:
        with self._lock:
            changes, self._changes = self._changes, []
        for stream, wanted in changes:
            if wanted:
                selector.register(stream.connection, selectors.EVENT_READ, stream)
                reading.add(id(stream))
            elif id(stream) in reading:
                self._end(selector, reading, stream)

    def _end(self, selector: selectors.BaseSelector, reading: set[int], stream: Stream) -> None:
        selector.unregister(stream.connection)
        reading.discard(id(stream))
        stream.connection.close()

    def _read(self, stream: Stream) -> bool:
        """Hand on what is there; returns whether there may be more."""
        try:
            data = stream.connection.recv(READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        for number, payload in stream.frames.feed(data):
            stream.delivered[number] = stream.delivered.get(number, 0) + len(payload)
            hand_on(stream.sink, payload)
        return bool(data)


def hand_on(sink: Callable[[bytes], None], payload: bytes) -> None:
    """Give bytes to a sink whose failure must not stop the output of other containers."""
    try:
        sink(payload)
    except Exception:  # noqa: BLE001
        _log.exception("what a container wrote could not be handed on")


def undelivered(number: int, payload: bytes, delivered: dict[int, int]) -> bytes:
    """Return what of a stream's bytes, read again from its beginning, was not handed on before.

    Args:
        number: the stream.
        payload: the next bytes of it.
        delivered: how many bytes of each stream were handed on; counted down here.
    """
    before = delivered.get(number, 0)
    delivered[number] = max(0, before - len(payload))
    return payload[before:]
