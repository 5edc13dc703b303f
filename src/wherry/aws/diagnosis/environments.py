"""Compute environments, and what the instance types behind them offer to containers.

The catalogue of instance types is `wherry.specs.catalogue.aws`; a type that is not in it is
unknown, not small. Nothing here knows jobs.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterable
from dataclasses import dataclass

from wherry.aws.documents import Document
from wherry.specs.catalogue import aws
from wherry.specs.catalogue.aws_memory import offered

BUNDLES = {
    "optimal": ("m6i", "c6i", "r6i", "c7i"),
    "default_x86_64": ("m6i", "c6i", "r6i", "c7i"),
    "default_arm64": ("m6g", "c6g", "r6g", "c7g"),
}
"""Families behind the names that leave the choice to AWS (API reference, ComputeResource)."""

_LARGEST_MEMORY = 1 << 26


@dataclass(frozen=True)
class Environment:
    """A compute environment.

    Args:
        name: its name.
        state, status, reason: ``ENABLED``, ``VALID`` and what AWS says of them.
        is_managed: whether AWS launches its instances.
        kind: ``EC2``, ``SPOT``, ``FARGATE`` …
        is_eks: whether it is on a cluster of Kubernetes.
        least, desired, most: vCPUs.
        instance_types: types, families and bundles.
        strategy: of allocation.
        instance_role: ARN or name of the instance profile.
        service_role: ARN of the role that Batch acts as; empty for its own.
        subnets, groups: of its network.
    """

    name: str
    state: str = "ENABLED"
    status: str = "VALID"
    reason: str = ""
    is_managed: bool = True
    kind: str = "EC2"
    is_eks: bool = False
    least: float = 0.0
    desired: float = 0.0
    most: float = float("inf")
    instance_types: tuple[str, ...] = ()
    strategy: str = "BEST_FIT"
    instance_role: str = ""
    service_role: str = ""
    subnets: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether jobs are placed in it."""
        return self.state == "ENABLED" and self.status == "VALID"

    @property
    def is_fargate(self) -> bool:
        """Whether it is Fargate."""
        return self.kind.startswith("FARGATE")

    @property
    def is_spot(self) -> bool:
        """Whether AWS may take its machines away."""
        return self.kind in ("SPOT", "FARGATE_SPOT")

    @property
    def has_instances(self) -> bool:
        """Whether AWS launches EC2 instances for it that register with ECS."""
        return self.is_managed and self.kind in ("EC2", "SPOT") and not self.is_eks


@dataclass(frozen=True)
class Host:
    """What an instance type offers to one container.

    Args:
        name: of the type.
        architecture: ``X86_64`` or ``ARM64``.
        vcpus, gpus: its own.
        memory_mib: what is left for a container.
        advertised_mib: what the type is said to have.
    """

    name: str
    architecture: str
    vcpus: float
    memory_mib: int
    advertised_mib: int
    gpus: int


def read_environment(document: Document) -> Environment:
    """Return the environment that DescribeComputeEnvironments tells of."""
    resources = document.get("computeResources") or {}
    return Environment(
        name=str(document.get("computeEnvironmentName", "")),
        state=str(document.get("state", "ENABLED")),
        status=str(document.get("status", "VALID")),
        reason=str(document.get("statusReason") or ""),
        is_managed=document.get("type") != "UNMANAGED",
        kind=str(resources.get("type", "EC2")),
        is_eks="eksConfiguration" in document,
        least=float(resources.get("minvCpus") or 0),
        desired=float(resources.get("desiredvCpus") or 0),
        most=float(resources.get("maxvCpus") or "inf"),
        instance_types=tuple(resources.get("instanceTypes") or ()),
        strategy=str(resources.get("allocationStrategy") or "BEST_FIT"),
        instance_role=str(resources.get("instanceRole") or ""),
        service_role=str(document.get("serviceRole") or ""),
        subnets=tuple(resources.get("subnets") or ()),
        groups=tuple(resources.get("securityGroupIds") or ()),
    )


def hosts(names: Iterable[str]) -> tuple[list[Host], list[str]]:
    """Return the instance types that names stand for, and the names that we do not know.

    Args:
        names: types, families and bundles, as an environment lists them.
    """
    known: dict[str, Host] = {}
    unknown = []
    for name in names:
        found = _named(name)
        known.update((host.name, host) for host in found)
        if not found:
            unknown.append(name)
    return list(known.values()), unknown


@functools.cache
def advertised(memory_mib: int) -> int:
    """Return the memory that a type is said to have, of what it leaves for containers."""
    found = bisect.bisect_left(range(_LARGEST_MEMORY), memory_mib, key=offered)
    return round(found / 256) * 256 or found


@functools.cache
def _named(name: str) -> tuple[Host, ...]:
    if "." in name:
        found = _host(name)
        return (found,) if found else ()
    families = BUNDLES.get(name, (name,))
    names = (one for one in aws.instance_types() if one.partition(".")[0] in families)
    return tuple(host for host in map(_host, names) if host is not None)


@functools.cache
def _host(name: str) -> Host | None:
    found = aws.find(name)
    if found is None:
        return None
    architecture = "ARM64" if found.capabilities["arch"] == aws.ARM else "X86_64"
    memory = found.memMB
    return Host(name, architecture, found.cpu, memory, advertised(memory), found.gpu)
