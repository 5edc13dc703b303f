"""What a workspace consists of: the folders, files and links that go along with a job.

Several sources may be laid over each other; of two files with the same path the later source's
wins. Links are kept as links and never followed, wherever they point. Sockets, pipes and devices
have no content to ship: they are left out, with a note.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wherry.errors import WorkspaceError
from wherry.workspace.ignore import DROP, KEEP, THROUGH, Level, dialect_of, top_level
from wherry.workspace.tree_guard import DEFAULT, ENTRY_LIMIT, check_root, check_size, too_many

SPECIAL_KINDS = {
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Entry(NamedTuple):
    """One folder, file or link of a tree.

    Args:
        path: from the top of the tree, with ``/``; what is not UTF-8 is as `os.fsdecode` has it.
        kind: ``file``, ``dir`` or ``link``.
        mode: permission bits.
        size: bytes; 0 for what is no file.
        mtime_ns: when its content was changed.
        target: where a link points, as it stands.
        source: the folder that it comes from.
        ctime_ns: when anything about it was changed.
        inode: its number in its file system.
    """

    path: str
    kind: str
    mode: int
    size: int
    mtime_ns: int
    target: str
    source: str
    ctime_ns: int = 0
    inode: int = 0

    @property
    def file(self) -> str:
        """Where it is on the disk."""
        return os.path.join(self.source, self.path)


@dataclass(frozen=True)
class Tree:
    """A workspace as it was found.

    Args:
        entries: sorted by path; the top folder itself is not among them.
        sources: the folders that it was read from, the later ones laid over the earlier ones.
        rules: for each source, the name of the ignore file that decided there, or nothing.
        ignored: how many entries the ignore files left out; a folder counts as one.
        notes: what the user should know, such as a socket that was left out.
    """

    entries: tuple[Entry, ...]
    sources: tuple[str, ...]
    rules: tuple[str, ...] = ()
    ignored: int = 0
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.entries)


def scan(sources: str | Sequence[str], *, size_limit: int | None = DEFAULT) -> Tree:
    """Read what a workspace consists of, without what its ignore files leave out.

    Args:
        sources: a folder, an fsspec address such as ``s3://bucket/code``, or several of them; what
            a later one holds is laid over what the earlier ones hold.
        size_limit: bytes that it may have in all; ``None`` for no limit. By default 512 MiB, or
            what ``WHERRY_WORKSPACE_LIMIT`` says.

    Returns:
        The tree, sorted by path.

    Raises:
        WorkspaceError: a source is missing, no folder, ``/`` or the home folder; the tree is too
            large; something cannot be read; a file lies where another source has a folder; or it
            changes while it is read.
    """
    from wherry.workspace.sources import local_folder

    given = [sources] if isinstance(sources, str) else list(sources)
    if not given:
        raise WorkspaceError("a workspace needs at least one folder")
    folders = tuple(local_folder(source) for source in given)
    merged: dict[str, Entry] = {}
    notes: list[str] = []
    ignored = 0
    for folder in folders:
        check_root(folder)
        walk, found = _read(folder)
        _lay_over(merged, found)
        notes += walk.notes
        ignored += walk.ignored
    entries = tuple(merged[path] for path in sorted(merged))
    rules = tuple(dialect_of(folder) for folder in folders)
    check_size(entries, rules, size_limit)
    return Tree(entries, folders, rules, ignored, tuple(notes))


def _lay_over(merged: dict[str, Entry], entries: list[Entry]) -> None:
    for entry in entries:
        before = merged.get(entry.path)
        if before is not None and (before.kind == "dir") != (entry.kind == "dir"):
            names = {"dir": "a folder", "file": "a file", "link": "a link"}
            raise WorkspaceError(
                f"{entry.file} is {names[entry.kind]}, and {before.file} is {names[before.kind]}: "
                "one cannot be laid over the other. Rename one of them, or leave it out in an "
                "ignore file."
            )
        merged[entry.path] = entry


class _ChangedError(WorkspaceError):
    """Something was listed, and a moment later it was gone."""


def _read(folder: str) -> tuple[_Walk, list[Entry]]:
    try:
        walk = _Walk(folder)
        return walk, walk.read()
    except _ChangedError:
        # An editor that saves, a build that ends: a moment later all is quiet.
        walk = _Walk(folder)
        return walk, walk.read()


class _Walk:
    """Reads one source."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.notes: list[str] = []
        self.ignored = 0
        self.count = 0
        self.private = _private_folder(source)

    def read(self) -> list[Entry]:
        return list(self._folder("", self.source, top_level(self.source), listed=None))

    def _folder(
        self, path: str, folder: str, level: Level, listed: list[os.DirEntry[str]] | None
    ) -> Iterator[Entry]:
        prefix = path + "/" if path else ""
        for found in listed if listed is not None else self._list(folder):
            name = found.name
            inner = prefix + name
            try:
                is_dir = found.is_dir(follow_symlinks=False)
                verdict, known = level.verdict(name, inner, is_dir)
                if verdict == DROP:
                    self.ignored += 1
                    continue
                info = found.stat(follow_symlinks=False)
                target = os.readlink(found.path) if found.is_symlink() else ""
            except FileNotFoundError as error:
                raise _changed(found.path, "vanished") from error
            except OSError as error:
                raise _unreadable(found.path, error) from error
            entry = self._entry(inner, info, target)
            if entry is None:
                continue
            if verdict == KEEP:
                self._count()
                yield entry
            if is_dir and found.path != self.private:
                yield from self._inside(entry, found.path, level, known, through=verdict == THROUGH)

    def _inside(
        self, entry: Entry, folder: str, level: Level, known: object, *, through: bool
    ) -> Iterator[Entry]:
        listed = self._list(folder)
        names = frozenset(found.name for found in listed)
        below = self._folder(
            entry.path, folder, level.inside(entry.path, folder, names, known), listed
        )
        if not through:
            yield from below
            return
        kept = list(below)
        if kept:
            yield entry
        else:
            self.ignored += 1
        yield from kept

    def _list(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as found:
                return list(found)
        except FileNotFoundError as error:
            raise _changed(folder, "vanished") from error
        except NotADirectoryError as error:
            raise _changed(folder, "is no folder any more") from error
        except OSError as error:
            raise _unreadable(folder, error) from error

    def _entry(self, path: str, info: os.stat_result, target: str) -> Entry | None:
        kind = stat.S_IFMT(info.st_mode)
        if kind in SPECIAL_KINDS:
            file = os.path.join(self.source, path)
            self.notes.append(f"{file} is {SPECIAL_KINDS[kind]}; it was left out.")
            return None
        what = {stat.S_IFDIR: "dir", stat.S_IFLNK: "link"}.get(kind, "file")
        return Entry(
            path,
            what,
            0o777 if what == "link" else stat.S_IMODE(info.st_mode),
            info.st_size if what == "file" else 0,
            info.st_mtime_ns,
            target,
            self.source,
            info.st_ctime_ns,
            info.st_ino,
        )

    def _count(self) -> None:
        self.count += 1
        if self.count > ENTRY_LIMIT:
            raise too_many(self.source)


def _private_folder(source: str) -> str:
    """Return Wherry's own folder of records when it lies in the source: it changes all the time."""
    from wherry.home import home

    own = os.path.realpath(home())
    return own if own.startswith(source.rstrip("/") + "/") else ""


def _changed(file: str, what: str) -> _ChangedError:
    return _ChangedError(
        f"{file!r} {what} while the workspace was read; wait until nothing writes to it, or "
        "leave it out in an ignore file."
    )


def _unreadable(file: str, error: OSError) -> WorkspaceError:
    return WorkspaceError(
        f"cannot read {file!r}: {error.strerror}; make it readable, or leave it out in an "
        "ignore file."
    )
