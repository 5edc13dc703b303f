"""How a call is submitted: packed, stored, recorded under its final name, and only then started.

A client may die between any two of these steps. Before the record is written there is no job;
after it, whoever takes the job up finds it started, or starts it under the name in the record,
which its scheduler gives to one app only.
"""

from __future__ import annotations

import json
import platform
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from wherry.errors import LaunchError, UsageError
from wherry.functions import payload, records
from wherry.functions.files import stored_inputs
from wherry.functions.options import Escalate, Options
from wherry.functions.records import AppPart, JobRecord
from wherry.functions.starting import first_start, handle_of, progress_of
from wherry.home import home
from wherry.specs.app import AppDef, RetryPolicy, RetryRule, RetryScope
from wherry.specs.plain import app_from_plain, to_plain
from wherry.worker.formats import FORMAT, call_key

if TYPE_CHECKING:
    from wherry.functions.array import ArrayJob
    from wherry.functions.executor import Executor
    from wherry.worker.formats import Call

LARGEST_ARRAY = 10_000
BEAT = 60.0
"""Seconds between two signs of life of a job that runs elsewhere; one more at each new phase."""

_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_NAME = 48
_EXCEPTION_CODE = "1"


def submit_call(
    executor: Executor,
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Options,
) -> Any:
    """Submit one call, or a gang's; returns its job."""
    executor.check(options)
    executor.warm_up()
    function = payload.function_record(fn, options.modules)
    arguments = None
    if args or kwargs:
        with payload.by_value(fn, options.modules):
            arguments = payload.arguments_record(args, kwargs)
    named = [function.pickled, *([arguments.pickled] if arguments is not None else [])]
    call = _call(executor, fn, function, named, options)
    if arguments is not None:
        call["arguments"] = payload.stored(executor.store, arguments.parts)
    kind = "gang" if options.nodes > 1 else "single"
    if kind == "gang":
        call["nodes"] = options.nodes
    return _submit(executor, call, kind, job_name(fn, options), options, options.nodes)


def submit_map(
    executor: Executor,
    fn: Callable[..., Any],
    items: Iterable[tuple[Any, ...]],
    options: Options,
    chunksize: int,
    max_failures: int | None,
) -> ArrayJob:
    """Submit a map; returns its job.

    Raises:
        UsageError: it has no items, or is asked to be a gang as well.
    """
    executor.check(options)
    executor.warm_up()
    if options.nodes > 1:
        raise UsageError("a map's items run one by one; nodes= goes with submit")
    if isinstance(options.memory, Escalate):
        raise UsageError(
            f"memory={options.memory!r} goes with submit; give a map one amount, and run what fell "
            f"short again with more: runs.retry_failed(memory={options.memory[-1]:g})"
        )
    function = payload.function_record(fn, options.modules)
    with payload.by_value(fn, options.modules):
        parts, count = payload.items_record(items)
    if not count:
        raise UsageError("the map has no items; there is nothing to run")
    call = _call(executor, fn, function, [function.pickled, *parts[2:3]], options)
    call["items"] = payload.stored(executor.store, parts)
    call["count"] = count
    call["chunksize"] = chunksize
    call["parallel"] = max(1, int(options.cores))
    made: ArrayJob = _submit(
        executor,
        call,
        "array",
        job_name(fn, options),
        options,
        -(-count // chunksize),
        max_failures=max_failures,
    )
    return made


def submit_again(
    executor: Executor,
    record: JobRecord,
    indices: Sequence[int] | None,
    memory: float | None = None,
) -> Any:
    """Submit a recorded call again; of a map, only some of its items; maybe with other memory."""
    call: Call = json.loads(json.dumps(record.call))
    count, chunksize = record.count, record.chunksize
    if indices is None:
        indices = record.indices
    if indices is not None:
        count, chunksize = len(indices), 1 if record.kind == "array" else chunksize
        call["indices"] = list(indices)
    if record.kind == "array":
        call["count"], call["chunksize"] = count, chunksize
    options = Options(
        retries=record.retries,
        retry_exceptions=record.retry_exceptions,
        nodes=record.children if record.kind == "gang" else 1,
        memory=memory if memory is not None or not record.memory else Escalate(*record.memory),
    )
    children = -(-count // chunksize) if record.kind == "array" else record.children
    return _submit(
        executor,
        call,
        record.kind,
        record.name,
        options,
        children,
        max_failures=record.max_failures,
        earlier=record,
    )


def again_as(executor: Executor, record: JobRecord, job: str) -> AppPart:
    """Store the call of a job of one app under another name, and make the app that runs it."""
    call: Call = {**record.call, "job": job}  # type: ignore[typeddict-item]  # from its own JSON
    shape = _Shape(record.kind, record.name, 0, record.children)
    return _app(executor, call, shape, Options(), record)


def _call(
    executor: Executor, fn: Any, function: payload.Record, pickles: list[Any], options: Options
) -> Call:
    import cloudpickle  # type: ignore[import-untyped]

    store = executor.store
    call: Call = {
        "version": FORMAT,
        "python": platform.python_version(),
        "cloudpickle": cloudpickle.__version__,
        "function": payload.stored(store, function.parts),
        "outputs": list(options.outputs),
        "environ": {name: str(value) for name, value in options.env.items()},
    }
    if options.inputs:
        call["inputs"] = stored_inputs(options.inputs, store)
    if options.deps is not None and (install := options.deps.install()):
        call["deps"] = install
    if options.initializer is not None:
        start = payload.initializer_record(options.initializer, options.initargs, options.modules)
        call["initializer"] = payload.stored(store, start.parts)
    if not executor.in_place:
        call["beat"] = BEAT
    executor.localize(call, options)
    from wherry.functions.code import add_code

    add_code(call, executor, fn, pickles, options)
    return call


def _submit(
    executor: Executor,
    call: Call,
    kind: str,
    name: str,
    options: Options,
    children: int,
    *,
    max_failures: int | None = None,
    earlier: JobRecord | None = None,
) -> Any:
    job = records.make_id(name)
    executor.step("packed", job)
    apps = [
        _app(
            executor,
            _numbered(call, job, first),
            _Shape(kind, name, first, min(LARGEST_ARRAY, children - first)),
            options,
            earlier,
        )
        for first in range(0, children, LARGEST_ARRAY)
    ]
    record = JobRecord(
        id=job,
        kind=kind,
        name=name,
        created=time.time(),
        environment=executor.environment,
        settings=executor.settings(),
        store=executor.store.url,
        scheduler=executor.scheduler.backend,
        session=executor.session,
        cfg=dict(earlier.cfg if earlier is not None else executor.cfg(options)),
        apps=tuple(apps),
        count=call.get("count", children),
        chunksize=call.get("chunksize", 1),
        indices=tuple(call["indices"]) if "indices" in call else None,
        max_failures=max_failures,
        retries=options.retries,
        retry_exceptions=options.retry_exceptions,
        retry_of=earlier.id if earlier is not None else None,
        call=call,
        python=platform.python_version(),
        host=platform.node(),
        inputs=tuple(call.get("inputs", ())),
        memory=tuple(options.memory) if isinstance(options.memory, Escalate) else (),
        client=records.own_mark(),
        home=home(),
    )
    executor.step("stored", job)
    if not records.write(record, executor.store):
        raise LaunchError(f"{executor.store.url} has a job {job} already; submit it again")
    executor.step("recorded", job)
    first_start(executor, record)
    executor.step("submitted", job)
    made = handle_of(executor, progress_of(executor, record))
    executor.submitted(made)
    if max_failures is not None:
        made.watch()
    return made


class _Shape(NamedTuple):
    """One app of a job: what kind of job it is of, and which children it has."""

    kind: str
    name: str
    first: int
    children: int

    @property
    def is_array(self) -> bool:
        """Whether there is anything to be independent of."""
        return self.kind == "array" and self.children > 1


def _numbered(call: Call, job: str, first: int) -> Call:
    """Return the call document of the app that has the children from ``first`` on."""
    if not first:
        return {**call, "job": job}
    return {**call, "job": f"{job}.{first // LARGEST_ARRAY}", "first": first}


def _app(
    executor: Executor, call: Call, shape: _Shape, options: Options, earlier: JobRecord | None
) -> AppPart:
    """Store one app's call document, and make the app."""
    app_id = call["job"]
    text = json.dumps(call, separators=(",", ":")).encode()
    executor.store.write(call_key(app_id), [text])
    url = f"{executor.store.url}/{call_key(app_id)}"
    if earlier is not None:
        app = _changed_app(earlier, url, shape, options.first_memory)
    else:
        app = AppDef(
            name=shape.name,
            roles=[executor.role(url, call, options, shape.children)],
            array=shape.is_array,
            timeout=options.timeout,
        )
    named = executor.app_id(app_id, shape.name)
    return AppPart(named, shape.first, shape.children, to_plain(app), app_id)


def _changed_app(
    earlier: JobRecord, url: str, shape: _Shape, memory: float | None = None
) -> AppDef:
    """Return an earlier job's app for another call, number of children and amount of memory."""
    before = earlier.apps[0]
    old = f"{earlier.store}/{call_key(before.job)}"
    plain = json.loads(json.dumps(to_plain(before.plain)).replace(_inside(old), _inside(url)))
    plain["roles"][0]["num_replicas"] = shape.children
    plain["array"] = shape.is_array
    if memory is not None:
        from wherry.functions.escalation import with_memory

        plain = with_memory(plain, memory)
    return app_from_plain(plain)


def _inside(text: str) -> str:
    """Write a text as it stands within a JSON text."""
    return json.dumps(text)[1:-1]


def retry_policy(options: Options) -> RetryPolicy:
    """Return what is retried: not what the function raised itself, unless that is asked for."""
    if options.retry_exceptions:
        return RetryPolicy.REPLICA
    return RetryPolicy(RetryScope.REPLICA, (RetryRule(False, exit_code=_EXCEPTION_CODE),))


def variables(options: Options) -> dict[str, str]:
    """Return the variables that a call asks for, as a role has them: from the start on.

    The worker sets them too; what Python reads at its start, such as ``PYTHONPATH``, must be there
    before.
    """
    return {name: str(value).replace("$", "$$") for name, value in options.env.items()}


def job_name(fn: Any, options: Options) -> str:
    """Return a job's name: the one that is asked for, or one made of the function's.

    Raises:
        UsageError: it cannot be a name.
    """
    name = options.name
    if name is not None:
        if _NAME.search(name) or not name[:1].isalnum() or len(name) > _LONGEST_NAME:
            raise UsageError(
                f"a job's name has 1 to {_LONGEST_NAME} letters, digits, '-', '_' or '.', "
                f"beginning with a letter or digit, not {name!r}"
            )
        return name
    inner = fn
    while type(inner).__module__ == "functools" and hasattr(inner, "func"):
        inner = inner.func
    found = getattr(inner, "__name__", None) or type(inner).__name__
    plain = _NAME.sub("-", found).strip("-_.")[:_LONGEST_NAME]
    return plain or "call"
