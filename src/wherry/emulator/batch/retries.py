"""Whether a failed attempt is followed by another; what a strategy may be is `definition_rules`'.

Rules are tried in order; all conditions of a rule have to hold; when none matches, the job is
retried while attempts are left. Source: the API model, ``RetryStrategy`` and ``EvaluateOnExit``.

The model calls the *action* not case sensitive and says nothing of the kind about patterns: those
are compared exactly, so that a rule that would be missed by AWS is missed here too. A missing
reason is an empty text, which ``*`` matches; a missing exit code matches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from wherry.emulator.batch.patterns import fits
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import Job


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended.

    Attributes:
        success: whether every essential container ended with 0.
        status_reason: of the task.
        exit_code: of the container that decided; ``None`` when it has none.
        reason: of the same container.
        final: whether a retry could not help.
    """

    success: bool
    status_reason: str
    exit_code: int | None = None
    reason: str = ""
    final: bool = False


def strategy_of(job: Job) -> Document:
    """Return the retry strategy of a job: its own, or else its definition's, or one attempt."""
    given = job.request.get("retryStrategy") or job.definition.document.get("retryStrategy") or {}
    return {
        "attempts": given.get("attempts") or 1,
        "evaluateOnExit": list(given.get("evaluateOnExit") or ()),
    }


def again(job: Job, outcome: Outcome) -> bool:
    """Tell whether a failed attempt is to be followed by another.

    Args:
        job: with the attempt that failed as the last of its `runs`.
        outcome: how that ended.
    """
    strategy = strategy_of(job)
    if outcome.final or len(job.runs) >= strategy["attempts"]:
        return False
    return action(strategy["evaluateOnExit"], outcome) == "RETRY"


def action(rules: list[Document], outcome: Outcome) -> str:
    """Return what the first rule that matches says; ``RETRY`` if none does.

    >>> spot = [{"onStatusReason": "Host EC2*", "action": "retry"}]
    >>> spot.append({"onReason": "*", "action": "EXIT"})
    >>> action(spot, Outcome(False, "Host EC2 (instance i-1) terminated."))
    'RETRY'
    >>> action(spot, Outcome(False, "Essential container in task exited", 1))
    'EXIT'
    """
    for rule in rules:
        if _matches(rule, outcome):
            return str(rule["action"]).upper()
    return "RETRY"


def _matches(rule: Document, outcome: Outcome) -> bool:
    code = None if outcome.exit_code is None else str(outcome.exit_code)
    found = {
        "onStatusReason": outcome.status_reason,
        "onReason": outcome.reason,
        "onExitCode": code,
    }
    return all(
        text is not None and fits(rule[key], text) for key, text in found.items() if rule.get(key)
    )
