"""A store whose outcomes and blobs are kept in a folder once they were fetched.

A blob is named by its content, and never changes; an outcome is asked for its size and time, and
fetched again if they are others. Everything else passes through.
"""

from __future__ import annotations

import glob
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence

from wherry.store.api import Buffer, ObjectInfo, Store

_OUTCOME = re.compile(r"jobs/[^/]+/out/\d+\Z")


class CachingStore(Store):
    """Keeps blobs and outcomes in a folder, which may be emptied at any time.

    Args:
        store: where they are.
        folder: where they are kept; made when it is needed.
    """

    def __init__(self, store: Store, folder: str) -> None:
        self.url = store.url
        self._store = store
        self._folder = os.path.abspath(os.path.expanduser(folder))

    def read(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """Return an object, or its bytes from ``start`` up to ``end``."""
        path = self._path(key)
        if path is None:
            return self._store.read(key, start, end)
        try:
            with open(path, "rb") as file:
                file.seek(start)
                return file.read() if end is None else file.read(max(0, end - start))
        except OSError:
            data = self._store.read(key, start, end)
        if start == 0 and end is None:
            self._keep(path, data)
        return data

    def read_into(self, key: str, start: int, into: memoryview) -> None:
        """Fill a buffer with an object's bytes from ``start`` on."""
        path = self._path(key)
        if path is not None and _filled(path, start, into):
            return
        self._store.read_into(key, start, into)
        info = self._store.head(key) if path is not None and start == 0 else None
        if path is not None and info is not None and info.size == into.nbytes:
            self._keep(path, into)

    def read_many(self, keys: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """Return small objects as they arrive."""
        return self._store.read_many(keys)

    def read_file(self, key: str, path: str) -> None:
        """Copy an object into a file."""
        self._store.read_file(key, path)

    def write(self, key: str, parts: Sequence[Buffer]) -> None:
        """Store an object."""
        self._store.write(key, parts)

    def write_new(self, key: str, parts: Sequence[Buffer]) -> bool:
        """Store an object unless the key is taken."""
        return self._store.write_new(key, parts)

    def write_file(self, key: str, path: str) -> None:
        """Store a file's bytes as an object."""
        self._store.write_file(key, path)

    def head(self, key: str) -> ObjectInfo | None:
        """Tell an object's size and time."""
        return self._store.head(key)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """List the objects whose key begins so."""
        return self._store.list(prefix)

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects, here and there."""
        gone = list(keys)
        self._store.delete(gone)
        for key in gone:
            for path in glob.glob(f"{glob.escape(os.path.join(self._folder, key))}*"):
                os.unlink(path)

    def close(self) -> None:
        """Let go of connections."""
        self._store.close()

    def _path(self, key: str) -> str | None:
        """Return where an object is kept, as it is now; ``None`` for one that is not kept."""
        if key.startswith("blobs/"):
            return os.path.join(self._folder, key)
        if not _OUTCOME.match(key):
            return None
        info = self._store.head(key)  # Another attempt may have replaced it.
        mark = f"{info.size}-{info.modified:.6f}" if info is not None else ""
        return os.path.join(self._folder, f"{key}@{mark}") if mark else None

    def _keep(self, path: str, data: Buffer) -> None:
        """Keep what was fetched; a folder that cannot be written to is no trouble of the caller's.

        The file appears when it is whole.
        """
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            handle, part = tempfile.mkstemp(dir=os.path.dirname(path))
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(part, path)
        except OSError:
            return


def _filled(path: str, start: int, into: memoryview) -> bool:
    """Fill a buffer from a file; tells whether there is one that is long enough."""
    try:
        with open(path, "rb", buffering=0) as file:
            file.seek(start)
            return file.readinto(into) == into.nbytes
    except OSError:
        return False
