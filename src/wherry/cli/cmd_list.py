"""``wherry list``: apps of all schedulers, newest first."""

from __future__ import annotations

import sys
import time

from wherry.cli.output import Paint, clean, print_json, say, table
from wherry.cli.parsing import add_json, checked, set_completer, whole_number
from wherry.cli.records import LIST_KEYS, list_record
from wherry.cli.session import Session
from wherry.cli.times import read_time, show_duration, show_time
from wherry.errors import UsageError, unknown
from wherry.schedulers.api import ListFilter
from wherry.specs.states import AppState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from wherry.cli.parsing import Parser
    from wherry.schedulers.api import ListAppResponse

_HEAD = ("STATE", "CREATED", "TOOK", "REPLICAS", "HANDLE")
_DEFAULT_LIMIT = 100


def configure(parser: Parser) -> None:
    """Describe the command."""
    parser.add_argument(
        "--state",
        action="append",
        default=[],
        type=checked(read_states),
        metavar="STATE,…",
        help="only apps in one of these states; may be given again",
    )
    parser.add_argument("--name", default="", help="only apps whose name begins so")
    scheduler = parser.add_argument(
        "-s", "--scheduler", metavar="NAME", help="only apps of this scheduler"
    )
    set_completer(scheduler, "schedulers")
    parser.add_argument(
        "--since",
        type=checked(read_time),
        metavar="TIME",
        help="only apps created since then: an ISO time, or an age such as 10m, 2h or 7d",
    )
    parser.add_argument(
        "--limit",
        type=whole_number(0),
        default=_DEFAULT_LIMIT,
        metavar="N",
        help=f"at most so many (default {_DEFAULT_LIMIT}; 0 for all)",
    )
    add_json(parser, LIST_KEYS)
    parser.set_defaults(func=run)


def read_states(text: str) -> frozenset[AppState]:
    """Read states such as ``failed,cancelled``.

    Raises:
        UsageError: a word that is not a state.
    """
    states = set()
    for word in filter(None, (part.strip() for part in text.split(","))):
        if word.upper() not in AppState.__members__:
            raise UsageError(unknown("state", word, AppState.__members__))
        states.add(AppState[word.upper()])
    return frozenset(states)


def run(args: Namespace) -> int:
    """Print the list."""
    states: frozenset[AppState] = frozenset().union(*args.state)
    # One more than is shown tells whether there are more.
    limit = args.limit + 1 if args.limit else None
    chosen = ListFilter(states=states, name=args.name, since=args.since, limit=limit)
    with Session(args) as runner:
        apps = runner.list(args.scheduler, chosen)
    shown = apps[: args.limit] if args.limit else apps
    if args.json:
        print_json([list_record(app) for app in shown])
        return 0
    if shown:
        print("\n".join(_lines(shown, Paint(sys.stdout))))
    if len(shown) < len(apps):
        say(f"these are the newest {len(shown)}; --limit 0 shows all")
    return 0


def _lines(apps: Iterable[ListAppResponse], paint: Paint) -> list[str]:
    now = time.time()
    listed = list(apps)
    head, *lines = table([_row(app, now) for app in listed], paint, _HEAD)
    if not paint.on:
        return [head, *lines]
    painted = (
        paint.state(app.state) + line[len(app.state.name) :]
        for app, line in zip(listed, lines, strict=True)
    )
    return [head, *painted]


def _row(app: ListAppResponse, now: float) -> tuple[str, ...]:
    return (
        app.state.name,
        show_time(app.created_at),
        _took(app, now),
        str(app.replicas or "-"),
        clean(app.app_handle),
    )


def _took(app: ListAppResponse, now: float) -> str:
    if app.created_at is None:
        return "-"
    if app.ended_at is not None:
        return show_duration(app.ended_at - app.created_at)
    return "-" if app.state is AppState.EXPIRED else show_duration(now - app.created_at)
