"""Run the same work on this machine, in a container, or on AWS Batch.

Importing this package costs next to nothing: each public name is loaded from its room when it
is first used.
"""

from __future__ import annotations

from wherry._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from wherry import emulator, errors, specs
    from wherry.errors import WherryError
    from wherry.functions import (
        AWSBatchExecutor,
        DebugExecutor,
        Deps,
        DockerExecutor,
        Escalate,
        LocalExecutor,
        job,
        jobs,
        map_array,
        submit,
        using,
    )
    from wherry.runner import Runner, get_runner
    from wherry.specs import (
        AppDef,
        AppHandle,
        AppState,
        AppStatus,
        BindMount,
        DeviceMount,
        Resource,
        RetryPolicy,
        Role,
        VolumeMount,
        macros,
        named_resources,
        parse_mounts,
        resource,
        runopts,
    )

_HOMES = {
    "Runner": "wherry.runner",
    "WherryError": "wherry.errors",
    "get_runner": "wherry.runner",
    "emulator": "wherry.emulator",
    "errors": "wherry.errors",
    "specs": "wherry.specs",
    **dict.fromkeys(
        (
            "AWSBatchExecutor",
            "DebugExecutor",
            "Deps",
            "DockerExecutor",
            "Escalate",
            "LocalExecutor",
            "job",
            "jobs",
            "map_array",
            "submit",
            "using",
        ),
        "wherry.functions",
    ),
    **dict.fromkeys(
        (
            "AppDef",
            "AppHandle",
            "AppState",
            "AppStatus",
            "BindMount",
            "DeviceMount",
            "Resource",
            "RetryPolicy",
            "Role",
            "VolumeMount",
            "macros",
            "named_resources",
            "parse_mounts",
            "resource",
            "runopts",
        ),
        "wherry.specs",
    ),
}

__all__ = [
    "AWSBatchExecutor",
    "AppDef",
    "AppHandle",
    "AppState",
    "AppStatus",
    "BindMount",
    "DebugExecutor",
    "Deps",
    "DeviceMount",
    "DockerExecutor",
    "Escalate",
    "LocalExecutor",
    "Resource",
    "RetryPolicy",
    "Role",
    "Runner",
    "VolumeMount",
    "WherryError",
    "__version__",
    "emulator",
    "errors",
    "get_runner",
    "job",
    "jobs",
    "macros",
    "map_array",
    "named_resources",
    "parse_mounts",
    "resource",
    "runopts",
    "specs",
    "submit",
    "using",
]


def __getattr__(name: str) -> Any:
    from wherry._lazy import load

    return load(globals(), _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
