"""A process that has loaded the supervisor and the worker, and forks a guard for each app of calls.

Starting an interpreter and loading what a call needs takes fifty times as long as a fork. Each
client process that calls functions has one host, started at the first call (`host_client`). It
runs nothing of the user's. For each app it is handed the descriptors that a guard needs (`guard`),
and forks it; from then on the app is like any other and needs neither the host nor the client.

The host ends when its client does.
"""

from __future__ import annotations

import _socket as kernel_socket
import gc
import marshal
import os
import select
import sys

from wherry.engine import signals
from wherry.engine.spawn import Forked
from wherry.schedulers.local import calls_fresh, calls_mark, guard, host_spare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CONTROL_FD = 3
"""Where the client puts its line to the host."""

HANDED = 4
"""The descriptors of an app: its plan, its events, its ready pipe and its attach pipe."""

_MESSAGE_MOST = 1 << 20
_FIRST_FREE_FD = 10
_LOADED_EARLY = (
    "wherry.schedulers.local.supervisor",
    "wherry.schedulers.local.calls",
    "wherry.schedulers.local.zygote",
    "wherry.schedulers.local.calls_keeping",
    "cloudpickle",
    "wherry.worker.running",
    "wherry.worker.files",
    "wherry.worker.packs",
    "wherry.worker.digests",
    "_sha2",
    "_sha256",
    "json",
    "faulthandler",
    "threading",
    "traceback",
    "resource",
)


def main(base: Sequence[str]) -> None:
    """Serve until the client is gone; never returns, in this process or in one forked here.

    Args:
        base: what this interpreter finds modules in by itself.
    """
    try:
        _serve_or_guard(base)
    except Forked as forked:
        work = forked.work
    work()


def _serve_or_guard(base: Sequence[str]) -> None:
    calls_mark.find_room()
    os.environ.pop(calls_mark.ROOM_ENV, None)
    line = kernel_socket.socket(fileno=CONTROL_FD)
    hello = marshal.loads(line.recv(_MESSAGE_MOST) or marshal.dumps(None))  # noqa: S302
    if hello is None:
        os._exit(0)
    calls_fresh.BASE_PATH[:] = base
    client, syspath = hello
    _load(syspath)
    os.chdir("/")
    be_guard = _serve(line, client)
    be_guard()
    os._exit(0)


def _load(syspath: Sequence[str]) -> None:
    """Load what every call needs; what cannot be loaded is left to the call to complain about."""
    sys.path += [path for path in syspath if path not in sys.path]
    gc.disable()  # Looking for garbage among what is being loaded takes a tenth of the time.
    for name in _LOADED_EARLY:
        try:
            __import__(name)
        except ImportError:
            continue
    gc.freeze()
    gc.enable()


def _serve(line: kernel_socket.socket, client: int) -> Callable[[], None]:
    """Have a guard for each message; returns in the guards alone, what they have to do."""
    # Ended guards are nobody's business.
    signals.handle(signals.SIGCHLD, signals.SIG_IGN)
    poll = select.poll()
    poll.register(CONTROL_FD, select.POLLIN)
    try:
        poll.register(os.pidfd_open(client), select.POLLIN)
    except ProcessLookupError:
        os._exit(0)
    except OSError:
        pass  # An old kernel; the end of the line serves alone.
    spare: kernel_socket.socket | None = None
    while True:
        if spare is None and not poll.poll(0):
            spare, is_here = host_spare.make()
            if is_here:
                line.detach()
                own_line = spare
                return lambda: host_spare.guard_when_told(own_line)
        ready = [fd for fd, _ in poll.poll()]
        if CONTROL_FD not in ready:
            os._exit(0)
        message, handed = host_spare.taken(line)
        if not message:
            os._exit(0)
        if len(handed) == HANDED and not _handed_on(spare, handed) and os.fork() == 0:
            line.detach()
            if spare is not None:
                spare.detach()
            _take_places(*handed)
            signals.handle(signals.SIGCHLD, signals.SIG_DFL)
            return guard.main
        if spare is not None:
            spare.close()
            spare = None
        for fd in handed:
            os.close(fd)


def _handed_on(spare: kernel_socket.socket | None, handed: Sequence[int]) -> bool:
    return spare is not None and host_spare.hand(spare, handed)


def _take_places(plan: int, events: int, ready: int, attach: int) -> None:
    """Put an app's descriptors where a guard expects them, and close all others."""
    import fcntl

    sources = [
        fcntl.fcntl(fd, fcntl.F_DUPFD, _FIRST_FREE_FD)
        for fd in (plan, ready, ready, events, ready, attach)
    ]
    for target, source in enumerate(sources):
        os.dup2(source, target)
    calls_fresh.close_others(*range(len(sources)))
