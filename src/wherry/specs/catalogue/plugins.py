"""Named resources of other packages: entry points of the group ``wherry.named_resources``.

An entry point is a `Resource`, a function that returns one, or a mapping of names to either; only
a mapping's own keys are names then, not the entry point's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points

from wherry.specs.resources import Resource

GROUP = "wherry.named_resources"


class PluginResources:
    """What the installed plug-ins offer.

    Functions are called at once, so that a name that is listed can be looked up.

    Args:
        taken: tells whether a name is built in, and so cannot be a plug-in's.
    """

    def __init__(self, *, taken: Callable[[str], bool]) -> None:
        self.found: dict[str, Resource] = {}
        self.failed: dict[str, str] = {}
        self.problems: list[str] = []
        self._taken = taken
        self._sources: dict[str, str] = {}
        for point in sorted(entry_points(group=GROUP), key=lambda p: (p.name, _source(p))):
            self._load(point)

    def _load(self, point: EntryPoint) -> None:
        source = _source(point)
        try:
            loaded = point.load()
            offers = list(loaded.items()) if isinstance(loaded, Mapping) else [(point.name, loaded)]
        except (Exception, SystemExit) as error:  # noqa: BLE001 — one plug-in may not break the rest
            self._report(
                f"Plug-in {source} ({point.name} = {point.value}) does not load: {_told(error)}",
                point.name,
            )
            return
        for name, offered in offers:
            self._add(source, name, offered)

    def _add(self, source: str, name: object, offered: object) -> None:
        if not isinstance(name, str) or not name:
            self._report(f"Plug-in {source} names a resource {name!r}; names are strings.")
        elif self._taken(name):
            self._report(f"Plug-in {source} offers {name!r}, which is built in; that one is used.")
        elif name in self.found:
            first = self._sources[name]
            self._report(f"Plug-ins {first} and {source} both offer {name!r}; {first}'s is used.")
        else:
            self._make(source, name, offered)

    def _make(self, source: str, name: str, offered: object) -> None:
        try:
            made = offered() if callable(offered) else offered
        except (Exception, SystemExit) as error:  # noqa: BLE001 — as above
            self._report(f"Plug-in {source} cannot make {name!r}: {_told(error)}", name)
            return
        if isinstance(made, Resource):
            self.found[name] = made
            self._sources[name] = source
        else:
            self._report(
                f"Plug-in {source} offers {made!r} as {name!r}; it must be a Resource or a "
                "function that returns one.",
                name,
            )

    def _report(self, problem: str, name: str | None = None) -> None:
        self.problems.append(problem)
        if name is not None and not self._taken(name):
            self.failed.setdefault(name, problem)


def _source(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}."
