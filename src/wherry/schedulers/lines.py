"""Lines of a log as an iterator that can seek."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import overload


class LogLines(Iterator[str]):
    """Lines of a log, one after the other; an index seeks.

    ``lines[50]`` is the line with that number, counted from 0, and the iteration goes on behind
    it. A slice is a list.

    Args:
        start: begins the iteration anew.
    """

    def __init__(self, start: Callable[[], Iterator[str]]) -> None:
        self._start = start
        self._lines = start()
        self._next = 0

    def __iter__(self) -> LogLines:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self._next += 1
        return line

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            begin, end, step = index.start or 0, index.stop, index.step or 1
            if begin < 0 or (end is not None and end < 0) or step < 1:
                raise IndexError("a log is read forwards: indices count from 0")
            self._seek(begin)
            chosen: list[str] = []
            while end is None or self._next < end:
                line = next(self, None)
                if line is None:
                    break
                chosen.append(line)
            return chosen[::step]
        if index < 0:
            raise IndexError("a log is read forwards: indices count from 0")
        self._seek(index)
        try:
            return next(self)
        except StopIteration:
            raise IndexError(f"the log has {self._next} lines, not {index + 1}") from None

    def _seek(self, index: int) -> None:
        if index < self._next:
            self._lines = self._start()
            self._next = 0
        while self._next < index and next(self, None) is not None:
            pass
