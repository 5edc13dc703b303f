"""The event log of one app: who may write it, and in which form.

One JSON object a line, written by the process that holds the file's lock (flock(2)): the
supervisor, or whoever settles the app after the supervisor was killed. What is known of an app is
a fold over these lines (see `record`).

    supervising  pid, boot, engine            the supervisor has taken over
    waiting      why                          nothing can start yet
    resumed                                   what was waited for is back
    started      role k n pid gpus container  an attempt began
    ended        role k n code sig state why  an attempt is over, its output complete
                 oom error
    restarting   why                          the whole app starts again
    cancelling   why
    detached                                  the app outlives its client
    finished     state why                    nothing follows

``role`` is a name, ``k`` the replica's index, ``n`` the attempt from 1; ``t`` is the time.
"""

from __future__ import annotations

import fcntl
import os
import time

# The C half of `json`: the whole of it costs half a start-up.
from _json import encode_basestring_ascii as _quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    Scalar = str | int | float | bool | None

RECORD_FILE = "app.json"
EVENTS_FILE = "events.jsonl"
CONTROL_FILE = "control"
READ = "read"
"""What a call says in the control pipe, with its pid and where to answer: read what I wrote."""

SUPERVISOR_LOG = "supervisor.log"


def encode(fields: dict[str, Scalar]) -> bytes:
    """Write a flat object as one JSON line."""
    pairs = (f"{_quoted(name)}:{_scalar(value)}" for name, value in fields.items())
    return ("{" + ",".join(pairs) + "}\n").encode("ascii")


def _scalar(value: Scalar) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


class EventLog:
    """Appends events, those of one moment together.

    What a full disk does not take is kept and tried again. The first few need no more room than
    the block that the file has already.

    Args:
        fd: the events file, whose lock the caller holds.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._waiting = b""
        self._drop_torn_line()

    def write(self, event: str, **fields: Scalar) -> None:
        """Note one event with the present time; `flush` appends it."""
        self._waiting += encode({"e": event, "t": round(time.time(), 4), **fields})

    def flush(self) -> bool:
        """Append what has been noted; tells whether all of it was taken."""
        try:
            while self._waiting:
                self._waiting = self._waiting[os.write(self._fd, self._waiting) :]
        except OSError:
            return False
        return True

    def sync(self) -> None:
        """Make sure that the events are on the disk."""
        self.flush()
        try:
            os.fdatasync(self._fd)
        except OSError:
            pass  # A file system that cannot promise it.

    def _drop_torn_line(self) -> None:
        """Cut off a last line that a power cut left unfinished."""
        size = os.fstat(self._fd).st_size
        if size:
            data = os.pread(self._fd, size, 0)
            os.ftruncate(self._fd, data.rfind(b"\n") + 1)


def log_prefix(log_dir: str, role: str, index: int, number: int) -> str:
    """Return what the paths of an attempt's files begin with: ``ROLE/K``, ``ROLE/K.attempt2`` …

    There is no folder for each replica: on many disks, making one takes as long as a process.
    """
    prefix = f"{log_dir}/{role}/{index}"
    return prefix if number == 1 else f"{prefix}.attempt{number}"


def lock(directory: str) -> int:
    """Become the writer of an app's events.

    Args:
        directory: the app's record.

    Returns:
        The events file, open for appending and locked, or -1 while somebody else writes it.
    """
    path = f"{directory}/{EVENTS_FILE}"
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return -1
    return fd
