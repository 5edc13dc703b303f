"""The items of a map: read from a file, and lists of their numbers as people write them."""

from __future__ import annotations

import os
import sys

from wherry.cli.loading import no_file
from wherry.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

STDIN = "-"
_MOST = 1_000_000


def read_lines(path: str) -> list[str]:
    """Read a file's lines, each an item; ``-`` is standard input.

    Raises:
        UsageError: there is no such file, or it is not text.
    """
    lines = _text(path).split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def read_values(path: str) -> list[Any]:
    """Read the values of a JSON list, or of lines that are JSON each; ``-`` is standard input.

    Raises:
        UsageError: there is no such file, or it is neither.
    """
    import json

    text = _text(path)
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        if lines and _is_json(lines[0][1]):
            return [_value(path, number, line) for number, line in lines]
        raise UsageError(
            f"{_shown(path)} is neither a JSON list nor lines of JSON: {error}"
        ) from None
    if isinstance(found, list):
        return found
    if len(lines) == 1:
        return [found]
    raise UsageError(
        f"{_shown(path)} must hold a JSON list or lines of JSON, and is one {_kind(found)} of "
        f"{len(lines)} lines"
    )


def read_numbers(text: str) -> list[int]:
    """Read numbers and ranges, which include both ends; ``-`` reads them from standard input.

    Raises:
        UsageError: the text is no such list.

    >>> read_numbers("0,4-7")
    [0, 4, 5, 6, 7]
    """
    if text == STDIN:
        text = ",".join(sys.stdin.read().split())
    if not text.strip():
        raise UsageError("the list of items is empty; there is nothing to run")
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        ends = (first, last) if dash else (first, first)
        if not all(end.isascii() and end.isdigit() and len(end) < 10 for end in ends):
            raise UsageError(f"{text!r} is no list of items; write numbers and ranges: 0,4-7")
        low, high = map(int, ends)
        if low > high or high - low > _MOST:
            raise UsageError(f"{part.strip()!r} in {text!r} is no range; write 4-7, not 7-4")
        numbers.update(range(low, high + 1))
    return sorted(numbers)


def show_numbers(numbers: Iterable[int]) -> str:
    """Write numbers in order, those that follow one another as ranges.

    >>> show_numbers([7, 0, 4, 5, 6])
    '0,4-7'
    """
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{low}-{high}" if high > low else str(low) for low, high in ranges)


def _text(path: str) -> str:
    if path == STDIN:
        data = sys.stdin.buffer.read()
    elif os.path.isdir(path):
        raise UsageError(f"{path!r} is a folder; name a file")
    elif not os.path.exists(path):
        raise no_file(path)
    else:
        with open(path, "rb") as file:
            data = file.read()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{_shown(path)}, line {line}: byte {data[error.start]:#04x} is not UTF-8; "
            "`iconv -t UTF-8` converts a file"
        ) from None


def _is_json(line: str) -> bool:
    import json

    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _value(path: str, number: int, line: str) -> Any:
    import json

    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{_shown(path)}, line {number}: not JSON: {error}") from None


def _shown(path: str) -> str:
    return "standard input" if path == STDIN else path


def _kind(value: Any) -> str:
    return {"dict": "object", "str": "text", "NoneType": "null"}.get(type(value).__name__, "number")
