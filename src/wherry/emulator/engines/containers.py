"""One container inside the agent: how it starts, what it leaves, and what others wait for."""

from __future__ import annotations

import os

from wherry.emulator.engines.plan import MARKER
from wherry.emulator.engines.scratch import below, temporary
from wherry.emulator.engines.starting import (
    BROKEN,
    CannotStart,
    broken_line,
    is_broken,
    of_error,
    program_of,
)
from wherry.engine.attempt import Attempt
from wherry.engine.signals import SIGKILL
from wherry.engine.spawn import Command, StartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from wherry.emulator.engines.memory import MemoryWatch
    from wherry.emulator.engines.plan import ContainerPlan, End
    from wherry.emulator.engines.scratch import Scratch
    from wherry.engine.attempt import Family, Log
    from wherry.engine.loop import Loop

    class Stage(Protocol):
        """What all containers need of the agent.

        Attributes:
            token: part of every marker, by which the processes of this agent are found.
            stdin: what programs read from.
            limits: resource limits that the agent has changed for itself, as they were.
        """

        loop: Loop
        family: Family
        memory: MemoryWatch
        token: str
        stdin: int
        limits: list[tuple[int, int, int]]

        def log(self, task_id: str, index: int) -> OutputLog:
            """Return where a container's output goes."""

        def was_out_of_memory(self) -> bool:
            """Tell whether the kernel has killed something for want of memory."""

    class OutputLog(Log, Protocol):
        """A log that has to know whose reading it holds up."""

        attempt: Attempt | None


WAITING, STARTING, RUNNING, ENDED = range(4)
START, SUCCESS = "START", "SUCCESS"
OUT_OF_MEMORY = "OutOfMemoryError: Container killed due to memory usage"
"""As `wherry.emulator.engines.api` has it, which is too slow to import here."""

_SIGNALLED = 128
_TERMINATED = 143
_FOR_EVER = float("inf")


class ContainerRun:
    """One container of a running task.

    Args:
        stage: what all containers need.
        task_id: whose it is.
        index: which of the task's it is.
        plan: what it is.
        on_end: called once, when nothing of it is left.

    Attributes:
        state: WAITING (for others, or not started at all), STARTING, RUNNING or ENDED.
        end: exit code and reason.
        has_run: whether it ever ran.
        is_told: whether it was told to stop.
        is_late: whether it did not end in the time that others wait for it.
    """

    def __init__(
        self,
        stage: Stage,
        task_id: str,
        index: int,
        plan: ContainerPlan,
        on_end: Callable[[], None],
    ) -> None:
        self._stage = stage
        self._task_id = task_id
        self._index = index
        self.plan = plan
        self._on_end = on_end
        self._attempt: Attempt | None = None
        self._program = ""
        self._is_out_of_memory = False
        self.state = WAITING
        self.end: End = (None, "")
        self.has_run = False
        self.is_told = False
        self.is_late = False

    def set_off(self, scratch: Scratch) -> None:
        """Begin to start it; `confirm` has to follow."""
        self.state = STARTING
        try:
            if self.plan["problem"]:
                self._over((None, self.plan["problem"]))
                return
            self._prepare(scratch)
        except CannotStart as error:
            self._over(error.end)
        except StartError as error:
            self._over(of_error(error, self.plan["argv"][0]))
        except OSError as error:
            words = f"{(error.strerror or '').lower()}: {error.filename or 'pipe'}"
            self._over((None, f"CannotCreateContainerError: {words}"))

    def confirm(self) -> bool:
        """Wait until it runs; tells whether it does, or did for a moment."""
        attempt = self._attempt
        if self.state != STARTING or attempt is None:
            return False
        try:
            attempt.confirm()
        except StartError as error:
            self._attempt = None
            if not is_broken(error):
                self._over(of_error(error, self.plan["argv"][0]))
                return False
            self.has_run = True
            self._log.write("stderr.log", [broken_line(error, self._program)])
            self._over((BROKEN, ""))
            return True
        self.state = RUNNING
        self.has_run = True
        self._stage.memory.add(attempt, self.plan["memory"])
        return True

    def stop(self, reason: str, grace: float) -> None:
        """Send SIGTERM to its program, and SIGKILL to all of it after the grace."""
        self.is_told = True
        if self._attempt is not None:
            self._attempt.stop(reason, grace)

    def kill_for_memory(self, attempt: Attempt) -> bool:
        """Kill it, if this attempt is its own; tells whether it is."""
        if attempt is not self._attempt:
            return False
        self._is_out_of_memory = True
        attempt.stop("memory", 0)
        return True

    def refuse(self, words: str) -> None:
        """End it without a start, because what it waits for will never be.

        Code and words are those of the ECS agent (`handleTerminalDependencyError`); without words,
        as in a pod, it has neither.
        """
        reason = f"CannotStartContainerError: dependency graph: {words}"
        self._over((_TERMINATED, reason) if words else (None, ""))

    def _prepare(self, scratch: Scratch) -> None:
        plan = self.plan
        root = scratch.root_of(plan)
        cwd = below(root, plan["working_dir"]) if plan["working_dir"] else root
        env = {**plan["base"], "HOME": root, "TMPDIR": temporary(root), **plan["env"]}
        marker = f"{self._stage.token}/{self._task_id}/{self._index}"
        env[MARKER] = marker
        self._program = program_of(plan["argv"], env.get("PATH", ""), cwd)
        limits = [*self._stage.limits, *plan["limits"]]
        self._log = self._stage.log(self._task_id, self._index)
        attempt = Attempt(
            self._stage.loop,
            self._stage.family,
            Command(self._program, plan["argv"], env, cwd, limits),
            self._log,
            f"{MARKER}={marker}".encode(errors="surrogateescape"),
            _FOR_EVER,
            self._attempt_ended,
            contained=True,
        )
        self._log.attempt = attempt
        attempt.prepare()
        attempt.set_off(self._stage.stdin)
        self._attempt = attempt

    def _attempt_ended(self, attempt: Attempt) -> None:
        self._stage.memory.remove(attempt)
        self._attempt = None
        status = attempt.status or 0
        if not os.WIFSIGNALED(status):
            self._over((os.WEXITSTATUS(status), OUT_OF_MEMORY if self._is_out_of_memory else ""))
            return
        number = os.WTERMSIG(status)
        if number == SIGKILL and not attempt.stop_reason:
            self._is_out_of_memory = self._stage.was_out_of_memory()
        self._over((_SIGNALLED + number, OUT_OF_MEMORY if self._is_out_of_memory else ""))

    def _over(self, end: End) -> None:
        was_running = self.state == RUNNING
        self.state, self.end = ENDED, end
        if was_running:
            self._on_end()
