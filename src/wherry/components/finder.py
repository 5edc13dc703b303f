"""From a component's name to the component.

Built-in names and files are found without looking at installed packages: reading their metadata
costs more than the whole rest of a run.
"""

from __future__ import annotations

from wherry.components.component import BUILT_IN, Component, summary_of
from wherry.errors import ComponentError, unknown

_MODULES = {
    "dist": ("ddp", "spmd"),
    "utils.commands": ("binary", "echo", "python", "sh", "touch"),
    "utils.transfer": ("copy",),
    "utils.trial": ("booth",),
}
_BUILT_IN = {
    f"{module.partition('.')[0]}.{name}": f"wherry.components.{module}"
    for module, names in _MODULES.items()
    for name in names
}


def find(name: str) -> Component:
    """Find a component.

    Args:
        name: a built-in (``utils.echo``), a function in a file (``path/to/file.py:fn``) or a
            module (``package.module:fn``), or a plug-in's.

    Returns:
        The component.

    Raises:
        ComponentError: nothing is found by this name, or what is found is not a component.
        PluginError: the plug-in that should have it does not load.
    """
    if name in _BUILT_IN:
        return _built_in(name)
    from wherry.components import files

    if ":" in name or files.is_path(name):
        return files.load(name)
    from wherry.components import plugins

    component = plugins.find(name)
    if component is None:
        raise ComponentError(_unknown(name))
    return component


def builtins() -> tuple[list[Component], list[str]]:
    """List all components that have a name: the built-in ones and those of plug-ins.

    Returns:
        The components by name, and a sentence for each plug-in that could not be loaded.
    """
    from wherry.components import plugins

    added, warnings = plugins.load_all(frozenset(_BUILT_IN))
    known = [*map(_built_in, _BUILT_IN), *added]
    return sorted(known, key=lambda component: component.name), warnings


def source_text(component: Component) -> str:
    """Return the Python text of a component's function.

    Raises:
        ComponentError: its text cannot be had.
    """
    import inspect

    try:
        return inspect.getsource(component.fn)
    except (OSError, TypeError) as error:
        raise ComponentError(f"the source of {component.name} cannot be read: {error}") from error


def _built_in(name: str) -> Component:
    import importlib

    module = importlib.import_module(_BUILT_IN[name])
    fn = getattr(module, name.rpartition(".")[2])
    return Component(name, fn, summary_of(fn), BUILT_IN)


def _unknown(name: str) -> str:
    known, warnings = builtins()
    message = unknown("component", name, [component.name for component in known])
    if warnings:
        message += f" Not all plug-ins could be loaded: {'; '.join(warnings)}."
    return message
