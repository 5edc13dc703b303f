"""All apps of all schedulers: listed, found by a short name, and taken off when they are old.

Schedulers that keep the journal are answered for by the ledger, and only their open apps are
asked about; the others are asked for their lists. Whoever cannot answer is named in ``problems``
and the rest is shown.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from wherry.errors import (
    InvalidHandleError,
    PluginError,
    UnknownAppError,
    UsageError,
    WherryError,
    nearest,
)
from wherry.runner.ledger import Ledger, LedgerUnavailableError, prunable
from wherry.schedulers.api import ListFilter
from wherry.specs.handles import AppHandle, parse_app_handle
from wherry.specs.states import TERMINAL_STATES, AppState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wherry.runner.schedulers import SchedulerTable
    from wherry.schedulers.api import ListAppResponse, Scheduler
    from wherry.specs.status import AppStatus

    News = tuple[str, AppState, str, float | None]

OPEN_STATES = frozenset(AppState) - TERMINAL_STATES
_SUGGESTED_FROM = 500
"""How many of the newest apps are looked through for a name that is nearly right."""
_SHOWN = 12


class AppIndex:
    """The apps that the schedulers of one session know.

    Args:
        schedulers: the schedulers.
    """

    def __init__(self, schedulers: SchedulerTable) -> None:
        self._schedulers = schedulers
        self._ledger = Ledger(sources=self._journaling)
        self._problems: list[str] = []

    @property
    def problems(self) -> list[str]:
        """A sentence for each thing that went wrong without ending what was asked for."""
        return list(dict.fromkeys(self._ledger.problems + self._problems))

    def apps(self, scheduler: str | None, chosen: ListFilter) -> list[ListAppResponse]:
        """List apps, newest first.

        Args:
            scheduler: only those of one scheduler; all when ``None``.
            chosen: which ones.

        Raises:
            UnknownNameError: there is no such scheduler.
            PluginError: the one scheduler that was named does not load.
        """
        names = self._schedulers.names() if scheduler is None else [scheduler]
        asked = [name for name in names if not self._keeps_journal(name, scheduler is not None)]
        unindexed = bool(chosen.user or chosen.tags)  # the ledger knows neither
        asked = names if unindexed else asked
        found: list[ListAppResponse] = []
        if not unindexed and (scheduler is None or not asked):
            try:
                found += self._from_ledger(scheduler, chosen)
                found += self._unrecorded(scheduler, chosen)
            except LedgerUnavailableError as error:
                self._note_no_ledger(error)
                asked = names
        for name in asked:
            found += self._asked(name, chosen, must_answer=scheduler is not None)
        if asked or scheduler is not None:
            found.sort(key=lambda app: app.created_at or 0, reverse=True)
        return found[: chosen.limit]

    def find(self, text: str) -> AppHandle:
        """Find the app that has this id, or the only one whose id begins so.

        Raises:
            UnknownAppError: nothing begins so.
            InvalidHandleError: more than one app does.
        """
        found = self._beginning_with(text)
        matches = [handle for app_id, handle in found if app_id == text]
        matches = matches or [handle for _, handle in found]
        if not matches:
            raise self.unknown(text)
        if len(matches) > 1:
            raise InvalidHandleError(_ambiguous(text, matches))
        return parse_app_handle(matches[0])

    def unknown(self, text: str) -> UnknownAppError:
        """Word the error for an app that nobody knows, with the nearest one that there is."""
        wanted = text.partition("://")[2].partition("/")[2] or text
        handles = {app.app_id: app.app_handle for app in reversed(self._newest())}
        close = nearest(wanted, handles)
        hint = f"did you mean {handles[close]}? " if close else ""
        return UnknownAppError(f"no record of app {text!r}; {hint}`wherry list` shows all apps")

    def rebuild(self) -> int:
        """Make the ledger again from the schedulers' own records.

        Returns:
            How many apps it holds.

        Raises:
            LedgerUnavailableError: it cannot be written.
        """
        for problem in self._ledger.rebuild(self._journaling()):
            self._note(problem)
        self._ledger.sync()
        return len(self._ledger.apps())

    def prune(
        self, older_than: float | None, states: frozenset[AppState], *, dry_run: bool
    ) -> list[ListAppResponse]:
        """Remove the records of apps that have ended.

        Args:
            older_than: only those that ended so many seconds ago.
            states: only those in one of these states; all that have ended when empty.
            dry_run: only tell which they are.

        Returns:
            The apps that were, or would be, removed.

        Raises:
            UsageError: a state in which an app has not ended.
        """
        for state in sorted(states - TERMINAL_STATES):
            raise UsageError(
                f"apps that are {state} have not ended and cannot be pruned; cancel them first"
            )
        apps = [*self.apps(None, ListFilter(states=states)), *self._leftovers()]
        chosen = prunable(apps, older_than=older_than, states=states, now=time.time())
        if dry_run:
            return chosen
        removed: list[ListAppResponse] = []
        try:
            removed.extend(app for app in chosen if self._remove(app))
        finally:
            self._take_off(removed)
        return removed

    def _keeps_journal(self, name: str, must_load: bool) -> bool:
        try:
            return self._schedulers.keeps_journal(name)
        except Exception:
            if must_load:
                raise
            return False  # it will be asked for its list, and say there what is wrong

    def _journaling(self) -> dict[str, Scheduler[Any]]:
        """Return the schedulers that the ledger can be rebuilt from."""
        chosen = {}
        for name in self._schedulers.names():
            try:
                if self._schedulers.keeps_journal(name):
                    chosen[name] = self._schedulers.get(name)
            except Exception as error:  # noqa: BLE001 — the others must not suffer
                self._note(_cannot(name, "be used", error))
        return chosen

    def _from_ledger(self, scheduler: str | None, chosen: ListFilter) -> list[ListAppResponse]:
        self._ledger.sync()
        still_open = replace(chosen, states=OPEN_STATES, limit=None)
        self._refresh(self._ledger.apps(still_open, scheduler))
        return self._ledger.apps(chosen, scheduler)

    def _refresh(self, apps: Iterable[ListAppResponse]) -> None:
        """Bring apps that had not ended up to date, with one question to each scheduler."""
        by_scheduler: dict[str, list[ListAppResponse]] = {}
        for app in apps:
            by_scheduler.setdefault(_scheduler_of(app), []).append(app)
        news: list[News] = []
        gone: list[str] = []
        for name, group in by_scheduler.items():
            for app, status in self._statuses(name, group):
                if status is None:
                    gone.append(app.app_handle)
                elif (status.state, status.msg) != (app.state, app.msg):
                    news.append((app.app_handle, status.state, status.msg, _ended_at(status)))
        self._ledger.mark_all(news)
        self._ledger.forget(gone)

    def _statuses(
        self, name: str, apps: list[ListAppResponse]
    ) -> Iterator[tuple[ListAppResponse, AppStatus | None]]:
        try:
            answers = self._schedulers.get(name).statuses([app.app_id for app in apps])
        except Exception as error:  # noqa: BLE001 — the others must not suffer
            self._note(_cannot(name, "answer; its apps are shown as last known", error))
            return
        for app in apps:
            if app.app_id in answers:
                yield app, answers[app.app_id]

    def _asked(self, name: str, chosen: ListFilter, *, must_answer: bool) -> list[ListAppResponse]:
        try:
            apps = self._schedulers.get(name).list(chosen)
            return list(islice(filter(chosen.accepts, apps), chosen.limit))
        except Exception as error:
            if must_answer:
                raise
            self._note(_cannot(name, "list its apps", error))
            return []

    def _beginning_with(self, text: str) -> list[tuple[str, str]]:
        try:
            self._ledger.sync()
            found = self._ledger.beginning_with(text)
        except LedgerUnavailableError as error:
            self._note_no_ledger(error)
            found = []
        return found or [
            (app.app_id, app.app_handle)
            for app in self.apps(None, ListFilter())
            if app.app_id.startswith(text) or _without_queue(app.app_id).startswith(text)
        ]

    def _newest(self) -> list[ListAppResponse]:
        return self.apps(None, ListFilter(limit=_SUGGESTED_FROM))

    def _unrecorded(self, scheduler: str | None, chosen: ListFilter) -> list[ListAppResponse]:
        """List what the one scheduler that was named knows besides our own records."""
        if scheduler is None:
            return []
        try:
            found = [*self._schedulers.get(scheduler).unrecorded()]
        except WherryError as error:
            self._note(_cannot(scheduler, "list what has no record here", error))
            return []
        return [app for app in found if chosen.accepts(app)]

    def _leftovers(self) -> list[ListAppResponse]:
        """List what is left of apps whose records are gone; where nobody can tell, nothing."""
        found: list[ListAppResponse] = []
        for name in self._schedulers.names():
            try:
                found += self._schedulers.get(name).unrecorded(own=True)
            except Exception:  # noqa: BLE001, S112 — another package's scheduler, or no Engine here
                continue
        return found

    def _remove(self, app: ListAppResponse) -> bool:
        name = _scheduler_of(app)
        try:
            self._schedulers.get(name).forget(app.app_id)
        except UnknownAppError:
            return True
        except Exception as error:  # noqa: BLE001 — the others can still go
            self._note(_cannot(name, f"remove {app.app_id}", error))
            return False
        return True

    def _take_off(self, apps: list[ListAppResponse]) -> None:
        try:
            self._ledger.forget(app.app_handle for app in apps)
            self._ledger.compact()
        except LedgerUnavailableError as error:
            self._note_no_ledger(error)

    def _note_no_ledger(self, error: LedgerUnavailableError) -> None:
        self._note(f"{error}; the schedulers are asked instead")

    def _note(self, problem: str) -> None:
        self._problems.append(problem)


def _without_queue(app_id: str) -> str:
    """Return the part of an id that Wherry has chosen; AWS Batch's begin with the queue."""
    return app_id.rpartition(":")[2]


def _scheduler_of(app: ListAppResponse) -> str:
    return app.app_handle.partition("://")[0]


def _ended_at(status: AppStatus) -> float | None:
    """Return when the last attempt ended, for an app of which nothing will run any more."""
    if not status.is_terminal():
        return None
    ends = [
        attempt.ended_at
        for role in status.roles
        for replica in role.replicas
        for attempt in replica.attempts
        if attempt.ended_at is not None
    ]
    return max(ends, default=None)


def _ambiguous(text: str, handles: list[str]) -> str:
    more = f", and {len(handles) - _SHOWN} more" if len(handles) > _SHOWN else ""
    return (
        f"{text!r} begins the id of {len(handles)} apps: {', '.join(handles[:_SHOWN])}{more}; "
        "write more of it, or the whole handle"
    )


def _cannot(name: str, what: str, error: Exception) -> str:
    if isinstance(error, PluginError):
        return str(error)  # it names the scheduler, and the plug-in besides
    kind = "" if isinstance(error, WherryError) else f"{type(error).__name__}: "
    return f"scheduler {name} cannot {what}: {kind}{error}"
