"""Calls without naming an executor: on the one that `using` or the configuration has chosen."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from wherry.errors import ConfigError, UsageError
from wherry.functions import records
from wherry.functions.executor import Executor
from wherry.functions.kinds import make_executor

if TYPE_CHECKING:
    from wherry.functions.array import ArrayJob
    from wherry.functions.handle import Job

ExecutorT = TypeVar("ExecutorT", bound=Executor)

_chosen: contextvars.ContextVar[Executor | None] = contextvars.ContextVar("executor", default=None)
_made: dict[tuple[str, str], Executor] = {}
_DEFAULT = "local"


@contextlib.contextmanager
def using(executor: ExecutorT) -> Iterator[ExecutorT]:
    """Let `submit` and `map_array` use an executor within a ``with`` block.

    Args:
        executor: the executor.
    """
    if not isinstance(executor, Executor):
        raise UsageError(f"using takes an executor, such as LocalExecutor(), not {executor!r}")
    token = _chosen.set(executor)
    try:
        yield executor
    finally:
        _chosen.reset(token)


def default_executor() -> Executor:
    """Return the executor that is used when none is named.

    It is that of the innermost `using`; else what ``[executor]`` in ``wherry.toml``, or
    ``WHERRY_EXECUTOR``, says; else a `LocalExecutor`.

    Raises:
        ConfigError: the configuration names an executor, or an argument of one, that there is not.
    """
    chosen = _chosen.get()
    if chosen is not None:
        return chosen
    from wherry.runner.config import Config

    settings = Config().executor()
    kind = settings.pop("kind", None)
    name = str(kind.value) if kind is not None else _DEFAULT
    values = {key: setting.value for key, setting in settings.items()}
    key = (name, repr(sorted(values.items())))
    if key not in _made:
        try:
            _made[key] = make_executor(name, values)
        except (UsageError, TypeError) as error:
            sources = [setting.source for setting in (kind, *settings.values()) if setting]
            where = sources[0] if sources else "the default executor"
            raise ConfigError(f"{where}: executor {name!r}: {error}") from None
    return _made[key]


def submit(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Run ``fn(*args, **kwargs)`` as a job on the default executor; see `Executor.submit`."""
    return default_executor().submit(fn, *args, **kwargs)


def map_array(
    fn: Callable[..., Any],
    /,
    *iterables: Iterable[Any],
    chunksize: int = 1,
    max_failures: int | None = None,
) -> ArrayJob:
    """Run ``fn`` for each item on the default executor; see `Executor.map_array`."""
    executor = default_executor()
    return executor.map_array(fn, *iterables, chunksize=chunksize, max_failures=max_failures)


def job(id: str) -> Any:  # noqa: A002 — that is what it is called everywhere
    """Return a job by its id, whichever executor of this machine has submitted it.

    The beginning of an id will do, if only one job's begins so.

    Raises:
        UnknownAppError: this machine knows no such job.
    """
    whole, colon, number = id.partition(":")
    entry = records.find(whole)
    return executor_of(entry).attach(f"{entry.id}{colon}{number}")


def jobs(kind: str | None = None, status: Any = None, since: float | None = None) -> Iterator[Job]:
    """Give the jobs that this machine knows, of all executors, newest first.

    Args:
        kind: single, array or gang; the parts of jobs are not listed.
        status: only those in this state, or in one of these.
        since: only those submitted at or after this (seconds since the epoch).
    """
    from wherry.errors import UnknownAppError
    from wherry.functions.kinds import checked_kind, wanted_states

    checked_kind(kind)
    wanted = wanted_states(status)
    for entry in records.entries():
        if kind not in (None, entry.kind) or (since is not None and entry.created < since):
            continue
        try:
            found = executor_of(entry).look_up(entry.id)
        except UnknownAppError:
            records.remove(entry.id)  # Its objects were removed by somebody else.
            continue
        if not wanted or found.status in wanted:
            yield found


def executor_of(entry: records.Entry) -> Executor:
    """Return an executor like the one that has submitted a job; equal ones are made once."""
    settings = {**entry.settings, "store": entry.store}
    key = (entry.environment, repr(sorted(settings.items(), key=repr)))
    if key not in _made:
        _made[key] = make_executor(entry.environment, settings)
    return _made[key]
