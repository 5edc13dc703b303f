"""AWS Batch on this machine: a control plane like AWS's, and engines that run its jobs.

`batch` is the control plane: pure Python, no HTTP, no threads of its own but one. `engines` run
containers: as processes, or in Docker. `cloud` is everything else of AWS, which is moto's server.
`server` puts all of it behind one port. `using` is the way in for Python; `record`, `hosting` and
`detached` keep one going for a terminal, and `remote` talks to it from another process. Nothing in
Wherry but the command line and the pytest fixtures knows of this room.

Importing it loads nothing: each public name comes from its module when it is first used.
"""

from __future__ import annotations

from wherry._lazy import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from wherry.emulator.faults import Fault
    from wherry.emulator.server.emulator import Emulator
    from wherry.emulator.settings import Settings
    from wherry.emulator.using import Running, running

_HOMES = {
    "Emulator": "wherry.emulator.server.emulator",
    "Fault": "wherry.emulator.faults",
    "Running": "wherry.emulator.using",
    "Settings": "wherry.emulator.settings",
    "running": "wherry.emulator.using",
}

__all__ = ["Emulator", "Fault", "Running", "Settings", "running"]


def __getattr__(name: str) -> Any:
    return load(globals(), _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
