"""What is known of apps, as data for programs: what ``--json`` prints.

The keys of these dicts are always there, ``null`` where nothing is known, and are not renamed.
Times are seconds since the epoch.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from wherry.schedulers.api import DescribeAppResponse, ListAppResponse
    from wherry.specs.options import runopts
    from wherry.specs.status import AppStatus, AttemptStatus, ReplicaStatus, RoleStatus

    Record = dict[str, Any]

STATUS_KEYS = (
    "handle, app_id, state, raw_state, msg, exit_code, num_restarts, error, ui_url, created_at, "
    "started_at, ended_at,\n  roles: [{role, replicas: [{id, state, exit_code, signal, reason, "
    "error, hostname,\n    attempts: [{number, state, exit_code, signal, reason, error, "
    "started_at, ended_at, logs}]}]}]"
)
DESCRIBE_KEYS = f"{STATUS_KEYS},\n  metadata, app (the app as it was submitted)"
ENDING_KEYS = "handle, state, exit_code, msg"
LIST_KEYS = "a list of {handle, app_id, name, state, msg, created_at, ended_at, replicas, session}"


def status_record(handle: str, described: DescribeAppResponse) -> Record:
    """Return an app's state and that of its replicas."""
    return {
        "handle": handle,
        "app_id": described.app_id,
        "state": described.state.name,
        "raw_state": described.raw_state,
        "msg": described.msg,
        "exit_code": described.to_status().exit_code,
        "num_restarts": described.num_restarts,
        "error": _error(described.structured_error_msg),
        "ui_url": described.ui_url,
        "created_at": described.created_at,
        "started_at": described.started_at,
        "ended_at": described.ended_at,
        "roles": [_role(role) for role in described.roles_statuses],
    }


def describe_record(handle: str, described: DescribeAppResponse) -> Record:
    """Return all that is known of an app."""
    from wherry.specs.plain import to_plain

    return {
        **status_record(handle, described),
        "metadata": dict(described.metadata),
        "app": None if described.app is None else to_plain(described.app),
    }


def ending_record(handle: str, status: AppStatus) -> Record:
    """Return how an app ended."""
    return {
        "handle": handle,
        "state": status.state.name,
        "exit_code": status.exit_code,
        "msg": status.msg,
    }


def list_record(app: ListAppResponse) -> Record:
    """Return one line of a list."""
    return {
        "handle": app.app_handle,
        "app_id": app.app_id,
        "name": app.name,
        "state": app.state.name,
        "msg": app.msg,
        "created_at": app.created_at,
        "ended_at": app.ended_at,
        "replicas": app.replicas,
        "session": app.session,
    }


def options_record(options: runopts) -> dict[str, Record]:
    """Return a scheduler's options by name."""
    return {
        name: {
            "type": option.type_.__name__,
            "default": option.default,
            "required": option.required,
            "choices": list(option.choices),
            "help": option.help,
        }
        for name, option in options
    }


def _role(role: RoleStatus) -> Record:
    return {"role": role.role, "replicas": [_replica(replica) for replica in role.replicas]}


def _replica(replica: ReplicaStatus) -> Record:
    return {
        "id": replica.id,
        "state": replica.state.name,
        "exit_code": replica.exit_code,
        "signal": replica.signal,
        "reason": replica.reason,
        "error": _error(replica.structured_error_msg),
        "hostname": replica.hostname,
        "attempts": _attempts(replica.attempts),
    }


def _attempts(attempts: Iterable[AttemptStatus]) -> list[Record]:
    return [
        {
            "number": attempt.number,
            "state": attempt.state.name,
            "exit_code": attempt.exit_code,
            "signal": attempt.signal,
            "reason": attempt.reason,
            "error": _error(attempt.error),
            "started_at": attempt.started_at,
            "ended_at": attempt.ended_at,
            "logs": attempt.logs,
        }
        for attempt in attempts
    ]


def _error(text: str | None) -> object:
    """Return a structured error as what it is; text that is not JSON as text."""
    if not text:
        return None
    import json

    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    return value
