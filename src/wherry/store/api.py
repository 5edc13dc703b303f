"""What a store is: objects by key, under one URL.

A key is text of ``/``-separated parts without ``.`` and ``..``. Objects are written whole or not at
all; a reader never sees half of one.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

Buffer = bytes | bytearray | memoryview
"""Bytes that are passed on without being copied."""


@dataclass(frozen=True)
class ObjectInfo:
    """One object of a list.

    Args:
        key: its name below the store's URL.
        size: bytes.
        modified: seconds since the epoch.
    """

    key: str
    size: int
    modified: float


class Store(abc.ABC):
    """Objects under one URL. All methods may be called from any thread.

    Attributes:
        url: ``file:///folder`` or ``s3://bucket/prefix``, without a slash at the end.

    Every method raises `StoreError`, with the URL and the key in its message, when the store does
    not answer or refuses; `MissingObjectError` where a key that must be there is not.
    """

    url: str

    kept_for: float = 7 * 86400.0
    """Seconds for which no clean-up removes an object, since a submission may rely on it."""

    @abc.abstractmethod
    def read(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """Return an object, or its bytes from ``start`` up to ``end``.

        Raises:
            MissingObjectError: there is no such object.
        """

    @abc.abstractmethod
    def read_into(self, key: str, start: int, into: memoryview) -> None:
        """Fill a buffer with an object's bytes from ``start`` on, in parallel parts if large.

        Raises:
            MissingObjectError: there is no such object.
            CorruptObjectError: it has not so many bytes.
        """

    @abc.abstractmethod
    def read_many(self, keys: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """Return small objects as they arrive, in any order; ``None`` for one that is not there.

        ``keys`` is read as needed, so that memory stays bounded however many there are.
        """

    @abc.abstractmethod
    def read_file(self, key: str, path: str) -> None:
        """Copy an object into a file, in parallel parts if large; the file appears when whole."""

    @abc.abstractmethod
    def write(self, key: str, parts: Sequence[Buffer]) -> None:
        """Store an object that consists of these parts, in parallel if large; replaces another."""

    @abc.abstractmethod
    def write_new(self, key: str, parts: Sequence[Buffer]) -> bool:
        """Store an object unless the key is taken; tells whether it was stored."""

    @abc.abstractmethod
    def write_file(self, key: str, path: str) -> None:
        """Store a file's bytes as an object."""

    @abc.abstractmethod
    def head(self, key: str) -> ObjectInfo | None:
        """Tell an object's size and time; ``None`` when it is not there."""

    @abc.abstractmethod
    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """List the objects whose key begins so, page by page, in the order of their keys."""

    @abc.abstractmethod
    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects; one that is not there is no error."""

    def touch(self, key: str) -> bool:
        """Give an object the present time, if that is cheap here; tells whether it was done."""
        del key
        return False

    def delete_old(self, keys: Iterable[str], before: float) -> int:
        """Remove objects that are older than a moment still, when their turn comes.

        Args:
            keys: the objects.
            before: seconds since the epoch.

        Returns:
            How many bytes that were.
        """
        old = [info for info in map(self.head, keys) if info and info.modified < before]
        self.delete([info.key for info in old])
        return sum(info.size for info in old)

    def close(self) -> None:  # noqa: B027 — nothing to let go of, for most
        """Let go of connections; may be called many times."""
