"""Why a job does not start: for ever, for now, or not at all.

Everything here is a question about one job, answered from the state of fleets, of the machine and
of consumable resources; nothing is changed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from wherry.emulator.batch import reasons
from wherry.emulator.batch.errors import ClientError
from wherry.emulator.batch.fairshare import vcpus_of
from wherry.emulator.batch.fleets import Fleet
from wherry.emulator.batch.lanes import Lane, Resources
from wherry.emulator.batch.placing import Waiting
from wherry.emulator.batch.records import ConsumableResource

Amounts = tuple[float, float, float]
"""Virtual CPUs, MiB, GPUs."""

_RANKED = (reasons.MAX_RESOURCE, reasons.REQUIREMENT, reasons.UNSUPPORTED)
"""When environments differ in why a job cannot run there, the one closest to a fit is named."""


@dataclass(frozen=True)
class Machine:
    """What this machine gives to jobs at once.

    Attributes:
        vcpus, memory_mib, gpus: ``None`` is no bound.
        hard: whether a job that is larger than this never starts; else it runs alone.
    """

    vcpus: float | None = None
    memory_mib: int | None = None
    gpus: int | None = None
    hard: bool = False

    @functools.cached_property
    def bounds(self) -> Amounts:
        """The bounds as numbers."""
        given = (self.vcpus, self.memory_mib, self.gpus)
        vcpus, memory, gpus = (float("inf") if bound is None else bound for bound in given)
        return (vcpus, memory, gpus)


class Verdicts:
    """Answers for one machine and one catalog.

    Args:
        catalog: has the consumable resources.
        machine: what all jobs together may use.
    """

    def __init__(self, catalog: Resources, machine: Machine) -> None:
        self._catalog = catalog
        self._machine = machine
        self._obstacles: dict[tuple[object, ...], str] = {}

    def forget(self) -> None:
        """Environments have changed."""
        self._obstacles.clear()

    def never(self, lane: Lane, waiting: Waiting) -> str:
        """Return the key of the reason why a job can never start as things are, or nothing."""
        fleets = list(lane.open_fleets)
        if not fleets:
            is_invalid = all(fleet.environment.status != "VALID" for fleet in lane.fleets)
            return reasons.INVALID if is_invalid else reasons.UNDETERMINED
        obstacles = {self.obstacle(fleet, waiting) for fleet in fleets}
        if "" not in obstacles:
            return next(key for key in _RANKED if key in obstacles)
        if self._machine.hard and not _within(amounts_of(waiting), self._machine.bounds):
            return reasons.CAPACITY
        return ""

    def text(self, lane: Lane, waiting: Waiting, key: str) -> str:
        """Return what is said of a reason; one of them names a type of instance."""
        types = (fleet.instance_type(waiting) for fleet in self.usable(lane, waiting))
        return reasons.text_of(key, next(filter(None, types), ""))

    def usable(self, lane: Lane, waiting: Waiting) -> Iterator[Fleet]:
        """Return the fleets of a queue in which a job can run, room or no room."""
        return (fleet for fleet in lane.open_fleets if not self.obstacle(fleet, waiting))

    def obstacle(self, fleet: Fleet, waiting: Waiting) -> str:
        """Return the key of the reason why a job can never run in a fleet, or nothing."""
        shape = (fleet.environment.arn, waiting.nodes, waiting.platforms, waiting.architecture)
        known = self._obstacles.get(shape)
        if known is None:
            known = self._obstacles[shape] = fleet.obstacle(waiting)
        return known

    def is_reserved(self, lane: Lane, waiting: Waiting) -> bool:
        """Tell whether a reservation of the policy keeps a job from starting.

        One so large that nothing at all fits beside it would stop the queue for ever; so a queue
        of which nothing runs is let through.
        """
        if not lane.is_fair:
            return False
        used = sum(lane.order.usage().values())
        most = sum(fleet.most_vcpus for fleet in lane.open_fleets)
        return bool(used) and used + vcpus_of(waiting) > lane.order.allowance(most)

    def lacks_consumables(self, waiting: Waiting) -> bool:
        """Tell whether a consumable resource that a job asks for is not free."""
        if not waiting.consumables:
            return False
        found = self.consumables(waiting)
        return len(found) < len(waiting.consumables) or any(
            resource.total - resource.in_use < quantity for resource, quantity in found
        )

    def can_never_consume(self, waiting: Waiting) -> bool:
        """Tell whether there is less of a consumable resource than a job asks for."""
        found = self.consumables(waiting)
        return len(found) < len(waiting.consumables) or any(
            quantity > resource.total for resource, quantity in found
        )

    def consumables(self, waiting: Waiting) -> list[tuple[ConsumableResource, int]]:
        """Return the consumable resources that a job asks for, as far as they exist."""
        found = []
        for arn, quantity in waiting.consumables:
            try:
                found.append((self._catalog.consumable(arn), quantity))
            except ClientError:
                continue  # deleted while the job waited: it waits on
        return found

    def fits_machine(self, waiting: Waiting, used: Amounts) -> bool:
        """Tell whether the machine has room for a job beside what is used."""
        return _within(plus(used, amounts_of(waiting)), self._machine.bounds)


def amounts_of(waiting: Waiting) -> Amounts:
    """Return what all nodes of a job ask for together."""
    needs = waiting.nodes
    return (
        vcpus_of(waiting),
        sum(need.memory_mib * need.count for need in needs),
        sum(need.gpus * need.count for need in needs),
    )


def plus(one: Amounts, other: Amounts) -> Amounts:
    """Return the sum of two amounts."""
    return (one[0] + other[0], one[1] + other[1], one[2] + other[2])


def minus(one: Amounts, other: Amounts) -> Amounts:
    """Return the difference of two amounts."""
    return (one[0] - other[0], one[1] - other[1], one[2] - other[2])


def _within(amounts: Amounts, bounds: Amounts) -> bool:
    return all(amount <= bound for amount, bound in zip(amounts, bounds, strict=True))
