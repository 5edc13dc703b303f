"""Multi-node parallel jobs: one place for all nodes, and a main node that decides.

The main node starts first; the others start when it runs, and are told its address. The end of the
main node is the end of the attempt: whatever else runs is stopped, and when nothing is left the job
has the main node's outcome. The end of another node changes nothing and is never retried; when the
main node is retried, all nodes start again, so that a node (and only a node) may leave SUCCEEDED
or FAILED. Source: AWS Batch user guide, "Multi-node parallel jobs".

What a node shows that was stopped because the main node ended is not documented; it shows how its
own containers ended.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from wherry.emulator.batch import attempts, lifecycle, overrides
from wherry.emulator.batch.records import Attempt, Job
from wherry.emulator.batch.retries import Outcome

if TYPE_CHECKING:
    from wherry.emulator.batch.book import Entry
    from wherry.emulator.batch.plane import Plane

MAIN_ENDED = "Main node of the multi-node parallel job ended"


def main_of(plane: Plane, parent: Entry) -> Entry:
    """Return the main node of a multi-node job."""
    return plane.book.families[parent.id][overrides.main_node(parent)]


def is_main(node: Job) -> bool:
    """Tell whether a node is the main one."""
    return node.index == overrides.main_node(node)


def launch(plane: Plane, parent: Entry) -> None:
    """Begin an attempt with the main node."""
    parent.runs.append(Attempt(task_id="", task_arn="", instance_arn=""))
    main = main_of(plane, parent)
    parent.flying += 1
    attempts.launch(plane, main, parent.places[main.index])


def started(plane: Plane, node: Entry, address: str) -> None:
    """Take note that a node runs; with the main node the whole job does."""
    parent = plane.book.parent_of(node)
    if not is_main(node) or parent.status != "STARTING":
        return
    lifecycle.move(plane, parent, "RUNNING", parent.wish if parent.is_terminated else "")
    parent.runs[-1].started_at = parent.started_at
    attempts.watch_time(plane, parent)
    if parent.is_terminated:
        return
    for other in plane.book.family_of(parent):
        if other is not node:
            lifecycle.move(plane, other, "STARTING")
            parent.flying += 1
            attempts.launch(plane, other, parent.places[other.index], address)


def ended(plane: Plane, node: Entry, outcome: Outcome) -> None:
    """Take note that nothing of a node runs any more."""
    parent = plane.book.parent_of(node)
    parent.flying -= 1
    if is_main(node):
        _main_ended(plane, parent, node, outcome)
    else:
        status = "SUCCEEDED" if outcome.success else "FAILED"
        lifecycle.move(plane, node, status, node.runs[-1].status_reason)
    if not parent.flying:
        _conclude(plane, parent)


def stop(plane: Plane, parent: Entry) -> None:
    """Stop whatever runs of a multi-node job."""
    for node in plane.book.family_of(parent):
        attempts.stop_task(plane, node)


def _main_ended(plane: Plane, parent: Entry, main: Entry, outcome: Outcome) -> None:
    last = main.runs[-1]
    parent.runs[-1] = dataclasses.replace(last, started_at=parent.runs[-1].started_at, stopped_at=0)
    plane.outcomes[parent.id] = outcome
    plane.book.touch(parent)
    if not attempts.will_retry(plane, parent, outcome):
        status = "SUCCEEDED" if outcome.success and not parent.timed_out else "FAILED"
        lifecycle.move(plane, main, status, last.status_reason)
    stop(plane, parent)


def _conclude(plane: Plane, parent: Entry) -> None:
    """Decide what comes next, now that nothing of the attempt is left."""
    outcome = plane.outcomes.pop(parent.id, Outcome(False, MAIN_ENDED))
    parent.runs[-1].stopped_at = plane.clock.now_ms()
    plane.forget_network(parent)
    attempts.decide(plane, parent, outcome)


def end_all(plane: Plane, parent: Entry, status: str, reason: str) -> None:
    """Give the main node the job's own end, and the others one, if they have none."""
    for node in plane.book.family_of(parent):
        if node.ended:
            continue
        if is_main(node):
            lifecycle.move(plane, node, status, reason)
        else:
            lifecycle.move(plane, node, "FAILED", MAIN_ENDED)
