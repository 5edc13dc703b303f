"""What goes to the terminal: colours where they are wanted, and no control codes of others.

Names, reasons and log lines are data that somebody else wrote; on a terminal their escape
sequences and control characters are removed.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from wherry.specs.states import AppState

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
_STATE_COLOURS = {
    "SUCCEEDED": "green",
    "FAILED": "red",
    "CANCELLED": "yellow",
    "RUNNING": "cyan",
    "PENDING": "blue",
    "SUBMITTED": "blue",
}
PREFIX_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")

# CSI; OSC and the other strings, which end at BEL, ST or, if neither comes, at the line's end;
# two-character escapes; C0 without tab, newline and return; C1 as UTF-8 writes it.
_CONTROLS = (
    rb"(?:\x1b\[|\xc2\x9b)[0-?]*[ -/]*[@-~]"
    rb"|(?:\x1b[\]PX^_]|\xc2[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\n]*(?:\x07|\x1b\\)?"
    rb"|\x1b[ -/]*[0-~]"
    rb"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
    rb"|\xc2[\x80-\x9f]"
)
# The beginnings of those, at the end of what has come so far.
_UNFINISHED = (
    rb"(?:\x1b\[|\xc2\x9b)[0-?]*[ -/]*\Z"
    rb"|(?:\x1b[\]PX^_]|\xc2[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\n]*\x1b?\Z"
    rb"|\x1b[ -/]*\Z"
    rb"|\xc2\Z"
)
_HELD = 4096


def is_terminal(file: TextIO) -> bool:
    """Tell whether a file is a terminal; a closed one is not."""
    try:
        return file.isatty()
    except ValueError:
        return False


def wants_colour(file: TextIO) -> bool:
    """Tell whether colours belong on a file.

    ``NO_COLOR`` forbids them, ``FORCE_COLOR`` asks for them; else a terminal has them unless
    ``TERM`` is ``dumb``.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal(file) and os.environ.get("TERM") != "dumb"


class Paint:
    """Puts colours around words, or does not.

    Args:
        file: where the words will go.
    """

    def __init__(self, file: TextIO) -> None:
        self.on = wants_colour(file)

    def __call__(self, text: str, colour: str) -> str:
        """Return the text in a colour of the table above."""
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if self.on and text else text

    def state(self, state: AppState, width: int = 0) -> str:
        """Return a state's name in its colour, padded to a width."""
        return self(state.name.ljust(width), _STATE_COLOURS.get(state.name, "bold"))


def one_line(text: str) -> str:
    """Make text of others fit on one line, without control characters."""
    return " ".join(clean(text).replace("\r", "\n").split("\n")).strip()


def clean(text: str) -> str:
    """Remove control characters from text of others; tabs and line ends stay."""
    if text.isprintable():
        return text
    import re

    data = text.encode(errors="surrogateescape")
    return re.sub(_CONTROLS, b"", data).decode(errors="replace")


class Cleaner:
    """Removes control sequences from a stream of bytes, also those that are cut in two."""

    def __init__(self) -> None:
        import re

        self._controls = re.compile(_CONTROLS)
        self._unfinished = re.compile(_UNFINISHED)
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return what may be shown of the bytes so far; an unfinished sequence is kept back."""
        data = self._held + data
        beginning = self._unfinished.search(data, max(0, len(data) - _HELD))
        cut = beginning.start() if beginning else len(data)
        self._held = data[cut:]
        return self._controls.sub(b"", data[:cut])

    def flush(self) -> bytes:
        """Return what is left at the end."""
        data, self._held = self._held, b""
        return self._controls.sub(b"", data)


def say(text: str) -> None:
    """Print a line for the person at the terminal, on stderr."""
    print(text, file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """Print a warning on stderr."""
    paint = Paint(sys.stderr)
    say(f"{paint('warning:', 'yellow')} {clean(text)}")


def print_json(value: object) -> None:
    """Print one JSON value, readable, on stdout; a list has an item on each line."""
    import json

    if isinstance(value, list) and value:
        # Indented, ten thousand apps would take three times as long.
        print("[", ",\n".join(map(json.dumps, value)), "]", sep="\n")
    else:
        print(json.dumps(value, indent=2))


def table(rows: list[tuple[str, ...]], paint: Paint, head: tuple[str, ...]) -> list[str]:
    """Lay out rows under a head, in columns as wide as they need; the last one runs free."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    form = "  ".join(f"{{:<{width}}}" for width in widths[:-1]) + "  {}"
    return [paint(form.format(*head), "bold"), *(form.format(*row) for row in rows)]
