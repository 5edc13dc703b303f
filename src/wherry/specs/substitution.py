"""Replace ``${name}`` and ``$$`` in a text.

Apart from the macros themselves because the local supervisor uses it too, and may not pay for
anything that is slow to import.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def substitute(text: str, values: Mapping[str, str], *, final: bool = True) -> str:
    """Replace each ``${name}`` that has a value, and then ``$$`` by one dollar.

    A value is never read again: what is replaced in two rounds is what one round, with the values
    of both, would have given.

    Args:
        text: the text; a ``${name}`` without a value stays as it is.
        values: what the names stand for.
        final: whether this is the last round; before it, ``$$`` stays ``$$``.

    Returns:
        The text with the names replaced.

    >>> substitute("${app_id} costs $$5 in $HOME", {"app_id": "a-1"})
    'a-1 costs $5 in $HOME'
    """
    if "$" not in text:
        return text
    if not final:
        values = {name: _escaped(value) for name, value in values.items()}
    pieces = text.split("$$")
    for index, piece in enumerate(pieces):
        if "${" in piece:
            pieces[index] = _fill(piece, values, final=final)
    return ("$" if final else "$$").join(pieces)


def _fill(piece: str, values: Mapping[str, str], *, final: bool) -> str:
    head, *rest = piece.split("${")
    filled = [head]
    for part in rest:
        name, brace, tail = part.partition("}")
        if brace and name in values:
            filled.append(values[name] + tail)
        else:
            # What no brace ends is no name, and may not become one by what follows it.
            filled.append(("${" if brace or final else "$${") + part)
    return "".join(filled)


def _escaped(value: str) -> str:
    return value.replace("$", "$$")
