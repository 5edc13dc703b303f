"""Where log bytes go: a file descriptor, with a name before each line where there are several
replicas, and without other people's control codes on a terminal.

Writing goes around Python's buffers, so that a thread that still reads a log when the program
ends cannot disturb its end.
"""

from __future__ import annotations

import os

from wherry.cli.output import PREFIX_COLOURS, Cleaner, Paint, is_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    Key = tuple[str, int]

_LINE_ENDS = (b"\n", b"\r")


class Sink:
    """Writes the log bytes of an app.

    Args:
        file: where to, such as ``sys.stdout``.
        prefixed: whether each line begins with its replica's name.
        raw: whether a terminal gets control sequences as they are.
        around: called before anything is written and after, with whether a line is complete.
    """

    def __init__(
        self,
        file: TextIO,
        *,
        prefixed: bool,
        raw: bool = False,
        around: tuple[Callable[[], None], Callable[[bool], None]] | None = None,
    ) -> None:
        file.flush()
        self._write = _writer(file)
        self._paint = Paint(file)
        self._cleans = is_terminal(file) and not raw
        self._cleaners: dict[Key, Cleaner] = {}
        self._prefixed = prefixed
        self._prefixes: dict[Key, bytes] = {}
        self._open: Key | None = None
        self._around = around

    def write(self, role: str, replica: int, data: bytes) -> None:
        """Write what one replica wrote.

        Raises:
            BrokenPipeError: nobody reads any more.
        """
        key = (role, replica)
        if self._cleans:
            data = self._cleaner(key).feed(data)
        if data:
            self._put(key, data)

    def finish(self) -> None:
        """Write what was held back for the rest of a control sequence."""
        for key, cleaner in self._cleaners.items():
            left = cleaner.flush()
            if left:
                self._put(key, left)
        if self._prefixed and self._open is not None:
            self._open = None
            self._emit(b"\n")

    def _put(self, key: Key, data: bytes) -> None:
        self._emit(self._with_prefixes(key, data) if self._prefixed else data)

    def _emit(self, data: bytes) -> None:
        if self._around is None:
            self._write(data)
            return
        before, after = self._around
        before()
        try:
            self._write(data)
        finally:
            after(data.endswith(b"\n"))

    def _cleaner(self, key: Key) -> Cleaner:
        found = self._cleaners.get(key)
        if found is None:
            found = self._cleaners[key] = Cleaner()
        return found

    def _with_prefixes(self, key: Key, data: bytes) -> bytes:
        """Put the replica's name before each line; a line of another that is cut short ends."""
        prefix = self._prefix(key)
        begins = b"" if self._open == key else prefix if self._open is None else b"\n" + prefix
        whole = data.endswith(_LINE_ENDS)
        body, end = (data[:-1], data[-1:]) if whole else (data, b"")
        self._open = None if whole else key
        return begins + body.replace(b"\n", b"\n" + prefix) + end

    def _prefix(self, key: Key) -> bytes:
        found = self._prefixes.get(key)
        if found is None:
            colour = PREFIX_COLOURS[key[1] % len(PREFIX_COLOURS)]
            found = (self._paint(f"{key[0]}/{key[1]}", colour) + " ").encode()
            self._prefixes[key] = found
        return found


def _writer(file: TextIO) -> Callable[[bytes], None]:
    """Return what writes bytes to a file; one that exists only in Python gets text."""
    try:
        fd = file.fileno()
    except (OSError, ValueError):
        return lambda data: _write_text(file, data)
    return lambda data: write_all(fd, data)


def _write_text(file: TextIO, data: bytes) -> None:
    file.write(data.decode(errors="replace"))


def write_all(fd: int, data: bytes) -> None:
    """Write every byte, also to a descriptor that somebody made non-blocking."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(fd, left) :]
        except BlockingIOError:
            import select

            select.select([], [fd], [])


def goes_to_same_place(one: TextIO, other: TextIO) -> bool:
    """Tell whether two files are the same terminal, pipe or file."""
    try:
        first, second = os.fstat(one.fileno()), os.fstat(other.fileno())
    except (OSError, ValueError):
        return False
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)
