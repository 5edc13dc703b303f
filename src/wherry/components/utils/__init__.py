"""Built-in components for everyday work: a command, a script, a file, a test function."""

from __future__ import annotations

from wherry._lazy import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from wherry.components.utils.commands import binary, echo, python, sh, touch
    from wherry.components.utils.transfer import copy
    from wherry.components.utils.trial import booth

_HOMES = {
    **dict.fromkeys(
        ("binary", "echo", "python", "sh", "touch"), "wherry.components.utils.commands"
    ),
    "booth": "wherry.components.utils.trial",
    "copy": "wherry.components.utils.transfer",
}

__all__ = ["binary", "booth", "copy", "echo", "python", "sh", "touch"]


def __getattr__(name: str) -> Any:
    return load(globals(), _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
