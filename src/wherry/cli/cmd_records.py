"""``wherry ledger`` and ``wherry prune``: look after the records of apps and calls."""

from __future__ import annotations

from wherry.cli.cmd_list import read_states
from wherry.cli.output import one_line, print_json, say, warn
from wherry.cli.parsing import add_json, checked, one_of
from wherry.cli.records import LIST_KEYS, list_record
from wherry.cli.session import Session
from wherry.cli.times import read_age

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from wherry.cli.parsing import Parser
    from wherry.functions.leftovers import Swept
    from wherry.functions.pruning import EndedJob
    from wherry.specs.states import AppState

_JOB_KEYS = "{job, store, state, created, ended_at, bytes}"
_SWEPT_KEYS = "{where, count, bytes}"


def configure_ledger(parser: Parser) -> None:
    """Describe ``wherry ledger``."""
    parser.description = (
        "Make the index of apps again from the apps' own records. It is only an index: nothing "
        "is lost with it."
    )
    parser.add_argument(
        "action",
        type=one_of("action", ("rebuild",)),
        metavar="rebuild",
        help="make the index again",
    )
    add_json(parser, "apps (how many the index holds)")
    parser.set_defaults(func=rebuild)


def configure_prune(parser: Parser) -> None:
    """Describe ``wherry prune``."""
    parser.description = (
        "Remove the records and logs that Wherry keeps of apps that have ended, and the objects "
        "of function calls that have ended: arguments, values and what else nobody needs any "
        "more; with --all or --older-than alone also images with workspaces and caches. Folders "
        "that you named with log_dir stay."
    )
    parser.add_argument(
        "--older-than",
        type=checked(read_age),
        metavar="AGE",
        help="only apps that ended that long ago, such as 7d or 12h",
    )
    parser.add_argument(
        "--state",
        action="append",
        default=[],
        type=checked(read_states),
        metavar="STATE,…",
        help="only apps that ended in one of these states; may be given again",
    )
    parser.add_argument("--dry-run", action="store_true", help="list them, remove nothing")
    parser.add_argument("--all", action="store_true", help="all apps that have ended")
    parser.add_argument(
        "--remote", action="store_true", help="calls whose objects are in S3, too, not only here"
    )
    parser.add_argument(
        "--store",
        action="append",
        default=[],
        metavar="URL",
        help="only calls whose objects are in this store; may be given again",
    )
    add_json(parser, f"{LIST_KEYS};\n  calls: {_JOB_KEYS}; unused objects: {_SWEPT_KEYS}")
    parser.set_defaults(func=prune)


def rebuild(args: Namespace) -> int:
    """Make the index again."""
    with Session(args) as runner:
        count = runner.rebuild_ledger()
    if args.json:
        print_json({"apps": count})
    else:
        say(f"the ledger holds {count} {'app' if count == 1 else 'apps'}")
    return 0


def prune(args: Namespace) -> int:
    """Remove records."""
    states: frozenset[AppState] = frozenset().union(*args.state)
    if not (args.all or states or args.older_than is not None or args.dry_run):
        from wherry.errors import UsageError

        raise UsageError(
            "say which records may go: --older-than 7d, --state succeeded, or --all that ended "
            "(--dry-run lists them and removes nothing)"
        )
    from wherry.functions.pruning import Clearance

    calls = Clearance(args.older_than, states, stores=args.store, remote=args.remote)
    jobs = calls.choose()
    with Session(args) as runner:
        apps = runner.prune(args.older_than, states, dry_run=args.dry_run)
        cleared = None
        if not states and (args.all or args.older_than is not None):
            cleared = runner.clear(args.older_than, dry_run=args.dry_run)
    swept = calls.remove(dry_run=args.dry_run)
    for problem in calls.problems:
        warn(problem)
    if args.json:
        told = [list_record(app) for app in apps]
        print_json([*told, *map(_job_record, jobs), *map(_swept_record, swept)])
        return 0
    if args.dry_run:
        print(*_lines(apps, jobs, swept), sep="\n", end="\n" if apps or jobs or swept else "")
    verb = "would remove" if args.dry_run else "removed"
    say(_summary(verb, apps, jobs, swept))
    if cleared is not None:
        from wherry.cli.shipments import cleared_lines

        for line in cleared_lines(cleared, verb):
            say(line)
    if calls.passed_over:
        say(f"{_count(calls.passed_over, 'call')} in S3 are left; --remote cleans up there, too")
    return 0


def _lines(apps: list[Any], jobs: list[EndedJob], swept: list[Swept]) -> list[str]:
    from wherry.functions.culprits import size_text

    return [
        *(one_line(app.app_handle) for app in apps),
        *(one_line(f"call {job.record.id}: {size_text(job.size)}") for job in jobs),
        *(one_line(f"{s.where}: {s.count} unused, {size_text(s.size)}") for s in swept),
    ]


def _summary(verb: str, apps: list[Any], jobs: list[EndedJob], swept: list[Swept]) -> str:
    parts = [_count(len(apps), "record")]
    if jobs or swept:
        from wherry.functions.culprits import size_text

        size = sum(job.size for job in jobs) + sum(found.size for found in swept)
        parts += [_count(len(jobs), "call"), f"{size_text(size)} of objects"]
    return f"{verb} {', '.join(parts)}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _job_record(job: EndedJob) -> dict[str, Any]:
    return {
        "job": job.record.id,
        "store": job.record.store,
        "state": job.state.name,
        "created": job.record.created,
        "ended_at": job.ended_at,
        "bytes": job.size,
    }


def _swept_record(found: Swept) -> dict[str, Any]:
    return {"where": found.where, "count": found.count, "bytes": found.size}
