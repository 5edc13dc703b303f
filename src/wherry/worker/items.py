"""One item: the function called with its arguments, and what came of it."""

from __future__ import annotations

import resource
import sys
import time
import warnings

from . import failures, values
from .faults import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .formats import Buffer, Failure, Item

    Done = tuple[Item, list[Buffer], int]

_WARNINGS_MOST = 1_000


class Warned:
    """Takes note of warnings while they go to the log as ever."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def __enter__(self) -> Warned:
        self._context = warnings.catch_warnings()
        self._context.__enter__()
        self._show = warnings.showwarning
        warnings.showwarning = self._note
        return self

    def __exit__(self, *_: object) -> None:
        self._context.__exit__(None, None, None)

    def _note(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: Any = None,
        line: str | None = None,
    ) -> None:
        if len(self.seen) < _WARNINGS_MOST:
            name = failures.type_name(category)
            seen = {"message": str(message), "category": name}
            self.seen.append({**seen, "filename": filename, "lineno": lineno})
        self._show(message, category, filename, lineno, file, line)


def run_item(
    function: Callable[..., Any], arguments: Callable[[], tuple[Any, Any]], item: int
) -> Done:
    """Call a function and pickle what it returns.

    Args:
        function: the user's.
        arguments: loads them.
        item: its number.

    Returns:
        What came of it; the record of the value or of the exception, as parts (none when there is
        none); the exit code that stands for it.
    """
    try:
        args, kwargs = arguments()
    except Fault as fault:
        said = failures.describe(fault.__cause__ or fault, fault.kind)
        said["message"] = str(fault)
        return {"item": item, "ok": False, "error": said, "wall": 0.0, "cpu": 0.0}, [], 1
    began, cpu_began = time.monotonic(), _cpu()
    error: BaseException | None = None
    value: Any = None
    with Warned() as warned:
        try:
            value = function(*args, **kwargs)
        except BaseException as raised:  # noqa: BLE001 — whatever it raises is the outcome
            error = raised
    made: Item = {
        "item": item,
        "ok": error is None,
        "warnings": warned.seen,
        "wall": round(time.monotonic() - began, 6),
        "cpu": round(_cpu() - cpu_began, 6),
    }
    if error is not None:
        return _failed(made, error)
    del args, kwargs
    return _succeeded(made, value)


def _succeeded(made: Item, value: Any) -> Done:
    why = values.is_never_pickled(value)
    if not why:
        try:
            return made, values.dump(value), 0
        except Exception as error:  # noqa: BLE001 — pickling runs the user's code
            why = values.why_not_dumped(value, error)
    return _refused(made, failures.plain("result", why))


def _refused(made: Item, said: Failure) -> Done:
    made["ok"] = False
    made["error"] = said
    failures.say(said)
    return made, [], 1


def _failed(made: Item, error: BaseException) -> Done:
    kind = "exit" if isinstance(error, SystemExit) else "exception"
    made["error"] = said = failures.describe(error, kind)
    code = exit_code(error)
    if kind == "exception":
        failures.say(said)
    elif error.code is not None and not isinstance(error.code, int):  # type: ignore[attr-defined]
        sys.stderr.write(f"{said['message']}\n")
    return made, failures.record_of(error) or [], code


def exit_code(error: BaseException) -> int:
    """Return the code with which Python would end for an exception."""
    if isinstance(error, KeyboardInterrupt):
        return 130
    if not isinstance(error, SystemExit):
        return 1
    if error.code is None:
        return 0
    return error.code & 0xFF if isinstance(error.code, int) else 1


def _cpu() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    below = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime
