"""Start the supervisor of an app, and hear from it how the launch went."""

from __future__ import annotations

import fcntl
import marshal
import os
import sys

from wherry.errors import LaunchError
from wherry.schedulers.local import host_client
from wherry.schedulers.local.events import lock
from wherry.schedulers.local.plan import READY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from wherry.schedulers.local.plan import Plan

    Spawn = Callable[[str, int, int, int, int], None]

_NO_WORD = "the supervisor died before it could start the app, and left no message"
_FIRST_FREE_FD = 10


def start_supervisor(directory: str, plan: Plan) -> int:
    """Start the supervisor and wait for its word.

    Returns:
        The descriptor that keeps the app attached to this process.

    Raises:
        LaunchError: the supervisor could not start the app, or not even itself.
    """
    if host_client.has_calls(plan):
        try:
            return _start(directory, host_client.warm_plan(plan), host_client.spawn)
        except host_client.HostGoneError:
            plan = host_client.cold_plan(plan)
    return _start(directory, plan, _spawn)


def _start(directory: str, plan: Plan, spawn: Spawn) -> int:
    events = lock(directory)
    plan_read, plan_write = os.pipe()
    ready_read, ready_write = os.pipe()
    attach_read, attach_write = os.pipe()
    ours = [plan_write, ready_read]
    theirs = [events, plan_read, ready_write, attach_read]
    try:
        try:
            spawn(directory, plan_read, events, ready_write, attach_read)
        finally:
            for fd in theirs:
                os.close(fd)
        _send(plan_write, marshal.dumps(dict(plan)))
        answer = _read_all(ready_read)
        if not answer and spawn is host_client.spawn:
            host_client.require_begun(directory)
        if answer != READY:
            raise LaunchError(answer.decode(errors="replace").strip() or _NO_WORD)
    except BaseException:
        os.close(attach_write)
        raise
    finally:
        for fd in ours:
            os.close(fd)
    return attach_write


def _spawn(directory: str, plan: int, events: int, ready: int, attach: int) -> None:
    """Start the guard with its descriptors in their places (see `guard`)."""
    sources = [
        fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD)
        for fd in (plan, ready, ready, events, ready, attach)
    ]
    script = os.path.join(os.path.dirname(__file__), "_supervise.py")
    python = sys.executable or "python3"
    try:
        os.posix_spawn(
            python,
            [python, "-I", "-S", script, directory],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, source, target) for target, source in enumerate(sources)
            ],
        )
    except OSError as error:
        raise LaunchError(f"could not start a supervisor: {error.strerror}: {python}") from None
    finally:
        for fd in sources:
            os.close(fd)


def _send(fd: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except BrokenPipeError:
        pass  # The supervisor is gone; the ready pipe says so.


def _read_all(fd: int) -> bytes:
    """Read a short answer: ``ok`` at once, anything else to its end."""
    answer = b""
    while answer != READY and (data := os.read(fd, 65536)):
        answer += data
    return answer
