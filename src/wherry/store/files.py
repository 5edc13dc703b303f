"""A store that is a folder of this machine, or of a file system that several share.

An object is written beside its place, under a name that no key has, and moved there when it is
whole: readers see the old object or the new one, and what a killed writer leaves is never listed.

Nothing is flushed to the disk (fsync) by us. What is written survives the death of any process; an
orderly reboot too. A loss of power may take the last seconds' objects, or leave a file without its
bytes: the readers notice, since blobs, packs and outcomes carry hashes or lengths, and say so. To
flush each object would cost milliseconds for each, a hundred times the writing itself.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote

from wherry.errors import CorruptObjectError, MissingObjectError, StoreError
from wherry.store import file_faults, keys
from wherry.store.api import Buffer, ObjectInfo, Store
from wherry.store.file_bytes import copy_bytes, fill, read_range, write_all

_Found = list[tuple[str, ObjectInfo | None]]  # inside the class, `list` is its method
_GONE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class FileStore(Store):
    """Objects as files below a folder, which is made when the first is written.

    Args:
        folder: its absolute path.
    """

    kept_for = 3600.0

    def __init__(self, folder: str) -> None:
        self._root = folder.rstrip("/") or "/"
        self.url = "file://" + quote(self._root)

    # -- reading ----------------------------------------------------------------------------------

    def read(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """Return an object, or its bytes from ``start`` up to ``end``; fewer if it ends before."""
        try:
            with open(self._path(key), "rb", buffering=0) as file:
                if not start and end is None:
                    return file.readall()
                size = os.fstat(file.fileno()).st_size
                until = size if end is None else min(end, size)
                return read_range(file.fileno(), start, max(until - start, 0))
        except OSError as error:
            raise self._fault(error, "read", key) from None

    def read_into(self, key: str, start: int, into: memoryview) -> None:
        """Fill a buffer with an object's bytes from ``start`` on."""
        view = into.cast("B")
        try:
            with open(self._path(key), "rb", buffering=0) as file:
                got = fill(file.fileno(), view, start)
        except OSError as error:
            raise self._fault(error, "read", key) from None
        if got < view.nbytes:
            raise CorruptObjectError(
                f"{self._path(key)} is cut off: {view.nbytes:,} bytes were expected from "
                f"{start:,} on, and there are {got:,}"
            )

    def read_many(self, keys: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """Return small objects one after the other; ``None`` for one that is not there."""
        for key in keys:
            try:
                yield key, self.read(key)
            except MissingObjectError:
                yield key, None

    def read_file(self, key: str, path: str) -> None:
        """Copy an object into a file, which appears when it is whole."""
        beside = _beside(path)
        try:
            with open(self._path(key), "rb", buffering=0) as source:
                try:
                    with open(beside, "xb", buffering=0) as target:
                        copy_bytes(source.fileno(), target.fileno())
                    os.replace(beside, path)
                except OSError as error:
                    raise file_faults.of_target(error, path) from None
        except OSError as error:
            raise self._fault(error, "read", key) from None
        finally:
            _remove(beside)

    def head(self, key: str) -> ObjectInfo | None:
        """Tell an object's size and time; ``None`` when it is not there."""
        try:
            found = os.stat(self._path(key))
        except _GONE:
            return None
        except OSError as error:
            raise self._fault(error, "looked at", key) from None
        if not stat.S_ISREG(found.st_mode):
            return None
        return ObjectInfo(key, found.st_size, found.st_mtime)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """List the objects whose key begins so, folder by folder, in the order of their keys."""
        folder, slash, start = keys.checked_prefix(prefix).rpartition("/")
        return self._listed(folder + slash, start)

    def _listed(self, folder: str, start: str) -> Iterator[ObjectInfo]:
        for name, info in self._entries(folder):
            if not name.startswith(start) and name != start + "/":
                continue
            if info is not None:
                yield info
            else:
                yield from self._listed(folder + name, "")

    def _entries(self, folder: str) -> _Found:
        """Return what is in a folder in the order of keys; folders as ``name/`` with ``None``."""
        found: _Found = []
        try:
            with os.scandir(f"{self._root}/{folder}") as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        found.append((entry.name + "/", None))
                    elif entry.is_file() and not keys.unfinished(entry.name):
                        found.append((entry.name, _info(folder + entry.name, entry)))
        except _GONE:
            return []
        except OSError as error:
            raise self._fault(error, "listed", folder) from None
        found = [(name, info) for name, info in found if info is not None or name[-1] == "/"]
        return sorted(found, key=lambda pair: pair[0].encode(errors="surrogateescape"))

    # -- writing ----------------------------------------------------------------------------------

    def write(self, key: str, parts: Sequence[Buffer]) -> None:
        """Store an object that consists of these parts; replaces another."""
        path = self._path(key)
        beside = _beside(path)
        try:
            self._written(beside, parts)
            os.replace(beside, path)
        except OSError as error:
            raise self._fault(error, "written", key) from None
        finally:
            _remove(beside)

    def write_new(self, key: str, parts: Sequence[Buffer]) -> bool:
        """Store an object unless the key is taken; of many who try at once, one succeeds."""
        path = self._path(key)
        if os.path.lexists(path):
            return False
        beside = _beside(path)
        try:
            self._written(beside, parts)
            return _moved_new(beside, path)
        except OSError as error:
            raise self._fault(error, "written", key) from None
        finally:
            _remove(beside)

    def write_file(self, key: str, path: str) -> None:
        """Store a file's bytes as an object."""
        target = self._path(key)
        beside = _beside(target)
        try:
            source = open(path, "rb", buffering=0)  # noqa: SIM115 — told apart from the target
        except OSError as error:
            raise file_faults.of_source(error, path) from None
        try:
            with source:
                self._copied(source.fileno(), beside)
            os.replace(beside, target)
        except OSError as error:
            raise self._fault(error, "written", key) from None
        finally:
            _remove(beside)

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects, and folders that have become empty."""
        for key in keys:
            path = self._path(key)
            try:
                os.unlink(path)
            except _GONE:
                continue
            except OSError as error:
                if not os.path.isdir(path):
                    raise self._fault(error, "deleted", key) from None
                continue
            self._prune(os.path.dirname(path))

    def touch(self, key: str) -> bool:
        """Give an object the present time; tells whether it was done."""
        try:
            os.utime(self._path(key))
        except OSError:  # deleted since, or another user's
            return False
        return True

    def delete_old(self, keys: Iterable[str], before: float) -> int:
        """Remove objects that are older than a moment still, when their turn comes.

        Each is moved aside first: what was touched until then is moved back, and what is stored
        from then on is another file.
        """
        size = 0
        for key in keys:
            path = self._path(key)
            beside = _beside(path)
            try:
                os.rename(path, beside)
            except _GONE:
                continue
            except OSError as error:
                raise self._fault(error, "deleted", key) from None
            found = os.stat(beside)
            if found.st_mtime >= before:
                _moved_new(beside, path)
            else:
                size += found.st_size
            _remove(beside)
            self._prune(os.path.dirname(path))
        return size

    def _prune(self, folder: str) -> None:
        """Remove folders that are empty; whoever writes into one at this moment makes it again."""
        while len(folder) > len(self._root):
            try:
                os.rmdir(folder)
            except OSError:
                return
            folder = os.path.dirname(folder)

    def _written(self, path: str, parts: Sequence[Buffer]) -> None:
        descriptor = _create(path)
        try:
            write_all(descriptor, parts)
        finally:
            os.close(descriptor)

    def _copied(self, source: int, path: str) -> None:
        descriptor = _create(path)
        try:
            copy_bytes(source, descriptor)
        finally:
            os.close(descriptor)

    # -- names and words --------------------------------------------------------------------------

    def _path(self, key: str) -> str:
        return f"{self._root}/{keys.checked(key)}"

    def _fault(self, error: OSError, doing: str, key: str) -> StoreError:
        return file_faults.of_store(error, doing, self._root, key)


def _info(key: str, entry: os.DirEntry[str]) -> ObjectInfo | None:
    try:
        found = entry.stat()
    except FileNotFoundError:  # deleted since
        return None
    return ObjectInfo(key, found.st_size, found.st_mtime)


def _beside(path: str) -> str:
    return f"{path}.{os.getpid()}.{os.urandom(4).hex()}.part"


_MOST_TRIES = 100


def _create(path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    for _ in range(_MOST_TRIES):
        try:
            return os.open(path, flags, 0o666)
        except FileNotFoundError:
            # Again and again: who deletes the last object of a folder removes the folder too.
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
            except (FileNotFoundError, FileExistsError):  # removed between two of its steps
                continue
    return os.open(path, flags, 0o666)


# Some file systems (of FUSE, of other systems' shares) have no hard links.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def _moved_new(beside: str, path: str) -> bool:
    """Give a file its name unless another has it."""
    try:
        os.link(beside, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _moved_under_lock(beside, path)
    return True


def _moved_under_lock(beside: str, path: str) -> bool:
    import fcntl

    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if os.path.lexists(path):
            return False
        os.rename(beside, path)
        return True
    finally:
        os.close(folder)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
