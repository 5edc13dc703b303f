"""Messages between the emulator and its agent, over one end of a stream socket.

A message is a tuple of plain data, marshalled, with its length before it. Both ends are the same
Python, and `marshal` needs no import. Many messages travel in one write. What the other side does
not take waits here, and whoever sends much asks `waiting` first. Knows nothing of tasks.
"""

from __future__ import annotations

import marshal
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Message = tuple[Any, ...]

_HEADER = 4
_MOST_PARTS = 256
_ROUND = 1 << 18


class Channel:
    """One end of the connection. Not to be used by two threads at once, except as `Host` does it.

    Args:
        fd: the socket, which becomes non-blocking.

    Attributes:
        waiting: bytes that were put and not yet taken by the other side.
        at_end: whether nothing more will come from the other side.
        broken: whether the other side takes nothing more; what is put is then dropped.
    """

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.waiting = 0
        self.at_end = False
        self.broken = False
        self._out: list[bytes] = []
        self._in = bytearray()

    def put(self, message: Message) -> None:
        """Add a message to what waits; `flush` sends it."""
        if self.broken:
            return
        data = marshal.dumps(message)
        self._out.append(len(data).to_bytes(_HEADER, "little"))
        self._out.append(data)
        self.waiting += _HEADER + len(data)

    def flush(self) -> None:
        """Send as much as the other side takes now."""
        while self._out:
            try:
                sent = os.writev(self.fd, self._out[:_MOST_PARTS])
            except BlockingIOError:
                return
            except OSError:
                self.broken = True
                self._out.clear()
                self.waiting = 0
                return
            self._drop(sent)

    def receive(self) -> list[Message]:
        """Return the messages that have come; `at_end` is set when no more will."""
        try:
            data = os.read(self.fd, _ROUND)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.at_end = True
            return []
        self._in += data
        return self._whole_messages()

    def _whole_messages(self) -> list[Message]:
        messages: list[Message] = []
        start = 0
        while True:
            body = start + _HEADER
            end = body + int.from_bytes(self._in[start:body], "little")
            if body > len(self._in) or end > len(self._in):
                break
            with memoryview(self._in) as view:
                messages.append(marshal.loads(view[body:end]))  # noqa: S302 — our own other half
            start = end
        del self._in[:start]
        return messages

    def _drop(self, sent: int) -> None:
        self.waiting -= sent
        done = 0
        for part in self._out:
            if sent < len(part):
                break
            sent -= len(part)
            done += 1
        del self._out[:done]
        if sent:
            self._out[0] = self._out[0][sent:]
