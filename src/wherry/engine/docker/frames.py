"""Both streams of a container over one connection, taken apart.

The bytes are handed on as they come, without decoding, joining or keeping them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

STDOUT_NUMBER, STDERR_NUMBER = 1, 2
HEADER_SIZE = 8


class Frames:
    """Takes apart what the Engine sends: a header (stream, three zeros, length), then the bytes.

    https://docs.docker.com/reference/api/engine/version/v1.41/#tag/Container/operation/ContainerAttach

    >>> frames = Frames()
    >>> list(frames.feed(bytes([1, 0, 0, 0, 0, 0, 0, 5]) + b"he"))
    [(1, b'he')]
    >>> list(frames.feed(b"llo" + bytes([2, 0, 0, 0, 0, 0])))
    [(1, b'llo')]
    """

    def __init__(self) -> None:
        self._header = b""
        self._stream = 0
        self._missing = 0

    @property
    def whole(self) -> bool:
        """Whether what was handed out last is the end of what the Engine sent as one piece."""
        return not self._missing

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Take the next bytes of the connection, cut anywhere.

        Args:
            data: the bytes.

        Yields:
            The number of the stream (1 is stdout, 2 is stderr), and bytes of it.
        """
        at, end = 0, len(data)
        while at < end:
            if self._missing:
                payload = data[at : at + self._missing]
                at += len(payload)
                self._missing -= len(payload)
                yield self._stream, payload
                continue
            needed = HEADER_SIZE - len(self._header)
            self._header += data[at : at + needed]
            at += needed
            if len(self._header) == HEADER_SIZE:
                self._stream = self._header[0]
                self._missing = int.from_bytes(self._header[4:], "big")
                self._header = b""
