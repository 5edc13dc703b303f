"""``wherry jobs``, ``result``, ``retry`` and ``task-ids``: what became of Python calls."""

from __future__ import annotations

import sys

from wherry.cli.cmd_list import read_states
from wherry.cli.items import read_numbers, show_numbers
from wherry.cli.output import Paint, clean, one_line, print_json, say, table, warn
from wherry.cli.parsing import add_json, checked, one_of, set_completer, whole_number
from wherry.cli.times import read_seconds, read_time, show_time
from wherry.cli.values import print_results, shown, worded
from wherry.errors import StoreError, UnknownAppError, UsageError, WaitTimeout, WherryError
from wherry.specs.states import AppState, is_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator
    from typing import Any

    from wherry.cli.parsing import Parser

_HEAD = ("STATE", "KIND", "CREATED", "ITEMS", "WHERE", "ID")
_KINDS = ("single", "array", "gang")
_DEFAULT_LIMIT = 100
_ITEM_STATES = {
    "failed": (("FAILED", "EXPIRED", "UNKNOWN"), "have ended without a value"),
    "succeeded": (("SUCCEEDED",), "have a value"),
    "running": (("RUNNING",), "run"),
    "pending": (("UNSUBMITTED", "SUBMITTED", "PENDING"), "wait to run"),
    "cancelled": (("CANCELLED",), "were ended by somebody"),
}
_JOB_KEYS = "id, kind, name, state, created, items, environment, handles"


def configure_jobs(parser: Parser) -> None:
    """Describe ``wherry jobs``."""
    parser.description = "List the Python calls that this machine has submitted, newest first."
    parser.add_argument(
        "--kind", type=one_of("kind", _KINDS), metavar="KIND", help="only single, array or gang"
    )
    parser.add_argument(
        "--state",
        action="append",
        default=[],
        type=checked(read_states),
        metavar="STATE,…",
        help="only jobs in one of these states; may be given again",
    )
    parser.add_argument(
        "--since",
        type=checked(read_time),
        metavar="TIME",
        help="only jobs submitted since then: an ISO time, or an age such as 10m, 2h or 7d",
    )
    parser.add_argument(
        "--limit",
        type=whole_number(0),
        default=_DEFAULT_LIMIT,
        metavar="N",
        help=f"at most so many (default {_DEFAULT_LIMIT}; 0 for all)",
    )
    add_json(parser, _JOB_KEYS)
    parser.set_defaults(func=jobs)


def configure_result(parser: Parser) -> None:
    """Describe ``wherry result``."""
    parser.description = (
        "Wait for a call's end and print its value: JSON where it can be that, else as Python "
        "shows it. Of a map, one line for each item."
    )
    _add_job(parser, "; ID:3 is item 3 of a map")
    parser.add_argument(
        "--timeout", type=checked(read_seconds), metavar="TIME", help="wait no longer than that"
    )
    parser.add_argument(
        "--pickle", metavar="FILE", help="write the value to a file, as pickle does, instead"
    )
    add_json(parser, "value (or repr), error, wall, cpu, warnings, stdout, stderr; a map: a list")
    parser.set_defaults(func=result)


def configure_retry(parser: Parser) -> None:
    """Describe ``wherry retry``."""
    parser.description = (
        "Run a call again as a new job, and print its id; of a map, only the items without a "
        "value (failed or cancelled), or those that are named. Arguments are as they were."
    )
    _add_job(parser)
    parser.add_argument(
        "--items",
        type=checked(read_numbers),
        metavar="LIST",
        help="which items of a map, such as 0,4-7; - reads what `wherry task-ids` prints",
    )
    add_json(parser, _JOB_KEYS)
    parser.set_defaults(func=retry)


def configure_task_ids(parser: Parser) -> None:
    """Describe ``wherry task-ids``."""
    parser.description = (
        "Print the numbers of a map's items as a list that `wherry retry --items` takes: of all, "
        "or of those in some states."
    )
    _add_job(parser)
    for word, (_, meaning) in _ITEM_STATES.items():
        parser.add_argument(
            f"--{word}",
            dest="states",
            action="append_const",
            const=word,
            help=f"items that {meaning}; may be combined",
        )
    add_json(parser, "a list of numbers")
    parser.set_defaults(func=task_ids)


def jobs(args: Namespace) -> int:
    """Print the list."""
    import itertools

    states = frozenset().union(*args.state)
    found = _found(args.kind, states, args.since)
    listed = list(itertools.islice(found, args.limit + 1 if args.limit else None))
    shown = listed[: args.limit] if args.limit else listed
    if args.json:
        print_json([_record(job) for job in shown])
        return 0
    if shown:
        print("\n".join(table([_row(job) for job in shown], Paint(sys.stdout), _HEAD)))
    if len(shown) < len(listed):
        say(f"these are the newest {len(shown)}; --limit 0 shows all")
    return 0


def result(args: Namespace) -> int:
    """Print a value, or why there is none."""
    from concurrent.futures import TimeoutError as NotInTime  # before 3.11, another class

    job = _job(args.job)
    try:
        return _print_result(job, args)
    except NotInTime:
        raise WaitTimeout(
            f"{job.id} had not ended in time and goes on; `wherry result {job.id}` waits again"
        ) from None
    except KeyboardInterrupt:
        say(f"{job.id} goes on" if not job.done() else f"{job.id} has ended")
        raise


def retry(args: Namespace) -> int:
    """Submit again; prints the new job's id."""
    job = _job(args.job)
    if ":" in job.id:
        whole, _, number = job.id.partition(":")
        raise UsageError(f"an item is run again so: `wherry retry {whole} --items {number}`")
    if args.items is not None:
        again = job.executor.rerun(job.record, _of_first(job, args.items))
    elif job.kind == "array":
        again = job.retry_failed()
    else:
        again = job.rerun()
    if args.json:
        print_json(_record(again))
    else:
        print(again.id)
    return 0


def task_ids(args: Namespace) -> int:
    """Print numbers of items."""
    job = _job(args.job)
    if job.kind != "array":
        raise UsageError(f"{job.id} is a {job.kind} job; only maps have items")
    numbers: list[int] = [*range(len(job))]
    if args.states:
        wanted = {state for word in args.states for state in _ITEM_STATES[word][0]}
        numbers = [number for number, state in _states(job) if state in wanted]
    if args.json:
        print_json(numbers)
    else:
        print(show_numbers(numbers))
    return 0


def _add_job(parser: Parser, more: str = "") -> None:
    action = parser.add_argument(
        "job", metavar="JOB", help=f"the job's id, or enough of its beginning{more}"
    )
    set_completer(action, "jobs")


def _job(text: str) -> Any:
    """Return a job by its id, or a part of one.

    Raises:
        UnknownAppError: there is none.
    """
    from wherry.functions import defaults

    whole, number = _parts(text)
    found = defaults.job(whole)
    if not number:
        return found
    if found.kind not in ("array", "gang"):
        raise UsageError(f"{found.id} is a single call; it has no part {number!r}")
    if not (number.isascii() and number.isdigit()):
        raise UsageError(f"{text!r} is no job: after the colon comes the number of an item")
    if int(number) >= len(found):
        raise UnknownAppError(f"{found.id} has items 0 to {len(found) - 1}; there is no {number}")
    return found[int(number)]


def _parts(text: str) -> tuple[str, str]:
    """Take ``ID``, ``ID:3`` or a job's handle apart: its id, and the number of a part."""
    name = text.rpartition("/")[2] if "://" in text else text
    head, colon, tail = name.rpartition(":")
    if not colon:
        return name, ""
    if "://" in text and not tail.isdigit():
        return tail, ""  # AWS Batch's handles have the queue before the job
    return head, tail or ":"


def _found(kind: str | None, states: frozenset[AppState], since: float | None) -> Iterator[Any]:
    """Give the jobs that this machine knows, newest first; warns of those that cannot be had."""
    from wherry.functions import records
    from wherry.functions.defaults import executor_of

    troubled: set[str] = set()
    for entry in records.entries():
        if kind not in (None, entry.kind) or (since is not None and entry.created < since):
            continue
        if entry.store in troubled:
            continue
        try:
            job = executor_of(entry).attach(entry.id)
            if not states or job.status in states:
                yield job
        except UnknownAppError:
            records.remove(entry.id)  # Its objects were removed by somebody else.
        except (WherryError, OSError) as error:
            if isinstance(error, StoreError):
                troubled.add(entry.store)
            warn(f"job {entry.id} cannot be listed: {one_line(str(error))}")


def _print_result(job: Any, args: Namespace) -> int:
    is_map = job.kind == "array"
    if args.json:
        told = _outcomes([*job] if is_map else [job], args.timeout)
        print_json(told if is_map else told[0])
        return int(any("error" in one for one in told))
    if args.pickle is not None:
        return _pickled(job, args.timeout, args.pickle)
    if is_map:
        values = job.results(return_exceptions=True, timeout=args.timeout)
        return print_results(values, numbered=True)
    return print_results([_value_of(job, args.timeout)], numbered=False)


def _value_of(job: Any, timeout: float | None) -> Any:
    """Return a job's value, or why there is none."""
    from concurrent.futures import CancelledError

    try:
        error = job.exception(timeout)
    except CancelledError as cancelled:
        error = cancelled
    return job.result() if error is None else error


def _states(job: Any) -> Iterator[tuple[int, str]]:
    """Give each item's state; one without a value has failed, whatever became of its process."""
    failed = {part.number for part in job.failures()}
    for part in job:
        state = part.status
        if part.number in failed and state is not AppState.CANCELLED:
            state = AppState.FAILED
        yield part.number, state.name


def _of_first(job: Any, items: Iterable[int]) -> list[int]:
    """Return items by their places in the map that was submitted first."""
    if job.kind != "array":
        raise UsageError(f"{job.id} is a {job.kind} job; --items is for maps")
    count = len(job)
    beyond = [item for item in items if item >= count]
    if beyond:
        raise UsageError(f"{job.id} has items 0 to {count - 1}; there is no {beyond[0]}")
    return [job.indices[item] for item in items]


def _pickled(job: Any, timeout: float | None, path: str) -> int:
    import cloudpickle  # type: ignore[import-untyped]

    value = _value_of(job, timeout)
    if isinstance(value, BaseException):
        return print_results([value], numbered=False)
    with open(path, "wb") as file:
        cloudpickle.dump(value, file)
    return 0


def _outcomes(parts: Iterable[Any], timeout: float | None) -> list[dict[str, Any]]:
    import time

    end = None if timeout is None else time.monotonic() + timeout
    return [_outcome(part, end and max(end - time.monotonic(), 0.0)) for part in parts]


def _outcome(part: Any, timeout: float | None) -> dict[str, Any]:
    import json

    came = part.outcome(timeout)
    told: dict[str, Any] = {}
    if came.ok:
        text = shown(came.value)
        try:
            told["value"] = json.loads(text)
        except ValueError:
            told["repr"] = text
    else:
        error = came.error
        told["error"] = {"type": type(error).__name__, "message": worded(error).partition(": ")[2]}
    told |= {"wall": came.wall, "cpu": came.cpu, "warnings": [dict(w) for w in came.warnings]}
    return {**told, "stdout": came.stdout, "stderr": came.stderr}


def _record(job: Any) -> dict[str, Any]:
    record = job.record
    return {
        "id": job.id,
        "kind": job.kind,
        "name": job.name,
        "state": job.status.name,
        "created": record.created,
        "items": record.count,
        "environment": job.environment,
        "handles": record.handles,
    }


def _row(job: Any) -> tuple[str, ...]:
    return (
        job.status.name,
        job.kind,
        show_time(job.record.created),
        _progress(job),
        job.environment,
        clean(job.id),
    )


def _progress(job: Any) -> str:
    if job.kind != "array":
        return "-"
    ended = sum(count for state, count in job.status_counts().items() if is_terminal(state))
    processes = job.record.children
    return str(job.record.count) if ended == processes else f"{ended}/{processes}"
