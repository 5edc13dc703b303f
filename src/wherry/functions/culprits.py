"""Which value it is that cannot be sent to a job, why, and what to do instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from wherry.errors import PayloadError

_DEEPEST = 6
_MOST = 2000

_LOCK = "a lock belongs to one process; make it inside the function, or do without it there"
_GENERATOR = "a generator cannot be copied; make a list of it: list(…)"
_FILE = "an open file belongs to one process; pass its path, or inputs={'name': path}"
_CONNECTION = "a connection belongs to one process; open it inside the function"
_THREAD = "it belongs to this process; make it inside the function"
_MODULE = "import it inside the function"
_FRAME = "frames and tracebacks cannot be copied; pass the text: traceback.format_exc()"

ADVICE: Mapping[str, str] = {
    "_thread.lock": _LOCK,
    "_thread.RLock": _LOCK,
    "threading.Condition": _LOCK,
    "threading.Event": _LOCK,
    "threading.Semaphore": _LOCK,
    "threading.BoundedSemaphore": _LOCK,
    "multiprocessing.synchronize.Lock": _LOCK,
    "builtins.generator": _GENERATOR,
    "builtins.async_generator": _GENERATOR,
    "builtins.coroutine": "a coroutine cannot be copied; pass the function, and await it there",
    "_io.TextIOWrapper": _FILE,
    "_io.BufferedReader": _FILE,
    "_io.BufferedWriter": _FILE,
    "_io.BufferedRandom": _FILE,
    "_io.FileIO": _FILE,
    "sqlite3.Connection": _CONNECTION,
    "sqlite3.Cursor": _CONNECTION,
    "socket.socket": _CONNECTION,
    "_socket.socket": _CONNECTION,
    "ssl.SSLContext": _CONNECTION,
    "_ssl._SSLContext": _CONNECTION,
    "http.client.HTTPConnection": _CONNECTION,
    "threading.Thread": _THREAD,
    "_thread._local": _THREAD,
    "_thread._localdummy": _THREAD,
    "subprocess.Popen": _THREAD,
    "concurrent.futures.thread.ThreadPoolExecutor": _THREAD,
    "weakref.ReferenceType": _THREAD,
    "weakref": _THREAD,
    "builtins.frame": _FRAME,
    "builtins.traceback": _FRAME,
    "builtins.module": _MODULE,
}
"""Type → what to do instead."""

_DEPTH = "they nest too deeply to be pickled; pass something flatter, such as a list of rows"
_OTHERWISE = (
    "give its class a __reduce__ or __getstate__ that leaves out what cannot be copied, or make it "
    "inside the function"
)
_NEVER = frozenset(
    name
    for name, advice in ADVICE.items()
    if advice in (_GENERATOR, _FILE) or name == "builtins.coroutine"
)


def type_name(value: object) -> str:
    """Return a value's type as ``module.qualname``."""
    cls = type(value)
    return f"{cls.__module__}.{cls.__qualname__}"


def shown_type(value: object) -> str:
    """Return a value's type as one says it."""
    return type_name(value).removeprefix("builtins.")


def size_text(size: int) -> str:
    """Write a number of bytes for people."""
    amount = float(size)
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def check_arguments(
    args: Sequence[Any], kwargs: Mapping[str, Any], item: int | None = None
) -> None:
    """Refuse arguments that are known to make no sense elsewhere.

    Raises:
        PayloadError: a generator, a coroutine or an open file.
    """
    for name, value in _named(args, kwargs):
        if type_name(value) in _NEVER:
            raise PayloadError(_sentence(_of_item(name, item), value, ADVICE[type_name(value)]))


def of_arguments(
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    error: Exception,
    item: int | None = None,
) -> PayloadError:
    """Say which argument cannot be sent.

    Args:
        args, kwargs: the arguments.
        error: what pickling said.
        item: the map's item that they are of.
    """
    if _is_too_deep(error):
        return PayloadError(f"{_of_item('the arguments', item)}: {_DEPTH}")
    for name, value in _named(args, kwargs):
        if _refusal(value) is not None:
            return PayloadError(_explained(_of_item(name, item), value, error))
    return PayloadError(f"the arguments cannot be pickled: {_words(error)}")


def of_function(fn: Callable[..., Any], error: Exception) -> PayloadError:
    """Say what in a function cannot be sent."""
    name = getattr(fn, "__qualname__", None) or shown_type(fn)
    for where, value in _used_by(fn):
        if _refusal(value) is not None:
            return PayloadError(_explained(f"{where} of {name}()", value, error))
    return PayloadError(
        f"the function {name} cannot be pickled: {_words(error)}; "
        f"{ADVICE.get(type_name(fn), _OTHERWISE)}"
    )


def any_refused(values: Sequence[Any]) -> bool:
    """Tell whether one of these values cannot be pickled."""
    return any(_refusal(value) is not None for value in values)


def _is_too_deep(error: Exception) -> bool:
    return isinstance(error, RecursionError) or "recursion" in str(error)


def _named(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for number, value in enumerate(args, 1):
        yield f"argument {number}", value
    for name, value in kwargs.items():
        yield f"argument {name!r}", value


def _of_item(name: str, item: int | None) -> str:
    return name if item is None else f"{name} of item {item}"


def _explained(where: str, value: Any, error: Exception) -> str:
    path, inner = _deepest(value)
    if path:
        where = f"{where} ({shown_type(value)}), at {path}"
    why = _refusal(inner) or error
    advice = ADVICE.get(type_name(inner))
    if advice is None:
        return f"{_sentence(where, inner, _OTHERWISE)} ({_words(why)})"
    return _sentence(where, inner, advice)


def _sentence(where: str, value: object, advice: str) -> str:
    kind = shown_type(value)
    article = "an" if kind[:1].lower() in "aeiou" else "a"
    return f"{where} is {article} {kind}, which cannot be sent to a job: {advice}"


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _deepest(value: Any) -> tuple[str, Any]:
    """Go down to the part that cannot be pickled although all of its own parts can."""
    path, budget = "", _MOST
    for _ in range(_DEEPEST):
        for step, part in _parts(value):
            budget -= 1
            if budget < 0:
                return path, value
            if _refusal(part) is not None:
                path, value = path + step, part
                break
        else:
            return path, value
    return path, value


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if type_name(value) in ADVICE:
        return
    if isinstance(value, (list, tuple)):
        for number, part in enumerate(value):
            yield f"[{number}]", part
    elif isinstance(value, dict):
        for key, part in value.items():
            yield f"[{key!r}]", part
    elif isinstance(value, (set, frozenset)):
        for part in value:
            yield "{…}", part
    elif callable(value) and hasattr(value, "__code__"):
        for where, part in _used_by(value):
            yield f": {where}", part
    else:
        for name, part in getattr(value, "__dict__", {}).items():
            yield f".{name}", part


def _used_by(fn: Any) -> Iterator[tuple[str, Any]]:
    """Give what a function brings along, and what it is called there."""
    bound = getattr(fn, "__self__", None)
    if bound is not None and not isinstance(bound, type):
        yield "the object", bound
    for name in ("func", "args", "keywords"):  # functools.partial
        if type_name(fn) == "functools.partial":
            yield f"the partial's {name}", getattr(fn, name)
    code = getattr(fn, "__code__", None)
    if code is None:
        if not isinstance(fn, type):
            yield from ((f"the attribute {n!r}", v) for n, v in getattr(fn, "__dict__", {}).items())
        return
    cells = getattr(fn, "__closure__", None) or ()
    for name, cell in zip(code.co_freevars, cells, strict=False):
        try:
            yield f"the variable {name!r}", cell.cell_contents
        except ValueError:
            continue
    space = getattr(fn, "__globals__", {})
    for name in sorted(_names(code)):
        if name in space:
            yield f"the global {name!r}", space[name]
    for number, value in enumerate(getattr(fn, "__defaults__", None) or ()):
        yield f"default value {number + 1}", value
    for name, value in (getattr(fn, "__kwdefaults__", None) or {}).items():
        yield f"the default of {name!r}", value


def _names(code: Any) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            names |= _names(constant)
    return names


def _refusal(value: Any) -> Exception | None:
    """Return what pickling says of a value; ``None`` when it can be pickled."""
    import cloudpickle  # type: ignore[import-untyped]

    if type_name(value) in _NEVER:
        return TypeError(f"cannot pickle {shown_type(value)!r} object")
    try:
        cloudpickle.dumps(value, protocol=5, buffer_callback=lambda _: None)
    except Exception as error:  # noqa: BLE001 — a __reduce__ of the user's may raise anything
        return error
    return None
