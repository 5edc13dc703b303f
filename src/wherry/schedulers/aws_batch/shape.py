"""What an app is at AWS Batch: a job, an array or several, or a gang of nodes; and its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from wherry.errors import InvalidSpecError
from wherry.schedulers.aws_batch import limits, naming
from wherry.specs.app import AppDef, Role


class Kind(str, Enum):
    """What an app is at AWS Batch."""

    SINGLE = "single"
    ARRAY = "array"
    GANG = "gang"

    def __str__(self) -> str:
        return self.value


@dataclass
class Part:
    """One of the jobs behind an app.

    Args:
        name: its job name.
        first: the number of its first replica within the app.
        count: how many replicas it has.
    """

    name: str
    first: int
    count: int


@dataclass(frozen=True)
class Group:
    """A role, and which replicas or nodes are its own.

    Args:
        role: its name.
        first: the index of its first node; 0 but in a gang of several roles.
        count: how many replicas it has.
    """

    role: str
    first: int
    count: int


def kind_of(app: AppDef) -> Kind:
    """Return what an app is at AWS Batch; an array of one is a single job."""
    replicas = sum(role.num_replicas for role in app.roles)
    if replicas == 1:
        return Kind.SINGLE
    return Kind.ARRAY if app.array else Kind.GANG


def groups_of(roles: Sequence[Role]) -> list[Group]:
    """Return the node group of each role; they follow one another."""
    groups, first = [], 0
    for role in roles:
        groups.append(Group(role.name, first, role.num_replicas))
        first += role.num_replicas
    return groups


def target_nodes(group: Group) -> str:
    """Return a group's nodes in AWS's form."""
    return f"{group.first}:{group.first + group.count - 1}"


def parts_of(name: str, kind: Kind, groups: Sequence[Group]) -> list[Part]:
    """Return the jobs behind an app; a large array is cut into arrays of about the same size.

    The last one would else be small, and an array of one is refused.
    """
    count = sum(group.count for group in groups)
    jobs = math.ceil(count / limits.ARRAY_SIZES[1]) if kind is Kind.ARRAY else 1
    ends = [count * index // jobs for index in range(jobs + 1)]
    return [
        Part(naming.part_name(name, index, jobs), ends[index], ends[index + 1] - ends[index])
        for index in range(jobs)
    ]


def check_gang(app: AppDef) -> None:
    """Refuse what cannot be one multi-node job.

    Raises:
        InvalidSpecError: too many roles or nodes, or instance types that differ.
    """
    if len(app.roles) > limits.NODE_GROUPS:
        raise InvalidSpecError(
            f"a multi-node job has at most {limits.NODE_GROUPS} node groups, one a role, and "
            f"{app.name!r} has {len(app.roles)} roles; put roles that agree together"
        )
    nodes = sum(role.num_replicas for role in app.roles)
    if nodes > limits.NODES:
        raise InvalidSpecError(
            f"a multi-node job has at most {limits.NODES} nodes, and {app.name!r} has {nodes} "
            "replicas; independent ones can be an array (array=True)"
        )
    types = {role.name: instance_type_of(role) for role in app.roles}
    if len({found for found in types.values() if found}) > 1:
        shown = ", ".join(f"{name}: {found}" for name, found in types.items() if found)
        raise InvalidSpecError(
            f"all nodes of a multi-node job have the same instance type, and the roles ask for "
            f"different ones ({shown}); ask for one, or for cpu, gpu and memMB"
        )


def instance_type_of(role: Role) -> str | None:
    """Return the instance type that a role's resource names, if any."""
    found = role.resource.capabilities.get("instance_type")
    return str(found) if found else None
