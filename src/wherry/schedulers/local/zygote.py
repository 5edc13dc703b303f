"""A process that has loaded a call's function once, and is forked for each attempt.

It is a child of the supervisor. Asked for an attempt, it forks; it waits for what it has forked,
and tells the supervisor how each attempt ended. What an attempt leaves behind becomes the
supervisor's child, its nearest subreaper. The attempt tells the supervisor its pid and runs nothing
before the supervisor has answered: what nobody waits for any more ends by itself, so that no call
runs twice. Attempts die with the zygote, as it does with the supervisor.

What a module does when it is imported may not survive a fork, or not be right for every replica:
threads, child processes, open files, variables that differ between replicas. A zygote that sees
such things leaves, and the attempts load the function by themselves.
"""

from __future__ import annotations

import _socket as kernel_socket
import marshal
import os
import sys

from wherry.engine import kernel, processes, signals
from wherry.engine.spawn import Command, Forked, Spawned, StartError
from wherry.schedulers.local import calls_fresh, calls_mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from wherry.engine.attempt import Family
    from wherry.engine.loop import Loop
    from wherry.schedulers.local.calls import CallCommand

    Streams = tuple[bytes, bytes]

VARYING = frozenset(
    {
        "WHERRY_REPLICA_ID",
        "WHERRY_ATTEMPT",
        "WHERRY_ATTEMPT_ID",
        "WHERRY_ERROR_FILE",
        "TORCHELASTIC_ERROR_FILE",
    }
)
"""Variables that differ between the attempts of one role."""

_READY = b"ready"
_GO = b"go"
_PATIENCE_MS = 10_000
_MESSAGE_MOST = 1 << 17
_SAID_MOST = 1 << 16
_WORD_MOST = 256
_HANDED = 4
_FORK_SAFE = (b"openblas", b"libmkl")


class Zygote:
    """The supervisor's end.

    Args:
        loop: what calls back.
        family: the supervisor's processes.
        command: the first attempt that it is for.

    Attributes:
        ready: whether it can be asked.

    Raises:
        StartError: there can be no more processes.
    """

    def __init__(self, loop: Loop, family: Family, command: CallCommand) -> None:
        self.ready = False
        self._under_way: set[int] = set()
        self._loop = loop
        self._family = family
        # Numbers, not objects: what is forked here leaves these frames, and frees what is in them.
        self._line, theirs, null = _line_and_null()
        try:
            spawned = Spawned(_ZygoteCommand(command, theirs), null, null, null)
        except StartError:
            for fd in (self._line, theirs, null):
                os.close(fd)
            raise
        for fd in (theirs, null):
            os.close(fd)
        self._pid = spawned.pid
        # It shares this process's locks until it has closed its copies.
        spawned.confirm()
        family.staff.add(self._pid)
        loop.add(self._line, lambda _: self._on_word())

    def ask(self, command: CallCommand, stdin: int, stdout: int, stderr: int) -> Spawned | None:
        """Have an attempt forked; ``None`` when it cannot do that any more."""
        line = kernel_socket.socket(fileno=self._line)
        try:
            asked = _Asked(line, command, (stdin, stdout, stderr))
            self._under_way.add(asked.pid)
            return asked
        except OSError:
            self.close()
            return None
        finally:
            line.detach()

    def close(self) -> None:
        """End it; may be called many times."""
        self.ready = False
        pid, self._pid = self._pid, 0
        if not pid:
            return
        self._loop.remove(self._line)
        processes.send([pid], signals.SIGKILL)
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            pass  # It had ended, and was reaped with the others.
        self._family.staff.discard(pid)
        while word := self._word():
            self._later(word)
        os.close(self._line)
        # The others were killed with it, and are this process's to reap; but for one that it had
        # reaped and not told of.
        for lost in self._under_way - set(processes.own_children() or self._under_way):
            self._later(marshal.dumps((lost, signals.SIGKILL, 0.0, 0)))
        self._under_way.clear()

    def _on_word(self) -> None:
        word = self._word()
        if word == _READY:
            self.ready = True
        elif word:
            self._ended(word)
        else:
            self.close()

    def _word(self) -> bytes:
        try:
            return os.read(self._line, _WORD_MOST)
        except OSError:
            return b""

    def _later(self, word: bytes) -> None:
        """Take note of an end from the loop: its attempt may be about to be confirmed."""
        if word != _READY:
            self._loop.call_later(0, lambda: self._ended(word))

    def _ended(self, word: bytes) -> None:
        pid, status, cpu_seconds, max_rss_kib = marshal.loads(word)  # noqa: S302 — a fork of ours
        self._under_way.discard(pid)
        attempt = self._family.programs.get(pid)
        if attempt is not None:
            attempt.program_ended(status, cpu_seconds, max_rss_kib)
            attempt.settle()


class _Asked(Spawned):
    """An attempt that a zygote forks; see `Spawned`."""

    __slots__ = ("_line",)

    def __init__(
        self, zygote: kernel_socket.socket, command: CallCommand, streams: tuple[int, int, int]
    ) -> None:
        ours, theirs = kernel_socket.socketpair(kernel_socket.AF_UNIX, kernel_socket.SOCK_SEQPACKET)
        try:
            varying = {name: command.env[name] for name in VARYING if name in command.env}
            request = marshal.dumps((command.index, command.number, command.argv, varying))
            handed = _descriptors(*streams, theirs.fileno())
            zygote.sendmsg([request], [handed], kernel_socket.MSG_NOSIGNAL)
            theirs.close()
            self.pid = int(_received(ours) or b"0")
            if not self.pid:
                raise OSError("the zygote is gone")
        except BaseException:
            theirs.close()
            ours.close()
            raise
        self._line = ours

    def confirm(self) -> None:
        """Let the attempt go, now that somebody waits for it."""
        try:
            self._line.send(_GO, kernel_socket.MSG_NOSIGNAL)
            self._line.recv(1)
        except OSError:
            pass  # It was killed already; its end says how.
        self._line.close()


class _ZygoteCommand(Command):
    """What the zygote is, as a fork of the supervisor."""

    __slots__ = ("_call", "_control", "_socket")

    def __init__(self, command: CallCommand, socket: int) -> None:
        env = {name: value for name, value in command.env.items() if name not in VARYING}
        super().__init__(command.program, command.argv, env, command.cwd, command.limits)
        self._call = command.call
        self._control = command.nursery.control
        self._socket = socket

    def enter(self, report: int) -> NoReturn:
        """Leave what belongs to the supervisor, and serve at the bottom of the stack."""
        fd, url, control = self._socket, self._call["url"], self._control
        calls_fresh.close_others(report, fd)
        calls_fresh.settle_in(self.env, self.argv, self._call["syspath"])
        os.close(report)
        raise Forked(lambda: _serve(fd, url, control))


# From here on: inside the zygote.


def _serve(fd: int, url: str, control: str) -> NoReturn:
    code = 1
    try:
        _serve_until_closed(kernel_socket.socket(fileno=fd), url, control)
        code = 0
    except Forked as forked:
        work = forked.work
    except BaseException:  # noqa: BLE001 — the attempts find out by themselves, and say so
        os._exit(code)
    else:
        os._exit(code)
    work()


def _serve_until_closed(line: kernel_socket.socket, url: str, control: str) -> None:
    import gc
    import select

    os.close(os.pidfd_open(os.getpid()))  # Where the kernel has none, it is done without zygotes.
    loaded, said = _load(url, line.fileno())
    call = (url, loaded, control)
    gc.collect()
    gc.freeze()
    line.send(_READY)
    poll = select.poll()
    poll.register(line, select.POLLIN)
    zygote = os.getpid()
    attempts: dict[int, int] = {}
    while True:
        ready = [fd for fd, _ in poll.poll()]
        for watched in ready:
            if watched in attempts:
                poll.unregister(watched)
                os.close(watched)
                line.send(_end_of(attempts.pop(watched)))
        if line.fileno() not in ready:
            continue
        request, descriptors = _next_request(line)
        if not request:
            return
        pid = os.fork()
        if pid == 0:
            _be_attempt(marshal.loads(request), descriptors, call, said, zygote)  # noqa: S302
        for fd in descriptors:
            os.close(fd)
        watched = os.pidfd_open(pid)
        attempts[watched] = pid
        poll.register(watched, select.POLLIN)


def _next_request(line: kernel_socket.socket) -> tuple[bytes, list[int]]:
    request, ancillary, _, _ = line.recvmsg(_MESSAGE_MOST, kernel_socket.CMSG_SPACE(_HANDED * 4))
    return request, _taken(ancillary)


def _end_of(pid: int) -> bytes:
    """Reap an attempt; returns the word for the supervisor."""
    _, status, usage = os.wait4(pid, 0)
    return marshal.dumps((pid, status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss))


def _load(url: str, line: int) -> tuple[Any, Streams]:
    """Load the function; returns it, and what its modules wrote meanwhile.

    Raises:
        BaseException: it does not load, or cannot be forked once it has.
    """
    files = [os.memfd_create(name) for name in ("stdout", "stderr")]
    for target, file in enumerate(files, start=1):
        os.dup2(file, target)
    expected = {0, 1, 2, line, *files}
    asked: set[str] = set()
    _watch_environ(asked)
    from wherry.worker import context, running
    from wherry.worker.objects import Objects

    root, job = running.split_url(url)
    objects = Objects(root)
    call = running.fetch_call(objects, job)
    if call.get("code") or call.get("deps"):
        raise RuntimeError("its modules are not here yet")
    context.set_up(call, 0)
    loaded = running.load_function(call, objects)
    _unwatch_environ()
    sys.stdout.flush()
    sys.stderr.flush()
    trouble = _unfit(expected, asked)
    said = tuple(os.pread(file, _SAID_MOST + 1, 0) for file in files)
    if trouble or max(map(len, said)) > _SAID_MOST:
        raise RuntimeError(trouble or "its modules write too much when they are imported")
    for file in files:
        os.close(file)
    return loaded, (said[0], said[1])


def _unfit(expected: set[int], asked: set[str]) -> str:
    """Say why this process should not be forked now; empty when it may be."""
    if asked:
        return f"its modules look at {', '.join(sorted(asked))} when they are imported"
    if len(sys._current_frames()) > 1 or _foreign_threads():  # noqa: SLF001 — no public name
        return "its modules start threads when they are imported"
    if processes.own_children() != []:
        return "its modules start processes when they are imported"
    if _open_files() - expected:
        return "its modules keep files open"
    return ""


def _foreign_threads() -> bool:
    """Tell whether there are threads besides those of libraries that take care of forks."""
    if len(os.listdir("/proc/self/task")) == 1:
        return False
    with open("/proc/self/maps", "rb") as file:
        maps = file.read()
    return not any(library in maps for library in _FORK_SAFE)


def _open_files() -> set[int]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            os.fstat(int(name))
        except OSError:
            continue  # The listing's own.
        found.add(int(name))
    return found


def _watch_environ(asked: set[str]) -> None:
    """Note which of the varying variables are looked at."""
    plain = type(os.environ)

    class Watched(plain):  # type: ignore[misc, valid-type]
        def __getitem__(self, name: str) -> str:
            if name in VARYING:
                asked.add(name)
            return str(plain.__getitem__(self, name))

    os.environ.__class__ = Watched


def _unwatch_environ() -> None:
    os.environ.__class__ = type(os.environ).__mro__[1]


def _be_attempt(
    request: tuple[int, int, list[str], dict[str, str]],
    descriptors: list[int],
    call: tuple[str, Any, str],
    said: Streams,
    zygote: int,
) -> NoReturn:
    """Become an attempt, in the process that was forked for it; raises `Forked`."""
    index, number, argv, varying = request
    url, loaded, control = call
    *streams, line_fd = descriptors
    try:
        os.setsid()
        kernel.die_with_parent()
        line = kernel_socket.socket(fileno=line_fd)
        line.send(str(os.getpid()).encode(), kernel_socket.MSG_NOSIGNAL)
        if os.getppid() != zygote or line.recv(len(_GO)) != _GO:
            os._exit(1)
        for target, source in enumerate(streams):
            os.dup2(source, target)
        os.environ.update(varying)
        calls_mark.mark(
            f"{name}={os.environ[name]}" for name in ("WHERRY_APP_ID", "WHERRY_ATTEMPT_ID")
        )
        sys.argv = argv[1:]
        for target, text in enumerate(said, start=1):
            if text:
                os.write(target, text)
        line.detach()
        calls_fresh.close_others()
    except BaseException:  # noqa: BLE001 — this process is nobody's yet
        os._exit(1)
    raise Forked(lambda: calls_fresh.run(url, index, number, loaded, control))


def _line_and_null() -> tuple[int, int, int]:
    """Return both ends of a line, and a descriptor of nothing."""
    ours, theirs = kernel_socket.socketpair(kernel_socket.AF_UNIX, kernel_socket.SOCK_SEQPACKET)
    return ours.detach(), theirs.detach(), os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)


def _descriptors(*fds: int) -> tuple[int, int, bytes]:
    packed = b"".join(fd.to_bytes(4, sys.byteorder) for fd in fds)
    return kernel_socket.SOL_SOCKET, kernel_socket.SCM_RIGHTS, packed


def _taken(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    data = b"".join(part for _, _, part in ancillary)
    return [int.from_bytes(data[at : at + 4], sys.byteorder) for at in range(0, len(data), 4)]


def _received(line: kernel_socket.socket) -> bytes:
    import select

    poll = select.poll()
    poll.register(line.fileno(), select.POLLIN)
    if not poll.poll(_PATIENCE_MS):
        raise TimeoutError("the zygote does not answer")
    return line.recv(64)
