"""The process above the supervisor: it outlives it, and then sees to it that nothing is left.

The supervisor is its only child. When the supervisor is killed, every process of the app becomes
the guard's child, since it is a subreaper; the guard kills them all and settles the record.
"""

from __future__ import annotations

import marshal
import os
import sys

from wherry.engine import kernel, processes, signals
from wherry.engine.spawn import Forked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from wherry.schedulers.local.plan import Plan

PLAN_FD, STDOUT_FD, STDERR_FD = 0, 1, 2
EVENTS_FD, READY_FD, ATTACH_FD = 3, 4, 5
"""Where the client puts its ends of the pipes, and the app's events, locked for both processes."""

_CRASHED = 1
_ENGINE_PATIENCE = 30.0


def main() -> None:
    """Read the plan, start the supervisor, and wait for its end."""
    os.setsid()
    os.chdir("/")
    with open(PLAN_FD, "rb", closefd=False) as pipe:
        plan = marshal.load(pipe)  # noqa: S302 — our own client, through a pipe of its own
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, PLAN_FD)
    os.dup2(null, STDOUT_FD)
    attach = ATTACH_FD if plan["attached"] else -1
    # The programs must not inherit what tells whether their supervisor lives.
    for fd in (null, EVENTS_FD, READY_FD, *([attach] if attach >= 0 else [])):
        os.set_inheritable(fd, False)
    kernel.become_subreaper()
    guard = os.getpid()
    child = os.fork()
    if child == 0:
        supervise(plan, attach, guard)
    # Until now, standard error went to the client that waits for the launch.
    os.dup2(PLAN_FD, STDERR_FD)
    os.close(READY_FD)
    if attach >= 0:
        os.close(attach)
    watch_over(plan, child)


def supervise(plan: Plan, attach: int, guard: int) -> NoReturn:
    """Be the supervisor; never returns, but raises `Forked` in processes of its making."""
    code = _CRASHED
    try:
        from wherry.schedulers.local.supervisor import Supervisor

        for role in plan["roles"]:
            call = role.get("call")
            if call and call["umask"] is not None:
                os.umask(call["umask"])
        if os.getppid() == guard:
            Supervisor(plan, EVENTS_FD, READY_FD, attach).run()
            code = 0
    except Forked:
        raise  # An attempt's own process, which leaves the supervisor's frames.
    except BaseException:  # noqa: BLE001 — the last place where it can be told
        try:
            _leave_word(plan["directory"])
        finally:
            os._exit(code)
    os._exit(code)


def _leave_word(directory: str) -> None:
    """Write down why the supervisor crashed, for the client if it still listens, and in a file."""
    import traceback

    from wherry.schedulers.local.events import SUPERVISOR_LOG

    words = traceback.format_exc()
    with open(f"{directory}/{SUPERVISOR_LOG}", "a") as file:
        file.write(words)
    sys.stderr.write(words)
    sys.stderr.flush()


def watch_over(plan: Plan, supervisor: int) -> None:
    """Be the guard: wait for the supervisor's end, and clear up after one that was killed."""
    for number in (signals.SIGINT, signals.SIGHUP):
        signals.handle(number, signals.SIG_IGN)
    signals.handle(signals.SIGTERM, lambda *_: processes.send([supervisor], signals.SIGTERM))
    _, status = os.waitpid(supervisor, 0)
    if status == 0:
        return
    processes.kill_descendants()
    from wherry.engine.slots import announce_freed
    from wherry.schedulers.local.settling import settle_as_writer

    announce_freed(plan["slots_dir"])
    if plan["engine"] is not None:
        from wherry.engine.docker.sweeping import end_app

        end_app(plan["engine"]["address"], plan["app_id"], patience=_ENGINE_PATIENCE)
    if os.WIFSIGNALED(status):
        why = f"its supervisor was killed (signal {os.WTERMSIG(status)})"
    else:
        why = f"its supervisor crashed; see {plan['directory']}/supervisor.log"
    settle_as_writer(EVENTS_FD, plan["directory"], plan["journal"], why)
