"""Reads a workspace's files as they are at one moment, though others may write to them."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator

from wherry.errors import WorkspaceError
from wherry.workspace.tree import Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Item = TypeVar("Item")

PART = 16 << 20
"""Bytes that are read at once; longer files become several blobs of so many bytes."""


def read_whole(entry: Entry) -> tuple[Entry, bytes]:
    """Return a file's content, and the entry as it was when it was read.

    Raises:
        WorkspaceError: it is gone, cannot be read, or changed twice while it was read.
    """
    pieces: list[bytes] = []

    def start() -> Callable[[bytes], None]:
        pieces.clear()
        return pieces.append

    found = read_parts(entry, start)
    return found, pieces[0] if len(pieces) == 1 else b"".join(pieces)


def hash_file(entry: Entry) -> tuple[Entry, str]:
    """Return a file's SHA-256, and the entry as it was when it was read.

    Raises:
        WorkspaceError: it is gone, cannot be read, or changed twice while it was read.
    """
    whole = hashlib.sha256()

    def start() -> Callable[[bytes], None]:
        nonlocal whole
        whole = hashlib.sha256()
        return whole.update

    found = read_parts(entry, start)
    return found, whole.hexdigest()


def read_parts(entry: Entry, start: Callable[[], Callable[[bytes], None]]) -> Entry:
    """Read a file part by part; from the beginning once more when it changed meanwhile.

    Args:
        entry: the file.
        start: called before each try; returns what takes the parts, each of `PART` bytes but the
            last.

    Returns:
        The entry as it was when it was read.

    Raises:
        WorkspaceError: it is gone, cannot be read, or changed twice while it was read.
    """
    for _ in range(2):
        found = _try(entry, start())
        if found is not None:
            return found
    raise WorkspaceError(
        f"{entry.file!r} changes while it is read; wait until nothing writes to it, or leave it "
        "out in an ignore file."
    )


def _try(entry: Entry, take: Callable[[bytes], None]) -> Entry | None:
    # O_NONBLOCK: a pipe that has taken the file's place must not hold everything up.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(entry.file, flags)
    except FileNotFoundError as error:
        raise WorkspaceError(
            f"{entry.file!r} vanished while the workspace was read; wait until nothing writes to "
            "it, or leave it out in an ignore file."
        ) from error
    except OSError as error:
        raise WorkspaceError(f"cannot read {entry.file!r}: {error.strerror}") from error
    try:
        before = os.fstat(handle)
        if not stat.S_ISREG(before.st_mode):
            return None
        read = 0
        while read < before.st_size:
            part = _part(handle, min(PART, before.st_size - read))
            if not part:
                return None
            take(part)
            read += len(part)
        after = os.fstat(handle)
    except OSError as error:
        raise WorkspaceError(f"cannot read {entry.file!r}: {error.strerror}") from error
    finally:
        os.close(handle)
    return as_found(entry, after) if _same(before, after) else None


def _part(handle: int, size: int) -> bytes:
    pieces = []
    while size:
        piece = os.read(handle, size)
        if not piece:
            return b""
        pieces.append(piece)
        size -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def as_found(entry: Entry, info: os.stat_result) -> Entry:
    """Return a file's entry with what the file system says of it now."""
    return entry._replace(
        mode=stat.S_IMODE(info.st_mode),
        size=info.st_size,
        mtime_ns=info.st_mtime_ns,
        ctime_ns=info.st_ctime_ns,
        inode=info.st_ino,
    )


def _same(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_size, one.st_mtime_ns, one.st_ctime_ns) == (
        other.st_size,
        other.st_mtime_ns,
        other.st_ctime_ns,
    )


def sha256(data: bytes) -> str:
    """Return the SHA-256 of some bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def each(work: Callable[[Item], None], items: Iterable[Item], threads: int) -> None:
    """Do something with each item in a few threads; the first error ends it and is raised."""
    todo = list(items)
    if len(todo) < 2 or threads < 2:
        for item in todo:
            work(item)
        return
    source: Iterator[Item] = iter(todo)
    lock = threading.Lock()
    errors: list[BaseException] = []

    def run() -> None:
        while not errors:
            with lock:
                item = next(source, None)
            if item is None:
                return
            try:
                work(item)
            except BaseException as error:  # noqa: BLE001 — it is raised again by the caller
                errors.append(error)

    team = [threading.Thread(target=run, daemon=True) for _ in range(min(threads, len(todo)))]
    for thread in team:
        thread.start()
    for thread in team:
        thread.join()
    if errors:
        raise errors[0]
