"""The machine's cores and GPUs, counted in a way that no crash can spoil.

Each core and each GPU is a file; who holds its lock (flock(2)) has it, and the kernel lets go when
the holder dies. One more file, the gate, is held by whoever is next: a replica that asks for more
than is free keeps what it has gathered and the gate, so that smaller ones cannot overtake it for
ever.
"""

from __future__ import annotations

import errno
import fcntl
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_GATE = "gate"
_FREED = "freed"


class Grant:
    """Cores and GPUs that were given out; `release` gives them back.

    Args:
        folder: where the lock files are.
        held: descriptor of each lock, by the slot's name.
        gpus: the GPUs among them: slot → the GPU's name.
    """

    __slots__ = ("_folder", "_held", "gpus")

    def __init__(
        self, folder: str, held: dict[str, int] | None = None, gpus: dict[str, str] | None = None
    ) -> None:
        self._folder = folder
        self._held = held or {}
        self.gpus = gpus or {}

    def take(self, other: Grant, gpus: int) -> None:
        """Move so many GPUs from another grant into this one."""
        for slot in list(other.gpus)[:gpus]:
            self.gpus[slot] = other.gpus.pop(slot)
            self._held[slot] = other._held.pop(slot)

    def release(self) -> None:
        """Give everything back and wake those who wait; may be called many times."""
        if not self._held:
            return
        for fd in self._held.values():
            os.close(fd)
        self._held.clear()
        announce_freed(self._folder)


class Slots:
    """All cores and GPUs of this machine that this user's apps share.

    Args:
        folder: where the lock files are; made when missing, for this user alone.
        cores: how many cores there are.
        gpus: the names of the GPUs that may be given out.
    """

    def __init__(self, folder: str, cores: int, gpus: Sequence[str] = ()) -> None:
        self.folder = folder
        self._cores = [f"core-{index}" for index in range(cores)]
        self._gpus = {f"gpu-{_safe(name)}": name for name in gpus}
        self._gate = -1
        self._gathered: dict[str, int] = {}

    def open(self) -> None:
        """Make the folder, and refuse one that belongs to somebody else.

        Raises:
            PermissionError: another user made it.
        """
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        if os.stat(self.folder).st_uid != os.getuid():
            raise PermissionError(
                errno.EPERM, "belongs to another user; set WHERRY_RUNTIME_DIR", self.folder
            )

    def acquire(self, cores: int, gpus: int) -> Grant | None:
        """Take so many cores and GPUs, or none yet.

        Returns:
            What was given, or ``None`` when it has to wait; call again when a file in the folder
            was closed after writing (`announce_freed`), and every second or so, since a killed
            holder announces nothing.
        """
        if not cores and not gpus:
            return Grant(self.folder)
        if not self._pass_gate():
            return None
        self._gather(self._cores, cores)
        self._gather(list(self._gpus), gpus)
        if len(self._gathered) < cores + gpus:
            return None
        held, self._gathered = self._gathered, {}
        self._leave_gate()
        given = {name: self._gpus[name] for name in held if name in self._gpus}
        return Grant(self.folder, held, given)

    def give_up(self) -> None:
        """Stop waiting: let go of the gate and of what was gathered."""
        Grant(self.folder, self._gathered).release()
        self._gathered = {}
        self._leave_gate()

    def _gather(self, names: list[str], wanted: int) -> None:
        have = sum(name in self._gathered for name in names)
        for name in names:
            if have >= wanted:
                return
            if name not in self._gathered:
                fd = self._lock(name)
                if fd >= 0:
                    self._gathered[name] = fd
                    have += 1

    def _pass_gate(self) -> bool:
        if self._gate < 0:
            self._gate = self._lock(_GATE)
        return self._gate >= 0

    def _leave_gate(self) -> None:
        gate, self._gate = self._gate, -1
        if gate >= 0:
            Grant(self.folder, {_GATE: gate}).release()

    def _lock(self, name: str) -> int:
        """Return a descriptor that holds the lock, or -1 when somebody else has it."""
        path = f"{self.folder}/{name}"
        # Only for reading: closing a file that was open for writing is what wakes the others.
        fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return -1
        return fd


def announce_freed(folder: str) -> None:
    """Wake every supervisor that waits for a slot."""
    try:
        os.close(os.open(f"{folder}/{_FREED}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError:
        pass  # They look again by themselves, a second later.


def _safe(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)
