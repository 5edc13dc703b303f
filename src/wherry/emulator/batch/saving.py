"""Jobs as records of the archive, and jobs from records at the next start.

A submission is saved whole, with its request; a child or node only once it differs from a new one,
since it can be made again from its parent. What the engine had when the process died is gone: those
attempts end as if their host had been lost, so that the retry strategy applies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wherry.emulator.batch import actions, arns, attempts, lifecycle, submission
from wherry.emulator.batch.book import Entry
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import Attempt, JobDefinition
from wherry.emulator.batch.retries import Outcome

if TYPE_CHECKING:
    from wherry.emulator.batch.plane import Plane

JOB = "job"

_LIFE = (
    "status",
    "status_reason",
    "started_at",
    "stopped_at",
    "is_cancelled",
    "is_terminated",
    "line",
    "wish",
    "timed_out",
    "opened",
    "doomed",
)
"""What changes in a job's life, apart from its attempts."""

_BIRTH = ("id", "arn", "name", "queue_arn", "request", "created_at", "children", "kind", "tags")
"""What a submission is made of, apart from its definition."""

_UNCHANGED: Document = {"status": "SUBMITTED"}


def save(plane: Plane) -> None:
    """Hand all that has changed since the last time to the archive, and commit it."""
    book = plane.book
    if plane.archive is not None and (book.changed or book.gone):
        for job_id in book.gone:
            plane.archive.remove(JOB, job_id)
        for job in book.changed.values():
            plane.archive.save(JOB, job.id, record(job))
        plane.archive.commit()
    book.changed.clear()
    book.gone.clear()


def record(job: Entry) -> Document:
    """Return what the archive keeps of a job."""
    kept: Document = {name: getattr(job, name) for name in _LIFE if getattr(job, name)}
    if job.runs:
        kept["runs"] = [dict(vars(run)) for run in job.runs]
    if job.places:
        kept["instances"] = [place.instance_id for place in job.places]
    if job.parent:
        kept["parent"], kept["index"] = job.parent, job.index
        return kept
    kept |= {name: getattr(job, name) for name in _BIRTH}
    kept["definition"], kept["serial"] = job.definition.arn, job.serial
    return kept


def load(plane: Plane) -> None:
    """Take up all jobs of an earlier life where it left them."""
    if plane.archive is None:
        return
    hosts: dict[str, list[str]] = {}
    for job_id, kept in plane.archive.load(JOB):
        job = _member(plane, kept) if "parent" in kept else _submission(plane, kept)
        if job is not None:
            hosts[job_id] = kept.get("instances", [])
    jobs = list(plane.book.jobs.values())
    plane.book.begin_after(
        max((job.serial for job in jobs), default=0), max((job.line for job in jobs), default=0)
    )
    plane.book.changed.clear()
    _resume(plane, jobs, hosts)


def _submission(plane: Plane, kept: Document) -> Entry:
    definition = _definition(plane, kept["definition"])
    job = Entry(
        **{name: kept[name] for name in _BIRTH},
        definition=definition,
        serial=kept["serial"],
        look=submission.look_of(definition, kept["request"]),
    )
    _restore(job, kept)
    plane.book.add(job)
    plane.links.add(job)
    plane.users.add(job)
    return job


def _member(plane: Plane, kept: Document) -> Entry | None:
    family = plane.book.families.get(kept["parent"])
    if family is None:
        return None
    job = family[kept["index"]]
    plane.book.move(job, kept["status"])
    _restore(job, kept)
    return job


def _restore(job: Entry, kept: Document) -> None:
    for name in _LIFE:
        if name in kept:
            setattr(job, name, kept[name])
    job.runs = [Attempt(**run) for run in kept.get("runs", ())]


def _definition(plane: Plane, arn: str) -> JobDefinition:
    found = plane.catalog.find_definition(arn)
    if found is not None:
        return found
    name, _, revision = arns.name_of(arn).partition(":")
    return JobDefinition(name, int(revision or 0), arn, {}, status="INACTIVE")


def _resume(plane: Plane, jobs: list[Entry], hosts: dict[str, list[str]]) -> None:
    for job in sorted((job for job in jobs if job.status == "RUNNABLE"), key=lambda job: job.line):
        if job.kind != "node":
            lifecycle.wait_for_place(plane, job, front=bool(job.runs))
    for job in jobs:
        if job.kind == "array":
            job.counted_at = plane.clock.now_ms()
        if job.ended:
            plane.forget_later(job)
        elif job.status in ("STARTING", "RUNNING") and job.kind != "node":
            _lose(plane, job, hosts.get(job.id, []))
        else:
            plane.agenda.append(job.id)


def _lose(plane: Plane, job: Entry, instances: list[str]) -> None:
    """End the attempt that ran when the process died.

    On Fargate there is no instance to name; there it is the text of an interrupted task.
    """
    instance = next((instance for instance in instances if instance), "")
    outcome = Outcome(False, actions.host_lost(instance))
    now = plane.clock.now_ms()
    for each in (job, *plane.book.family_of(job)):
        if each.runs and not each.runs[-1].stopped_at:
            each.runs[-1].stopped_at = now
            each.runs[-1].status_reason = outcome.status_reason
            plane.book.touch(each)
    attempts.decide(plane, job, outcome)
