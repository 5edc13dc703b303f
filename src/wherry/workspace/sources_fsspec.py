"""Copies what is at an fsspec address into a folder of the cache, where it can be scanned.

A version of the address is a folder of its own, named by what the address listed (paths, sizes and
tags), so that one that is being read never changes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from typing import Any

from wherry.errors import WorkspaceError
from wherry.home import home

# What a listing tells of a file's version; the names differ from store to store.
TAGS = (
    *("ETag", "etag", "md5Hash", "content_md5", "sha", "hex"),
    *("mtime", "LastModified", "last_modified", "created", "updated", "modified"),
)
FOLDER_MODE = 0o755
KEPT_SECONDS = 7 * 86400


def fetch(address: str) -> str:
    """Return a folder with what is at an fsspec address.

    Raises:
        WorkspaceError: fsspec is not installed, does not know the address, or fails.
    """
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]
    except ImportError as error:
        raise WorkspaceError(
            f"the workspace {address!r} needs fsspec: pip install 'wherry[remote]'."
        ) from error
    try:
        files, top = url_to_fs(address)
        listed = files.find(top, withdirs=True, detail=True)
        if not listed or not files.isdir(top):
            raise WorkspaceError(f"there is no folder at {address!r}.")
        return _version(files, top, listed, address)
    except ImportError as error:
        raise WorkspaceError(f"the workspace {address!r} needs a package: {error}.") from error
    # Each of fsspec's file systems raises errors of its own.
    except Exception as error:
        if isinstance(error, WorkspaceError):
            raise
        raise WorkspaceError(f"cannot read the workspace {address!r}: {error}") from error


def _version(files: Any, top: str, listed: dict[str, dict[str, Any]], address: str) -> str:
    above = os.path.join(home(), "cache", "sources", _short(address))
    folder = os.path.join(above, _listing_name(listed))
    os.makedirs(above, mode=0o700, exist_ok=True)
    if os.path.isdir(folder):
        os.utime(folder)
        return os.path.realpath(folder)
    partial = tempfile.mkdtemp(prefix="partial-", dir=above)
    try:
        _copy(files, top, listed, partial)
        os.chmod(partial, FOLDER_MODE)
        try:
            os.rename(partial, folder)
        except OSError:
            if not os.path.isdir(folder):  # somebody else was faster
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    _forget_old(above)
    return os.path.realpath(folder)


def _copy(files: Any, top: str, listed: dict[str, dict[str, Any]], folder: str) -> None:
    remote, local = [], []
    for name, info in sorted(listed.items()):
        path = name[len(top) :].strip("/")
        if not path or ".." in path.split("/"):
            continue
        place = os.path.join(folder, path)
        if info["type"] == "directory":
            os.makedirs(place, mode=FOLDER_MODE, exist_ok=True)
            continue
        os.makedirs(os.path.dirname(place), mode=FOLDER_MODE, exist_ok=True)
        remote.append(name)
        local.append(place)
    if remote:
        files.get(remote, local)
    for place in local:
        os.chmod(place, 0o644)


def _listing_name(listed: dict[str, dict[str, Any]]) -> str:
    lines = []
    for name, info in sorted(listed.items()):
        tags = [str(info[tag]) for tag in TAGS if info.get(tag)]
        if not tags and info["type"] != "directory":
            return _short(f"{time.time_ns()}")  # nothing tells whether it changed
        lines.append(repr((name, info["type"], info.get("size"), tags)))
    return _short("\n".join(lines))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _forget_old(above: str) -> None:
    for found in os.scandir(above):
        if found.stat().st_mtime < time.time() - KEPT_SECONDS:
            shutil.rmtree(found.path, ignore_errors=True)
