"""How an app's replicas are started, retried and stopped: together (a gang) or each by itself.

Both kinds answer the same calls of the supervisor: `begin`, `stop` and `over`.
"""

from __future__ import annotations

import gc
from collections import deque

from wherry.engine.slots import Grant
from wherry.engine.spawn import StartError
from wherry.schedulers.local.replica import (
    CANCELLED,
    FAILED,
    RUNNING,
    STARTING,
    SUCCEEDED,
    WAITING,
    Replica,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from wherry.engine.slots import Slots
    from wherry.schedulers.local.replica import Stage

    Report = Callable[[Replica], None]

_NOT_STARTED = "never started"


class Launch:
    """What gangs and arrays have in common.

    Args:
        stage: what replicas need.
        slots: the machine's cores and GPUs.
        on_start, on_end: told of each attempt.
        on_queue: told of each replica that waits for another attempt.
        on_wait: told why nothing can start at present.
        on_restart: told why the whole app starts again.

    Attributes:
        failure: the replica whose failure came first, of those that were not retried.
        launch_error: why the app as a whole could not be started.
        taking_off: whether it is still open whether the app as a whole can be started.
    """

    def __init__(
        self,
        stage: Stage,
        slots: Slots,
        on_start: Report,
        on_end: Report,
        on_queue: Report,
        on_wait: Callable[[str], None],
        on_restart: Callable[[str], None],
    ) -> None:
        self.stage = stage
        self.slots = slots
        self.on_start = on_start
        self.on_end = on_end
        self.on_queue = on_queue
        self.on_wait = on_wait
        self.on_restart = on_restart
        self.stopping = ""
        self.failure: Replica | None = None
        self.replicas = [
            Replica(role, index)
            for role in stage.plan["roles"]
            for index in range(role["replicas"])
        ]
        self.running = 0
        self.launch_error = ""
        self.taking_off = False

    def begin(self) -> None:
        """Start what can be started now; called again when a slot may have become free."""
        raise NotImplementedError

    def after(self, replica: Replica) -> None:
        """Decide what follows from the end of an attempt."""
        raise NotImplementedError

    @property
    def waiting_for_slots(self) -> bool:
        """Whether something would start if cores or GPUs were free."""
        raise NotImplementedError

    def stop(self, why: str, grace: float) -> None:
        """End everything as cancelled."""
        self.stopping = self.stopping or why
        self.slots.give_up()
        for replica in self.replicas:
            if replica.state == WAITING:
                replica.cancel_waiting(why)
            replica.stop(why, grace, state=CANCELLED)

    @property
    def over(self) -> bool:
        """Whether nothing runs and nothing will."""
        return not self.running and all(
            replica.state not in (WAITING, STARTING, RUNNING) for replica in self.replicas
        )

    def start(self, replica: Replica, grant: Grant) -> str:
        """Start one replica's next attempt; returns what went wrong, or nothing."""
        return self.prepare(replica, grant) or self.set_off(replica) or self.confirm(replica)

    def prepare(self, replica: Replica, grant: Grant) -> str:
        """Make one replica ready to start; returns what went wrong, or nothing."""
        try:
            replica.prepare(self.stage, grant, self.attempt_ended)
        except OSError as error:
            return replica.not_started(f"could not start {replica.name}: {error.strerror}", None)
        return ""

    def set_off(self, replica: Replica) -> str:
        """Begin to start one replica; returns what went wrong, or nothing."""
        try:
            replica.set_off(self.stage)
        except StartError as error:
            return replica.not_started(str(error), error.exit_code)
        return ""

    def confirm(self, replica: Replica) -> str:
        """Wait until a replica runs; returns what went wrong, or nothing."""
        try:
            replica.confirm(self.stage)
        except StartError as error:
            return replica.not_started(str(error), error.exit_code)
        self.running += 1
        self.on_start(replica)
        return ""

    def fly(self, crew: Sequence[tuple[Replica, Grant]]) -> None:
        """Start replicas in containers; what becomes of them is told by and by."""
        from wherry.schedulers.local.flight import Flight

        Flight(self, crew, self.after_lost_start, self.after_landing).begin()

    def after_lost_start(self, replica: Replica) -> None:
        """Decide what follows when a container could not be started."""
        raise NotImplementedError

    def after_landing(self) -> None:
        """Take note that all containers that were starting run now, or do not."""

    def attempt_ended(self, replica: Replica) -> None:
        """Take note that an attempt is over."""
        self.running -= 1
        self.on_end(replica)
        self.after(replica)


class ArrayLaunch(Launch):
    """Independent replicas: they queue for the machine's cores, fail and are retried one by one."""

    def __init__(self, stage: Stage, slots: Slots, *reports: Any) -> None:
        super().__init__(stage, slots, *reports)
        self._queue = deque(self.replicas)
        self._most = stage.plan["max_parallel"] or len(self.replicas)
        self._left = len(self.replicas)

    @property
    def waiting_for_slots(self) -> bool:
        """Whether replicas are queued that `max_parallel` would let start."""
        return bool(self._queue) and self.running < self._most

    @property
    def over(self) -> bool:
        """Whether every replica has ended for good."""
        return self._left == 0

    def begin(self) -> None:
        """Start queued replicas as far as cores, GPUs and `max_parallel` go."""
        while self._queue and self.running < self._most:
            role = self._queue[0].role
            grant = self.slots.acquire(role["cores"], role["gpus"])
            if grant is None:
                if not self.running:
                    self.on_wait(f"waits for {_ask(role['cores'], role['gpus'])} of this machine")
                return
            replica = self._queue.popleft()
            if replica.in_container:
                self.fly([(replica, grant)])
            elif self.start(replica, grant):
                self.on_end(replica)
                self._settle(replica)

    def stop(self, why: str, grace: float) -> None:
        """Empty the queue and end what runs."""
        self._left -= len(self._queue)
        self._queue.clear()
        super().stop(why, grace)

    def after(self, replica: Replica) -> None:
        """Queue a failed replica again, first in line, if it has a retry left."""
        failed = replica.state == FAILED
        if failed and replica.number <= replica.role["retries"] and replica.may_retry():
            replica.state = WAITING
            self._queue.appendleft(replica)
            self.on_queue(replica)
        else:
            self._settle(replica)
        if not self.stopping:
            self.begin()

    def after_lost_start(self, replica: Replica) -> None:
        """Count it as failed, and start another."""
        self._settle(replica)
        if not self.stopping:
            self.begin()

    def _settle(self, replica: Replica) -> None:
        self._left -= 1
        if replica.state == FAILED and self.failure is None:
            self.failure = replica


class GangLaunch(Launch):
    """Replicas that start together; one failure ends all, unless a retry or spare ones are left."""

    def __init__(self, stage: Stage, slots: Slots, *reports: Any) -> None:
        super().__init__(stage, slots, *reports)
        self._round = 0
        self._restarting = ""
        self._begun = False
        self._alone: list[Replica] = []

    @property
    def waiting_for_slots(self) -> bool:
        """Whether GPUs that the gang needs are in use by other apps."""
        return not self.stopping and (not self._begun or bool(self._alone))

    def begin(self) -> None:
        """Start every replica, or none: a start that fails takes the others with it."""
        if self.stopping:
            return
        if not self._begun:
            self._begin_together()
        else:
            self._begin_alone()

    def stop(self, why: str, grace: float) -> None:
        """End every replica."""
        self._alone.clear()
        super().stop(why, grace)

    def _begin_together(self) -> None:
        grants = self._grants()
        if grants is None:
            return
        self._begun = True
        if any(replica.in_container for replica in self.replicas):
            self.taking_off = True
            self.fly(list(zip(self.replicas, grants, strict=True)))
            return
        for replica, grant in zip(self.replicas, grants, strict=True):
            self._note(replica, self.prepare(replica, grant))
        # Nothing but forks between the first and the last: every page that is written to after a
        # fork is copied. And none is waited for before all have set off.
        gc.disable()
        for step in (self.set_off, self.confirm):
            for replica in self.replicas:
                if replica.state == WAITING and not self.launch_error:
                    self._note(replica, step(replica))
        gc.enable()
        if self.failure is not None:
            self._abandon_waiting()
            self._fail(self.failure, at_once=True)

    def _abandon_waiting(self) -> None:
        """Let go of the replicas that were made ready and will not be confirmed."""
        for replica in self.replicas:
            if replica.state == WAITING:
                if replica.attempt is not None and replica.attempt.pid:  # it has been set off
                    self.confirm(replica)
                else:
                    replica.abandon(_NOT_STARTED)

    def _note(self, replica: Replica, problem: str) -> None:
        if problem:
            self.on_end(replica)
            self.launch_error = self.launch_error or problem
            self.failure = self.failure or replica

    def _begin_alone(self) -> None:
        while self._alone and not self.failure:
            replica = self._alone[0]
            grant = self.slots.acquire(0, replica.role["gpus"])
            if grant is None:
                return
            self._alone.pop(0)
            if replica.in_container:
                self.fly([(replica, grant)])
            elif self.start(replica, grant):
                self.on_end(replica)
                self._fail(replica)

    def after_lost_start(self, replica: Replica) -> None:
        """End all, unless this one was stopped because of another."""
        if replica.state == FAILED and self.failure is None:
            if self.taking_off:
                self.launch_error = f"{replica.name} {replica.why}"
            self._fail(replica, at_once=True)
        self._restart_if_all_ended()

    def after_landing(self) -> None:
        """Let the client hear how the launch went."""
        self.taking_off = False

    def after(self, replica: Replica) -> None:
        """Decide between going on, starting again, and ending all."""
        if replica.state == FAILED and not self._restarting and not self.failure:
            self._after_failure(replica)
        self._restart_if_all_ended()

    def _restart_if_all_ended(self) -> None:
        if self._restarting and not self.running and not self.stopping:
            self._restart()

    def _after_failure(self, replica: Replica) -> None:
        role = replica.role
        retryable = replica.may_retry() and not self.stopping
        if retryable and role["retry_alone"] and replica.number <= role["retries"]:
            replica.state = WAITING
            self._alone.append(replica)
            self.on_queue(replica)
            self._begin_alone()
        elif retryable and not role["retry_alone"] and self._round < role["retries"]:
            self._restarting = f"{replica.name} {replica.why}"
            why = f"started again with the app: {self._restarting}"
            self._stop_others(why, self.stage.plan["grace"])
        elif not self._can_spare(replica):
            self._fail(replica)

    def _restart(self) -> None:
        self._round += 1
        self.on_restart(self._restarting)
        self._restarting = ""
        self._begun = False
        for replica in self.replicas:
            replica.state = WAITING
        self.begin()

    def _can_spare(self, failed: Replica) -> bool:
        """Tell whether the role still has its `min_replicas` (elastic gangs)."""
        mates = [replica for replica in self.replicas if replica.role is failed.role]
        alive = (WAITING, STARTING, RUNNING, SUCCEEDED)
        good = sum(replica.state in alive for replica in mates)
        return good >= failed.role["min_replicas"] and not failed.stopped_as

    def _fail(self, replica: Replica, *, at_once: bool = False) -> None:
        self.failure = replica
        for other in self._alone:
            other.cancel_waiting(_NOT_STARTED)
        self._alone.clear()
        why = f"stopped because {replica.name} failed"
        self._stop_others(why, grace=0 if at_once else self.stage.plan["grace"])

    def _stop_others(self, why: str, grace: float) -> None:
        for replica in self.replicas:
            replica.stop(why, grace, state=CANCELLED)

    def _grants(self) -> list[Grant] | None:
        """Take the GPUs of the whole gang at once; its cores are not counted."""
        wanted = sum(replica.role["gpus"] for replica in self.replicas)
        grant = self.slots.acquire(0, wanted)
        if grant is None:
            self.on_wait(f"waits for {_ask(0, wanted)} of this machine")
            return None
        shares = [Grant(self.slots.folder) for _ in self.replicas]
        for replica, share in zip(self.replicas, shares, strict=True):
            share.take(grant, replica.role["gpus"])
        return shares


def _ask(cores: int, gpus: int) -> str:
    words = [
        f"{count} {noun}{'s' if count > 1 else ''}"
        for count, noun in ((cores, "core"), (gpus, "GPU"))
        if count
    ]
    return " and ".join(words)
