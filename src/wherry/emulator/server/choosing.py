"""Which engine runs the jobs: Docker where an Engine answers, processes where none does."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wherry.errors import LaunchError, UsageError, unknown

if TYPE_CHECKING:
    from wherry.emulator.engines.api import Engine, Listener, Output

ENGINES = ("auto", "docker", "process")
_SOCKET = "/var/run/docker.sock"
_PATIENCE = 2.0  # seconds in which an Engine has to answer, to be taken by itself


@dataclass(frozen=True)
class Making:
    """What engines are made with.

    Attributes:
        listener, output: see `wherry.emulator.engines.api`.
        name: of the emulator, among all that use the same Docker Engine.
        folder: for what lives as long as the emulator.
    """

    listener: Listener
    output: Output
    name: str
    folder: str


def open_engine(wanted: str, making: Making) -> tuple[Engine, str]:
    """Make and open the engine that is wanted.

    Args:
        wanted: one of `ENGINES`.
        making: what it is made with.

    Returns:
        The engine, ready, and why it is this one.

    Raises:
        UsageError: there is no such engine.
        LaunchError: it cannot run here.
    """
    opener = _OPENERS.get(wanted)
    if opener is None:
        raise UsageError(unknown("engine", wanted, ENGINES))
    return opener(making)


def _process(making: Making, reason: str = "as asked") -> tuple[Engine, str]:
    from wherry.emulator.engines.process import ProcessEngine

    engine = ProcessEngine(making.listener, making.output, os.path.join(making.folder, "scratch"))
    engine.open()
    return engine, reason


def _docker(making: Making, reason: str = "as asked") -> tuple[Engine, str]:
    from wherry.emulator.engines.docker import DockerEngine

    engine = DockerEngine(making.listener, making.output, making.name, making.folder)
    engine.open()
    return engine, reason


def _auto(making: Making) -> tuple[Engine, str]:
    silent = _silence()
    if silent:
        return _process(making, silent)
    try:
        return _docker(making, "a Docker Engine answers")
    except LaunchError as error:
        return _process(making, str(error))


def _silence() -> str:
    """Say why no Docker Engine can be asked, or nothing; never waits long."""
    host = os.environ.get("DOCKER_HOST", "")
    if host and not host.startswith("unix://"):
        return ""
    path = host.removeprefix("unix://") or _SOCKET
    try:
        with socket.socket(socket.AF_UNIX) as asked:
            asked.settimeout(_PATIENCE)
            asked.connect(path)
            asked.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            answered = b" 200 " in asked.recv(64)
    except OSError as error:
        return f"no Docker Engine answers at {path}: {error.strerror or error}"
    return "" if answered else f"what answers at {path} is not a Docker Engine"


_OPENERS: dict[str, Callable[[Making], tuple[Engine, str]]] = {
    "auto": _auto,
    "docker": _docker,
    "process": _process,
}
