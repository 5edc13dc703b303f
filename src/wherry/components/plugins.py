"""Components of other packages: entry points of the group ``wherry.components``.

An entry point is a function, whose component has the entry point's name, or a module, whose
functions that return an `AppDef` become ``name.function``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

from wherry.components.component import Component, summary_of
from wherry.components.options import returns_app, signature_of
from wherry.errors import PluginError, UsageError

GROUP = "wherry.components"


def find(name: str) -> Component | None:
    """Find a plug-in's component; only entry points that may hold it are loaded.

    Args:
        name: such as ``mygroup.train``.

    Returns:
        The component, or ``None`` when no plug-in has it.

    Raises:
        PluginError: the plug-in that may hold it does not load.
        ComponentError: the function is not a component.
    """
    failure: PluginError | None = None
    for point in _points():
        if name != point.name and not name.startswith(f"{point.name}."):
            continue
        try:
            chosen = [component for component in _components(point) if component.name == name]
        except PluginError as error:
            failure = failure or error
            continue
        if chosen:
            signature_of(chosen[0].fn, name)
            return chosen[0]
    if failure is not None:
        raise failure
    return None


def load_all(taken: frozenset[str]) -> tuple[list[Component], list[str]]:
    """Load every plug-in.

    Args:
        taken: names that plug-ins may not have.

    Returns:
        The components, and a sentence for each that cannot be had.
    """
    found: dict[str, Component] = {}
    warnings: list[str] = []
    for point in _points():
        try:
            components = _components(point)
        except PluginError as error:
            warnings.append(str(error))
            continue
        for component in components:
            problem = _problem(component, taken, found)
            if problem:
                warnings.append(problem)
            else:
                found[component.name] = component
    return list(found.values()), warnings


def _points() -> list[EntryPoint]:
    """Return the entry points in an order that does not depend on ``sys.path``."""
    return sorted(entry_points(group=GROUP), key=lambda point: (point.name, _source(point)))


def _source(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def _components(point: EntryPoint) -> list[Component]:
    try:
        loaded = point.load()
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"plug-in {_source(point)} ({point.name} = {point.value}) does not load: "
            f"{type(error).__name__}: {error}"
        ) from error
    source = _source(point)
    return [Component(name, fn, summary_of(fn), source) for name, fn in _named(point.name, loaded)]


def _named(name: str, loaded: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    if not isinstance(loaded, ModuleType):
        yield name, loaded
        return
    public = getattr(loaded, "__all__", None) or [
        key for key, value in vars(loaded).items() if _is_own(loaded, key, value)
    ]
    for key in public:
        fn = getattr(loaded, key, None)
        if inspect.isfunction(fn) and returns_app(fn):
            yield f"{name}.{key}", fn


def _is_own(module: ModuleType, key: str, value: Any) -> bool:
    if key.startswith("_") or not inspect.isfunction(value):
        return False
    return f"{value.__module__}.".startswith(f"{module.__name__}.")


def _problem(component: Component, taken: frozenset[str], found: dict[str, Component]) -> str:
    if component.name in taken:
        return (
            f"plug-in {component.source} offers {component.name}, which is built in; "
            "the built-in one is used"
        )
    if component.name in found:
        first = found[component.name].source
        return (
            f"plug-ins {first} and {component.source} both offer {component.name}; "
            f"{first}'s is used"
        )
    try:
        signature_of(component.fn, component.name)
    except UsageError as error:
        return f"plug-in {component.source}: {error}"
    return ""
