"""Which jobs ask for a consumable resource: ListJobsByConsumableResource.

How much of a resource is in use, and which job gets it, is decided where jobs are placed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wherry.emulator.batch import needs, paging
from wherry.emulator.batch.book import Entry
from wherry.emulator.batch.errors import refuse
from wherry.emulator.batch.listing import by_age
from wherry.emulator.batch.patterns import fits_any_case
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import STATES

if TYPE_CHECKING:
    from wherry.emulator.batch.plane import Plane


class Users:
    """The submissions that ask for consumable resources, whether or not those exist."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, Entry]] = {}

    def add(self, job: Entry) -> None:
        """Note what a submission asks for."""
        for arn, _ in needs.consumables(job):
            self._of.setdefault(arn, {})[job.id] = job

    def drop(self, job: Entry) -> None:
        """Forget what a submission asked for that is gone."""
        for arn, _ in needs.consumables(job):
            self._of.get(arn, {}).pop(job.id, None)

    def of(self, arn: str) -> list[Entry]:
        """Return the submissions that ask for a resource, in their order."""
        return list(self._of.get(arn, {}).values())

    def are_busy(self, arn: str) -> bool:
        """Tell whether a submission that asks for a resource has not ended."""
        return any(not job.ended for job in self._of.get(arn, {}).values())


def list_jobs(plane: Plane, request: Document) -> Document:
    """Do ListJobsByConsumableResource.

    Raises:
        ClientError: there is no such resource, or a filter or the page is not valid.
    """
    resource = plane.catalog.consumable(request.get("consumableResource", ""))
    keeps = [_filter(one) for one in request.get("filters") or ()]
    users = reversed(plane.users.of(resource.arn))
    jobs = (job for job in users if all(keep(job) for keep in keeps))
    return paging.answer("jobs", jobs, by_age, lambda job: _summary(job, resource.arn), request)


def _filter(asked: Document) -> Callable[[Entry], bool]:
    name, values = asked.get("name"), list(asked.get("values") or ())
    refuse(
        name not in ("JOB_STATUS", "JOB_NAME"),
        f"Filter name must be JOB_STATUS or JOB_NAME, but is {name!r}",
    )
    if name == "JOB_NAME":
        return lambda job: any(fits_any_case(value, job.name) for value in values)
    refuse(not set(values) <= set(STATES), f"Filter values must be of {', '.join(STATES)}")
    return lambda job: job.status in values


def _summary(job: Entry, arn: str) -> Document:
    asked = dict(needs.consumables(job))
    entries = [{"consumableResource": arn, "quantity": number} for arn, number in asked.items()]
    shown: Document = {
        "jobArn": job.arn,
        "jobQueueArn": job.queue_arn,
        "jobName": job.name,
        "jobDefinitionArn": job.definition.arn,
        "jobStatus": job.status,
        "quantity": asked.get(arn, 0),
        "createdAt": job.created_at,
        "consumableResourceProperties": {"consumableResourceList": entries},
    }
    optional = {
        "shareIdentifier": job.request.get("shareIdentifier"),
        "statusReason": job.status_reason,
        "startedAt": job.started_at,
    }
    return shown | {name: value for name, value in optional.items() if value}
