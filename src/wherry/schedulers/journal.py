"""A file that says which apps were created and which have ended, one JSON line for each.

Many processes append to it; the ledger reads it from where it stopped. It is a notice, not a
record: whatever it says can be read again from the apps' own records.
"""

from __future__ import annotations

import fcntl
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def append(path: str, line: bytes) -> None:
    """Add one line; a journal that cannot be written is not worth failing for.

    Args:
        path: the journal.
        line: a JSON object and its newline.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        os.write(fd, line if _ends_well(fd) else b"\n" + line)
    except OSError:
        pass
    finally:
        os.close(fd)


def read(path: str, offset: int) -> tuple[list[dict[str, Any]], int]:
    """Read whole lines from an offset on.

    Args:
        path: the journal.
        offset: where the last reading stopped, in bytes.

    Returns:
        The entries, without lines that are not JSON objects, and the new offset.
    """
    import json

    try:
        with open(path, "rb") as file:
            file.seek(offset)
            data = file.read()
    except FileNotFoundError:
        return [], 0
    end = data.rfind(b"\n") + 1
    entries = []
    for line in data[:end].splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            entries.append(entry)
    return entries, offset + end


def compact(path: str, read_to: int) -> bool:
    """Empty the journal, unless somebody has added to it since it was read.

    Args:
        path: the journal.
        read_to: how much of it was read, in bytes.

    Returns:
        Whether it is empty now.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        unread = os.fstat(fd).st_size > read_to
        if not unread:
            os.ftruncate(fd, 0)
        return not unread
    finally:
        os.close(fd)


def _ends_well(fd: int) -> bool:
    """Tell whether the last line is whole; a full disk may have cut one short."""
    size = os.fstat(fd).st_size
    return size == 0 or os.pread(fd, 1, size - 1) == b"\n"
