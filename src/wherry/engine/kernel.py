"""The few Linux calls that Python has no name for: prctl and inotify.

Facts: prctl(2), inotify(7).
"""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SIGKILL = 9

IN_MODIFY = 0x2
IN_CLOSE_WRITE = 0x8
IN_MOVED_TO = 0x80
IN_CREATE = 0x100
_IN_NONBLOCK = os.O_NONBLOCK
_IN_CLOEXEC = os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)
_prctl = _libc.prctl
_prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4


def become_subreaper() -> None:
    """Make this process the new parent of every descendant whose own parent dies.

    Raises:
        OSError: the kernel refused.
    """
    _checked(_prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def die_with_parent() -> None:
    """Have this process killed as soon as the thread that forked it ends."""
    _checked(_prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0))


class Watch:
    """Tells when files were written to, as a descriptor that becomes readable.

    Args:
        paths: files or folders; one that does not exist is left out.
        mask: what counts, such as ``IN_MODIFY``.
    """

    def __init__(self, paths: Iterable[str], mask: int = IN_MODIFY) -> None:
        self.fd: int = _checked(_libc.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC))
        self._mask = mask
        for path in paths:
            self.add(path)

    def add(self, path: str, mask: int = 0) -> bool:
        """Watch one more path, for what counts there if that differs; tells whether it could be."""
        watch: int = _libc.inotify_add_watch(self.fd, os.fsencode(path), mask or self._mask)
        return watch >= 0

    def clear(self) -> None:
        """Forget what has been reported so far."""
        try:
            while os.read(self.fd, 65536):
                pass
        except BlockingIOError:
            pass

    def wait(self, seconds: float) -> bool:
        """Block until something was written, or for so many seconds; tells whether it was."""
        import select

        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        changed = bool(poll.poll(max(0, int(seconds * 1000))))
        if changed:
            self.clear()
        return changed

    def close(self) -> None:
        """Stop watching; may be called many times."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
