"""ListJobs: the jobs of a queue, the children of an array, the nodes of a multi-node job.

Without a status, RUNNING ones only. One filter at a time; it puts the status aside (all but
SHARE_IDENTIFIER) and does not concern children and nodes. Source: the API model, ``ListJobs``.

An array or multi-node job that is not known has no children: nothing is listed, as DescribeJobs
says nothing of it. Without filters AWS documents no order; here too, newest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from wherry.emulator.batch import arns, arrays, limits, needs, nodes, paging, patterns, snapshots
from wherry.emulator.batch.book import Entry
from wherry.emulator.batch.errors import refuse
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import STATES

if TYPE_CHECKING:
    from wherry.emulator.batch.plane import Plane

Keep = Callable[[Entry], bool]

_DISPATCHED = ("STARTING", "RUNNING")
_OF = ("jobQueue", "arrayJobId", "multiNodeJobId")


def list_jobs(plane: Plane, request: Document) -> Document:
    """Do ListJobs.

    Raises:
        ClientError: not exactly one of queue, array and multi-node job is given, there is no such
            queue, or a status, filter, page size or token is not valid.
    """
    given = [name for name in _OF if request.get(name)]
    refuse(
        len(given) != 1,
        "You must specify exactly one of jobQueue, arrayJobId and multiNodeJobId",
    )
    status = request.get("jobStatus") or ""
    refuse(bool(status) and status not in STATES, f"Invalid job status: {status}")
    if given[0] == "jobQueue":
        return _of_queue(plane, request, status)
    parent = plane.book.find(request[given[0]])
    family = plane.book.family_of(parent) if parent is not None else []
    kind = "child" if given[0] == "arrayJobId" else "node"
    wanted = status or "RUNNING"
    jobs = (job for job in family if job.kind == kind and job.status == wanted)
    return _page(plane, jobs, _by_index, request, limits.LIST_PAGE)


def _of_queue(plane: Plane, request: Document, status: str) -> Document:
    queue = plane.catalog.queue(request["jobQueue"])
    filters: list[Document] = request.get("filters") or []
    refuse(len(filters) > 1, "Only one filter can be used at a time")
    if not filters:
        jobs = list(plane.book.in_queue(queue.arn, (status or "RUNNING",)))
        return _page(plane, _newest_first(jobs), by_age, request, limits.LIST_PAGE)
    name, keep = _filter(filters[0])
    states = (status,) if status and name == "SHARE_IDENTIFIER" else STATES
    jobs = [job for job in plane.book.in_queue(queue.arn, states) if keep(job)]
    return _page(plane, _newest_first(jobs), by_age, request, limits.LIST_PAGE_FILTERED)


def _page(
    plane: Plane, jobs: Iterable[Entry], key: Callable[[Entry], str], request: Document, most: int
) -> Document:
    return paging.answer(
        "jobSummaryList", jobs, key, lambda job: summary(plane, job), request, most
    )


def _newest_first(jobs: list[Entry]) -> list[Entry]:
    return sorted(jobs, key=lambda job: -job.serial)


def by_age(job: Entry) -> str:
    """Return what puts jobs in order, the newest first."""
    return f"{10**15 - job.serial:016d}"


def _by_index(job: Entry) -> str:
    return f"{job.index:06d}"


def summary(plane: Plane, job: Entry) -> Document:
    """Return ``JobSummary`` of a job."""
    shown: Document = {
        "jobArn": job.arn,
        "jobId": job.id,
        "jobName": job.name,
        "createdAt": job.created_at,
        "status": job.status,
        "jobDefinition": job.definition.arn,
    }
    optional = {
        "statusReason": job.status_reason,
        "startedAt": job.started_at,
        "stoppedAt": job.stopped_at,
        "shareIdentifier": job.request.get("shareIdentifier"),
        "container": _container(job),
        "arrayProperties": arrays.properties(job),
        "nodeProperties": _node(plane, job),
        "capacityUsage": _capacity(job),
        "isCancelled": job.is_cancelled,
        "isTerminated": job.is_terminated,
    }
    return shown | {name: value for name, value in optional.items() if value}


def _container(job: Entry) -> Document:
    if not job.runs or len(job.runs[-1].containers) != 1:
        return {}
    only = job.runs[-1].containers[0]
    return {name: only[name] for name in ("exitCode", "reason") if name in only}


def _capacity(job: Entry) -> list[Document]:
    """Return what a job uses now; AWS shows an example of one that is RUNNING, and of no other.

    Source: user guide, "Track compute job capacity utilization"; units as in the API reference.
    """
    if job.status not in _DISPATCHED or job.kind in ("array", "node"):
        return []
    on_eks = job.definition.document.get("containerOrchestrationType") == "EKS"
    return snapshots.quantity(needs.vcpus(job), "cpu" if on_eks else "VCPU")


def _node(plane: Plane, job: Entry) -> Document:
    if job.kind == "multinode":
        return {"numNodes": job.children}
    if job.kind == "node":
        return {
            "isMainNode": nodes.is_main(job),
            "numNodes": plane.book.parent_of(job).children,
            "nodeIndex": job.index,
        }
    return {}


def _filter(asked: Document) -> tuple[str, Keep]:
    name, values = asked.get("name") or "", [str(value) for value in asked.get("values") or ()]
    refuse(
        name not in _FILTERS, f"Filter name must be one of {', '.join(_FILTERS)}, but is {name!r}"
    )
    refuse(len(values) != 1, f"Filter {name} needs exactly one value, but has {len(values)}")
    return name, _FILTERS[name](values[0])


def _named(value: str) -> Keep:
    return lambda job: patterns.fits_any_case(value, job.name)


def _defined(value: str) -> Keep:
    if arns.is_arn(value):
        return lambda job: job.definition.arn == value
    return lambda job: patterns.fits(value, job.definition.name)


def _before(value: str) -> Keep:
    moment = _milliseconds(value)
    return lambda job: job.created_at < moment


def _after(value: str) -> Keep:
    moment = _milliseconds(value)
    return lambda job: job.created_at > moment


def _shared(value: str) -> Keep:
    return lambda job: job.request.get("shareIdentifier") == value


def _milliseconds(value: str) -> int:
    refuse(not value.isdecimal(), f"Filter value {value!r} is not a number of milliseconds")
    return int(value)


_FILTERS: dict[str, Callable[[str], Keep]] = {
    "JOB_NAME": _named,
    "JOB_DEFINITION": _defined,
    "BEFORE_CREATED_AT": _before,
    "AFTER_CREATED_AT": _after,
    "SHARE_IDENTIFIER": _shared,
}
