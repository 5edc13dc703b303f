"""What is remembered of files that were read before, so that unchanged ones are not read again.

A file counts as unchanged while its size, both of its times and its inode are the same. One that
was changed so shortly before it was read that a second change might carry the same time is not
remembered: that is how git treats such files too.

There is one JSON file for each list of sources below ``home()/cache/trees``:

    {"version": 1,
     "files": {path: [size, mtime_ns, ctime_ns, inode, sha256]}, "groups": {recipe: [blob …]}}

A recipe names the contents of a group of files (`wherry.workspace.archive`), a blob is
``[digest, size, raw, coding]``. A cache that is missing, damaged or cannot be written costs time,
nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
import time

from wherry.home import home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wherry.workspace.tree import Entry

    BlobRow = tuple[str, int, int, str]

FINE_NS = 50_000_000  # a kernel's clock tick is at most 10 ms
COARSE_NS = 3_000_000_000  # file systems that keep whole seconds, or every second one
SECOND_NS = 1_000_000_000
KEPT = 64
VERSION = 1


class Cache:
    """What is known of one workspace's files.

    Args:
        sources: the folders that the workspace consists of.
        file: where it is kept; by default below `home()`.
    """

    def __init__(self, sources: tuple[str, ...], *, file: str = "") -> None:
        self.path = file or cache_file(sources)
        self.started_ns = time.time_ns()
        self._files, self._groups = _load(self.path)
        self._new_files: dict[str, list[int | str]] = {}
        self._new_groups: dict[str, list[BlobRow]] = {}

    def digest(self, entry: Entry) -> str:
        """Return the SHA-256 of an unchanged file; empty when it has to be read."""
        row = self._files.get(entry.path)
        if row is None or row[:4] != _signature(entry):
            return ""
        self._new_files[entry.path] = row
        return str(row[4])

    def remember(self, entry: Entry, digest: str) -> None:
        """Keep a file's digest, unless it was changed too recently to be sure."""
        changed = max(entry.mtime_ns, entry.ctime_ns)
        coarse = not entry.mtime_ns % SECOND_NS and not entry.ctime_ns % SECOND_NS
        if changed < self.started_ns - (COARSE_NS if coarse else FINE_NS):
            self._new_files[entry.path] = [*_signature(entry), digest]

    def group(self, recipe: str) -> list[BlobRow] | None:
        """Return the blobs of a group of files with these contents, when they are known."""
        rows = self._groups.get(recipe)
        if rows is None:
            return None
        self._new_groups[recipe] = rows
        return rows

    def remember_group(self, recipe: str, rows: list[BlobRow]) -> None:
        """Keep what a group of files became."""
        self._new_groups[recipe] = rows

    def save(self) -> None:
        """Write down what was found, if it is anything new; forget what was not asked for."""
        if self._new_files == self._files and self._new_groups == self._groups:
            return
        folder = os.path.dirname(self.path)
        partial = f"{self.path}.{os.getpid()}"
        document = {"version": VERSION, "files": self._new_files, "groups": self._new_groups}
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            with open(partial, "w", encoding="ascii") as stream:
                stream.write(json.dumps(document, separators=(",", ":")))
            os.replace(partial, self.path)
            _forget_old(folder)
        except OSError:
            return


def cache_file(sources: tuple[str, ...]) -> str:
    """Return where the cache of a list of sources is kept."""
    name = hashlib.sha256("\0".join(sources).encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return os.path.join(home(), "cache", "trees", f"{name}.json")


def _signature(entry: Entry) -> list[int | str]:
    return [entry.size, entry.mtime_ns, entry.ctime_ns, entry.inode]


def _load(path: str) -> tuple[dict[str, list[int | str]], dict[str, list[BlobRow]]]:
    try:
        with open(path, encoding="ascii") as stream:
            document = json.loads(stream.read())
        if document["version"] != VERSION:
            return {}, {}
        return dict(document["files"]), dict(document["groups"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}, {}


def _forget_old(folder: str) -> None:
    found = [entry for entry in os.scandir(folder) if entry.name.endswith(".json")]
    if len(found) > KEPT:
        for entry in sorted(found, key=lambda entry: entry.stat().st_mtime)[:-KEPT]:
            os.unlink(entry.path)
