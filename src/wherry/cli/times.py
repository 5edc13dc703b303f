"""Times as people write and read them: ISO times, ages such as ``10m``, and durations."""

from __future__ import annotations

import re
import time

from wherry.errors import UsageError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_AGE = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+\Z")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


def read_age(text: str) -> float:
    """Read a length of time.

    Args:
        text: such as ``90s``, ``10m``, ``2h``, ``1h30m``, ``7d`` or ``2w``.

    Returns:
        Seconds.

    Raises:
        UsageError: the text is not one.
    """
    word = text.strip().lower()
    if not _AGE.match(word):
        raise UsageError(f"{text!r} is not a length of time; write 90s, 10m, 2h, 1h30m, 7d or 2w")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(word))


def read_seconds(text: str) -> float:
    """Read seconds above 0, written as a number or as `read_age` takes them.

    Raises:
        UsageError: the text is neither.
    """
    try:
        seconds = float(text)
    except ValueError:
        return read_age(text)
    if not 0 < seconds < float("inf"):
        raise UsageError(f"expected seconds above 0, or a time such as 10m, not {text!r}")
    return seconds


def read_time(text: str, now: float | None = None) -> float:
    """Read a moment: an ISO time (local unless it has a zone), or an age to count back from now.

    Args:
        text: such as ``2026-01-31T08:00``, ``2026-01-31T08:00:00Z``, ``10m`` or ``2h``.
        now: seconds since the epoch; the clock's when ``None``.

    Returns:
        Seconds since the epoch.

    Raises:
        UsageError: the text is neither.
    """
    word = text.strip()
    if _AGE.match(word.lower()):
        return (time.time() if now is None else now) - read_age(word)
    from datetime import datetime

    # Python 3.10 does not know the Z of UTC.
    iso = word[:-1] + "+00:00" if word[-1:] in ("Z", "z") else word
    try:
        return datetime.fromisoformat(iso).timestamp()
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"{text!r} is not a time; write an ISO time such as 2026-01-31T08:00, "
            "or an age such as 10m or 2h"
        ) from None


def show_time(seconds: float | None) -> str:
    """Write a moment in local time, or ``-``."""
    if seconds is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def show_duration(seconds: float) -> str:
    """Write a length of time in at most two units.

    >>> show_duration(0.042), show_duration(75), show_duration(90061)
    ('0.04 s', '1m15s', '1d1h')
    """
    seconds = max(seconds, 0.0)
    if seconds < 10:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    left = int(seconds)
    if left < 60:
        return f"{left} s"
    for large, small in (("d", "h"), ("h", "m"), ("m", "s")):
        if left >= _UNITS[large]:
            whole, rest = divmod(left, int(_UNITS[large]))
            part = rest // int(_UNITS[small])
            return f"{whole}{large}{part}{small}" if part else f"{whole}{large}"
    return f"{left} s"
