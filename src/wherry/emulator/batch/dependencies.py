"""What a job waits for before it may run.

Dependencies are on success only. A plain dependency waits for a whole job, an array with all its
children; ``N_TO_N`` pairs the children of arrays of one size; ``SEQUENTIAL`` lets the children of
an array run one after the other. Source: AWS Batch user guide, "Job dependencies" and "Array jobs".

What AWS says when a dependency has failed is not documented; the text here is the one widely
reported. A dependency on a node of a multi-node job is refused, because a node may be restarted.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING

from wherry.emulator.batch import limits
from wherry.emulator.batch.errors import RefusedError, refuse
from wherry.emulator.batch.ports import Document

if TYPE_CHECKING:
    from wherry.emulator.batch.book import Book, Entry

FAILED_REASON = "Dependent Job failed"


class Verdict(enum.Enum):
    """Whether a job may run, as far as others are concerned."""

    READY = "ready"
    WAITS = "waits"
    FAILED = "failed"


class Links:
    """Who waits for whom; the other direction of ``dependsOn``."""

    def __init__(self) -> None:
        self._whole: dict[str, list[str]] = {}
        self._paired: dict[str, list[str]] = {}

    def add(self, job: Entry) -> None:
        """Note what a new job waits for."""
        for need in needs(job.request):
            table = self._paired if need.get("type") == "N_TO_N" else self._whole
            if need.get("jobId"):
                table.setdefault(need["jobId"], []).append(job.id)

    def waiting_for(self, job: Entry) -> Iterator[str]:
        """Return the ids of the jobs that the end of a job may release or fail."""
        yield from self._whole.get(job.id, ())
        if job.kind == "child":
            for follower in self._paired.get(job.parent, ()):
                yield f"{follower}:{job.index}"

    def followers(self, job_id: str) -> Iterator[str]:
        """Return the ids of the submissions that depend on a job in any way."""
        yield from self._whole.get(job_id, ())
        yield from self._paired.get(job_id, ())

    def drop(self, job_id: str) -> None:
        """Forget who waited for a job that is gone."""
        self._whole.pop(job_id, None)
        self._paired.pop(job_id, None)


def needs(request: Document) -> list[Document]:
    """Return ``dependsOn`` of a request."""
    found: list[Document] = request.get("dependsOn") or []
    return found


def is_sequential(job: Entry) -> bool:
    """Tell whether the children of an array run one after the other."""
    return any(need.get("type") == "SEQUENTIAL" for need in needs(job.request))


def verdict(book: Book, job: Entry) -> Verdict:
    """Say whether a job may run.

    What a job waits for and is no longer known has succeeded: had it failed, its followers would
    have been doomed when it was forgotten.
    """
    if job.kind == "child":
        return _of_child(book, job)
    if job.doomed:
        return Verdict.FAILED
    whole = (need["jobId"] for need in needs(job.request) if not need.get("type"))
    return _worst(_of(book.jobs.get(job_id)) for job_id in whole)


def resolved(book: Book, request: Document, size: int) -> Document:
    """Refuse dependencies that cannot be; return a request in which jobs go by id, not by ARN.

    Args:
        book: knows the jobs.
        request: of SubmitJob.
        size: of the array that is submitted; 0 for other jobs.

    Raises:
        ClientError: they are refused.
    """
    asked = needs(request)
    if not asked:
        return request
    limits.check_count("job dependencies", asked, limits.DEPENDENCIES)
    return {**request, "dependsOn": [_resolved(book, need, size) for need in asked]}


def _of_child(book: Book, job: Entry) -> Verdict:
    parent = book.parent_of(job)
    if parent.doomed:
        return Verdict.FAILED
    if not parent.opened:
        return Verdict.WAITS
    return _worst(_pairs(book, parent, job.index))


def _pairs(book: Book, parent: Entry, index: int) -> Iterator[Verdict]:
    for need in needs(parent.request):
        kind = need.get("type")
        if kind == "N_TO_N":
            yield _of(book.jobs.get(f"{need['jobId']}:{index}"))
        elif kind == "SEQUENTIAL" and index > 0:
            yield _of(book.families[parent.id][index - 1])


def _of(other: Entry | None) -> Verdict:
    if other is None or other.status == "SUCCEEDED":
        return Verdict.READY
    return Verdict.FAILED if other.status == "FAILED" else Verdict.WAITS


def _worst(verdicts: Iterator[Verdict]) -> Verdict:
    found = set(verdicts)
    for worst in (Verdict.FAILED, Verdict.WAITS):
        if worst in found:
            return worst
    return Verdict.READY


def _resolved(book: Book, need: Document, size: int) -> Document:
    kind, job_id = need.get("type") or "", need.get("jobId") or ""
    refuse(kind != "" and not size, f"A job dependency of type {kind} needs an array job")
    if kind == "SEQUENTIAL":
        refuse(bool(job_id), "A job dependency of type SEQUENTIAL takes no jobId")
        return need
    other = _known(book, job_id)
    refuse(
        kind == "N_TO_N" and (other.kind != "array" or other.children != size),
        f"A job dependency of type N_TO_N needs arrays of the same size, "
        f"but {other.id} has {other.children or 'no'} children, and this job {size}",
    )
    return {**need, "jobId": other.id}


def _known(book: Book, job_id: str) -> Entry:
    refuse(not job_id, "A job dependency needs a jobId")
    found = book.find(job_id)
    if found is None:
        raise RefusedError(f"Job dependency {job_id} does not exist")
    refuse(
        found.kind == "node",
        f"Job dependency {job_id} is a node; depend on its multi-node parallel job",
    )
    return found
