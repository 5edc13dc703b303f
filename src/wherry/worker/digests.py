"""SHA-256 without the 5 ms that `hashlib` takes to load OpenSSL, where little is hashed."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .formats import Buffer

_LITTLE = 1 << 20


def _python_s_own() -> Any:
    """Return Python's own SHA-256; looked for once, since a module that is not there costs most."""
    for name in ("_sha2", "_sha256"):  # from 3.12 on, and before
        try:
            return __import__(name).sha256
        except ImportError:
            continue
    return None


_sha256 = _python_s_own()


def hasher(size: int = 0) -> Any:
    """Return a new SHA-256.

    Args:
        size: bytes that it will see. For many, OpenSSL's is faster; for few, Python's own loads
            sooner.
    """
    if size <= _LITTLE and _sha256 is not None:
        return _sha256()
    import hashlib

    return hashlib.sha256()


def digest_of(parts: Iterable[Buffer]) -> str:
    """Return the SHA-256 of some parts, in hexadecimal."""
    views = [memoryview(part).cast("B") for part in parts]
    made = hasher(sum(view.nbytes for view in views))
    for view in views:
        made.update(view)
    return str(made.hexdigest())
