"""Random folders for tests of workspaces, and what is in a folder, to compare."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from hypothesis import strategies as st

Files = Mapping[bytes, bytes | None]
"""Path → content; ``None`` stands for a folder."""


def make(folder: Path | str, files: Files) -> None:
    """Write files and folders, with the folders that they are in."""
    top = os.fsencode(folder)
    for path, content in files.items():
        place = os.path.join(top, path)
        os.makedirs(place if content is None else os.path.dirname(place), exist_ok=True)
        if content is not None:
            Path(os.fsdecode(place)).write_bytes(content)


def contents(folder: Path | str) -> dict[str, tuple[str, int, bytes | str]]:
    """Return path → kind, mode, and content or target, of everything below a folder."""
    found: dict[str, tuple[str, int, bytes | str]] = {}
    for above, folders, files in os.walk(folder):
        for name in folders + files:
            place = os.path.join(above, name)
            path = os.path.relpath(place, folder)
            info = os.lstat(place)
            mode = stat.S_IMODE(info.st_mode)
            if stat.S_ISLNK(info.st_mode):
                found[path] = ("link", 0, os.readlink(place))
            elif stat.S_ISDIR(info.st_mode):
                found[path] = ("dir", mode, "")
            else:
                found[path] = ("file", mode, Path(place).read_bytes())
    return found


def every_path(folder: Path | str) -> set[str]:
    """Return the paths of everything below a folder."""
    return set(contents(folder))


def nested(
    names: st.SearchStrategy[bytes], *, depth: int = 4, most: int = 10
) -> st.SearchStrategy[Files]:
    """Draw a tree whose entries have these names."""
    path = st.lists(names, min_size=1, max_size=depth).map(b"/".join)
    return st.dictionaries(path, st.sampled_from([b"", b"x", None]), min_size=1, max_size=most).map(
        _without_conflicts
    )


def _without_conflicts(files: Files) -> Files:
    taken = set(files)
    above = {path[:at] for path in taken for at in range(len(path)) if path[at : at + 1] == b"/"}
    return {path: None if path in above else content for path, content in files.items()}


def patterns(pieces: list[bytes]) -> st.SearchStrategy[bytes]:
    """Draw the text of an ignore file whose lines are put together from these pieces."""
    line = st.lists(st.sampled_from(pieces), min_size=1, max_size=5).map(b"".join)
    return st.lists(line, min_size=1, max_size=6).map(b"\n".join)
