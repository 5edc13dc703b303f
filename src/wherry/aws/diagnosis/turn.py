"""Whose turn it is: who is before a job in its queue, what is full, what is kept for others."""

from __future__ import annotations

from collections.abc import Iterator

from wherry.aws.diagnosis.ages import span
from wherry.aws.diagnosis.facts import Facts
from wherry.aws.diagnosis.fit import Obstacle, closest, counted, obstacle, read_request
from wherry.aws.diagnosis.reasons import reason_of, says
from wherry.specs.diagnosis import Certainty, Finding


def misfit(facts: Facts) -> Obstacle | None:
    """Return what keeps the job out of every open environment; nothing when one can hold it."""
    whole = facts.in_line
    if whole is None or not facts.open_environments:
        return None
    request = read_request(whole)
    found = [obstacle(request, each) for each in facts.open_environments]
    real = [each for each in found if each is not None]
    return closest(real) if len(real) == len(found) else None


def reserved(facts: Facts) -> Iterator[Finding]:
    """What a fair-share policy keeps for others."""
    policy, line, waiter = facts.policy, facts.line, facts.in_line
    if policy is None or line is None or waiter is None:
        return
    most = sum(each.most for each in facts.open_environments)
    active = max(1, len(line.shares))
    allowance = most * (1 - (policy.reservation / 100) ** active)
    asked = read_request(waiter).vcpus
    if policy.reservation and line.used and line.used + asked > allowance:
        yield Finding(
            "reserved-for-others",
            "The queue's fair-share policy keeps the free vCPUs for shares that do not run yet.",
            f"computeReservation of {policy.name} is {policy.reservation} with "
            f"{counted(active, 'active share')}: {allowance:g} of {most:g} vCPUs may be used, "
            f"{line.used:g} are.",
            "Wait for jobs of the queue to end, or lower computeReservation of the policy.",
        )


def others_first(facts: Facts) -> Iterator[Finding]:
    """Who is before it in the queue, and what keeps the first."""
    line, waiter = facts.line, facts.in_line
    if line is None or waiter is None or not line.arns:
        return
    place = line.place(waiter.arn)
    head, name = facts.head, facts.queue.name if facts.queue else "its queue"
    if head is None or place == 1:
        return
    where = f"place {place} in {name}" if place else f"behind the first {len(line.arns)} of {name}"
    stuck = reason_of(head.reason)
    if facts.policy is not None and waiter.share:
        yield _share_waits(facts, waiter.share, where)
    elif stuck is not None:
        yield Finding(
            "behind-a-stuck-job",
            "The first job of its queue is stuck, and those behind it wait.",
            f"It is at {where}; the first is {head.name} ({head.id}), of which "
            f"{says('AWS', head.reason)}",
            f"See why, and end it if it can never run: wherry why {head.id}",
        )
    else:
        yield Finding(
            "behind-others",
            f"It waits its turn: {where}.",
            f"The first is {head.name} ({head.id}), submitted "
            f"{span(facts.now - (head.created_at or facts.now))} ago.",
            "Wait, raise maxvCpus of the environment, or use a queue of higher priority.",
            Certainty.POSSIBLE if any(full(facts)) else Certainty.LIKELY,
        )


def _share_waits(facts: Facts, share: str, where: str) -> Finding:
    used = dict(facts.line.shares) if facts.line else {}
    others = [f"{name} {vcpus:g}" for name, vcpus in used.items() if name != share]
    detail = f"It is at {where}. Its share {share} uses {used.get(share, 0.0):g} vCPUs"
    detail += f"; others: {', '.join(others[:4])}." if others else "."
    return Finding(
        "other-shares-first",
        "The queue shares its vCPUs out, and it is not this share's turn.",
        detail,
        "Wait; or give the share a lower weight factor, or the job a higher priority within it.",
    )


def full(facts: Facts) -> Iterator[Finding]:
    """Whether all that its environments may have is in use."""
    line, waiter = facts.line, facts.in_line
    usable = [each for each in facts.open_environments if each.most != float("inf")]
    if line is None or waiter is None or not usable or len(usable) < len(facts.open_environments):
        return
    most = sum(each.most for each in usable)
    asked = read_request(waiter).vcpus
    names = " and ".join(each.name for each in usable)
    if misfit(facts) is not None:
        return
    if line.used and line.used + asked > most:
        yield Finding(
            "environment-full",
            f"All vCPUs that {names} may have are in use.",
            f"{line.used:g} of {most:g} vCPUs are used by jobs of this queue, and it asks for "
            f"{counted(asked, 'more vCPU')}.",
            f"Wait for jobs to end, or raise maxvCpus of {names}.",
        )
    elif sum(each.desired for each in usable) + asked > most:
        yield Finding(
            "environment-full",
            f"{names} may launch no more instances; jobs of other queues may have its vCPUs.",
            f"It has {sum(each.desired for each in usable):g} of at most {most:g} vCPUs, of which "
            f"jobs of this queue use {line.used:g}.",
            f"Wait for jobs to end, or raise maxvCpus of {names}.",
        )
