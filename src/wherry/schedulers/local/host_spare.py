"""A guard and a supervisor that a host forks before there is an app for them.

Two forks and what each of them does first take longer than a short call. With a spare pair, an app
begins with a message: host → guard (`guard`) → supervisor, with the descriptors that the client
handed over. A spare ends with its host.
"""

from __future__ import annotations

import _socket as kernel_socket
import marshal
import os
import sys

from wherry.engine import kernel, signals
from wherry.schedulers.local import calls_fresh, guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

_WORD = b"app"
_MOST_HANDED = 4
_FIRST_FREE_FD = 10


def make() -> tuple[kernel_socket.socket, bool]:
    """Fork a spare.

    Returns:
        An end of the line between host and spare; whether this is the spare, which has to go on
        with `guard_when_told`.
    """
    ours, theirs = kernel_socket.socketpair(kernel_socket.AF_UNIX, kernel_socket.SOCK_SEQPACKET)
    if os.fork():
        theirs.close()
        return ours, False
    ours.close()
    return theirs, True


def hand(line: kernel_socket.socket, descriptors: Sequence[int]) -> bool:
    """Send descriptors; tells whether somebody is there to take them."""
    packed = b"".join(fd.to_bytes(4, sys.byteorder) for fd in descriptors)
    rights = (kernel_socket.SOL_SOCKET, kernel_socket.SCM_RIGHTS, packed)
    try:
        line.sendmsg([_WORD], [rights], kernel_socket.MSG_NOSIGNAL)
    except OSError:
        return False
    return True


def taken(line: kernel_socket.socket) -> tuple[bytes, list[int]]:
    """Receive a word and descriptors; both are empty when the other side is gone."""
    room = kernel_socket.CMSG_SPACE(_MOST_HANDED * 4)
    message, ancillary, _, _ = line.recvmsg(len(_WORD), room)
    data = b"".join(part for _, _, part in ancillary)
    step = range(0, len(data), 4)
    return message, [int.from_bytes(data[at : at + 4], sys.byteorder) for at in step]


def guard_when_told(line: kernel_socket.socket) -> NoReturn:
    """Be the guard of the app that is handed over; raises `Forked` in processes of its making."""
    signals.handle(signals.SIGCHLD, signals.SIG_DFL)
    calls_fresh.close_others(line.fileno())
    os.setsid()
    os.chdir("/")
    kernel.become_subreaper()
    own = os.getpid()
    ours, theirs = kernel_socket.socketpair(kernel_socket.AF_UNIX, kernel_socket.SOCK_STREAM)
    child = os.fork()
    if child == 0:
        # Objects would close, when these frames are left, what has their numbers by then.
        calls_fresh.close_others(theirs.fileno())
        line.detach()
        ours.detach()
        _supervise_when_told(theirs.detach(), own)
    theirs.close()
    _, descriptors = taken(line)
    if len(descriptors) != _MOST_HANDED:
        os._exit(0)
    with open(descriptors[0], "rb") as pipe:
        plan = marshal.load(pipe)  # noqa: S302 — our own client, through a pipe of its own
    if hand(ours, descriptors[1:]):
        try:
            with open(ours.detach(), "wb") as stream:
                stream.write(marshal.dumps(plan))
        except BrokenPipeError:
            pass  # It was killed; `watch_over` sees.
    _take_places({0: _null(), 1: _null(), 2: _null(), guard.EVENTS_FD: descriptors[1]})
    guard.watch_over(plan, child)
    os._exit(0)


def _supervise_when_told(line: int, guard_pid: int) -> NoReturn:
    stream = kernel_socket.socket(fileno=line)
    _, descriptors = taken(stream)
    if len(descriptors) != _MOST_HANDED - 1:
        os._exit(0)
    with open(stream.detach(), "rb") as pipe:
        plan = marshal.load(pipe)  # noqa: S302 — our own guard
    events, ready, attach = descriptors
    places = {0: _null(), 1: _null(), 2: ready, guard.EVENTS_FD: events, guard.READY_FD: ready}
    if plan["attached"]:
        places[guard.ATTACH_FD] = attach
    _take_places(places)
    guard.supervise(plan, guard.ATTACH_FD if plan["attached"] else -1, guard_pid)


def _null() -> int:
    return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)


def _take_places(places: dict[int, int]) -> None:
    """Put descriptors in their places, not to be inherited but for 0, 1, 2; close all others."""
    import fcntl

    sources = {
        target: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD)
        for target, fd in places.items()
    }
    for target, source in sources.items():
        os.dup2(source, target, inheritable=target <= guard.STDERR_FD)
    calls_fresh.close_others(*places)
