"""A session over the schedulers: the Runner, its configuration, and the ledger of all apps.

Nothing here knows of a command line or of one particular scheduler; a scheduler is found by name
and asked through its contract.
"""

from __future__ import annotations

from wherry._lazy import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from wherry.runner.api import Runner, get_runner
    from wherry.runner.config import Config, Setting
    from wherry.runner.ledger import Ledger

_ROOMS = {
    "api": ("Runner", "get_runner"),
    "config": ("Config", "Setting"),
    "ledger": ("Ledger",),
}
_HOMES = {name: f"wherry.runner.{room}" for room, names in _ROOMS.items() for name in names}

__all__ = ["Config", "Ledger", "Runner", "Setting", "get_runner"]


def __getattr__(name: str) -> Any:
    return load(globals(), _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
