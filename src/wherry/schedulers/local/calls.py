"""Function calls inside the supervisor: each attempt is a fork that runs the call, not a program.

The supervisor was itself forked from a host (see `host`), which has loaded the worker already. A
call is therefore a fork of the supervisor that leaves the supervisor's frames, makes itself like a
fresh process (`calls_fresh`) and runs the worker. An array whose replicas outnumber the cores gets
a *zygote* besides (see `zygote`): a process that loads the function once, and from then on is
forked instead. Until it is ready, and whenever it declines, the supervisor forks.

Either way the attempt is the supervisor's own child, in a session of its own, and dies with it.
"""

from __future__ import annotations

import os

from wherry.engine.spawn import Command, Forked, Spawned, StartError
from wherry.schedulers.local import calls_fresh
from wherry.schedulers.local.events import CONTROL_FILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

    from wherry.engine.attempt import Family
    from wherry.engine.loop import Loop
    from wherry.schedulers.local.plan import Plan, RolePlan
    from wherry.schedulers.local.zygote import Zygote


class CallCommand(Command):
    """A call of a function, as a fork.

    Args:
        role: the role that stands for the call.
        argv, env: as a program would get them.
        index: the child of the call.
        number: the attempt.
        nursery: where a zygote may be had.
    """

    __slots__ = ("call", "index", "number", "nursery", "role")

    def __init__(
        self,
        role: RolePlan,
        argv: list[str],
        env: Mapping[str, str],
        index: int,
        number: int,
        nursery: Nursery,
    ) -> None:
        assert role["call"] is not None  # noqa: S101 — `Replica` has looked
        self.call = role["call"]
        super().__init__(argv[0], argv, env, self.call["cwd"] or role["cwd"], role["limits"])
        self.index = index
        self.number = number
        self.nursery = nursery
        self.role = role["name"]

    def start(self, stdin: int, stdout: int, stderr: int) -> Spawned:
        """Fork the zygote if there is one that can, else this process."""
        zygote = self.nursery.zygote(self)
        asked = zygote.ask(self, stdin, stdout, stderr) if zygote else None
        return asked or Spawned(self, stdin, stdout, stderr)

    def enter(self, report: int) -> NoReturn:
        """Leave what belongs to the supervisor, and run the call at the bottom of the stack."""
        calls_fresh.close_others(report)
        calls_fresh.settle_in(self.env, self.argv, self.call["syspath"])
        os.close(report)
        url, index, number = self.call["url"], self.index, self.number
        control = self.nursery.control
        raise Forked(lambda: calls_fresh.run(url, index, number, None, control))


class Nursery:
    """The zygotes of one app: one for each role that is worth it.

    Args:
        loop: what calls back.
        family: the supervisor's processes.
        plan: the app.

    Attributes:
        control: the path of the supervisor's control pipe.
    """

    def __init__(self, loop: Loop, family: Family, plan: Plan) -> None:
        self.control = f"{plan['directory']}/{CONTROL_FILE}"
        self._loop = loop
        self._family = family
        self._worth = {role["name"] for role in plan["roles"] if _is_worth_it(plan, role)}
        self._zygotes: dict[str, Zygote] = {}

    def zygote(self, command: CallCommand) -> Zygote | None:
        """Return the role's zygote if it is ready; one that is not there yet is begun."""
        zygote = self._zygotes.get(command.role)
        if zygote is None and command.role in self._worth:
            from wherry.schedulers.local.zygote import Zygote

            self._worth.remove(command.role)
            try:
                self._zygotes[command.role] = Zygote(self._loop, self._family, command)
            except StartError:
                return None  # There can be no more processes; the attempt will say so itself.
        return zygote if zygote is not None and zygote.ready else None

    def close(self) -> None:
        """End the zygotes; what their modules started is then an orphan like any other."""
        for zygote in self._zygotes.values():
            zygote.close()
        self._zygotes.clear()


def _is_worth_it(plan: Plan, role: RolePlan) -> bool:
    """Tell whether enough replicas start after the first ones; a GPU cannot be shared by forks."""
    at_once = min(plan["cores"], plan["max_parallel"] or plan["cores"])
    return bool(
        plan["array"] and role.get("call") and role["replicas"] > at_once and not role["gpus"]
    )
