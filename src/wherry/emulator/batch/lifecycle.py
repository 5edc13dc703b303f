"""How a job goes from state to state, up to the moment at which its containers start.

SUBMITTED, then PENDING if it waits for others, then RUNNABLE, and STARTING when it has a place.
What happens to the containers from then on is told by `attempts`; every way leads back here, to
`finish` or `run_again`. Each change of state is an event on the bus; the submission is not one.
Source: AWS Batch user guide, "Job states" and "Job state change events".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wherry.emulator.batch import (
    arrays,
    attempts,
    dependencies,
    describing,
    ending,
    holding,
    limits,
    nodes,
    tasks,
)
from wherry.emulator.batch.dependencies import Verdict
from wherry.emulator.batch.errors import ClientError

if TYPE_CHECKING:
    from wherry.emulator.batch.book import Entry
    from wherry.emulator.batch.placing import Place
    from wherry.emulator.batch.plane import Plane

STATE_CHANGE = "Batch Job State Change"
QUEUE_BLOCKED = "Batch Job Queue Blocked"


def move(plane: Plane, job: Entry, status: str, reason: str = "") -> None:
    """Put a job into another state, count it there, and tell the world."""
    now = plane.clock.now_ms()
    if status == "RUNNING":
        job.started_at = now
    job.status_reason = reason
    plane.book.move(job, status)
    if job.ended:
        job.stopped_at = now
    if job.kind == "child":
        arrays.count(plane, job)
    if job.kind == "array":
        job.counted_at = job.counted_at or now
    _emit(plane, STATE_CHANGE, job, [job.arn])


def consider(plane: Plane, job: Entry) -> None:
    """Look at a job that may have to move: new, released, doomed, or ended with its array."""
    if job.ended:
        return
    if job.kind == "child" and _follows_its_parent(plane, job):
        return
    if job.status not in ("SUBMITTED", "PENDING") or holding.holds(plane, job, "SUBMITTED"):
        return
    verdict = dependencies.verdict(plane.book, job)
    if job.kind == "array":
        arrays.consider(plane, job, verdict)
    elif verdict is Verdict.FAILED:
        finish(plane, job, "FAILED", job.wish or dependencies.FAILED_REASON)
    elif verdict is Verdict.WAITS:
        _wait(plane, job)
    elif job.is_cancelled:
        finish(plane, job, "FAILED", job.wish)
    else:
        _become_runnable(plane, job)


def run_again(plane: Plane, job: Entry) -> None:
    """Send a job whose attempt has failed back to the front of its queue."""
    plane.placing.release(job.id, plane.clock.now())
    plane.unplaced = True
    job.places = ()
    for member in plane.book.family_of(job):
        if member.status != "RUNNABLE":
            move(plane, member, "RUNNABLE")
    _stand_in_line(plane, job, front=True)


def wait_for_place(plane: Plane, job: Entry, *, front: bool = False) -> None:
    """Let a RUNNABLE job wait for a place, unless a fault keeps it."""
    if holding.holds(plane, job, "RUNNABLE"):
        return
    try:
        plane.placing.add(tasks.waiting(job, plane.clock.now(), front))
    except ClientError as refusal:  # its queue has gone, between two lives of the emulator
        finish(plane, job, "FAILED", refusal.message)
    plane.unplaced = True


def start(plane: Plane, job: Entry, places: tuple[Place, ...]) -> None:
    """Begin an attempt at the places that were found for a job."""
    job.places = places
    if job.kind == "child" and _follows_its_parent(plane, job):
        return
    move(plane, job, "STARTING")
    if job.kind == "multinode":
        move(plane, nodes.main_of(plane, job), "STARTING")
    if not holding.holds(plane, job, "STARTING"):
        launch(plane, job)


def launch(plane: Plane, job: Entry) -> None:
    """Start what a STARTING job consists of."""
    if job.kind == "multinode":
        nodes.launch(plane, job)
    else:
        attempts.launch(plane, job, job.places[0])


def finish(plane: Plane, job: Entry, status: str, reason: str) -> None:
    """End a job, for good."""
    leave_line(plane, job)
    for member in plane.book.family_of(job):
        if not member.ended:
            move(plane, member, "FAILED", reason)
    move(plane, job, status, reason)
    plane.forget_later(job)
    plane.agenda.extend(plane.links.waiting_for(job))
    if job.kind == "child":
        arrays.child_ended(plane, job)


def leave_line(plane: Plane, job: Entry) -> None:
    """Take a job out of its queue, or give back the place that it has."""
    plane.held.pop(job.id, None)
    if job.places:
        plane.placing.release(job.id, plane.clock.now())
        job.places = ()
        plane.unplaced = True
    elif job.status == "RUNNABLE":
        plane.placing.remove(job.id)
        plane.unplaced = True


def explain(plane: Plane, job: Entry, reason: str) -> None:
    """Say why a job stays RUNNABLE; an empty reason takes an earlier one back."""
    if job.status != "RUNNABLE" or job.status_reason == reason:
        return
    job.status_reason = reason
    plane.book.touch(job)
    if reason:
        _emit(plane, QUEUE_BLOCKED, job, [job.arn, job.queue_arn])


def _follows_its_parent(plane: Plane, job: Entry) -> bool:
    """Do to a child what was done to its array; tells whether that was the end of it."""
    parent = plane.book.parent_of(job)
    if parent.is_terminated or parent.is_cancelled:
        ending.follow(plane, job, parent)
    return job.ended or job.is_terminated


def _wait(plane: Plane, job: Entry) -> None:
    if job.status == "SUBMITTED":
        move(plane, job, "PENDING")
        for member in plane.book.family_of(job):
            move(plane, member, "PENDING")


def _become_runnable(plane: Plane, job: Entry) -> None:
    if _has_too_many_tags(job):
        finish(plane, job, "FAILED", f"Number of tags exceeds the limit of {limits.TAGS}")
        return
    for member in plane.book.family_of(job):
        move(plane, member, "RUNNABLE")
    _stand_in_line(plane, job, front=False)
    if job.kind == "child":
        arrays.child_runnable(plane, job)


def _stand_in_line(plane: Plane, job: Entry, *, front: bool) -> None:
    job.line = plane.book.next_line()
    move(plane, job, "RUNNABLE")
    wait_for_place(plane, job, front=front)


def _has_too_many_tags(job: Entry) -> bool:
    """Tell whether tags that go on to the task are more than ECS takes; AWS fails such a job."""
    document = job.definition.document
    if not job.request.get("propagateTags", document.get("propagateTags")):
        return False
    return len({**job.definition.tags, **job.request.get("tags", {})}) > limits.TAGS


def _emit(plane: Plane, detail_type: str, job: Entry, resources: list[str]) -> None:
    plane.surroundings.emit(plane.region, detail_type, resources, describing.event(plane, job))
