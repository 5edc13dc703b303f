"""Test doubles for people who write components or tools on Wherry.

`MemoryScheduler` is a scheduler that runs nothing: each app goes as the test scripted it, in the
time of a `Clock` that nobody has to wait for. The pytest fixtures are in `wherry.testing.plugin`,
and a suite that any scheduler should pass is `wherry.testing.contract.SchedulerContract`.

>>> from wherry.specs import AppDef, Role
>>> scheduler = MemoryScheduler()
>>> scheduler.script(Outcome.fail(exit_code=3, after=60), Outcome.succeed(after=5))
>>> role = Role("trainer", entrypoint="train.py", args=["--name=${app_id}"], max_retries=1)
>>> app_id = scheduler.submit(AppDef("train", [role]), {})
>>> scheduler.submitted[0].request.role("trainer").replicas[0].args
['--name=train-1']
>>> scheduler.clock.advance(65)
>>> status = scheduler.describe(app_id).to_status()
>>> status.state, [attempt.exit_code for attempt in status.roles[0].replicas[0].attempts]
(SUCCEEDED (4), [3, 0])
"""

from __future__ import annotations

from wherry._lazy import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from wherry.testing.clock import Clock, Timer
    from wherry.testing.contract import SchedulerContract
    from wherry.testing.outcomes import LogLine, Outcome
    from wherry.testing.request import MemoryRequest, ReplicaRequest, RoleRequest
    from wherry.testing.scheduler import MemoryScheduler

_HOMES = {
    "Clock": "wherry.testing.clock",
    "LogLine": "wherry.testing.outcomes",
    "MemoryRequest": "wherry.testing.request",
    "MemoryScheduler": "wherry.testing.scheduler",
    "Outcome": "wherry.testing.outcomes",
    "ReplicaRequest": "wherry.testing.request",
    "RoleRequest": "wherry.testing.request",
    "SchedulerContract": "wherry.testing.contract",
    "Timer": "wherry.testing.clock",
}

__all__ = [
    "Clock",
    "LogLine",
    "MemoryRequest",
    "MemoryScheduler",
    "Outcome",
    "ReplicaRequest",
    "RoleRequest",
    "SchedulerContract",
    "Timer",
]


def __getattr__(name: str) -> Any:
    return load(globals(), _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
