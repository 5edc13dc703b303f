"""What containers and their hosts are called."""

from __future__ import annotations

_MOST = 63
_DIGEST = 8
_ALLOWED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-")


def host_name(pattern: str, app_id: str, role: str, replica: int) -> str:
    """Return the name of a replica's container and host, which resolves in its network.

    It is the same for each attempt, and a host name as every resolver takes it: at most 63
    letters, digits and ``-``. What had to be changed for that is told apart by a digest.

    Args:
        pattern: with ``{app_id}``, ``{role}`` and ``{replica}`` to be replaced.
        app_id, role, replica: whose.

    >>> host_name("{app_id}-{role}-{replica}", "app-0f3", "trainer", 2)
    'app-0f3-trainer-2'
    >>> host_name("{app_id}-{role}-{replica}", "app-0f3", "a_b", 2)
    'app-0f3-a-b-8bd9d586-2'
    """
    whole = (
        pattern.replace("{app_id}", app_id)
        .replace("{role}", role)
        .replace("{replica}", str(replica))
    )
    end = f"-{replica}"
    stem = whole[: -len(end)] if whole.endswith(end) else whole
    end = end if stem != whole else ""
    plain = "".join(letter if letter in _ALLOWED else "-" for letter in stem).strip("-")
    if plain == stem and plain and len(plain) + len(end) <= _MOST:
        return plain + end
    room = _MOST - len(end) - _DIGEST - 1
    return f"{plain[:room].rstrip('-') or 'app'}-{_digest(whole if not end else stem)}{end}"


def container_name(host: str, attempt: int) -> str:
    """Return the name of one attempt's container."""
    return host if attempt == 1 else f"{host}-a{attempt}"


def _digest(text: str) -> str:
    # No secret is kept by it: it only has to differ where names differ.
    import zlib

    return f"{zlib.crc32(text.encode('utf-8', 'surrogateescape')):08x}"
