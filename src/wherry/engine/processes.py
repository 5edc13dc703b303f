"""Who is whose child: the process table, trees in it, and signals to whole trees.

Facts: proc(5), ``/proc/PID/stat`` and ``/proc/PID/task/TID/children``.
"""

from __future__ import annotations

import os

from wherry.engine.signals import SIGKILL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Table:
    """A snapshot of all processes: who is whose child, and in which session.

    A process that is dead and not yet reaped (a zombie) is not in it: it runs nothing.
    """

    def __init__(self) -> None:
        self.children: dict[int, list[int]] = {}
        self.sessions: dict[int, int] = {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                self._add(int(name))

    def tree(self, *roots: int) -> list[int]:
        """Return the living among some processes and all their descendants, parents first."""
        found = [pid for pid in roots if pid in self.sessions]
        queue = list(roots)
        while queue:
            for child in self.children.get(queue.pop(), ()):
                queue.append(child)
                if child in self.sessions:
                    found.append(child)
        return found

    def _add(self, pid: int) -> None:
        fields = stat_fields(pid)
        if fields is None:
            return
        state, parent, session = fields
        self.children.setdefault(parent, []).append(pid)
        if state not in b"ZX":
            self.sessions[pid] = session


def stat_fields(pid: int) -> tuple[bytes, int, int] | None:
    """Return a process's state letter, parent and session; ``None`` when it is gone."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(fd, 1024)
    except OSError:
        return None
    finally:
        os.close(fd)
    # The name, in brackets, may itself hold spaces and brackets.
    fields = text[text.rfind(b")") + 2 :].split(None, 4)
    return fields[0], int(fields[1]), int(fields[3])


def own_children() -> list[int] | None:
    """List this process's children, zombies too; ``None`` where the kernel does not offer it."""
    pid = os.getpid()
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return None


def is_marked(pid: int, marker: bytes) -> bool:
    """Tell whether a process was started with this ``NAME=value`` in its environment."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return marker in file.read().split(b"\0")
    except OSError:
        return False


def is_inside(pid: int, folder: str) -> bool:
    """Tell whether a process's working directory is this folder or one in it; no folder: no."""
    try:
        where = os.readlink(f"/proc/{pid}/cwd") if folder else ""
    except OSError:
        return False
    return bool(folder) and f"{where}/".startswith(f"{folder}/")


def marked_processes(marker: bytes) -> list[int]:
    """List all processes that were started with this ``NAME=value`` in their environment."""
    own = os.getpid()
    names = (name for name in os.listdir("/proc") if name.isdigit())
    return [int(name) for name in names if int(name) != own and is_marked(int(name), marker)]


def send(pids: Iterable[int], signal_number: int) -> None:
    """Signal each of some processes; those that are gone or not ours are passed over."""
    for pid in pids:
        try:
            os.kill(pid, signal_number)
        except (ProcessLookupError, PermissionError):
            pass


def reap() -> list[tuple[int, int, float, int]]:
    """Reap every child that has died.

    Returns:
        For each its pid, wait status, CPU seconds and largest resident size (KiB).
    """
    dead: list[tuple[int, int, float, int]] = []
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return dead
        if pid == 0:
            return dead
        dead.append((pid, status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss))


def kill_descendants(seconds: float = 10.0) -> None:
    """Kill and reap every descendant of this process, which must be a subreaper.

    Args:
        seconds: how long to go on trying; a process inside a kernel call may not die at once.
    """
    import time

    end = time.monotonic() + seconds
    own = os.getpid()
    while True:
        living = Table().tree(own)[1:]
        send(living, SIGKILL)
        reap()
        if not living or time.monotonic() > end:
            return
        time.sleep(0.005)
