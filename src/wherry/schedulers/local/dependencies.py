"""Other apps of this machine that must have succeeded first."""

from __future__ import annotations

import fcntl
import os

from wherry.schedulers.local.events import EVENTS_FILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wherry.engine.kernel import Watch

_LAST_BYTES = 65536


class Dependencies:
    """Looks into the records of other apps.

    Args:
        apps: the handle and the record folder of each.

    Attributes:
        failed: why they can never be met; empty as long as they can.
    """

    def __init__(self, apps: list[tuple[str, str]]) -> None:
        self._waiting = list(apps)
        self.failed = ""

    def unmet(self) -> str:
        """Return the first that has not succeeded yet; empty when all have."""
        while self._waiting and not self.failed:
            handle, directory = self._waiting[0]
            state = _outcome(directory)
            if not state:
                return handle
            if state != "SUCCEEDED":
                self.failed = f"depends on {handle}, which {_WORDS.get(state, state)}"
                return ""
            self._waiting.pop(0)
        return ""

    def watched_by(self, watch: Watch) -> None:
        """Have changes of the apps that are waited for reported."""
        for _, directory in self._waiting:
            watch.add(f"{directory}/{EVENTS_FILE}")


_WORDS = {"FAILED": "failed", "CANCELLED": "was cancelled", "LOST": "lost its supervisor"}


def _outcome(directory: str) -> str:
    """Return how an app ended, or nothing while it goes on."""
    state = _finished_state(directory)
    if state or _is_supervised(directory):
        return state
    # It may have finished between the two looks.
    return _finished_state(directory) or "LOST"


def _finished_state(directory: str) -> str:
    try:
        fd = os.open(f"{directory}/{EVENTS_FILE}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        size = os.fstat(fd).st_size
        tail = os.pread(fd, _LAST_BYTES, max(0, size - _LAST_BYTES))
    finally:
        os.close(fd)
    for line in tail.splitlines():
        if line.startswith(b'{"e":"finished"') and line.endswith(b"}"):
            return line.partition(b'"state":"')[2].partition(b'"')[0].decode()
    return ""


def _is_supervised(directory: str) -> bool:
    try:
        fd = os.open(f"{directory}/{EVENTS_FILE}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(fd)
