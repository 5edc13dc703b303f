"""Mark a forked process in the process table, as programs are marked by their environment.

``/proc/PID/environ`` shows the memory in which the kernel laid the environment when the process's
program was started; a fork that starts no program still shows its parent's. The host is started
with one long variable more, and a forked process writes its own marks over it.

Fact: proc(5), ``/proc/PID/environ``.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

ROOM_ENV = "WHERRY_MARKS"
ROOM = 1024
"""How many bytes the marks of a process may have, with a zero byte after each."""

_place = [0, 0]


def find_room() -> None:
    """Find the memory of the long variable; call it before anything changes the environment."""
    import ctypes

    name = ROOM_ENV.encode() + b"="
    entries = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    index = 0
    while address := entries[index]:
        text = ctypes.string_at(address)
        if text.startswith(name):
            _place[:] = address, len(text)
            return
        index += 1


def fits(marks: Iterable[str]) -> bool:
    """Tell whether some marks find room."""
    return sum(len(os.fsencode(mark)) + 1 for mark in marks) <= ROOM


def mark(marks: Iterable[str]) -> None:
    """Show some ``NAME=value`` in this process's ``/proc/PID/environ``."""
    import ctypes

    address, size = _place
    text = b"".join(os.fsencode(word) + b"\0" for word in marks)
    if address and len(text) <= size:
        # Filled up with one more variable: two zero bytes in a row end the list for some readers.
        rest = size - len(text)
        ctypes.memmove(address, text + (b"_=" + b"." * rest)[:rest], size)
