"""The Runner of one command: made when the command starts, closed when it ends."""

from __future__ import annotations

from wherry.specs.handles import parse_app_handle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from wherry.runner import Runner
    from wherry.schedulers.api import Scheduler


class Session:
    """A context that holds a Runner, and warns at its end of what went wrong on the way.

    Args:
        args: what was parsed; it carries the way to make a Runner.
    """

    def __init__(self, args: Namespace) -> None:
        self._make = args.runner_factory
        self._runner: Runner | None = None

    def __enter__(self) -> Runner:
        runner: Runner = self._make()
        self._runner = runner
        return runner

    def __exit__(self, *_: object) -> None:
        if self._runner is None:
            return
        problems = self._runner.problems
        self._runner.close()
        if problems:
            from wherry.cli.output import warn

            for problem in problems:
                warn(problem)


def place_of(runner: Runner, handle: str) -> tuple[Scheduler[Any], str]:
    """Return an app's scheduler and its id there."""
    parsed = parse_app_handle(handle)
    return runner.scheduler(parsed.scheduler), parsed.app_id
