"""The kinds of jobs and of executors, and their names as people write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wherry.errors import UsageError, unknown

if TYPE_CHECKING:
    from wherry.functions.executor import Executor

KINDS = ("single", "array", "gang")


def checked_kind(kind: str | None) -> None:
    """Refuse a kind of job that there is not.

    Raises:
        UsageError: it is not one.
    """
    if kind is not None and kind not in KINDS:
        raise UsageError(unknown("kind of job", kind, KINDS))


def wanted_states(status: Any) -> frozenset[Any]:
    """Read one state or several, as members or as words.

    Raises:
        UsageError: there is no such state.
    """
    from wherry.specs.states import AppState

    if status is None:
        return frozenset()
    given = [status] if isinstance(status, (str, AppState)) else list(status)
    try:
        return frozenset(s if isinstance(s, AppState) else AppState[str(s).upper()] for s in given)
    except KeyError as error:
        raise UsageError(
            unknown("state", str(error.args[0]), [state.name for state in AppState])
        ) from None


def part_number(job: str, number: str) -> int:
    """Read the number of a part in a job's id.

    Raises:
        UsageError: it is none.
    """
    if not number.isdigit():
        raise UsageError(f"{job!r} is no job's id: after the colon comes a part's number")
    return int(number)


MAKERS: Mapping[str, tuple[str, str]] = {
    "local": ("wherry.functions.local", "LocalExecutor"),
    "docker": ("wherry.functions.docker", "DockerExecutor"),
    "aws_batch": ("wherry.functions.aws", "AWSBatchExecutor"),
    "debug": ("wherry.functions.debug", "DebugExecutor"),
}
"""Kind of executor → its module and class."""


def make_executor(environment: str, settings: Mapping[str, Any]) -> Executor:
    """Make an executor of its kind and its arguments.

    Raises:
        UsageError: there is no such kind, or it does not take such an argument.
    """
    import importlib

    if environment not in MAKERS:
        raise UsageError(unknown("kind of executor", environment, MAKERS))
    module, name = MAKERS[environment]
    made: Executor = getattr(importlib.import_module(module), name)(**settings)
    return made
