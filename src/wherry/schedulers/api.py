"""The contract of a scheduler, and the answers that it gives.

Nothing here knows of a particular scheduler, of configuration files or of the ledger.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Generic, TypeVar

from wherry.errors import InvalidSpecError, UnknownAppError, UsageError
from wherry.specs.app import MISSING, AppDef, Role
from wherry.specs.options import CfgVal, runopts
from wherry.specs.states import AppState
from wherry.specs.status import AppStatus, RoleStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wherry.schedulers.shipping import Shipment, Shipping
    from wherry.specs.diagnosis import Diagnosis, Finding

T = TypeVar("T")


class Stream(str, Enum):
    """Which output of a replica is meant."""

    STDOUT = "stdout"
    STDERR = "stderr"
    COMBINED = "combined"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class LogChunk:
    """Bytes that a replica wrote; whole lines, where the app has more than one replica."""

    role: str
    replica: int
    data: bytes


class AppDryRunInfo(Generic[T]):
    """A request, ready to be looked at, edited and scheduled.

    Args:
        request: what will be sent; typed by its scheduler, and editable.
        scheduler: the scheduler's name.
        app: the app that it was made from.
        cfg: the options that it was made with, resolved.
        warnings: what the scheduler will not honour, by name.
        shipments: the code that goes with the app.
        preparations: what has to be done before it is scheduled, such as sending that code; the
            Runner does it. Doing it twice does no harm.
    """

    def __init__(
        self,
        request: T,
        *,
        scheduler: str,
        app: AppDef,
        cfg: Mapping[str, CfgVal],
        warnings: Sequence[str] = (),
        shipments: Sequence[Shipment] = (),
        preparations: Sequence[Callable[[], None]] = (),
    ) -> None:
        self.request = request
        self.scheduler = scheduler
        self.app = app
        self.cfg = dict(cfg)
        self.warnings = list(warnings)
        self.shipments = list(shipments)
        self.preparations = list(preparations)

    def __str__(self) -> str:
        return str(self.request)

    def __repr__(self) -> str:
        return f"AppDryRunInfo({self.scheduler}, {self.request!r})"


@dataclass(frozen=True)
class DescribeAppResponse:
    """All that a scheduler knows of one app.

    Args:
        app_id: its id at the scheduler.
        state: its state.
        num_restarts: attempts beyond each replica's first.
        msg: why it is in this state, in words.
        structured_error_msg: the error file (JSON) of the failure that came first, or empty.
        ui_url: where more can be seen.
        roles_statuses: each role's replicas and their attempts.
        roles: the roles as they were submitted, as far as the scheduler can tell.
        app: the whole app, when our own record has it.
        raw_state: the provider's word for the state, where it has one.
        created_at, started_at, ended_at: seconds since the epoch.
        metadata: what else there is, such as where the logs are.
    """

    app_id: str
    state: AppState = AppState.UNSUBMITTED
    num_restarts: int = 0
    msg: str = ""
    structured_error_msg: str = ""
    ui_url: str | None = None
    roles_statuses: tuple[RoleStatus, ...] = ()
    roles: tuple[Role, ...] = ()
    app: AppDef | None = None
    raw_state: str | None = None
    created_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)

    def to_status(self) -> AppStatus:
        """Return the part that changes while the app runs."""
        return AppStatus(
            state=self.state,
            num_restarts=self.num_restarts,
            msg=self.msg,
            structured_error_msg=self.structured_error_msg,
            ui_url=self.ui_url,
            roles=self.roles_statuses,
        )


@dataclass(frozen=True)
class ListAppResponse:
    """One line of a list of apps.

    Args:
        app_id: its id at the scheduler.
        state: its state.
        app_handle: its name for every other command.
        name: the app's name.
        created_at, ended_at: seconds since the epoch.
        msg: why it is in this state, in words.
        replicas: how many there are.
        session: the session that submitted it.
        user: whom it is filed under, where the scheduler keeps that.
        tags: its tags, where the scheduler has such.
    """

    app_id: str
    state: AppState
    app_handle: str = ""
    name: str = ""
    created_at: float | None = None
    ended_at: float | None = None
    msg: str = ""
    replicas: int = 0
    session: str = ""
    user: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ListFilter:
    """Which apps a list is asked for; a field at its default lets all through.

    Args:
        states: only apps in one of these states.
        name: only apps whose name begins so.
        session: only apps of this session.
        since: only apps created at or after this (seconds since the epoch).
        limit: at most so many.
        user: only apps filed under this user.
        tags: only apps with these tags.
    """

    states: frozenset[AppState] = frozenset()
    name: str = ""
    session: str | None = None
    since: float | None = None
    limit: int | None = None
    user: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)

    def accepts(self, app: ListAppResponse) -> bool:
        """Tell whether an app belongs on the list (the limit aside)."""
        return (
            (not self.states or app.state in self.states)
            and app.name.startswith(self.name)
            and (self.session is None or app.session == self.session)
            and (self.since is None or (app.created_at or 0) >= self.since)
            and (not self.user or app.user == self.user)
            and self.tags.items() <= app.tags.items()
        )


class Scheduler(abc.ABC, Generic[T]):
    """One place to run apps.

    Args:
        backend: the scheduler's name, the first part of its handles.
        session_name: the session, the second part.
    """

    attached = False
    """Whether an app ends with the process that submitted it, until `detach` is called."""

    remote = False
    """Whether its apps run elsewhere and often for long, so that `wherry run` does not stay."""

    journaled = False
    """Whether it writes to the journal (see `journal`), so that the ledger knows its apps."""

    workspace_mode = ""
    """How it takes a workspace where options do not decide (see `shipping`); empty: not at all."""

    poll_seconds = 1.0
    """How long a scheduler that is not told of changes waits before it looks again."""

    def __init__(self, backend: str, session_name: str) -> None:
        self.backend = backend
        self.session_name = session_name

    @abc.abstractmethod
    def run_opts(self) -> runopts:
        """Return the options that this scheduler takes."""

    @abc.abstractmethod
    def submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[T]:
        """Turn an app into the request that would be sent; nothing is started.

        Args:
            app: what to run; it is not changed.
            cfg: run options, resolved or not.

        Raises:
            UsageError: the app or an option cannot be right for this scheduler.
        """

    def shipping(self, cfg: Mapping[str, CfgVal]) -> Shipping:
        """Say how a workspace gets to an app with these run options.

        Args:
            cfg: run options, resolved.

        Raises:
            UsageError: the options are not enough, or contradict each other.
        """
        from wherry.schedulers.shipping import Shipping

        return Shipping(self.workspace_mode, quiet=bool(cfg.get("quiet")))

    def settled(self, dryrun_info: AppDryRunInfo[T]) -> AppDryRunInfo[T]:
        """Look up what a dry run could not know, before it is scheduled; nothing is started.

        Who does not call this has it done by `schedule`, and does not see the warnings.

        Returns:
            The request and its warnings, as they will be; the same by default.

        Raises:
            UsageError: it turns out that it cannot be right.
        """
        return dryrun_info

    @abc.abstractmethod
    def schedule(self, dryrun_info: AppDryRunInfo[T]) -> str:
        """Start what a dry run made, edited or not.

        Returns:
            The app's id.

        Raises:
            LaunchError: it was not started, and nothing was left behind.
        """

    def submit(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> str:
        """Make the request and start it; returns the app's id."""
        return self.schedule(self.submit_dryrun(app, cfg))

    @abc.abstractmethod
    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Tell all about an app; ``None`` only if it never existed."""

    def statuses(self, app_ids: Sequence[str]) -> dict[str, AppStatus | None]:
        """Tell the status of many apps at once; ``None`` for one that never existed."""
        return {app_id: self._status(app_id) for app_id in app_ids}

    def _status(self, app_id: str) -> AppStatus | None:
        described = self.describe(app_id)
        return None if described is None else described.to_status()

    def exists(self, app_id: str) -> bool:
        """Tell whether an app is or ever was known."""
        return self.describe(app_id) is not None

    @abc.abstractmethod
    def list(self, chosen: ListFilter = ListFilter()) -> Iterator[ListAppResponse]:
        """List apps, newest first."""

    def recorded(self) -> Iterator[ListAppResponse]:
        """List the apps that this machine has records of, newest first, as they were last known.

        That is what the ledger is made of; a scheduler whose `list` asks somebody else overrides
        this.
        """
        return self.list()

    def unrecorded(self, *, own: bool = False) -> Iterator[ListAppResponse]:
        """List the apps that are known where they run, and have no record on this machine.

        Args:
            own: only those that had one here once, have ended, and may be forgotten.

        Returns:
            None by default.
        """
        del own
        return iter(())

    @abc.abstractmethod
    def cancel(self, app_id: str, reason: str = "", *, kill: bool = False) -> None:
        """Ask for an app's end; does nothing to one that has ended.

        Args:
            app_id: the app.
            reason: kept, unless an earlier one was given.
            kill: skip the grace that programs get to clean up.

        Raises:
            UnknownAppError: there is no such app.
        """

    @abc.abstractmethod
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
    ) -> Iterable[str]:
        r"""Iterate over the log lines of one replica.

        Args:
            app_id: the app.
            role_name: the role.
            k: the replica's index.
            regex: only lines in which this is found.
            since: only lines written at or after this time.
            until: only lines written before this time.
            should_tail: follow the log until the app's end; without it, return what there is.
            streams: which output; combined when ``None``.
            attempt: only this attempt (from 1); all of them, in order, when ``None``.

        Returns:
            Lines with their ``\n``; indexing seeks (``lines[50]``). A tail may hand out the parts
            of a progress bar, which end in ``\r``.

        Raises:
            UnknownAppError: there is no such app.
            UnknownNameError: the app has no such role or replica.
            ValueError: the stream is not offered, or the regular expression is not one.
        """

    def log_bytes(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        stream: Stream = Stream.COMBINED,
        *,
        attempt: int | None = None,
    ) -> Iterator[bytes]:
        """Read what there is of one replica's log, in chunks, as the program wrote it."""
        for line in self.log_iter(app_id, role_name, k, streams=stream, attempt=attempt):
            yield line.encode(errors="surrogateescape")

    def follow(self, app_id: str, stream: Stream = Stream.COMBINED) -> Iterator[LogChunk]:
        """Read the logs of all replicas as they are written, until the app's last byte.

        This one takes the replicas one after the other; a scheduler that can do better does.

        Raises:
            UnknownAppError: there is no such app.
        """
        described = self.describe(app_id)
        if described is None:
            raise UnknownAppError(f"there is no app {app_id!r} at {self.backend}")
        for role in described.roles_statuses:
            for replica in role.replicas:
                lines = self.log_iter(
                    app_id, role.role, replica.id, should_tail=True, streams=stream
                )
                for line in lines:
                    data = line.encode(errors="surrogateescape")
                    yield LogChunk(role.role, replica.id, data)

    def why(self, app_id: str) -> Diagnosis:
        """Say why an app is in its state: causes, most likely first, and what to do.

        This one says what `describe` and the log tell; a scheduler that can look further does.

        Raises:
            UnknownAppError: there is no such app.
        """
        described = self.describe(app_id)
        if described is None:
            raise UnknownAppError(f"there is no app {app_id!r} at {self.backend}")
        from wherry.schedulers.explaining import explain

        return explain(self, described)

    def preflight(self, dryrun_info: AppDryRunInfo[T]) -> Sequence[Finding]:
        """Say what would keep a request from ever running, before it is sent.

        Returns:
            Findings, surest first; with a certain one the app could never run. None by default.
        """
        del dryrun_info
        return ()

    def forget(self, app_id: str) -> None:
        """Remove our own record of an app that has ended.

        Raises:
            StateError: it has not ended.
        """

    def wait_for_change(self, app_id: str, timeout: float, *, until_end: bool = False) -> None:
        """Block until an app may have changed, or for ``timeout`` seconds.

        A scheduler that is told of changes overrides this; by default it is a pause.

        Args:
            app_id: the app.
            timeout: seconds.
            until_end: return only when the app may have ended.
        """
        import time

        del app_id, until_end
        time.sleep(min(timeout, self.poll_seconds))

    def monotonic(self) -> float:
        """Return seconds of the clock that `wait_for_change` counts by."""
        import time

        return time.monotonic()

    def configure(self, options: Callable[[], Mapping[str, CfgVal]]) -> None:
        """Be told where the configured options are, for questions that come without any.

        A region, say, for an app that somebody else has submitted. Read when they are needed.
        """

    def detach(self, app_id: str) -> None:
        """Let an app go on when this process ends; does nothing where that is so anyway."""

    def close(self) -> None:
        """Let go of what this object holds; may be called many times."""

    def check(self, app: AppDef) -> None:
        """Refuse an app that no scheduler could run.

        Raises:
            InvalidSpecError: it has no roles, or a role without an entrypoint.
        """
        if not app.roles:
            raise InvalidSpecError(f"app {app.name!r} has no roles; there is nothing to run")
        for role in app.roles:
            if role.entrypoint == MISSING:
                raise InvalidSpecError(f"role {role.name!r} has no entrypoint")


def compiled(regex: str | None) -> re.Pattern[str] | None:
    """Compile a user's regular expression.

    Raises:
        UsageError: it is not one.
    """
    if regex is None:
        return None
    try:
        return re.compile(regex)
    except re.error as error:
        raise UsageError(f"{regex!r} is not a regular expression: {error}") from None


Request = Any
"""A request of some scheduler, where the kind does not matter."""
