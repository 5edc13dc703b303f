"""Where jobs go: queues in their priority, environments in their order, as far as there is room.

This room decides who starts and where, and says why the others wait. It knows what a job asks for,
never what it does; it has no clock, no thread and no lock of its own, and starts nothing. How much
room there is, is the business of `fleets`; whose turn it is, that of `fairshare`; what is said to
those who wait, that of `verdicts`, `reasons` and `snapshots`.

What AWS does not say, and what is done here. A queue whose head waits for room in an environment
keeps queues that come after it (those of lower priority, and those of the same priority that have
not waited as long) from taking room there, so that small jobs do not starve a large one. Queues of
one priority take turns. A disabled queue's jobs go on being started, as the API reference has it.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from wherry.emulator.batch import limits, reasons, snapshots
from wherry.emulator.batch.errors import ClientError
from wherry.emulator.batch.fairshare import vcpus_of
from wherry.emulator.batch.fleets import Fleet
from wherry.emulator.batch.lanes import NEVER, Lane, Lanes, Resources
from wherry.emulator.batch.placing import Placed, Waiting
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import REPLENISHABLE
from wherry.emulator.batch.verdicts import Amounts, Machine, Verdicts, amounts_of, minus, plus
from wherry.emulator.faults import Fault, Faults

__all__ = ["Machine", "Placement", "Resources"]

_BEFORE_ALL = -float("inf")
_FRONT = 10**15
_STUCK = "stuck-runnable"
_ASKED_EVERY = 5.0


@dataclass(frozen=True)
class _Running:
    waiting: Waiting
    fleet: Fleet
    amounts: Amounts


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
        self._faults = faults
        self._lanes = Lanes(catalog, new_hex or _random_hex)
        self._verdicts = Verdicts(catalog, machine)
        self._watch = reasons.Watch()
        self._waiting: dict[str, Waiting] = {}
        self._numbers: dict[str, float] = {}
        self._running: dict[str, _Running] = {}
        self._used: Amounts = (0.0, 0.0, 0.0)
        self._stuck: dict[str, Fault] = {}
        self._count = itertools.count(1)
        self._now = 0.0
        self._is_stale = True
        self._is_dirty = True

    # -- who waits --------------------------------------------------------------------------------

    def add(self, waiting: Waiting) -> None:
        """Let a job wait."""
        self.remove(waiting.job_id)
        lane = self._lane(waiting.queue_arn)
        self._now = max(self._now, waiting.since)
        self._waiting[waiting.job_id] = waiting
        number = next(self._count)
        self._numbers[waiting.job_id] = number - _FRONT if waiting.front else number
        lane.order.add(waiting)
        if waiting.front or lane.is_fair:
            lane.moves.note(self._moving(lane, waiting), waiting.since)
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
        for group in self._lanes.by_priority():
            if not self._drain(group, claimed, placed):
                break
        for fleet in self._lanes.fleets:
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
        self._used = minus(self._used, running.amounts)
        lane = self._lanes.get(running.waiting.queue_arn)
        if lane is not None:
            lane.order.ended(job_id, self._now)
        for resource, quantity in self._verdicts.consumables(running.waiting):
            if resource.type == REPLENISHABLE:
                resource.in_use = max(0, resource.in_use - quantity)
        self._is_dirty = True

    # -- instances --------------------------------------------------------------------------------

    def drop_instance(self, instance_id: str) -> None:
        """The instance is gone; its jobs keep their places until they are released."""
        for fleet in self._lanes.fleets:
            fleet.drop(instance_id)
        self._is_dirty = True

    def instances(self) -> list[Document]:
        """Return what runs where: id, type, environment and jobs of each instance."""
        return [
            {
                "instanceId": instance.id,
                "instanceType": instance.type.name,
                "computeEnvironment": fleet.environment.name,
                "jobs": instance.job_ids,
            }
            for fleet in self._lanes.fleets
            for instance in fleet.instances()
        ]

    # -- what is said -----------------------------------------------------------------------------

    def reasons(self, now: float) -> list[tuple[str, str]]:
        """Return job id and status reason for each job whose reason for waiting has changed."""
        return self._watch.changes(now)

    def overdue(self, now: float) -> list[tuple[str, str]]:
        """Return job id and status reason of each job that a queue's time limit now cancels."""
        return self._watch.overdue((lane.record for lane in self._lanes), now)

    def next_due(self, now: float) -> float | None:
        """Return the emulated time at which `reasons` or `overdue` may change by themselves.

        While a fault keeps a job, that is soon: faults do not say when they are taken away.
        """
        due = self._watch.next_due([lane.record for lane in self._lanes], now)
        if any(not fault.times for fault in self._stuck.values()):
            soon = now + _ASKED_EVERY
            return soon if due is None else min(due, soon)
        return due

    def snapshot(self, queue_arn: str, now: float) -> Document:
        """Return what GetJobQueueSnapshot answers."""
        self._refresh()
        lane = self._lane(queue_arn)
        front = [
            (waiting, lane.moves.since(self._numbers[waiting.job_id], waiting.since))
            for waiting in lane.order.first(limits.SNAPSHOT_JOBS, now)
        ]
        is_eks = any(fleet.environment.eks for fleet in lane.fleets)
        unit = "cpu" if is_eks else "VCPU"
        return snapshots.document(front, lane.order.usage(), now, is_fair=lane.is_fair, unit=unit)

    def changed(self) -> None:
        """Queues, environments, policies or consumable resources have changed."""
        self._is_stale = True
        self._is_dirty = True

    # -- one pass ---------------------------------------------------------------------------------

    def _drain(self, group: list[Lane], claimed: set[str], placed: list[Placed]) -> bool:
        """Start all that can start of queues of one priority, which take turns.

        Returns:
            Whether other queues may go on: not when one waits for the machine.
        """
        for lane in group:
            lane.order.begin(self._now)
        turn = group
        while turn:
            again = []
            for lane in turn:
                head = lane.order.head()
                if head is None:
                    continue
                if not self._is_held_back(lane, head):
                    if not self._has_machine_for(head):
                        self._block(lane, head)
                        return False
                    if not self._has_started(lane, head, claimed, placed):
                        self._block(lane, head)
                        continue
                again.append(lane)
            turn = again
        return True

    def _is_held_back(self, lane: Lane, head: Waiting) -> bool:
        """Take the head of a queue out of the pass when it is not room that it lacks."""
        if self._why(lane, head):
            lane.order.park(head)
        elif self._verdicts.lacks_consumables(head) or self._verdicts.is_reserved(lane, head):
            lane.order.hold(head)
        else:
            return False
        return True

    def _has_machine_for(self, waiting: Waiting) -> bool:
        return not self._running or self._verdicts.fits_machine(waiting, self._used)

    def _has_started(
        self, lane: Lane, head: Waiting, claimed: set[str], placed: list[Placed]
    ) -> bool:
        """Start the head of a queue where there is room; else claim the room that comes free."""
        usable = list(self._verdicts.usable(lane, head))
        for fleet in usable:
            if fleet.environment.arn in claimed:
                continue
            places = fleet.put(head)
            if places is not None:
                if not self._is_struck(lane, head, fleet):
                    self._start(lane, head, fleet)
                    placed.append(Placed(head.job_id, places))
                return True
        claimed.update(fleet.environment.arn for fleet in usable)
        return False

    def _is_struck(self, lane: Lane, head: Waiting, fleet: Fleet) -> bool:
        """Keep a job that could start, if a fault says so."""
        struck = self._faults.for_job((_STUCK,), head.job_id, head.job_name, lane.record.name)
        if struck:
            fleet.take_back(head.job_id)
            self._stuck[head.job_id] = struck[0]
            lane.order.park(head)
        return bool(struck)

    def _start(self, lane: Lane, head: Waiting, fleet: Fleet) -> None:
        self._leave(head)
        self._keep(lane, head, fleet)
        for resource, quantity in self._verdicts.consumables(head):
            resource.in_use += quantity
            if resource.type != REPLENISHABLE:
                self._catalog.keep(resource)  # what is gone is gone after a restart, too
        lane.blocked, lane.blocked_job = NEVER, ""

    def _block(self, lane: Lane, head: Waiting) -> None:
        if lane.blocked_job != head.job_id:
            lane.blocked, lane.blocked_job = next(self._count), head.job_id

    def _why(self, lane: Lane, waiting: Waiting) -> str:
        """Return the key of the reason why a job is stuck, or nothing."""
        fault = self._stuck.get(waiting.job_id)
        return reasons.key_of(fault.value) if fault else self._verdicts.never(lane, waiting)

    def _look_at_heads(self) -> None:
        for lane in self._lanes:
            arn, head = lane.record.arn, lane.order.stuck()
            if head is None:
                self._watch.see(arn, "", "", "", self._now)
                continue
            key = self._why(lane, head)
            if not key and self._verdicts.can_never_consume(head):
                key = reasons.UNDETERMINED
            text = self._verdicts.text(lane, head, key) if key else ""
            self._watch.see(arn, head.job_id, key, text, self._now)

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
        lane = self._lanes.get(waiting.queue_arn)
        if lane is not None:
            lane.order.remove(waiting)
            lane.moves.note(self._moving(lane, waiting), self._now)
        self._watch.gone(waiting.queue_arn, waiting.job_id)
        del self._waiting[waiting.job_id], self._numbers[waiting.job_id]

    def _keep(self, lane: Lane, waiting: Waiting, fleet: Fleet) -> None:
        amounts = amounts_of(waiting)
        self._running[waiting.job_id] = _Running(waiting, fleet, amounts)
        self._used = plus(self._used, amounts)
        lane.order.started(waiting.job_id, waiting.share, vcpus_of(waiting), self._now)

    def _moving(self, lane: Lane, waiting: Waiting) -> float:
        """Return the number above which jobs move when this one comes or goes."""
        return _BEFORE_ALL if lane.is_fair else self._numbers[waiting.job_id]

    def _lane(self, arn: str) -> Lane:
        if self._lanes.get(arn) is None:
            self.changed()
            self._refresh()
        lane = self._lanes.get(arn)
        if lane is None:
            raise ClientError(f"JobQueue {arn} not found.")
        return lane

    def _refresh(self) -> None:
        if not self._is_stale:
            return
        self._is_stale = False
        self._verdicts.forget()
        for lane in self._lanes.vanished():
            for waiting in list(lane.order.everybody()):
                self._leave(waiting)
            self._watch.forget(lane.record.arn)
            self._lanes.drop(lane)
        for lane in self._lanes.refresh():
            for job_id, running in self._running.items():
                if running.waiting.queue_arn == lane.record.arn:
                    share, vcpus = running.waiting.share, vcpus_of(running.waiting)
                    lane.order.started(job_id, share, vcpus, self._now)
        self._unpark()

    def _unpark(self) -> None:
        for lane in self._lanes:
            lane.order.unpark()
        self._is_dirty = True


def _random_hex(digits: int) -> str:
    return secrets.token_hex((digits + 1) // 2)[:digits]
