"""Trust policies of IAM roles: may a service assume the role?

Pure. Conditions are not weighed: a statement with one is taken as allowing, since what it asks for
is not known here.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

from wherry.aws.documents import Document

ASSUME = "sts:AssumeRole"


def allows(policy: object, service: str) -> bool | None:
    """Tell whether a trust policy lets a service assume the role.

    Args:
        policy: ``AssumeRolePolicyDocument``: a document, or JSON, perhaps with ``%`` escapes.
        service: such as ``ecs-tasks.amazonaws.com``.

    Returns:
        The answer, or ``None`` when the policy cannot be read.
    """
    document = _read(policy)
    if document is None:
        return None
    statements = document.get("Statement") or []
    listed = statements if isinstance(statements, list) else [statements]
    concerned = [one for one in listed if _concerns(one, service)]
    if any(one.get("Effect") == "Deny" and not one.get("Condition") for one in concerned):
        return False
    return any(one.get("Effect") == "Allow" for one in concerned)


def _concerns(statement: Document, service: str) -> bool:
    principal = statement.get("Principal")
    named = principal.get("Service") if isinstance(principal, dict) else principal
    anybody = isinstance(principal, dict) and "*" in _texts(principal.get("AWS"))
    actions = _texts(statement.get("Action"))
    return (anybody or any(name in (service, "*") for name in _texts(named))) and any(
        fnmatch.fnmatchcase(ASSUME.lower(), action.lower()) for action in actions
    )


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, str):
        return (value,)
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else ()


def _read(policy: object) -> Document | None:
    if isinstance(policy, dict):
        return policy
    if not isinstance(policy, str):
        return None
    import json
    from urllib.parse import unquote

    try:
        found = json.loads(unquote(policy))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
