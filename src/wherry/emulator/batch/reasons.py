"""Why a job waits, in AWS Batch's own words, and when those words are said.

The texts are documented (AWS Batch user guide, "Jobs stuck in a RUNNABLE status", and the pages
below it); this module keeps them, and the watch over the heads of queues: only the job at the head
of a queue is given a reason, after it has been stuck there for some minutes. What is the matter
with a job is found out by whoever knows capacity; nothing here does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wherry.emulator.batch.records import JobQueue

DELAY = 180.0
"""For how many emulated seconds a job is stuck before the reason is shown."""

CAPACITY = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"
MAX_RESOURCE = "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE"
REQUIREMENT = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"
UNSUPPORTED = "MISCONFIGURATION:EC2_INSTANCE_CONFIGURATION_UNSUPPORTED"
ROLE = "MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS"
INVALID = "ACTION_REQUIRED"
UNDETERMINED = "UNDETERMINED"

STUCK: Mapping[str, str] = {
    CAPACITY: (
        f"{CAPACITY} - Service cannot fulfill the capacity requested for instance type "
        "[instanceTypeName]"
    ),
    MAX_RESOURCE: (
        f"{MAX_RESOURCE} - CE(s) associated with the job queue cannot meet the CPU requirement "
        "of the job."
    ),
    REQUIREMENT: (
        f"{REQUIREMENT} - The job resource requirement (vCPU/memory/GPU) is higher than that can "
        "be met by the CE(s) attached to the job queue."
    ),
    UNSUPPORTED: (
        f"{UNSUPPORTED} - Your compute environment associated with this job queue has an "
        "unsupported instance type configuration."
    ),
    ROLE: f"{ROLE} – Batch service role has a permission issue.",
    INVALID: f"{INVALID} - CE(s) associated with the job queue are invalid.",
    UNDETERMINED: f"{UNDETERMINED} - Batch job is blocked, root cause is undetermined.",
}
"""Every reason by its key: what `statusReason` says while a job is stuck."""

ACTIONABLE = frozenset((CAPACITY, MAX_RESOURCE, REQUIREMENT, UNSUPPORTED))
"""The reasons on which a queue's ``jobStateTimeLimitActions`` act (the same pages)."""

CANCELLED = "Canceled by JobStateTimeLimit action due to reason: "

_TYPE = "[instanceTypeName]"


def text_of(key: str, instance_type: str = "") -> str:
    """Return what is shown for a reason.

    Args:
        key: a key of `STUCK`; any other text counts as `UNDETERMINED`.
        instance_type: the type that cannot be had, for the one text that names it.
    """
    text = STUCK.get(key) or STUCK[UNDETERMINED]
    return text.replace(_TYPE, f"[{instance_type}]") if instance_type else text


def key_of(word: str) -> str:
    """Return the key that a person means by a word: the key, its last part, or the whole text.

    >>> key_of("service_role_permissions")
    'MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS'
    >>> key_of("")
    'UNDETERMINED'
    """
    wanted = word.partition(" ")[0].upper()
    matches = (key for key in STUCK if wanted in (key, key.rpartition(":")[2]))
    return next(matches, UNDETERMINED)


@dataclass
class Head:
    """The job at the head of one queue.

    Attributes:
        job_id: which.
        since: emulated time from which it has been stuck there for the same reason; `key`.
        key: why it is stuck; empty while it is not, but only waits for its turn.
        text: what is shown for the key.
        shown: what has been told of it.
    """

    job_id: str
    since: float
    key: str = ""
    text: str = ""
    shown: str = ""


class Watch:
    """Follows the heads of all queues."""

    def __init__(self) -> None:
        self._heads: dict[str, Head] = {}
        self._withdrawn: list[str] = []

    def see(self, queue_arn: str, job_id: str, key: str, text: str, now: float) -> None:
        """Take note of who is at the head of a queue, and why it does not start.

        Args:
            queue_arn: the queue.
            job_id: its head; empty when nobody waits there.
            key: why it is stuck; empty when it is not.
            text: the words for it.
            now: the emulated time.
        """
        head = self._heads.get(queue_arn)
        if head is not None and head.job_id == job_id:
            if head.key != key:
                head.key, head.since = key, now
            head.text = text
            return
        if head is not None:
            self.forget(queue_arn)
        if job_id:
            self._heads[queue_arn] = Head(job_id, now, key, text)

    def forget(self, queue_arn: str) -> None:
        """Take back what was said about the head of a queue."""
        head = self._heads.pop(queue_arn, None)
        if head is not None and head.shown:
            self._withdrawn.append(head.job_id)

    def gone(self, queue_arn: str, job_id: str) -> None:
        """A job waits no more: there is nobody left to be told that its reason is taken back."""
        head = self._heads.get(queue_arn)
        if head is not None and head.job_id == job_id:
            del self._heads[queue_arn]

    def changes(self, now: float) -> list[tuple[str, str]]:
        """Return job id and text for all whose text is not what was said last."""
        told = [(job_id, "") for job_id in self._withdrawn]
        self._withdrawn = []
        for head in self._heads.values():
            text = head.text if head.key and now >= head.since + DELAY else ""
            if text != head.shown:
                head.shown = text
                told.append((head.job_id, text))
        return told

    def overdue(self, queues: Iterable[JobQueue], now: float) -> list[tuple[str, str]]:
        """Return job id and last words of each head that a time limit of its queue now cancels."""
        return [
            (head.job_id, CANCELLED + head.key)
            for queue in queues
            if (head := self._heads.get(queue.arn)) is not None
            and head.key
            and now >= head.since + _limit(queue, head.key)
        ]

    def next_due(self, queues: Iterable[JobQueue], now: float) -> float | None:
        """Return when `changes` or `overdue` will have something new by the clock alone."""
        times = [
            head.since + span
            for queue in queues
            if (head := self._heads.get(queue.arn)) is not None and head.key
            for span in (DELAY, _limit(queue, head.key))
            if now < head.since + span < float("inf")
        ]
        return min(times, default=None)


def _limit(queue: JobQueue, key: str) -> float:
    """Return for how long a head may be stuck for a reason; for ever if no action names it."""
    if key not in ACTIONABLE:
        return float("inf")
    limits = (
        float(action["maxTimeSeconds"])
        for action in queue.time_limits
        if key_of(action.get("reason", "")) == key
    )
    return min(limits, default=float("inf"))
