"""The Runner: run apps, ask about them, and end them, on whatever scheduler they are.

It puts together what the other rooms do. It knows schedulers only by name and contract, and holds
nothing that an app needs: an app goes on when its Runner is gone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wherry.errors import ConfigError, UnknownAppError, UsageError, WaitTimeout, unknown
from wherry.runner.schedulers import DEFAULT, SchedulerTable
from wherry.schedulers.api import ListFilter, Scheduler
from wherry.specs.handles import AppHandle, make_app_handle, parse_app_handle

if TYPE_CHECKING:
    from datetime import datetime

    from wherry.runner.clearing import Cleared
    from wherry.runner.config import Config
    from wherry.runner.index import AppIndex
    from wherry.runner.schedulers import SchedulerFactory
    from wherry.runner.workspaces import Workspace
    from wherry.schedulers.api import (
        AppDryRunInfo,
        DescribeAppResponse,
        ListAppResponse,
        Stream,
    )
    from wherry.specs.app import AppDef
    from wherry.specs.diagnosis import Diagnosis
    from wherry.specs.options import CfgVal, runopts
    from wherry.specs.states import AppState
    from wherry.specs.status import AppStatus

_LONGEST_NAP = 60.0
"""Seconds after which a waiter looks again although nothing woke it: a lost wake-up costs that."""


class Runner:
    """A session over the schedulers.

    Wherever a method takes a handle, the app's id alone, or a beginning of it that only one app
    has, will do. A context manager; closing it leaves detached and remote apps running.

    Args:
        name: the session's name, the second part of handles.
        schedulers: factories by name, instead of the built-in schedulers and the plug-ins.
        config: the settings; those of files and environment by default.

    Raises:
        UsageError: the name cannot be part of a handle.
    """

    def __init__(
        self,
        name: str = "wherry",
        schedulers: Mapping[str, SchedulerFactory] | None = None,
        *,
        config: Config | None = None,
    ) -> None:
        if "/" in name or " " in name or not name.isprintable():
            raise UsageError(f"a session's name has no '/' and no white space: {name!r}")
        self.name = name
        self._schedulers = SchedulerTable(name, schedulers, self._prepare)
        self._config = config
        self._apps: AppIndex | None = None
        self._problems: list[str] = []

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def config(self) -> Config:
        """The settings of this session."""
        if self._config is None:
            from wherry.runner.config import Config

            self._config = Config()
        return self._config

    @property
    def problems(self) -> list[str]:
        """A sentence for each thing that went wrong without ending what was asked for."""
        of_apps = self._apps.problems if self._apps else []
        return list(dict.fromkeys(self._schedulers.problems + self._problems + of_apps))

    def scheduler(self, name: str) -> Scheduler[Any]:
        """Return a scheduler, made when it is first asked for.

        Raises:
            UnknownNameError: there is none of this name.
            PluginError: another package's scheduler does not load.
        """
        return self._schedulers.get(name)

    def scheduler_backends(self) -> list[str]:
        """Return the names of all schedulers, the built-in ones first; loads none of them."""
        return self._schedulers.names()

    def scheduler_run_opts(self, scheduler: str) -> runopts:
        """Return the options that a scheduler takes."""
        return self.scheduler(scheduler).run_opts()

    def default_scheduler(self) -> str:
        """Return the scheduler that is used when none is named.

        Raises:
            ConfigError: the configuration names one that there is not.
        """
        chosen = self.config.scheduler()
        if chosen is None:
            return DEFAULT
        if not self._schedulers.knows(chosen.value):
            names = self._schedulers.names()
            raise ConfigError(f"{chosen.source}: {unknown('scheduler', chosen.value, names)}")
        return chosen.value

    def run(
        self,
        app: AppDef,
        scheduler: str | None = None,
        cfg: Mapping[str, CfgVal] | None = None,
        *,
        workspace: Workspace | None = None,
        snapshot: bool = False,
    ) -> str:
        """Start an app.

        Args:
            app: what to run; it is not changed.
            scheduler: where; the configuration's choice, or this machine, when ``None``.
            cfg: run options, laid over the configuration's.
            workspace: the folder of code that goes along, or several laid over each other (of one
                role alone: ``ROLE=FOLDER``, or a mapping); the configuration's when ``None``, none
                when empty.
            snapshot: on this machine, run in a copy of the workspace as it is now, and not in the
                folder itself.

        Returns:
            The app's handle.

        Raises:
            UsageError: the app, the scheduler or an option cannot be right.
            LaunchError: it was not started, and nothing was left behind.
        """
        return self.schedule(
            self.dryrun(app, scheduler, cfg, workspace=workspace, snapshot=snapshot)
        )

    def run_component(
        self,
        component: str,
        args: Sequence[str] = (),
        scheduler: str | None = None,
        cfg: Mapping[str, CfgVal] | None = None,
        *,
        workspace: Workspace | None = None,
        snapshot: bool = False,
    ) -> str:
        """Start the app that a component makes of words, as on the command line.

        Args:
            component: such as ``utils.echo`` or ``train.py:job``.
            args: its options, then the program's own arguments.
            scheduler, cfg, workspace, snapshot: as for `run`.

        Returns:
            The app's handle.

        Raises:
            ComponentError: there is no such component, or it does not take these words.
        """
        return self.schedule(
            self.dryrun_component(
                component, args, scheduler, cfg, workspace=workspace, snapshot=snapshot
            )
        )

    def dryrun(
        self,
        app: AppDef,
        scheduler: str | None = None,
        cfg: Mapping[str, CfgVal] | None = None,
        *,
        workspace: Workspace | None = None,
        snapshot: bool = False,
    ) -> AppDryRunInfo[Any]:
        """Make the request that would be sent, and start nothing; no code is sent or built either.

        Args:
            app, scheduler, cfg, workspace, snapshot: as for `run`.

        Returns:
            The request, which may be edited and given to `schedule`.

        Raises:
            WorkspaceError: a folder of code cannot be shipped.
        """
        name = self.default_scheduler() if scheduler is None else scheduler
        chosen = self.scheduler(name)
        chosen.check(app)
        options = self._options(name, chosen.run_opts(), cfg or {})
        folders = self._workspace(chosen) if workspace is None else workspace
        if not folders:
            if snapshot:
                raise UsageError("a snapshot is made of a workspace; name a folder")
            return chosen.submit_dryrun(app, options)
        from wherry.runner.workspaces import dryrun_with

        limit = self.config.workspace_limit()
        return dryrun_with(chosen, app, options, folders, snapshot=snapshot, limit=limit)

    def dryrun_component(
        self,
        component: str,
        args: Sequence[str] = (),
        scheduler: str | None = None,
        cfg: Mapping[str, CfgVal] | None = None,
        *,
        workspace: Workspace | None = None,
        snapshot: bool = False,
    ) -> AppDryRunInfo[Any]:
        """Make the request for the app of a component, and start nothing; see `dryrun`."""
        app = self.build(component, args)
        return self.dryrun(app, scheduler, cfg, workspace=workspace, snapshot=snapshot)

    def build(self, component: str, args: Sequence[str] = ()) -> AppDef:
        """Make the app of a component, with the configuration's defaults for its options.

        Args:
            component: such as ``utils.echo`` or ``train.py:job``.
            args: its options, then the program's own arguments.

        Raises:
            ComponentError: there is no such component, or it does not take these words.
            ConfigError: it does not take a default that the configuration gives.
        """
        from wherry import components
        from wherry.runner.config import check_defaults

        found = components.find(component)
        settings = self.config.component_defaults(found.name)
        if settings:
            check_defaults(found, settings)
        defaults = {name: setting.value for name, setting in settings.items()}
        return components.build(found, args, defaults=defaults)

    def settled(self, dryrun_info: AppDryRunInfo[Any]) -> AppDryRunInfo[Any]:
        """Look up what a dry run could not know, before scheduling; see `Scheduler.settled`."""
        ready = self.scheduler(dryrun_info.scheduler).settled(dryrun_info)
        if ready is not dryrun_info:
            ready.shipments = dryrun_info.shipments
            ready.preparations = dryrun_info.preparations
        return ready

    def schedule(self, dryrun_info: AppDryRunInfo[Any]) -> str:
        """Start what a dry run made, edited or not; returns the app's handle.

        Code that goes along is sent, copied or built first.
        """
        name = dryrun_info.scheduler
        scheduler = self.scheduler(name)
        if dryrun_info.preparations:
            from wherry.runner.workspaces import prepared

            with prepared(scheduler, dryrun_info) as ready:
                return make_app_handle(name, self.name, scheduler.schedule(ready))
        return make_app_handle(name, self.name, scheduler.schedule(dryrun_info))

    def resolve(self, handle: str) -> AppHandle:
        """Find the app that a handle, an app id, or the beginning of one means.

        Raises:
            InvalidHandleError: it is no handle, or begins the id of more than one app.
            UnknownAppError: no app's id begins so.
        """
        if "://" in handle or not handle:
            return parse_app_handle(handle)
        return self._index().find(handle)

    def status(self, handle: str) -> AppStatus | None:
        """Tell how an app is; ``None`` only if it never existed."""
        return self.statuses([handle])[handle]

    def statuses(self, handles: Sequence[str]) -> dict[str, AppStatus | None]:
        """Tell how many apps are, with one question to each of their schedulers."""
        apps = {handle: self.resolve(handle) for handle in handles}
        ids: dict[str, list[str]] = {}
        for app in apps.values():
            ids.setdefault(app.scheduler, []).append(app.app_id)
        answers = {name: self.scheduler(name).statuses(ids[name]) for name in ids}
        return {handle: answers[app.scheduler].get(app.app_id) for handle, app in apps.items()}

    def describe(self, handle: str) -> DescribeAppResponse | None:
        """Tell all about an app; ``None`` only if it never existed."""
        app = self.resolve(handle)
        return self.scheduler(app.scheduler).describe(app.app_id)

    def why(self, handle: str) -> Diagnosis:
        """Say why an app is in its state: causes, most likely first, and what to do.

        Raises:
            UnknownAppError: there is no such app.
        """
        app = self.resolve(handle)
        try:
            return self.scheduler(app.scheduler).why(app.app_id)
        except UnknownAppError:
            raise self.unknown_app(handle) from None

    def unknown_app(self, handle: str) -> UnknownAppError:
        """Make the error that says that there is no such app, and which one was perhaps meant."""
        return self._index().unknown(handle)

    def wait(self, handle: str, timeout: float | None = None) -> AppStatus:
        """Wait for an app's end.

        Args:
            handle: the app.
            timeout: seconds; for ever when ``None``.

        Returns:
            How it ended.

        Raises:
            UnknownAppError: there is no such app.
            WaitTimeout: it had not ended in time; it goes on.
        """
        if timeout is not None and not timeout >= 0:
            raise UsageError(f"the timeout must be 0 seconds or more, not {timeout!r}")
        app = self.resolve(handle)
        scheduler = self.scheduler(app.scheduler)
        deadline = math.inf if timeout is None else scheduler.monotonic() + timeout
        while True:
            status = scheduler.statuses([app.app_id]).get(app.app_id)
            if status is None:
                raise self.unknown_app(handle)
            if status.is_terminal():
                return status
            remaining = deadline - scheduler.monotonic()
            if remaining <= 0:
                raise WaitTimeout(
                    f"{app} had not ended after {timeout:g} seconds; it is {status.state} and "
                    f"goes on. `wherry wait {app}` waits again, `wherry cancel {app}` ends it"
                )
            scheduler.wait_for_change(app.app_id, min(remaining, _LONGEST_NAP), until_end=True)

    def cancel(self, handle: str, reason: str = "", *, kill: bool = False) -> None:
        """Ask for an app's end; does nothing to one that has ended.

        Args:
            handle: the app.
            reason: kept, unless an earlier one was given.
            kill: skip the grace that programs get to clean up.

        Raises:
            UnknownAppError: there is no such app.
        """
        app = self.resolve(handle)
        try:
            self.scheduler(app.scheduler).cancel(app.app_id, reason, kill=kill)
        except UnknownAppError:
            raise self.unknown_app(handle) from None

    def log_lines(
        self,
        handle: str,
        role_name: str,
        k: int = 0,
        regex: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        should_tail: bool = False,
        streams: Stream | None = None,
        *,
        attempt: int | None = None,
    ) -> Iterable[str]:
        """Iterate over the log lines of one replica; see `Scheduler.log_iter`."""
        app = self.resolve(handle)
        try:
            return self.scheduler(app.scheduler).log_iter(
                app.app_id,
                role_name,
                k,
                regex,
                since,
                until,
                should_tail,
                streams,
                attempt=attempt,
            )
        except UnknownAppError:
            raise self.unknown_app(handle) from None

    def detach(self, handle: str) -> None:
        """Let an attached app go on when this process ends."""
        app = self.resolve(handle)
        self.scheduler(app.scheduler).detach(app.app_id)

    def prune(
        self,
        older_than: float | None = None,
        states: Iterable[AppState] = (),
        *,
        dry_run: bool = False,
    ) -> list[ListAppResponse]:
        """Remove our own records of apps that have ended, logs of ours included.

        Args:
            older_than: only of those that ended so many seconds ago.
            states: only of those in one of these states; of all that have ended when empty.
            dry_run: only tell which they are.

        Returns:
            The apps that were, or would be, removed; what could not be is in `problems`.

        Raises:
            UsageError: a state in which an app has not ended.
        """
        apps = self._index().prune(older_than, frozenset(states), dry_run=dry_run)
        if not dry_run:
            from wherry.runner.snapshots import remove_unused

            remove_unused()
        return apps

    def clear(self, older_than: float | None = None, *, dry_run: bool = False) -> Cleared:
        """Remove what shipped code has left behind: images, names that pushes gave, caches.

        What a container or a record needs stays.

        Args:
            older_than: only what was made, or last read, so many seconds ago.
            dry_run: only tell what it is.
        """
        from wherry.runner.clearing import clear

        return clear(older_than, dry_run=dry_run)

    def rebuild_ledger(self) -> int:
        """Make the ledger again from the apps' own records; returns how many apps it holds."""
        return self._index().rebuild()

    def list(
        self,
        scheduler: str | None = None,
        chosen: ListFilter = ListFilter(),  # noqa: B008 — a frozen value
    ) -> list[ListAppResponse]:
        """List apps, newest first.

        A scheduler that cannot answer is named in `problems`; its apps are shown as last known.

        Args:
            scheduler: only those of one scheduler; all when ``None``.
            chosen: which ones.

        Raises:
            UnknownNameError: there is no such scheduler.
        """
        return self._index().apps(scheduler, chosen)

    def close(self) -> None:
        """Close the schedulers that were made; may be called many times."""
        self._schedulers.close()

    def _index(self) -> AppIndex:
        if self._apps is None:
            from wherry.runner.index import AppIndex

            self._apps = AppIndex(self._schedulers)
        return self._apps

    def _prepare(self, name: str, scheduler: Scheduler[Any]) -> None:
        """Tell a scheduler that was just made where its configured options are."""

        def options() -> dict[str, CfgVal]:
            found = self.config.options(name, scheduler.run_opts(), self._schedulers.names)
            return {option: setting.value for option, setting in found.items()}

        scheduler.configure(options)

    def _options(
        self, scheduler: str, opts: runopts, cfg: Mapping[str, CfgVal]
    ) -> dict[str, CfgVal]:
        settings = self.config.options(scheduler, opts, self._schedulers.names)
        self._note_unknown_sections()
        configured = {name: setting.value for name, setting in settings.items()}
        given = {name: value for name, value in cfg.items() if value is not None}
        return opts.resolve({**configured, **given})

    def _workspace(self, scheduler: Scheduler[Any]) -> Workspace:
        """Return the configured workspace, where a scheduler takes one."""
        found = self.config.workspace()
        if found is None:
            return ()
        if type(scheduler).shipping is Scheduler.shipping and not scheduler.workspace_mode:
            self._problems.append(
                f"{found.source}: {scheduler.backend} takes no workspace; it is not used"
            )
            return ()
        return found.value

    def _note_unknown_sections(self) -> None:
        """Tell of a section for a scheduler that is not here: a typo, or not installed."""
        for name, where in self.config.scheduler_sections().items():
            if not self._schedulers.knows(name):
                names = self._schedulers.names()
                self._problems.append(f"{where()}: {unknown('scheduler', name, names)}")


def get_runner(name: str = "wherry") -> Runner:
    """Make a Runner with the built-in schedulers, the plug-ins and the user's settings."""
    return Runner(name)
