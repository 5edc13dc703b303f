"""RetryPolicy and RetryRule: what is retried."""

from __future__ import annotations

from typing import Any

import pytest

from wherry.errors import InvalidSpecError
from wherry.specs import RetryPolicy, RetryRule, RetryScope

MEMORY = "OutOfMemoryError: Container killed due to memory usage"


@pytest.mark.parametrize("policy", [RetryPolicy.APPLICATION, RetryPolicy.REPLICA])
def test_the_plain_policies_retry_every_failure(policy: RetryPolicy) -> None:
    assert policy.allows(1, "exited with 1")
    assert policy.allows(None, "killed by SIGKILL")


def test_the_plain_policies_differ_in_what_is_started_again() -> None:
    assert RetryPolicy.APPLICATION.scope is RetryScope.APPLICATION
    assert RetryPolicy.REPLICA.scope is RetryScope.REPLICA


@pytest.mark.parametrize(
    ("exit_code", "reason", "status_reason", "retried"),
    [
        (None, "", "Host EC2 (instance i-0abc) terminated.", True),
        (None, "CannotPullContainerError: pull access denied", "Task failed to start", True),
        (1, "", "Essential container in task exited", False),
        (137, MEMORY, "Essential container in task exited", False),
        (None, "DockerTimeoutError: Could not transition", "Task failed to start", False),
    ],
)
def test_spot_retries_what_the_program_had_no_part_in(
    exit_code: int | None, reason: str, status_reason: str, retried: bool
) -> None:
    assert RetryPolicy.spot().allows(exit_code, reason, status_reason) is retried


def test_a_failure_that_no_rule_matches_is_retried() -> None:
    policy = RetryPolicy(rules=[RetryRule(False, exit_code="2")])

    assert policy.allows(1, "")
    assert not policy.allows(2, "")


def test_the_first_rule_that_matches_decides() -> None:
    policy = RetryPolicy(rules=[RetryRule(True, exit_code="13*"), RetryRule(False, exit_code="1*")])

    assert policy.allows(137, "")
    assert not policy.allows(1, "")


def test_all_patterns_of_a_rule_must_match() -> None:
    policy = RetryPolicy(rules=[RetryRule(False, exit_code="137", reason="OutOfMemory*")])

    assert not policy.allows(137, MEMORY)
    assert policy.allows(137, "killed")
    assert policy.allows(1, MEMORY)


@pytest.mark.parametrize(
    ("pattern", "reason", "matches"),
    [
        ("OutOfMemory*", MEMORY, True),
        ("outofmemory*", MEMORY, True),
        ("*", "", True),
        ("killed", "Killed", True),
        ("killed", "killed by SIGKILL", False),
        ("memory*", MEMORY, False),
    ],
)
def test_a_pattern_matches_a_beginning_or_all_of_a_reason(
    pattern: str, reason: str, matches: bool
) -> None:
    policy = RetryPolicy(rules=[RetryRule(False, reason=pattern)])

    assert policy.allows(None, reason) is not matches


def test_a_rule_for_an_exit_code_passes_over_an_attempt_without_one() -> None:
    policy = RetryPolicy(rules=[RetryRule(False, exit_code="1*")])

    assert policy.allows(None, "killed by SIGKILL")


def test_a_policy_does_not_share_the_callers_list() -> None:
    rules = [RetryRule(False)]
    policy = RetryPolicy(rules=rules)

    rules.clear()

    assert not policy.allows(1, "")


def test_a_scope_may_be_given_by_name() -> None:
    assert RetryPolicy("REPLICA") == RetryPolicy.REPLICA  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: RetryPolicy("REPLICAS"), "did you mean 'REPLICA'"),
        (lambda: RetryPolicy(rules=RetryRule(True)), "RetryPolicy.rules"),
        (lambda: RetryPolicy(rules=["1*"]), "RetryPolicy.rules"),
        (lambda: RetryRule("no"), "RetryRule.retry"),
        (lambda: RetryRule(True, exit_code=137), "RetryRule.exit_code must be a string, not 137"),
        (lambda: RetryRule(True, exit_code="1*7"), "RetryRule.exit_code"),
        (lambda: RetryRule(True, exit_code="-9"), "RetryRule.exit_code"),
        (lambda: RetryRule(True, exit_code=""), "RetryRule.exit_code"),
        (lambda: RetryRule(True, reason=1), "RetryRule.reason"),
        (lambda: RetryRule(True, status_reason=["Host"]), "RetryRule.status_reason"),
    ],
)
def test_a_bad_policy_is_refused_by_field(make: Any, named: str) -> None:
    with pytest.raises(InvalidSpecError) as refused:
        make()

    assert named in str(refused.value)
