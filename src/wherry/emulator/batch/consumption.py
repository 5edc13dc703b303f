"""Which jobs ask for a consumable resource: ListJobsByConsumableResource.

How much of a resource is in use, and which job gets it, is decided where jobs are placed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wherry.emulator.batch import limits, paging
from wherry.emulator.batch.book import Entry
from wherry.emulator.batch.listing import check_token, matches_name
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import STATES
from wherry.emulator.batch.refusal import refuse

if TYPE_CHECKING:
    from wherry.emulator.batch.catalog import Catalog
    from wherry.emulator.batch.plane import Plane


def of(catalog: Catalog, job: Entry) -> list[tuple[str, int]]:
    """Return the ARN of each consumable resource that a job asks for, and how much of it."""
    if not catalog.count("consumable"):
        return []
    from wherry.emulator.batch import tasks

    return list(tasks.waiting(job, 0.0, False, catalog).consumables)


def list_jobs(plane: Plane, request: Document) -> Document:
    """Do ListJobsByConsumableResource.

    Raises:
        ClientError: there is no such resource, or a filter or the page is not valid.
    """
    resource = plane.catalog.consumable(request.get("consumableResource", ""))
    keeps = [_filter(one) for one in request.get("filters") or ()]
    users = reversed(plane.users.get(resource.arn, {}).values())
    jobs = (job for job in users if all(keep(job) for keep in keeps))
    check_token(request)
    shown, token = paging.page(jobs, _position, request, limits.PAGE)
    return paging.answer("jobs", [_summary(plane, job, resource.arn) for job in shown], token)


def _position(job: Entry) -> str:
    """Sort the newest first."""
    return f"{10**15 - job.serial:016d}"


def _filter(asked: Document) -> Callable[[Entry], bool]:
    name, values = asked.get("name"), list(asked.get("values") or ())
    refuse(
        name not in ("JOB_STATUS", "JOB_NAME"),
        f"Filter name must be JOB_STATUS or JOB_NAME, but is {name!r}",
    )
    if name == "JOB_NAME":
        return lambda job: any(matches_name(value, job.name) for value in values)
    refuse(not set(values) <= set(STATES), f"Filter values must be of {', '.join(STATES)}")
    return lambda job: job.status in values


def _summary(plane: Plane, job: Entry, arn: str) -> Document:
    asked = dict(of(plane.catalog, job))
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
