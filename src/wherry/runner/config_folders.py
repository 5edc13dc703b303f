"""Folders in a configuration file: meant from the file's own folder, wherever the user is."""

from __future__ import annotations

import os


def read_folders(value: str | list[str], base: str) -> tuple[str, ...]:
    """Return the folders that a setting names, as absolute paths.

    Args:
        value: a folder or several; ``ROLE=FOLDER`` for one role.
        base: the folder that relative ones are meant from.

    >>> read_folders(["src", "ps=../ps", "s3://bucket/code"], "/project")
    ('/project/src', 'ps=/ps', 's3://bucket/code')
    """
    words = [value] if isinstance(value, str) else value
    return tuple(_from(base, word) for word in words if word)


def _from(base: str, word: str) -> str:
    role, equals, folder = word.partition("=")
    if not equals or not role or "/" in role:
        return _absolute(base, word)
    return f"{role}={_absolute(base, folder)}" if folder else word


def _absolute(base: str, folder: str) -> str:
    if "://" in folder:
        return folder
    return os.path.normpath(os.path.join(base, os.path.expanduser(folder)))
