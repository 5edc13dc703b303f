"""Run apps in containers of a Docker Engine, usually this machine's own.

A client makes a record, starts a supervisor and leaves, as `wherry.schedulers.local` does; the
supervisor starts containers instead of processes. Everything that is made carries labels, so that
apps can be described, listed, read and cancelled where their record is not: from the Engine alone.
"""

from __future__ import annotations

from wherry._lazy import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from wherry.schedulers.docker.request import DockerRequest, DockerRoleRequest
    from wherry.schedulers.docker.scheduler import DockerScheduler, create_scheduler

_HOMES = {
    "DockerRequest": "wherry.schedulers.docker.request",
    "DockerRoleRequest": "wherry.schedulers.docker.request",
    "DockerScheduler": "wherry.schedulers.docker.scheduler",
    "create_scheduler": "wherry.schedulers.docker.scheduler",
}

__all__ = ["DockerRequest", "DockerRoleRequest", "DockerScheduler", "create_scheduler"]


def __getattr__(name: str) -> Any:
    return load(globals(), _HOMES, name)
