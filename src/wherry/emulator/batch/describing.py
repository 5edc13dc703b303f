"""DescribeJobs, and the same shape in events: what a job looks like from outside.

What a job's containers are is the same for many jobs (all children of an array, all jobs of one
definition and one set of overrides), so it is worked out once and shared; nobody may change it.
An attempt is shown in ``attempts`` once it has ended; the one that runs shows in ``container``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wherry.emulator.batch import arrays, limits, nodes, pod_details, retries, tasks
from wherry.emulator.batch.book import Entry
from wherry.emulator.batch.errors import refuse
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import Attempt

if TYPE_CHECKING:
    from wherry.emulator.batch.plane import Plane

VIEWS = 2048
"""How many shared descriptions are remembered."""


def describe_jobs(plane: Plane, request: Document) -> Document:
    """Do DescribeJobs: known jobs, each once, in the order asked for.

    Raises:
        ClientError: there are no ids, or more than 100.
    """
    asked: list[str] = request.get("jobs") or []
    refuse(not asked, "At least one job ID is needed")
    refuse(
        len(asked) > limits.DESCRIBED_JOBS,
        f"Maximum number of jobs supported is {limits.DESCRIBED_JOBS}",
    )
    found = dict.fromkeys(map(plane.book.find, asked))
    return {"jobs": [detail(plane, job) for job in found if job is not None]}


def event(plane: Plane, job: Entry) -> Document:
    """Return the ``detail`` of an event about a job; its tags name the job, as AWS's do."""
    shown = detail(plane, job)
    return shown | {"tags": {"resourceArn": job.arn, **job.tags}}


def detail(plane: Plane, job: Entry) -> Document:
    """Return ``JobDetail`` of a job."""
    document = job.definition.document
    shown: Document = {
        "jobArn": job.arn,
        "jobName": job.name,
        "jobId": job.id,
        "jobQueue": job.queue_arn,
        "status": job.status,
        "createdAt": job.created_at,
        "retryStrategy": retries.strategy_of(job),
        "dependsOn": job.request.get("dependsOn") or [],
        "jobDefinition": job.definition.arn,
        "parameters": {**document.get("parameters", {}), **job.request.get("parameters", {})},
        "tags": job.tags,
        "propagateTags": bool(job.request.get("propagateTags", document.get("propagateTags"))),
        "platformCapabilities": document.get("platformCapabilities") or [],
        "isCancelled": job.is_cancelled,
        "isTerminated": job.is_terminated,
        **_containers(plane, job),
    }
    optional = {
        "statusReason": job.status_reason,
        "startedAt": job.started_at,
        "stoppedAt": job.stopped_at,
        "shareIdentifier": job.request.get("shareIdentifier"),
        "timeout": job.request.get("timeout") or document.get("timeout"),
        "arrayProperties": arrays.properties(job),
        "nodeDetails": _node(job),
    }
    shown |= {name: value for name, value in optional.items() if value}
    priority = job.request.get("schedulingPriorityOverride", document.get("schedulingPriority"))
    if priority is not None:
        shown["schedulingPriority"] = priority
    return shown


def _containers(plane: Plane, job: Entry) -> Document:
    """Return what the containers of a job are, with what its attempts have made of them."""
    view = _view(plane, job)
    for member, show in _SHAPES.items():
        if member in view:
            return {**view, "eksAttempts": [], **show(plane, view[member], job)}
    return {**view, "attempts": _attempts(job, _one_container), "eksAttempts": []}


def _view(plane: Plane, job: Entry) -> Document:
    found = plane.views.get(job.look)
    if found is None:
        if len(plane.views) >= VIEWS:
            plane.views.clear()
        plane.views[job.look] = found = tasks.effective(job)
    return found


def _with_container(_plane: Plane, container: Document, job: Entry) -> Document:
    return {
        "container": {**container, **_present(job), "networkInterfaces": []},
        "attempts": _attempts(job, _one_container),
    }


def _with_ecs(_plane: Plane, properties: Document, job: Entry) -> Document:
    run = _last(job)
    ends = _ends(run)
    shown = []
    for task in properties.get("taskProperties", ()):
        containers = [
            {**container, **ends.get(container.get("name", ""), {})}
            for container in task.get("containers", ())
        ]
        shown.append({**task, "containers": containers, **_whereabouts(run)})
    return {
        "ecsProperties": {**properties, "taskProperties": shown},
        "attempts": _attempts(job, _all_containers),
    }


def _with_eks(plane: Plane, properties: Document, job: Entry) -> Document:
    pod = properties["podProperties"]
    ended = [run for run in job.runs if run.stopped_at]
    return {
        "eksProperties": {
            **properties,
            "podProperties": pod_details.present(plane, pod, _last(job)),
        },
        "attempts": [],
        "eksAttempts": [{**pod_details.attempt(plane, pod, run), **_times(run)} for run in ended],
    }


_SHAPES: dict[str, Callable[[Plane, Document, Entry], Document]] = {
    "ecsProperties": _with_ecs,
    "eksProperties": _with_eks,
    "container": _with_container,
}


def _ends(run: Attempt | None) -> dict[str, Document]:
    return {end["name"]: end for end in (run.containers if run else ())}


def _attempts(job: Entry, show: Callable[[Attempt], Document]) -> list[Document]:
    return [{**show(run), **_times(run)} for run in job.runs if run.stopped_at]


def _one_container(run: Attempt) -> Document:
    end = run.containers[0] if run.containers else {}
    named = {name: value for name, value in end.items() if name != "name"}
    return {"container": {**_whereabouts(run), **named, "networkInterfaces": []}}


def _all_containers(run: Attempt) -> Document:
    containers = [{**end, "networkInterfaces": []} for end in run.containers]
    return {
        "container": {},
        "taskProperties": [{**_whereabouts(run), "containers": containers}],
    }


def _times(run: Attempt) -> Document:
    optional = {
        "startedAt": run.started_at,
        "stoppedAt": run.stopped_at,
        "statusReason": run.status_reason,
    }
    return {name: value for name, value in optional.items() if value}


def _present(job: Entry) -> Document:
    """Return what ``container`` shows of the last attempt; nothing while a retry waits."""
    run = _last(job)
    if run is None:
        return {}
    end = run.containers[0] if run.containers else {}
    return {**_whereabouts(run), **{name: end[name] for name in end if name != "name"}}


def _last(job: Entry) -> Attempt | None:
    return job.runs[-1] if job.runs else None


def _whereabouts(run: Attempt | None) -> Document:
    if run is None:
        return {}
    optional = {"taskArn": run.task_arn, "containerInstanceArn": run.instance_arn}
    return {name: value for name, value in optional.items() if value}


def _node(job: Entry) -> Document:
    if job.kind == "node":
        return {"nodeIndex": job.index, "isMainNode": nodes.is_main(job)}
    return {}
