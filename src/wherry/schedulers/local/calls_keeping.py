"""What stands in for the worker's upper process (`wherry.worker.keeping`) under a supervisor.

The supervisor reads what a call writes, and sees how it ends; a second process above each call
would do the same again, and costs as much as the call itself. The end of the output that goes into
the outcome is read back from the log, after the supervisor has said that all of it is there.
"""

from __future__ import annotations

import os
import select
import sys

from wherry.schedulers.local.events import READ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MOST = 1 << 20
_PATIENCE_MS = 2_000
_ERROR_FILE = ".error.json"


class _Line:
    """What `wherry.worker.keeping.Line` is for a call that nobody but the supervisor watches."""

    def __init__(self, control: str) -> None:
        self._control = control
        self._before = _written()

    def enter(self, phase: int) -> None:
        """Say which phase begins; the supervisor does not ask."""

    def beat(self, seconds: float, child: int) -> None:
        """Ask for heartbeats; the supervisor is the call's parent, and needs none."""

    def output(self) -> tuple[bytes, bytes]:
        """Return the end of what was written so far to stdout and stderr."""
        prefix = os.environ.get("WHERRY_ERROR_FILE", "").removesuffix(_ERROR_FILE)
        if not prefix or self._before == _written() != -1:
            return b"", b""
        _have_it_logged(self._control, f"{prefix}.logged")
        return _tail(f"{prefix}.stdout.log"), _tail(f"{prefix}.stderr.log")


def keeper(control: str) -> Callable[..., int]:
    """Return what runs something in this very process; see `wherry.worker.keeping.keep`.

    Args:
        control: the path of the supervisor's control pipe.
    """

    def keep(run: Callable[[Any], int], *_: object) -> int:
        for stream in (sys.stdout, sys.stderr):
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                reconfigure(line_buffering=True, errors="backslashreplace")
        return run(_Line(control))

    return keep


def _written() -> int:
    """Count the bytes that this process and its ended children wrote anywhere; -1: not known."""
    try:
        with open("/proc/self/io", "rb") as file:
            return int(file.read().split(b"wchar: ", 1)[1].split(None, 1)[0])
    except (OSError, IndexError, ValueError):
        return -1


def _have_it_logged(control: str, path: str) -> None:
    """Ask the supervisor to read all that was written so far, and wait until it is in the log.

    Args:
        control: the supervisor's control pipe.
        path: where a pipe for its answer can be made.
    """
    answer = asked = -1
    try:
        os.mkfifo(path, 0o600)
        answer = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        asked = os.open(control, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.write(asked, f"{READ}\t{os.getpid()} {path}\n".encode())
        poll = select.poll()
        poll.register(answer, select.POLLIN)
        poll.poll(_PATIENCE_MS)
    except OSError:
        pass  # There is no room, or no supervisor any more: what is in the log is what there is.
    finally:
        for fd in (answer, asked):
            if fd >= 0:
                os.close(fd)
        try:
            os.unlink(path)
        except OSError:
            pass


def _tail(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _MOST))
            return file.read(_MOST)
    except OSError:
        return b""
