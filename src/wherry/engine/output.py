"""What a program writes: pipes that keep the order of both streams, and the files they end in.

**Order.** Two pipes have no common clock. Each starts with room for one write of at most 4,096
bytes, kept apart from the next one (a packet: ``O_DIRECT``, pipe(2)); a program that writes to one
stream and then to the other leaves at most one write in each, and edge-triggered epoll reports
them in the order in which they came. A stream that writes many times in a row gets a larger pipe,
so that it need not wait for the reader each time; only a line on the other stream in the middle of
such a burst can then be a few writes early or late. (So can one that a program writes through
``/dev/stdout``, opened anew: that is no packet.)

**Files.** ``combined.log``, ``stdout.log`` and ``stderr.log`` hold the bytes as they were written.
``timeline`` holds, a hundredth of a second apart at least, the time and the length that the three
files had then: four little-endian 8-byte fields (one float, three integers). Files are made when
there is something to put into them; a program that wrote all it had to say right after its start
has no timeline.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PACKET = 4096
TIMELINE_RECORD = struct.Struct("<dQQQ")
COMBINED, STDOUT, STDERR = "combined.log", "stdout.log", "stderr.log"
TIMELINE = "timeline"
ERROR_FILE = "error.json"

_F_SETPIPE_SZ = 1031
_BURST = 32
_BURST_BYTES = 1 << 20
_ROUND = 256
_TICK = 0.01
_AT_ONCE = 0.1
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))


class OpenFiles:
    """Files open for appending, at most so many at a time.

    A hundred replicas have three hundred log files; a descriptor for each would be too many.
    """

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._fds: dict[str, int] = {}

    def fd(self, path: str) -> int:
        """Return a descriptor that appends to a file; it may be closed by the next call."""
        fd = self._fds.pop(path, None)
        if fd is None:
            while len(self._fds) >= self._most:
                self.close(next(iter(self._fds)))
            fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._fds[path] = fd
        return fd

    def close(self, path: str) -> None:
        """Close one file, if it is open."""
        fd = self._fds.pop(path, None)
        if fd is not None:
            os.close(fd)


class AttemptLog:
    """The log files of one attempt.

    Bytes that a full disk does not take are kept and tried again: see `blocked` and `retry`.

    Args:
        prefix: what the paths of its files begin with.
        files: where descriptors come from.
    """

    def __init__(self, prefix: str, files: OpenFiles) -> None:
        self._files = files
        self._paths = {name: f"{prefix}.{name}" for name in (COMBINED, STDOUT, STDERR, TIMELINE)}
        self._lengths = {COMBINED: 0, STDOUT: 0, STDERR: 0}
        self._pending: dict[str, bytes] = {}
        self._started = time.time()
        self._last_tick = 0.0
        self._first_tick = b""
        self._discarding = False
        self.problem = ""

    @property
    def blocked(self) -> bool:
        """Whether bytes are waiting for room on the disk."""
        return bool(self._pending)

    def write(self, stream: str, chunks: list[bytes]) -> None:
        """Append what was read from one stream to its file and to the combined one."""
        if self._discarding:
            return
        self._tick()
        for name in (COMBINED, stream):
            self._put(name, chunks)
            self._lengths[name] += sum(map(len, chunks))

    def retry(self) -> bool:
        """Try again to write what is waiting; tells whether all of it was written."""
        for name in list(self._pending):
            self._put(name, [])
        return not self._pending

    def discard(self) -> None:
        """Give up on what is waiting and on all that follows."""
        self._pending.clear()
        self._discarding = True

    def close(self) -> None:
        """Close the files."""
        for path in self._paths.values():
            self._files.close(path)

    def _tick(self) -> None:
        # The clock of the machine may be set back; the timeline must not be.
        now = max(time.time(), self._last_tick)
        if now - self._last_tick >= _TICK:
            lengths = self._lengths
            record = TIMELINE_RECORD.pack(now, lengths[COMBINED], lengths[STDOUT], lengths[STDERR])
            if not self._last_tick and now - self._started < _AT_ONCE:
                self._first_tick = record
            else:
                self._put(TIMELINE, [self._first_tick, record])
                self._first_tick = b""
            self._last_tick = now

    def _put(self, name: str, chunks: list[bytes]) -> None:
        waiting = self._pending.pop(name, b"")
        if waiting:
            chunks = [waiting, *chunks]
        try:
            while chunks:
                fd = self._files.fd(self._paths[name])
                taken = os.writev(fd, chunks)
                chunks = _rest(chunks, taken)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            self.problem = f"{os.strerror(error.errno or 0)}: {self._paths[name]}"
            self._pending[name] = b"".join(chunks)


def _rest(chunks: list[bytes], taken: int) -> list[bytes]:
    """Return what is left of some chunks after so many bytes were taken."""
    total = sum(map(len, chunks))
    return [] if taken >= total else [b"".join(chunks)[taken:]]


class OutputPipe:
    """One stream of one program, read in the order in which it was written.

    Args:
        deliver: called with the chunks of each round.
    """

    def __init__(self, deliver: Callable[[OutputPipe, list[bytes]], None]) -> None:
        self.read_end, self.write_end = os.pipe2(os.O_CLOEXEC | os.O_DIRECT)
        fcntl.fcntl(self.read_end, _F_SETPIPE_SZ, PACKET)
        os.set_blocking(self.read_end, False)
        self._deliver = deliver
        self._streak = 0
        self._bursting = False
        self.at_end = False

    def started(self) -> None:
        """Close our copy of the end that the program writes to."""
        os.close(self.write_end)
        self.write_end = -1

    def interrupt(self) -> None:
        """Note that the other stream has written: this one is no burst any more."""
        self._streak = 0
        if self._bursting:
            try:
                fcntl.fcntl(self.read_end, _F_SETPIPE_SZ, PACKET)
            except OSError:
                return  # Still holds more than one write; the next interruption tries again.
            self._bursting = False

    def read(self, *, all_of_it: bool = False) -> bool:
        """Read one round: one write, or in a burst and at the end many.

        Returns:
            Whether more may be waiting, which nothing will announce.
        """
        most = _ROUND if all_of_it or self._bursting else 1
        chunks: list[bytes] = []
        empty = False
        while not empty and len(chunks) < most:
            try:
                data = os.read(self.read_end, PACKET)
            except BlockingIOError:
                empty = True
            else:
                self.at_end = empty = not data
                if data:
                    chunks.append(data)
        if chunks:
            self._count(len(chunks))
            self._deliver(self, chunks)
        return not empty and most > 1

    def close(self) -> None:
        """Close what is open."""
        for fd in (self.read_end, self.write_end):
            if fd >= 0:
                os.close(fd)
        self.read_end = self.write_end = -1

    def _count(self, writes: int) -> None:
        self._streak += writes
        if self._streak >= _BURST and not self._bursting:
            self._bursting = True
            try:
                fcntl.fcntl(self.read_end, _F_SETPIPE_SZ, _BURST_BYTES)
            except OSError:
                # Over the user's allowance of pipe memory; 16 pages are always granted.
                fcntl.fcntl(self.read_end, _F_SETPIPE_SZ, 16 * PACKET)
