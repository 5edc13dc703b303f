"""A store that is a folder."""

from __future__ import annotations

import errno
import os

from .faults import CorruptObject, MissingObject, StoreFault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .formats import Buffer

_PIECE = 1 << 30  # Linux reads and writes at most 2 GiB in a call.
_VECTOR_MOST = 512
_GONE = (errno.ENOENT, errno.ENOTDIR)


class FileObjects:
    """Objects as files below a folder.

    Args:
        root: the folder.
    """

    def __init__(self, root: str) -> None:
        self._root = root

    def close(self) -> None:
        """Let go of nothing: files are closed as soon as they are read."""

    def size(self, key: str) -> int:
        """Return how many bytes an object has."""
        try:
            return os.stat(self._path(key)).st_size
        except OSError as error:
            raise self._fault(error, "read", key) from None

    def read(self, key: str, start: int, end: int | None) -> bytes:
        """Return an object's bytes from ``start`` up to ``end``."""
        try:
            with open(self._path(key), "rb", buffering=0) as file:
                if start:
                    file.seek(start)
                if end is None:
                    return file.read()
                data = bytearray(max(end - start, 0))
                return bytes(data[: _fill(file.fileno(), memoryview(data), start)])
        except OSError as error:
            raise self._fault(error, "read", key) from None

    def read_into(self, key: str, start: int, view: memoryview) -> None:
        """Fill a buffer with an object's bytes from ``start`` on."""
        try:
            descriptor = os.open(self._path(key), os.O_RDONLY | os.O_CLOEXEC)
            try:
                got = _fill(descriptor, view, start)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._fault(error, "read", key) from None
        if got != view.nbytes:
            raise CorruptObject(
                f"{self._path(key)} is cut off: {view.nbytes:,} bytes were expected from "
                f"{start:,} on, and there are {got:,}."
            )

    def read_file(self, key: str, path: str) -> None:
        """Copy an object into a file."""
        import shutil

        beside = f"{path}.{os.getpid()}.part"
        try:
            shutil.copyfile(self._path(key), beside)
            os.replace(beside, path)
        except OSError as error:
            _remove(beside)
            raise self._fault(error, f"copied to {path}", key) from None

    def write(self, key: str, parts: Sequence[Buffer]) -> None:
        """Store an object; it appears when it is whole."""
        path = self._path(key)
        beside = f"{path}.{os.getpid()}.{os.urandom(4).hex()}.part"
        try:
            descriptor = _create(beside)
            try:
                write_all(descriptor, parts)
            finally:
                os.close(descriptor)
            os.replace(beside, path)
        except OSError as error:
            _remove(beside)
            raise self._fault(error, "written", key) from None

    def write_file(self, key: str, path: str) -> None:
        """Store a file's bytes as an object."""
        import shutil

        target = self._path(key)
        beside = f"{target}.{os.getpid()}.{os.urandom(4).hex()}.part"
        try:
            os.close(_create(beside))
            shutil.copyfile(path, beside)
            os.replace(beside, target)
        except OSError as error:
            _remove(beside)
            raise self._fault(error, "written", key) from None

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"

    def _fault(self, error: OSError, doing: str, key: str) -> StoreFault:
        path = self._path(key)
        if error.errno in _GONE and doing != "written":
            return MissingObject(f"{path} is not there; it was deleted, or never stored.")
        if error.errno == errno.ENOSPC:
            return StoreFault(f"{path} cannot be {doing}: no room is left on its disk.")
        return StoreFault(f"{path} cannot be {doing}: {error.strerror}.")


def _create(path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return os.open(path, flags, 0o666)


def _fill(descriptor: int, view: memoryview, start: int) -> int:
    got = 0
    while got < view.nbytes:
        count = os.preadv(descriptor, [view[got : got + _PIECE]], start + got)
        if not count:
            break
        got += count
    return got


def write_all(descriptor: int, parts: Sequence[Buffer]) -> None:
    """Write parts one after the other."""
    left = [view for part in parts if (view := memoryview(part).cast("B")).nbytes]
    while left:
        some = [view[:_PIECE] for view in left[:_VECTOR_MOST]]
        written = os.writev(descriptor, some)
        while left and written >= left[0].nbytes:
            written -= left.pop(0).nbytes
        if written:
            left[0] = left[0][written:]


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
