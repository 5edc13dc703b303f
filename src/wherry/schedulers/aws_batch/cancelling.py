"""Ending an app on purpose: cancel what waits, terminate what has got further, forget no reason.

CancelJob does nothing, silently, to a job that has got beyond RUNNABLE; so jobs are looked at
again, and those that slipped by are terminated. Of arrays and gangs the whole is terminated, which
reaches all children in whatever state. Either call overwrites the reason that AWS had for a job's
state; it is kept in our record, and behind the new one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from wherry.aws import jobs, lookup
from wherry.aws.calls import Calls
from wherry.aws.jobs import JobView
from wherry.schedulers.aws_batch.ending import end_jobs
from wherry.schedulers.aws_batch.finding import KnownApp
from wherry.schedulers.aws_batch.record import Wish

DEFAULT_REASON = "cancelled"

_BEFORE = " (before: {words})"
_REASON = 1024


def cancel(app: KnownApp, reason: str) -> bool:
    """Ask for an app's end; does nothing to what has ended, or is to end already.

    Args:
        app: the app.
        reason: why; kept unless an earlier one was given.

    Returns:
        Whether there was something to end.

    Raises:
        AwsError: AWS refused, or does not answer.
    """
    calls = app.aws.calls()
    views = lookup.describe(calls, app.job_ids)
    living = [job for job in views.values() if not job.ended]
    if not living:
        return False
    wish = _noted(app, " ".join(reason.split()) or DEFAULT_REASON, living)
    asked = [job for job in living if not (job.is_cancelled or job.is_terminated)]
    waiting = [job for job in asked if job.kind == "single" and job.status in jobs.WAITING]
    text = _told(wish, asked)
    end_jobs(calls, _ids(job for job in asked if job not in waiting), text)
    end_jobs(calls, _ids(waiting), text, waiting=True)
    slipped = _slipped(calls, waiting)
    end_jobs(calls, slipped, text)
    return True


def _noted(app: KnownApp, reason: str, living: Iterable[JobView]) -> Wish:
    """Note the wish in the record; returns the first one."""
    if app.record is None:
        return app.wish or Wish(reason, time.time())
    before = {job.id: job.reason for job in living if job.reason}
    return app.record.note_wish(Wish(reason, time.time(), before))


def _told(wish: Wish, asked: Iterable[JobView]) -> str:
    """Return what to tell AWS: the reason, and behind it the one that it overwrites."""
    words = next((job.reason for job in asked if job.reason), "")
    if not words:
        return wish.reason[:_REASON]
    room = _REASON - len(_BEFORE) - len(words)
    return (wish.reason[: max(room, _REASON // 2)] + _BEFORE.format(words=words))[:_REASON]


def _slipped(calls: Calls, waiting: list[JobView]) -> list[str]:
    """Return the jobs that were on their way while they were cancelled."""
    if not waiting:
        return []
    now = lookup.describe(calls, _ids(waiting))
    return [job.id for job in now.values() if job.status in (jobs.STARTING, jobs.RUNNING)]


def _ids(views: Iterable[JobView]) -> list[str]:
    return [job.id for job in views]
