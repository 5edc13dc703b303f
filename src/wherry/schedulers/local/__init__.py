"""Run apps as processes of this machine, each app under a supervisor of its own.

A client makes a record, starts the supervisor and leaves; everything else (describe, logs, cancel)
works on the record, from any process. `docs/local.md` tells what is enforced.
"""

from __future__ import annotations

from wherry._lazy import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from wherry.schedulers.local.images import (
        CWDImageProvider,
        ImageProvider,
        LocalDirectoryImageProvider,
        ReplicaParam,
    )
    from wherry.schedulers.local.request import LocalRequest, RoleRequest
    from wherry.schedulers.local.scheduler import (
        LocalScheduler,
        create_cwd_scheduler,
        create_dir_scheduler,
    )

_ROOMS = {
    "images": ("CWDImageProvider", "ImageProvider", "LocalDirectoryImageProvider", "ReplicaParam"),
    "request": ("LocalRequest", "RoleRequest"),
    "scheduler": ("LocalScheduler", "create_cwd_scheduler", "create_dir_scheduler"),
}
_HOMES = {
    name: f"wherry.schedulers.local.{room}" for room, names in _ROOMS.items() for name in names
}

__all__ = [
    "CWDImageProvider",
    "ImageProvider",
    "LocalDirectoryImageProvider",
    "LocalRequest",
    "LocalScheduler",
    "ReplicaParam",
    "RoleRequest",
    "create_cwd_scheduler",
    "create_dir_scheduler",
]


def __getattr__(name: str) -> Any:
    return load(globals(), _HOMES, name)
