"""Moving bytes between descriptors and buffers, however many there are, without a second copy."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Sequence

from wherry.store.api import Buffer

_PIECE = 1 << 30  # Linux moves at most 2 GiB in a call
_BUFFERS_MOST = 512  # IOV_MAX is 1,024
_COPIED = 1 << 20


def fill(descriptor: int, view: memoryview, start: int) -> int:
    """Fill a buffer from a file's place on; returns how many bytes there were."""
    got = 0
    while got < view.nbytes:
        count = os.preadv(descriptor, [view[got : got + _PIECE]], start + got)
        if not count:
            break
        got += count
    return got


def read_range(descriptor: int, start: int, size: int) -> bytes:
    """Return a file's bytes from a place on; fewer if it ends before."""
    if size <= _PIECE:
        return os.pread(descriptor, size, start)
    # The bytes of a BytesIO are handed out as they are; a bytearray's would be copied.
    into = io.BytesIO(bytes(size))
    with into.getbuffer() as view:
        got = fill(descriptor, view, start)
    into.truncate(got)
    return into.getvalue()


def write_all(descriptor: int, parts: Sequence[Buffer]) -> None:
    """Write buffers one after the other."""
    views = [view for part in parts if (view := memoryview(part).cast("B")).nbytes]
    at = 0
    while at < len(views):
        batch = [view[:_PIECE] for view in views[at : at + _BUFFERS_MOST]]
        written = os.writev(descriptor, batch)
        while at < len(views) and written >= views[at].nbytes:
            written -= views[at].nbytes
            at += 1
        if written:
            views[at] = views[at][written:]


_NOT_HERE = (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EBADF, errno.EPERM)


def copy_bytes(source: int, target: int) -> None:
    """Copy the rest of one file to another; where the file system can, without reading it."""
    try:
        while os.copy_file_range(source, target, _PIECE):
            pass
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
    # All is copied but where the kernel could not, or took a special file for an empty one.
    while piece := os.read(source, _COPIED):
        write_all(target, [piece])
