"""What the operating system's complaints mean for a store that is a folder, and what to do."""

from __future__ import annotations

import errno
import os

from wherry.errors import MissingObjectError, StoreError

_GONE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)
_FULL = {
    errno.ENOSPC: "its disk is full",
    errno.EDQUOT: "the quota on its disk is used up",
}
_REFUSED = (errno.EACCES, errno.EPERM)
_CLASH = (errno.ENOTDIR, errno.EISDIR, errno.EEXIST)


def of_store(error: OSError, doing: str, root: str, key: str) -> StoreError:
    """Word a failure in the store's own folder.

    Args:
        error: the system's complaint.
        doing: what was done with the object: ``read``, ``written``, ``deleted`` …
        root: the store's folder.
        key: the object's key.
    """
    path = f"{root}/{key}"
    if error.errno in _GONE and doing == "read":
        return MissingObjectError(
            f"there is no {path}: it was deleted, or never stored, or the store is another one"
        )
    return StoreError(f"{path} cannot be {doing}: {_reason(error, path, key)}")


def of_target(error: OSError, path: str) -> StoreError:
    """Word a failure to write a file outside the store."""
    return StoreError(f"{path} cannot be written: {_reason(error, path)}")


def of_source(error: OSError, path: str) -> StoreError:
    """Word a failure to read a file outside the store."""
    return StoreError(f"{path} cannot be read, so it cannot be stored: {error.strerror}")


def _reason(error: OSError, path: str, key: str = "") -> str:
    code = error.errno or 0
    if code in _FULL:
        return f"{_FULL[code]}. Make room there ({_room(path)}), or choose another store"
    if code in _REFUSED:
        return (
            f"{error.strerror} for user {os.geteuid()}. Give this user the right to write in "
            f"{_existing(path)}, or choose another store"
        )
    if code in _CLASH and key:
        return (
            f"a folder and an object cannot have the same name ({error.strerror}). Delete the "
            "one, or use another key"
        )
    return error.strerror or str(error)


def _room(path: str) -> str:
    try:
        found = os.statvfs(_existing(path))
    except OSError:
        return "how much is left is not known"
    return f"{found.f_bavail * found.f_frsize / 2**20:,.1f} MiB are left"


def _existing(path: str) -> str:
    """Return the nearest folder above a path that there is."""
    while not os.path.isdir(path) and path != "/":
        path = os.path.dirname(path)
    return path
