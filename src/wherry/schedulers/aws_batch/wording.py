"""Why a job is in its state, and how an attempt ended, in a few words of ours around AWS's own."""

from __future__ import annotations

from wherry.aws import jobs
from wherry.aws.jobs import AttemptView, JobView
from wherry.schedulers.aws_batch.record import Wish
from wherry.specs.exits import signal_of

# Said of every program that ended, well or not.
_SAYS_NOTHING = ("Essential container in task exited", "Essential container exited")

_CANCELLED = "cancelled"


def signal_name(exit_code: int | None) -> str | None:
    """Name the signal that an exit code stands for."""
    return None if exit_code is None else signal_of(exit_code)


def how_it_ended(exit_code: int | None) -> str:
    """Word an exit code; empty when there is none."""
    signal = signal_name(exit_code)
    if signal:
        return f"killed by {signal}"
    return "" if exit_code is None else f"exited with code {exit_code}"


def why_it_ended(attempt: AttemptView) -> str:
    """Say why an attempt ended, in AWS's words where they say something; empty for success."""
    if attempt.container_reason:
        return attempt.container_reason
    if attempt.reason and not attempt.reason.startswith(_SAYS_NOTHING):
        return attempt.reason
    return how_it_ended(attempt.exit_code) if attempt.exit_code else ""


def story(job: JobView) -> str:
    """Say how a job that has failed ended: its exit code, and AWS's words."""
    code = how_it_ended(job.exit_code)
    words = reason_of(job)
    if words == code:
        return code or "failed; AWS Batch says no more"
    if not code and not job.attempts:
        return f"did not start: {words}"
    if not code:
        return f"was lost: {words}" if _was_lost(job) else f"did not run: {words}"
    return f"{code}: {words}"


def reason_of(job: JobView) -> str:
    """Say why a job is in its state; empty while nothing is remarkable."""
    if not job.ended:
        return _waiting(job)
    if job.status == jobs.SUCCEEDED:
        return ""
    if job.container_reason:
        return job.container_reason
    if job.reason and not job.reason.startswith(_SAYS_NOTHING):
        return job.reason
    return how_it_ended(job.exit_code)


def _waiting(job: JobView) -> str:
    """Say what a job waits for; of an earlier attempt, how that ended."""
    if job.reason:
        return job.reason
    if job.status == jobs.PENDING and job.depends_on and not job.counts:
        count = len(job.depends_on)
        return f"waits for {count} other job{'s' if count > 1 else ''}"
    if job.status in (jobs.RUNNABLE, jobs.STARTING) and job.attempts:
        last = job.attempts[-1]
        words = why_it_ended(last) if last.stopped_at is not None else ""
        return f"attempt {last.number} ended: {words}" if words else ""
    return ""


def _was_lost(job: JobView) -> bool:
    """Tell whether the host went away under a job that ran."""
    return job.attempts[-1].started_at is not None or job.reason.startswith("Host EC2")


def cancelled(wish: Wish | None, job: JobView | None) -> str:
    """Say why an app was ended: for the first reason that was given, and what was before."""
    if wish is None:
        return (job.reason if job is not None else "") or _CANCELLED
    before = next((words for words in wish.before.values() if words), "")
    return f"{wish.reason} (before: {before})" if before else wish.reason
