"""Values and exceptions of calls, as they are printed."""

from __future__ import annotations

from wherry.cli.output import clean, one_line, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


def print_results(values: Iterable[Any], *, numbered: bool) -> int:
    """Print values, one on each line; returns 1 when there is an exception among them.

    Args:
        values: values, and exceptions in place of those that there are not.
        numbered: whether they are many: one line for each, and exceptions with their number.
    """
    failed = count = 0
    for count, value in enumerate(values, 1):
        if not isinstance(value, BaseException):
            print(shown(value, one=numbered), flush=True)
            continue
        failed += 1
        say(f"item {count - 1}: {one_line(worded(value))}" if numbered else worded(value))
        cause = getattr(value.__cause__, "text", "")
        if cause and not numbered:
            say(clean(cause.rstrip()))
    if failed and numbered:
        items, have = "item" if count == 1 else "items", "has" if failed == 1 else "have"
        say(f"{failed} of {count} {items} {have} no value")
    return int(failed > 0)


def worded(error: BaseException) -> str:
    """Write an exception as Python does: its class and its words."""
    try:
        text = clean(str(error))
    except Exception as problem:  # noqa: BLE001 — a __str__ of the user's may raise anything
        text = f"(its __str__ raised {type(problem).__name__})"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def shown(value: Any, *, one: bool = True) -> str:
    """Write a value as JSON where that is the same, else as Python shows it.

    Args:
        value: the value.
        one: on one line, whatever Python would do.
    """
    import json

    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        if json.loads(text) == value:
            # Control characters beyond ASCII could reach a terminal.
            return text if text.isprintable() else json.dumps(value)
    except Exception:  # noqa: BLE001, S110 — no JSON, or an __eq__ of the user's that raises
        pass
    try:
        text = clean(repr(value))
    except Exception as problem:  # noqa: BLE001 — a __repr__ of the user's may raise anything
        text = f"<{type(value).__qualname__}: its __repr__ raised {type(problem).__name__}>"
    return " ".join(text.split("\n")) if one else text
