"""Old job definitions of ours: which they are, and letting go of them.

AWS does not say when a definition was registered or last used; our tag says the first. One that is
deregistered while runs still want it is registered again by the next of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field

from wherry.aws import definitions, jobs, lookup
from wherry.aws.calls import Calls
from wherry.aws.documents import Document
from wherry.aws.pacing import Seconds
from wherry.errors import AwsError

PREFIX = "wherry-"
"""What the names of our definitions begin with."""


@dataclass(frozen=True)
class OldDefinition:
    """A definition that may go.

    Args:
        arn: its ARN, with the revision.
        name: its name.
        revision: its revision.
        registered_at: seconds since the epoch.
        tags: its tags.
    """

    arn: str
    name: str
    revision: int
    registered_at: float
    tags: dict[str, str] = field(default_factory=dict)


def garbage(
    calls: Calls,
    older_than: Seconds,
    in_use: Container[str],
    *,
    now: Callable[[], float] = time.time,
) -> list[OldDefinition]:
    """Return the definitions of ours that are old and that no job has, oldest first.

    Args:
        calls: asks AWS Batch.
        older_than: how long ago they were registered, at least.
        in_use: the ARNs that are not to be among them; see `in_use_by_jobs`.
        now: seconds since the epoch.

    Raises:
        AwsError: AWS refused, or does not answer.
    """
    bound = now() - older_than
    known = calls.pages("DescribeJobDefinitions", "jobDefinitions", status="ACTIVE")
    ours = (found for found in map(_read, known) if found is not None)
    old = [each for each in ours if each.registered_at <= bound and each.arn not in in_use]
    return sorted(old, key=lambda each: (each.registered_at, each.arn))


def in_use_by_jobs(calls: Calls, queues: Iterable[str] | None = None) -> set[str]:
    """Return the ARNs of the definitions of all jobs that have not ended.

    Args:
        calls: asks AWS Batch.
        queues: names or ARNs; all queues when ``None``.

    Raises:
        AwsError: AWS refused, or does not answer.
    """
    if queues is None:
        known = calls.pages("DescribeJobQueues", "jobQueues")
        queues = [str(each["jobQueueArn"]) for each in known]
    return {
        job.definition
        for queue in queues
        for state in jobs.ACTIVE
        for job in lookup.listed(calls, queue=queue, status=state)
    }


def deregister(calls: Calls, arns: Iterable[str]) -> list[str]:
    """Deregister definitions; those that are gone already are passed over.

    Returns:
        The ARNs of those that were there.

    Raises:
        AwsError: AWS refused for another reason, or does not answer.
    """
    done = []
    for arn in arns:
        try:
            calls.call("DeregisterJobDefinition", jobDefinition=arn)
        except AwsError as error:
            if not _is_gone(error):
                raise
        else:
            done.append(arn)
    return done


def _read(document: Document) -> OldDefinition | None:
    """Return a definition if it is an active one of ours, whose age is known."""
    name = str(document.get("jobDefinitionName", ""))
    when = definitions.registered_at(document)
    if not name.startswith(PREFIX) or when is None:
        return None
    if document.get("status", "ACTIVE") != "ACTIVE":
        return None
    return OldDefinition(
        str(document.get("jobDefinitionArn", "")),
        name,
        int(document.get("revision", 0)),
        when,
        dict(document.get("tags") or {}),
    )


def _is_gone(error: AwsError) -> bool:
    words = str(error).lower()
    return "does not exist" in words or "not found" in words
