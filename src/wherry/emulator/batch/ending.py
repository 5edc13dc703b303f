"""CancelJob and TerminateJob: what they reach, and what they leave alone.

Cancelling acts up to RUNNABLE and succeeds without effect afterwards; a PENDING job is cancelled
when its dependencies have ended. Terminating acts on all that has not ended. Either reason takes
the place of ``statusReason``. Sources: the API model, and AWS Batch user guide, "Array jobs".

An unknown id is no error: the model says so of the bulk calls ("Jobs that can't be found are
treated as successfully processed"), and aws/aws-cli#2551 saw it of TerminateJob. A single node of a
multi-node job is refused, because AWS does not say what would become of the others. An array that
was cancelled too late, so that all of its children succeeded, has SUCCEEDED.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wherry.emulator.batch import arrays, attempts, lifecycle, limits
from wherry.emulator.batch.errors import BatchError, refuse
from wherry.emulator.batch.ports import Document

if TYPE_CHECKING:
    from wherry.emulator.batch.book import Entry
    from wherry.emulator.batch.plane import Plane

_WAITING = ("SUBMITTED", "PENDING", "RUNNABLE")


def cancel_job(plane: Plane, request: Document) -> Document:
    """Do CancelJob.

    Raises:
        ClientError: the id or the reason is missing, or it is too long, or the id is a node's.
    """
    _end(plane, request.get("jobId", ""), _reason(request), cancel)
    return {}


def terminate_job(plane: Plane, request: Document) -> Document:
    """Do TerminateJob.

    Raises:
        ClientError: the id or the reason is missing, or it is too long, or the id is a node's.
    """
    _end(plane, request.get("jobId", ""), _reason(request), terminate)
    return {}


def cancel_jobs(plane: Plane, request: Document) -> Document:
    """Do CancelJobs, which tells of each job by itself.

    Raises:
        ClientError: there are no ids or too many, or the reason is missing or too long.
    """
    return _bulk(plane, request, cancel)


def terminate_jobs(plane: Plane, request: Document) -> Document:
    """Do TerminateJobs, which tells of each job by itself.

    Raises:
        ClientError: there are no ids or too many, or the reason is missing or too long.
    """
    return _bulk(plane, request, terminate)


def cancel(plane: Plane, job: Entry, reason: str) -> None:
    """Cancel a job, if it has not gone too far."""
    if job.status not in _WAITING or job.is_terminated:
        return
    job.is_cancelled = True
    job.wish = reason
    plane.book.touch(job)
    if job.kind == "array":
        job.opened = job.opened or job.status == "SUBMITTED"
        arrays.review(plane, job)
    elif job.status != "PENDING":
        lifecycle.finish(plane, job, "FAILED", reason)


def terminate(plane: Plane, job: Entry, reason: str) -> None:
    """Terminate a job, if it has not ended."""
    if job.ended:
        return
    job.is_terminated = True
    job.wish = job.status_reason = reason
    plane.book.touch(job)
    if job.kind == "array":
        arrays.review(plane, job)
    elif not attempts.stop(plane, job):
        lifecycle.finish(plane, job, "FAILED", reason)


def follow(plane: Plane, child: Entry, parent: Entry) -> None:
    """Do to a child what was done to its array."""
    if parent.is_terminated and not child.is_terminated:
        terminate(plane, child, parent.wish)
    elif parent.is_cancelled and not child.is_cancelled and (parent.opened or parent.doomed):
        cancel(plane, child, parent.wish)


def _end(plane: Plane, job_id: str, reason: str, end: Callable[[Plane, Entry, str], None]) -> None:
    refuse(not job_id, "jobId must not be empty")
    job = plane.book.find(job_id)
    if job is None:
        return
    refuse(
        job.kind == "node",
        f"Job {job_id} is a node of a multi-node parallel job; end {job.parent} instead",
    )
    end(plane, job, reason)


def _bulk(plane: Plane, request: Document, end: Callable[[Plane, Entry, str], None]) -> Document:
    reason = _reason(request)
    asked: list[str] = request.get("jobs") or []
    refuse(not asked, "At least one job is needed")
    limits.check_count("jobs", asked, limits.BULK_JOBS)
    successful, errors = [], []
    for job_id in dict.fromkeys(asked):
        try:
            _end(plane, job_id, reason, end)
            successful.append(job_id)
        except BatchError as refusal:
            errors.append({"job": job_id, "code": refusal.code, "message": refusal.message})
    return {"successful": successful, "errors": errors}


def _reason(request: Document) -> str:
    reason: str = request.get("reason") or ""
    refuse(not reason, "A reason is needed")
    limits.check_reason(reason)
    return reason
