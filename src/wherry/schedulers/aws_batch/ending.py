"""Ending jobs: many at once where the client has the calls for it."""

from __future__ import annotations

from collections.abc import Sequence

from wherry.aws.calls import Calls
from wherry.errors import AwsError

_AT_ONCE = 50  # model: CancelJobs.jobs, TerminateJobs.jobs
_REASON = 1024  # model: TerminateJob.reason


def end_jobs(calls: Calls, ids: Sequence[str], reason: str, *, waiting: bool = False) -> None:
    """Terminate jobs, or cancel those that wait.

    Args:
        calls: asks AWS Batch.
        ids: which; those that AWS does not know are passed over.
        reason: why.
        waiting: cancel them, which does nothing to those that have got further.

    Raises:
        AwsError: AWS refused, or does not answer.
    """
    verb = "CancelJob" if waiting else "TerminateJob"
    text = reason[:_REASON] or "cancelled"
    if len(ids) > 1 and calls.has(f"{verb}s"):
        for start in range(0, len(ids), _AT_ONCE):
            _end_many(calls, verb, list(ids[start : start + _AT_ONCE]), text)
        return
    for job_id in ids:
        calls.call(verb, jobId=job_id, reason=text)


def _end_many(calls: Calls, verb: str, ids: list[str], reason: str) -> None:
    answer = calls.call(f"{verb}s", jobs=ids, reason=reason)
    for refused in answer.get("errors") or ():
        words = refused.get("message") or "it does not say why"
        raise AwsError(
            f"AWS Batch refused {verb} of {refused.get('job')}: {words}",
            code=str(refused.get("code", "")),
            operation=verb,
        )
