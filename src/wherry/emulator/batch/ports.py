"""What the control plane needs of the world around it; tests give it small ones of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

Document = dict[str, Any]
"""A JSON object in the shape that the API model gives it."""


class Surroundings(Protocol):
    """The parts of AWS that Batch calls on behalf of a job. Calls may come from any thread."""

    def task_environment(
        self, task_id: str, region: str, role_arn: str | None
    ) -> Mapping[str, str]:
        """Return the variables that tell a task where AWS is and who it is.

        Endpoint, region, credential and metadata addresses. Credentials for `role_arn` can be
        fetched from then on, until `task_over`.
        """

    def task_over(self, task_id: str) -> None:
        """Withdraw the credentials of a task."""

    def describe_task(self, task_id: str, metadata: Document) -> None:
        """Take what the metadata endpoint tells a task about itself."""

    def secret(self, value_from: str, region: str, role_arn: str | None) -> str:
        """Return a secret from Secrets Manager or a parameter from SSM.

        Raises:
            LookupError: it cannot be had; the text is what ECS would say after
                ``ResourceInitializationError:``.
        """

    def emit(self, region: str, detail_type: str, resources: list[str], detail: Document) -> None:
        """Send an event of ``aws.batch`` to the default event bus."""

    def open_stream(self, region: str, group: str, stream: str, *, create_group: bool) -> str:
        """Make a log stream.

        Returns:
            Nothing, or what ECS would say when the log driver cannot start.
        """


class Archive(Protocol):
    """Where state outlives the process. `save` and `remove` take effect with `commit`."""

    def load(self, kind: str) -> Iterable[tuple[str, Document]]:
        """Return all records of a kind with their keys, those that were first saved first."""

    def save(self, kind: str, key: str, record: Document) -> None:
        """Keep a record, in place of the one with the same key."""

    def remove(self, kind: str, key: str) -> None:
        """Drop a record."""

    def commit(self) -> None:
        """Make all changes since the last commit outlive this process, all or none."""
