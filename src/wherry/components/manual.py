"""A component's own help, and the names of its options for shells."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from wherry.components.options import Option, Signature, signature_of
from wherry.components.words import HELP

if TYPE_CHECKING:
    from wherry.components.component import Component

_INDENT = "  "
_COLUMN = 28
_NARROWEST = 50


class _Prose(NamedTuple):
    """What a docstring says."""

    text: str
    params: Mapping[str, str]


def format_help(component: Component, *, width: int = 80) -> str:
    """Write a component's help: usage, description and options.

    Args:
        component: the component.
        width: columns to write in.

    Returns:
        Lines, with one newline at the end.

    Raises:
        ComponentError: the function is not a component.
    """
    signature = signature_of(component.fn, component.name)
    prose = _prose(component.fn.__doc__ or "")
    width = max(width, _NARROWEST)
    lines = [_usage(component.name, signature)]
    if prose.text:
        lines += ["", *_paragraphs(prose.text, width)]
    if signature.rest:
        rows = [(signature.rest, prose.params.get(signature.rest, ""))]
        lines += ["", "arguments:", *_table(rows, width)]
    rows = [
        (_spelled(option), _explained(option, prose.params.get(name, "")))
        for name, option in signature.options.items()
    ]
    if "help" not in signature.options:
        rows.append((HELP, "show this help"))
    lines += ["", "options:", *_table(rows, width)]
    return "\n".join(lines) + "\n"


def option_names(component: Component) -> list[str]:
    """Return every option as it is written, such as ``--num-replicas`` and ``--no-debug``.

    Raises:
        ComponentError: the function is not a component.
    """
    signature = signature_of(component.fn, component.name)
    names = []
    for option in signature.options.values():
        names.append(option.flag)
        if option.type.is_flag:
            names.append(option.negation)
    return names if "help" in signature.options else [*names, HELP]


def _usage(name: str, signature: Signature) -> str:
    words = [f"usage: wherry run {name}"]
    words += [_with_value(option) for option in signature.options.values() if option.required]
    if not all(option.required for option in signature.options.values()):
        words.append("[options]")
    if signature.rest:
        words.append(f"[--] [{signature.rest} ...]")
    return " ".join(words)


def _with_value(option: Option) -> str:
    return f"{option.flag} {option.type.metavar}".rstrip()


def _spelled(option: Option) -> str:
    if option.type.is_flag:
        return f"{option.flag}, {option.negation}"
    return _with_value(option)


def _explained(option: Option, said: str) -> str:
    if option.required:
        fact = "(required)"
    elif option.default is None or option.default == "":
        fact = ""
    else:
        fact = f"(default: {_as_text(option.default)})"
    return f"{said} {fact}".strip()


def _as_text(value: Any) -> str:
    """Write a default the way that an option would be given."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_as_text(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(map(_as_text, value))
    return str(value)


def _prose(docstring: str) -> _Prose:
    import docstring_parser

    try:
        parsed = docstring_parser.parse(docstring)
    except docstring_parser.ParseError:
        import inspect

        return _Prose(inspect.cleandoc(docstring), {})
    parts = (parsed.short_description, parsed.long_description)
    return _Prose(
        "\n\n".join(part for part in parts if part),
        {
            name.strip().lstrip("*"): " ".join((param.description or "").split())
            for param in parsed.params
            for name in param.arg_name.split(",")
        },
    )


def _paragraphs(text: str, width: int) -> Iterable[str]:
    """Fill prose; paragraphs that are set in (commands, lists) keep their lines."""
    for index, paragraph in enumerate(text.split("\n\n")):
        if index:
            yield ""
        lines = paragraph.splitlines()
        if any(line.startswith((" ", "\t", "- ", "* ")) for line in lines):
            yield from lines
        else:
            yield from textwrap.wrap(paragraph, width)


def _table(rows: Iterable[tuple[str, str]], width: int) -> Iterable[str]:
    """Set rows in two columns; a long first column has a line of its own."""
    for name, text in rows:
        lines = textwrap.wrap(text, width - _COLUMN, break_on_hyphens=False)
        head = _INDENT + name
        if lines and len(head) < _COLUMN - 1:
            head = head.ljust(_COLUMN) + lines.pop(0)
        yield head
        yield from (" " * _COLUMN + line for line in lines)
