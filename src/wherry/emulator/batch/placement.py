"""Where jobs go: queues in their priority, environments in their order, as far as there is room.

This room decides who starts and where, and says why the others wait. It knows what a job asks for,
never what it does; it has no clock, no thread and no lock of its own, and starts nothing. How much
room there is, is the business of `fleets`; whose turn it is, that of `fairshare`; what is said to
those who wait, that of `reasons` and `snapshots`.

What AWS does not say, and what is done here. A queue whose head waits for room in an environment
keeps queues that come after it (those of lower priority, and those of the same priority that have
not waited as long) from taking room there, so that small jobs do not starve a large one. Queues of
one priority take turns. A disabled queue's jobs go on being started, as the API reference has it.
"""

from __future__ import annotations

import functools
import itertools
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from wherry.emulator.batch import fleets, reasons, snapshots
from wherry.emulator.batch.errors import ClientError
from wherry.emulator.batch.fairshare import Fair, Fifo, Order, vcpus_of
from wherry.emulator.batch.fleets import Fleet
from wherry.emulator.batch.placing import Place, Placed, Waiting
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import (
    ComputeEnvironment,
    ConsumableResource,
    JobQueue,
    SchedulingPolicy,
)
from wherry.emulator.faults import Fault, Faults

_NEVER_BLOCKED = float("inf")
_BEFORE_ALL = -float("inf")


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


_Amounts = tuple[float, float, float]


@dataclass
class _Queue:
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
    blocked: float = _NEVER_BLOCKED
    blocked_job: str = ""

    @property
    def open_fleets(self) -> Iterator[Fleet]:
        return (fleet for fleet in self.fleets if fleet.is_open)


@dataclass(frozen=True)
class _Running:
    waiting: Waiting
    fleet: Fleet
    amounts: _Amounts


class Placement:
    """Decides who starts where; implements `wherry.emulator.batch.placing.Placing`.

    Args:
        catalog: queues, environments, policies and consumable resources.
        machine: what all jobs together may use.
        faults: for jobs that are to be stuck.
        new_hex: makes so many random hexadecimal digits.
    """

    def __init__(
        self,
        catalog: Resources,
        machine: Machine,
        faults: Faults,
        new_hex: Callable[[int], str] | None = None,
    ) -> None:
        self._catalog = catalog
        self._machine = machine
        self._faults = faults
        self._new_hex = new_hex or _random_hex
        self._queues: dict[str, _Queue] = {}
        self._fleets: dict[str, Fleet] = {}
        self._waiting: dict[str, Waiting] = {}
        self._numbers: dict[str, float] = {}
        self._running: dict[str, _Running] = {}
        self._used: _Amounts = (0.0, 0.0, 0.0)
        self._stuck: dict[str, Fault] = {}
        self._obstacles: dict[tuple[object, ...], str] = {}
        self._watch = reasons.Watch()
        self._count = itertools.count(1)
        self._now = 0.0
        self._is_stale = True
        self._is_dirty = True

    # -- who waits --------------------------------------------------------------------------------

    def add(self, waiting: Waiting) -> None:
        """Let a job wait."""
        self.remove(waiting.job_id)
        queue = self._queue(waiting.queue_arn)
        self._now = max(self._now, waiting.since)
        self._waiting[waiting.job_id] = waiting
        number = next(self._count)
        self._numbers[waiting.job_id] = number - 1e15 if waiting.front else number
        queue.order.add(waiting)
        if waiting.front or isinstance(queue.order, Fair):
            queue.moves.note(self._moving(queue, waiting), waiting.since)
        self._is_dirty = True

    def remove(self, job_id: str) -> None:
        """Let it wait no more, because it was ended; unknown ids are ignored."""
        waiting = self._waiting.get(job_id)
        if waiting is None:
            return
        self._leave(waiting)
        self._stuck.pop(job_id, None)
        self._is_dirty = True

    # -- who starts -------------------------------------------------------------------------------

    def place(self, now: float) -> list[Placed]:
        """Take all that can start now out of their queues; each keeps its place until `release`."""
        self._now = max(now, self._now)
        self._refresh()
        self._unstick()
        if not self._is_dirty:
            return []
        self._is_dirty = False
        placed: list[Placed] = []
        claimed: set[str] = set()
        for group in self._by_priority():
            if not self._drain(group, claimed, placed):
                break
        for fleet in self._fleets.values():
            fleet.settle()
        self._look_at_heads()
        return placed

    def release(self, job_id: str, now: float) -> None:
        """Give back the places of a job whose attempt is over; unknown ids are ignored."""
        running = self._running.pop(job_id, None)
        if running is None:
            return
        self._now = max(now, self._now)
        running.fleet.take_back(job_id)
        self._used = _minus(self._used, running.amounts)
        queue = self._queues.get(running.waiting.queue_arn)
        if queue is not None:
            queue.order.ended(job_id, self._now)
        for resource, quantity in self._consumables(running.waiting):
            if resource.type == "REPLENISHABLE":
                resource.in_use = max(0, resource.in_use - quantity)
        self._is_dirty = True

    def restore(self, waiting: Waiting, places: tuple[Place, ...], now: float) -> None:
        """Take note of a job that runs already, after a restart.

        What it has of replenishable resources is counted again; what it took of others was kept
        with the resource.
        """
        self._now = max(now, self._now)
        fleet = self._fleet(places[0].environment_arn)
        if fleet is None:
            return
        fleet.restore(waiting, places)
        self._keep(self._queue(waiting.queue_arn), waiting, fleet)
        for resource, quantity in self._consumables(waiting):
            if resource.type == "REPLENISHABLE":
                resource.in_use += quantity
        self._is_dirty = True

    # -- instances --------------------------------------------------------------------------------

    def on_instance(self, instance_id: str) -> list[str]:
        """Return the ids of jobs that have a place on an instance."""
        found = (fleet.jobs_on(instance_id) for fleet in self._fleets.values())
        return next((jobs for jobs in found if jobs is not None), [])

    def drop_instance(self, instance_id: str) -> None:
        """The instance is gone; its jobs keep their places until they are released."""
        for fleet in self._fleets.values():
            fleet.drop(instance_id)
        self._is_dirty = True

    def instances(self) -> list[Document]:
        """Return what runs where: id, type, environment and jobs of each instance."""
        return [
            {
                "instanceId": instance.id,
                "instanceType": instance.type.name,
                "computeEnvironment": fleet.environment.name,
                "jobs": fleet.jobs_on(instance.id) or [],
            }
            for fleet in self._fleets.values()
            for instance in fleet.instances()
        ]

    # -- what is said -----------------------------------------------------------------------------

    def reasons(self, now: float) -> list[tuple[str, str]]:
        """Return job id and status reason for each job whose reason for waiting has changed."""
        return self._watch.changes(now)

    def overdue(self, now: float) -> list[tuple[str, str]]:
        """Return job id and status reason of each job that a queue's time limit now cancels."""
        return self._watch.overdue((queue.record for queue in self._queues.values()), now)

    def next_due(self, now: float) -> float | None:
        """Return the emulated time at which `reasons` or `overdue` may change by themselves."""
        return self._watch.next_due([queue.record for queue in self._queues.values()], now)

    def snapshot(self, queue_arn: str, now: float) -> Document:
        """Return what GetJobQueueSnapshot answers."""
        self._refresh()
        queue = self._queue(queue_arn)
        front = [
            (waiting, self._since(queue, waiting))
            for waiting in queue.order.first(snapshots.FRONT, now)
        ]
        is_eks = any(fleet.environment.eks for fleet in queue.fleets)
        return snapshots.document(
            front,
            queue.order.usage(),
            now,
            is_fair=isinstance(queue.order, Fair),
            unit="cpu" if is_eks else "VCPU",
        )

    def changed(self) -> None:
        """Queues, environments, policies or consumable resources have changed."""
        self._is_stale = True
        self._is_dirty = True

    # -- one pass ---------------------------------------------------------------------------------

    def _by_priority(self) -> list[list[_Queue]]:
        def rank(queue: _Queue) -> tuple[float, float, str]:
            return (-queue.record.priority, queue.blocked, queue.record.name)

        ranked = sorted(self._queues.values(), key=rank)
        groups = itertools.groupby(ranked, key=lambda queue: queue.record.priority)
        return [list(group) for _, group in groups]

    def _drain(self, group: list[_Queue], claimed: set[str], placed: list[Placed]) -> bool:
        """Start all that can start of queues of one priority, which take turns.

        Returns:
            Whether other queues may go on: not when one waits for the machine.
        """
        for queue in group:
            queue.order.begin(self._now)
        turn = group
        while turn:
            again = []
            for queue in turn:
                head = queue.order.head()
                if head is None or not self._step(queue, head, claimed, placed):
                    continue
                if self._is_blocked_by_machine(queue, head):
                    return False
                again.append(queue)
            turn = again
        return True

    def _step(self, queue: _Queue, head: Waiting, claimed: set[str], placed: list[Placed]) -> bool:
        """Try to start the head of a queue; tells whether the queue may have another turn."""
        if self._why(queue, head):
            queue.order.park(head)
            return True
        if not self._has_consumables(head) or not self._is_allowed(queue, head):
            queue.order.hold(head)
            return True
        if not self._fits_machine(head):
            self._block(queue, head)
            return True
        usable = [fleet for fleet in queue.open_fleets if not self._obstacle(fleet, head)]
        for fleet in usable:
            if fleet.environment.arn in claimed:
                continue
            places = fleet.put(head)
            if places is not None:
                self._start(queue, head, fleet, places, placed)
                return True
        claimed.update(fleet.environment.arn for fleet in usable)
        self._block(queue, head)
        return False

    def _start(
        self,
        queue: _Queue,
        head: Waiting,
        fleet: Fleet,
        places: tuple[Place, ...],
        placed: list[Placed],
    ) -> None:
        fault = self._fault(queue, head)
        if fault is not None:
            fleet.take_back(head.job_id)
            self._stuck[head.job_id] = fault
            queue.order.park(head)
            return
        self._leave(head)
        self._keep(queue, head, fleet)
        for resource, quantity in self._consumables(head):
            resource.in_use += quantity
        queue.blocked, queue.blocked_job = _NEVER_BLOCKED, ""
        placed.append(Placed(head.job_id, places))

    def _block(self, queue: _Queue, head: Waiting) -> None:
        if queue.blocked_job != head.job_id:
            queue.blocked, queue.blocked_job = next(self._count), head.job_id

    def _is_blocked_by_machine(self, queue: _Queue, head: Waiting) -> bool:
        return (
            queue.blocked_job == head.job_id
            and head.job_id in self._waiting
            and not self._fits_machine(head)
        )

    def _fault(self, queue: _Queue, head: Waiting) -> Fault | None:
        struck = self._faults.for_job(
            ("stuck-runnable",), head.job_id, head.job_name, queue.record.name
        )
        return struck[0] if struck else None

    # -- why not ----------------------------------------------------------------------------------

    def _why(self, queue: _Queue, waiting: Waiting) -> str:
        """Return the key of the reason why a job can never start as things are, or nothing."""
        if waiting.job_id in self._stuck:
            return reasons.key_of(self._stuck[waiting.job_id].value)
        fleets = list(queue.open_fleets)
        if not fleets:
            is_invalid = all(fleet.environment.status != "VALID" for fleet in queue.fleets)
            return reasons.INVALID if is_invalid else reasons.UNDETERMINED
        obstacles = {self._obstacle(fleet, waiting) for fleet in fleets}
        if "" not in obstacles:
            ranked = (reasons.MAX_RESOURCE, reasons.REQUIREMENT, reasons.UNSUPPORTED)
            return next(key for key in ranked if key in obstacles)
        if self._machine.hard and not _within(_amounts(waiting), self._bounds):
            return reasons.CAPACITY
        return ""

    def _text(self, queue: _Queue, waiting: Waiting, key: str) -> str:
        fits = (fleet for fleet in queue.open_fleets if not self._obstacle(fleet, waiting))
        types = (fleet.instance_type(waiting) for fleet in fits)
        return reasons.text_of(key, next(filter(None, types), ""))

    def _obstacle(self, fleet: Fleet, waiting: Waiting) -> str:
        shape = (fleet.environment.arn, waiting.nodes, waiting.platforms, waiting.architecture)
        known = self._obstacles.get(shape)
        if known is None:
            known = self._obstacles[shape] = fleet.obstacle(waiting)
        return known

    def _is_allowed(self, queue: _Queue, waiting: Waiting) -> bool:
        # A reservation so large that nothing at all fits beside it would stop the queue for ever.
        used = sum(queue.order.usage().values()) if isinstance(queue.order, Fair) else 0.0
        if not used:
            return True
        most = sum(fleet.most_vcpus for fleet in queue.open_fleets)
        return used + vcpus_of(waiting) <= queue.order.allowance(most)

    def _has_consumables(self, waiting: Waiting) -> bool:
        if not waiting.consumables:
            return True
        found = self._consumables(waiting)
        return len(found) == len(waiting.consumables) and all(
            resource.total - resource.in_use >= quantity for resource, quantity in found
        )

    def _consumables(self, waiting: Waiting) -> list[tuple[ConsumableResource, int]]:
        found = []
        for arn, quantity in waiting.consumables:
            try:
                found.append((self._catalog.consumable(arn), quantity))
            except ClientError:
                continue  # deleted while the job waited: it waits on, as on AWS
        return found

    @functools.cached_property
    def _bounds(self) -> _Amounts:
        machine = self._machine
        bounds = (machine.vcpus, machine.memory_mib, machine.gpus)
        vcpus, memory, gpus = (float("inf") if bound is None else bound for bound in bounds)
        return (vcpus, memory, gpus)

    def _fits_machine(self, waiting: Waiting) -> bool:
        if not self._running:
            return True
        return _within(_plus(self._used, _amounts(waiting)), self._bounds)

    # -- after a pass -----------------------------------------------------------------------------

    def _look_at_heads(self) -> None:
        for arn, queue in self._queues.items():
            head = queue.order.stuck()
            if head is None:
                self._watch.see(arn, "", "", "", self._now)
                continue
            key = self._why(queue, head)
            if not key and self._can_never_have(head):
                key = reasons.UNDETERMINED
            text = self._text(queue, head, key) if key else ""
            self._watch.see(arn, head.job_id, key, text, self._now)

    def _can_never_have(self, waiting: Waiting) -> bool:
        found = self._consumables(waiting)
        return len(found) < len(waiting.consumables) or any(
            quantity > resource.total for resource, quantity in found
        )

    def _unstick(self) -> None:
        """Let go of jobs that were stuck by a fault which has been taken away since.

        A fault that was to strike so many times takes itself away, and those it struck stay stuck.
        """
        if not self._stuck:
            return
        active = {id(fault) for _, fault, _ in self._faults.active()}
        freed = [
            job_id
            for job_id, fault in self._stuck.items()
            if not fault.times and id(fault) not in active
        ]
        for job_id in freed:
            del self._stuck[job_id]
        if freed:
            self._unpark()

    # -- bookkeeping ------------------------------------------------------------------------------

    def _leave(self, waiting: Waiting) -> None:
        queue = self._queues[waiting.queue_arn]
        queue.order.remove(waiting)
        queue.moves.note(self._moving(queue, waiting), self._now)
        self._watch.gone(waiting.queue_arn, waiting.job_id)
        del self._waiting[waiting.job_id], self._numbers[waiting.job_id]

    def _keep(self, queue: _Queue, waiting: Waiting, fleet: Fleet) -> None:
        amounts = _amounts(waiting)
        self._running[waiting.job_id] = _Running(waiting, fleet, amounts)
        self._used = _plus(self._used, amounts)
        queue.order.started(waiting.job_id, waiting.share, vcpus_of(waiting), self._now)

    def _moving(self, queue: _Queue, waiting: Waiting) -> float:
        """Return the number above which jobs move when this one comes or goes."""
        return _BEFORE_ALL if isinstance(queue.order, Fair) else self._numbers[waiting.job_id]

    def _since(self, queue: _Queue, waiting: Waiting) -> float:
        return queue.moves.since(self._numbers[waiting.job_id], waiting.since)

    def _queue(self, arn: str) -> _Queue:
        if arn not in self._queues:
            self._is_stale = True
            self._refresh()
        if arn not in self._queues:
            raise ClientError(f"JobQueue {arn} not found.")
        return self._queues[arn]

    def _fleet(self, arn: str) -> Fleet | None:
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

    def _refresh(self) -> None:
        if not self._is_stale:
            return
        self._is_stale = False
        self._obstacles.clear()
        records = {record.arn: record for record in self._catalog.queues()}
        for arn in [arn for arn in self._queues if arn not in records]:
            self._watch.forget(arn)
            for waiting in [w for w in self._waiting.values() if w.queue_arn == arn]:
                self._leave(waiting)
            del self._queues[arn]
        for arn, record in records.items():
            self._refresh_queue(arn, record)
        self._unpark()

    def _refresh_queue(self, arn: str, record: JobQueue) -> None:
        found = (self._fleet(environment) for environment in record.environments)
        fleets = [fleet for fleet in found if fleet is not None]
        policy = self._policy(record)
        queue = self._queues.get(arn)
        if queue is None:
            order = Fifo() if policy is None else Fair(policy)
            self._queues[arn] = _Queue(record, order, fleets)
            return
        queue.record, queue.fleets = record, fleets
        if policy is not None and isinstance(queue.order, Fair):
            queue.order.set_policy(policy)
        elif (policy is not None) != isinstance(queue.order, Fair):
            queue.order = self._reordered(queue, Fifo() if policy is None else Fair(policy))

    def _reordered(self, queue: _Queue, order: Order) -> Order:
        for waiting in queue.order.first(len(self._waiting), self._now):
            order.add(waiting)
        for job_id, running in self._running.items():
            if running.waiting.queue_arn == queue.record.arn:
                share, vcpus = running.waiting.share, vcpus_of(running.waiting)
                order.started(job_id, share, vcpus, self._now)
        return order

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

    def _unpark(self) -> None:
        for queue in self._queues.values():
            queue.order.unpark()
        self._is_dirty = True


def _random_hex(digits: int) -> str:
    return secrets.token_hex((digits + 1) // 2)[:digits]


def _amounts(waiting: Waiting) -> _Amounts:
    needs = waiting.nodes
    return (
        vcpus_of(waiting),
        sum(need.memory_mib * need.count for need in needs),
        sum(need.gpus * need.count for need in needs),
    )


def _plus(one: _Amounts, other: _Amounts) -> _Amounts:
    return (one[0] + other[0], one[1] + other[1], one[2] + other[2])


def _minus(one: _Amounts, other: _Amounts) -> _Amounts:
    return (one[0] - other[0], one[1] - other[1], one[2] - other[2])


def _within(amounts: _Amounts, bounds: _Amounts) -> bool:
    return all(amount <= bound for amount, bound in zip(amounts, bounds, strict=True))
