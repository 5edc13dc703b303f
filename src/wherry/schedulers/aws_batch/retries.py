"""What AWS Batch retries: the words of the ``retries`` option, and rules in AWS's own form.

The option is a policy, a count of retries, or a count and a policy (``3:spot``). Rules are
written ``CONDITIONS:retry`` or ``CONDITIONS:exit`` and separated by ``;``; a condition is
``exit=CODE``, ``reason=TEXT``, ``status=TEXT`` or ``*`` (anything), several are joined by ``&``.
They are tried in order. What no rule matches is given up when the rules say what is retried, and
retried when they say what is given up; rules of both kinds end with one for ``*``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from wherry.aws.documents import Document
from wherry.errors import InvalidOptionError, InvalidSpecError, unknown
from wherry.schedulers.aws_batch import limits
from wherry.schedulers.aws_batch.facts import Platform
from wherry.specs.app import RetryPolicy, RetryRule, RetryScope, Role

DEFAULT_RETRIES = 3
"""Retries when a policy is chosen and neither the option nor the app says how many."""

_FORM = "none, spot, all, a number, NUMBER:POLICY, or rules such as 'exit=137:retry;*:exit'"
_POLICIES = {"all": RetryPolicy, "spot": RetryPolicy.spot}
_CONDITIONS = {"exit": "exit_code", "reason": "reason", "status": "status_reason"}
_ACTIONS = {"retry": True, "exit": False}
_ALLOWED = re.compile(r"[A-Za-z0-9.:\s]*", re.ASCII)

_HOST_LOST = "Host EC2*"
_FARGATE_SPOT = "Your Spot Task was interrupted*"
"""Fargate's words for what EC2 says as ``Host EC2 (…) terminated.`` (nextflow-io/nextflow#5786)."""


@dataclass(frozen=True)
class RetryChoice:
    """What the option says; ``None`` leaves it to the app.

    Args:
        retries: how many.
        policy: which failures.
    """

    retries: int | None = None
    policy: RetryPolicy | None = None


UNTOLD = RetryChoice()
"""The choice of who did not set the option."""


def parse_retries(text: str | None) -> RetryChoice:
    """Read the ``retries`` option.

    Raises:
        InvalidOptionError: the text is of no form that the module's description has.

    >>> parse_retries("3:spot").retries
    3
    """
    if text is None:
        return UNTOLD
    text = text.strip()
    if text == "none":
        return RetryChoice(0)
    count, mark, rest = text.partition(":")
    if not (count.isascii() and count.isdigit()):
        return RetryChoice(None, _policy(text))
    retries = int(count)
    if retries >= limits.ATTEMPTS:
        raise InvalidOptionError(
            f"option 'retries': AWS Batch allows {limits.ATTEMPTS} attempts, "
            f"so {limits.ATTEMPTS - 1} retries at most, not {retries}"
        )
    return RetryChoice(retries, _policy(rest.strip()) if mark else None)


def _policy(text: str) -> RetryPolicy:
    if text in _POLICIES:
        return _POLICIES[text]()
    if ":" not in text:
        raise InvalidOptionError(
            f"{unknown('retry policy', text, ['none', *_POLICIES])} Option 'retries' takes {_FORM}"
        )
    rules = [_rule(part.strip()) for part in text.split(";") if part.strip()]
    return RetryPolicy(RetryScope.REPLICA, _completed(rules, text))


def _rule(text: str) -> RetryRule:
    conditions, mark, action = text.rpartition(":")
    if not mark or action.strip() not in _ACTIONS:
        raise InvalidOptionError(
            f"option 'retries': the rule {text!r} does not end with ':retry' or ':exit'"
        )
    patterns: dict[str, str] = {}
    for condition in conditions.split("&"):
        name, mark, pattern = condition.strip().partition("=")
        if name == "*" and not mark:
            continue
        if name not in _CONDITIONS or not pattern:
            raise InvalidOptionError(
                f"option 'retries': {condition.strip()!r} is no condition; "
                "write exit=CODE, reason=TEXT, status=TEXT or *"
            )
        patterns[_CONDITIONS[name]] = pattern
    try:
        return RetryRule(_ACTIONS[action.strip()], **patterns)
    except InvalidSpecError as error:
        raise InvalidOptionError(f"option 'retries': {error}") from None


def _completed(rules: Sequence[RetryRule], text: str) -> tuple[RetryRule, ...]:
    if _matches_all(rules[-1]):
        return tuple(rules)
    kinds = {rule.retry for rule in rules}
    if len(kinds) > 1:
        raise InvalidOptionError(
            f"option 'retries': {text!r} says what is retried and what is not; "
            "end it with '*:retry' or '*:exit' for all else"
        )
    return (*rules, RetryRule(False, reason="*")) if kinds == {True} else tuple(rules)


def _matches_all(rule: RetryRule) -> bool:
    patterns = (rule.exit_code, rule.reason, rule.status_reason)
    return all(pattern in (None, "*") for pattern in patterns)


def attempts_of(roles: Sequence[Role], choice: RetryChoice) -> int:
    """Return how many attempts there are; the roles of a gang are retried together.

    Raises:
        InvalidSpecError: more than AWS Batch allows.
    """
    asked = max(role.max_retries for role in roles)
    if asked >= limits.ATTEMPTS and choice.retries is None:
        raise InvalidSpecError(
            f"AWS Batch allows {limits.ATTEMPTS} attempts, so max_retries is at most "
            f"{limits.ATTEMPTS - 1}, not {asked}"
        )
    if choice.retries is not None:
        return choice.retries + 1
    return (asked or (DEFAULT_RETRIES if choice.policy else 0)) + 1


def retry_strategy(
    roles: Sequence[Role],
    choice: RetryChoice,
    platform: Platform,
    warn: Callable[[str], None],
) -> Document:
    """Return the ``retryStrategy`` of SubmitJob; empty when nothing is said about retries.

    Args:
        roles: the app's roles; the first one's policy counts, as its first replica is the main
            node, whose end decides.
        choice: what the option says.
        platform: what the job runs on; Fargate has words of its own for a lost host.
        warn: is told what AWS Batch does otherwise.

    Raises:
        InvalidSpecError: more attempts or rules than AWS Batch allows, or a pattern of which
            nothing is left that it takes.
    """
    attempts = attempts_of(roles, choice)
    if attempts == 1:
        return {"attempts": 1} if choice.retries == 0 else {}
    policy = choice.policy or roles[0].retry_policy
    if choice == UNTOLD:
        _warn_of_differences(roles, warn)
    strategy: Document = {"attempts": attempts}
    rules = _with_fargate(policy.rules) if platform is Platform.FARGATE else policy.rules
    if rules:
        strategy["evaluateOnExit"] = [_evaluation(rule, warn) for rule in rules]
    if len(rules) > limits.EXIT_RULES:
        raise InvalidSpecError(
            f"AWS Batch takes {limits.EXIT_RULES} retry rules, and here are {len(rules)}"
        )
    return strategy


def _warn_of_differences(roles: Sequence[Role], warn: Callable[[str], None]) -> None:
    if len({(role.max_retries, role.retry_policy) for role in roles}) > 1:
        warn(
            "the roles differ in max_retries or retry_policy; AWS Batch retries all nodes "
            f"together, with the most retries of any role and the policy of {roles[0].name!r}"
        )
    nodes = sum(role.num_replicas for role in roles)
    if nodes > 1 and roles[0].retry_policy.scope is RetryScope.REPLICA:
        warn("retry_policy REPLICA: AWS Batch retries the nodes of a multi-node job together")


def _with_fargate(rules: Sequence[RetryRule]) -> Sequence[RetryRule]:
    return [
        replace(rule, status_reason=_FARGATE_SPOT)
        if rule.retry and rule.status_reason == _HOST_LOST
        else rule
        for rule in rules
    ]


def _evaluation(rule: RetryRule, warn: Callable[[str], None]) -> Document:
    patterns = {
        "onStatusReason": _pattern(rule.status_reason, warn),
        "onReason": _pattern(rule.reason, warn),
        "onExitCode": rule.exit_code,
    }
    # A lone "*" says nothing beside other conditions, and only for reasons that it may be empty.
    given = {key: value for key, value in patterns.items() if value not in (None, "*")}
    return {**(given or {"onReason": "*"}), "action": "RETRY" if rule.retry else "EXIT"}


def _pattern(pattern: str | None, warn: Callable[[str], None]) -> str | None:
    """Return a pattern as AWS takes it; what it cannot hold is cut off, and said so."""
    if pattern is None:
        return None
    text, star = (pattern[:-1], "*") if pattern.endswith("*") else (pattern, "")
    held = _ALLOWED.match(text)
    kept = held[0] if held else ""
    if kept == text and len(pattern) <= limits.PATTERN_LENGTH:
        return text + star
    kept = kept[: limits.PATTERN_LENGTH - 1]
    if not kept.strip():
        raise InvalidSpecError(
            f"the retry rule for {pattern!r} cannot be had: AWS Batch's patterns have letters, "
            "digits, '.', ':' and white space only, and a '*' at the end"
        )
    warn(f"retry rule {pattern!r} is sent as {kept + '*'!r}: AWS Batch's patterns hold no more")
    return kept + "*"
