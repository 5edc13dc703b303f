"""Why a job has not begun: SUBMITTED, PENDING and RUNNABLE.

Pure functions from facts to findings, in the order in which they are more telling. What was looked
up (an environment that is closed, a request that no host can hold) is certain. What AWS says of a
job that waits is believed after a grace, since it can be false while an environment scales up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from wherry.aws.diagnosis import coming, ended, misfits, turn
from wherry.aws.diagnosis.ages import span
from wherry.aws.diagnosis.asked import last_of, name_of
from wherry.aws.diagnosis.environments import Environment
from wherry.aws.diagnosis.facts import Facts
from wherry.aws.diagnosis.fit import Kind, read_request
from wherry.aws.diagnosis.gathering import GRACE
from wherry.aws.diagnosis.reasons import reason_of, says
from wherry.aws.jobs import JobView
from wherry.specs.diagnosis import Certainty, Finding

Causes = Callable[[Facts], Iterator[Finding]]

_PATIENCE = 300.0
"""Seconds for which it is normal that AWS Batch has not looked at a job."""

_SAME = {
    "above-max-vcpus": {Kind.MAX_VCPUS},
    "does-not-fit": set(Kind),
    "undetermined": set(Kind),
}
"""Which of AWS's reasons say no more than what we have found ourselves."""


def submitted(facts: Facts) -> Iterator[Finding]:
    """Say why a job is SUBMITTED or PENDING."""
    yield from _cancelled_while_pending(facts)
    yield from _dependencies(facts)
    yield from _of_children(facts)
    yield from _not_looked_at(facts)
    yield from _released(facts)


def runnable(facts: Facts) -> Iterator[Finding]:
    """Say why a job, or the child of an array that is looked at, is RUNNABLE."""
    known = [finding for cause in _LOOKED_UP for finding in cause(facts)]
    if any(finding.certainty is Certainty.CERTAIN for finding in known):
        yield from _in_its_words(facts, known)
        yield from _ran_before(facts)
        return
    found = [*known, *(finding for cause in _GUESSED for finding in cause(facts))]
    yield from found
    if all(finding.certainty is Certainty.POSSIBLE for finding in found):
        yield from coming.nothing_known(facts)


def for_ever(facts: Facts) -> Iterator[Finding]:
    """Say what keeps a job from running as things are, whoever else waits or runs."""
    for cause in (_queue_is_invalid, _closed, _misfit, _consumables):
        yield from cause(facts)


# -- SUBMITTED and PENDING ------------------------------------------------------------------------


def _cancelled_while_pending(facts: Facts) -> Iterator[Finding]:
    job = facts.job
    if job is not None and job.is_cancelled and not job.ended and facts.dependencies:
        yield Finding(
            "cancelled-while-pending",
            "It was cancelled, and will end when the jobs that it depends on have ended.",
            "AWS Batch does not take a PENDING job away before that.",
            "Terminate it instead to end it now: wherry cancel --kill.",
            Certainty.CERTAIN,
        )


def _dependencies(facts: Facts) -> Iterator[Finding]:
    open_ones = [each for each in facts.dependencies if each.status != "SUCCEEDED"]
    failed = [each for each in open_ones if each.status == "FAILED"]
    if failed:
        yield Finding(
            "dependency-failed",
            "A job that it depends on has failed, so that it will fail too.",
            "; ".join(map(_named, failed[:3])),
            f"See why: wherry why {failed[0].id}",
            Certainty.CERTAIN,
        )
    elif open_ones:
        others = "another job" if len(open_ones) == 1 else f"{len(open_ones)} other jobs"
        yield Finding(
            "waits-for-others",
            f"It waits until {others} {'has' if len(open_ones) == 1 else 'have'} succeeded.",
            _listed(open_ones),
            f"See what keeps the first of them: wherry why {open_ones[0].id}",
            Certainty.CERTAIN,
        )
    if facts.forgotten:
        yield Finding(
            "dependency-forgotten",
            "AWS Batch does not know a job any more that it depends on.",
            f"Not known: {', '.join(facts.forgotten[:3])}.",
            "Submit it again without that dependency, if it does not start by itself.",
            Certainty.POSSIBLE if open_ones else Certainty.LIKELY,
        )


def _of_children(facts: Facts) -> Iterator[Finding]:
    """Of an array, say why the child waits that is looked at; the array itself only follows."""
    job = facts.job
    if job is None or not job.array_size or any(_dependencies(facts)):
        return
    child = facts.child
    if child is not None and child.status == "RUNNABLE":
        yield from runnable(facts)
    elif facts.counts.get("RUNNING") or facts.counts.get("STARTING"):
        yield Finding(
            "children-run",
            "Its children run: an array stays PENDING until the last of them has ended.",
            certainty=Certainty.CERTAIN,
        )


def _not_looked_at(facts: Facts) -> Iterator[Finding]:
    job = facts.job
    if job is None or any(_dependencies(facts)) or facts.child is not None:
        return
    if job.status == "SUBMITTED":
        age = facts.now - (job.created_at or facts.now)
        yield Finding(
            "just-submitted" if age < _PATIENCE else "not-looked-at",
            "AWS Batch has not looked at it yet."
            if age < _PATIENCE
            else "AWS Batch has not looked at it for an unusually long time.",
            f"It was submitted {span(age)} ago.",
            "This takes seconds, and for large arrays minutes."
            if age < _PATIENCE
            else "Look at the queue's status, and at AWS Health for a disturbance of the service.",
        )


def _released(facts: Facts) -> Iterator[Finding]:
    """Nothing holds a PENDING job any more that is known here."""
    job = facts.job
    if job is None or job.status != "PENDING" or any(_dependencies(facts)):
        return
    if facts.child is None and not (facts.counts.keys() & {"RUNNING", "STARTING"}):
        yield Finding(
            "pending",
            "It is PENDING, and nothing is known that it waits for.",
            "What it depends on has succeeded." if facts.dependencies else "",
            "AWS Batch should let it go within minutes; look again.",
            Certainty.POSSIBLE,
        )


def _listed(jobs: list[JobView]) -> str:
    more = f"; and {len(jobs) - 3} more" if len(jobs) > 3 else ""
    return f"{'; '.join(map(_named, jobs[:3]))}{more}."


def _named(job: JobView) -> str:
    said = f" ({job.reason})" if job.reason else ""
    return f"{job.name} ({job.id}) is {job.status}{said}"


# -- RUNNABLE -------------------------------------------------------------------------------------


def _consumables(facts: Facts) -> Iterator[Finding]:
    for one in facts.consumables:
        asks = f"It asks for {one.asked} of {one.name}"
        if one.total is None:
            yield Finding(
                "consumable-gone",
                "A consumable resource that it asks for does not exist.",
                f"{asks}, which is not there any more.",
                f"Make {one.name} again, or submit the job without it.",
                Certainty.CERTAIN,
            )
        elif one.asked > one.total:
            yield Finding(
                "consumable-too-small",
                "It asks for more of a consumable resource than there is.",
                f"{asks}; there are {one.total}.",
                "Ask for less, or raise the resource's total quantity.",
                Certainty.CERTAIN,
            )
        elif one.asked > one.free:
            yield Finding(
                "consumable-in-use",
                "It waits for a consumable resource that other jobs have.",
                f"{asks}; {one.used} of {one.total} are in use.",
                "Wait for them to end, or raise the resource's total quantity.",
                Certainty.CERTAIN,
            )


def _queue_is_invalid(facts: Facts) -> Iterator[Finding]:
    queue = facts.queue
    if queue is not None and queue.status not in ("VALID", "UPDATING", "CREATING"):
        yield Finding(
            "queue-invalid",
            f"The queue {queue.name} is {queue.status}.",
            queue.reason,
            "Mend it, or submit to another queue.",
            Certainty.CERTAIN,
        )


def _closed(facts: Facts) -> Iterator[Finding]:
    """Environments in which no jobs are placed."""
    closed = [each for each in facts.environments if not each.is_open]
    if not closed:
        return
    is_all = not facts.open_environments
    which = " and ".join(each.name for each in closed)
    states = "; ".join(_state_of(each) for each in closed)
    yield Finding(
        "environments-closed",
        f"No compute environment of its queue takes jobs ({which})."
        if is_all
        else f"A compute environment of its queue takes no jobs ({which}).",
        f"{states}.",
        _mend(closed),
        Certainty.CERTAIN if is_all else Certainty.POSSIBLE,
    )


def _state_of(environment: Environment) -> str:
    said = f" ({environment.reason.rstrip('.')})" if environment.reason else ""
    if environment.state != "ENABLED":
        return f"{environment.name} is {environment.state}"
    return f"{environment.name} is {environment.status}{said}"


def _mend(closed: list[Environment]) -> str:
    if any(each.state != "ENABLED" for each in closed):
        name = next(each.name for each in closed if each.state != "ENABLED")
        return (
            "Enable it: aws batch update-compute-environment --compute-environment "
            f"{name} --state ENABLED"
        )
    return "Mend what the status reason names, or give the queue another environment."


def _misfit(facts: Facts) -> Iterator[Finding]:
    found = turn.misfit(facts)
    if found is not None:
        yield misfits.finding(found)


def _in_its_words(facts: Facts, known: list[Finding]) -> Iterator[Finding]:
    """Put AWS's words, which then are no cause of their own, beside what is certain."""
    words = facts.waiter.reason if facts.waiter is not None else ""
    told = not words
    for finding in known:
        if told or finding.certainty is not Certainty.CERTAIN:
            yield finding
            continue
        told = True
        yield dataclasses.replace(finding, detail=f"{finding.detail} {says('AWS', words)}".strip())


def _said(facts: Facts) -> Iterator[Finding]:
    """What AWS itself says of a job that waits."""
    waiter = facts.waiter
    reason = reason_of(waiter.reason) if waiter is not None else None
    if waiter is None or not waiter.reason:
        return
    if reason is None:
        yield Finding("aws-says", "AWS Batch says why it waits.", says("AWS", waiter.reason))
        return
    own = turn.misfit(facts)
    if own is not None and own.kind in _SAME.get(reason.code, ()):
        yield Finding(
            reason.code, reason.summary, says("AWS", waiter.reason), "", Certainty.POSSIBLE
        )
        return
    is_early = reason.can_be_false and facts.waited < GRACE
    if is_early:
        yield Finding(
            "scaling-up",
            "Its compute environment is probably still scaling up.",
            f"It has waited for {span(facts.waited)}. {says('AWS', waiter.reason)} That can be "
            "false while instances are being launched.",
            f"Look again in {span(GRACE - facts.waited + 60)}.",
        )
    yield Finding(
        reason.code,
        reason.summary,
        says("AWS", waiter.reason) + _our_doubt(facts, reason.code),
        reason.resolution,
        Certainty.POSSIBLE if is_early else Certainty.LIKELY,
    )


def _our_doubt(facts: Facts, code: str) -> str:
    """Where AWS says that a job does not fit and our tables say that it does, say so."""
    waiter = facts.waiter
    if code not in ("does-not-fit", "above-max-vcpus") or waiter is None:
        return ""
    names = ", ".join(each.name for each in facts.open_environments)
    if not names:
        return ""
    return f" By what is known of {names}, {read_request(waiter)} should fit."


def _ran_before(facts: Facts) -> Iterator[Finding]:
    waiter = facts.waiter
    last = None if waiter is None else last_of(waiter)
    if waiter is None or last is None:
        return
    before = next(iter(ended.of_attempt(waiter, facts)), None)
    summary = before.summary if before else last.reason
    yield Finding(
        "ran-before",
        f"It has run before: attempt {last.number} of {waiter.attempts_allowed} failed, "
        "and another follows.",
        summary + (f" {before.detail}" if before and before.detail else ""),
        before.resolution if before else "",
        Certainty.POSSIBLE,
    )


_LOOKED_UP: tuple[Causes, ...] = (
    _queue_is_invalid,
    _closed,
    _misfit,
    _consumables,
    coming.stay_away,
)
_GUESSED: tuple[Causes, ...] = (
    _said,
    turn.reserved,
    turn.full,
    turn.others_first,
    _ran_before,
)


def limits_of(facts: Facts) -> Iterator[str]:
    """Say what the queue will do to a job that goes on waiting for AWS's reason."""
    waiter, queue = facts.waiter, facts.queue
    reason = reason_of(waiter.reason) if waiter is not None else None
    if queue is None or reason is None:
        return
    for limit in queue.limits:
        if reason_of(str(limit.get("reason") or "")) == reason:
            seconds = float(limit.get("maxTimeSeconds") or 0)
            yield f"{name_of(queue.name)} cancels it after {span(seconds)} with this reason"
