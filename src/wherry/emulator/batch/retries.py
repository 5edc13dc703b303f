"""Whether a failed attempt is followed by another.

Rules are tried in order; all conditions of a rule have to hold; when none matches, the job is
retried while attempts are left. Source: the API model, ``RetryStrategy`` and ``EvaluateOnExit``.

The model calls the *action* not case sensitive and says nothing of the kind about patterns: those
are compared exactly, so that a rule that would be missed by AWS is missed here too. A missing
reason is an empty text, which ``*`` matches; a missing exit code matches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from wherry.emulator.batch import limits
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import Job
from wherry.emulator.batch.refusal import refuse


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


def check(strategy: Document | None) -> None:
    """Refuse a retry strategy that AWS would refuse.

    Raises:
        ClientError: it is refused.
    """
    if not strategy:
        return
    attempts, rules = strategy.get("attempts"), strategy.get("evaluateOnExit") or []
    limits.check_range("Retry attempts", attempts, *limits.ATTEMPTS)
    refuse(bool(rules) and attempts is None, "evaluateOnExit needs attempts to be given too")
    limits.check_count("evaluateOnExit conditions", rules, limits.EXIT_RULES)
    for rule in rules:
        _check_rule(rule)


def _matches(rule: Document, outcome: Outcome) -> bool:
    code = None if outcome.exit_code is None else str(outcome.exit_code)
    found = {
        "onStatusReason": outcome.status_reason,
        "onReason": outcome.reason,
        "onExitCode": code,
    }
    return all(_fits(rule[key], text) for key, text in found.items() if rule.get(key))


def _fits(pattern: str, text: str | None) -> bool:
    if text is None:
        return False
    if pattern.endswith("*"):
        return text.startswith(pattern[:-1])
    return text == pattern


def _check_rule(rule: Document) -> None:
    given = {key: rule[key] for key in _ALLOWED if rule.get(key)}
    refuse(not given, "evaluateOnExit needs onStatusReason, onReason or onExitCode")
    refuse(
        str(rule.get("action", "")).upper() not in ("RETRY", "EXIT"),
        f"evaluateOnExit action must be RETRY or EXIT, but is {rule.get('action')!r}",
    )
    for key, pattern in given.items():
        body = pattern[:-1] if pattern.endswith("*") else pattern
        refuse(
            len(pattern) > limits.EXIT_PATTERN_LENGTH or not all(map(_ALLOWED[key], body)),
            f"evaluateOnExit {key} {pattern!r} should match valid pattern",
        )


def _is_digit(char: str) -> bool:
    return char in "0123456789"


def _is_word(char: str) -> bool:
    return char.isalnum() or char.isspace() or char in ".:"


_ALLOWED = {"onStatusReason": _is_word, "onReason": _is_word, "onExitCode": _is_digit}
