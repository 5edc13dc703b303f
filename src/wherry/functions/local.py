"""Calls as processes of this machine."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from wherry.functions.executor import Executor
from wherry.functions.handle import ROLE
from wherry.functions.submission import retry_policy, variables
from wherry.home import home
from wherry.schedulers.local import LocalScheduler, host_client
from wherry.specs.app import Role
from wherry.specs.resources import Resource

if TYPE_CHECKING:
    from wherry.functions.options import Options
    from wherry.schedulers.api import Scheduler
    from wherry.schedulers.local.plan import Plan
    from wherry.schedulers.local.record import Record
    from wherry.specs.options import CfgVal
    from wherry.worker.formats import Call

_MIB = 1 << 20


class LocalExecutor(Executor):
    """Runs each call in a process of its own on this machine.

    Modules are imported from where they are, and the working directory is this process's own, but
    for calls with input files: they run in a folder made for them.

    Args:
        store, session, on_step, options: see `Executor`.
        max_parallel: processes of a map that run at once; as many as there are cores by default.
    """

    environment = "local"
    backend = "local_cwd"
    in_place = True

    def __init__(self, *, max_parallel: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._max_parallel = max_parallel

    def make_scheduler(self) -> Scheduler[Any]:
        """Make the scheduler."""
        return _LastingScheduler(self.session)

    def settings(self) -> dict[str, Any]:
        """Return the arguments, as plain data."""
        most = self._max_parallel
        return {**super().settings(), **({} if most is None else {"max_parallel": most})}

    def cores(self) -> int:
        """Return how many processes of a map may run at once."""
        return min(super().cores(), self._max_parallel or super().cores())

    def cfg(self, options: Options) -> dict[str, CfgVal]:
        """Return the scheduler's run options."""
        cfg: dict[str, CfgVal] = {"auto_set_cuda_visible_devices": options.gpus > 0}
        if self._max_parallel is not None:
            cfg["max_parallel"] = self._max_parallel
        return cfg

    def warm_up(self) -> None:
        """Start the process that is forked for each call."""
        host_client.warm_up()

    def localize(self, call: Call, options: Options) -> None:
        """Let the job find what this process finds."""
        call["syspath"] = [os.path.abspath(folder) for folder in sys.path]
        call["cwd"] = _own_folder() if options.inputs else _cwd()

    def role(self, call_url: str, call: Call, options: Options, children: int) -> Role:
        """Return the role that runs a call's processes."""
        from wherry.worker.shipping import worker_zip_path

        limits = {"data": options.mib * _MIB} if options.mib else {}
        told = {
            "url": call_url,
            "syspath": [_plain(folder) for folder in call["syspath"]],
            "cwd": _plain(call["cwd"]),
        }
        return Role(
            name=ROLE,
            entrypoint=_plain(sys.executable or "python3"),
            args=[_plain(worker_zip_path()), "call", _plain(call_url)],
            env=variables(options),
            num_replicas=children,
            max_retries=options.retries,
            retry_policy=retry_policy(options),
            resource=Resource(cpu=options.cores, gpu=options.gpus, memMB=options.mib),
            ulimits=limits,
            metadata={"wherry.call": {**told, "url": _plain(call_url)}},
        )


class _LastingScheduler(LocalScheduler):
    """A local scheduler whose apps outlive the client from their first moment on.

    A client that is killed between the launch and a `detach` would take its job with it.
    """

    attached = False

    def _launch(self, record: Record, plan: Plan) -> None:
        super()._launch(record, {**plan, "attached": False})
        self.detach(record.app_id)


def _plain(text: str) -> str:
    """Write a text so that it stays as it is when macros are replaced."""
    return text.replace("$", "$$")


def _cwd() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _own_folder() -> str:
    import tempfile

    folder = f"{home()}/work"
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return tempfile.mkdtemp(dir=folder)
