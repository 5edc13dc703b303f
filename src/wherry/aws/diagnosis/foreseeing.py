"""Before a job is submitted: can it ever run where it is sent?

The same questions as of a job that waits, asked of a request. What is certain can never work as
things are, and the request should not be sent; all else is a warning.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from wherry.aws import jobs
from wherry.aws.diagnosis import parts, places, starting, waiting
from wherry.aws.diagnosis.asked import part_of
from wherry.aws.diagnosis.asking import Asking, Services
from wherry.aws.diagnosis.facts import Facts, Queue
from wherry.aws.documents import Document
from wherry.aws.jobs import JobView
from wherry.specs.diagnosis import Certainty, Finding, ranked

_PASSING = frozenset(("queue-invalid", "environments-closed", "consumable-in-use"))
"""What may be otherwise tomorrow."""


def preflight(services: Services, submission: Document, definition: Document) -> list[Finding]:
    """Say what would keep a job from running, before it is submitted.

    Args:
        services: as for `diagnose`.
        submission: the parameters of SubmitJob.
        definition: of RegisterJobDefinition, or what DescribeJobDefinitions says.

    Returns:
        Findings, surest first. With one that is `Certainty.CERTAIN` the job could never run. What
        could not be looked at is the last finding.

    Raises:
        AwsError: AWS cannot be reached, or does not take the credentials.
    """
    asking = Asking(services)
    queue, arn, environments = places.look_at_queue(asking, str(submission.get("jobQueue", "")))
    job = imagined(submission, definition, arn)
    facts = Facts("", 0.0, job, queue=queue, environments=environments)
    for look in (parts.with_consumables, parts.with_roles, parts.with_images, parts.with_group):
        facts = look(asking, facts, job)
    found = [*_queue(facts.queue, submission, asking), *waiting.for_ever(facts)]
    found += starting.of_parts(facts)
    return [*ranked(map(_in_time, found)), *_unseen(asking)]


def imagined(submission: Document, definition: Document, queue_arn: str = "") -> JobView:
    """Return the job that a submission would make: the definition with its overrides.

    Args:
        submission: the parameters of SubmitJob.
        definition: of RegisterJobDefinition, or what DescribeJobDefinitions says.
        queue_arn: tells region and account.
    """
    region, account = part_of(queue_arn, 3), part_of(queue_arn, 4)
    partition = part_of(queue_arn, 1) or "aws"
    document: Document = {
        "jobId": "",
        "jobArn": f"arn:{partition}:batch:{region}:{account}:job/",
        "jobName": submission.get("jobName", ""),
        "jobQueue": queue_arn or submission.get("jobQueue", ""),
        "status": "",
        "platformCapabilities": definition.get("platformCapabilities") or [],
        "arrayProperties": submission.get("arrayProperties") or {},
        "shareIdentifier": submission.get("shareIdentifier") or "",
        "consumableResourceProperties": submission.get("consumableResourcePropertiesOverride")
        or definition.get("consumableResourceProperties")
        or {},
    }
    single = definition.get("containerProperties")
    if single:
        document["container"] = _overridden(single, submission.get("containerOverrides") or {})
    if definition.get("ecsProperties"):
        override = submission.get("ecsPropertiesOverride") or {}
        document["ecsProperties"] = _tasks(definition["ecsProperties"], override)
    if definition.get("eksProperties"):
        document["eksProperties"] = definition["eksProperties"]
    if definition.get("nodeProperties"):
        document["nodeProperties"] = _nodes(
            definition["nodeProperties"], submission.get("nodeOverrides") or {}
        )
    return jobs.view(document)


def _overridden(container: Document, override: Document) -> Document:
    """Lay an override over a container; resource requirements are laid over one by one."""
    wants = {
        one["type"]: one
        for source in (container, override)
        for one in source.get("resourceRequirements") or ()
    }
    kept = {key: override[key] for key in ("command", "instanceType") if override.get(key)}
    return {**container, **kept, "resourceRequirements": list(wants.values())}


def _tasks(properties: Document, override: Document) -> Document:
    over: Document = next(iter(override.get("taskProperties") or ()), {})
    by_name = {one.get("name"): one for one in over.get("containers") or ()}
    tasks = [
        {
            **task,
            "containers": [
                _overridden(one, by_name.get(one.get("name")) or {})
                for one in task.get("containers") or ()
            ],
        }
        for task in properties.get("taskProperties") or ()
    ]
    return {**properties, "taskProperties": tasks}


def _nodes(properties: Document, override: Document) -> Document:
    by_target = {one.get("targetNodes"): one for one in override.get("nodePropertyOverrides") or ()}
    ranges = []
    for one in properties.get("nodeRangeProperties") or ():
        over = by_target.get(one.get("targetNodes")) or {}
        changed = dict(one)
        if one.get("container"):
            changed["container"] = _overridden(
                one["container"], over.get("containerOverrides") or {}
            )
        ranges.append(changed)
    count = override.get("numNodes") or properties.get("numNodes")
    return {**properties, "numNodes": count, "nodeRangeProperties": ranges}


def _queue(queue: Queue | None, submission: Document, asking: Asking) -> Iterator[Finding]:
    name = submission.get("jobQueue", "")
    if queue is None and not asking.unseen:
        yield Finding(
            "queue-unknown",
            f"There is no job queue {name}.",
            "AWS Batch knows none of this name in this region and account.",
            "Check the name, the region and the profile.",
            Certainty.CERTAIN,
        )
    elif queue is not None and queue.state != "ENABLED":
        yield Finding(
            "queue-disabled",
            f"The queue {queue.name} is {queue.state} and takes no jobs.",
            queue.reason,
            f"Enable it (aws batch update-job-queue --job-queue {queue.name} --state ENABLED), "
            "or use another.",
            Certainty.CERTAIN,
        )


def _in_time(finding: Finding) -> Finding:
    """Make what may be otherwise tomorrow a warning."""
    if finding.code in _PASSING:
        return dataclasses.replace(finding, certainty=Certainty.LIKELY)
    return finding


def _unseen(asking: Asking) -> Iterator[Finding]:
    if asking.unseen:
        yield Finding(
            "not-looked-at",
            "Not everything could be looked at.",
            "; ".join(asking.unseen),
            certainty=Certainty.POSSIBLE,
        )
