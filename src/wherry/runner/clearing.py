"""Clears what shipped code has left behind: images at the Engine, names of pushes, caches."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass

from wherry.errors import DockerError
from wherry.home import home
from wherry.runner.snapshots import alone, recorded_roles

_SOURCES = "sources"
_KINDS = ("trees", "images", _SOURCES)  # the worker's zip is not among them: queued jobs start it

_IN_USE_SECONDS = 3600
"""A copy of what is at an address may be read this long after it was last asked for."""


@dataclass
class Cleared:
    """What was, or would be, removed.

    Args:
        images: images with a workspace.
        names: names that images were given so that they could be pushed.
        image_size: bytes of files in the images, about what becomes free.
        cache_size: bytes of files in caches.
        problem: what could not be done; empty when all could.
    """

    images: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    image_size: int = 0
    cache_size: int = 0
    problem: str = ""


def clear(older_than: float | None = None, *, dry_run: bool = False) -> Cleared:
    """Remove what nothing needs: no container, no record, no app that is just being started.

    Args:
        older_than: only what was made, or last read, so many seconds ago.
        dry_run: only tell what it is.
    """
    if not os.path.isdir(home()):
        return Cleared()
    with alone() as is_alone:
        if not is_alone:
            return Cleared(problem="an app is being started; its code was left alone")
        cleared = _images(older_than, dry_run=dry_run)
        cleared.cache_size = _caches(older_than or 0, dry_run=dry_run)
        return cleared


def _images(older_than: float | None, *, dry_run: bool) -> Cleared:
    from wherry.workspace.image_pruning import prune_images

    needed = {str(role.get("image", "")) for role in recorded_roles()}
    try:
        removed = prune_images(needed, older_than, dry_run=dry_run)
    except DockerError:
        return Cleared()  # there is no Engine here, so nothing of ours is at it
    return Cleared(tuple(removed.images), tuple(removed.names), removed.size)


def _caches(older_than: float, *, dry_run: bool) -> int:
    """Remove what is remembered of files, and copies of what is at addresses; return the bytes."""
    total = 0
    for kind in _KINDS:
        least = max(older_than, _IN_USE_SECONDS) if kind == _SOURCES else older_than
        for found in _entries(os.path.join(home(), "cache", kind), deep=kind == _SOURCES):
            if found.stat(follow_symlinks=False).st_mtime > time.time() - least:
                continue
            total += _size(found.path)
            if not dry_run:
                _remove(found)
    return total


def _entries(folder: str, *, deep: bool) -> list[os.DirEntry[str]]:
    if not os.path.isdir(folder):
        return []
    entries = list(os.scandir(folder))
    if not deep:
        return entries
    return [inner for entry in entries if entry.is_dir() for inner in os.scandir(entry.path)]


def _size(path: str) -> int:
    if not os.path.isdir(path):
        return os.lstat(path).st_size
    names = (os.path.join(above, name) for above, _, files in os.walk(path) for name in files)
    return sum(os.lstat(name).st_size for name in names)


def _remove(found: os.DirEntry[str]) -> None:
    if found.is_dir(follow_symlinks=False):
        shutil.rmtree(found.path, ignore_errors=True)
        return
    try:
        os.unlink(found.path)
    except OSError:
        return  # somebody else was quicker
