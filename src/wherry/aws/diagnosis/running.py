"""What there is to say of a job that runs: mostly that it does, and what may end it soon."""

from __future__ import annotations

from collections.abc import Iterator

from wherry.aws.diagnosis.ages import span
from wherry.aws.diagnosis.facts import Facts, Presence
from wherry.specs.diagnosis import Certainty, Finding

_QUIET = 300.0
_FARGATE_DAYS = 14
_DAY = 86_400.0


def running(facts: Facts) -> Iterator[Finding]:
    """Say how a job that runs is getting on."""
    job = facts.job
    if job is None:
        return
    ran = facts.now - (job.started_at or facts.now)
    yield from _near_its_end(facts, ran)
    yield from _silent(facts, ran)
    number = len(job.attempts) or 1
    attempt = f", in attempt {number} of {job.attempts_allowed}" if number > 1 else ""
    yield Finding(
        "running",
        f"It runs, since {span(ran)}{attempt}.",
    )


def _near_its_end(facts: Facts, ran: float) -> Iterator[Finding]:
    job = facts.job
    if job is None:
        return
    if job.timeout and ran > 0.8 * job.timeout:
        left = job.timeout - ran
        yield Finding(
            "timeout-near",
            f"Its timeout ends it in {span(left)}." if left > 0 else "Its timeout is ending it.",
            f"An attempt may take {span(job.timeout)}; this one has taken {span(ran)}.",
            "A timeout cannot be changed while the job runs; submit with a longer one.",
            Certainty.POSSIBLE,
        )
    if job.platform == "FARGATE" and ran > (_FARGATE_DAYS - 1) * _DAY:
        yield Finding(
            "fargate-days",
            f"Fargate may end jobs that run for more than {_FARGATE_DAYS} days.",
            f"It has run for {span(ran)}.",
            "Use EC2 instances for longer jobs.",
            Certainty.POSSIBLE,
        )


def _silent(facts: Facts, ran: float) -> Iterator[Finding]:
    if facts.log.presence is Presence.UNKNOWN or facts.log.lines or ran < _QUIET:
        return
    yield Finding(
        "silent",
        "It has written nothing to its log so far.",
        f"The stream {facts.log.stream} "
        + ("does not exist." if facts.log.presence is Presence.MISSING else "is empty."),
        "Programs often hold their output back when it is no terminal: PYTHONUNBUFFERED=1, or "
        "stdbuf -oL.",
        Certainty.POSSIBLE,
    )
