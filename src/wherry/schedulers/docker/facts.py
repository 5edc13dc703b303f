"""What an Engine says of itself and of its machine, as far as it matters here."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_LOCAL = "unix://"
_GPU_HOOKS = ("nvidia-container-runtime-hook", "nvidia-container-toolkit")


@dataclass(frozen=True)
class Facts:
    """An Engine and its machine.

    Args:
        address: where it is.
        cores: of its machine.
        memory: of its machine, in bytes.
        log_drivers: the ways in which it can keep what containers write.
        has_init: whether it can run an init process above a program.
        has_gpus: whether it has a driver for GPUs; ``None`` where that cannot be known.
        is_here: whether its machine is this one, as far as an address tells.
    """

    address: str
    cores: int
    memory: int
    log_drivers: frozenset[str]
    has_init: bool
    has_gpus: bool | None
    is_here: bool


def read_facts(address: str, info: Mapping[str, Any]) -> Facts:
    """Read what ``GET /info`` has told."""
    plugins = info.get("Plugins") or {}
    is_here = address.startswith(_LOCAL)
    return Facts(
        address=address,
        cores=int(info.get("NCPU") or 1),
        memory=int(info.get("MemTotal") or 0),
        log_drivers=frozenset(plugins.get("Log") or ()),
        has_init=_has_init(info),
        has_gpus=_has_gpus(info, is_here=is_here),
        is_here=is_here,
    )


def _has_init(info: Mapping[str, Any]) -> bool:
    # Podman names none; "N/A" is what the Engine says of one that it did not find.
    return bool(info.get("InitBinary")) and (info.get("InitCommit") or {}).get("ID") != "N/A"


def _has_gpus(info: Mapping[str, Any], *, is_here: bool) -> bool | None:
    if "nvidia" in (info.get("Runtimes") or {}) or info.get("DiscoveredDevices"):
        return True
    if not is_here:
        return None
    return any(shutil.which(hook) for hook in _GPU_HOOKS)
