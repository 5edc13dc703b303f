"""Jobs as they change, described in full from the moment at which they have a log.

States come from the `Poller` that everybody shares, which follows the children of large arrays by
ListJobs; that says when a child runs, and not where its log is. Such children are described here,
100 in a call, once for each of their attempts.
"""

from __future__ import annotations

import time as _time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Protocol

from wherry.aws import lookup
from wherry.aws.calls import Calls
from wherry.aws.jobs import ENDED, RUNNING, JobView
from wherry.aws.log_places import FORGOTTEN
from wherry.aws.pacing import Clock, Seconds

_CALLS_AT_ONCE = 10
"""How many calls may be made before what they have shown is used."""

_REFRESH: Seconds = 60.0
"""How often some children are described that seem to run all the time: in a list, one that was
retried between two looks looks the same."""

_AGAIN: Seconds = 5.0
"""How long to wait before a job is described again that runs and names no log stream yet."""

Sleep = Callable[[Seconds], object]


class Watch(Protocol):
    """Tells what becomes of jobs; see `wherry.aws.polling.Watch`."""

    @property
    def latest(self) -> Mapping[str, JobView]:
        """What each job looked like the last time."""

    @property
    def gone(self) -> frozenset[str]:
        """The ids that AWS does not know, or no more."""

    @property
    def done(self) -> bool:
        """Whether nothing will change any more."""

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Wait until a job has changed, or for some time; tells which of both."""

    def close(self) -> None:
        """Wait no more."""


class Watching(Protocol):
    """Begins to watch jobs; `Poller.watch` does."""

    def __call__(self, ids: Iterable[str]) -> Watch:
        """Return a watch."""


class OneLook:
    """Jobs that are known to have ended: one look says all, and AWS may have forgotten them.

    Args:
        calls: asks AWS Batch.
        ids: which.
    """

    def __init__(self, calls: Calls, ids: Iterable[str]) -> None:
        self._calls = calls
        self._ids = tuple(ids)
        self.latest: dict[str, JobView] = {}
        self.gone: frozenset[str] = frozenset()
        self.done = False

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Look, the first time."""
        del timeout
        if self.done:
            return False
        self.latest = lookup.describe(self._calls, self._ids)
        self.gone = frozenset(self._ids) - self.latest.keys()
        self.done = True
        return True

    def close(self) -> None:
        """Do nothing."""


class JobFeed:
    """Some jobs, and what becomes of them; close it, or use it as a context.

    Args:
        calls: asks AWS Batch.
        watch: begins to watch jobs.
        ids: which; of arrays the children, of multi-node jobs the nodes.
        kept: what is known of jobs that AWS may have forgotten, by id.
        time: tells how time passes, in seconds.
        sleep: lets it pass.
    """

    def __init__(
        self,
        calls: Calls,
        watch: Watching,
        ids: Iterable[str],
        *,
        kept: Mapping[str, JobView] | None = None,
        time: Clock = _time.monotonic,
        sleep: Sleep = _time.sleep,
    ) -> None:
        self._calls = calls
        self._watch = watch(ids)
        self._kept = kept or {}
        self._time = time
        self._sleep = sleep
        self._seen: dict[str, JobView] = {}
        self._full: dict[str, JobView] = {}
        self._wanted: dict[str, Seconds] = {}
        self._gone: frozenset[str] = frozenset()
        self._first = True
        self._all_seen = False
        self._refresh_at = time() + _REFRESH
        self._refreshed: set[str] = set()

    def __enter__(self) -> JobFeed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def over(self) -> bool:
        """Whether nothing will change any more, and all that has changed was handed out."""
        return self._all_seen and not self._wanted

    def view(self, job_id: str) -> JobView | None:
        """Return what is known of a job; ``None`` for one that was never seen."""
        return self._full.get(job_id)

    def wait(self, timeout: Seconds) -> None:
        """Wait until a job has changed, or for some time.

        Raises:
            AwsError: AWS does not let us look.
        """
        if self._first:
            self._first = not self._watch.wait(timeout) and not self._watch.done
            return
        timeout = min([timeout, *(due - self._time() for due in self._wanted.values())])
        if timeout <= 0:
            return
        if self._watch.done:
            self._sleep(timeout)
        else:
            self._watch.wait(timeout)

    def changed(self) -> Iterator[JobView]:
        """Yield the jobs that have changed since the last time, each in full.

        Raises:
            AwsError: AWS refused to describe them, or does not answer.
        """
        done = self._watch.done
        self._want_some_again()
        yield from self._moved()
        yield from self._described()
        yield from self._lost()
        self._all_seen = done

    def _moved(self) -> Iterator[JobView]:
        now = self._time()
        for job_id, job in self._watch.latest.items():
            before = self._seen.get(job_id)
            if before is job:
                continue
            self._seen[job_id] = job
            if job.detailed:
                self._wanted.pop(job_id, None)
                self._full[job_id] = job
                yield job
            elif self._needs_more(job, before):
                self._wanted[job_id] = now
            elif job_id in self._full or job.ended:
                yield self._with_log(job)

    def _needs_more(self, job: JobView, before: JobView | None) -> bool:
        """Tell whether only DescribeJobs knows where a job's log is."""
        if job.status != RUNNING and job.status not in ENDED:
            return False
        known = self._full.get(job.id)
        if known is None or not known.attempts:
            return True
        if job.ended:
            return known.attempts_allowed > 1 or not known.attempts[-1].log_streams
        return before is None or before.started_at != job.started_at

    def _with_log(self, job: JobView) -> JobView:
        """Return a job from a list with the attempts that it is known to have."""
        known = self._full.get(job.id)
        if known is not None:
            job = replace(
                job,
                attempts=known.attempts,
                attempts_allowed=known.attempts_allowed,
                containers=known.containers,
                created_at=known.created_at,
            )
        self._full[job.id] = job
        return job

    def _want_some_again(self) -> None:
        """Once a minute, want some running children that may have been retried described again."""
        now = self._time()
        if now < self._refresh_at:
            return
        self._refresh_at = now + _REFRESH
        running = [
            job_id
            for job_id, job in self._seen.items()
            if job.status == RUNNING and not job.detailed and self._may_be_retried(job_id)
        ]
        chosen = [each for each in running if each not in self._refreshed] or running
        if chosen is running:
            self._refreshed.clear()
        chosen = chosen[: lookup.AT_ONCE]
        self._refreshed.update(chosen)
        self._wanted.update(dict.fromkeys(chosen, now))

    def _may_be_retried(self, job_id: str) -> bool:
        known = self._full.get(job_id)
        return known is not None and known.attempts_allowed > 1

    def _described(self) -> Iterator[JobView]:
        now = self._time()
        due = [job_id for job_id, at in self._wanted.items() if at <= now]
        due = due[: _CALLS_AT_ONCE * lookup.AT_ONCE]
        if not due:
            return
        found = lookup.describe(self._calls, due)
        for job_id in due:
            job = found.get(job_id)
            if job is None or (job.status == RUNNING and not _has_log(job)):
                self._wanted[job_id] = now + _AGAIN
                if job is None and self._seen[job_id].ended:
                    del self._wanted[job_id]  # forgotten since it was listed
                    yield self._forgotten(job_id)
                continue
            del self._wanted[job_id]
            self._full[job_id] = job
            yield job

    def _lost(self) -> Iterator[JobView]:
        gone = self._watch.gone
        new, self._gone = gone - self._gone, gone
        for job_id in new:
            yield self._forgotten(job_id)

    def _forgotten(self, job_id: str) -> JobView:
        """Return what is known of a job that AWS has forgotten."""
        known = self._kept.get(job_id) or self._full.get(job_id) or JobView(job_id, FORGOTTEN)
        self._full[job_id] = replace(known, status=FORGOTTEN)
        return self._full[job_id]

    def close(self) -> None:
        """Watch no more; may be called many times."""
        self._watch.close()


def _has_log(job: JobView) -> bool:
    return any(attempt.containers for attempt in job.attempts)
