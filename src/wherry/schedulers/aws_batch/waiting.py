"""Waiting for apps: on the poller that all who wait in this process share.

A watch is kept open for a while after somebody has waited with it, since who waits mostly waits
again; each new watch costs a look. What the poller has just seen need not be asked for again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from wherry.aws import jobs
from wherry.aws.jobs import JobView
from wherry.aws.pacing import Seconds
from wherry.aws.polling import Watch
from wherry.schedulers.aws_batch.finding import KnownApp

LINGER: Seconds = 10.0
"""How long a watch is kept open for who may wait again."""

_JUST_NOW: Seconds = 1.0
_WHILE_WATCHED: Seconds = 5.0
_NOT_SUBMITTED: Seconds = 0.5
_MOST_KEPT = 1000

T = TypeVar("T")

_Key = tuple[str, int]
_Signature = tuple[object, ...]


@dataclass
class _Open:
    """A watch, and who uses it."""

    watch: Watch
    used_at: float = field(default_factory=time.monotonic)
    in_use: bool = True


class Waits:
    """Waits for apps. All methods may be called from any thread.

    Args:
        linger: how long a watch is kept open for who may wait again.

    Attributes:
        within: the longest pause between looks at what is waited for.
    """

    def __init__(self, linger: Seconds = LINGER) -> None:
        self.within: Seconds = float("inf")
        self._linger = linger
        self._lock = threading.Lock()
        self._open: dict[_Key, _Open] = {}
        self._seen: dict[str, tuple[float, dict[str, JobView]]] = {}
        self._told: dict[str, _Signature] = {}
        self._submitted: dict[str, float] = {}
        self._sweeper: threading.Timer | None = None

    def wait(self, app: KnownApp, timeout: Seconds, *, until_end: bool = False) -> None:
        """Block until an app has changed since its state was told, or for some seconds.

        Args:
            app: the app.
            timeout: seconds.
            until_end: return only when all of its jobs have ended, or are gone.

        Raises:
            AwsError: AWS does not let us look.
        """
        if not app.jobs:
            time.sleep(min(timeout, _NOT_SUBMITTED))
            return
        deadline = time.monotonic() + timeout
        key = (app.app_id, threading.get_ident())
        watch = self._take(key, app)
        try:
            while not watch.done:
                if not until_end and self._is_news(app.app_id, watch.latest):
                    break
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                watch.wait(left)
        finally:
            self._keep(app.app_id, watch)
            self._give_back(key, watch)

    def told(self, app_id: str, views: Mapping[str, JobView]) -> None:
        """Take note of what a caller was told; from then on, anything else is a change."""
        with self._lock:
            self._told[app_id] = _signature(views)
            _shorten(self._told)

    def known(self, app: KnownApp) -> dict[str, JobView]:
        """Return the jobs that were seen just now, or have ended."""
        with self._lock:
            at, views = self._seen.get(app.app_id, (0.0, {}))
            watched = any(app_id == app.app_id for app_id, _ in self._open)
        fresh = time.monotonic() - at <= (_WHILE_WATCHED if watched else _JUST_NOW)
        return {key: job for key, job in views.items() if fresh or job.ended}

    def submitted(self, app_id: str) -> None:
        """Take note of an app that AWS has just accepted."""
        with self._lock:
            self._submitted[app_id] = time.monotonic()
            _shorten(self._submitted)

    def known_or_new(self, app: KnownApp) -> dict[str, JobView]:
        """Return the same as `known`, and jobs that AWS has accepted just now as SUBMITTED."""
        with self._lock:
            at = self._submitted.get(app.app_id)
        if at is None or time.monotonic() - at > _JUST_NOW:
            return self.known(app)
        new = {job.id: JobView(job.id, jobs.SUBMITTED, job.arn, job.name) for job in app.jobs}
        return {**new, **self.known(app)}

    def forget(self, app_id: str) -> None:
        """Forget what was seen of an app: it was just changed, or removed."""
        with self._lock:
            self._seen.pop(app_id, None)
            self._submitted.pop(app_id, None)

    def close(self) -> None:
        """Close all watches; may be called many times."""
        with self._lock:
            opened, self._open = self._open, {}
            sweeper, self._sweeper = self._sweeper, None
        if sweeper is not None:
            sweeper.cancel()
        for each in opened.values():
            each.watch.close()

    # -- watches --------------------------------------------------------------------------------

    def _take(self, key: _Key, app: KnownApp) -> Watch:
        with self._lock:
            found = self._open.get(key)
            if found is not None:
                found.in_use = True
                return found.watch
        watch = app.aws.poller().watch(app.job_ids, within=self.within)
        with self._lock:
            self._open[key] = _Open(watch)
        return watch

    def _keep(self, app_id: str, watch: Watch) -> None:
        views = dict(watch.latest)
        with self._lock:
            if views:
                self._seen.pop(app_id, None)
                self._seen[app_id] = (time.monotonic(), views)
                _shorten(self._seen)

    def _give_back(self, key: _Key, watch: Watch) -> None:
        with self._lock:
            found = self._open.get(key)
            if found is not None:
                found.in_use, found.used_at = False, time.monotonic()
                if not watch.done:
                    self._sweep_later()
                    return
                del self._open[key]
        watch.close()

    def _sweep_later(self) -> None:
        """See to it that watches which nobody uses any more are closed; the lock is held."""
        if self._sweeper is None:
            self._sweeper = threading.Timer(self._linger, self._sweep)
            self._sweeper.daemon = True
            self._sweeper.start()

    def _sweep(self) -> None:
        oldest = time.monotonic() - self._linger
        with self._lock:
            unused = [
                key
                for key, each in self._open.items()
                if not each.in_use and each.used_at <= oldest
            ]
            closed = [self._open.pop(key) for key in unused]
            self._sweeper = None
            if any(not each.in_use for each in self._open.values()):
                self._sweep_later()
        for each in closed:
            each.watch.close()

    def _is_news(self, app_id: str, views: Mapping[str, JobView]) -> bool:
        with self._lock:
            return bool(views) and _signature(views) != self._told.get(app_id)


def _signature(views: Mapping[str, JobView]) -> _Signature:
    return tuple(
        (job.id, job.status, tuple(sorted(job.counts.items())), len(job.attempts))
        for job in sorted(views.values(), key=lambda job: job.id)
    )


def _shorten(table: dict[str, T]) -> None:
    while len(table) > _MOST_KEPT:
        del table[next(iter(table))]
