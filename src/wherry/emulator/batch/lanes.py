"""Queues with those who wait in them, and the fleets that they lead to, kept up with the catalog.

This module holds what there is; who starts is decided in `placement`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from wherry.emulator.batch import fleets, snapshots
from wherry.emulator.batch.errors import ClientError
from wherry.emulator.batch.fairshare import Fair, Fifo, Order
from wherry.emulator.batch.fleets import Fleet
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import (
    ComputeEnvironment,
    ConsumableResource,
    JobQueue,
    SchedulingPolicy,
)

NEVER = float("inf")
"""When the head of a queue was blocked that never was."""


class Resources(Protocol):
    """The part of the catalog that placing jobs needs; what is not there raises `ClientError`."""

    def queues(self) -> Iterable[JobQueue]:
        """Return all queues."""

    def environment(self, ref: str) -> ComputeEnvironment:
        """Return a compute environment by its ARN."""

    def policy(self, arn: str) -> SchedulingPolicy:
        """Return a scheduling policy by its ARN."""

    def consumable(self, ref: str) -> ConsumableResource:
        """Return a consumable resource by its ARN."""

    def keep(self, record: ConsumableResource) -> None:
        """Take note that a record has changed."""


@dataclass(eq=False)
class Lane:
    """One queue, and who waits in it.

    Attributes:
        record: the queue as the API has it.
        order: whose turn it is.
        fleets: of its environments, in their order.
        moves: when jobs came to their places.
        blocked: when its head was first found without room, as a number that grows.
        blocked_job: that head.
    """

    record: JobQueue
    order: Order
    fleets: list[Fleet]
    moves: snapshots.Moves = field(default_factory=snapshots.Moves)
    blocked: float = NEVER
    blocked_job: str = ""

    @property
    def open_fleets(self) -> Iterator[Fleet]:
        """The fleets that take jobs now."""
        return (fleet for fleet in self.fleets if fleet.is_open)

    @property
    def is_fair(self) -> bool:
        """Whether it has a fair-share policy."""
        return isinstance(self.order, Fair)


class Lanes:
    """All queues and all fleets.

    Args:
        catalog: what there is.
        new_hex: makes so many random hexadecimal digits.
    """

    def __init__(self, catalog: Resources, new_hex: Callable[[int], str]) -> None:
        self._catalog = catalog
        self._new_hex = new_hex
        self._lanes: dict[str, Lane] = {}
        self._fleets: dict[str, Fleet] = {}

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._lanes.values())

    def get(self, arn: str) -> Lane | None:
        """Return a queue by its ARN."""
        return self._lanes.get(arn)

    @property
    def fleets(self) -> Iterable[Fleet]:
        """The fleets of all environments that queues have led to."""
        return self._fleets.values()

    def by_priority(self) -> list[list[Lane]]:
        """Return the queues of each priority, highest first; those that wait longest first."""

        def rank(lane: Lane) -> tuple[float, float, str]:
            return (-lane.record.priority, lane.blocked, lane.record.name)

        groups = itertools.groupby(sorted(self, key=rank), key=lambda lane: lane.record.priority)
        return [list(group) for _, group in groups]

    def vanished(self) -> list[Lane]:
        """Return the queues that the catalog has no more."""
        present = {record.arn for record in self._catalog.queues()}
        return [lane for arn, lane in self._lanes.items() if arn not in present]

    def drop(self, lane: Lane) -> None:
        """Forget a queue."""
        del self._lanes[lane.record.arn]

    def refresh(self) -> list[Lane]:
        """Take note of queues, environments and policies as they are now.

        Returns:
            Queues whose order is another one now; they have lost who runs for them.
        """
        changed = []
        for record in self._catalog.queues():
            found = (self.fleet(arn) for arn in record.environments)
            fleets_ = [fleet for fleet in found if fleet is not None]
            policy = self._policy(record)
            lane = self._lanes.get(record.arn)
            if lane is None:
                self._lanes[record.arn] = Lane(record, _order(policy), fleets_)
                continue
            lane.record, lane.fleets = record, fleets_
            if policy is not None and isinstance(lane.order, Fair):
                lane.order.set_policy(policy)
            elif lane.is_fair != (policy is not None):
                changed.append(_reorder(lane, _order(policy)))
        return changed

    def fleet(self, arn: str) -> Fleet | None:
        """Return the fleet of an environment, as the environment is now."""
        try:
            environment = self._catalog.environment(arn)
        except ClientError:
            return None
        fleet = self._fleets.get(arn)
        if fleet is None or not fleets.is_of(fleet, environment):
            fleet = self._fleets[arn] = fleets.fleet_of(environment, self._new_hex)
        fleet.refresh(environment)
        return fleet

    def _policy(self, record: JobQueue) -> Document | None:
        """Return the fair-share policy of a queue; nothing when it has none."""
        if not record.scheduling_policy_arn:
            return None
        try:
            document = self._catalog.policy(record.scheduling_policy_arn).document
        except ClientError:
            return None
        policy: Document | None = document.get("fairsharePolicy")
        return policy


def _order(policy: Document | None) -> Order:
    return Fifo() if policy is None else Fair(policy)


def _reorder(lane: Lane, order: Order) -> Lane:
    for waiting in lane.order.everybody():
        order.add(waiting)
    lane.order = order
    return lane
