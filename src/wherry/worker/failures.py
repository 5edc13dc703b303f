"""An exception of the user's function, as data for the client and as text for the log."""

from __future__ import annotations

import sys

from . import values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from .formats import Buffer, Failure

_MESSAGE_MOST = 64 << 10


def describe(error: BaseException, kind: str) -> Failure:
    """Return what is told of an exception; the worker's own frames are left out."""
    said: Failure = {
        "kind": kind,
        "type": type_name(type(error)),
        "message": _message(error)[:_MESSAGE_MOST],
        "traceback": traceback_of(error),
    }
    if isinstance(error, MemoryError):
        said["limit"] = _memory_limit()
    return said


def _memory_limit() -> int:
    """Return the bytes that this process may use; 0 when nothing but the machine bounds it."""
    import resource

    found = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_DATA, resource.RLIMIT_AS)]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path, encoding="ascii") as file:
                found.append(int(file.read()))
        except (OSError, ValueError):
            continue
    return min((limit for limit in found if 0 < limit < 1 << 60), default=0)


def plain(kind: str, message: str) -> Failure:
    """Return a failure that is no exception of the user's."""
    return {"kind": kind, "type": "", "message": message, "traceback": ""}


def type_name(kind: type) -> str:
    """Return an exception class's name with its module, unless that is `builtins`."""
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def traceback_of(error: BaseException) -> str:
    """Return the traceback as Python prints it, from the user's first frame on."""
    try:
        import traceback

        shown = _without_own(error.__traceback__)
        lines = traceback.format_exception(type(error), error, shown)
        return "".join(lines)
    except Exception as trouble:  # noqa: BLE001 — an exception's own __str__ may raise anything
        return f"{type_name(type(error))} (its traceback cannot be shown: {trouble!r})\n"


def record_of(error: BaseException) -> list[Buffer] | None:
    """Return the exception's record; None when it cannot be pickled, or not be loaded again."""
    try:
        parts = values.dump(error)
        values.load(b"".join(parts), "the exception", "")
    except Exception:  # noqa: BLE001 — the text is what the client gets instead
        return None
    return parts


def say(failure: Failure) -> None:
    """Write a failure to the log."""
    text = failure.get("traceback") or f"wherry: {failure['message']}\n"
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as trouble:  # noqa: BLE001 — an exception's own __str__ may raise anything
        return f"(its message cannot be shown: {trouble!r})"


def _without_own(trace: TracebackType | None) -> TracebackType | None:
    shown = trace
    while shown is not None and _is_own(shown):
        shown = shown.tb_next
    return shown or trace


def _is_own(trace: TracebackType) -> bool:
    return trace.tb_frame.f_globals.get("__package__") == __package__
