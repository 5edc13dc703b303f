"""What a component is once it has been found: a function, and where it came from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wherry.specs.app import AppDef

BUILT_IN = "built in"
"""The source of a component that comes with Wherry."""

_SECTIONS = ("args:", "arguments:", "parameters", "returns:", "raises:", ":param", ":return")


@dataclass(frozen=True)
class Component:
    """A function that returns an app, by the name that finds it.

    Args:
        name: such as ``utils.echo``, ``train.py:job`` or ``package.module:job``.
        fn: the function.
        summary: the first paragraph of its docstring, on one line; may be empty.
        source: ``"built in"``, the file it was loaded from, or the plug-in's distribution.
        folder: a folder that must be importable while the function runs; none when empty.
    """

    name: str
    fn: Callable[..., AppDef]
    summary: str
    source: str
    folder: str = ""


def summary_of(fn: Callable[..., object]) -> str:
    """Return the first paragraph of a function's docstring, on one line."""
    first = str(fn.__doc__ or "").strip().partition("\n\n")[0]
    return "" if first.lower().startswith(_SECTIONS) else " ".join(first.split())
