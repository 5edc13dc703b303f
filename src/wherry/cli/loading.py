"""A function by its place: ``file.py:name`` or ``package.module:name``."""

from __future__ import annotations

import os
import sys

from wherry.errors import UsageError, nearest, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, TypeVar

    T = TypeVar("T")

_FORM = "write file.py:name or package.module:name"


def load(text: str) -> Callable[..., Any]:
    """Return a function of a file or a module.

    Args:
        text: ``file.py:name`` or ``package.module:name``.

    Raises:
        UsageError: there is no such file, module or function; the nearest is named.
    """
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name:
        raise UsageError(f"{text!r} names no function; {_FORM}")
    module = _module(place)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise UsageError(unknown(f"function of {place}:", name, _functions(module)))
    if not callable(found):
        raise UsageError(f"{text} is no function: its type is {type(found).__name__}")
    made: Callable[..., Any] = found
    return made


def no_file(place: str) -> UsageError:
    """Word the error for a file that is not there; the nearest is named."""
    folder = os.path.dirname(os.path.abspath(place))
    try:
        close = nearest(os.path.basename(place), os.listdir(folder))
    except OSError:
        return UsageError(f"there is no file {place!r}; the folder {folder!r} does not exist")
    hint = f"; did you mean {os.path.join(os.path.dirname(place), close)!r}?" if close else ""
    return UsageError(f"there is no file {place!r}{hint}")


def _functions(module: ModuleType) -> list[str]:
    """Name a module's own functions; all that can be called in it where it has none."""
    callables = {k: v for k, v in vars(module).items() if callable(v) and not k.startswith("_")}
    own = [k for k, v in callables.items() if getattr(v, "__module__", "") == module.__name__]
    return own or list(callables)


def _module(place: str) -> ModuleType:
    if place.endswith(".py") or "/" in place or place.startswith("."):
        return _module_of_file(place)
    _search_first(os.getcwd())
    return _imported(place, place)


def _module_of_file(place: str) -> ModuleType:
    path = os.path.realpath(place)
    if os.path.isdir(path):
        raise UsageError(f"{place!r} is a folder; {_FORM}")
    if not os.path.isfile(path):
        raise no_file(place)
    folder, name = _place_in_package(path)
    if name in sys.stdlib_module_names:
        sys.path.append(folder)  # First, it would be taken for Python's own by everybody.
        return _read(path, place)
    _search_first(folder)
    if _is_found(name, path):
        return _imported(name, place)
    return _read(path, place)


def _place_in_package(path: str) -> tuple[str, str]:
    """Return the folder to search and the module's name there, packages included."""
    folder, file = os.path.split(path)
    names = [file.removesuffix(".py")]
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        names.insert(0, package)
    return folder, ".".join(names)


def _search_first(folder: str) -> None:
    if folder in sys.path:
        sys.path.remove(folder)
    sys.path.insert(0, folder)


def _is_found(name: str, path: str) -> bool:
    """Tell whether an import by this name would give this file, and not one of the same name."""
    import importlib.util

    if not all(part.isidentifier() for part in name.split(".")):
        return False
    if "." in name:
        return True  # looking for it would run the packages above it
    loaded = sys.modules.get(name)
    if loaded is not None:
        return os.path.realpath(getattr(loaded, "__file__", None) or "") == path
    spec = importlib.util.find_spec(name)
    return spec is not None and os.path.realpath(spec.origin or "") == path


def _imported(name: str, place: str) -> ModuleType:
    import importlib

    try:
        return _guarded(place, lambda: importlib.import_module(name))
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageError(f"{place} cannot be loaded: {error}") from None
        raise UsageError(
            f"there is no module {error.name!r} in this folder or among the installed ones; {_FORM}"
        ) from None


def _read(path: str, place: str) -> ModuleType:
    """Run a file whose name means another module, or none, under a name of its own."""
    import importlib.util

    name = f"wherry_map_{os.path.basename(path).removesuffix('.py')}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{place} is no Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # So that what it holds can be told to go along by value.
    loader = spec.loader
    try:
        _guarded(place, lambda: loader.exec_module(module))
    except ModuleNotFoundError as error:
        raise UsageError(f"{place} cannot be loaded: {error}") from None
    return module


def _guarded(place: str, action: Callable[[], T]) -> T:
    try:
        return action()
    except ModuleNotFoundError:
        raise
    except SystemExit as error:
        raise UsageError(
            f"{place} ends the program when it is imported (exit code {error.code}); put what it "
            'does as a script under `if __name__ == "__main__":`'
        ) from None
    except Exception as error:  # the user's own code may raise anything
        raise UsageError(
            f"{place}{_line_of(error)} cannot be loaded: {type(error).__name__}: {error}"
        ) from error


def _line_of(error: Exception) -> str:
    """Say in which line a file of the user's failed."""
    if isinstance(error, SyntaxError):
        return ""  # its own words have the line
    trace = error.__traceback__
    last = ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith("<frozen") and os.path.dirname(file) != os.path.dirname(__file__):
            last = f", line {trace.tb_lineno} of {os.path.basename(file)},"
        trace = trace.tb_next
    return last
