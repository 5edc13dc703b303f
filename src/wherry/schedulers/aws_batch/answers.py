"""An answer about an app as plain data, and back: what is kept for when AWS has forgotten it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from wherry.schedulers.api import DescribeAppResponse
from wherry.specs.app import AppDef
from wherry.specs.plain import app_from_plain, to_plain
from wherry.specs.states import AppState
from wherry.specs.status import AttemptStatus, ReplicaStatus, RoleStatus

T = TypeVar("T")


def answer_to_plain(answer: DescribeAppResponse) -> dict[str, Any]:
    """Turn an answer into plain data; the app itself is left out, a record has it anyway."""
    plain: dict[str, Any] = to_plain(replace(answer, app=None, roles=()))
    if answer.app is None and answer.roles:
        plain["roles"] = to_plain(AppDef("roles", answer.roles))["roles"]
    return plain


def answer_from_plain(plain: Mapping[str, Any], app: AppDef | None) -> DescribeAppResponse:
    """Make an answer of plain data.

    Args:
        plain: what `answer_to_plain` made; what a newer version has added is passed over.
        app: the app as it was submitted.

    Raises:
        KeyError, TypeError, ValueError: it is something else.
    """
    values = _values(DescribeAppResponse, plain)
    values["roles_statuses"] = tuple(map(_role, plain.get("roles_statuses", ())))
    values["app"] = app
    if app is not None:
        values["roles"] = tuple(app.roles)
    elif "roles" in plain:
        values["roles"] = tuple(app_from_plain({"name": "roles", "roles": plain["roles"]}).roles)
    return DescribeAppResponse(**values)


def _role(plain: Mapping[str, Any]) -> RoleStatus:
    values = _values(RoleStatus, plain)
    values["replicas"] = tuple(map(_replica, plain.get("replicas", ())))
    values["counted"] = tuple((AppState[state], n) for state, n in plain.get("counted", ()))
    return RoleStatus(**values)


def _replica(plain: Mapping[str, Any]) -> ReplicaStatus:
    values = _values(ReplicaStatus, plain)
    values["attempts"] = tuple(
        AttemptStatus(**_values(AttemptStatus, attempt)) for attempt in plain.get("attempts", ())
    )
    return ReplicaStatus(**values)


def _values(kind: type[Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    names = {each.name for each in fields(kind)}
    values = {name: value for name, value in plain.items() if name in names}
    if "state" in values:
        values["state"] = AppState[values["state"]]
    return values
