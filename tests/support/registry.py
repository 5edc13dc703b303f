"""A real registry of images for tests, on this machine: Debian's docker-registry."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.waiting import until

PROGRAM = "docker-registry"
PASSWORDS = {
    "sesame": "$2b$05$zyL7tjfer5Ua9KvKklMczeoi2UNk8EfIWbPfKyG5xv5yk6WhpAm1m",
    "123456789012-auth-token": "$2b$05$vTiXuqBrI53X3URG7WG8FOvbIULwLNgRU5wGBBN8t4IqszGBHynQm",
}
"""Passwords, and what a registry keeps of them (bcrypt)."""


def require_registry() -> str:
    """Return the registry's program; skip the test where there is none (under CI, fail)."""
    found = shutil.which(PROGRAM)
    if found is None and os.environ.get("CI") == "true":
        pytest.fail(f"there is no {PROGRAM}; `apt-get install docker-registry` brings it")
    if found is None:
        pytest.skip(f"there is no {PROGRAM}")
    return found


@contextmanager
def registry(folder: Path, user: str = "", password: str = "") -> Iterator[str]:
    """Run a registry; with a user, only that one may come in.

    Args:
        folder: for its files.
        user, password: the only login, with a password of `PASSWORDS`.

    Returns:
        Its host and port.
    """
    program = require_registry()
    folder.mkdir(parents=True, exist_ok=True)
    host = f"127.0.0.1:{_free_port()}"
    lines = ["version: 0.1", "log: {level: error}", f"http: {{addr: '{host}'}}"]
    lines.append(f"storage: {{filesystem: {{rootdirectory: '{folder}/data'}}}}")
    if user:
        (folder / "htpasswd").write_text(f"{user}:{PASSWORDS[password]}\n")
        lines.append(f"auth: {{htpasswd: {{realm: test, path: '{folder}/htpasswd'}}}}")
    (folder / "config.yml").write_text("\n".join(lines) + "\n")
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen(
            [program, "serve", folder / "config.yml"], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        until(lambda: _answers(host), f"the registry at {host}")
        yield host
    finally:
        running.kill()
        running.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(host: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{host}/v2/", timeout=5):
            return True
    except urllib.error.HTTPError as error:
        error.close()
        return error.code == 401
    except OSError:
        return False
