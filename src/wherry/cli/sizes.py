"""Amounts of memory as people write them."""

from __future__ import annotations

import re

from wherry.errors import UsageError, nearest

_MIB = {
    "": 1.0,
    "K": 1 / 1024,
    "KI": 1 / 1024,
    "KIB": 1 / 1024,
    "KB": 1e3 / 2**20,
    "M": 1.0,
    "MI": 1.0,
    "MIB": 1.0,
    "MB": 1e6 / 2**20,
    "G": 1024.0,
    "GI": 1024.0,
    "GIB": 1024.0,
    "GB": 1e9 / 2**20,
    "T": 1024.0**2,
    "TI": 1024.0**2,
    "TIB": 1024.0**2,
    "TB": 1e12 / 2**20,
}
_OFFERED = ("MiB", "GiB", "TiB")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)\Z")


def read_mib(text: str) -> int:
    """Read an amount of memory.

    Args:
        text: such as ``512MiB``, ``16GiB``, ``1.5TiB``; ``16G`` is 16 GiB, ``16GB`` is less, and
            a plain number is MiB, as in a job definition.

    Returns:
        Whole MiB.

    Raises:
        UsageError: the text is not one.

    >>> read_mib("16GiB"), read_mib("512"), read_mib("1GB")
    (16384, 512, 953)
    """
    found = _SIZE.match(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is not an amount of memory; write 512MiB or 16GiB")
    number, unit = found.groups()
    if unit.upper() not in _MIB:
        close = nearest(unit, _OFFERED) or _same_first_letter(unit)
        hint = f"did you mean {number + close!r}?" if close else "write 512MiB or 16GiB"
        raise UsageError(f"{unit!r} in {text!r} is not a unit of memory; {hint}")
    mib = int(float(number) * _MIB[unit.upper()])
    if mib < 1:
        raise UsageError(f"{text!r} is less than 1 MiB")
    return mib


def _same_first_letter(unit: str) -> str | None:
    return next((word for word in _OFFERED if word[0] == unit[0].upper()), None)
