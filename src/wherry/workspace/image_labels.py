"""The labels of images with a workspace: by them one is found, and built on."""

from __future__ import annotations

BASE = "wherry.workspace.base"
"""The digest of the image that the tree was laid over."""

CONTENT = "wherry.workspace.content"
"""The digest of the tree."""

PLATFORM = "wherry.workspace.platform"
"""The platform that was asked for, where one was."""

DEPTH = "wherry.workspace.depth"
"""How many layers of changes lie over the first one; an own Dockerfile's image has none."""

ADDED = "wherry.workspace.added"
"""Bytes of files in its last layer."""

STACKED = "wherry.workspace.stacked"
"""Bytes of files in all layers of changes."""

HOME = "wherry.workspace.home"
"""A digest of the folder of records of who built it: only they remove it."""


def home_mark() -> str:
    """Return what `HOME` is for this folder of records."""
    import hashlib

    from wherry.home import home

    return hashlib.sha256(home().encode("utf-8", "surrogateescape")).hexdigest()[:16]
