"""What an Engine that is not there, or refuses, is called in words, and what to do then."""

from __future__ import annotations

import errno

from wherry.errors import DockerError

_START = (
    "start it with `systemctl start docker` (or Docker Desktop, or `podman system service`), or "
    "point DOCKER_HOST to one"
)
_JOIN = (
    "add yourself to the group docker (`sudo usermod -aG docker $USER`, then log in again), or "
    "point DOCKER_HOST to an Engine of your own"
)
_REFUSED = frozenset((errno.EACCES, errno.EPERM))
_TOO_OLD = "Minimum supported API version is "

_NO_ADDRESSES = (
    "the Engine has no addresses left for another network; `wherry prune` or `docker network "
    "prune` removes unused ones"
)
_PORT_TAKEN = "another program or container has the port; publish another one"
_HINTS = {
    "no space left on device": (
        "the Engine's disk is full; `docker system df` shows what is on it, `wherry prune` and "
        "`docker system prune` make room"
    ),
    "could not find an available, non-overlapping IPv4 address pool": _NO_ADDRESSES,
    "all predefined address pools have been fully subnetted": _NO_ADDRESSES,
    "could not select device driver": (
        "this Engine has no driver for GPUs; install the NVIDIA Container Toolkit, or ask for none"
    ),
    "port is already allocated": _PORT_TAKEN,
    "address already in use": _PORT_TAKEN,
}
"""What the Engine says → what to do. Its own words come first."""


def unreachable(address: str, error: OSError) -> DockerError:
    """Word that nobody answers at an address."""
    what = (error.strerror or str(error) or type(error).__name__).lower()
    place = address.partition("?")[0]
    if error.errno in _REFUSED:
        return DockerError(f"you may not use the Docker Engine at {place} ({what}); {_JOIN}")
    return DockerError(f"no Docker Engine answers at {place} ({what}); {_START}")


def silent(address: str, seconds: float) -> DockerError:
    """Word that the Engine has not answered in time."""
    place = address.partition("?")[0]
    return DockerError(
        f"the Docker Engine at {place} did not answer within {seconds:g} s; see whether `docker "
        "info` does, and restart it if not"
    )


def refusal(status: int, body: bytes) -> DockerError:
    """Word an answer of 400 or more."""
    return DockerError(hinted(words_of(body) or f"HTTP {status}"), status=status)


def words_of(body: bytes) -> str:
    """Return what an answer of 400 or more says."""
    import json

    try:
        document = json.loads(body)
    except ValueError:
        return " ".join(body.decode(errors="replace").split())[:500]
    if isinstance(document, dict):
        return str(document.get("message") or document.get("cause") or "")
    return str(document)


def hinted(words: str) -> str:
    """Return the Engine's words with what to do about them, where that is known."""
    for part, hint in _HINTS.items():
        if part in words:
            return f"{words.rstrip('.')}; {hint}"
    return words


def needed_version(status: int, body: bytes) -> str:
    """Return the version of its interface that an Engine asks for, where it refused ours as old.

    >>> needed_version(400, b'{"message":"client version 1.41 is too old. Minimum supported API '
    ...                     b'version is 1.44, please upgrade your client"}')
    '1.44'
    """
    if status != 400:
        return ""
    _, found, rest = words_of(body).partition(_TOO_OLD)
    return rest.split(",")[0].strip().rstrip(".") if found else ""
