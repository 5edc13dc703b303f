"""Snapshots of workspaces: copies on this machine that later edits do not reach.

They are in ``home()/workspaces``, named by their content, so that equal trees share one. A program
may write into the one that it runs in; a snapshot whose files were changed so is not used again.
One stays as long as the record of an app names it.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from wherry.errors import WorkspaceError
from wherry.home import home
from wherry.schedulers.shipping import FOLDER_KEY

if TYPE_CHECKING:
    from wherry.workspace.tree import Tree

_LISTING = ".files.json"
_LOCK = "lock"

Facts = dict[str, list[int]]
"""Size and time of each file, by its path."""


class Snapshot:
    """The snapshot of a tree, made or to be made.

    Args:
        tree: what it is of.
    """

    def __init__(self, tree: Tree) -> None:
        from wherry.workspace.archive import content_digest

        self._tree = tree
        self.digest = content_digest(tree)
        self.folder = _choose(os.path.join(_root(), self.digest[:32]))

    def make(self) -> bool:
        """Make it, unless it is there; tells whether it was made.

        Raises:
            WorkspaceError: a file was changed since the tree was read, or there is no room.
        """
        from wherry.workspace.tree_snapshot import snapshot

        if os.path.isdir(self.folder):
            return False
        partial = f"{self.folder}.{os.getpid()}.{os.urandom(4).hex()}"
        try:
            snapshot(self._tree, partial)
            self._check_unchanged()
            with open(partial + _LISTING, "w", encoding="ascii") as file:
                json.dump(_facts(partial, self._files()), file)
            os.replace(partial + _LISTING, self.folder + _LISTING)
            os.rename(partial, self.folder)
        except OSError as error:
            if os.path.isdir(self.folder):  # somebody else was quicker
                return False
            raise WorkspaceError(f"no snapshot can be made in {self.folder!r}: {error}") from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return True

    def _files(self) -> list[str]:
        return [entry.path for entry in self._tree.entries if entry.kind == "file"]

    def _check_unchanged(self) -> None:
        for entry in self._tree.entries:
            if entry.kind != "file":
                continue
            try:
                found = os.lstat(entry.file)
            except FileNotFoundError:
                found = None
            if found is None or (found.st_mtime_ns, found.st_size) != (entry.mtime_ns, entry.size):
                raise WorkspaceError(
                    f"{entry.file!r} was changed while the snapshot was made; run it again"
                )


@contextmanager
def kept() -> Iterator[None]:
    """See to it that no snapshot is removed before the app that will run in it has a record."""
    with _lock() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


@contextmanager
def alone() -> Iterator[bool]:
    """Keep apps from being started with code that goes along; tells whether none is just now."""
    with _lock() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def remove_unused() -> int:
    """Remove the snapshots that no record names; returns how many there were.

    None is removed while an app is being started.
    """
    if not os.path.isdir(_root()):
        return 0
    with alone() as is_alone:
        if not is_alone:
            return 0
        used = _used()
        unused = [name for name in os.listdir(_root()) if _snapshot_of(name) not in used]
        for name in unused:
            _remove(os.path.join(_root(), name))
        return len({_snapshot_of(name) for name in unused} - {_LOCK})


def _root() -> str:
    return os.path.join(home(), "workspaces")


@contextmanager
def _lock() -> Iterator[int]:
    os.makedirs(_root(), mode=0o700, exist_ok=True)
    file = os.open(os.path.join(_root(), _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield file
    finally:
        os.close(file)


def _choose(base: str) -> str:
    """Return the first folder of this content that is as it was made, or is not there."""
    names = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
    return next(folder for folder in names if not os.path.isdir(folder) or _is_intact(folder))


def _is_intact(folder: str) -> bool:
    try:
        with open(folder + _LISTING, encoding="ascii") as file:
            made: Facts = json.load(file)
        return _facts(folder, made) == made
    except (OSError, ValueError):
        return False


def _facts(folder: str, paths: list[str] | Facts) -> Facts:
    facts = {}
    for path in paths:
        found = os.lstat(os.path.join(folder, path))
        facts[path] = [found.st_size, found.st_mtime_ns]
    return facts


def _used() -> set[str]:
    """Return the names of snapshots that records of apps name."""
    found = {_LOCK}
    for role in recorded_roles():
        folder = str(role.get("metadata", {}).get(FOLDER_KEY, ""))
        if os.path.dirname(folder) == _root():
            found.add(os.path.basename(folder))
    return found


def recorded_roles() -> Iterator[dict[str, Any]]:
    """Go through the roles of the apps of this machine that have a record."""
    apps = os.path.join(home(), "apps")
    for app_id in os.listdir(apps) if os.path.isdir(apps) else ():
        try:
            with open(os.path.join(apps, app_id, "app.json"), encoding="utf-8") as file:
                record = json.load(file)
            yield from record["plain_app"]["roles"]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # not one of this machine's own


def _snapshot_of(name: str) -> str:
    return name.removesuffix(_LISTING)


def _remove(path: str) -> None:
    if not os.path.isdir(path):
        os.unlink(path)
        return
    for folder, _, _ in os.walk(path):
        os.chmod(folder, 0o700)  # a folder that may not be written cannot be emptied
    shutil.rmtree(path, ignore_errors=True)
