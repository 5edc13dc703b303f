"""The fault ``hold``, which keeps a job where it is.

A job is held for as long as the fault that struck it is on; one that is spent (`times`) or removed
holds nothing any more. Nothing tells when a fault is removed, so it is asked for now and then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wherry.emulator.batch import arns

if TYPE_CHECKING:
    from wherry.emulator.batch.book import Entry
    from wherry.emulator.batch.plane import Plane

ASKED_EVERY = 0.2
"""Real seconds between two looks at whether a job is still held."""


def holds(plane: Plane, job: Entry, state: str) -> bool:
    """Tell whether a fault keeps a job in a state that it is in; notes it if so."""
    if job.id in plane.held:
        return True
    queue = arns.name_of(job.queue_arn)
    struck = plane.faults.for_job(("hold",), job.id, job.name, queue, value=state)
    if not struck:
        return False
    plane.held[job.id] = struck[0]
    return True


def release(plane: Plane) -> list[Entry]:
    """Let go of all jobs whose fault is off; returns them."""
    if not plane.held:
        return []
    active = {id(fault) for _, fault, _ in plane.faults.active()}
    free = [job_id for job_id, fault in plane.held.items() if id(fault) not in active]
    for job_id in free:
        del plane.held[job_id]
    return [plane.book.jobs[job_id] for job_id in free]
