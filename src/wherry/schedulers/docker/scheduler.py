"""The Docker scheduler: plans containers, starts supervisors, and reads what they wrote.

An app that has a record here is answered for by its record. One that has none (it was started
with another ``WHERRY_HOME``, by another user, or its record is lost) is answered for by the Engine,
see `labelled`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from wherry.engine.docker.address import engine_address
from wherry.engine.docker.connection import Engine
from wherry.errors import DockerError, StateError, UnknownAppError
from wherry.home import journal_path
from wherry.schedulers.api import (
    AppDryRunInfo,
    DescribeAppResponse,
    ListAppResponse,
    ListFilter,
    LogChunk,
    Stream,
)
from wherry.schedulers.docker import planning, pulling
from wherry.schedulers.docker.boxes import BACKEND
from wherry.schedulers.docker.facts import Facts, read_facts
from wherry.schedulers.docker.labelled import Labelled
from wherry.schedulers.docker.options import docker_opts, read_options
from wherry.schedulers.docker.request import DockerRequest, make_request
from wherry.schedulers.lines import LogLines
from wherry.schedulers.local.supervised import SupervisedScheduler
from wherry.specs.app import AppDef
from wherry.specs.options import CfgVal, runopts
from wherry.specs.states import AppState, is_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wherry.schedulers.local.plan import Plan
    from wherry.schedulers.shipping import Shipping
    from wherry.specs.diagnosis import Diagnosis, Finding


class DockerScheduler(SupervisedScheduler[DockerRequest]):
    """Runs apps in containers of the Docker Engine that ``docker`` would use.

    An app that was scheduled here ends with this process, unless `detach` is called for it; its
    record and its containers stay until they are pruned.

    Args:
        session_name: the session that apps are filed under.
    """

    workspace_mode = "image"

    def __init__(self, session_name: str) -> None:
        super().__init__(BACKEND, session_name)
        self._facts: dict[str, Facts] = {}

    def run_opts(self) -> runopts:
        """Return the options: pull, network, copy_env, gpus and more."""
        return docker_opts()

    def shipping(self, cfg: Mapping[str, CfgVal]) -> Shipping:
        """Say that a workspace is laid over the roles' images."""
        from wherry.schedulers.shipping import IMAGE, Shipping

        options = read_options(cfg)
        return Shipping(IMAGE, pull=options.pull, platform=options.platform)

    def submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[DockerRequest]:
        """Turn an app into a request; no Engine is asked."""
        self.check(app)
        resolved = self.run_opts().resolve(cfg)
        request, warnings = make_request(app, read_options(resolved))
        return AppDryRunInfo(
            request, scheduler=self.backend, app=app, cfg=resolved, warnings=warnings
        )

    def settled(self, dryrun_info: AppDryRunInfo[DockerRequest]) -> AppDryRunInfo[DockerRequest]:
        """Add what the Engine's machine is too small for to the warnings.

        Raises:
            DockerError: the Engine is not there, or refuses.
        """
        with _engine() as engine:
            facts = self._known(engine)
        found = planning.size_warnings(dryrun_info.request.roles, facts)
        return AppDryRunInfo(
            dryrun_info.request,
            scheduler=dryrun_info.scheduler,
            app=dryrun_info.app,
            cfg=dryrun_info.cfg,
            warnings=[*dryrun_info.warnings, *found],
        )

    def schedule(self, dryrun_info: AppDryRunInfo[DockerRequest]) -> str:
        """Start what a dry run made; returns once its first replicas run, or wait to.

        Raises:
            DockerError: the Engine is not there, or refuses.
            LaunchError: it could not be started; nothing was left behind.
            RegistryError: an image is not here, and its registry refuses or is not reached.
        """
        request = dryrun_info.request
        with _engine() as engine:
            facts = self._known(engine)
            planning.check_gpus(request.roles, facts)
            names = [role.create["Image"] for role in request.roles]
            images = pulling.have_images(engine, names, request.pull, request.platform)
        roles = [
            planning.role_plan(role, request, facts, images[role.create["Image"]])
            for role in request.roles
        ]
        replicas = {role.name: role.replicas for role in request.roles}
        record = self._make_record(dryrun_info.app, request.app_id, replicas, request.log_dir)
        plan: Plan = {
            "app_id": request.app_id,
            "name": dryrun_info.app.name,
            "handle": record.handle,
            "directory": record.directory,
            "log_dir": record.log_dir,
            "journal": journal_path(),
            "array": request.array,
            "timeout": request.timeout,
            "grace": request.grace,
            "disk_patience": request.disk_patience,
            "max_parallel": request.max_parallel,
            "roles": roles,
            "slots_dir": planning.slots_dir(facts),
            "cores": planning.cores(facts),
            "gpu_pool": [],
            "depends_on": [(handle, self._folder_of(handle)) for handle in request.depends_on],
            "engine": planning.engine_plan(request, record, facts),
            "client": os.getpid(),
            "attached": True,
            "environ": None,
        }
        self._launch(record, plan)
        return request.app_id

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Tell all about an app: by its record, else by its containers.

        Raises:
            DockerError: there is no record here, and the Engine cannot be asked.
        """
        answer = super().describe(app_id)
        if answer is None:
            return self._labelled(app_id)
        if answer.state is AppState.RUNNING and any(role.port_map for role in answer.roles):
            return _with_ports(answer)
        return answer

    def exists(self, app_id: str) -> bool:
        """Tell whether there is a record of the app, or something of it at the Engine."""
        return super().exists(app_id) or self._labelled(app_id) is not None

    def list(self, chosen: ListFilter = ListFilter()) -> Iterator[ListAppResponse]:  # noqa: B008
        """Go through the apps with a record here and those at the Engine, newest first.

        Where there is no Engine, through those with a record.
        """
        from heapq import merge

        try:
            others = [*self.unrecorded()]
        except DockerError:
            others = []
        everything = replace(chosen, limit=None)
        lines = merge(
            super().list(everything),
            (line for line in others if everything.accepts(line)),
            key=lambda line: line.created_at or 0,
            reverse=True,
        )
        for number, line in enumerate(lines):
            if chosen.limit is not None and number >= chosen.limit:
                return
            yield line

    def unrecorded(self, *, own: bool = False) -> Iterator[ListAppResponse]:
        """List the apps that the Engine knows and that have no record here, newest first.

        Args:
            own: only those that have ended, and were started with this home.

        Raises:
            DockerError: the Engine is not there, or refuses.
        """
        with Labelled(_engine()) as seen:
            found = [*seen.leftovers()] if own else seen.apps()
        return (line for line in found if not super(DockerScheduler, self).exists(line.app_id))

    def recorded(self) -> Iterator[ListAppResponse]:
        """Go through the apps with a record here, newest first; the Engine is not asked."""
        return super().list()

    def cancel(self, app_id: str, reason: str = "", *, kill: bool = False) -> None:
        """Ask for an app's end; where there is no record, its containers are stopped."""
        if super().exists(app_id):
            super().cancel(app_id, reason, kill=kill)
            return
        with self._seen(app_id) as seen:
            seen.cancel(app_id, reason, kill=kill)

    def log_iter(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        regex: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        should_tail: bool = False,
        streams: Stream | None = None,
        *,
        attempt: int | None = None,
    ) -> LogLines:
        r"""Iterate over the lines of one replica; see `Scheduler.log_iter`.

        Bytes that are not UTF-8 appear as ``\xNN``.
        """
        if super().exists(app_id):
            return super().log_iter(
                app_id, role_name, k, regex, since, until, should_tail, streams, attempt=attempt
            )
        with self._seen(app_id) as seen:
            return seen.lines(
                app_id,
                role_name,
                k,
                Stream(streams or Stream.COMBINED),
                regex=regex,
                since=since,
                until=until,
                should_tail=should_tail,
                attempt=attempt,
            )

    def log_bytes(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        stream: Stream = Stream.COMBINED,
        *,
        attempt: int | None = None,
    ) -> Iterator[bytes]:
        """Read what one replica has written so far, in large pieces."""
        if super().exists(app_id):
            return super().log_bytes(app_id, role_name, k, stream, attempt=attempt)
        with self._seen(app_id) as seen:
            return seen.log_bytes(app_id, role_name, k, stream, attempt=attempt)

    def follow(self, app_id: str, stream: Stream = Stream.COMBINED) -> Iterator[LogChunk]:
        """Read what all replicas write, as they write it, until the app's last byte."""
        if super().exists(app_id):
            return super().follow(app_id, stream)
        return self._seen(app_id).follow(app_id, stream)

    def wait_for_change(self, app_id: str, timeout: float, *, until_end: bool = False) -> None:
        """Block until something happened to the app, or for ``timeout`` seconds."""
        if super().exists(app_id):
            super().wait_for_change(app_id, timeout, until_end=until_end)
            return
        with self._seen(app_id) as seen:
            seen.wait_for_change(app_id, timeout, until_end=until_end)

    def why(self, app_id: str) -> Diagnosis:
        """Say why an app is in its state; a container that ran out of memory is told first."""
        from wherry.schedulers.docker.explaining import with_causes

        return with_causes(super().why(app_id), self.describe(app_id))

    def preflight(self, dryrun_info: AppDryRunInfo[DockerRequest]) -> Sequence[Finding]:
        """Say what would keep a request from running: no Engine, an image, a mount, GPUs."""
        from wherry.schedulers.docker.explaining import foreseen

        return foreseen(dryrun_info.request, _engine)

    def forget(self, app_id: str) -> None:
        """Remove an app that has ended: its record, and what it has left at the Engine.

        Where the Engine is not there, the record alone; its containers can be removed later, by
        the same call.

        Raises:
            UnknownAppError: there is no such app.
            StateError: it has not ended.
        """
        recorded = super().exists(app_id)
        if recorded:
            super().forget(app_id)
        else:
            described = self._labelled(app_id)
            if described is None:
                raise UnknownAppError(f"there is no app {app_id!r} at {self.backend}")
            if not is_terminal(described.state):
                raise StateError(f"{app_id} has not ended; cancel it first")
        try:
            with _engine() as engine:
                Labelled(engine).remove(app_id)
        except DockerError:
            if not recorded:
                raise

    def _known(self, engine: Engine) -> Facts:
        if engine.address not in self._facts:
            info: dict[str, Any] = engine.request("GET", "/info")
            self._facts[engine.address] = read_facts(engine.address, info)
        return self._facts[engine.address]

    def _labelled(self, app_id: str) -> DescribeAppResponse | None:
        if not app_id or app_id.startswith(".") or "/" in app_id:
            return None
        with _engine() as engine:
            return Labelled(engine).describe(app_id)

    def _seen(self, app_id: str) -> Labelled:
        """Return the way to an app that has no record here.

        Raises:
            UnknownAppError: it is not at the Engine either.
        """
        seen = Labelled(_engine())
        if seen.describe(app_id) is None:
            seen.close()
            raise UnknownAppError(
                f"there is no app {app_id!r} at {self.backend}; `wherry list` shows those there are"
            )
        return seen


def create_scheduler(session_name: str) -> DockerScheduler:
    """Make ``local_docker``: apps run in containers of this machine's Docker Engine."""
    return DockerScheduler(session_name)


def _engine() -> Engine:
    return Engine(engine_address(os.environ))


def _with_ports(answer: DescribeAppResponse) -> DescribeAppResponse:
    """Add where the ports of a running app are published, if the Engine says."""
    try:
        with _engine() as engine:
            ports = Labelled(engine).ports(answer.app_id)
    except DockerError:
        return answer
    return replace(answer, metadata={**answer.metadata, "ports": ports}) if ports else answer
