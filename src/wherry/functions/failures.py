"""From what is known of a job that has no value to the exception that says so."""

from __future__ import annotations

import concurrent.futures
import pickle
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from wherry import errors
from wherry.errors import JobError
from wherry.specs.states import AppState
from wherry.worker.formats import read_record

if TYPE_CHECKING:
    from wherry.specs.status import ReplicaStatus
    from wherry.worker.formats import Failure, Header


class RemoteTraceback(Exception):  # noqa: N818 — the cause that an exception is shown with
    """The traceback of an exception, as it was in the job."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text}"


class JobCancelledError(errors.JobCancelledError, concurrent.futures.CancelledError):
    """Somebody ended the job."""


_MORE_MEMORY = "ask for more with memory=GiB, or memory=Escalate(…)"
_DEPS = "see the job's log (`job.log()`) for the installer's own words"
_ADVICE: Mapping[str, tuple[type[errors.WherryError], str]] = {
    "deps": (errors.DepsError, _DEPS),
    "fetch": (errors.StoreError, "see that the store's objects are there and may be read there"),
    "unpickle": (
        errors.PayloadError,
        "see that the job has what the call needs: deps=Deps(pip=[…]), code=…, Deps(modules=[…])",
    ),
    "result": (
        errors.ResultError,
        "return plain data, or write a file and name it in outputs=[…]",
    ),
    "store": (errors.ResultError, "see that the store has room and that the job may write to it"),
    "output": (errors.ResultError, "see the patterns in outputs=[…]; they are relative to the cwd"),
    "python": (errors.PayloadError, "use an image with a Python of 3.9 or later"),
    "lost": (errors.JobKilledError, "see the job's log (`job.log()`); a smaller chunk may help"),
}
"""Kind of failure → its exception, and what to do."""


def of_failure(failure: Failure, parts: list[memoryview], header: Header) -> BaseException:
    """Make the exception for a failure that the worker has told.

    Args:
        failure: what it told.
        parts: the outcome's parts.
        header: the outcome's header.
    """
    kind = failure.get("kind", "exception")
    if kind in ("exception", "initializer"):
        made = _unpickled(failure, parts) or _told(failure)
        if is_of_memory(failure):
            made = _short_of_memory(failure)
    elif kind == "exit":
        made = errors.JobExitError(
            f"the function ended its process: {failure.get('type', 'SystemExit')}"
            f"({failure.get('message', '')}), exit code {header.get('exit', '?')}; return a value "
            "instead"
        )
    else:
        made = _named(kind, failure)
    if failure.get("traceback"):
        made.__cause__ = RemoteTraceback(failure["traceback"])
    return made


def is_of_memory(failure: Failure) -> bool:
    """Tell whether a failure that the worker has told is one of too little memory."""
    return "limit" in failure or failure.get("type") == "MemoryError"


def _short_of_memory(failure: Failure) -> BaseException:
    limit = failure.get("limit", 0)
    had = f", which may use {limit >> 20:,} MiB," if limit else ""
    words = failure.get("message") or failure.get("type", "MemoryError")
    return errors.JobMemoryError(f"the job{had} ran out of memory: {words}; {_MORE_MEMORY}")


def of_replica(
    replica: ReplicaStatus | None,
    state: AppState,
    why: str,
    job: str,
    cause: str = "",
    limit: int = 0,
) -> BaseException:
    """Make the exception for a process that ended and left no outcome.

    Args:
        replica: what the scheduler knows of it.
        state: how it ended.
        why: why, in the scheduler's words.
        job: the job's id, for the message.
        cause: the code of the diagnosis, where there is one.
        limit: MiB that the process may use; 0 when it is not known.
    """
    attempt = replica.attempts[-1] if replica is not None and replica.attempts else None
    reason = (attempt.reason if attempt is not None else "") or why
    told = f"job {job}: {reason or state.name.lower()}"
    code = attempt.exit_code if attempt is not None else None
    signal = attempt.signal if attempt is not None else None
    for applies, make in _TABLE:
        if applies(state, code, signal, f"{reason} {why}".lower(), cause):
            error = make(told, code, signal)
            if isinstance(error, errors.JobMemoryError) and limit and f"{limit} MiB" not in told:
                error = make(f"{told} (the limit is {limit} MiB)", code, signal)
            return error
    return JobError(f"{told}; `job.why()` says more, and its log is in `job.log()`")


Facts = tuple[AppState, "int | None", "str | None", str, str]
_SIGNAL_CODES = range(129, 160)
EXIT_NOT_FOUND = 127
"""The first command of an image without Python leaves with it, as shells do."""

EXIT_UNSTORED = 74
"""The worker leaves with it when not even a failure could be stored."""


def _cancelled(state: AppState, *_: object) -> bool:
    return state is AppState.CANCELLED


def _timed_out(
    _: AppState, _code: int | None, _signal: str | None, reason: str, cause: str
) -> bool:
    return "timed out" in reason or "timeout" in reason or "timeout" in cause


def _no_memory(_: AppState, code: int | None, signal: str | None, reason: str, cause: str) -> bool:
    told = "out of memory" in reason or "outofmemory" in reason or "memory" in cause
    return told and (code is not None or signal is not None or "memory" in reason)


def _killed(_: AppState, code: int | None, signal: str | None, *_rest: object) -> bool:
    return signal is not None or (code is not None and code in _SIGNAL_CODES)


def _left(_: AppState, code: int | None, *_rest: object) -> bool:
    return code is not None and code != 0


def _unstored(_: AppState, code: int | None, *_rest: object) -> bool:
    return code == EXIT_UNSTORED


def _not_found(_: AppState, code: int | None, *_rest: object) -> bool:
    return code == EXIT_NOT_FOUND


def _silent(state: AppState, *_: object) -> bool:
    return state is AppState.SUCCEEDED


def _expired(state: AppState, *_: object) -> bool:
    return state is AppState.EXPIRED


def _signal_name(code: int | None, signal: str | None) -> str:
    from wherry.specs import exits

    return signal or (exits.signal_of(code) if code is not None else None) or "a signal"


def _of_signal(told: str, code: int | None, signal: str | None) -> BaseException:
    from wherry.specs import exits

    name = _signal_name(code, signal)
    known = exits.SIGNALS.get(name)
    hint = f" The process {known.means}. {known.resolution}".rstrip() if known else ""
    return errors.JobKilledError(f"{told}.{hint}" if hint else told)


_TABLE: tuple[
    tuple[Callable[..., bool], Callable[[str, int | None, str | None], BaseException]], ...
] = (
    (_cancelled, lambda told, *_: JobCancelledError(told)),
    (
        _timed_out,
        lambda told, *_: errors.JobTimeoutError(f"{told}; give it longer with timeout=seconds"),
    ),
    (
        _no_memory,
        lambda told, *_: errors.JobMemoryError(f"{told}; {_MORE_MEMORY}"),
    ),
    (_killed, _of_signal),
    (
        _unstored,
        lambda told, *_: errors.ResultError(
            f"{told}; the function ended, and the job could not store what came of it: see that "
            "the store answers and may be written to from there, and run it again (`job.rerun()`); "
            "its log (`job.log()`) has the store's own words"
        ),
    ),
    (
        _not_found,
        lambda told, *_: errors.JobExitError(
            f"{told}; exit code 127: there is no Python in the image; use one with Python 3.9 or "
            "later, such as python:3.12-slim (nothing of Wherry is needed in it)"
        ),
    ),
    (
        _left,
        lambda told, code, _: errors.JobExitError(
            f"{told}; its process left with exit code {code} before there was a value (os._exit, "
            "or the worker could not begin); its log (`job.log()`) says more"
        ),
    ),
    (
        _silent,
        lambda told, *_: errors.ResultError(
            f"{told}: its process ended well and left no result; os._exit(0) skips storing it, "
            "and so does a store that was emptied"
        ),
    ),
    (
        _expired,
        lambda told, *_: errors.ResultError(
            f"{told}: the provider has forgotten it and the store has no result of it"
        ),
    ),
)


def _unpickled(failure: Failure, parts: list[memoryview]) -> BaseException | None:
    """Return the exception itself, when it can be had here."""
    number = failure.get("exception")
    if number is None or number >= len(parts):
        return None
    try:
        pickled, buffers = read_record(parts[number])
        made = pickle.loads(pickled, buffers=buffers)  # noqa: S301 — our own job's
    except Exception:  # noqa: BLE001 — whatever keeps the class from being had here
        return None
    return made if isinstance(made, BaseException) else None


def _told(failure: Failure) -> BaseException:
    name, message = failure.get("type", "an exception"), failure.get("message", "")
    return errors.RemoteError(
        f"{name}: {message}\n(its class cannot be had here, or the exception cannot be pickled; "
        "the job's traceback is the cause of this error)"
    )


def _named(kind: str, failure: Failure) -> BaseException:
    cls, advice = _ADVICE.get(kind, (JobError, "its log is in `job.log()`"))
    name, message = failure.get("type", "").rpartition(".")[2], failure.get("message", "")
    if kind == "fetch":
        cls, advice = _FETCH.get(name, (cls, advice))
    said = message if not name or name in message or name in _FETCH else f"{name}: {message}"
    return cls(f"{said or kind}; {advice}")


_AGAIN = "submit the call again, which sends what is missing"
_FETCH: Mapping[str, tuple[type[errors.StoreError], str]] = {
    "StoreFault": (errors.StoreError, "see that the job may read the store"),
    "MissingObject": (errors.MissingObjectError, _AGAIN),
    "FileNotFoundError": (errors.MissingObjectError, _AGAIN),
    "CorruptObject": (errors.CorruptObjectError, _AGAIN),
}
"""What the worker could not read → its exception, and what to do."""


def placeholder() -> Any:
    """Return what stands in a future for an exception that nobody has asked for yet."""
    return JobError("the job ended without a value; `job.exception()` tells why")
