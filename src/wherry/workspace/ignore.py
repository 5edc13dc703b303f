"""Which entries of a folder stay at home: `.wherryignore`, `.dockerignore` or `.gitignore`.

The first of the three that exists at the top of the folder decides, in its own dialect:

    .wherryignore   git's rules; nested `.wherryignore` files are read as well
    .dockerignore   the rules of `docker build`; only the one at the top
    .gitignore      git's rules, nested files as well; also when there is no file at the top

In git's dialect everything called `.git` is left out, as git itself leaves it out, and neither
`.git/info/exclude` nor the user's global excludes are read: the same folder gives the same tree
whoever ships it. In Docker's dialect `.git` is a folder like any other, as for `docker build`.
"""

from __future__ import annotations

import os
from typing import Any, Protocol

KEEP, DROP, THROUGH = "keep", "drop", "through"
"""What becomes of an entry. `THROUGH`: a folder that is only kept for what is kept inside."""

DIALECTS = (".wherryignore", ".dockerignore", ".gitignore")


class Level(Protocol):
    """The rules as they stand inside one folder of the tree."""

    def verdict(self, name: str, path: str, is_dir: bool, /) -> tuple[str, Any]:
        """Judge an entry of this folder.

        Args:
            name: its own name.
            path: its path from the top of the tree.
            is_dir: whether it is a folder, and not a link to one.

        Returns:
            `KEEP`, `DROP` or `THROUGH`, and what `inside` wants to know of it.
        """
        ...

    def inside(self, path: str, folder: str, names: frozenset[str], found: Any, /) -> Level:
        """Return the rules inside a folder of this one.

        Args:
            path: the folder's path from the top of the tree.
            folder: where it is on the disk.
            names: the names of what it holds.
            found: what `verdict` gave with it.
        """
        ...


def dialect_of(folder: str) -> str:
    """Return the name of the ignore file that decides in this folder; empty when it has none."""
    for name in DIALECTS:
        if os.path.isfile(os.path.join(folder, name)):
            return name
    return ""


def top_level(folder: str) -> Level:
    """Return the rules at the top of a folder.

    Raises:
        WorkspaceError: an ignore file cannot be read, or has a pattern that Docker refuses.
    """
    dialect = dialect_of(folder)
    if dialect == ".dockerignore":
        from wherry.workspace.ignore_docker import docker_level

        return docker_level(os.path.join(folder, dialect))
    from wherry.workspace.ignore_git import git_level

    return git_level(folder, dialect or ".gitignore")
