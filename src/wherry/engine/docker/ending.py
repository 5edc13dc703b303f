"""How a container ended, or why it did not start, in the words and numbers of an attempt."""

from __future__ import annotations

from wherry.engine import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_SIGNALS_FROM, _SIGNALS_TO = 128, 128 + 64
_NOT_FOUND, _NOT_EXECUTABLE, _NOT_STARTED = 127, 126, 125
_BLOCK = 512
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))

_START_CODES = (
    ("executable file not found", _NOT_FOUND),
    ("no such file or directory: unknown", _NOT_FOUND),
    ("permission denied: unknown", _NOT_EXECUTABLE),
    ("exec format error", _NOT_EXECUTABLE),
)
_PREAMBLES = (
    "failed to create task for container: ",
    "failed to create shim task: ",
    "failed to create shim: ",
    "OCI runtime create failed: ",
    "runc create failed: ",
    "container_linux.go:",
    "unable to start container process: ",
    "starting container process caused: ",
)


class NotStartedError(Exception):
    """A container could not be made or started.

    Args:
        words: why.
        exit_code: what ``docker run`` would report: 127 for a program that is missing, 126 for
            one that cannot be executed, 125 otherwise.
        lost: whether that was because the Engine went away.
    """

    def __init__(self, words: str, exit_code: int | None = None, *, lost: bool = False) -> None:
        super().__init__(words)
        self.exit_code = exit_code
        self.lost = lost


class Ended:
    """How a container ended.

    Attributes:
        exit_code: the program's; ``None`` where nobody knows.
        signal: the number of the signal that ended it.
        why: what is in the way of calling it a success, in words; empty for a success.
        out_of_memory: whether the kernel ended it for want of memory.
        error: what the program left in its error file.
    """

    __slots__ = ("error", "exit_code", "out_of_memory", "signal", "why")

    def __init__(self, exit_code: int | None, why: str = "") -> None:
        self.exit_code = exit_code
        self.signal = signal_in(exit_code)
        self.why = why or words_for(exit_code)
        self.out_of_memory = False
        self.error: str | None = None


def ended(state: Mapping[str, Any], memory: int) -> Ended:
    """Read how a container ended.

    Args:
        state: ``State`` of its inspection.
        memory: its limit in bytes; 0 without one.
    """
    end = Ended(int(state.get("ExitCode") or 0))
    end.out_of_memory = bool(state.get("OOMKilled")) and end.exit_code != 0
    if end.out_of_memory:
        limit = f": the limit is {size(memory)}" if memory else ""
        end.why = f"out of memory{limit}"
    elif state.get("Error"):
        end.why = f"{end.why or 'failed'}: {state['Error']}"
    return end


def words_for(exit_code: int | None) -> str:
    """Say what an exit code means; nothing for success."""
    number = signal_in(exit_code)
    if number is not None:
        return f"killed by {signals.name_of(number)}"
    return f"exited with code {exit_code}" if exit_code else ""


def signal_in(exit_code: int | None) -> int | None:
    """Return the signal that an exit code stands for, or ``None``."""
    if exit_code is None or not _SIGNALS_FROM < exit_code <= _SIGNALS_TO:
        return None
    number = exit_code - _SIGNALS_FROM
    return number if signals.name_of(number).startswith("SIG") else None


def not_started(words: str, *, lost: bool = False) -> NotStartedError:
    """Word an Engine's refusal to make or start a container."""
    code = next((code for part, code in _START_CODES if part in words), _NOT_STARTED)
    return NotStartedError(_plain(words), None if lost else code, lost=lost)


def seconds(moment: str) -> float:
    """Read a time as the Engine writes it.

    >>> seconds("1970-01-01T00:01:00.500000000Z"), seconds("1970-01-01T01:01:00+01:00")
    (60.5, 60.0)
    """
    from datetime import datetime

    day_and_time, zone = moment[:19], moment[19:].lstrip(".0123456789")
    fraction = moment[19 : len(moment) - len(zone)]
    zone = "+00:00" if zone in ("Z", "") else zone
    return datetime.fromisoformat(day_and_time + zone).timestamp() + float(fraction or 0)


def first_file(archive: bytes, most: int) -> str | None:
    """Return the first file of a tar archive as text, cut off after so many bytes.

    Fact: https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html, "ustar".
    """
    if len(archive) < _BLOCK or archive[156:157] not in (b"0", b"\0"):
        return None
    length = int(archive[124:136].strip(b"\0 ") or b"0", 8)
    return archive[_BLOCK : _BLOCK + min(length, most)].decode(errors="replace")


def size(count: int) -> str:
    """Write a number of bytes.

    >>> size(64 << 20), size(1536 << 20)
    ('64 MiB', '1.5 GiB')
    """
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count} B"


def _plain(words: str) -> str:
    """Leave out which parts of the Engine passed the message on."""
    for preamble in _PREAMBLES:
        _, found, rest = words.rpartition(preamble)
        if found:
            words = rest
            if preamble == "container_linux.go:":
                words = words.partition(": ")[2]
    return words.removesuffix(": unknown").strip()
