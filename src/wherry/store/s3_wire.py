"""What a client of S3 must do for the store: one request, or one object, at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from wherry.store.api import Buffer


@dataclass(frozen=True)
class Entry:
    """An object, as a list or a look at it tells.

    Args:
        key: its whole key in the bucket.
        size: bytes.
        modified: seconds since the epoch.
        etag: what changes when it is replaced.
    """

    key: str
    size: int
    modified: float
    etag: str


class Wire(Protocol):
    """A client of one bucket. All methods may be called from any thread, and raise `S3Failure`."""

    def get(self, key: str, most: int) -> tuple[int, Buffer | None]:
        """Return an object's size and, if that is not more than ``most``, its bytes."""

    def get_range(self, key: str, start: int, end: int | None, etag: str = "") -> Buffer:
        """Return what there is of a range, which begins inside the object.

        Args:
            key: the object's key.
            start: where the range begins.
            end: where it ends; ``None`` for the object's end.
            etag: refuse if the object is not this one any more.
        """

    def put(self, key: str, data: Buffer, *, new: bool = False) -> None:
        """Store an object in one request; ``new`` if only where there is none."""

    def put_large(self, key: str, pieces: Iterator[Buffer], piece: int) -> None:
        """Store an object in parts of ``piece`` bytes, many at once."""

    def head(self, key: str) -> Entry | None:
        """Tell about an object; ``None`` if the server has none, or no bucket."""

    def pages(self, prefix: str) -> Iterator[Sequence[Entry]]:
        """List the objects below a prefix."""

    def delete(self, keys: Sequence[str]) -> None:
        """Remove at most 1,000 objects."""

    def close(self) -> None:
        """Let go of connections."""


PARALLEL = 12
"""Parts of one object that are under way at once."""
