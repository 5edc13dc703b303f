"""SubmitJob: what is refused, and what a new job consists of.

Numbers are in `limits`; what concerns containers and their overrides is checked by `tasks`. There
is no client token: the same request twice makes two jobs, as with AWS.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

from wherry.emulator.batch import arns, definition_rules, dependencies, limits, overrides, tasks
from wherry.emulator.batch.book import Entry
from wherry.emulator.batch.errors import refuse
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import JobDefinition, JobQueue

if TYPE_CHECKING:
    from wherry.emulator.batch.plane import Plane

_LOOKS = (
    "parameters",
    "containerOverrides",
    "nodeOverrides",
    "ecsPropertiesOverride",
    "eksPropertiesOverride",
    "consumableResourcePropertiesOverride",
)
"""What of a request changes how the job's containers are described."""


def submit_job(plane: Plane, request: Document) -> Document:
    """Do SubmitJob.

    Raises:
        ClientError: the request is refused.
    """
    limits.check_job_name(request.get("jobName", ""))
    limits.check_submit_size(request)
    queue = plane.catalog.queue(request.get("jobQueue", ""))
    definition = plane.catalog.definition(request.get("jobDefinition", ""))
    size = _array_size(request)
    _check_queue(plane, queue, request)
    _check_rest(plane, queue, definition, request)
    request = dependencies.resolved(plane.book, request, size)
    refuse(
        plane.book.count("SUBMITTED") >= limits.SUBMITTED_JOBS,
        f"Maximum number of jobs in SUBMITTED state is {limits.SUBMITTED_JOBS}",
    )
    job = _job(plane, queue, definition, request, size)
    plane.book.add(job)
    plane.links.add(job)
    plane.users.add(job)
    plane.agenda.append(job.id)
    return {"jobArn": job.arn, "jobName": job.name, "jobId": job.id}


def look_of(definition: JobDefinition, request: Document) -> tuple[str, str, int]:
    """Return what jobs have in common whose containers are described alike."""
    given = {key: request[key] for key in _LOOKS if request.get(key)}
    return definition.arn, json.dumps(given) if given else "", -1


def _job(
    plane: Plane, queue: JobQueue, definition: JobDefinition, request: Document, size: int
) -> Entry:
    job_id = str(uuid.uuid4())
    is_multinode = definition.document.get("type") == "multinode"
    return Entry(
        id=job_id,
        arn=arns.make(plane.region, arns.JOB, job_id),
        name=request["jobName"],
        queue_arn=queue.arn,
        definition=definition,
        request=request,
        created_at=plane.clock.now_ms(),
        children=_nodes_of(definition, request) if is_multinode else size,
        kind="multinode" if is_multinode else "array" if size else "single",
        tags=dict(request.get("tags") or {}),
        serial=plane.book.next_serial(),
        look=look_of(definition, request),
    )


def _array_size(request: Document) -> int:
    asked: Document = request.get("arrayProperties") or {}
    if "size" not in asked:
        return 0
    size = int(asked["size"])
    limits.check_array_size(size)
    return size


def _nodes_of(definition: JobDefinition, request: Document) -> int:
    return overrides.num_nodes(definition.document["nodeProperties"], request)


def _check_queue(plane: Plane, queue: JobQueue, request: Document) -> None:
    refuse(
        queue.state != "ENABLED" or queue.status in ("DELETING", "DELETED"),
        f"JobQueue {queue.arn} is not in state ENABLED and cannot accept jobs",
    )
    share = request.get("shareIdentifier") or ""
    if _is_fair_share(plane, queue):
        refuse(
            not share,
            "Share identifier is required for jobs submitted to a job queue "
            "with a fair-share scheduling policy",
        )
        limits.check_share(share)
        active = plane.book.shares(queue.arn)
        refuse(
            share not in active and len(active) >= limits.SHARES,
            f"Job queue {queue.name} already has {limits.SHARES} active share identifiers",
        )
    else:
        refuse(
            bool(share),
            "Share identifier can only be given for a job queue with a scheduling policy",
        )


def _is_fair_share(plane: Plane, queue: JobQueue) -> bool:
    if not queue.scheduling_policy_arn:
        return False
    policy = plane.catalog.find_policy(queue.scheduling_policy_arn)
    return policy is None or "quotaSharePolicy" not in policy.document


def _check_rest(
    plane: Plane, queue: JobQueue, definition: JobDefinition, request: Document
) -> None:
    limits.check_tags(request.get("tags") or {})
    definition_rules.check_retry(request.get("retryStrategy"))
    definition_rules.check_timeout(request.get("timeout"))
    definition_rules.check_priority(request.get("schedulingPriorityOverride"))
    tasks.check(definition, request, _kinds(plane, queue))


def _kinds(plane: Plane, queue: JobQueue) -> set[str]:
    """Return the kinds of the environments of a queue, such as ``EC2`` and ``FARGATE``."""
    found = (plane.catalog.find_environment(arn) for arn in queue.environments)
    return {
        "UNMANAGED" if environment.type == "UNMANAGED" else environment.kind
        for environment in found
        if environment is not None
    }
