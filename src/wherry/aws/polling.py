"""Waiting for jobs: one thread looks at all of them, for everybody who waits.

A `Poller` serves all watches of one identity in one region. It looks quickly while something
changes and slowly while nothing does, at once when somebody new comes, and not at all when nobody
waits: then there is no thread. Trouble that may pass (throttling, no network) makes it wait longer,
and what was known stays; what does not pass (credentials, rights) is told to those who wait.
"""

from __future__ import annotations

import threading
import time as _time
import weakref
from collections.abc import Iterable, Mapping
from types import TracebackType

from wherry.aws.cadence import Cadence
from wherry.aws.calls import Calls
from wherry.aws.jobs import JobView
from wherry.aws.pacing import Clock, Seconds
from wherry.aws.rounds import VISIBLE_WITHIN, Found, Rounds
from wherry.errors import AwsError, WherryError

_GATHERING: Seconds = 0.02
"""How long somebody new waits for others who come at the same time."""


class Watch:
    """Some jobs that somebody waits for; close it, or use it as a context.

    A watch that is dropped without being closed is forgotten.

    Args:
        poller: looks at them.
        ids: which.
        within: how long a look may be put off, however little changes.
    """

    def __init__(self, poller: Poller, ids: frozenset[str], within: Seconds = float("inf")) -> None:
        self._poller = poller
        self.ids = ids
        self.within = within
        self._latest: dict[str, JobView] = {}
        self._gone: set[str] = set()
        self._open = set(ids)
        self._changed = False
        self._error: WherryError | None = None
        self._closed = False

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def latest(self) -> Mapping[str, JobView]:
        """What each job looked like the last time; without those that were never seen."""
        with self._poller.changes:
            return dict(self._latest)

    @property
    def gone(self) -> frozenset[str]:
        """The ids that AWS does not know, or no more; `latest` may still have them."""
        with self._poller.changes:
            return frozenset(self._gone)

    @property
    def done(self) -> bool:
        """Whether nothing will change any more: all have ended, or are gone."""
        with self._poller.changes:
            return not self._open

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Wait until a job has changed since the last `wait`, or was seen for the first time.

        Args:
            timeout: the longest wait; ``None`` for no bound.

        Returns:
            Whether something has changed. Without waiting ``False`` when nothing can change any
            more.

        Raises:
            AwsError: AWS does not let us look; who waits again lets it be tried again.
        """
        deadline = None if timeout is None else _time.monotonic() + timeout
        with self._poller.changes:
            while not self._changed and self._error is None and self._open and not self._closed:
                left = None if deadline is None else deadline - _time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._poller.changes.wait(left)
            if self._changed:
                self._changed = False
                return True
            error, self._error = self._error, None
        if error is not None:
            raise error
        return False

    def close(self) -> None:
        """Wait no more; may be called many times."""
        self._poller.drop(self)

    # -- told by the poller, which holds its lock -------------------------------------------------

    def take(self, views: Mapping[str, JobView]) -> None:
        """Take over what jobs look like now."""
        mine = self.ids & views.keys()
        for job_id in mine:
            job = views[job_id]
            self._latest[job_id] = job
            self._gone.discard(job_id)
            if job.ended:
                self._open.discard(job_id)
        self._changed = self._changed or bool(mine)

    def lose(self, gone: set[str]) -> None:
        """Take note of jobs that AWS does not know."""
        mine = self._open & gone
        self._gone |= mine
        self._open -= mine
        self._changed = self._changed or bool(mine)

    def fail(self, error: WherryError) -> None:
        """Take note that AWS does not let us look."""
        self._error = error

    def end(self) -> None:
        """Be closed."""
        self._closed = True

    @property
    def open(self) -> frozenset[str]:
        """The ids that may still change."""
        return frozenset(self._open)


class Poller:
    """Looks at jobs for everybody who waits for some. All methods may be called from any thread.

    Args:
        calls: asks AWS Batch.
        cadence: how long to wait between looks.
        time: tells how time passes, in seconds.
        visible_within: how long a job that was never seen may yet appear.

    Attributes:
        changes: held while watches change, and notified afterwards.
    """

    def __init__(
        self,
        calls: Calls,
        *,
        cadence: Cadence | None = None,
        time: Clock = _time.monotonic,
        visible_within: Seconds = VISIBLE_WITHIN,
    ) -> None:
        self.changes = threading.Condition()
        self._cadence = cadence or Cadence()
        self._time = time
        self._rounds = Rounds(calls, time=time, visible_within=visible_within)
        self._watches: weakref.WeakSet[Watch] = weakref.WeakSet()
        self._due = 0.0
        self._new = False
        self._thread: threading.Thread | None = None

    def watch(self, ids: Iterable[str], *, within: Seconds = float("inf")) -> Watch:
        """Begin to watch jobs.

        Args:
            ids: AWS's job ids; ARNs do as well, but jobs are told by their ids. Of an array, its
                own id gives its counts, and its children's ids what each of them does; many
                children of one array cost little more than the array.
            within: the longest pause between looks; the poller's own when not given.

        Returns:
            A watch; its first `Watch.wait` returns when the jobs were looked at.
        """
        watch = Watch(self, frozenset(job_id.rpartition("/")[2] for job_id in ids), within)
        with self.changes:
            self._watches.add(watch)
            self._new = True
            self._cadence.reset()
            if self._thread is None:
                self._due = float("inf")
                self._thread = threading.Thread(target=self._run, name="wherry-poll", daemon=True)
                self._thread.start()
            self.changes.notify_all()
        return watch

    def drop(self, watch: Watch) -> None:
        """Forget a watch; `Watch.close` does this."""
        with self.changes:
            watch.end()
            self._watches.discard(watch)
            self.changes.notify_all()

    @property
    def idle(self) -> bool:
        """Whether nobody waits, and no thread runs."""
        with self.changes:
            return self._thread is None

    # -- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self.changes:
                only_new = self._wait_until_due()
                wanted = self._wanted()
                if not wanted:
                    self._thread = None
                    self.changes.notify_all()
                    return
            self._look(wanted, only_new=only_new)

    def _wait_until_due(self) -> bool:
        """Wait for the time of the next look, or for somebody new; tell whether it was the latter.

        Somebody new is given what is known at once, and the rest after a look at it alone.
        """
        while self._wanted():
            if self._new:
                self._gather()
                self._greet()
                return True
            left = self._due - self._time()
            if left <= 0:
                return False
            self.changes.wait(left)
        return False

    def _gather(self) -> None:
        """Let others come who come at the same time."""
        end = _time.monotonic() + _GATHERING
        while (left := end - _time.monotonic()) > 0:
            self.changes.wait(left)
        self._new = False

    def _wanted(self) -> frozenset[str]:
        return frozenset().union(*(watch.open for watch in self._watches))

    def _greet(self) -> None:
        for watch in self._watches:
            known = {job_id: self._rounds.view(job_id) for job_id in watch.ids}
            unseen = {
                job_id: job
                for job_id, job in known.items()
                if job is not None and job_id not in watch.latest
            }
            if unseen:
                watch.take(unseen)
        self.changes.notify_all()

    def _look(self, wanted: frozenset[str], *, only_new: bool) -> None:
        try:
            found = self._rounds.look(wanted, only_new=only_new)
        except Exception as error:  # noqa: BLE001 — nobody may wait for a thread that has died
            found = Found(error=AwsError(f"jobs cannot be watched: {error!r}"))
        with self.changes:
            self._publish(found)
            if found.error is None:
                due = self._time() + self._pause(found)
                self._due = min(self._due, due) if only_new else due
            else:
                self._due = self._time() + self._cadence.troubled()
            self.changes.notify_all()

    def _pause(self, found: Found) -> Seconds:
        pause = self._cadence.after(
            changed=bool(found.moved or found.gone), counted=bool(found.counted), calls=found.calls
        )
        return min([pause, *(watch.within for watch in self._watches)])

    def _publish(self, found: Found) -> None:
        views = {**found.counted, **found.moved}
        for watch in self._watches:
            watch.take(views)
            watch.lose(found.gone)
            if found.error is not None and not _is_passing(found.error):
                watch.fail(found.error)


def _is_passing(error: WherryError) -> bool:
    return isinstance(error, AwsError) and error.passing
