"""A scheduler that runs nothing: apps live in memory and go as they were scripted."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from wherry.errors import (
    LaunchError,
    StateError,
    UnknownAppError,
    UnknownNameError,
    WaitTimeout,
    unknown,
)
from wherry.schedulers.api import (
    AppDryRunInfo,
    DescribeAppResponse,
    ListAppResponse,
    ListFilter,
    LogChunk,
    Scheduler,
    Stream,
)
from wherry.schedulers.lines import LogLines
from wherry.specs.app import AppDef
from wherry.specs.handles import make_app_handle, parse_app_handle
from wherry.specs.options import CfgVal, runopts
from wherry.testing.clock import Clock
from wherry.testing.logs import app_chunks, line_filter, nothing_left, replica_lines
from wherry.testing.outcomes import Outcome, Script
from wherry.testing.request import MemoryRequest, make_request
from wherry.testing.simulation import SimulatedApp


class MemoryScheduler(Scheduler[MemoryRequest]):
    """A whole scheduler, ``memory``, without processes, files or waiting.

    Without a script, every attempt succeeds at once. Retries and their policies, gangs and
    arrays, ``min_replicas``, time limits and dependencies are those of a real scheduler; what a
    replica asks of its host is recorded and has no effect. An app's id is its name and a number.

    Args:
        session_name: the session, the second part of its handles.
        clock: the time that apps live by; one of its own by default.

    >>> from wherry.specs import AppDef, Role
    >>> scheduler = MemoryScheduler()
    >>> scheduler.script(Outcome.killed("SIGSEGV"), app="crash")
    >>> app_id = scheduler.submit(AppDef("crash", [Role("main", entrypoint="a.out")]), {})
    >>> app_id, scheduler.describe(app_id).msg
    ('crash-1', 'main/0 killed by SIGSEGV')
    """

    def __init__(self, session_name: str = "test", *, clock: Clock | None = None) -> None:
        super().__init__("memory", session_name)
        self.clock = clock or Clock()
        self._script = Script()
        self._apps: dict[str, SimulatedApp] = {}
        self._ids: dict[str, int] = {}

    def script(
        self,
        *outcomes: Outcome,
        app: str | None = None,
        role: str | None = None,
        replica: int | None = None,
        attempt: int | None = None,
    ) -> None:
        """Say how attempts go, from the next one that starts.

        What is scripted last counts first.

        Args:
            *outcomes: how the first attempt of a replica goes, the second, and so on; the last
                one is for all that follow.
            app: only in apps of this name.
            role: only in this role.
            replica: only in the replica with this index.
            attempt: only in this attempt (from 1), with one outcome.

        Raises:
            UsageError: no outcomes, or several for one attempt.

        >>> scheduler = MemoryScheduler()
        >>> scheduler.script(Outcome.succeed(after=5), app="train")
        >>> scheduler.script(Outcome.fail(exit_code=3), app="train", replica=2, attempt=1)
        """
        with self.clock.changed:
            self._script.add(outcomes, app, role, replica, attempt)

    @property
    def submitted(self) -> Sequence[AppDryRunInfo[MemoryRequest]]:
        """What was scheduled, oldest first: each one's app, options and request."""
        with self.clock.changed:
            return [app.info for app in self._apps.values()]

    def run_opts(self) -> runopts:
        """Return the options: ``img_root``."""
        opts = runopts()
        opts.add("img_root", default="/img", help="what ${img_root} stands for")
        return opts

    def submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[MemoryRequest]:
        """Make the request: each replica with its macros replaced."""
        self.check(app)
        resolved = self.run_opts().resolve(cfg)
        with self.clock.changed:
            self._ids[app.name] = self._ids.get(app.name, 0) + 1
            app_id = f"{app.name}-{self._ids[app.name]}"
        request = make_request(app, app_id, str(resolved["img_root"]))
        return AppDryRunInfo(request, scheduler=self.backend, app=app, cfg=resolved)

    def schedule(self, dryrun_info: AppDryRunInfo[MemoryRequest]) -> str:
        """Let an app begin; what is due at once happens before this returns.

        Raises:
            LaunchError: the request was scheduled before, or depends on an app that is not known.
            UnknownNameError: a script for this app names a role or replica that it does not have.
        """
        info = AppDryRunInfo(
            copy.deepcopy(dryrun_info.request),
            scheduler=self.backend,
            app=dryrun_info.app,
            cfg=dryrun_info.cfg,
            warnings=dryrun_info.warnings,
        )
        request = info.request
        with self.clock.changed:
            self._script.check(request)
            if not any(role.replicas for role in request.roles):
                raise LaunchError(
                    f"app {request.app_id!r} has no replicas; there is nothing to run"
                )
            if request.app_id in self._apps:
                raise LaunchError(
                    f"app {request.app_id!r} was scheduled before; make another dry run"
                )
            dependencies = [self._dependency(request, handle) for handle in request.depends_on]
            app = SimulatedApp(
                info,
                make_app_handle(self.backend, self.session_name, request.app_id),
                self.clock,
                lambda *place: self._script.outcome(request.name, *place),
            )
            self._apps[request.app_id] = app
            app.begin(dependencies)
            self.clock.advance(0)
        return request.app_id

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Tell all about an app; ``None`` only if it never existed, or was forgotten."""
        with self.clock.changed:
            app = self._apps.get(app_id)
            return app.describe() if app else None

    def list(self, chosen: ListFilter = ListFilter()) -> Iterator[ListAppResponse]:  # noqa: B008 — a frozen value
        """List apps, newest first."""
        with self.clock.changed:
            apps = [self._listed(app) for app in reversed(self._apps.values())]
        accepted = [app for app in apps if chosen.accepts(app)]
        return iter(accepted[: chosen.limit])

    def cancel(self, app_id: str, reason: str = "", *, kill: bool = False) -> None:
        """End an app at once; does nothing to one that has ended.

        Raises:
            UnknownAppError: there is no such app.
        """
        with self.clock.changed:
            self._app(app_id).cancel(reason, kill=kill)

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
        """Iterate over the lines that were scripted, as the clock comes to them.

        A tail moves an ``auto`` clock on; it raises `WaitTimeout` when nothing more can happen.
        The arguments are those of `Scheduler.log_iter`; ``lines[50]`` goes to a line.

        Raises:
            UnknownAppError: there is no such app.
            UnknownNameError: the app has no such role, replica or attempt.
            UsageError: the stream is not offered, or the regular expression is not one.
        """
        accepts = line_filter(regex, since, until, streams, attempt)
        with self.clock.changed:
            app = self._app(app_id)
            replica = app.replica(role_name, k)
            if attempt is not None and not 1 <= attempt <= max(len(replica.attempts), 1):
                raise UnknownNameError(
                    f"replica {replica.label} of {app.handle} has no attempt {attempt}; "
                    f"it has had {len(replica.attempts)}"
                )
        return replica_lines(app, replica, self.clock, accepts, should_tail=should_tail)

    def follow(self, app_id: str, stream: Stream = Stream.COMBINED) -> Iterator[LogChunk]:
        """Read the lines of all replicas as they are written, until the app's end.

        Raises:
            UnknownAppError: there is no such app.
        """
        with self.clock.changed:
            return app_chunks(self._app(app_id), stream, self.clock)

    def monotonic(self) -> float:
        """Return the clock's time: waiting is counted by it."""
        return self.clock.now()

    def wait_for_change(self, app_id: str, timeout: float, *, until_end: bool = False) -> None:
        """Let the clock go on to what happens next, or by ``timeout`` seconds of its own.

        With a clock that is not ``auto``, block until another thread moves it.

        Args:
            app_id: the app.
            timeout: seconds of the clock.
            until_end: go on to the app's end.

        Raises:
            UnknownAppError: there is no such app.
            WaitTimeout: nothing more can happen, so the app will never end.
        """
        with self.clock.changed:
            app = self._app(app_id)
            until = (lambda: app.ended) if until_end else None
            if not app.ended and not self.clock.wait(timeout, until) and not app.ended:
                raise WaitTimeout(nothing_left(app))

    def forget(self, app_id: str) -> None:
        """Drop the record of an app that has ended, as if it had never existed.

        Raises:
            UnknownAppError: there is no such app.
            StateError: it has not ended.
        """
        with self.clock.changed:
            app = self._app(app_id)
            if not app.ended:
                raise StateError(f"{app.handle} is {app.state}; only an ended app can be forgotten")
            del self._apps[app_id]

    def _app(self, app_id: str) -> SimulatedApp:
        try:
            return self._apps[app_id]
        except KeyError:
            raise UnknownAppError(unknown("app", app_id, self._apps)) from None

    def _dependency(self, request: MemoryRequest, handle: str) -> SimulatedApp:
        app = self._apps.get(parse_app_handle(handle).app_id)
        if app is None or app.handle != handle:
            known = [app.handle for app in self._apps.values()]
            raise LaunchError(
                f"app {request.app_id!r} depends on an {unknown('app', handle, known)}"
            )
        return app

    def _listed(self, app: SimulatedApp) -> ListAppResponse:
        return ListAppResponse(
            app_id=app.info.request.app_id,
            state=app.state,
            app_handle=app.handle,
            name=app.info.request.name,
            created_at=app.created_at,
            ended_at=app.ended_at,
            msg=app.msg,
            replicas=len(app.replicas),
            session=self.session_name,
        )
