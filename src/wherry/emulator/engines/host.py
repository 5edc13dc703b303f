"""The agent as the emulator sees it: start it, talk to it, see it off.

A host lives as long as its agent. When the agent is gone, `bury` makes sure that nothing that ran
on it is left, and the next task gets a new one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO

from wherry.emulator.engines.channel import Channel
from wherry.emulator.engines.plan import MARKER
from wherry.engine import processes
from wherry.engine.signals import SIGKILL
from wherry.errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wherry.emulator.engines.channel import Message

_PREFIX = "tasks-"
_READY = 20.0
_GONE = 15.0
_SWEEPS = 100
_SWEEP_AGAIN = 0.01


class Host:
    """A running agent.

    `launch` makes one. `send` may be called from any thread, the rest from one only.

    Attributes:
        pid: the guard's process, whose only child is the agent.
        folder: where tasks have their folders.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        connection: socket.socket,
        folder: str,
        lock: int,
        words: IO[bytes],
    ) -> None:
        self.pid = process.pid
        self.folder = folder
        self._process = process
        self._connection = connection
        self._folder_lock = lock
        self._words = words
        self._channel = Channel(connection.fileno())
        self._lock = threading.Lock()
        self._agent = -1  # A descriptor that becomes readable when the agent ends.
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    @classmethod
    def launch(cls, scratch: str) -> Host:
        """Start an agent that keeps its folders in this one, and wait until it is ready.

        Raises:
            LaunchError: it did not start; nothing is left of it.
        """
        try:
            os.makedirs(scratch, exist_ok=True)
            host = cls._start(scratch)
        except OSError as error:
            raise LaunchError(f"cannot start the process engine: {error}") from error
        if not host._is_ready():  # noqa: SLF001 — its own kind
            why = host.bury() or "no answer"
            raise LaunchError(f"the agent of the process engine did not start: {why}")
        return host

    @classmethod
    def _start(cls, scratch: str) -> Host:
        script = os.path.join(os.path.dirname(__file__), "_agent.py")
        with contextlib.ExitStack() as undone:
            folder = tempfile.mkdtemp(prefix=_PREFIX, dir=scratch)
            undone.callback(shutil.rmtree, folder)
            lock = _locked(folder)
            undone.callback(os.close, lock)
            words = undone.enter_context(tempfile.TemporaryFile())
            ours, theirs = socket.socketpair()
            undone.enter_context(ours)
            undone.callback(theirs.close)
            fds = (theirs.fileno(), lock)
            arguments = [*map(str, fds), str(os.getpid()), folder]
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", script, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=words,
                env={"LC_ALL": "C.UTF-8"},
                cwd="/",
                pass_fds=fds,
                start_new_session=True,
            )
            undone.pop_all()
            theirs.close()
        return cls(process, ours, folder, lock, words)

    def send(self, message: Message) -> None:
        """Tell the agent something; never blocks."""
        with self._lock:
            self._channel.put(message)
            self._channel.flush()
            is_waiting = bool(self._channel.waiting)
        if is_waiting:
            self.wake()

    def receive(self) -> list[Message] | None:
        """Wait for messages, or for `wake`; ``None`` when the agent is gone."""
        events = select.EPOLLIN | (select.EPOLLOUT if self._channel.waiting else 0)
        poll = select.poll()
        poll.register(self._channel.fd, events)
        poll.register(self._wake, select.POLLIN)
        for fd, what in poll.poll():
            if fd == self._wake:
                os.eventfd_read(self._wake)
            elif what & select.POLLOUT:
                with self._lock:
                    self._channel.flush()
        messages = self._channel.receive()
        return None if self._channel.at_end and not messages else messages

    def wake(self) -> None:
        """Make `receive` return."""
        os.eventfd_write(self._wake, 1)

    def dismiss(self) -> None:
        """Have the agent kill all that runs, and end; `receive` tells when it is gone."""
        try:
            self._connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # It is gone already.

    def bury(self) -> str:
        """Wait until the agent and all that ran under it are gone, and clear away its folder.

        Returns:
            The agent's last words, if it crashed.
        """
        self._connection.close()
        os.close(self._wake)
        try:
            self._process.wait(_GONE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._wait_for_agent()
        _kill_marked(os.path.basename(self.folder))
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._folder_lock)
        self._words.seek(0)
        with self._words:
            return self._words.read().decode(errors="replace").strip()

    def _is_ready(self) -> bool:
        if not _readable(self._channel.fd, _READY):
            return False
        for _, agent in self._channel.receive():
            try:
                self._agent = os.pidfd_open(agent)
            except OSError:
                pass  # It is gone already, or the kernel is old; the guard's end has to do.
            return True
        return False

    def _wait_for_agent(self) -> None:
        """Wait for the agent itself, in case its guard was killed first."""
        if self._agent >= 0:
            _readable(self._agent, _GONE)
            os.close(self._agent)


def remove_remains(scratch: str) -> None:
    """Clear away what agents left behind that could not: all their processes were killed."""
    try:
        names = os.listdir(scratch)
    except OSError:
        return
    for name in names:
        folder = os.path.join(scratch, name)
        if not name.startswith(_PREFIX):
            continue
        try:
            lock = _locked(folder)
        except OSError:
            continue  # An agent lives in it.
        _kill_marked(name)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _readable(fd: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _locked(folder: str) -> int:
    """Return a descriptor that holds a folder's lock for all who inherit it."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _kill_marked(token: str) -> None:
    """Kill every process of an agent, even if agent and guard were killed together."""
    prefix = f"{MARKER}={token}/".encode()
    for _ in range(_SWEEPS):
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        marked = [pid for pid in pids if _is_marked(pid, prefix)]
        if not marked:
            return
        processes.send(marked, SIGKILL)
        time.sleep(_SWEEP_AGAIN)


def _is_marked(pid: int, prefix: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return any(item.startswith(prefix) for item in file.read().split(b"\0"))
    except OSError:
        return False
