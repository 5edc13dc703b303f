"""From a job's id to a diagnosis: gather, deduce, rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from wherry.aws.diagnosis import arrays, ended, nodes, running, shown, starting, waiting
from wherry.aws.diagnosis.asking import Services
from wherry.aws.diagnosis.facts import Facts
from wherry.aws.diagnosis.gathering import gather
from wherry.aws.jobs import JobView
from wherry.specs.diagnosis import Certainty, Diagnosis, Fact, Finding, ranked
from wherry.specs.states import AppState

MOST = 4
"""How many causes are told: more would not be read."""

_LINES = 8
_LONGEST = 300
_STATES = {
    "SUBMITTED": AppState.SUBMITTED,
    "PENDING": AppState.PENDING,
    "RUNNABLE": AppState.PENDING,
    "STARTING": AppState.PENDING,
    "RUNNING": AppState.RUNNING,
    "SUCCEEDED": AppState.SUCCEEDED,
    "FAILED": AppState.FAILED,
}

Causes = Callable[[Facts], Iterator[Finding]]


def diagnose(services: Services, job_id: str, now: float) -> Diagnosis:
    """Say why a job of AWS Batch is in the state that it is in.

    Args:
        services: calls by the service's name: ``batch``, and ``logs``, ``iam``, ``ecr`` and
            ``ec2`` as far as there are such; `asking.services_of` makes them of a session.
        job_id: a job's id or ARN, a child's (``id:7``) or a node's (``id#1``); whoever
            submitted it.
        now: seconds since the epoch.

    Returns:
        Causes, most likely first. A job that AWS does not know (any more) is EXPIRED.

    Raises:
        AwsError: AWS cannot be reached, or does not take the credentials. A missing permission is
            no error: the diagnosis says what could not be looked at.
    """
    return deduce(gather(services, job_id, now))


def most_telling(jobs: Iterable[JobView]) -> JobView | None:
    """Return which of several jobs behind one app to ask about: what failed first, else what waits.

    Args:
        jobs: as they are now.
    """
    order = ("FAILED", "RUNNABLE", "PENDING", "SUBMITTED", "STARTING", "RUNNING", "SUCCEEDED")
    ranks = {state: rank for rank, state in enumerate(order)}

    def rank(job: JobView) -> tuple[int, float]:
        return ranks.get(job.status, len(order)), job.stopped_at or job.created_at or 0.0

    return min(jobs, key=rank, default=None)


def deduce(facts: Facts) -> Diagnosis:
    """Return the diagnosis that facts allow."""
    job = facts.job
    log = facts.log
    findings = ranked(_causes(facts)(facts))[:MOST]
    return Diagnosis(
        app_id=facts.job_id,
        state=_state(facts),
        raw_state=job.status if job is not None else "",
        findings=findings,
        facts=_not_said_twice(shown.facts_of(facts), findings),
        log=tuple(line[:_LONGEST] for line in log.lines[-_LINES:]),
        log_name=f"{log.group} {log.stream}" if log.stream else "",
        unseen=facts.unseen,
    )


def _not_said_twice(facts: tuple[Fact, ...], findings: tuple[Finding, ...]) -> tuple[Fact, ...]:
    """Leave out words of AWS that the first cause has already."""
    said = findings[0].detail if findings else ""
    return tuple(fact for fact in facts if fact.label not in shown.WORDS or fact.text not in said)


def _state(facts: Facts) -> AppState:
    job = facts.job
    if job is None:
        return AppState.EXPIRED if facts.is_visible else AppState.UNKNOWN
    if job.status == "FAILED" and (job.is_cancelled or job.is_terminated):
        return AppState.CANCELLED
    return _STATES.get(job.status, AppState.UNKNOWN)


def _causes(facts: Facts) -> Causes:
    job = facts.job
    if job is None:
        return _unknown if facts.is_visible else _invisible
    special = _BY_KIND.get((job.status, job.kind))
    return special or _BY_STATE.get(job.status, running.running)


def _array_failed(facts: Facts) -> Iterator[Finding]:
    job = facts.job
    if job is not None and (job.is_cancelled or job.is_terminated or not facts.failed):
        yield from ended.failed(facts)
    yield from arrays.failures(facts)


def _array_pending(facts: Facts) -> Iterator[Finding]:
    yield from waiting.submitted(facts)
    if facts.child is not None and facts.child.status == "STARTING":
        yield from starting.still_starting(facts)
    yield from arrays.failures(facts)


def _gang_runs(facts: Facts) -> Iterator[Finding]:
    yield from nodes.of_running(facts)
    yield from running.running(facts)


def _unknown(_facts: Facts) -> Iterator[Finding]:
    yield Finding(
        "forgotten",
        "AWS Batch knows no such job here.",
        "It forgets jobs some days after their end (at least 7), and a job is known only in its "
        "own region and account.",
        "Check region and profile, or look at our own record: wherry describe.",
    )


def _invisible(facts: Facts) -> Iterator[Finding]:
    yield Finding(
        "not-permitted",
        "The credentials in use may not look at jobs.",
        f"AWS refused batch:DescribeJobs for {facts.job_id}.",
        "Allow batch:DescribeJobs (and, for more, batch:Describe*, batch:List*, "
        "batch:GetJobQueueSnapshot, logs:GetLogEvents, iam:GetRole).",
        Certainty.CERTAIN,
    )


_BY_STATE: Mapping[str, Causes] = {
    "SUBMITTED": waiting.submitted,
    "PENDING": waiting.submitted,
    "RUNNABLE": waiting.runnable,
    "STARTING": starting.still_starting,
    "RUNNING": running.running,
    "SUCCEEDED": ended.succeeded,
    "FAILED": ended.failed,
}
_BY_KIND: Mapping[tuple[str, str], Causes] = {
    ("SUBMITTED", "array"): _array_pending,
    ("PENDING", "array"): _array_pending,
    ("FAILED", "array"): _array_failed,
    ("RUNNING", "multinode"): _gang_runs,
    ("FAILED", "multinode"): nodes.of_failed,
    ("FAILED", "node"): nodes.of_node,
}
