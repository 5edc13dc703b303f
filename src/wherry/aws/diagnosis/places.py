"""Looks at where a job waits: its queue, the environments behind it, the line, the policy."""

from __future__ import annotations

import dataclasses

from wherry.aws.diagnosis.asked import name_of
from wherry.aws.diagnosis.asking import Asking
from wherry.aws.diagnosis.environments import Environment, read_environment
from wherry.aws.diagnosis.facts import Facts, Line, Policy, Queue
from wherry.aws.documents import Document
from wherry.aws.jobs import JobView


def with_queue(asking: Asking, facts: Facts, job: JobView) -> Facts:
    """Look at the queue of a job, and at its environments."""
    queue, _, environments = look_at_queue(asking, job.queue)
    return dataclasses.replace(facts, queue=queue, environments=environments)


def look_at_queue(asking: Asking, queue: str) -> tuple[Queue | None, str, tuple[Environment, ...]]:
    """Return a queue, by name or ARN, its ARN, and its environments in their order."""
    answer = asking.ask("batch", "DescribeJobQueues", "the queue", jobQueues=[queue])
    found = answer.document.get("jobQueues") or ()
    if not found:
        return None, "", ()
    read, arn = _queue(found[0]), str(found[0].get("jobQueueArn", ""))
    if not read.environments:
        return read, arn, ()
    answer = asking.ask(
        "batch",
        "DescribeComputeEnvironments",
        "the compute environments",
        computeEnvironments=list(read.environments),
    )
    documents = answer.document.get("computeEnvironments") or ()
    by_arn = {one.get("computeEnvironmentArn"): one for one in documents}
    ordered = (by_arn[arn] for arn in read.environments if arn in by_arn)
    return read, arn, tuple(map(read_environment, ordered))


def with_line(asking: Asking, facts: Facts, job: JobView) -> Facts:
    """Look at the front of the queue; AWS's clock, where it is ahead of ours, counts."""
    answer = asking.ask(
        "batch", "GetJobQueueSnapshot", "the place in the queue", jobQueue=job.queue
    )
    if not answer.is_given:
        return facts
    line = _line(answer.document)
    return dataclasses.replace(facts, line=line, now=max(facts.now, line.updated_at))


def with_policy(asking: Asking, facts: Facts) -> Facts:
    """Look at the queue's scheduling policy, if it has one."""
    if facts.queue is None or not facts.queue.policy:
        return facts
    answer = asking.ask(
        "batch", "DescribeSchedulingPolicies", "the scheduling policy", arns=[facts.queue.policy]
    )
    found = answer.document.get("schedulingPolicies") or ()
    policy = _policy(found[0]) if found else None
    return dataclasses.replace(facts, policy=policy)


def _queue(document: Document) -> Queue:
    order = sorted(
        document.get("computeEnvironmentOrder") or (), key=lambda one: int(one.get("order") or 0)
    )
    return Queue(
        name=str(document.get("jobQueueName", "")),
        state=str(document.get("state", "ENABLED")),
        status=str(document.get("status", "VALID")),
        reason=str(document.get("statusReason") or ""),
        priority=int(document.get("priority") or 0),
        environments=tuple(str(one.get("computeEnvironment")) for one in order),
        policy=str(document.get("schedulingPolicyArn") or ""),
        limits=tuple(document.get("jobStateTimeLimitActions") or ()),
    )


def _line(document: Document) -> Line:
    front = document.get("frontOfQueue") or {}
    usage = document.get("queueUtilization") or {}
    shares = (usage.get("fairshareUtilization") or {}).get("topCapacityUtilization") or ()
    return Line(
        arns=tuple(str(one.get("jobArn")) for one in front.get("jobs") or ()),
        updated_at=float(front.get("lastUpdatedAt") or 0) / 1000,
        used=_vcpus(usage.get("totalCapacityUsage")),
        shares=tuple(
            (str(one.get("shareIdentifier")), _vcpus(one.get("capacityUsage"))) for one in shares
        ),
    )


def _vcpus(usage: object) -> float:
    listed = usage if isinstance(usage, list) else []
    return sum(
        float(one.get("quantity") or 0)
        for one in listed
        if str(one.get("capacityUnit")).lower() in ("vcpu", "cpu")
    )


def _policy(document: Document) -> Policy:
    fair = document.get("fairsharePolicy") or {}
    return Policy(
        name=name_of(str(document.get("arn") or document.get("name") or "")),
        reservation=int(fair.get("computeReservation") or 0),
        weights=tuple(
            (str(one.get("shareIdentifier")), float(one.get("weightFactor") or 1.0))
            for one in fair.get("shareDistribution") or ()
        ),
    )
