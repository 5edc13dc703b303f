"""The capacity of one compute environment, whatever kind it is.

A fleet says whether a job can ever run in it, gives it places, and takes them back. There are
three: instances that come and go, Fargate, which is only a sum of virtual CPUs, and a host that
the user keeps (``UNMANAGED``), which is as big as the machine. No fleet knows queues.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from wherry.emulator.batch import reasons
from wherry.emulator.batch.instances import Bounds, Hosts, Instance, host_types
from wherry.emulator.batch.placing import NodeNeed, Place, Waiting
from wherry.emulator.batch.records import PLATFORMS, ComputeEnvironment

NewHex = Callable[[int], str]

_ON_DEMAND = "EC2"
_DEFAULT_STRATEGY = "BEST_FIT"
_UNBOUNDED = 10_000.0


class Fleet(ABC):
    """The capacity of one environment.

    Args:
        environment: which.
        new_hex: makes so many random hexadecimal digits.
    """

    def __init__(self, environment: ComputeEnvironment, new_hex: NewHex) -> None:
        self.environment = environment
        self.new_hex = new_hex

    @property
    def is_open(self) -> bool:
        """Whether it takes jobs now."""
        return self.environment.state == "ENABLED" and self.environment.status == "VALID"

    @property
    def most_vcpus(self) -> float:
        """``maxvCpus``."""
        return float(self.environment.resources.get("maxvCpus", _UNBOUNDED))

    def refresh(self, environment: ComputeEnvironment) -> None:
        """Take note of the environment as it is now."""
        self.environment = environment

    def obstacle(self, waiting: Waiting) -> str:
        """Return the key of the reason why a job can never run here; empty when it can."""
        if self.platform not in (waiting.platforms or ("EC2",)):
            return reasons.REQUIREMENT
        return self._obstacle(waiting)

    @property
    def platform(self) -> str:
        """The platform capability that a job needs to run here."""
        return PLATFORMS.get(self.environment.kind, "EC2")

    @abstractmethod
    def _obstacle(self, waiting: Waiting) -> str: ...

    @abstractmethod
    def put(self, waiting: Waiting) -> tuple[Place, ...] | None:
        """Give each node of a job its place, or none of them any."""

    @abstractmethod
    def take_back(self, job_id: str) -> None:
        """Free the places of a job; unknown ids are ignored."""

    def instance_type(self, _waiting: Waiting) -> str:
        """Return the type of instance that would be launched for a job; empty for none."""
        return ""

    def drop(self, instance_id: str) -> None:  # noqa: B027 — most fleets have none
        """An instance is gone; unknown ids are ignored."""

    def settle(self) -> None:  # noqa: B027 — most fleets keep nothing idle
        """All that can start has started: let go of what nobody uses."""

    def instances(self) -> list[Instance]:
        """Return the instances that run."""
        return []

    def _place(self, instance: Instance | None = None) -> Place:
        environment = self.environment
        return Place(
            environment.arn,
            environment.name,
            environment.ecs_cluster_arn,
            instance.id if instance else "",
            instance.type.name if instance else "",
            instance.arn if instance else "",
        )


def fleet_of(environment: ComputeEnvironment, new_hex: NewHex) -> Fleet:
    """Make the fleet for an environment."""
    return _class_of(environment)(environment, new_hex)


def is_of(fleet: Fleet, environment: ComputeEnvironment) -> bool:
    """Tell whether a fleet is the right kind for an environment, as it is now."""
    return type(fleet) is _class_of(environment)


def _class_of(environment: ComputeEnvironment) -> type[Fleet]:
    if environment.type == "UNMANAGED":
        return OwnHost
    return Fargate if environment.kind.startswith("FARGATE") else Managed


class Fargate(Fleet):
    """As many tasks as ``maxvCpus`` allows; nothing else is known of where they run."""

    def __init__(self, environment: ComputeEnvironment, new_hex: NewHex) -> None:
        super().__init__(environment, new_hex)
        self._taken: dict[str, float] = {}
        self._vcpus = 0.0

    def _obstacle(self, waiting: Waiting) -> str:
        [need, *more] = waiting.nodes
        if more or need.count > 1 or need.gpus:
            return reasons.REQUIREMENT
        return reasons.MAX_RESOURCE if need.vcpus > self.most_vcpus else ""

    def put(self, waiting: Waiting) -> tuple[Place, ...] | None:
        """Give each node its place, or none any."""
        vcpus = waiting.nodes[0].vcpus
        if self._vcpus + vcpus > self.most_vcpus:
            return None
        self._take(waiting.job_id, vcpus)
        return (self._place(),)

    def take_back(self, job_id: str) -> None:
        """Free the places of a job."""
        self._vcpus -= self._taken.pop(job_id, 0.0)

    def _take(self, job_id: str, vcpus: float) -> None:
        self._taken[job_id] = vcpus
        self._vcpus += vcpus


class Managed(Fleet):
    """Virtual EC2 instances, on demand or Spot."""

    def __init__(self, environment: ComputeEnvironment, new_hex: NewHex) -> None:
        super().__init__(environment, new_hex)
        self._hosts = Hosts(_bounds(environment), self._instance_arn, new_hex)
        self._where: dict[str, list[Instance]] = {}

    def refresh(self, environment: ComputeEnvironment) -> None:
        """Take note of the environment as it is now."""
        super().refresh(environment)
        self._hosts.resize(_bounds(environment))

    def _obstacle(self, waiting: Waiting) -> str:
        bounds = self._hosts.bounds
        if not bounds.types:
            return reasons.UNSUPPORTED
        if _is_gang(waiting) and self.environment.kind != _ON_DEMAND:
            return reasons.REQUIREMENT
        if sum(need.vcpus * need.count for need in waiting.nodes) > bounds.most:
            return reasons.MAX_RESOURCE
        launched: list[float] = []
        for need in waiting.nodes:
            host = self._hosts.smallest(need, waiting.architecture)
            if host is None:
                return reasons.REQUIREMENT
            launched += [host.vcpus] * need.count
        if bounds.is_strict:
            return reasons.MAX_RESOURCE if sum(launched) > bounds.most else ""
        return reasons.MAX_RESOURCE if sum(launched[:-1]) >= bounds.most else ""

    def put(self, waiting: Waiting) -> tuple[Place, ...] | None:
        """Give each node its place, or none any."""
        # "Multi-node parallel jobs are single-tenant" (user guide): each node has its instance.
        alone = _is_gang(waiting)
        taken: list[Instance] = []
        for key, need in _nodes(waiting):
            instance = self._hosts.put(key, need, waiting.architecture, alone=alone)
            if instance is None:
                for other, (its_key, _) in zip(taken, _nodes(waiting), strict=False):
                    self._hosts.take_back(its_key, other)
                return None
            taken.append(instance)
        self._where[waiting.job_id] = taken
        return tuple(self._place(instance) for instance in taken)

    def take_back(self, job_id: str) -> None:
        """Free the places of a job."""
        for number, instance in enumerate(self._where.pop(job_id, ())):
            self._hosts.take_back(_node_key(job_id, number), instance)

    def instance_type(self, waiting: Waiting) -> str:
        """Return the type that would be launched."""
        host = self._hosts.smallest(waiting.nodes[0], waiting.architecture)
        return host.name if host else ""

    def drop(self, instance_id: str) -> None:
        """Forget an instance that is gone."""
        self._hosts.drop(instance_id)

    def settle(self) -> None:
        """Terminate instances that nobody uses."""
        self._hosts.shrink()

    def instances(self) -> list[Instance]:
        """Return the instances that run."""
        return list(self._hosts.instances.values())

    def _instance_arn(self, digits: str) -> str:
        cluster = self.environment.ecs_cluster_arn
        if not cluster:
            return ""
        return f"{cluster.replace(':cluster/', ':container-instance/', 1)}/{digits}"


class OwnHost(Fleet):
    """A host that the user keeps: one instance, on which only the machine is a bound."""

    def __init__(self, environment: ComputeEnvironment, new_hex: NewHex) -> None:
        super().__init__(environment, new_hex)
        self._host: Place | None = None

    def _obstacle(self, waiting: Waiting) -> str:
        return reasons.REQUIREMENT if _is_gang(waiting) else ""

    def put(self, waiting: Waiting) -> tuple[Place, ...]:  # noqa: ARG002 — there is always room
        """Give a job its place."""
        if self._host is None:
            self._host = self._registered()
        return (self._host,)

    def take_back(self, job_id: str) -> None:
        """Do nothing: nothing is taken."""

    def drop(self, instance_id: str) -> None:
        """Forget an instance that is gone."""
        if self._host is not None and self._host.instance_id == instance_id:
            self._host = None

    def _registered(self) -> Place:
        environment = self.environment
        cluster = environment.ecs_cluster_arn
        arn = cluster.replace(":cluster/", ":container-instance/", 1)
        return Place(
            environment.arn,
            environment.name,
            cluster,
            f"i-{self.new_hex(17)}",
            "",
            f"{arn}/{self.new_hex(32)}" if cluster else "",
        )


def _bounds(environment: ComputeEnvironment) -> Bounds:
    resources = environment.resources
    # Managed instances leave the choice to AWS unless they say otherwise.
    names = tuple(resources.get("instanceTypes") or ("default_x86_64",))
    strategy = resources.get("allocationStrategy") or _DEFAULT_STRATEGY
    return Bounds(
        types=host_types(names),
        least=float(resources.get("minvCpus") or 0),
        most=float(resources.get("maxvCpus", _UNBOUNDED)),
        is_strict=strategy == _DEFAULT_STRATEGY and environment.kind == _ON_DEMAND,
        is_ordered=strategy.endswith(("_ORDERED", "_PRIORITIZED")),
    )


def _is_gang(waiting: Waiting) -> bool:
    return len(waiting.nodes) > 1 or waiting.nodes[0].count > 1


def _nodes(waiting: Waiting) -> list[tuple[str, NodeNeed]]:
    needs = [need for need in waiting.nodes for _ in range(need.count)]
    return [(_node_key(waiting.job_id, number), need) for number, need in enumerate(needs)]


def _node_key(job_id: str, number: int) -> str:
    return f"{job_id}#{number}"
