"""Secrets of a container, as environment variables.

They are fetched when a task starts, with the execution role, and are never kept or logged here.
"""

from __future__ import annotations

from collections.abc import Iterable

from wherry.emulator.batch.cannot_start import TASK_FAILED, CannotStart
from wherry.emulator.batch.ports import Document, Surroundings


def resolved(
    entries: Iterable[Document], surroundings: Surroundings, region: str, role_arn: str | None
) -> dict[str, str]:
    """Return the value of each secret by the name of its variable.

    Args:
        entries: ``secrets`` of a container: name, valueFrom.
        surroundings: has the secrets.
        region: where the job runs.
        role_arn: the role that may read them.

    Raises:
        CannotStart: one cannot be had; the reason says which.
    """
    found = {}
    for entry in entries:
        try:
            value = surroundings.secret(entry["valueFrom"], region, role_arn)
        except LookupError as error:
            words = str(error.args[0]) if error.args else str(error)
            raise CannotStart(TASK_FAILED, f"ResourceInitializationError: {words}") from error
        found[entry["name"]] = value
    return found
