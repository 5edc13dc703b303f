"""The context of a build: a tree as a tar stream, made while it is sent.

The tree is what `wherry.workspace.tree` found; nothing is looked up again, links stay links, and a
file that is not any more what was found ends the stream.
"""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from wherry.errors import WorkspaceError

if TYPE_CHECKING:
    from wherry.workspace.tree import Entry

_CHUNK = 1 << 20
_BLOCK = tarfile.BLOCKSIZE
_TYPES = {"file": tarfile.REGTYPE, "dir": tarfile.DIRTYPE, "link": tarfile.SYMTYPE}
_WHITEOUT = ".wh."


def tar_stream(
    entries: Iterable[Entry], folder: str = "", texts: Iterable[tuple[str, bytes]] = ()
) -> Iterator[bytes]:
    """Make a tar archive piece by piece.

    Args:
        entries: files, folders and links, a folder before what is in it.
        folder: where they are in the archive; its top when empty.
        texts: more files, by name and content, outside of the folder.

    Raises:
        WorkspaceError: a file cannot be read, or is not what it was.
    """
    for name, data in texts:
        yield _head(_info(name, "file", 0o644, len(data)))
        yield data + _padding(len(data))
    if folder:
        yield _head(_info(folder, "dir", 0o755))
    for entry in entries:
        yield from _entry(entry, f"{folder}/{entry.path}" if folder else entry.path)
    yield bytes(2 * _BLOCK)


def check_names(entries: Iterable[Entry]) -> None:
    """Refuse names that mean something else in an image.

    Raises:
        WorkspaceError: a name begins with ``.wh.``.
    """
    for entry in entries:
        if any(part.startswith(_WHITEOUT) for part in entry.path.split("/")):
            raise WorkspaceError(
                f"{entry.path!r} cannot be in an image: names that begin with {_WHITEOUT!r} mean "
                "removed files there; rename it, or have it ignored"
            )


def _entry(entry: Entry, name: str) -> Iterator[bytes]:
    size = entry.size if entry.kind == "file" else 0
    info = _info(name, entry.kind, entry.mode, size)
    info.mtime = entry.mtime_ns // 1_000_000_000
    if entry.kind == "link":
        info.linkname = entry.target
    yield _head(info)
    if entry.kind == "file":
        yield from _content(entry)
        yield _padding(size)


def _info(name: str, kind: str, mode: int, size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = _TYPES[kind]
    info.mode = stat.S_IMODE(mode)
    info.size = size
    return info


def _head(info: tarfile.TarInfo) -> bytes:
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _content(entry: Entry) -> Iterator[bytes]:
    left = entry.size
    try:
        with open(os.open(entry.file, os.O_RDONLY | os.O_NOFOLLOW), "rb", buffering=0) as file:
            while chunk := file.read(min(_CHUNK, left + 1)):
                left -= len(chunk)
                if left < 0:
                    break
                yield chunk
            found = os.fstat(file.fileno())
    except OSError as error:
        raise WorkspaceError(
            f"{entry.file} could not be read while it was sent: {error.strerror}"
        ) from None
    if left or found.st_mtime_ns != entry.mtime_ns:
        raise WorkspaceError(f"{entry.file} was changed while it was sent; run it again")


def _padding(size: int) -> bytes:
    return bytes(-size % _BLOCK)
