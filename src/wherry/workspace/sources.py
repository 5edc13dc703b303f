"""Where a workspace comes from: a folder, or an fsspec address that is first copied to one."""

from __future__ import annotations

import os
import re

from wherry.errors import WorkspaceError

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]*://")


def local_folder(source: str) -> str:
    """Return the folder of a source, with links on the way to it followed.

    Args:
        source: a path, ``file://…``, or another fsspec address such as ``s3://bucket/code``.

    Raises:
        WorkspaceError: fsspec is needed and not installed, does not know the address, or fails.
    """
    if not source:
        raise WorkspaceError("a workspace without a name; write '.' for the current folder.")
    if source.startswith("file://"):
        from urllib.parse import unquote, urlsplit

        return os.path.realpath(unquote(urlsplit(source).path))
    if ADDRESS.match(source):
        return materialised(source)
    return os.path.realpath(os.path.expanduser(source))


def materialised(address: str) -> str:
    """Copy what is at an fsspec address into a folder of the cache, and return the folder.

    What is there already with the same size and tag is not read again; what has gone from the
    address goes from the folder.

    Raises:
        WorkspaceError: fsspec is not installed, does not know the address, or fails.
    """
    from wherry.workspace.sources_fsspec import fetch

    return fetch(address)
