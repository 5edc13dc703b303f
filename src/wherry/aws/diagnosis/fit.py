"""Does a request fit an environment? What is in the way, in numbers.

Arithmetic over the catalogue of instance types, Fargate's pairs and what an environment says of
itself. Only what is sure is called certain: a request that is above what we think a host offers,
but below the host's advertised memory, may still fit. Words are made elsewhere (`misfits`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from wherry.aws.diagnosis.asked import (
    Amounts,
    amounts_of,
    architecture_of,
    containers_of,
    node_groups,
    platforms_of,
)
from wherry.aws.diagnosis.environments import Environment, Host, hosts
from wherry.aws.documents import Document
from wherry.aws.fargate import PAIRS, is_legal
from wherry.aws.jobs import JobView

_PLATFORMS = {
    "EC2": "EC2",
    "SPOT": "EC2",
    "FARGATE": "FARGATE",
    "FARGATE_SPOT": "FARGATE",
    "ECS_MANAGED_INSTANCES": "MANAGED_INSTANCES",
}


class Kind(Enum):
    """What is in the way."""

    PLATFORM = "wrong-platform"
    GANG = "no-multi-node"
    FARGATE_GPU = "no-gpu-on-fargate"
    FARGATE_PAIR = "not-a-fargate-size"
    INSTANCE_TYPE = "instance-type-not-offered"
    ARCHITECTURE = "other-architecture"
    GPUS = "too-many-gpus"
    VCPUS = "too-many-vcpus"
    MEMORY = "too-much-memory"
    TIGHT_MEMORY = "memory-of-a-whole-host"
    MAX_VCPUS = "above-max-vcpus"


CLOSENESS = tuple(Kind)
"""From far from fitting to close; when environments differ, the closest is told."""


@dataclass(frozen=True)
class Need:
    """What one task asks for, and how many such tasks start together."""

    vcpus: float
    memory_mib: int
    gpus: int = 0
    count: int = 1
    instance_type: str = ""


@dataclass(frozen=True)
class Request:
    """What a job asks for.

    Args:
        needs: of its tasks; several for the node groups of a multi-node job.
        platforms: what it can run on.
        architecture: ``X86_64``, ``ARM64``, or empty for any.
        is_gang: whether all its nodes must start together.
    """

    needs: tuple[Need, ...]
    platforms: tuple[str, ...] = ("EC2",)
    architecture: str = ""
    is_gang: bool = False

    @property
    def vcpus(self) -> float:
        """What all its tasks ask for together."""
        return sum(need.vcpus * need.count for need in self.needs)

    def __str__(self) -> str:
        """Write it as ``2 nodes of 4 vCPUs, 8192 MiB, 1 GPU each``."""
        texts = []
        for need in self.needs:
            parts = [counted(need.vcpus, "vCPU"), f"{need.memory_mib} MiB"]
            parts += [counted(need.gpus, "GPU")] if need.gpus else []
            text = ", ".join(parts)
            texts.append(f"{counted(need.count, 'node')} of {text}" if self.is_gang else text)
        return "; ".join(texts)


@dataclass(frozen=True)
class Obstacle:
    """What keeps a request out of an environment.

    Args:
        kind: what it is.
        environment: where.
        asked: how much, or what, is asked for.
        offered: how much, or what, there is.
        where: the host or hosts that have the most of it.
        is_certain: whether nothing that we do not know could change it.
    """

    kind: Kind
    environment: str
    asked: str
    offered: str
    where: str = ""
    is_certain: bool = True


def read_request(job: JobView) -> Request:
    """Return what a job, a child or a whole multi-node job asks for."""
    platforms, architecture = platforms_of(job), architecture_of(job)
    if job.kind != "multinode":
        need = _need(amounts_of(job.containers), 1, _instance_type(dict(job.document)))
        return Request((need,), platforms, architecture)
    needs = tuple(
        _need(amounts_of(containers_of(group)), count, _instance_type(group))
        for count, group in node_groups(job)
    )
    return Request(needs, platforms, architecture, is_gang=job.num_nodes > 1)


def obstacle(request: Request, environment: Environment) -> Obstacle | None:
    """Return what keeps a request out of an environment for ever; nothing when it can run."""
    return next(_obstacles(request, environment), None)


def closest(obstacles: Iterable[Obstacle]) -> Obstacle:
    """Return the obstacle that is closest to a fit."""
    return max(obstacles, key=lambda one: CLOSENESS.index(one.kind))


def counted(number: float, word: str) -> str:
    """Write a number of things: ``1 vCPU``, ``0.25 vCPU``, ``4 vCPUs``."""
    return f"{number:g} {word}" if 0 < number <= 1 else f"{number:g} {word}s"


def _obstacles(request: Request, environment: Environment) -> Iterator[Obstacle]:
    platform = _PLATFORMS.get(environment.kind, environment.kind)
    if environment.is_eks or not environment.is_managed:
        return  # their hosts are the user's own, and nobody says how large they are
    if platform not in request.platforms:
        yield Obstacle(
            Kind.PLATFORM, environment.name, " or ".join(request.platforms), environment.kind
        )
    elif request.is_gang and environment.kind != "EC2":
        yield Obstacle(Kind.GANG, environment.name, "a multi-node parallel job", environment.kind)
    elif environment.is_fargate:
        yield from _on_fargate(request, environment)
    elif environment.instance_types:
        yield from _on_hosts(request, environment)


def _on_fargate(request: Request, environment: Environment) -> Iterator[Obstacle]:
    (need,) = request.needs[:1]
    if need.gpus:
        yield Obstacle(Kind.FARGATE_GPU, environment.name, counted(need.gpus, "GPU"), "no GPU")
    if not is_legal(need.vcpus, need.memory_mib):
        yield Obstacle(
            Kind.FARGATE_PAIR,
            environment.name,
            f"{counted(need.vcpus, 'vCPU')} and {need.memory_mib} MiB",
            _legal_memory(need.vcpus),
        )
    if need.vcpus > environment.most:
        yield _above_most(request.vcpus, environment)


def _legal_memory(vcpus: float) -> str:
    sizes = PAIRS.get(vcpus)
    if sizes is None:
        return f"vCPUs of {', '.join(f'{size:g}' for size in PAIRS)}"
    return (
        f"{', '.join(map(str, sizes[:3]))} … {sizes[-1]} MiB"
        if len(sizes) > 4
        else (f"{', '.join(map(str, sizes))} MiB")
    )


def _on_hosts(request: Request, environment: Environment) -> Iterator[Obstacle]:
    known, unknown = hosts(environment.instance_types)
    if known:
        for need in request.needs:
            found = _too_small(need, request.architecture, known, environment, not unknown)
            if found is not None:
                yield found
    if request.vcpus > environment.most:
        yield _above_most(request.vcpus, environment)
    elif known and not unknown and _launched(request, known, environment) > environment.most:
        yield _above_most(_launched(request, known, environment), environment, launched=True)


def _too_small(
    need: Need, architecture: str, known: list[Host], environment: Environment, is_whole: bool
) -> Obstacle | None:
    """Leave out the hosts that are not enough, one measure after another; say which left none."""
    measures = (
        (Kind.INSTANCE_TYPE, _is_of_type, need.instance_type),
        (Kind.ARCHITECTURE, _is_of_architecture, architecture),
        (Kind.GPUS, _has_gpus, need.gpus),
        (Kind.VCPUS, _has_vcpus, need.vcpus),
        (Kind.TIGHT_MEMORY, _has_memory, need.memory_mib),
    )
    left = known
    for kind, is_enough, asked in measures:
        enough = [host for host in left if not asked or is_enough(host, asked)]
        if not enough:
            return _lacking(kind, asked, left, environment, is_whole)
        left = enough
    return None


def _is_of_type(host: Host, asked: object) -> bool:
    return host.name == asked or host.name.partition(".")[0] == asked


def _is_of_architecture(host: Host, asked: object) -> bool:
    return host.architecture == asked


def _has_gpus(host: Host, asked: object) -> bool:
    return host.gpus >= float(str(asked))


def _has_vcpus(host: Host, asked: object) -> bool:
    return host.vcpus >= float(str(asked))


def _has_memory(host: Host, asked: object) -> bool:
    return host.memory_mib >= float(str(asked))


def _lacking(
    kind: Kind, asked: object, left: Sequence[Host], environment: Environment, is_whole: bool
) -> Obstacle:
    if kind is Kind.TIGHT_MEMORY:
        return _lacking_memory(int(str(asked)), left, environment, is_whole)
    if kind in (Kind.GPUS, Kind.VCPUS):
        word = "GPU" if kind is Kind.GPUS else "vCPU"
        most = max(left, key=lambda host: host.gpus if kind is Kind.GPUS else host.vcpus)
        has = most.gpus if kind is Kind.GPUS else most.vcpus
        wanted = counted(float(str(asked)), word)
        offers = counted(has, word) if has else f"no {word}"
        return Obstacle(kind, environment.name, wanted, offers, most.name, is_whole)
    if kind is Kind.ARCHITECTURE:
        names = sorted({host.architecture for host in left})
        return Obstacle(kind, environment.name, str(asked), " and ".join(names), "", is_whole)
    names = list(environment.instance_types)
    return Obstacle(kind, environment.name, str(asked), ", ".join(names), "", is_whole)


def _lacking_memory(
    asked: int, left: Sequence[Host], environment: Environment, is_whole: bool
) -> Obstacle:
    most = max(left, key=lambda host: host.memory_mib)
    is_hopeless = asked >= most.advertised_mib + 1
    return Obstacle(
        Kind.MEMORY if is_hopeless else Kind.TIGHT_MEMORY,
        environment.name,
        f"{asked} MiB",
        f"{most.memory_mib} MiB",
        most.name,
        # A host never has all of what it is said to have; how much less is an estimate.
        is_whole and asked >= most.advertised_mib,
    )


def _launched(request: Request, known: list[Host], environment: Environment) -> float:
    """Return the vCPUs of the smallest instances that hold a request.

    With every strategy but BEST_FIT, AWS may go above the maximum by one instance (API reference,
    maxvCpus), so the last one is not counted.
    """
    sizes = [
        min((host.vcpus for host in known if _holds(host, need, request)), default=0.0)
        for need in request.needs
        for _ in range(need.count)
    ]
    may_exceed = environment.strategy != "BEST_FIT"
    return sum(sizes[:-1]) if may_exceed else sum(sizes)


def _holds(host: Host, need: Need, request: Request) -> bool:
    return (
        host.vcpus >= need.vcpus
        and host.memory_mib >= need.memory_mib
        and host.gpus >= need.gpus
        and request.architecture in ("", host.architecture)
        and (not need.instance_type or _is_of_type(host, need.instance_type))
    )


def _above_most(vcpus: float, environment: Environment, *, launched: bool = False) -> Obstacle:
    return Obstacle(
        Kind.MAX_VCPUS,
        environment.name,
        f"{counted(vcpus, 'vCPU')}{' of instances' if launched else ''}",
        f"{environment.most:g}",
    )


def _need(amounts: Amounts, count: int, instance_type: str) -> Need:
    return Need(amounts.vcpus, amounts.memory_mib, amounts.gpus, count, instance_type)


def _instance_type(document: Document) -> str:
    container = document.get("container") or {}
    return str(container.get("instanceType") or next(iter(document.get("instanceTypes") or ()), ""))
