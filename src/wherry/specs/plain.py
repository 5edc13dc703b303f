"""Specs and statuses as plain data (dicts, lists, strings, numbers), and back.

This is the form in records, in ``--json`` and between processes. Fields at their default are left
out; unknown fields of a newer version are refused by name.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from wherry.errors import InvalidSpecError, unknown
from wherry.specs._frozen import mapping, sequence
from wherry.specs.app import AppDef, RetryPolicy, RetryRule, Role
from wherry.specs.mounts import BindMount, DeviceMount, Mount, VolumeMount
from wherry.specs.resources import Resource

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

_MOUNT_KINDS: dict[str, type[Mount]] = {
    "bind": BindMount,
    "volume": VolumeMount,
    "device": DeviceMount,
}
_MOUNT_NAMES: dict[type, str] = {cls: kind for kind, cls in _MOUNT_KINDS.items()}


def to_plain(value: Any) -> Any:
    """Turn a spec or status into plain data.

    Args:
        value: an `AppDef`, a status, or anything made of them and of plain data.

    Returns:
        Dicts, lists, strings, numbers, booleans and ``None`` only.
    """
    if isinstance(value, Enum):
        return value.name if isinstance(value, int) else value.value
    if is_dataclass(value) and not isinstance(value, type):
        plain = {
            field.name: to_plain(getattr(value, field.name))
            for field in fields(value)
            if not _is_default(field, getattr(value, field.name))
        }
        kind = _MOUNT_NAMES.get(type(value))
        return {"type": kind, **plain} if kind else plain
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_plain(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)


def app_from_plain(plain: Mapping[str, Any]) -> AppDef:
    """Make an `AppDef` of the plain data that `to_plain` made of one.

    Raises:
        InvalidSpecError: an unknown field, or a value that is not allowed.
    """
    values = _fields(AppDef, plain)
    roles = sequence("AppDef.roles", values.get("roles", ()), "roles")
    values["roles"] = tuple(_role_from_plain(role) for role in roles)
    return _make(AppDef, values)


def _role_from_plain(plain: Mapping[str, Any]) -> Role:
    values = _fields(Role, plain)
    if "resource" in values:
        values["resource"] = _make(Resource, values["resource"])
    if "retry_policy" in values:
        values["retry_policy"] = _policy_from_plain(values["retry_policy"])
    if "mounts" in values:
        mounts = sequence("Role.mounts", values["mounts"], "mounts")
        values["mounts"] = tuple(_mount_from_plain(mount) for mount in mounts)
    return _make(Role, values)


def _policy_from_plain(plain: Mapping[str, Any]) -> RetryPolicy:
    values = _fields(RetryPolicy, plain)
    rules = sequence("RetryPolicy.rules", values.get("rules", ()), "rules")
    values["rules"] = tuple(_make(RetryRule, rule) for rule in rules)
    return _make(RetryPolicy, values)


def _mount_from_plain(plain: Mapping[str, Any]) -> Mount:
    values = dict(mapping("a mount", plain))
    kind = values.pop("type", "")
    if kind not in _MOUNT_KINDS:
        raise InvalidSpecError(unknown("mount type", str(kind), _MOUNT_KINDS))
    return _make(_MOUNT_KINDS[kind], values)


def _make(cls: type[T], plain: Mapping[str, Any]) -> T:
    values = _fields(cls, plain)
    for field in fields(cls):  # type: ignore[arg-type]
        required = field.default is MISSING and field.default_factory is MISSING
        if required and field.name not in values:
            raise InvalidSpecError(f"{cls.__name__} has no {field.name!r} in {dict(plain)!r}")
    return cls(**values)


def _fields(cls: type[Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    allowed = [field.name for field in fields(cls)]
    for name in mapping(cls.__name__, plain):
        if name not in allowed:
            raise InvalidSpecError(unknown(f"field of {cls.__name__}:", str(name), allowed))
    return dict(plain)


def _is_default(field: Any, value: Any) -> bool:
    if field.default is not MISSING:
        return bool(value == field.default)
    if field.default_factory is not MISSING:
        return bool(value == field.default_factory())
    return False
