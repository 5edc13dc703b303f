"""Gathers the facts about one job, in few calls: a job's state says what is worth a look.

====================  ===========================================================================
state                 looked at
====================  ===========================================================================
SUBMITTED, PENDING    the jobs that it depends on; of an array a child that waits
RUNNABLE              queue, environments, the queue's front and its first job, policy,
                      consumable resources; after the grace also what lets instances come
STARTING              images, roles, log group
RUNNING               the log; of a multi-node job its nodes
FAILED, SUCCEEDED     the log; of an array the children that failed; after a failed start images,
                      roles and the log group; after a lost host the environments
====================  ===========================================================================
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from wherry.aws import jobs
from wherry.aws.diagnosis import parts, places
from wherry.aws.diagnosis.asked import end_of, last_of, name_of, needs_of
from wherry.aws.diagnosis.asking import Asking, Services
from wherry.aws.diagnosis.facts import Facts
from wherry.aws.diagnosis.reasons import reason_of
from wherry.aws.jobs import JobView
from wherry.errors import AwsError, CredentialsError

GRACE = 600.0
"""Seconds for which AWS's own reasons are not believed: they can be false while an environment
scales up (nextflow-io/nextflow#7479)."""

_DESCRIBED = 100  # what DescribeJobs takes at most
_NODES = 90
_LISTED = 1000  # a page of ListJobs


def gather(services: Services, job_id: str, now: float) -> Facts:
    """Look at a job and at what its state makes worth a look.

    Args:
        services: calls by the name of the service; ``batch`` must be there, others may be missing.
        job_id: of a job, a child (``id:7``) or a node (``id#1``); or an ARN.
        now: seconds since the epoch.

    Raises:
        AwsError: AWS cannot be reached at all, or does not take the credentials.
    """
    plain = name_of(job_id)
    asking = Asking(services)
    facts = _with_job(services, asking, Facts(plain, now))
    if facts.job is not None:
        for look in _PLANS.get(facts.job.status, ()):
            facts = look(asking, facts)
    return dataclasses.replace(facts, unseen=tuple(asking.unseen))


Look = Callable[[Asking, Facts], Facts]


def described(asking: Asking, ids: list[str], what: str) -> list[JobView]:
    """Return jobs, in the order asked for; those that AWS does not know are left out."""
    wanted = list(dict.fromkeys(ids))[:_DESCRIBED]
    if not wanted:
        return []
    answer = asking.ask("batch", "DescribeJobs", what, jobs=wanted)
    found = {job.id: job for job in map(jobs.view, answer.document.get("jobs") or ())}
    return [found[job_id] for job_id in wanted if job_id in found]


def _with_job(services: Services, asking: Asking, facts: Facts) -> Facts:
    """Look at the job itself, and at the whole that it is a part of."""
    whole = facts.job_id.partition(":")[0].partition("#")[0]
    ids = list(dict.fromkeys((facts.job_id, whole)))
    try:
        answer = services["batch"].call("DescribeJobs", jobs=ids)
    except CredentialsError:
        raise
    except AwsError as error:
        if not error.denied:
            raise
        asking.note("the job itself: not permitted (batch:DescribeJobs)")
        return dataclasses.replace(facts, is_visible=False)
    found = {job.id: job for job in map(jobs.view, answer.get("jobs") or ())}
    job = found.get(facts.job_id)
    parent = found.get(whole) if whole != facts.job_id else None
    return dataclasses.replace(facts, job=job, parent=parent)


def _dependencies(asking: Asking, facts: Facts) -> Facts:
    """Look at the jobs that it depends on; a child's stand with its array."""
    job = facts.parent if facts.parent is not None and facts.parent.array_size else facts.job
    if job is None or not needs_of(job):
        return facts
    ids = [_counterpart(need, facts) for need in needs_of(job)]
    wanted = [each for each in ids if each]
    found = described(asking, wanted, "the jobs that it depends on")
    known = {each.id for each in found}
    gone = tuple(each for each in wanted if each not in known)
    return dataclasses.replace(facts, dependencies=tuple(found), forgotten=gone)


def _counterpart(need: Mapping[str, Any], facts: Facts) -> str:
    """Return the id of what is waited for: of the same index, or the one before, for children."""
    job_id, kind = str(need.get("jobId") or ""), need.get("type")
    index = facts.job_id.partition(":")[2]
    if not index:
        return job_id
    if kind == "N_TO_N":
        return f"{job_id}:{index}"
    if kind == "SEQUENTIAL":
        before = int(index) - 1
        return f"{facts.job_id.partition(':')[0]}:{before}" if before >= 0 else ""
    return job_id


def _waiting_child(asking: Asking, facts: Facts) -> Facts:
    """Look at one child of an array that waits for room, and at failures there are already."""
    job = facts.job
    if job is None or not job.array_size:
        return facts
    state = next((one for one in ("RUNNABLE", "STARTING") if job.counts.get(one)), "")
    if state:
        answer = asking.ask(
            "batch",
            "ListJobs",
            "the children of the array",
            arrayJobId=job.id,
            jobStatus=state,
            maxResults=10,
        )
        listed = [str(one.get("jobId")) for one in answer.document.get("jobSummaryList") or ()]
        found = described(asking, listed[:10], "the children of the array")
        told = sorted(found, key=lambda each: not each.reason)
        if told:
            facts = dataclasses.replace(facts, child=told[0])
    return _failed_children(asking, facts)


def _failed_children(asking: Asking, facts: Facts) -> Facts:
    """List the children that failed, and look at the one that failed first."""
    job = facts.job
    if job is None or not job.array_size or not job.counts.get("FAILED"):
        return facts
    answer = asking.ask(
        "batch",
        "ListJobs",
        "the children that failed",
        arrayJobId=job.id,
        jobStatus="FAILED",
        maxResults=_LISTED,
    )
    failed = sorted(map(jobs.view, answer.document.get("jobSummaryList") or ()), key=_ended_at)
    sample = described(asking, [each.id for each in failed[:1]], "the child that failed first")
    return dataclasses.replace(facts, failed=tuple(failed), sample=sample[0] if sample else None)


def _nodes(asking: Asking, facts: Facts) -> Facts:
    """Look at the nodes of a multi-node job, or at those beside a node."""
    whole = facts.parent or facts.job
    if whole is None or not whole.num_nodes:
        return facts
    ids = [jobs.node_id(whole.id, index) for index in range(min(whole.num_nodes, _NODES))]
    main = jobs.node_id(whole.id, whole.main_node)
    found = described(asking, [main, *ids], "the nodes")
    ordered = sorted(found, key=lambda node: node.index or 0)
    return dataclasses.replace(facts, nodes=tuple(ordered))


def _line(asking: Asking, facts: Facts) -> Facts:
    """Look at the queue of a job that waits for room, and at the job that is first in it."""
    waiter = facts.waiter
    if waiter is None or waiter.status != "RUNNABLE":
        return facts
    facts = places.with_queue(asking, facts, waiter)
    facts = places.with_line(asking, facts, waiter)
    facts = places.with_policy(asking, facts)
    facts = parts.with_consumables(asking, facts, waiter)
    return _head(asking, facts, waiter)


def _head(asking: Asking, facts: Facts, waiter: JobView) -> Facts:
    if facts.line is None or not facts.line.arns:
        return facts
    first = name_of(facts.line.arns[0])
    if first in (waiter.id, _in_line(waiter)):
        return facts
    found = described(asking, [first], "the first job of the queue")
    return dataclasses.replace(facts, head=found[0] if found else None)


def _arrival(asking: Asking, facts: Facts) -> Facts:
    """After the grace, look at what keeps instances from coming, where nothing else tells."""
    waiter = facts.waiter
    if waiter is None or waiter.status != "RUNNABLE":
        return facts
    said = reason_of(waiter.reason)
    if said is not None and said.code == "service-role":
        return parts.with_service_roles(asking, facts)
    if facts.waited < GRACE:
        return facts
    facts = parts.with_instance_roles(asking, facts)
    return parts.with_security_groups(asking, facts)


def _start(asking: Asking, facts: Facts) -> Facts:
    job = facts.sample or facts.child or facts.job
    if job is None or not _is_about_starting(job):
        return facts
    facts = parts.with_roles(asking, facts, job)
    facts = parts.with_images(asking, facts, job)
    return parts.with_group(asking, facts, job)


def _is_about_starting(job: JobView) -> bool:
    """Tell whether a job has still to start, or failed to."""
    if not job.ended:
        return job.status == "STARTING"
    end = end_of(job)
    return end.exit_code is None and "Error" in end.reason


def _lost_host(asking: Asking, facts: Facts) -> Facts:
    """After a lost host, look at the environment: only it tells whether Spot took it."""
    job = facts.sample or facts.job
    last = None if job is None else last_of(job)
    if job is None or last is None or not last.reason.startswith("Host EC2"):
        return facts
    return places.with_queue(asking, facts, job)


def _log(asking: Asking, facts: Facts) -> Facts:
    job = facts.sample or _main_node(facts) or facts.job
    if job is None or not job.attempts or job.attempts[-1].started_at is None:
        return facts
    return parts.with_log(asking, facts, job)


def _main_node(facts: Facts) -> JobView | None:
    """Return the main node, which decides how a multi-node job ends."""
    job = facts.job
    if job is None or not job.num_nodes:
        return None
    main = jobs.node_id(job.id, job.main_node)
    return next((node for node in facts.nodes if node.id == main), None)


def _in_line(job: JobView) -> str:
    """Return the id of what stands in line: nodes do so as one."""
    return job.parent if job.kind == "node" else job.id


def _ended_at(job: JobView) -> float:
    return job.stopped_at or float("inf")


_PLANS: Mapping[str, tuple[Look, ...]] = {
    "SUBMITTED": (_dependencies, _waiting_child, _line, _arrival),
    "PENDING": (_dependencies, _waiting_child, _line, _arrival, _start, _log),
    "RUNNABLE": (_dependencies, _line, _arrival),
    "STARTING": (_nodes, _start),
    "RUNNING": (_nodes, _log),
    "SUCCEEDED": (_log,),
    "FAILED": (_dependencies, _failed_children, _nodes, _lost_host, _start, _log),
}
