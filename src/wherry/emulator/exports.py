"""The variables that send a client to the emulator, and those that would send it elsewhere.

A variable for one service wins over the one for all of AWS, a profile may not exist, and a proxy
would be asked for loopback addresses. What is set here is all that an unmodified client needs.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

# https://docs.aws.amazon.com/sdkref/latest/guide/settings-reference.html
_MISLEADING = re.compile(
    r"AWS_ENDPOINT_URL_\w+|AWS_(DEFAULT_)?PROFILE|AWS_SESSION_TOKEN|AWS_SECURITY_TOKEN"
    r"|AWS_IGNORE_CONFIGURED_ENDPOINT_URLS|AWS_USE_FIPS_ENDPOINT|AWS_USE_DUALSTACK_ENDPOINT"
)
_FILES = ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


def changes(wanted: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str | None]:
    """Return what has to change in an environment for clients to reach an emulator.

    Args:
        wanted: what the emulator says that a client needs.
        environ: the environment as it is.

    Returns:
        Names with their new values; ``None`` for those that have to go.
    """
    found: dict[str, str | None] = {
        name: None for name in sorted(environ) if _MISLEADING.fullmatch(name)
    }
    found.update(wanted)
    if any(environ.get(name) for name in _PROXIES):
        found.update(_past_the_proxy(wanted.get("AWS_ENDPOINT_URL", ""), environ))
    return found


def blind(environ: Mapping[str, str]) -> dict[str, str | None]:
    """Return what has to change for AWS's own library to see no settings of the user.

    moto asks it for the names of regions and services, and it fails when a profile does not exist.
    """
    found: dict[str, str | None] = {
        name: None for name in sorted(environ) if _MISLEADING.fullmatch(name)
    }
    return {**found, **dict.fromkeys(_FILES, os.devnull)}


@contextmanager
def applied(found: Mapping[str, str | None]) -> Iterator[None]:
    """Change this process's environment inside a block."""
    before = {name: os.environ.get(name) for name in found}
    _apply(found)
    try:
        yield
    finally:
        _apply(before)


def _apply(found: Mapping[str, str | None]) -> None:
    for name, value in found.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _past_the_proxy(url: str, environ: Mapping[str, str]) -> dict[str, str]:
    host = urlsplit(url).hostname or "127.0.0.1"
    kept = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    hosts = [word.strip() for word in kept.split(",") if word.strip()]
    text = ",".join([*hosts, *([] if host in hosts else [host])])
    return {"NO_PROXY": text, "no_proxy": text}


def _sh(found: Mapping[str, str | None]) -> list[str]:
    gone = [name for name, value in found.items() if value is None]
    return [
        *([f"unset {' '.join(gone)}"] if gone else []),
        *(
            f"export {name}={shlex.quote(value)}"
            for name, value in found.items()
            if value is not None
        ),
    ]


def _fish(found: Mapping[str, str | None]) -> list[str]:
    def quoted(text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"

    return [
        f"set -e {name};" if value is None else f"set -gx {name} {quoted(value)};"
        for name, value in found.items()
    ]


def _json(found: Mapping[str, str | None]) -> list[str]:
    return json.dumps(found, indent=2).splitlines()


SHELLS: dict[str, Callable[[Mapping[str, str | None]], list[str]]] = {
    "sh": _sh,
    "fish": _fish,
    "json": _json,
}
"""How each shell is told; ``json`` is for programs, with ``null`` for what has to go."""
