"""Tables: what AWS's words mean in ours, and what each part of an app means on AWS Batch."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from wherry.aws import jobs
from wherry.aws.jobs import JobView
from wherry.schedulers.aws_batch.record import Wish
from wherry.specs.states import AppState, is_terminal

STATES: Mapping[str, AppState] = {
    jobs.SUBMITTED: AppState.SUBMITTED,
    jobs.PENDING: AppState.PENDING,
    jobs.RUNNABLE: AppState.PENDING,
    jobs.STARTING: AppState.PENDING,
    jobs.RUNNING: AppState.RUNNING,
    jobs.SUCCEEDED: AppState.SUCCEEDED,
    jobs.FAILED: AppState.FAILED,
}
"""AWS's word for the state of a job → ours."""

# Of several jobs behind one app, the first of these that one of them is in while they go on …
_ON_THE_WAY = (AppState.RUNNING, AppState.PENDING, AppState.SUBMITTED)
# … and when all have ended.
_AT_THE_END = (AppState.CANCELLED, AppState.FAILED, AppState.SUCCEEDED)

# AWS's clock is not ours.
_CLOCKS_DIFFER = 60.0


def state_of(job: JobView, wish: Wish | None = None) -> AppState:
    """Return the state of a job, a child or a node.

    Args:
        job: what AWS says of it.
        wish: the wish for its end that we know of. AWS marks jobs whose end was asked for; older
            versions of its API do not say so.
    """
    if job.status == jobs.FAILED and _was_ended(job, wish):
        return AppState.CANCELLED
    if job.kind == "array" and not job.ended and _has_begun(job):
        return AppState.RUNNING
    return STATES.get(job.status, AppState.UNKNOWN)


def _was_ended(job: JobView, wish: Wish | None) -> bool:
    if job.is_cancelled or job.is_terminated:
        return True
    if wish is None:
        return False
    ours = bool(wish.reason) and job.reason.startswith(wish.reason)
    return ours and (job.stopped_at is None or job.stopped_at > wish.at - _CLOCKS_DIFFER)


def _has_begun(array: JobView) -> bool:
    """Tell whether a child of an array runs, or did; an array itself stays PENDING."""
    return any(array.counts.get(state) for state in (jobs.RUNNING, *jobs.ENDED))


def combined(states: Collection[AppState]) -> AppState:
    """Return the state of an app from those of the jobs behind it."""
    if not states:
        return AppState.UNKNOWN
    if all(map(is_terminal, states)):
        return next((state for state in _AT_THE_END if state in states), AppState.UNKNOWN)
    if any(map(is_terminal, states)):
        return AppState.RUNNING
    return next((state for state in _ON_THE_WAY if state in states), AppState.UNKNOWN)


def counted(counts: Mapping[str, int]) -> tuple[tuple[AppState, int], ...]:
    """Return an array's counts in our words."""
    totals: dict[AppState, int] = {}
    for status, count in counts.items():
        state = STATES.get(status, AppState.UNKNOWN)
        totals[state] = totals.get(state, 0) + count
    return tuple(sorted(totals.items()))


ENFORCED, ADVISORY, IGNORED = "enforced", "advisory", "ignored"

HONOURED = {
    "image": "enforced; with job_definition: ignored, with a warning",
    "entrypoint, args, env, macros": "enforced; the replica's number by the launcher",
    "num_replicas": ENFORCED,
    "min_replicas": "ignored, with a warning",
    "array": "enforced: an array job; one replica is a single job",
    "max_retries, retry_policy": "enforced, up to 9 retries; timeouts are not retried",
    "timeout": "enforced, from 60 seconds on: SIGTERM, 30 seconds, SIGKILL",
    "depends_on": "enforced for apps of aws_batch; others are refused",
    "resource.cpu": "EC2: enforced when jobs are placed, then a share; Fargate: rounded up",
    "resource.gpu": "EC2: enforced; Fargate: refused",
    "resource.memMB": "enforced: a container that uses more is killed",
    "resource.devices": "EC2: enforced; Fargate: refused",
    "mounts": "EC2: enforced; Fargate: EFS only, others are refused",
    "port_map": "ignored, with a warning",
    "secrets": "enforced: ARNs of Secrets Manager and SSM parameters; others are refused",
    "ulimits": "EC2: enforced; Fargate: refused",
    "metadata": "enforced as tags, as far as AWS takes them",
}
"""Part of an app → how far `AWSBatchScheduler` keeps to it. The documentation shows this table."""
