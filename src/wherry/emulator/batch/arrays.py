"""Array jobs: a parent that only counts, and children that run.

A parent is SUBMITTED, PENDING from the moment at which it waits for others or a child becomes
RUNNABLE, and SUCCEEDED or FAILED when the last child has ended. One failed child fails it, whether
it failed by itself or was ended alone. Source: AWS Batch user guide, "Array jobs".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wherry.emulator.batch import dependencies, lifecycle
from wherry.emulator.batch.dependencies import Verdict
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import STATES

if TYPE_CHECKING:
    from wherry.emulator.batch.book import Entry
    from wherry.emulator.batch.plane import Plane

CHILD_FAILED = "Array Child Job failed"


def properties(job: Entry) -> Document:
    """Return ``arrayProperties`` of an array or of a child; nothing for other jobs."""
    if job.kind == "child":
        return {"index": job.index}
    if job.kind == "array":
        return {
            "size": job.children,
            "statusSummary": {status: job.counts.get(status, 0) for status in STATES},
            "statusSummaryLastUpdatedAt": job.counted_at or job.created_at,
        }
    return {}


def count(plane: Plane, child: Entry) -> None:
    """Take note that a child has changed its state."""
    plane.book.parent_of(child).counted_at = plane.clock.now_ms()


def consider(plane: Plane, parent: Entry, verdict: Verdict) -> None:
    """Let the children go on, or fail, once what the array depends on allows it."""
    if parent.opened or parent.doomed:
        return
    if verdict is Verdict.WAITS:
        if parent.status == "SUBMITTED":
            lifecycle.move(plane, parent, "PENDING")
        return
    parent.opened = verdict is Verdict.READY
    parent.doomed = verdict is Verdict.FAILED
    plane.book.touch(parent)
    review(plane, parent)


def review(plane: Plane, parent: Entry) -> None:
    """Look at all children, a few at a time."""
    plane.agenda.extend(child.id for child in plane.book.family_of(parent))


def child_runnable(plane: Plane, child: Entry) -> None:
    """Make the parent PENDING with its first RUNNABLE child."""
    parent = plane.book.parent_of(child)
    if parent.status == "SUBMITTED":
        lifecycle.move(plane, parent, "PENDING")


def child_ended(plane: Plane, child: Entry) -> None:
    """Let the next child go on, or end the parent with its last child."""
    parent = plane.book.parent_of(child)
    if dependencies.is_sequential(child) and child.index + 1 < parent.children:
        plane.agenda.append(f"{parent.id}:{child.index + 1}")
    failed = parent.counts["FAILED"]
    if failed + parent.counts["SUCCEEDED"] < parent.children or parent.ended:
        return
    if failed:
        lifecycle.finish(plane, parent, "FAILED", parent.wish or _why(parent))
    else:
        lifecycle.finish(plane, parent, "SUCCEEDED", "")


def _why(parent: Entry) -> str:
    return dependencies.FAILED_REASON if parent.doomed else CHILD_FAILED
