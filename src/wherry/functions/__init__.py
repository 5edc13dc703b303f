"""Python calls as jobs: executors, their jobs, and what a call is made of.

`LocalExecutor().submit(f, x).result()` runs ``f(x)`` in a process of its own; `DockerExecutor` and
`AWSBatchExecutor` run it elsewhere, with the same surface. `DebugExecutor` runs it right here.
"""

from __future__ import annotations

from wherry._lazy import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from wherry.functions.array import ArrayJob, ChildJob
    from wherry.functions.aws import AWSBatchExecutor
    from wherry.functions.debug import DebugExecutor
    from wherry.functions.defaults import job, jobs, map_array, submit, using
    from wherry.functions.docker import DockerExecutor
    from wherry.functions.executor import Executor
    from wherry.functions.failures import RemoteTraceback
    from wherry.functions.handle import Job
    from wherry.functions.local import LocalExecutor
    from wherry.functions.options import Deps, Escalate
    from wherry.functions.outcome import Outcome

_ROOMS = {
    "aws": ("AWSBatchExecutor",),
    "array": ("ArrayJob", "ChildJob"),
    "debug": ("DebugExecutor",),
    "defaults": ("job", "jobs", "map_array", "submit", "using"),
    "docker": ("DockerExecutor",),
    "executor": ("Executor",),
    "failures": ("RemoteTraceback",),
    "handle": ("Job",),
    "local": ("LocalExecutor",),
    "options": ("Deps", "Escalate"),
    "outcome": ("Outcome",),
}
_HOMES = {name: f"wherry.functions.{room}" for room, names in _ROOMS.items() for name in names}

__all__ = [
    "AWSBatchExecutor",
    "ArrayJob",
    "ChildJob",
    "DebugExecutor",
    "Deps",
    "DockerExecutor",
    "Escalate",
    "Executor",
    "Job",
    "LocalExecutor",
    "Outcome",
    "RemoteTraceback",
    "job",
    "jobs",
    "map_array",
    "submit",
    "using",
]


def __getattr__(name: str) -> Any:
    return load(globals(), _HOMES, name)
