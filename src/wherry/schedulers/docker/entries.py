"""What the Engine has kept of a container's output, put together again."""

from __future__ import annotations

from wherry.engine.docker.frames import Frames

_MOST = 16_384
"""Bytes of one entry; a longer line is kept as several (moby, daemon/logger/copier.go)."""


class Entries:
    """Gives the bytes that were written, as the answer of the Engine comes.

    The log driver that keeps all bytes as they are forgets the end of a line which is longer than
    one entry. It is put back: what follows a full entry, is no full one itself and has no end of
    its own was the rest of such a line.
    """

    def __init__(self) -> None:
        self._frames = Frames()
        self._size = 0
        self._after_full: dict[int, bool] = {}

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes of the connection, cut anywhere; return what was written.

        >>> def frame(data): return bytes([1, 0, 0, 0]) + len(data).to_bytes(4, "big") + data
        >>> Entries().feed(frame(b"x" * 16384) + frame(b"yz") + frame(b"next"))[-7:]
        b'yz\\nnext'
        """
        pieces = []
        frames, after_full = self._frames, self._after_full
        for source, piece in frames.feed(data):
            pieces.append(piece)
            self._size += len(piece)
            if not frames.whole:
                continue
            size, self._size = self._size, 0
            if piece.endswith(b"\n"):
                if after_full:
                    after_full.pop(source, None)
            elif size >= _MOST:
                after_full[source] = True
            elif after_full.pop(source, False):
                pieces.append(b"\n")
        return b"".join(pieces)
