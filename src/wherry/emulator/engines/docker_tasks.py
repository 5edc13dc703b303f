"""One task in the Engine: which of its containers may start, and what happens when one ends.

A state machine without threads, clocks or Docker: it is told what happened and says what to do
through `Hands`. It follows ECS: a container waits for those that it depends on, the end of an
essential one ends the others, those that depend on others are stopped before them
(https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_ContainerDependency.html). In a pod,
nobody's end ends the others.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from functools import partial
from typing import Protocol

from wherry.emulator.engines.api import (
    ESSENTIAL_EXITED,
    FAILED_TO_START,
    OUT_OF_MEMORY,
    Container,
    ContainerEnd,
    Task,
    TaskEnded,
    TaskEvent,
    TaskStarted,
)
from wherry.emulator.engines.docker_reasons import CREATE


class State(enum.Enum):
    """How far a container is."""

    WAITING = enum.auto()
    PULLING = enum.auto()
    LAUNCHING = enum.auto()
    RUNNING = enum.auto()
    ENDED = enum.auto()


class Box:
    """What is known of one container.

    Attributes:
        spec: what it is to be.
        state: how far it is.
        id: Docker's, once created.
        ran: whether it ever ran.
        exit_code: the program's, once it died.
        reason: ECS's words, where there are any.
        died: whether the Engine has reported its end.
        output_ended: whether all its output was handed on.
        was_pulled: whether its image was pulled for it.
        signalled: whether it was asked to stop.
        killed: whether it was sent SIGKILL.
        starved: whether the kernel killed one of its processes for want of memory.
        unwanted: set when it is not to be started any more; read by the thread that starts it.
    """

    def __init__(self, spec: Container) -> None:
        self.spec = spec
        self.state = State.WAITING
        self.id = ""
        self.ran = False
        self.exit_code: int | None = None
        self.reason = ""
        self.died = False
        self.output_ended = False
        self.was_pulled = False
        self.signalled = False
        self.killed = False
        self.starved = False
        self.unwanted = threading.Event()

    def end(self) -> ContainerEnd:
        """Return how it ended."""
        return ContainerEnd(self.exit_code, self.reason)


class Hands(Protocol):
    """Does what a task decides. Nothing here blocks, and nothing calls back at once."""

    def hold(self, run: Run) -> None:
        """Start the holder; `Run.held` or `Run.not_held` follows."""

    def launch(self, run: Run, box: Box) -> None:
        """Create and start a container.

        `Run.created` and `Run.started` follow, or `Run.not_started`, or `Run.needs_image`.
        """

    def pull(self, run: Run, box: Box) -> None:
        """Pull a container's image; `Run.pulled` follows."""

    def signal(self, run: Run, box: Box, *, kill: bool) -> None:
        """Send the signal that asks it to stop, or SIGKILL."""

    def finish_output(self, run: Run, box: Box) -> None:
        """Say that a container's output is over."""

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Call an action after so many seconds."""

    def emit(self, event: TaskEvent) -> None:
        """Tell the listener."""

    def clear_away(self, run: Run) -> None:
        """Remove all that the task has in the Engine."""


class Run:
    """One task. All methods are called from one thread.

    Args:
        task: what to run.
        hands: do it.
    """

    def __init__(self, task: Task, hands: Hands) -> None:
        self.task = task
        self.boxes = {spec.name: Box(spec) for spec in task.containers}
        self.holder = ""
        self.holding = False
        self.over = False
        self._hands = hands
        self._announced = False
        self._reason = ""
        self._lost = ""
        self._grace: float | None = None
        self._due = False

    @property
    def shares_namespaces(self) -> bool:
        """Whether a holder is needed."""
        shared = "task" in (self.task.pid_mode, self.task.ipc_mode)
        return len(self.boxes) > 1 and (shared or not self.task.host_network)

    # What the control plane wants.

    def begin(self) -> None:
        """Start what depends on nothing."""
        if self.task.start_fault:
            next(iter(self.boxes.values())).reason = self.task.start_fault
            self._wind_up(FAILED_TO_START)
        elif self.shares_namespaces:
            self.holding = True
            self._hands.hold(self)
        else:
            self._go_on()

    def stop(self, grace: float) -> None:
        """Ask all containers to stop, and kill those that have not after so many seconds."""
        if self.over or self._lost or self._grace is not None:
            return
        self._grace = grace
        self._hands.later(grace, self._kill)
        ran = any(box.ran for box in self.boxes.values())
        self._wind_up(ESSENTIAL_EXITED if ran else FAILED_TO_START)

    def lose(self, reason: str) -> None:
        """Kill everything at once; the task ends with this reason and without codes."""
        if self.over or self._lost:
            return
        self._lost = reason
        self._due = True
        self._wind_up(reason)

    # What the Engine did.

    def held(self, holder: str) -> None:
        """The holder runs."""
        self.holder = holder
        self.holding = False
        self._go_on()

    def not_held(self, reason: str) -> None:
        """The holder could not be started; none of the containers can."""
        self.holding = False
        next(iter(self.boxes.values())).reason = reason
        self._wind_up(FAILED_TO_START)

    def needs_image(self, box: Box) -> None:
        """A container's image is not there."""
        if box.unwanted.is_set():
            box.state = State.ENDED
            self._go_on()
        elif box.was_pulled:
            self.not_started(box, f"{CREATE}: Error: No such image: {box.spec.image}")
        else:
            box.was_pulled = True
            box.state = State.PULLING
            self._hands.pull(self, box)

    def pulled(self, box: Box, reason: str) -> None:
        """A container's image was pulled, or was not, for a reason."""
        if box.state is not State.PULLING:
            return
        if reason:
            self.not_started(box, reason)
        else:
            self._launch(box)

    def created(self, box: Box, container_id: str) -> None:
        """A container was created, and will be started at once."""
        box.id = container_id

    def started(self, box: Box, address: str) -> None:
        """A container was started; it may have died since."""
        box.state = State.RUNNING
        box.ran = True
        if self._grace is not None and not self._lost:
            self._reason = ESSENTIAL_EXITED  # it ran after all, if only to be stopped
        if box.spec.essential and not self._announced:
            self._announced = True
            self._hands.emit(TaskStarted(self.task.id, address))
        self._expect_dependents(box)
        self._settle(box)
        self._go_on()

    def not_started(self, box: Box, reason: str) -> None:
        """A container could not be started."""
        box.state = State.ENDED
        box.reason = "" if box.unwanted.is_set() else reason
        if box.spec.essential:
            self._wind_up(FAILED_TO_START)
        else:
            self._go_on()

    def died(self, box: Box, exit_code: int | None, *, out_of_memory: bool, reason: str) -> None:
        """A container's program has ended."""
        if box.died:
            return
        box.died = True
        box.exit_code = exit_code
        box.reason = OUT_OF_MEMORY if out_of_memory or box.starved else reason
        self._settle(box)

    def output_ended(self, box: Box) -> None:
        """All that a container wrote was handed on."""
        box.output_ended = True
        self._settle(box)

    # What follows.

    def _settle(self, box: Box) -> None:
        if not (box.state is State.RUNNING and box.died and box.output_ended):
            return
        box.state = State.ENDED
        self._hands.finish_output(self, box)
        if box.spec.essential and self.task.ends_with == "essential":
            self._wind_up(ESSENTIAL_EXITED)
        else:
            self._go_on()

    def _wind_up(self, reason: str) -> None:
        """Let the task end. The first reason stays, unless the host was lost."""
        self._reason = self._lost or self._reason or reason
        for box in self.boxes.values():
            box.unwanted.set()
            # A pull goes on without this task; a launch finds out by itself.
            if box.state in (State.WAITING, State.PULLING):
                box.state = State.ENDED
        self._go_on()

    def _go_on(self) -> None:
        if self.over:
            return
        if self._reason:
            self._stop_in_order()
            self._finish()
            return
        for box in self.boxes.values():
            if box.state is State.WAITING and not self._reason:
                self._consider(box)
        if all(box.state is State.ENDED for box in self.boxes.values()):
            self._wind_up(ESSENTIAL_EXITED)

    def _consider(self, box: Box) -> None:
        """Launch a container if all that it waits for has happened; give up if it never can."""
        verdicts = [
            _verdict(self.boxes[needed.container], needed.condition)
            for needed in box.spec.depends_on
            if needed.container in self.boxes
        ]
        if None in verdicts:
            # As ECS does: what can never start ends the task.
            self._wind_up(FAILED_TO_START if not self._announced else ESSENTIAL_EXITED)
        elif all(verdicts):
            self._launch(box)

    def _launch(self, box: Box) -> None:
        box.state = State.LAUNCHING
        self._hands.launch(self, box)

    def _expect_dependents(self, box: Box) -> None:
        """Give up after a while if others wait for the end of this container, but not for ever."""
        limit = box.spec.start_timeout
        awaited = any(
            needed.container == box.spec.name and needed.condition != "START"
            for other in self.boxes.values()
            for needed in other.spec.depends_on
        )
        if awaited and limit > 0:
            self._hands.later(limit, lambda: self._give_up_on(box))

    def _give_up_on(self, box: Box) -> None:
        waiting = any(
            other.state is State.WAITING
            and any(needed.container == box.spec.name for needed in other.spec.depends_on)
            for other in self.boxes.values()
        )
        if not self._reason and waiting and not box.died:
            self._wind_up(FAILED_TO_START if not self._announced else ESSENTIAL_EXITED)

    def _stop_in_order(self) -> None:
        """Ask those to stop on which no other depends any more."""
        running = [box for box in self.boxes.values() if box.state is State.RUNNING]
        for box in running:
            if self._due:
                self._kill_one(box)
            elif not box.signalled and not self._is_needed(box):
                box.signalled = True
                if not box.died:
                    self._hands.signal(self, box, kill=False)
                if self._grace is None:
                    self._hands.later(box.spec.stop_timeout, partial(self._kill_one, box))

    def _is_needed(self, box: Box) -> bool:
        return any(
            needed.container == box.spec.name
            for other in self.boxes.values()
            if other.state in (State.LAUNCHING, State.RUNNING) and not other.died
            for needed in other.spec.depends_on
        )

    def _kill(self) -> None:
        self._due = True
        self._go_on()

    def _kill_one(self, box: Box) -> None:
        if box.state is State.RUNNING and not box.died and not box.killed:
            box.killed = True
            self._hands.signal(self, box, kill=True)

    def still_runs(self, box: Box) -> None:
        """The Engine was away and is back, and the container runs: signals may have been lost."""
        if box.killed:
            box.killed = False
            self._kill_one(box)
        elif box.signalled:
            self._hands.signal(self, box, kill=False)

    def _finish(self) -> None:
        if self.holding or any(box.state is not State.ENDED for box in self.boxes.values()):
            return
        self.over = True
        ends = {name: box.end() for name, box in self.boxes.items()}
        if self._lost:
            ends = {name: ContainerEnd(None) for name in ends}
        self._hands.emit(TaskEnded(self.task.id, self._reason, ends))
        self._hands.clear_away(self)


def _verdict(needed: Box, condition: str) -> bool | None:
    """Whether a condition is met; ``None`` when it never will be."""
    ended = needed.state is State.ENDED
    if condition == "START":
        return True if needed.ran else (None if ended else False)
    if condition == "COMPLETE":
        return ended
    if not ended:
        return False
    return True if needed.exit_code == 0 else None
