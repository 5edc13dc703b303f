"""Lengths of time in words."""

from __future__ import annotations

_UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def span(seconds: float) -> str:
    """Write a length of time in its largest unit, and the next where that is worth it.

    >>> span(45), span(60), span(3000), span(5400), span(172800)
    ('45 seconds', '1 minute', '50 minutes', '1 hour 30 minutes', '2 days')
    """
    left = max(0, int(seconds))
    for at, (size, word) in enumerate(_UNITS):
        if left >= size:
            count, rest = divmod(left, size)
            text = _counted(count, word)
            if size >= 3600 and count < 10:
                smaller, name = _UNITS[at + 1]
                text += f" {_counted(rest // smaller, name)}" if rest >= smaller else ""
            return text
    return "0 seconds"


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
