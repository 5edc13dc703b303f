"""The request of a `MemoryScheduler`: an app's replicas, each as its process would see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wherry.errors import UnknownNameError, unknown
from wherry.specs.app import AppDef, RetryPolicy, Role
from wherry.specs.macro import macros
from wherry.specs.mounts import Mount
from wherry.specs.resources import Resource

RANK0_ENV = "WHERRY_RANK0_HOST"


@dataclass
class ReplicaRequest:
    """One replica, with the macros replaced.

    Args:
        id: its index within the role, from 0.
        entrypoint: the program.
        args: its arguments.
        env: its environment, with the variables that Wherry adds (but for ``WHERRY_ATTEMPT``,
            which each attempt has its own).
        metadata: the role's hints.
    """

    id: int
    entrypoint: str
    args: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class RoleRequest:
    """One role and its replicas; the fields are those of `Role`."""

    name: str
    image: str
    replicas: list[ReplicaRequest]
    min_replicas: int | None = None
    max_retries: int = 0
    retry_policy: RetryPolicy = RetryPolicy.APPLICATION
    resource: Resource = field(default_factory=Resource)
    mounts: list[Mount] = field(default_factory=list)


@dataclass
class MemoryRequest:
    """What a `MemoryScheduler` is asked for; editable until it is scheduled.

    Args:
        app_id: the id that the app will have.
        name: the app's name, by which its script is found.
        roles: what runs.
        array: whether the replicas are independent.
        timeout: seconds that one attempt may take.
        depends_on: handles of apps that must have succeeded first.
    """

    app_id: str
    name: str
    roles: list[RoleRequest]
    array: bool = False
    timeout: float | None = None
    depends_on: list[str] = field(default_factory=list)

    def role(self, name: str) -> RoleRequest:
        """Return a role by name.

        Raises:
            UnknownNameError: there is no such role.
        """
        for role in self.roles:
            if role.name == name:
                return role
        raise UnknownNameError(unknown("role", name, [role.name for role in self.roles]))

    def __str__(self) -> str:
        import json

        from wherry.specs.plain import to_plain

        return json.dumps(to_plain(self), indent=2)


def make_request(app: AppDef, app_id: str, img_root: str) -> MemoryRequest:
    """Turn an app into a request.

    Args:
        app: what to run.
        app_id: its id.
        img_root: what ``${img_root}`` stands for.
    """
    return MemoryRequest(
        app_id=app_id,
        name=app.name,
        roles=[_role(role, app_id, img_root) for role in app.roles],
        array=app.array,
        timeout=app.timeout,
        depends_on=list(app.depends_on),
    )


def _role(role: Role, app_id: str, img_root: str) -> RoleRequest:
    return RoleRequest(
        name=role.name,
        image=role.image,
        replicas=[_replica(role, k, app_id, img_root) for k in range(role.num_replicas)],
        min_replicas=role.min_replicas,
        max_retries=role.max_retries,
        retry_policy=role.retry_policy,
        resource=role.resource,
        mounts=list(role.mounts),
    )


def _replica(role: Role, k: int, app_id: str, img_root: str) -> ReplicaRequest:
    values = macros.Values(img_root, app_id, str(k), RANK0_ENV)
    filled = values.apply_to_role(role)
    return ReplicaRequest(
        id=k,
        entrypoint=role.entrypoint,
        args=list(filled.args),
        env={**filled.env, **_own_env(role, k, app_id)},
        metadata=dict(filled.metadata),
    )


def _own_env(role: Role, k: int, app_id: str) -> Mapping[str, str]:
    return {
        "WHERRY_APP_ID": app_id,
        "WHERRY_NUM_REPLICAS": str(role.num_replicas),
        RANK0_ENV: "localhost",
        "WHERRY_REPLICA_ID": str(k),
        "WHERRY_ROLE_NAME": role.name,
    }
