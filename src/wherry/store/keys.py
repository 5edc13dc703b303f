"""Which keys there are: what every kind of store can hold, and nothing that leads out of it."""

from __future__ import annotations

import re

from wherry.errors import StoreError

_KEY_MOST = 1024  # bytes; of S3
_NAME_MOST = 230  # bytes; file systems of Linux take 255, and an unfinished file's name is longer

# What the worker and `FileStore` call an object's file until it is whole: NAME.PID.RANDOM.part
_UNFINISHED = re.compile(r"\.[0-9]+\.[0-9a-f]{8}\.part\Z")


def unfinished(name: str) -> bool:
    """Tell whether a file of this name is an object that is being written, or never became one."""
    return _UNFINISHED.search(name) is not None


def checked(key: str) -> str:
    """Return a key that every store can hold.

    Raises:
        StoreError: it is none; the message says why.
    """
    complaint = _complaint(key)
    if complaint:
        raise StoreError(
            f"{key!r} cannot be the key of an object: {complaint}. Expected names joined by "
            "slashes, such as jobs/one/out/0"
        )
    return key


def checked_prefix(prefix: str) -> str:
    """Return the beginning of keys; it may end anywhere.

    Raises:
        StoreError: no key begins so.
    """
    if not prefix:
        return prefix
    # Whatever follows, the parts before the last slash are whole; the last may be anything's start.
    whole, slash, rest = prefix.rpartition("/")
    complaint = _complaint(whole) if slash else ""
    if not complaint and rest.strip("."):
        complaint = _complaint(rest)
    if complaint:
        raise StoreError(f"no object has a key that begins with {prefix!r}: {complaint}")
    return prefix


def _complaint(key: str) -> str:
    names = key.split("/")
    if not key:
        return "it is empty"
    if "" in names:
        return "it has an empty part"
    if "." in names or ".." in names:
        return "it has a part that is '.' or '..'"
    if any(map(unfinished, names)):
        return "a part of it is named as what is being written is"
    if any(letter < " " or letter == "\x7f" for letter in key):
        return "it has control characters"
    return _too_long(key, names)


def _too_long(key: str, names: list[str]) -> str:
    try:
        length = len(key.encode())
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    if length > _KEY_MOST:
        return f"it has {length:,} bytes, and {_KEY_MOST:,} are the most"
    longest = max(len(name.encode()) for name in names)
    if longest > _NAME_MOST:
        return f"a part of it has {longest} bytes, and {_NAME_MOST} are the most"
    return ""
