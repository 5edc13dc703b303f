"""The end of an attempt that never becomes a task."""

from __future__ import annotations

TASK_FAILED = "Task failed to start"
"""The status reason of every attempt whose task ECS could not start."""


class CannotStart(Exception):  # noqa: N818 — what has happened to the attempt, as its users say it
    """An attempt fails before anything of it runs.

    Args:
        status_reason: what the attempt's ``statusReason`` is.
        container_reason: what its container's ``reason`` is.
        container: which container it is that cannot start.
    """

    def __init__(
        self, status_reason: str, container_reason: str = "", container: str = "default"
    ) -> None:
        super().__init__(container_reason or status_reason)
        self.status_reason = status_reason
        self.container_reason = container_reason
        self.container = container
