"""A process that stands above the one which runs the call, and passes its output on.

What the call and all that it starts write to descriptors 1 and 2 goes on to the log at once, and
the end of it is kept for the outcome. It takes a process of its own: a thread would wait for the
interpreter's lock while the function writes with that lock held, and would lose what is in the
pipe when the function ends by a signal or `os._exit`. The upper process touches nothing of the
user's, so it also tells the store that the call is alive, however busy the function is.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import time

from .formats import STREAM_MOST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_READ = 1 << 16
_DRAIN_READS = 17
_LOOK_SECONDS = 0.05
_SIZES = struct.Struct("<QQ")
_PULSE = struct.Struct("<dQ")
_ASK = 0xFF
_BEAT = 0xFE
_PASSED_ON = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


class Tail:
    """The last bytes of what was written."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def add(self, data: bytes) -> None:
        """Take note of more."""
        self._kept += data
        if len(self._kept) > 2 * STREAM_MOST:
            del self._kept[:-STREAM_MOST]

    def bytes(self) -> bytes:
        """Return them, at most `STREAM_MOST`."""
        return bytes(self._kept[-STREAM_MOST:])


class Line:
    """The lower process's line to the upper one: two pipes, since `socket` takes 5 ms to load."""

    def __init__(self, asks: int, answers: int) -> None:
        self._asks = asks
        self._answers = answers
        self._same = _identity(asks), _identity(answers)

    def enter(self, phase: int) -> None:
        """Say which phase begins: its place in `formats.PHASES`."""
        self._say(bytes([phase]))

    def beat(self, seconds: float, child: int) -> None:
        """Ask for heartbeats of a child, so many seconds apart."""
        self._say(bytes([_BEAT]) + _PULSE.pack(seconds, child))

    def output(self) -> tuple[bytes, bytes]:
        """Return the end of what was written so far to stdout and stderr."""
        if not self._say(bytes([_ASK])):
            return b"", b""
        try:
            sizes = _SIZES.unpack(self._receive(_SIZES.size))
            return self._receive(sizes[0]), self._receive(sizes[1])
        except (OSError, struct.error):
            return b"", b""

    def _say(self, what: bytes) -> bool:
        # The function may have closed every descriptor there was, and opened files of its own.
        if (_identity(self._asks), _identity(self._answers)) != self._same:
            return False
        try:
            return os.write(self._asks, what) == len(what)
        except OSError:
            return False

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = os.read(self._answers, size - len(data))
            if not more:
                raise BrokenPipeError
            data += more
        return data


def keep(
    run: Callable[[Line], int],
    pulse: Callable[[float, int, Callable[[], int]], None] | None = None,
) -> int:
    """Run something in a process below this one, until it ends.

    Args:
        run: what to run there; returns the exit code.
        pulse: run in a thread up here when `Line.beat` asked for it; is given the seconds, the
            child, and a function that tells the phase.

    Returns:
        The exit code. When the process was ended by a signal, this one ends by the same signal.
    """
    pipes = [os.pipe() for _ in range(4)]
    (out, err, asks, answers) = pipes
    _flush()
    pid = os.fork()
    if not pid:
        os.close(asks[0])
        os.close(answers[1])
        _become([out, err])
        _leave(run, Line(asks[1], answers[0]))
    for descriptor in (out[1], err[1], asks[1], answers[0]):
        os.close(descriptor)
    keeper = _Keeper(pid, [out[0], err[0]], asks[0], answers[1], pulse)
    try:
        status = keeper.watch()
    finally:
        for descriptor in (out[0], err[0], asks[0], answers[1]):
            os.close(descriptor)
    if not os.WIFSIGNALED(status):
        return os.WEXITSTATUS(status)
    return _end_like(os.WTERMSIG(status))


class _Keeper:
    """Moves output on while a process lives."""

    def __init__(
        self,
        pid: int,
        read_ends: list[int],
        asks: int,
        answers: int,
        pulse: Callable[[float, int, Callable[[], int]], None] | None,
    ) -> None:
        self._pid = pid
        self._asks = asks
        self._answers = answers
        self._pulse = pulse
        self._targets = {read_end: target for target, read_end in enumerate(read_ends, 1)}
        self.tails = [Tail(), Tail()]
        self.phase = 0
        self._forward = _is_alone_addressed()
        self._told = 0
        for read_end in read_ends:
            os.set_blocking(read_end, False)

    def watch(self) -> int:
        """Pass everything on until the process has ended; return its wait status."""
        try:
            previous = {number: signal.signal(number, self._pass_on) for number in _PASSED_ON}
        except ValueError:  # Not the main thread, which has signals to itself.
            return self._loop()
        try:
            return self._loop()
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    def _loop(self) -> int:
        poll = select.poll()
        for read_end in self._targets:
            poll.register(read_end, select.POLLIN)
        poll.register(self._asks, select.POLLIN)
        ended = _open_pid(self._pid)
        if ended >= 0:
            poll.register(ended, select.POLLIN)
        while True:
            ready = {number for number, _ in poll.poll(None if ended >= 0 else 1e3 * _LOOK_SECONDS)}
            for read_end in sorted(ready & self._targets.keys()):
                if self._move(read_end) == 0:
                    poll.unregister(read_end)
                    del self._targets[read_end]
            if self._asks in ready and not self._answer():
                poll.unregister(self._asks)
            if ended < 0 or ended in ready:
                pid, status = os.waitpid(self._pid, os.WNOHANG)
                if pid:
                    self._drain()
                    if ended >= 0:
                        os.close(ended)
                    return status

    def _drain(self) -> None:
        # No more than a pipe holds: something that was left behind may go on writing for ever.
        for read_end in self._targets:
            for _ in range(_DRAIN_READS):
                if self._move(read_end) <= 0:
                    break

    def _move(self, read_end: int) -> int:
        """Pass on what there is; return its bytes, 0 at the end, -1 when there is nothing now."""
        try:
            data = os.read(read_end, _READ)
        except BlockingIOError:
            return -1
        target = self._targets[read_end]
        self.tails[target - 1].add(data)
        _write(target, data)
        return len(data)

    def _answer(self) -> bool:
        asked = os.read(self._asks, 1)
        if not asked:
            return False
        if asked[0] == _BEAT:
            self._start_pulse(*_PULSE.unpack(os.read(self._asks, _PULSE.size)))
            return True
        if asked[0] != _ASK:
            self.phase = asked[0]
            return True
        self._drain()
        out, err = (tail.bytes() for tail in self.tails)
        try:
            _write_all(self._answers, _SIZES.pack(len(out), len(err)) + out + err)
        except OSError:
            return False
        return True

    def _start_pulse(self, seconds: float, child: int) -> None:
        if self._pulse is not None:
            import threading

            wanted = (seconds, child, lambda: self.phase)
            threading.Thread(target=self._pulse, args=wanted, daemon=True).start()

    def _pass_on(self, number: int, _frame: object) -> None:
        # A supervisor on this machine signals every process of the tree itself. Others know of the
        # upper one only. Whoever insists is always heard.
        self._told += 1
        if self._forward or self._told > 1:
            try:
                os.kill(self._pid, number)
            except ProcessLookupError:
                pass


def _identity(descriptor: int) -> tuple[int, int]:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return -1, -1
    return found.st_dev, found.st_ino


def _is_alone_addressed() -> bool:
    return 1 in (os.getpid(), os.getppid()) or "AWS_BATCH_JOB_ID" in os.environ


def _become(pipes: list[tuple[int, int]]) -> None:
    """Make the pipes this process's output."""
    for target, (read_end, write_end) in enumerate(pipes, 1):
        os.close(read_end)
        os.dup2(write_end, target)
        os.close(write_end)
    import sys

    # What Python opened at its start may have been a file, with a place in it. Lines are seen when
    # they are written, and text that is no UTF-8 is no error.
    for target, name in ((1, "stdout"), (2, "stderr")):
        stream = open(target, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _leave(run: Callable[[Line], int], line: Line) -> None:
    """Run, and end the process as Python does, without tearing down what the kernel frees."""
    import atexit
    import faulthandler
    import sys
    import threading

    code = 1
    faulthandler.enable(2)
    clear = getattr(atexit, "_clear", None)
    if clear is not None:
        clear()  # What a process above this one had registered is not this one's.
    try:
        code = run(line)
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 — as Python ends
        atexit._run_exitfuncs()  # noqa: SLF001
    except BaseException:  # noqa: BLE001 — nothing is above this
        import traceback

        traceback.print_exc()
        code = code or 1
    finally:
        _flush()
        processes = sys.modules.get("multiprocessing.util")
        if processes is not None:
            try:
                processes._exit_function()  # noqa: SLF001 — its own registration was cleared
            except Exception:  # noqa: BLE001, S110 — the call is over, whatever it left behind
                pass
        os._exit(code & 0xFF)


def _flush() -> None:
    import sys

    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass


def _write(target: int, data: bytes) -> None:
    try:
        _write_all(target, data)
    except OSError:
        pass  # Nobody reads the log any more; the call goes on.


def _write_all(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(target, view) :]
        except BlockingIOError:
            select.select([], [target], [])


def _open_pid(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def _end_like(number: int) -> int:
    """End this process by a signal; return 128 more than it where that cannot be."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError):
        pass
    signal.signal(number, signal.SIG_DFL) if number not in (9, 19) else None
    _flush()
    os.kill(os.getpid(), number)
    time.sleep(0.1)
    return 128 + number
