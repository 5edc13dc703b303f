"""What to run: an app of roles, each with replicas."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

from wherry.errors import InvalidHandleError, InvalidSpecError, UnknownNameError, unknown
from wherry.specs._frozen import (
    FrozenDict,
    frozen_data,
    frozen_string_map,
    frozen_strings,
    mapping,
    sequence,
    set_field,
    text,
    whole_number,
)
from wherry.specs.handles import parse_app_handle
from wherry.specs.mounts import BindMount, DeviceMount, Mount, VolumeMount
from wherry.specs.resources import Resource
from wherry.specs.verdict import may_retry

MISSING = "<MISSING>"
"""The entrypoint of a role that was given none."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
_ENV_NAME = re.compile(r"[^=\0]+\Z")
_EXIT_CODES = re.compile(r"(\d+\*?|\*)\Z", re.ASCII)


class RetryScope(str, Enum):
    """What is started again when a replica fails."""

    APPLICATION = "APPLICATION"
    """The whole app."""
    REPLICA = "REPLICA"
    """The replica alone."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class RetryRule:
    """One rule of a retry policy; every pattern that is given must match.

    Args:
        retry: whether a match is retried (or given up).
        exit_code: digits with an optional ``*`` at the end, such as ``"1*"``.
        reason: the reason's beginning, with ``*`` at the end, or all of it.
        status_reason: the same for the provider's status reason.

    Raises:
        InvalidSpecError: a pattern that could match nothing.
    """

    retry: bool
    exit_code: str | None = None
    reason: str | None = None
    status_reason: str | None = None

    def __post_init__(self) -> None:
        _check_flag("RetryRule.retry", self.retry)
        for name in ("exit_code", "reason", "status_reason"):
            pattern = getattr(self, name)
            if pattern is not None:
                text(f"RetryRule.{name}", pattern)
        if self.exit_code is not None and not _EXIT_CODES.match(self.exit_code):
            raise InvalidSpecError(
                f"RetryRule.exit_code must be digits, '*' or both, such as '13*', "
                f"not {self.exit_code!r}"
            )

    def as_tuple(self) -> tuple[bool, str | None, str | None, str | None]:
        """Return the rule in the form that `wherry.specs.verdict` works on."""
        return (self.retry, self.exit_code, self.reason, self.status_reason)


@dataclass(frozen=True)
class RetryPolicy:
    """What is retried, and what is started again.

    ``RetryPolicy.APPLICATION`` and ``RetryPolicy.REPLICA`` retry every failure; `spot` retries
    only what the user's program had no part in. Rules are tried in order; when none matches, the
    failure is retried (as AWS Batch's ``evaluateOnExit`` does).

    Args:
        scope: what is started again.
        rules: what is retried.

    Raises:
        InvalidSpecError: a scope or a rule that is not one.
    """

    scope: RetryScope = RetryScope.APPLICATION
    rules: Sequence[RetryRule] = ()

    APPLICATION: ClassVar[RetryPolicy]
    REPLICA: ClassVar[RetryPolicy]

    def __post_init__(self) -> None:
        if self.scope not in list(RetryScope):
            raise InvalidSpecError(unknown("retry scope", str(self.scope), map(str, RetryScope)))
        rules = sequence("RetryPolicy.rules", self.rules, "RetryRule values")
        for rule in rules:
            if not isinstance(rule, RetryRule):
                raise InvalidSpecError(
                    f"RetryPolicy.rules must hold RetryRule values, not {rule!r}"
                )
        set_field(self, "scope", RetryScope(self.scope))
        set_field(self, "rules", rules)

    @classmethod
    def spot(cls) -> RetryPolicy:
        """Retry hosts that were taken away and images that could not be pulled, nothing else."""
        return cls(
            RetryScope.REPLICA,
            (
                RetryRule(True, status_reason="Host EC2*"),
                RetryRule(True, reason="CannotPullContainerError*"),
                RetryRule(False, reason="*"),
            ),
        )

    def allows(self, exit_code: int | None, reason: str, status_reason: str = "") -> bool:
        """Tell whether an ended attempt may be retried."""
        rules = [rule.as_tuple() for rule in self.rules]
        return may_retry(rules, exit_code, reason, status_reason)


RetryPolicy.APPLICATION = RetryPolicy(RetryScope.APPLICATION)
RetryPolicy.REPLICA = RetryPolicy(RetryScope.REPLICA)


@dataclass(frozen=True)
class Role:
    """A set of replicas that run the same command.

    Args:
        name: unique within the app.
        image: what the replicas run in; its meaning is the scheduler's.
        entrypoint: the program.
        args: its arguments; macros are replaced in them.
        env: environment variables; macros are replaced in their values.
        num_replicas: how many copies run.
        min_replicas: how many must live for a gang to go on; all of them when ``None``.
        max_retries: attempts beyond the first.
        retry_policy: what is retried, and what is started again.
        resource: what one replica asks of its host.
        port_map: port numbers by name.
        metadata: hints for a scheduler; unknown ones are ignored.
        mounts: host paths, volumes and devices.
        secrets: environment variable → where its value is kept (never the value).
        ulimits: limit name, such as ``"nofile"`` → soft and hard value, or one for both.

    Raises:
        InvalidSpecError: a field that cannot be right.
    """

    name: str
    image: str = ""
    entrypoint: str = MISSING
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    num_replicas: int = 1
    min_replicas: int | None = None
    max_retries: int = 0
    retry_policy: RetryPolicy = RetryPolicy.APPLICATION
    resource: Resource = field(default_factory=Resource)
    port_map: Mapping[str, int] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    mounts: Sequence[Mount] = ()
    secrets: Mapping[str, str] = field(default_factory=dict)
    ulimits: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_name("Role.name", self.name)
        where = f"role {self.name!r}: "
        text(where + "image", self.image)
        if not text(where + "entrypoint", self.entrypoint):
            raise InvalidSpecError(f"{where}entrypoint must be a program, not {self.entrypoint!r}")
        if not isinstance(self.resource, Resource):
            raise InvalidSpecError(f"{where}resource must be a Resource, not {self.resource!r}")
        if not isinstance(self.retry_policy, RetryPolicy):
            raise InvalidSpecError(
                f"{where}retry_policy must be a RetryPolicy, not {self.retry_policy!r}"
            )
        whole_number(where + "num_replicas", self.num_replicas, least=1)
        whole_number(where + "max_retries", self.max_retries, least=0)
        if self.min_replicas is not None:
            whole_number(where + "min_replicas", self.min_replicas, least=1)
            if self.min_replicas > self.num_replicas:
                raise InvalidSpecError(
                    f"{where}min_replicas ({self.min_replicas}) is more than "
                    f"num_replicas ({self.num_replicas})"
                )
        set_field(self, "args", frozen_strings(where + "args", self.args))
        set_field(self, "env", _env(where + "env", self.env))
        set_field(self, "secrets", _env(where + "secrets", self.secrets))
        set_field(self, "port_map", _ports(where, self.port_map))
        set_field(self, "metadata", frozen_data(where + "metadata", self.metadata))
        set_field(self, "mounts", _mounts(where, self.mounts))
        set_field(self, "ulimits", _ulimits(where, self.ulimits))


@dataclass(frozen=True)
class AppDef:
    """An app: what to run, as data.

    Args:
        name: the app's name; its id is made from it.
        roles: what runs; one role for most apps.
        metadata: strings for the scheduler and for people.
        array: whether the replicas are independent (an array) or start and fail together (a gang).
        timeout: seconds that one attempt may take.
        depends_on: handles of apps that must have succeeded first.

    Raises:
        InvalidSpecError: a field that cannot be right.
    """

    name: str
    roles: Sequence[Role] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    array: bool = False
    timeout: float | None = None
    depends_on: Sequence[str] = ()

    def __post_init__(self) -> None:
        _check_name("AppDef.name", self.name)
        roles = sequence("AppDef.roles", self.roles, "Role values")
        for role in roles:
            if not isinstance(role, Role):
                raise InvalidSpecError(f"AppDef.roles must hold Role values, not {role!r}")
        names = [role.name for role in roles]
        for name in names:
            if names.count(name) > 1:
                raise InvalidSpecError(f"AppDef.roles has two roles named {name!r}")
        _check_flag("AppDef.array", self.array)
        if self.array and len(roles) != 1:
            raise InvalidSpecError(
                f"an array app has exactly one role; {self.name!r} has {len(roles)}"
            )
        if self.timeout is not None and not _positive(self.timeout):
            raise InvalidSpecError(f"AppDef.timeout must be seconds above 0, not {self.timeout!r}")
        depends_on = frozen_strings("AppDef.depends_on", self.depends_on)
        for handle in depends_on:
            _check_handle(handle)
        set_field(self, "roles", roles)
        set_field(self, "metadata", frozen_string_map("AppDef.metadata", self.metadata))
        set_field(self, "depends_on", depends_on)

    def role(self, name: str) -> Role:
        """Return a role by name.

        Raises:
            UnknownNameError: the app has no such role.
        """
        for role in self.roles:
            if role.name == name:
                return role
        raise UnknownNameError(unknown("role", name, [role.name for role in self.roles]))


def _check_name(where: str, name: object) -> None:
    if not isinstance(name, str) or not _NAME.match(name) or len(name) > 128:
        raise InvalidSpecError(
            f"{where} must be 1 to 128 letters, digits, '-', '_' or '.', "
            f"beginning with a letter or digit, not {name!r}"
        )


def _check_flag(where: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InvalidSpecError(f"{where} must be True or False, not {value!r}")


def _check_handle(handle: str) -> None:
    try:
        parse_app_handle(handle)
    except InvalidHandleError as error:
        raise InvalidSpecError(f"AppDef.depends_on: {error}") from None


def _positive(value: object) -> bool:
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value > 0
    )


def _env(where: str, env: Mapping[str, str]) -> FrozenDict[str, str]:
    frozen = frozen_string_map(where, env)
    for name in frozen:
        if not _ENV_NAME.match(name):
            raise InvalidSpecError(f"{where}: {name!r} cannot be an environment variable's name")
    return frozen


def _ports(where: str, ports: Mapping[str, int]) -> FrozenDict[str, int]:
    for name, port in mapping(where + "port_map", ports).items():
        text(f"a key of {where}port_map", name)
        if whole_number(f"{where}port_map[{name!r}]", port, least=0) > 65535:
            raise InvalidSpecError(f"{where}port_map[{name!r}] must be at most 65535, not {port}")
    return FrozenDict(ports)


def _mounts(where: str, mounts: Sequence[Mount]) -> tuple[Mount, ...]:
    frozen = sequence(where + "mounts", mounts, "mounts")
    for mount in frozen:
        if not isinstance(mount, (BindMount, VolumeMount, DeviceMount)):
            raise InvalidSpecError(
                f"{where}mounts must hold BindMount, VolumeMount or DeviceMount values, "
                f"not {mount!r}; parse_mounts() makes them from text"
            )
    return frozen


Limit = int | tuple[int, int]


def _ulimits(where: str, limits: Mapping[str, Limit]) -> FrozenDict[str, tuple[int, int]]:
    pairs = {}
    for name, value in mapping(where + "ulimits", limits).items():
        text(f"a key of {where}ulimits", name)
        limit = f"{where}ulimits[{name!r}]"
        soft, hard = _soft_and_hard(limit, value)
        if hard != -1 and (soft == -1 or soft > hard):
            raise InvalidSpecError(f"{limit}: soft {soft} is above hard {hard}")
        pairs[name] = (soft, hard)
    return FrozenDict(pairs)


def _soft_and_hard(where: str, value: object) -> tuple[int, int]:
    both = value if isinstance(value, (tuple, list)) else (value, value)
    if len(both) != 2:
        raise InvalidSpecError(f"{where} must be a number, or soft and hard, not {value!r}")
    return whole_number(where, both[0], least=-1), whole_number(where, both[1], least=-1)
