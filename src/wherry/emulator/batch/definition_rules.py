"""What a job definition may consist of.

The rules are those of the API model and the user guide; refusals have the words that the service
was seen to use (badmintoncryer/cdk-preflight, rules ``batch-jd-*``; ASFHyP3/hyp3#586) where they
are known. The kinds of properties have modules of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from wherry.emulator.batch import container_rules, limits, node_rules, pod_rules, task_rules
from wherry.emulator.batch.errors import refuse
from wherry.emulator.batch.ports import Document

_PROPERTIES = {
    "containerProperties": "ECS containerProperties",
    "ecsProperties": "ecsProperties",
    "eksProperties": "eksProperties",
}
_EXIT_CODE = re.compile(r"[0-9]*\*?\Z")
_REASON = re.compile(r"[A-Za-z0-9.:\s]*\*?\Z")
_EXIT_PATTERNS: Mapping[str, re.Pattern[str]] = {
    "onExitCode": _EXIT_CODE,
    "onReason": _REASON,
    "onStatusReason": _REASON,
}


def check(document: Document) -> None:
    """Refuse a definition that AWS would refuse.

    Args:
        document: as `wherry.emulator.batch.definition_defaults.completed` returns it.

    Raises:
        ClientError: it is refused.
    """
    platform = _platform(document)
    if document["type"] == "multinode":
        _check_multinode(document, platform)
    else:
        _check_single(document, platform)
    check_retry(document.get("retryStrategy"))
    check_timeout(document.get("timeout"))
    check_priority(document.get("schedulingPriority"))
    check_consumables(document.get("consumableResourceProperties", {}))


def check_retry(retry: Document | None) -> None:
    """Refuse a retry strategy, of a definition or of SubmitJob, that AWS would refuse.

    Raises:
        ClientError: it is refused.
    """
    if retry is None:
        return
    refuse("attempts" not in retry, "RetryAttempts must be provided with retry strategy.")
    least, most = limits.ATTEMPTS
    refuse(
        not least <= retry["attempts"] <= most,
        f"RetryAttempts must be between {least} and {most}.",
    )
    rules = retry.get("evaluateOnExit", [])
    refuse(
        len(rules) > limits.EXIT_RULES,
        f"EvaluateOnExit can have at most {limits.EXIT_RULES} conditions.",
    )
    for rule in rules:
        _check_exit_rule(rule)


def check_timeout(timeout: Document | None) -> None:
    """Refuse a timeout, of a definition or of SubmitJob, below 60 seconds.

    Raises:
        ClientError: it is refused.
    """
    seconds = (timeout or {}).get("attemptDurationSeconds", limits.TIMEOUT_SECONDS)
    refuse(
        seconds < limits.TIMEOUT_SECONDS,
        f"AttemptDurationSeconds in Timeout must be at least {limits.TIMEOUT_SECONDS} seconds.",
    )


def check_priority(priority: int | None) -> None:
    """Refuse a scheduling priority, of a definition or of SubmitJob, outside 0 to 9999.

    Raises:
        ClientError: it is refused.
    """
    least, most = limits.PRIORITY
    refuse(
        priority is not None and not least <= priority <= most,
        f"Scheduling priority must be between {least} and {most}.",
    )


def check_consumables(properties: Document) -> None:
    """Refuse consumable resource properties that AWS would refuse, whether or not they exist.

    Raises:
        ClientError: they are refused.
    """
    wanted = properties.get("consumableResourceList", [])
    most = limits.CONSUMABLES_PER_JOB
    refuse(
        len(wanted) > most,
        f"Each ConsumableResourceProperty can have at most {most} consumableResources",
    )
    for each in wanted:
        refuse(not each.get("consumableResource"), "consumableResource is required.")
        refuse(each.get("quantity", 0) < 1, "quantity of a consumableResource must be at least 1.")
    names = [each["consumableResource"] for each in wanted]
    refuse(
        len(set(names)) < len(names),
        "Cannot have duplicate consumableResource in consumableResourceProperties",
    )


def _platform(document: Document) -> str:
    """Return ``EC2``, ``FARGATE`` or ``MANAGED_INSTANCES``."""
    capabilities = document.get("platformCapabilities", [])
    refuse(len(capabilities) > 1, "Exactly 1 capability must be provided.")
    refuse(
        bool(capabilities) and "eksProperties" in document,
        "platformCapabilities is not applicable for EKS jobs.",
    )
    return str(capabilities[0]) if capabilities else "EC2"


def _check_single(document: Document, platform: str) -> None:
    refuse("nodeProperties" in document, "nodeProperties is only applicable for multinode jobs.")
    given = [member for member in _PROPERTIES if member in document]
    refuse(not given, "ECS Container Image must be provided.")
    if len(given) > 1:
        first, second = (_PROPERTIES[member] for member in given[:2])
        refuse(True, f"Cannot use both {first} and {second}")
    if "containerProperties" in document:
        refuse(
            platform == "MANAGED_INSTANCES",
            "Cannot use ECS containerProperties for MANAGED_INSTANCES",
        )
        container_rules.check_single(document["containerProperties"], platform)
    elif "ecsProperties" in document:
        task_rules.check(document["ecsProperties"], platform)
    else:
        pod_rules.check(document["eksProperties"])


def _check_multinode(document: Document, platform: str) -> None:
    refuse(platform == "FARGATE", "Fargate does not support MNP jobs")
    refuse(platform == "MANAGED_INSTANCES", "MANAGED_INSTANCES does not support MNP jobs")
    refuse("nodeProperties" not in document, "Node properties of multinode job is required.")
    for member, words in _PROPERTIES.items():
        refuse(member in document, f"{words} is not applicable for multinode jobs.")
    node_rules.check(document["nodeProperties"])


def _check_exit_rule(rule: Document) -> None:
    given = [member for member in _EXIT_PATTERNS if rule.get(member)]
    refuse(
        not given,
        "EvaluateOnExit should contain at least one of onExitCode, onReason or onStatusReason",
    )
    for member in given:
        refuse(
            len(rule[member]) > limits.EXIT_PATTERN_LENGTH,
            f"Evaluate on exit condition cannot exceed {limits.EXIT_PATTERN_LENGTH} characters.",
        )
        refuse(
            not _EXIT_PATTERNS[member].match(rule[member]),
            "Evaluate on exit condition contains restricted characters.",
        )
