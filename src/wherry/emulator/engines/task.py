"""One task inside the agent: which of its containers may start, and whose end ends the others.

The rules are those of the ECS agent: a container waits for those that it depends on; the end of an
essential one stops all that still run, those first that others do not depend on. A pod is another
thing: it is over when all its containers have ended, or when one of them can never start.

Facts: task definition parameters, "Container dependency"; amazon-ecs-agent,
``agent/engine/dependencygraph`` (the words for what cannot be resolved).
"""

from __future__ import annotations

from wherry.emulator.engines.containers import ENDED, RUNNING, START, SUCCESS, WAITING, ContainerRun
from wherry.emulator.engines.scratch import Scratch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from wherry.emulator.engines.containers import Stage
    from wherry.emulator.engines.plan import TaskPlan
    from wherry.engine.attempt import Attempt
    from wherry.engine.loop import Timer

_STOPPED = "its task was told to stop"
_ESSENTIAL = "an essential container ended"


class TaskRun:
    """A task that was begun.

    Args:
        stage: what containers need of the agent.
        folder: where its scratch folder is to be.
        plan: what it is.
        on_start: called when its first essential container runs.
        on_end: called once, when nothing of it runs any more.

    Attributes:
        has_run: whether an essential container ever ran.
        scratch: its folder.
    """

    def __init__(
        self,
        stage: Stage,
        folder: str,
        plan: TaskPlan,
        on_start: Callable[[TaskRun], None],
        on_end: Callable[[TaskRun], None],
    ) -> None:
        self._stage = stage
        self.id = plan["id"]
        self._ends_with_all = plan["ends_with_all"]
        self._on_start = on_start
        self._on_end = on_end
        self._timers: list[Timer] = []
        self._is_stopping = False
        self.has_run = False
        self.is_over = False
        self.scratch = Scratch(f"{folder}/{self.id}", is_shared=len(plan["containers"]) > 1)
        self.containers = [
            ContainerRun(stage, self.id, index, container, self._container_ended)
            for index, container in enumerate(plan["containers"])
        ]
        self._by_name = {run.plan["name"]: run for run in self.containers}

    def set_off(self) -> None:
        """Begin to start what waits for nothing; `confirm` has to follow."""
        try:
            self.scratch.make()
        except OSError as error:
            words = (
                f"CannotCreateContainerError: {(error.strerror or '').lower()}: {error.filename}"
            )
            self.containers[0].end = (None, words)
            self._is_stopping = True
            return
        for run in self.containers:
            if not run.plan["depends_on"]:
                run.set_off(self.scratch)

    def confirm(self) -> None:
        """Wait until what was set off runs, and go on from there."""
        for run in self.containers:
            self._confirm(run)
        self._proceed()

    def stop(self, grace: float) -> None:
        """Send SIGTERM to what runs, and SIGKILL after so many seconds; nothing more starts."""
        self._is_stopping = True
        if grace > 0:
            self._timers.append(self._stage.loop.call_later(grace, self.kill))
            self._stop_next(grace)
        else:
            self.kill()
        self._proceed()

    def kill(self) -> None:
        """Kill all that runs, at once; nothing more starts."""
        self._is_stopping = True
        for run in self._running():
            run.stop(_STOPPED, 0)

    def kill_for_memory(self, attempt: Attempt) -> bool:
        """Kill the container that this attempt is of; tells whether it is one of this task."""
        return any(run.kill_for_memory(attempt) for run in self.containers)

    def _confirm(self, run: ContainerRun) -> None:
        if not run.confirm():
            return
        if run.plan["essential"] and not self.has_run:
            self.has_run = True
            self._on_start(self)
        if self._is_awaited(run):
            timeout = run.plan["start_timeout"]
            self._timers.append(self._stage.loop.call_later(timeout, lambda: self._is_late(run)))

    def _container_ended(self) -> None:
        self._proceed()

    def _proceed(self) -> None:
        """Do what the present state asks for, until nothing more does."""
        if self.is_over:
            return
        if any(self._is_fatal(run) for run in self.containers):
            self._is_stopping = True
        while not self._is_stopping and self._start_next():
            pass
        if self._is_stopping:
            self._stop_next(None)
        if not self._running():
            self._finish()

    def _start_next(self) -> bool:
        """Start or refuse one container that waits; tells whether there was one."""
        for run in self.containers:
            if run.state != WAITING:
                continue
            problem = self._problem(run)
            if problem:
                run.refuse("" if self._ends_with_all else problem)
            elif all(self._is_met(*need) for need in run.plan["depends_on"]):
                run.set_off(self.scratch)
                self._confirm(run)
            elif self._running():
                continue
            else:
                run.refuse(f"circular dependencies of target [{run.plan['name']}]")
            self._is_stopping = self._is_fatal(run)
            return True
        return False

    def _is_fatal(self, run: ContainerRun) -> bool:
        """Tell whether a container has ended in a way that ends the task."""
        has_ended = run.state == ENDED and run.plan["essential"]
        return has_ended and not (self._ends_with_all and run.has_run)

    def _is_met(self, name: str, condition: str) -> bool:
        other = self._by_name[name]
        if condition == START:
            return other.has_run
        if condition == SUCCESS:
            return other.state == ENDED and other.end[0] == 0
        return other.state == ENDED

    def _problem(self, run: ContainerRun) -> str:
        """Say why a container can never start, if so."""
        for name, condition in run.plan["depends_on"]:
            other = self._by_name.get(name)
            pair = f"container ordering dependency [{name}] for target [{run.plan['name']}]"
            if other is None or (other.state == ENDED and not other.has_run):
                return f"failed to resolve {pair} because dependency will never start"
            if condition == SUCCESS and other.state == ENDED and other.end[0] != 0:
                return f"failed to resolve {pair} as dependency did not exit successfully."
            if condition != START and other.is_late and other.state != ENDED:
                return f"{pair} has timed out."
        return ""

    def _is_awaited(self, run: ContainerRun) -> bool:
        """Tell whether another container waits for the end of this one, but not for ever."""
        return run.plan["start_timeout"] > 0 and any(
            name == run.plan["name"] and condition != START
            for other in self.containers
            for name, condition in other.plan["depends_on"]
        )

    def _is_late(self, run: ContainerRun) -> None:
        run.is_late = True
        self._proceed()

    def _stop_next(self, grace: float | None) -> None:
        """Tell those to stop that no running container depends on."""
        running = self._running()
        needed = {name for run in running for name, _ in run.plan["depends_on"]}
        for run in running:
            if not run.is_told and run.plan["name"] not in needed:
                own = run.plan["stop_timeout"]
                run.stop(_STOPPED if grace else _ESSENTIAL, own if grace is None else grace)

    def _running(self) -> list[ContainerRun]:
        return [run for run in self.containers if run.state == RUNNING]

    def _finish(self) -> None:
        self.is_over = True
        for timer in self._timers:
            timer.cancel()
        self._on_end(self)
