"""SubmitJob, exactly once.

AWS Batch takes no client token: the same request twice makes two jobs. So every job's name holds a
token that nobody else makes. When a reply is lost, the job is looked for under its name, for a
while since lists are behind; only when it is not there the request is sent again. After a second
request, and when a client that was given to us has repeated the first by itself, twins are looked
for, and all but the first of them ended.
"""

from __future__ import annotations

from dataclasses import dataclass

from wherry.aws import jobs, lookup
from wherry.aws.calls import PATIENCE, Calls
from wherry.aws.documents import Document
from wherry.aws.pacing import Seconds
from wherry.errors import AwsError, LostReply, UsageError

LOOKS: tuple[Seconds, ...] = (0.0, 0.5, 1.0, 2.0, 4.0)
"""The pauses before each look for a job whose reply was lost."""

LOOKS_AFTER_FAILURE: tuple[Seconds, ...] = (0.0, 0.5, 1.0)
"""The same after AWS said that it failed: then it has rarely been carried out."""

TWIN = "Submitted twice, as the first reply was lost"


@dataclass(frozen=True)
class Submitted:
    """A job that AWS has.

    Args:
        job_id: AWS's id.
        job_arn: its ARN.
        job_name: its name.
    """

    job_id: str
    job_arn: str
    job_name: str


def submit(
    calls: Calls, request: Document, token: str, *, patience: Seconds = PATIENCE
) -> Submitted:
    """Submit a job; make sure that there is one, and only one.

    Args:
        calls: asks AWS Batch.
        request: the parameters of SubmitJob; its ``jobName`` has the token in it.
        token: what nobody else's job name has.
        patience: how long to go on after a first lost reply.

    Raises:
        LostReply: nobody knows whether there is a job: AWS does not let us look, or has given no
            reply for too long.
        AwsError: AWS refused, or failed again and again; there is no job.
        UsageError: AWS would refuse, or the name does not have the token.
    """
    if not token or token not in request.get("jobName", ""):
        raise UsageError(f"the job name {request.get('jobName')!r} does not have {token!r} in it")
    give_up: float | None = None
    while True:
        try:
            answer = calls.once("SubmitJob", **request)
        except LostReply as error:
            give_up = calls.time() + patience if give_up is None else give_up
            found = _looked_up(calls, request, error, give_up)
            if found is not None:
                return found
        else:
            made = _read(answer)
            doubtful = give_up is not None or _was_repeated(answer)
            return _without_twins(calls, request, made) if doubtful else made


def _looked_up(
    calls: Calls, request: Document, error: LostReply, give_up: float
) -> Submitted | None:
    """Return the job of a lost reply; ``None`` when it is safe to send the request again.

    Raises:
        LostReply: nobody can tell.
    """
    pauses = list(LOOKS_AFTER_FAILURE if error.status >= 500 else LOOKS)
    while pauses:
        if calls.time() + pauses[0] > give_up:
            raise _unresolved(request, error) from error
        if pauses[0]:
            calls.sleep(pauses[0])
        try:
            found = lookup.find(calls, request["jobQueue"], request["jobName"])
        except AwsError as trouble:
            if not trouble.passing:
                raise _unresolved(request, trouble) from error
            pauses[0] = 1.0  # this look does not count
        else:
            if found:
                return _first_of(calls, found)
            del pauses[0]
    return None


def _without_twins(calls: Calls, request: Document, made: Submitted) -> Submitted:
    try:
        found = lookup.find(calls, request["jobQueue"], request["jobName"])
    except AwsError:
        return made  # it is there, whatever else is
    return _first_of(calls, found) if found else made


def _first_of(calls: Calls, found: list[jobs.JobView]) -> Submitted:
    """Return the first of all jobs with one name; the others are ended."""
    first, *twins = sorted(found, key=_age)
    for twin in twins:
        if not twin.ended:
            calls.call("TerminateJob", jobId=twin.id, reason=TWIN)
    return _submitted(first)


def _age(job: jobs.JobView) -> tuple[float, str]:
    return job.created_at or 0.0, job.id


def _submitted(job: jobs.JobView) -> Submitted:
    return Submitted(job.id, job.arn, job.name)


def _read(answer: Document) -> Submitted:
    return Submitted(
        str(answer["jobId"]), str(answer.get("jobArn", "")), str(answer.get("jobName", ""))
    )


def _was_repeated(answer: Document) -> bool:
    """Tell whether a client has sent the request more than once."""
    about: Document = answer.get("ResponseMetadata") or {}
    times = about.get("RetryAttempts", 0)
    return isinstance(times, int) and times > 0


def _unresolved(request: Document, error: AwsError) -> LostReply:
    return LostReply(
        f"the reply to SubmitJob was lost, and it could not be found out whether there is a job: "
        f"{error}. Before it is submitted again, look for {request['jobName']!r} in the queue "
        f"{request['jobQueue']!r}",
        code=error.code,
        operation="SubmitJob",
        status=error.status,
        request_id=error.request_id,
    )
