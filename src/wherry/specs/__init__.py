"""What to run, as data: apps, roles, resources, mounts, macros, options, states, handles.

Pure values: nothing here does I/O or remembers anything.
"""

from __future__ import annotations

from wherry._lazy import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from wherry.specs.app import (
        MISSING,
        AppDef,
        RetryPolicy,
        RetryRule,
        RetryScope,
        Role,
    )
    from wherry.specs.catalogue import named_resources, resource
    from wherry.specs.handles import AppHandle, make_app_handle, parse_app_handle
    from wherry.specs.macro import macros
    from wherry.specs.mounts import BindMount, DeviceMount, Mount, VolumeMount, parse_mounts
    from wherry.specs.options import CfgVal, runopt, runopts
    from wherry.specs.plain import app_from_plain, to_plain
    from wherry.specs.resources import NULL_RESOURCE, Resource
    from wherry.specs.states import AppState, ReplicaState, is_started, is_terminal
    from wherry.specs.status import AppStatus, AttemptStatus, ReplicaStatus, RoleStatus

_ROOMS = {
    "app": ("MISSING", "AppDef", "RetryPolicy", "RetryRule", "RetryScope", "Role"),
    "handles": ("AppHandle", "make_app_handle", "parse_app_handle"),
    "macro": ("macros",),
    "mounts": ("BindMount", "DeviceMount", "Mount", "VolumeMount", "parse_mounts"),
    "catalogue": ("named_resources", "resource"),
    "plain": ("app_from_plain", "to_plain"),
    "resources": ("NULL_RESOURCE", "Resource"),
    "options": ("CfgVal", "runopt", "runopts"),
    "states": ("AppState", "ReplicaState", "is_started", "is_terminal"),
    "status": ("AppStatus", "AttemptStatus", "ReplicaStatus", "RoleStatus"),
}
_HOMES = {name: f"wherry.specs.{room}" for room, names in _ROOMS.items() for name in names}

__all__ = [  # noqa: RUF022 — sorted, upper case first
    "AppDef",
    "AppHandle",
    "AppState",
    "AppStatus",
    "AttemptStatus",
    "BindMount",
    "CfgVal",
    "DeviceMount",
    "MISSING",
    "Mount",
    "NULL_RESOURCE",
    "ReplicaState",
    "ReplicaStatus",
    "Resource",
    "RetryPolicy",
    "RetryRule",
    "RetryScope",
    "Role",
    "RoleStatus",
    "VolumeMount",
    "app_from_plain",
    "is_started",
    "is_terminal",
    "macros",
    "make_app_handle",
    "named_resources",
    "parse_app_handle",
    "parse_mounts",
    "resource",
    "runopt",
    "runopts",
    "to_plain",
]


def __getattr__(name: str) -> Any:
    return load(globals(), _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
