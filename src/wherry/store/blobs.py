"""Objects named by what they contain: the same bytes are sent once, and read back verified."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakKeyDictionary

from wherry.errors import CorruptObjectError
from wherry.store.api import Buffer, ObjectInfo, Store
from wherry.worker.formats import blob_key

_ASKING = 16  # threads that ask whether blobs are there
_SMALL = 64 << 10
"""Bytes that are sent sooner than asked about, where asking is a request as well."""

_KNOWN_FOR = 600.0
_KNOWN_MOST = 10_000
_known: WeakKeyDictionary[Store, dict[str, float]] = WeakKeyDictionary()
"""Store → digest → when this process saw it there."""


def digest_of(parts: Iterable[Buffer]) -> str:
    """Return the SHA-256, in hexadecimal, of parts one after the other."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def put_blob(store: Store, parts: Sequence[Buffer], digest: str | None = None) -> tuple[str, int]:
    """Store an object under the name of what it contains, unless it is there.

    Args:
        store: where.
        parts: its bytes; none of them is copied.
        digest: what `digest_of` says of them, where that is known.

    Returns:
        The digest, and how many bytes there are.

    Raises:
        StoreError: the store refuses, or does not answer.
    """
    name = digest or digest_of(parts)
    size = sum(memoryview(part).nbytes for part in parts)
    if store.url.startswith("file://"):
        _put_unless_there(store, name, size, parts)
        return name, size
    known, now = _known.setdefault(store, {}), time.monotonic()
    if now - known.get(name, -_KNOWN_FOR) < _KNOWN_FOR:
        return name, size
    if size <= _SMALL:
        store.write(blob_key(name), parts)
    else:
        _put_unless_there(store, name, size, parts)
    if len(known) >= _KNOWN_MOST:
        known.clear()
    known[name] = now
    return name, size


def _put_unless_there(store: Store, name: str, size: int, parts: Sequence[Buffer]) -> None:
    found = store.head(blob_key(name))
    # One of another size is not what its name says: a disk that was full, a hand in the folder.
    if found is None or found.size != size or not _stays(store, found):
        store.write(blob_key(name), parts)


def get_blob(store: Store, digest: str) -> bytes:
    """Return the bytes that have this digest.

    Raises:
        MissingObjectError: they are not there.
        CorruptObjectError: what is there is something else.
    """
    data = store.read(blob_key(digest))
    found = digest_of([data])
    if found != digest:
        raise CorruptObjectError(
            f"{store.url}/{blob_key(digest)} is not what was stored: its {len(data):,} bytes have "
            f"the SHA-256 {found}. Delete it, and submit again"
        )
    return data


def has_blobs(store: Store, digests: Iterable[str]) -> set[str]:
    """Return those of the digests whose objects are there, and stay for now."""
    wanted = list(dict.fromkeys(digests))

    def is_there(digest: str) -> bool:
        found = store.head(blob_key(digest))
        return found is not None and _stays(store, found)

    if len(wanted) < 2:
        return {digest for digest in wanted if is_there(digest)}
    with ThreadPoolExecutor(min(_ASKING, len(wanted)), "wherry-blobs") as pool:
        found = pool.map(is_there, wanted)
        return {digest for digest, there in zip(wanted, found, strict=True) if there}


def _stays(store: Store, found: ObjectInfo) -> bool:
    """Tell whether a new call may rely on an object: one that is old could be cleaned up.

    Young ones are left as they are; an old one is made young, or else stored again.
    """
    if time.time() - found.modified < store.kept_for / 2:
        return True
    return store.touch(found.key)
