"""Array jobs: a parent that only counts, and children that run.

A parent is SUBMITTED, PENDING from the moment at which it waits for others or a child becomes
RUNNABLE, and SUCCEEDED or FAILED when the last child has ended. One failed child fails it, whether
it failed by itself or was ended alone. Source: AWS Batch user guide, "Array jobs".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wherry.emulator.batch import dependencies, lifecycle
from wherry.emulator.batch.book import Entry
from wherry.emulator.batch.dependencies import Verdict
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import STATES

if TYPE_CHECKING:
    from wherry.emulator.batch.plane import Plane

CHILD_FAILED = "Array Child Job failed"


def children(parent: Entry) -> list[Entry]:
    """Make the children of a new array; they share all that they can with it."""
    return [
        Entry(
            id=f"{parent.id}:{index}",
            arn=f"{parent.arn}:{index}",
            name=parent.name,
            queue_arn=parent.queue_arn,
            definition=parent.definition,
            request=parent.request,
            created_at=parent.created_at,
            parent=parent.id,
            index=index,
            kind="child",
            serial=parent.serial,
            look=parent.look,
        )
        for index in range(parent.children)
    ]


def summary(parent: Entry) -> Document:
    """Return ``statusSummary``: how many children are in each of the seven states."""
    return {status: parent.counts.get(status, 0) for status in STATES}


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
