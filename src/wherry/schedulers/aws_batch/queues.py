"""Looks a queue up before a job is sent to it: what it is made of, and whether it takes jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wherry.aws.calls import Calls
from wherry.aws.documents import Document
from wherry.errors import AwsError, CredentialsError, UnknownNameError, UsageError, unknown
from wherry.schedulers.aws_batch import naming
from wherry.schedulers.aws_batch.facts import QueueFacts, queue_facts


@dataclass(frozen=True)
class SeenQueue:
    """What was found out about a queue.

    Args:
        facts: what a request depends on; ``None`` where AWS does not let us look.
        warnings: what is worth knowing before a job is sent to it.
    """

    facts: QueueFacts | None
    warnings: tuple[str, ...] = ()


def look_up(calls: Calls, queue: str) -> SeenQueue:
    """Look a queue and its environments up.

    Args:
        calls: asks AWS Batch.
        queue: its name or ARN.

    Raises:
        UnknownNameError: there is no such queue.
        UsageError: it takes no jobs at present.
        AwsError: AWS cannot be asked.
    """
    try:
        found = calls.call("DescribeJobQueues", jobQueues=[queue]).get("jobQueues") or ()
    except AwsError as error:
        if not error.denied or isinstance(error, CredentialsError):
            raise
        return SeenQueue(None, (_unseen(queue, "DescribeJobQueues"),))
    if not found:
        raise UnknownNameError(_unknown(calls, queue))
    document: Document = found[0]
    _check_state(queue, document)
    names = [
        str(each["computeEnvironment"]) for each in document.get("computeEnvironmentOrder") or ()
    ]
    try:
        environments = _environments(calls, names)
    except AwsError as error:
        if not error.denied or isinstance(error, CredentialsError):
            raise
        return SeenQueue(None, (_unseen(queue, "DescribeComputeEnvironments"),))
    return SeenQueue(queue_facts(document, environments), tuple(_warnings(queue, environments)))


def _environments(calls: Calls, names: list[str]) -> list[Document]:
    if not names:
        return []
    answer = calls.call("DescribeComputeEnvironments", computeEnvironments=names)
    return list(answer.get("computeEnvironments") or ())


def _unknown(calls: Calls, queue: str) -> str:
    name = naming.queue_name(queue)
    try:
        known = [
            str(each["jobQueueName"]) for each in calls.pages("DescribeJobQueues", "jobQueues")
        ]
    except AwsError:
        known = []
    region = getattr(getattr(calls.client, "meta", None), "region_name", "") or "?"
    return f"{unknown('job queue', name, known)} (region {region})"


def _check_state(queue: str, document: Document) -> None:
    name = naming.queue_name(queue)
    if document.get("state") == "DISABLED":
        raise UsageError(
            f"job queue {name!r} is DISABLED and takes no jobs; enable it (aws batch "
            f"update-job-queue --job-queue {name} --state ENABLED), or use another"
        )
    status = document.get("status", "VALID")
    if status in ("INVALID", "DELETING", "DELETED"):
        reason = document.get("statusReason")
        raise UsageError(
            f"job queue {name!r} is {status} and takes no jobs" + (f": {reason}" if reason else "")
        )


def _warnings(queue: str, environments: Iterable[Document]) -> Iterable[str]:
    known = list(environments)
    ready = [
        each
        for each in known
        if each.get("state", "ENABLED") == "ENABLED" and each.get("status", "VALID") == "VALID"
    ]
    if known and not ready:
        states = ", ".join(
            f"{each.get('computeEnvironmentName')} is {each.get('state')}, {each.get('status')}"
            for each in known
        )
        yield (
            f"no compute environment of queue {naming.queue_name(queue)!r} starts jobs at present "
            f"({states}); the job waits until one does"
        )


def _unseen(queue: str, operation: str) -> str:
    return (
        f"what queue {naming.queue_name(queue)!r} is made of is not known, as these credentials "
        f"may not do {operation}; say platform=fargate if it is Fargate"
    )
