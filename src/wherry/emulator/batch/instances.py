"""The virtual EC2 instances of one managed environment: which types there are, who is where.

Instances are launched when a job needs one and none has room, and are gone when they are empty, so
that jobs that share an instance lose it together. Nothing here knows queues, or why a job waits.
Names of types, their memory and their GPUs come from `wherry.specs.catalogue.aws`.
"""

from __future__ import annotations

import functools
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from wherry.emulator.batch.placing import NodeNeed
from wherry.specs.catalogue import aws

BUNDLES = {
    "default_x86_64": ("m6i", "c6i", "r6i", "c7i"),
    "default_arm64": ("m6g", "c6g", "r6g", "c7g"),
    "optimal": ("m6i", "c6i", "r6i", "c7i"),
}
"""The families behind the names that leave the choice to AWS (API reference, instanceTypes)."""

_SIZE = re.compile(r"(?:(?P<times>\d*)x)?(?:large)|medium|small|micro|nano|metal(?:-\d+xl)?")
_USUAL_SIZES = ("large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge")
_ARM_FAMILY = re.compile(r"a1$|[a-z]+\d+g[a-z]*$")
_CACHED_SHAPES = 64


@dataclass(frozen=True)
class HostType:
    """What an instance type offers to containers."""

    name: str
    architecture: str  # X86_64 or ARM64
    vcpus: float
    memory_mib: int
    gpus: int

    def holds(self, need: NodeNeed, architecture: str) -> bool:
        """Tell whether an empty host of this type is enough for one node."""
        return (
            need.vcpus <= self.vcpus
            and need.memory_mib <= self.memory_mib
            and need.gpus <= self.gpus
            and architecture in ("", self.architecture)
            and (not need.instance_type or self.name in _names((need.instance_type,)))
        )

    def copies(self, need: NodeNeed) -> int:
        """Return how many nodes of a kind an empty host has room for."""
        pairs = (
            (self.vcpus, need.vcpus),
            (self.memory_mib, need.memory_mib),
            (self.gpus, need.gpus),
        )
        return int(min((have // want for have, want in pairs if want), default=1))


@functools.lru_cache(maxsize=256)
def host_types(names: tuple[str, ...]) -> tuple[HostType, ...]:
    """Return the types that an environment's ``instanceTypes`` stand for, in that order.

    Types that the catalogue does not have are judged by their size: AWS has more families than
    anybody keeps a list of, and a job should not wait for ever for the sake of ours.

    Args:
        names: types, families and bundles.
    """
    found = (_host_type(name) for name in _names(names))
    return tuple(host for host in found if host is not None)


@functools.lru_cache(maxsize=1024)
def _names(words: tuple[str, ...]) -> tuple[str, ...]:
    names = (name for word in words for name in _names_of(word))
    return tuple(dict.fromkeys(names))


def _names_of(word: str) -> Iterator[str]:
    if word in BUNDLES:
        for family in BUNDLES[word]:
            yield from _family(family)
    elif "." in word:
        yield word
    else:
        yield from _family(word) or (f"{word}.{size}" for size in _USUAL_SIZES)


def _family(family: str) -> tuple[str, ...]:
    # Whole machines without a hypervisor are only taken when they are asked for by name.
    return tuple(name for name in _families().get(family, ()) if ".metal" not in name)


@functools.cache
def _families() -> dict[str, list[str]]:
    families: dict[str, list[str]] = {}
    for name in aws.instance_types():
        families.setdefault(name.partition(".")[0], []).append(name)
    return families


@functools.lru_cache(maxsize=2048)
def _host_type(name: str) -> HostType | None:
    known = aws.find(name)
    if known is None:
        return _judged_by_size(name)
    arch = "ARM64" if known.capabilities["arch"] == aws.ARM else "X86_64"
    return HostType(name, arch, known.cpu, known.memMB, known.gpu)


def _judged_by_size(name: str) -> HostType | None:
    family, _, size = name.partition(".")
    match = _SIZE.fullmatch(size)
    if not family or match is None:
        return None
    times = match["times"]
    vcpus = 4 * int(times or 1) if "x" in size.partition("large")[0] else 2
    if size.startswith("metal"):
        vcpus = 96
    gpus = 1 if family[0] in "pg" else 0
    arch = "ARM64" if _ARM_FAMILY.match(family) else "X86_64"
    return HostType(name, arch, vcpus, int(vcpus * 4096 * 0.9), gpus)


@dataclass(eq=False)
class Instance:
    """One instance that runs.

    Attributes:
        id, arn: of the EC2 instance and of the container instance.
        type: its type.
        vcpus, memory_mib, gpus: what is free.
        jobs: what each job has taken here.
        is_alone: whether it holds a node of a multi-node job, which shares with nobody.
        is_gone: whether it was reclaimed.
    """

    id: str
    arn: str
    type: HostType
    vcpus: float
    memory_mib: int
    gpus: int
    jobs: dict[str, NodeNeed] = field(default_factory=dict)
    is_alone: bool = False
    is_gone: bool = False

    @property
    def job_ids(self) -> list[str]:
        """The jobs that have something here, each once."""
        return list(dict.fromkeys(key.partition("#")[0] for key in self.jobs))

    def has_room(self, need: NodeNeed, architecture: str, *, alone: bool) -> bool:
        """Tell whether a node can go here now."""
        return (
            not self.is_gone
            and not self.is_alone
            and not (alone and self.jobs)
            and need.vcpus <= self.vcpus
            and need.memory_mib <= self.memory_mib
            and need.gpus <= self.gpus
            and self.type.holds(need, architecture)
        )

    def put(self, job_id: str, need: NodeNeed, *, alone: bool) -> None:
        """Give a node its part."""
        self.jobs[job_id] = need
        self.is_alone = alone
        self.vcpus -= need.vcpus
        self.memory_mib -= need.memory_mib
        self.gpus -= need.gpus

    def take_back(self, job_id: str) -> None:
        """Free the part of a job; harmless when it has none."""
        need = self.jobs.pop(job_id, None)
        if need is not None:
            self.is_alone = False
            self.vcpus += need.vcpus
            self.memory_mib += need.memory_mib
            self.gpus += need.gpus


@dataclass(frozen=True)
class Bounds:
    """How an environment may grow.

    Attributes:
        types: what may be launched.
        least, most: ``minvCpus`` and ``maxvCpus``.
        is_strict: whether `most` is never exceeded. With every strategy but ``BEST_FIT`` on
            demand, AWS may exceed it by one instance (API reference, maxvCpus).
        is_ordered: whether types come in the order of the list, not smallest first.
    """

    types: tuple[HostType, ...]
    least: float
    most: float
    is_strict: bool
    is_ordered: bool


_Shape = tuple[float, int, int, str, str, bool]


class Hosts:
    """The instances of one environment.

    Args:
        bounds: how they may grow.
        name_arn: makes the container instance's ARN of 32 hexadecimal digits.
        new_hex: makes so many random hexadecimal digits.
    """

    def __init__(
        self, bounds: Bounds, name_arn: Callable[[str], str], new_hex: Callable[[int], str]
    ) -> None:
        self.bounds = bounds
        self._fitting: dict[tuple[NodeNeed, str], tuple[HostType, ...]] = {}
        self.instances: dict[str, Instance] = {}
        self._name_arn = name_arn
        self._new_hex = new_hex
        self._vcpus = 0.0
        self._empty: dict[str, Instance] = {}
        # For each shape of need, the instances that may have room for it, in the order of trying;
        # those found full are dropped, and come back when something on them ends. So a job finds
        # its place without looking at every instance.
        self._candidates: dict[_Shape, OrderedDict[str, Instance]] = {}

    def resize(self, bounds: Bounds) -> None:
        """Take note of new bounds; instances that run go on."""
        if bounds != self.bounds:
            self.bounds = bounds
            self._fitting.clear()

    def put(
        self, job_id: str, need: NodeNeed, architecture: str, *, alone: bool
    ) -> Instance | None:
        """Find room for a node, on an instance that runs or a new one.

        Returns:
            The instance; nothing when there is no room.
        """
        instance = self._running(need, architecture, alone=alone)
        if instance is None:
            instance = self._launched(need, architecture)
        if instance is not None:
            instance.put(job_id, need, alone=alone)
            self._empty.pop(instance.id, None)
        return instance

    def take_back(self, job_id: str, instance: Instance) -> None:
        """Free what a job has on an instance."""
        instance.take_back(job_id)
        if instance.is_gone:
            return
        if not instance.jobs:
            self._empty[instance.id] = instance
        for candidates in self._candidates.values():
            candidates[instance.id] = instance

    def drop(self, instance_id: str) -> None:
        """An instance is gone; unknown ids are ignored."""
        instance = self.instances.pop(instance_id, None)
        if instance is not None:
            instance.is_gone = True
            self._vcpus -= instance.type.vcpus
            self._empty.pop(instance_id, None)

    def shrink(self) -> None:
        """Terminate empty instances as far as ``minvCpus`` allows."""
        for instance in list(self._empty.values()):
            if self._vcpus - instance.type.vcpus >= self.bounds.least:
                self.drop(instance.id)

    def smallest(self, need: NodeNeed, architecture: str) -> HostType | None:
        """Return the type that is launched for a node; nothing when none will do."""
        return next(iter(self._types(need, architecture)), None)

    def _types(self, need: NodeNeed, architecture: str) -> tuple[HostType, ...]:
        key = (need, architecture)
        if key not in self._fitting:
            if len(self._fitting) >= _CACHED_SHAPES:
                self._fitting.clear()
            self._fitting[key] = _fitting(self.bounds, need, architecture)
        return self._fitting[key]

    def _running(self, need: NodeNeed, architecture: str, *, alone: bool) -> Instance | None:
        shape = _shape(need, architecture, alone=alone)
        if shape not in self._candidates:
            if len(self._candidates) >= _CACHED_SHAPES:
                self._candidates.clear()
            self._candidates[shape] = OrderedDict(self.instances)
        candidates = self._candidates[shape]
        while candidates:
            instance = next(iter(candidates.values()))
            if instance.has_room(need, architecture, alone=alone):
                return instance
            del candidates[instance.id]
        return None

    def _launched(self, need: NodeNeed, architecture: str) -> Instance | None:
        fitting = self._types(need, architecture)
        host = next((host for host in fitting if self._may_launch(host)), None)
        if host is None and fitting and self._empty:
            # Idle instances of other types make way, as AWS replaces what nobody needs.
            for instance in list(self._empty.values()):
                self.drop(instance.id)
            host = next((host for host in fitting if self._may_launch(host)), None)
        if host is None:
            return None
        instance_id, arn = f"i-{self._new_hex(17)}", self._name_arn(self._new_hex(32))
        return self._add(Instance(instance_id, arn, host, host.vcpus, host.memory_mib, host.gpus))

    def _may_launch(self, host: HostType) -> bool:
        if self.bounds.is_strict:
            return self._vcpus + host.vcpus <= self.bounds.most
        return self._vcpus < self.bounds.most

    def _add(self, instance: Instance) -> Instance:
        self.instances[instance.id] = instance
        self._vcpus += instance.type.vcpus
        for candidates in self._candidates.values():
            candidates[instance.id] = instance
        return instance


def _shape(need: NodeNeed, architecture: str, *, alone: bool) -> _Shape:
    return (need.vcpus, need.memory_mib, need.gpus, need.instance_type, architecture, alone)


def _fitting(bounds: Bounds, need: NodeNeed, architecture: str) -> tuple[HostType, ...]:
    """Return the types for a node, best first.

    Smallest first; of those with as many virtual CPUs, the one that more such jobs can share, so
    that memory does not leave half of the CPUs idle.
    """
    fitting = [host for host in bounds.types if host.holds(need, architecture)]
    if not bounds.is_ordered:
        fitting.sort(key=lambda host: (host.gpus, host.vcpus, -host.copies(need), host.memory_mib))
    return tuple(fitting)
