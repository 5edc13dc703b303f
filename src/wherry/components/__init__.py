"""Functions that return an `AppDef`, how they are found by name, and how words call them.

A component is a plain function with annotations and a docstring. This room turns a name into such
a function and a list of words into a call; where the app runs is nobody's business here.
"""

from __future__ import annotations

from wherry._lazy import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from wherry.components import dist, utils
    from wherry.components.builder import build
    from wherry.components.component import Component
    from wherry.components.finder import builtins, find, source_text
    from wherry.components.image import DEFAULT_IMAGE
    from wherry.components.manual import format_help, option_names
    from wherry.components.words import wants_help

_ROOMS = {
    "builder": ("build",),
    "component": ("Component",),
    "dist": ("dist",),
    "finder": ("builtins", "find", "source_text"),
    "image": ("DEFAULT_IMAGE",),
    "manual": ("format_help", "option_names"),
    "utils": ("utils",),
    "words": ("wants_help",),
}
_HOMES = {name: f"wherry.components.{room}" for room, names in _ROOMS.items() for name in names}

__all__ = [  # noqa: RUF022 — sorted, upper case first
    "Component",
    "DEFAULT_IMAGE",
    "build",
    "builtins",
    "dist",
    "find",
    "format_help",
    "option_names",
    "source_text",
    "utils",
    "wants_help",
]


def __getattr__(name: str) -> Any:
    return load(globals(), _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
