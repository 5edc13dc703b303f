"""Load components from a file (``train.py:job``) or a module (``package.module:job``)."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from wherry.components.component import Component, summary_of
from wherry.components.options import returns_app, signature_of
from wherry.errors import ComponentError, nearest, unknown

_FROZEN = "<frozen "


def load(name: str) -> Component:
    """Load a component that is named by where it is.

    Args:
        name: ``path/to/file.py:function``, from the current folder, or ``package.module:function``.

    Returns:
        The component.

    Raises:
        ComponentError: the file, the module or the function is not there, does not load, or is
            not a component.
    """
    place, colon, function = name.rpartition(":")
    if not colon:
        place, function = name, ""
    if is_path(place):
        path = os.path.abspath(place)
        folder = os.path.dirname(path)
        with importable(folder):
            module = _run_file(place, path)
        source = path
    else:
        folder = os.getcwd()
        with importable(folder):
            module = _import_module(place)
        source = getattr(module, "__file__", None) or place
    fn = _function(module, function, place)
    signature_of(fn, name)
    return Component(name, fn, summary_of(fn), source, folder)


def is_path(place: str) -> bool:
    """Tell a file's path from a module's name."""
    return place.endswith(".py") or os.sep in place


@contextmanager
def importable(folder: str) -> Iterator[None]:
    """Let modules of a folder be imported for a while."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def _run_file(shown: str, path: str) -> ModuleType:
    """Run a file as a module; nothing is written beside it, as for a script."""
    try:
        with open(path, "rb") as file:
            text = file.read()
    except FileNotFoundError:
        raise ComponentError(_no_file(shown, path)) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ComponentError(f"cannot read {shown}: {why}") from error
    module = ModuleType(_module_name(path))
    module.__file__ = path
    # Dataclasses, enums and pickles look their module up by name.
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 — as asked
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        raise ComponentError(_why_not(error, shown, path)) from error
    return module


def _module_name(path: str) -> str:
    """Name a file's module so that files of the same name in other folders are told apart."""
    from binascii import crc32

    stem = os.path.splitext(os.path.basename(path))[0]
    return f"_wherry_{crc32(os.fsencode(path)):08x}_{stem}"


def _import_module(place: str) -> ModuleType:
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name and f"{place}.".startswith(f"{error.name}."):
            raise ComponentError(_no_module(place, error.name)) from None
        raise ComponentError(_why_not(error, place)) from error
    except (ValueError, TypeError) as error:
        if place and all(part.isidentifier() for part in place.split(".")):
            raise ComponentError(_why_not(error, place)) from error
        raise ComponentError(f"{place!r} is neither a .py file nor a module's name") from None
    except (Exception, SystemExit) as error:
        raise ComponentError(_why_not(error, place)) from error


def _function(module: ModuleType, name: str, place: str) -> Callable[..., Any]:
    fn: Callable[..., Any] | None = getattr(module, name, None) if name else None
    if fn is not None:
        return fn
    there = _functions(module)
    if name:
        raise ComponentError(f"{place}: {unknown('function', name, there)}")
    shown = " or ".join(f"{place}:{known}" for known in there[:3]) or f"{place}:function"
    raise ComponentError(f"{place} does not say which function; write {shown}")


def _functions(module: ModuleType) -> list[str]:
    """Name a module's own public functions: its components, or all where it has none."""
    own = {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    }
    return sorted(name for name, value in own.items() if returns_app(value)) or sorted(own)


def _no_file(shown: str, path: str) -> str:
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        return f"no file {shown}: there is no folder {folder}"
    close = nearest(os.path.basename(path), [n for n in os.listdir(folder) if n.endswith(".py")])
    hint = f"; did you mean {os.path.join(os.path.dirname(shown), close)}?" if close else ""
    return f"no file {shown} (looked in {folder}){hint}"


def _no_module(place: str, missing: str) -> str:
    file = place.replace(".", os.sep) + ".py"
    hint = f"; did you mean the file {file}?" if os.path.exists(file) else ""
    return f"no module {missing!r}{hint}"


def _why_not(error: BaseException, shown: str, path: str = "") -> str:
    """Say in one line why a file or a module does not load, and where."""
    if isinstance(error, SyntaxError):
        text = f": {error.text.strip()}" if error.text else ""
        return f"{_at(error.filename, error.lineno, shown, path)}: {error.msg}{text}"
    file, line = _line_of(error, path)
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"{_at(file, line, shown, path)}: does not load: {what}"


def _at(file: str | None, line: int | None, shown: str, path: str) -> str:
    place = shown if not file or file == path else file
    return f"{place}:{line}" if line else place


def _line_of(error: BaseException, path: str) -> tuple[str, int]:
    """Return the innermost line of the file itself; of any file when it has none."""
    file, line = "", 0
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name == path or (not path and not name.startswith(_FROZEN) and name != __file__):
            file, line = name, trace.tb_lineno
        trace = trace.tb_next
    return file, line
