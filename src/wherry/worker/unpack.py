"""Lays a workspace archive into a folder. `wherry.workspace.archive` says what a manifest is.

Everything is fetched, checked and written into a folder beside its place first, and only then moved
there: when something fails, what was there is as it was. Nothing is written through a link, nor
outside the folder.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
import threading
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

MAGIC = b"WHERRYT1"
VERSION = 1
MANIFEST_MOST = 1 << 30
PARALLEL = 8
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class UnpackError(ValueError):
    """The workspace cannot be laid into its folder."""


def unpack(
    manifest: bytes, read_blob: Callable[[str], bytes], target: str, parallel: int = PARALLEL
) -> None:
    """Lay the tree of a manifest into a folder; files that are there already are replaced.

    Args:
        manifest: the archive's manifest.
        read_blob: returns the bytes of the blob with this SHA-256; called in several threads.
        target: the folder; made when it is not there, with the folders that it is in.
        parallel: how many blobs are fetched at once.

    Raises:
        UnpackError: the manifest or a blob is damaged, a path leads out of the folder or through a
            link, the disk is full, or the folder cannot be written.
        Exception: whatever ``read_blob`` raises.
    """
    tree = _checked(manifest)
    target = os.path.realpath(target)
    new = not os.path.lexists(target)
    beside = os.path.dirname(target) if new else target
    staging = ""
    try:
        os.makedirs(beside, exist_ok=True)
        if not new:
            _check_place(tree, target)
        staging = tempfile.mkdtemp(prefix=".wherry-unpack-", dir=beside)
        _write(tree, read_blob, staging, parallel)
        if new:
            _set_modes(tree, staging)
            os.chmod(staging, 0o777 & ~_umask())
            os.rename(staging, target)
        else:
            _move(staging, target)
            _set_modes(tree, target)
    except OSError as error:
        raise UnpackError(_worded(error, target, tree["size"])) from error
    finally:
        if staging:
            shutil.rmtree(staging, ignore_errors=True)


def _checked(manifest: bytes) -> dict[str, Any]:
    """Read a manifest, and make sure that every path stays inside and below folders of its own."""
    try:
        tree = _document(manifest)
        folders = {""}
        taken = set()
        for path in _paths(tree):
            if path in taken or not _is_inside(path):
                raise UnpackError(f"the workspace has a path that cannot be laid down: {path!r}")
            taken.add(path)
        for path, _ in sorted(tree["dirs"]):
            _check_above(path, folders)
            folders.add(path)
        for path in taken - folders:
            _check_above(path, folders)
        for group in tree["groups"]:
            if sum(raw for _, _, raw, _ in group["blobs"]) != sum(n for _, _, n in group["files"]):
                raise UnpackError("the manifest of the workspace is damaged: sizes do not add up")
    except UnpackError:
        raise
    except (KeyError, ValueError, TypeError, zlib.error) as error:
        raise UnpackError(f"the manifest of the workspace is damaged: {error}") from error
    return tree


def _document(manifest: bytes) -> dict[str, Any]:
    if manifest[: len(MAGIC)] != MAGIC:
        raise UnpackError("this is no manifest of a workspace")
    opened = zlib.decompressobj()
    text = opened.decompress(manifest[len(MAGIC) :], MANIFEST_MOST)
    if not opened.eof:
        raise UnpackError("the manifest of the workspace is cut off")
    tree: dict[str, Any] = json.loads(text)
    if tree["version"] != VERSION:
        raise UnpackError(
            f"the workspace was packed as version {tree['version']}, and this reads {VERSION}"
        )
    return tree


def _paths(tree: dict[str, Any]) -> Iterator[str]:
    for path, _ in tree["dirs"]:
        yield path
    for path, _ in tree["links"]:
        yield path
    for group in tree["groups"]:
        for path, _, size in group["files"]:
            if size < 0:
                raise UnpackError(f"the workspace has a file of {size} bytes: {path!r}")
            yield path


def _is_inside(path: str) -> bool:
    return "\0" not in path and all(part not in ("", ".", "..") for part in path.split("/"))


def _check_above(path: str, folders: set[str]) -> None:
    above = path.rpartition("/")[0]
    if above not in folders:
        raise UnpackError(f"the workspace has {path!r}, and {above!r} is no folder of it")


def _check_place(tree: dict[str, Any], target: str) -> None:
    """Refuse to write through a link, or to put a file where the target has a folder."""
    folders = [path for path, _ in tree["dirs"]]
    for path in folders:
        place = os.path.join(target, path)
        if os.path.islink(place):
            raise UnpackError(f"{place!r} is a link, and the workspace has files below it")
        if os.path.lexists(place) and not os.path.isdir(place):
            raise UnpackError(f"{place!r} is a file, and the workspace has a folder there")
    for path in set(_paths(tree)).difference(folders):
        place = os.path.join(target, path)
        if os.path.isdir(place) and not os.path.islink(place):
            raise UnpackError(f"{place!r} is a folder, and the workspace has a file there")


def _write(
    tree: dict[str, Any], read_blob: Callable[[str], bytes], folder: str, parallel: int
) -> None:
    for path, _ in sorted(tree["dirs"]):
        os.mkdir(os.path.join(folder, path), 0o700)
    for path, pointed in tree["links"]:
        os.symlink(pointed, os.path.join(folder, path))
    umask = _umask()
    groups = iter(tree["groups"])
    lock = threading.Lock()
    errors: list[BaseException] = []

    def run() -> None:
        while not errors:
            with lock:
                group = next(groups, None)
            if group is None:
                return
            try:
                _write_group(group, read_blob, folder, umask)
            except BaseException as error:  # noqa: BLE001 — raised again below
                errors.append(error)

    team = [
        threading.Thread(target=run, daemon=True)
        for _ in range(max(1, min(parallel, len(tree["groups"]))))
    ]
    for thread in team:
        thread.start()
    for thread in team:
        thread.join()
    if errors:
        raise errors[0]


def _write_group(
    group: dict[str, Any], read_blob: Callable[[str], bytes], folder: str, umask: int
) -> None:
    blobs = (_fetched(read_blob, *row) for row in group["blobs"])
    rest = memoryview(b"")
    for path, mode, size in group["files"]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(os.path.join(folder, path), flags, mode & 0o777)
        try:
            while size:
                rest = rest or memoryview(next(blobs))
                piece = rest[:size]
                rest = rest[len(piece) :]
                size -= len(piece)
                while piece:
                    piece = piece[os.write(handle, piece) :]
            if mode & ~0o777 or mode & umask:
                os.fchmod(handle, mode)
        finally:
            os.close(handle)


def _fetched(
    read_blob: Callable[[str], bytes], digest: str, size: int, raw: int, coding: str
) -> bytes:
    data = read_blob(digest)
    if len(data) != size or hashlib.sha256(data).hexdigest() != digest:
        raise UnpackError(f"the blob {digest} of the workspace is not what was stored")
    if coding not in ("", "zlib"):
        raise UnpackError(f"the blob {digest} of the workspace has an unknown coding {coding!r}")
    if coding:
        opened = zlib.decompressobj()
        # One byte more than there should be shows a blob that is too long without unfolding it.
        data = opened.decompress(data, raw + 1)
    if len(data) != raw:
        raise UnpackError(f"the blob {digest} of the workspace has not the size it should have")
    return data


def _move(staging: str, target: str) -> None:
    """Move what was written to its place: whole folders where there are none of their names."""
    with os.scandir(staging) as found:
        entries = list(found)
    for entry in entries:
        place = os.path.join(target, entry.name)
        if entry.is_dir(follow_symlinks=False) and os.path.isdir(place):
            _move(entry.path, place)
        else:
            os.replace(entry.path, place)


def _set_modes(tree: dict[str, Any], folder: str) -> None:
    # The inner ones first: the outer ones may forbid to go in.
    for path, mode in sorted(tree["dirs"], reverse=True):
        os.chmod(os.path.join(folder, path), mode)


def _umask() -> int:
    # There is no way to ask but to set it; a thread that makes a file just then is not there yet.
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def _worded(error: OSError, target: str, size: int) -> str:
    if error.errno not in NO_ROOM:
        what = f": {error.filename!r}" if error.filename else ""
        return f"cannot lay the workspace into {target!r}: {error.strerror}{what}"
    return (
        f"the disk of {target!r} is full: {error.strerror}; the workspace has {size} bytes, "
        f"and {_free(target)} are free. Give the job more disk, or leave out what it does not need."
    )


def _free(folder: str) -> int:
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
