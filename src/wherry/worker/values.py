"""Values to records and back, with large buffers beside the pickle and never copied."""

from __future__ import annotations

import sys
from _pickle import PickleError, dumps, loads

from .faults import Fault
from .formats import read_record, record_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .formats import Buffer

_LOOKS_MOST = 2_000
_DEPTH_MOST = 6


def load(data: Buffer, what: str, made_by: str) -> Any:
    """Return the value of a record.

    Args:
        data: the record; large arrays become views of it.
        what: the value's name in messages, such as "the function".
        made_by: the Python version of the client, such as "3.12.1".

    Raises:
        Fault: it does not load here; of kind "python" when that is for its version.
    """
    pickled, buffers = read_record(data)
    _refuse_other_python(pickled, what, made_by)
    try:
        return loads(pickled, buffers=buffers)
    except Exception as error:
        raise Fault(_why_not_loaded(error, what), "unpickle") from error


def dump(value: Any) -> list[Buffer]:
    """Return a value's record as parts; the large buffers in it are the value's own.

    Raises:
        Exception: whatever pickling raises; `why_not_dumped` makes a sentence of it.
    """
    buffers: list[Any] = []
    try:
        pickled = dumps(value, protocol=5, buffer_callback=buffers.append)
    except (PickleError, AttributeError, TypeError, ImportError):
        # What is defined in a notebook or inside a function goes by value.
        import cloudpickle  # type: ignore[import-untyped]

        buffers.clear()
        pickled = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return record_parts(pickled, [buffer.raw() for buffer in buffers])


def is_never_pickled(value: Any) -> str:
    """Tell why a value of this type can have no record; empty when it may."""
    name = type(value).__name__
    if name in ("generator", "async_generator"):
        return f"The function returned a {name}, which cannot leave its process: return a list."
    if name == "coroutine":
        return (
            "The function returned a coroutine, which was never run: it is an `async def`. "
            "Call it by asyncio.run inside a plain function."
        )
    return ""


def why_not_dumped(value: Any, error: BaseException) -> str:
    """Say which part of a value cannot be pickled, and why."""
    kind = _name(type(value))
    if isinstance(error, RecursionError):
        return (
            f"The value, a {kind}, nests too deeply to be pickled "
            f"(the recursion limit is {sys.getrecursionlimit():,}): return something flatter."
        )
    if isinstance(error, MemoryError):
        return f"There is not enough memory to pickle the value, a {kind}."
    path, culprit = find_unpicklable(value)
    where = f": value{path} is a {_name(type(culprit))}" if path else ""
    return (
        f"The value, a {kind}, cannot be pickled{where} ({_said(error)}). "
        "Return plain data, or leave that part out (__getstate__)."
    )


def find_unpicklable(value: Any) -> tuple[str, Any]:
    """Find the innermost part of a value that cannot be pickled.

    Returns:
        How it is reached, such as ``.model.lock`` or ``["a"][3]``, and the part itself.
    """
    looks = 0
    path = ""
    for _ in range(_DEPTH_MOST):
        for step, member in _members(value):
            looks += 1
            if looks > _LOOKS_MOST:
                return path, value
            if not _can_dump(member):
                path += step
                value = member
                break
        else:
            return path, value
    return path, value


def _members(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(f"[{key!r}]", member) for key, member in value.items()]
    if isinstance(value, (list, tuple)):
        return [(f"[{place}]", member) for place, member in enumerate(value)]
    if isinstance(value, (set, frozenset)):
        return [("{…}", member) for member in value]
    closure = getattr(value, "__closure__", None)
    if closure:
        names = value.__code__.co_freevars
        return [
            (f" (its variable {names[place]!r})", cell.cell_contents)
            for place, cell in enumerate(closure)
        ]
    own = getattr(value, "__dict__", None)
    if not isinstance(own, dict) or isinstance(value, type):
        return []
    return [(f".{name}", member) for name, member in own.items()]


def _can_dump(value: Any) -> bool:
    try:
        dump(value)
    except Exception:  # noqa: BLE001 — asked for nothing but that
        return False
    return True


def _refuse_other_python(pickled: memoryview, what: str, made_by: str) -> None:
    theirs = made_by.split(".")[:2]
    here = [str(number) for number in sys.version_info[:2]]
    if not made_by or theirs == here or not _has_code(pickled):
        return
    wanted, have = ".".join(theirs), ".".join(here)
    raise Fault(
        f"This Python is {have} ({sys.executable}) and the client's is {wanted}: {what} holds "
        "code by value, which no other minor version can run. Use an image with Python "
        f"{wanted}, a client with Python {have}, or put the function into a module that is "
        "shipped with the call (code=…), so that it goes by name.",
        "python",
    )


def _has_code(pickled: memoryview) -> bool:
    import re

    return bool(re.search(b"cloudpickle", pickled) and re.search(b"CodeType", pickled))


def _why_not_loaded(error: BaseException, what: str) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return (
            f"Loading {what} needs the module {error.name!r}, which is not here: ship it with the "
            f"call (code=…, Deps(modules=…)), install it (Deps(pip=[{error.name.split('.')[0]!r}]))"
            " or use an image that has it."
        )
    if isinstance(error, RecursionError):
        return f"{what[:1].upper()}{what[1:]} nests too deeply to be unpickled: pass less nesting."
    if isinstance(error, MemoryError):
        return f"There is not enough memory to load {what}."
    return (
        f"{what[:1].upper()}{what[1:]} cannot be unpickled here: {_said(error)}. "
        "The versions of its packages may differ between the client and this machine."
    )


def _name(kind: type) -> str:
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def _said(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
