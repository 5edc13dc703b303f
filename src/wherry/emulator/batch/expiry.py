"""Ended jobs are forgotten: seven days after they stopped, or at once when a test wants it.

An array or multi-node job goes with all that belongs to it. AWS keeps ended jobs "at least 7 days";
one that others still wait for is kept until they have gone on. Source: user guide, "Job states".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wherry.emulator.batch import limits
from wherry.emulator.batch.book import Entry
from wherry.errors import StateError, UnknownAppError

if TYPE_CHECKING:
    from wherry.emulator.batch.plane import Plane

KEPT = limits.FINISHED_KEPT_DAYS * 86_400.0
LATER = 3_600.0
"""Seconds after which a job that is still needed is looked at again."""


def when_due(plane: Plane, job: Entry) -> None:
    """Forget a job whose days are over."""
    if any(_needing(plane, member) for member in (job, *plane.book.family_of(job))):
        plane.remind(plane.clock.now() + LATER, "expiry", job.id, 0)
    else:
        _forget(plane, job)


def expire(plane: Plane, job_id: str | None = None) -> int:
    """Forget one ended job, or all of them, now.

    Args:
        plane: knows the jobs.
        job_id: which; ``None`` for all that have ended.

    Returns:
        How many jobs are gone, children and nodes included.

    Raises:
        UnknownAppError: there is no such job.
        StateError: it has not ended, or goes only with the job that it belongs to.
    """
    if job_id is not None:
        return _forget(plane, _expirable(plane, job_id))
    ended = [job for job in plane.book.jobs.values() if job.ended and not job.parent]
    return sum(_forget(plane, job) for job in ended)


def _expirable(plane: Plane, job_id: str) -> Entry:
    job = plane.book.find(job_id)
    if job is None:
        raise UnknownAppError(f"there is no job {job_id!r}")
    if job.parent:
        raise StateError(f"job {job_id} goes together with {job.parent}; expire that one")
    if not job.ended:
        raise StateError(f"job {job_id} is {job.status}; only a job that has ended can expire")
    return job


def _forget(plane: Plane, job: Entry) -> int:
    """Forget a job; what waits for the success of one that failed is told first."""
    for member in (job, *plane.book.family_of(job)):
        if member.status == "FAILED":
            _doom(plane, member)
        plane.links.drop(member.id)
    plane.users.drop(job)
    return plane.book.remove(job)


def _doom(plane: Plane, job: Entry) -> None:
    for follower in _needing(plane, job):
        follower.doomed = True
        plane.book.touch(follower)
        plane.agenda.append(follower.id)
        plane.agenda.extend(child.id for child in plane.book.family_of(follower))


def _needing(plane: Plane, job: Entry) -> list[Entry]:
    """Return what has not ended and depends on a job."""
    found = (plane.book.jobs.get(job_id) for job_id in plane.links.followers(job.id))
    return [follower for follower in found if follower is not None and not follower.ended]
