"""Copies a tree into a folder of its own, so that later edits do not reach what runs there."""

from __future__ import annotations

import os

from wherry.errors import WorkspaceError
from wherry.workspace.archive_reading import each, read_parts
from wherry.workspace.tree import Entry, Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FICLONE = 0x40049409
SMALL = 64 << 10  # below this a copy takes no longer than asking for a shared one


def snapshot(tree: Tree, target: str) -> None:
    """Copy a tree into a folder; blocks are shared where the file system can (reflinks).

    There are no hard links: an edit in place would reach through them.

    Args:
        tree: what to copy.
        target: a folder that is not there yet, or is empty.

    Raises:
        WorkspaceError: the folder has something in it already or cannot be written; or a file is
            gone, cannot be read, or changes while it is read.
    """
    target = os.path.abspath(target)
    try:
        os.makedirs(target, exist_ok=True)
        if os.listdir(target):
            raise WorkspaceError(f"the snapshot's folder {target!r} has something in it already")
        _copy(tree, target)
    except OSError as error:
        raise WorkspaceError(f"cannot make a snapshot in {target!r}: {error}") from error


def _copy(tree: Tree, target: str) -> None:
    folders = [entry for entry in tree.entries if entry.kind == "dir"]
    for entry in folders:
        os.mkdir(os.path.join(target, entry.path), 0o700)
    for entry in tree.entries:
        if entry.kind == "link":
            os.symlink(entry.target, os.path.join(target, entry.path))
    files = [entry for entry in tree.entries if entry.kind == "file"]
    each(lambda entry: _copy_file(entry, os.path.join(target, entry.path)), files, 4)
    for entry in reversed(folders):
        os.chmod(os.path.join(target, entry.path), entry.mode)


def _copy_file(entry: Entry, path: str) -> None:
    if entry.size >= SMALL and _cloned(entry, path):
        return
    with open(path, "wb", buffering=0) as stream:

        def start() -> Callable[[bytes], None]:
            stream.seek(0)
            stream.truncate()
            return write

        def write(part: bytes) -> None:
            view = memoryview(part)
            while view:
                view = view[stream.write(view) :]

        found = read_parts(entry, start)
        os.fchmod(stream.fileno(), found.mode)


def _cloned(entry: Entry, path: str) -> bool:
    """Share a file's blocks with its copy; false where the file system cannot."""
    import fcntl

    try:
        source = os.open(entry.file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False  # the plain copy says what is wrong
    try:
        with open(path, "wb") as stream:
            fcntl.ioctl(stream.fileno(), FICLONE, source)
            os.fchmod(stream.fileno(), entry.mode)
        return True
    except OSError:
        return False
    finally:
        os.close(source)
