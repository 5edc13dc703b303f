"""What the agent is told to run: a task as plain data that `marshal` carries.

Everything is settled before it is sent (environment, limits, what is wrong with it), so that the
agent only starts, watches and stops. Messages to the agent: ``("start", TaskPlan)``,
``("stop", task id, grace)``, a grace of 0 being a kill. Messages from it: ``("ready", its pid)``,
``("output", task id, index of the container, bytes)``, ``("started", task id)``,
``("ended", task id, whether it ever ran, [(exit code or None, reason)])``.
"""

from __future__ import annotations

MARKER = "WHERRY_TASK"
"""The one variable that a process gets besides the task's own and the base: by it, processes that
have left their parents are found."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    class MountPlan(TypedDict):
        """A folder to be shown below the container's own; without a source it is the task's."""

        target: str
        source: str
        volume: str

    class ContainerPlan(TypedDict):
        """One container. `problem` says why it cannot be started at all; mostly empty."""

        name: str
        argv: list[str]
        base: dict[str, str]
        env: dict[str, str]
        working_dir: str
        memory: int
        limits: list[tuple[int, int, int]]
        mounts: list[MountPlan]
        essential: bool
        depends_on: list[tuple[str, str]]
        start_timeout: float
        stop_timeout: float
        problem: str

    class TaskPlan(TypedDict):
        """One task.

        `ends_with_all` says whether it is over when all containers have ended, and not already
        when an essential one has. `fault` is the reason for a start that fails on purpose; mostly
        empty.
        """

        id: str
        ends_with_all: bool
        containers: list[ContainerPlan]
        fault: str

    End = tuple[int | None, str]
    """Exit code, if there is one, and ECS's reason, if there is one."""
