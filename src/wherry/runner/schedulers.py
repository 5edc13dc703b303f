"""The schedulers by name: the built-in ones, and those of other packages.

Other packages add theirs as entry points of the group ``wherry.schedulers``: a name, and a
callable that takes ``session_name`` and returns a `Scheduler`. Installed packages are looked
through only for a name that is not built in, or for a list of all: reading their metadata costs
more than the rest of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from wherry.errors import PluginError, UnknownNameError, unknown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from wherry.schedulers.api import Scheduler

    SchedulerFactory = Callable[[str], Scheduler[Any]]
    """Makes a scheduler for a session's name."""

GROUP = "wherry.schedulers"
DEFAULT = "local_cwd"

BUILT_IN = {
    "local_cwd": "wherry.schedulers.local:create_cwd_scheduler",
    "local_dir": "wherry.schedulers.local:create_dir_scheduler",
    "local_docker": "wherry.schedulers.docker:create_scheduler",
    "aws_batch": "wherry.schedulers.aws_batch:create_scheduler",
}
"""Where each built-in scheduler's factory is; loaded when the scheduler is first used."""


class SchedulerTable:
    """All schedulers that there are, by name, and those that a session has made of them.

    Args:
        session: the session that they are made for.
        given: factories to use instead of the built-in ones and the plug-ins.
        prepare: is handed each scheduler, by its name, when it has been made.
    """

    def __init__(
        self,
        session: str,
        given: Mapping[str, SchedulerFactory] | None = None,
        prepare: Callable[[str, Scheduler[Any]], None] | None = None,
    ) -> None:
        self._session = session
        self._prepare = prepare
        self._given = None if given is None else dict(given)
        self._plugins: dict[str, EntryPoint] | None = None
        self._made: dict[str, Scheduler[Any]] = {}
        self.problems: list[str] = []

    def names(self) -> list[str]:
        """Return all names, the built-in ones first."""
        if self._given is not None:
            return list(self._given)
        return [*BUILT_IN, *self._points()]

    def knows(self, name: str) -> bool:
        """Tell whether there is a scheduler of this name."""
        return self._is_built_in(name) or name in self.names()

    def get(self, name: str) -> Scheduler[Any]:
        """Return a scheduler, made when it is first asked for.

        Args:
            name: its name.

        Raises:
            UnknownNameError: there is none of this name.
            PluginError: another package's scheduler does not load, or cannot be made.
        """
        if name not in self._made:
            made = self._make(name)
            if self._prepare is not None:
                self._prepare(name, made)
            self._made[name] = made
        return self._made[name]

    def keeps_journal(self, name: str) -> bool:
        """Tell whether a scheduler notes its apps in the journal, so that the ledger has them.

        The built-in ones do, and need not be loaded for that; another one says so itself.

        Raises:
            PluginError: another package's scheduler does not load.
        """
        return self._is_built_in(name) or self.get(name).journaled

    def close(self) -> None:
        """Close all schedulers that were made; may be called many times."""
        from contextlib import ExitStack

        made, self._made = self._made, {}
        with ExitStack() as closing:
            for scheduler in made.values():
                closing.callback(scheduler.close)

    def _is_built_in(self, name: str) -> bool:
        return self._given is None and name in BUILT_IN

    def _make(self, name: str) -> Scheduler[Any]:
        if not self.knows(name):
            raise UnknownNameError(unknown("scheduler", name, self.names()))
        if self._given is not None:
            return self._given[name](self._session)
        if name in BUILT_IN:
            return _imported(BUILT_IN[name])(self._session)
        return _from_plugin(self._points()[name], self._session)

    def _points(self) -> dict[str, EntryPoint]:
        if self._plugins is None:
            self._plugins = self._found_points()
        return self._plugins

    def _found_points(self) -> dict[str, EntryPoint]:
        from importlib.metadata import entry_points

        found: dict[str, EntryPoint] = {}
        for point in sorted(entry_points(group=GROUP), key=lambda p: (p.name, _source(p))):
            if point.name in BUILT_IN:
                self.problems.append(
                    f"plug-in {_source(point)} offers scheduler {point.name}, which is built in; "
                    "the built-in one is used"
                )
            elif point.name in found and point.value != found[point.name].value:
                first = _source(found[point.name])
                self.problems.append(
                    f"plug-ins {first} and {_source(point)} both offer scheduler {point.name}; "
                    f"{first}'s is used"
                )
            else:
                found.setdefault(point.name, point)
        return found


def _imported(path: str) -> SchedulerFactory:
    import importlib

    module, _, name = path.partition(":")
    factory: SchedulerFactory = getattr(importlib.import_module(module), name)
    return factory


def _from_plugin(point: EntryPoint, session: str) -> Scheduler[Any]:
    from wherry.schedulers.api import Scheduler

    what = f"scheduler {point.name} of plug-in {_source(point)} ({point.value})"
    try:
        made = point.load()(session_name=session)
    except (Exception, SystemExit) as error:
        raise PluginError(f"{what} does not load: {type(error).__name__}: {error}") from error
    if not isinstance(made, Scheduler):
        raise PluginError(f"{what} made {made!r}, which is not a wherry Scheduler")
    return made


def _source(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value
