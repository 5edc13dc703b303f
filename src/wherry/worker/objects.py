"""The worker's own small client of a store: a folder (``file://``) or a bucket (``s3://``)."""

from __future__ import annotations

import os

from . import digests
from .faults import CorruptObject, StoreFault
from .formats import blob_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from .formats import Buffer, Part

    class Backend(Protocol):
        """What a kind of store has to offer."""

        def close(self) -> None: ...  # noqa: D102
        def size(self, key: str) -> int: ...  # noqa: D102
        def read(self, key: str, start: int, end: int | None) -> bytes: ...  # noqa: D102
        def read_into(self, key: str, start: int, view: memoryview) -> None: ...  # noqa: D102
        def read_file(self, key: str, path: str) -> None: ...  # noqa: D102
        def write(self, key: str, parts: Sequence[Buffer]) -> None: ...  # noqa: D102
        def write_file(self, key: str, path: str) -> None: ...  # noqa: D102


class Objects:
    """Objects by key under one URL.

    Every method raises `StoreFault` when the store does not answer or refuses, and `MissingObject`
    when there is no such object.

    Args:
        url: ``file:///folder``, ``s3://bucket/prefix``, or a path.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/") or "/"
        self._backend = _backend(self.url)

    def close(self) -> None:
        """Let go of connections; the next use makes new ones."""
        self._backend.close()

    def size(self, key: str) -> int:
        """Return how many bytes an object has."""
        return self._backend.size(key)

    def read(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """Return an object, or its bytes from ``start`` up to ``end``."""
        return self._backend.read(key, start, end)

    def read_into(self, key: str, start: int, view: memoryview) -> None:
        """Fill a buffer with an object's bytes from ``start`` on, in parallel parts if large.

        Raises:
            CorruptObject: it has not so many bytes.
        """
        self._backend.read_into(key, start, view)

    def read_file(self, key: str, path: str) -> None:
        """Copy an object into a file, in parallel parts if large; the file appears when whole."""
        self._backend.read_file(key, path)

    def write(self, key: str, parts: Sequence[Buffer]) -> None:
        """Store an object that consists of these parts, in parallel if large; replaces another."""
        self._backend.write(key, parts)

    def write_file(self, key: str, path: str) -> None:
        """Store a file's bytes as an object."""
        self._backend.write_file(key, path)

    def read_blob(self, part: Part) -> bytearray:
        """Return a content-addressed object, into which nothing of it is copied a second time.

        Raises:
            CorruptObject: its bytes are not those that its name promises.
        """
        digest = part["blob"]
        key = blob_key(digest)
        size = part["size"] if "size" in part else self.size(key)
        data = bytearray(size)
        self.read_into(key, 0, memoryview(data))
        if digests.digest_of([data]) != digest:
            raise CorruptObject(
                f"{self.url}/{key} was changed or damaged: its SHA-256 is not its name. "
                "Submit the call again; what is missing is sent anew once that object is deleted."
            )
        return data


def _backend(url: str) -> Backend:
    scheme, separator, rest = url.partition("://")
    if not separator:
        from .files import FileObjects

        return FileObjects(os.path.abspath(url))
    if scheme == "file":
        from .files import FileObjects

        if "%" in rest:
            from urllib.parse import unquote

            rest = unquote(rest)
        return FileObjects("/" + rest.partition("/")[2])
    if scheme == "s3":
        from .s3 import S3Objects

        return S3Objects(url)
    raise StoreFault(f"A store is file:///folder or s3://bucket/prefix, not {url!r}.")
