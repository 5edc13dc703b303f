"""What an emulator leaves in the runtime folder, so that other terminals find it.

One emulator at a time is known there; `wherry emulator stop`, `status` and `env` mean that one. A
record counts only while its process lives: a process is known by its id, when it was started and
which boot of the machine it belongs to, since ids are given out again. Emulators that Python code
or a test starts for itself leave no record.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields

from wherry.emulator.settings import DEFAULT_REGION
from wherry.engine.processes import stat_fields
from wherry.errors import StateError
from wherry.home import runtime_dir


@dataclass(frozen=True)
class Record:
    """One emulator that runs.

    Attributes:
        pid: its process.
        started: when that process started, in clock ticks since the machine's start.
        boot: which start of the machine that was.
        url: where it answers; empty while it is starting.
        engine: what runs its jobs, ``docker`` or ``process``.
        engine_reason: why that one.
        region: for requests that name none.
        state: the folder where it keeps its state; empty for memory.
        log: the file where it writes what it has to say; empty in the foreground.
    """

    pid: int
    started: int
    boot: str
    url: str = ""
    engine: str = ""
    engine_reason: str = ""
    region: str = DEFAULT_REGION
    state: str = ""
    log: str = ""

    @property
    def alive(self) -> bool:
        """Whether the process is still there."""
        return self.boot == boot_id() and self.started == started_at(self.pid)


def own_record() -> Record:
    """Return what is known of this process before it serves."""
    pid = os.getpid()
    return Record(pid, started_at(pid) or 0, boot_id())


def folder() -> str:
    """Return the folder of records and logs, and make it if it is not there."""
    path = os.path.join(runtime_dir(), "emulator")
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


def find() -> Record | None:
    """Return the emulator that runs, or ``None``; the record of a dead one is removed."""
    try:
        path = _path()
        if not os.path.exists(path):
            return None
        with _lock():
            record = _read(path)
            if record is not None and record.alive:
                return record
            _remove(path)
    except PermissionError:
        return None
    return None


def claim(record: Record) -> None:
    """Become the emulator that other terminals mean.

    Raises:
        StateError: there is one already; the message names it.
    """
    path = os.path.join(folder(), "running.json")
    with _lock():
        other = _read(path)
        if other is not None and other.alive and other.pid != record.pid:
            raise StateError(already(other))
        _write(path, record)


def release(record: Record) -> None:
    """Remove a process's record, if it is still there."""
    path = _path()
    if not os.path.exists(path):
        return
    with _lock():
        other = _read(path)
        if other is not None and (other.pid, other.started) == (record.pid, record.started):
            _remove(path)


def already(other: Record) -> str:
    """Word the refusal to start a second emulator."""
    if not other.url:
        return f"an emulator is starting already (process {other.pid})"
    return (
        f"an emulator runs already at {other.url} (process {other.pid}); use it with "
        '`eval "$(wherry emulator env)"`, or end it with `wherry emulator stop`'
    )


def end(record: Record, signal_number: int, patience: float) -> bool:
    """Send a signal to an emulator and wait for its end.

    Returns:
        Whether it is over.
    """
    try:
        handle = os.pidfd_open(record.pid)
    except ProcessLookupError:
        return True
    try:
        # Held open, the handle means the same process for ever; so look only now.
        if not record.alive:
            return True
        _send(handle, signal_number)
        return bool(select.select([handle], [], [], patience)[0])
    finally:
        os.close(handle)


def started_at(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; ``None`` for a dead one.

    Field 22 of ``/proc/PID/stat`` (proc(5)).
    """
    found = stat_fields(pid)
    if found is None or found[0] in b"ZX":
        return None
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    return int(text[text.rfind(b")") + 2 :].split()[19])


def boot_id() -> str:
    """Return the kernel's name for this boot; empty where it has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _send(handle: int, signal_number: int) -> None:
    try:
        signal.pidfd_send_signal(handle, signal_number)
    except ProcessLookupError:
        return


def _path() -> str:
    return os.path.join(runtime_dir(), "emulator", "running.json")


def _read(path: str) -> Record | None:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        known = {field.name for field in fields(Record)}
        return Record(**{name: value for name, value in found.items() if name in known})
    except (OSError, ValueError, TypeError, AttributeError):
        return None  # absent, or written by something else: nobody to talk to


def _write(path: str, record: Record) -> None:
    beside = f"{path}.{record.pid}"
    with open(beside, "w", encoding="utf-8") as file:
        json.dump(asdict(record), file)
    os.replace(beside, path)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


@contextmanager
def _lock() -> Iterator[None]:
    """Let one process at a time judge and change the record."""
    with open(os.path.join(folder(), "lock"), "a", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
