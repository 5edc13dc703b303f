"""``wherry ledger`` and ``wherry prune``: look after the records of apps."""

from __future__ import annotations

from wherry.cli.cmd_list import read_states
from wherry.cli.output import one_line, print_json, say
from wherry.cli.parsing import add_json, checked, one_of
from wherry.cli.records import LIST_KEYS, list_record
from wherry.cli.session import Session
from wherry.cli.times import read_age

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from wherry.cli.parsing import Parser
    from wherry.specs.states import AppState


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
        "Remove the records and logs that Wherry keeps of apps that have ended. Folders that you "
        "named with log_dir stay."
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
    add_json(parser, LIST_KEYS)
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
    with Session(args) as runner:
        apps = runner.prune(args.older_than, states, dry_run=args.dry_run)
    if args.json:
        print_json([list_record(app) for app in apps])
        return 0
    if args.dry_run:
        for app in apps:
            print(one_line(app.app_handle))
    verb = "would remove" if args.dry_run else "removed"
    say(f"{verb} {len(apps)} {'record' if len(apps) == 1 else 'records'}")
    return 0
