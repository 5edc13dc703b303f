"""``wherry aws``: what there is of ours at AWS: apps, and job definitions that nobody uses."""

from __future__ import annotations

import sys

from wherry.cli.output import Paint, print_json, say
from wherry.cli.parsing import add_json, checked, whole_number
from wherry.cli.records import LIST_KEYS, list_record
from wherry.cli.session import Session
from wherry.cli.times import read_seconds, read_time, show_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from wherry.aws.definition_garbage import OldDefinition
    from wherry.aws.session import Session as AwsSession
    from wherry.cli.parsing import Parser
    from wherry.runner import Runner
    from wherry.schedulers.api import ListFilter
    from wherry.schedulers.aws_batch import AWSBatchScheduler
    from wherry.specs.options import CfgVal

_SCHEDULER = "aws_batch"
_DAYS_30 = 30 * 24 * 3600.0
_LIMIT = 100
_GC_KEYS = "a list of {arn, name, revision, registered_at}"


def configure(parser: Parser) -> None:
    """Describe the command."""
    parser.offer(
        {
            "list": ("list the apps that AWS Batch knows", _configure_list),
            "gc": ("remove job definitions that no run has used for long", _configure_gc),
        }
    )


def _configure_list(parser: Parser) -> None:
    from wherry.cli.cmd_list import read_states

    _add_place(parser)
    parser.add_argument(
        "--queue",
        action="append",
        default=[],
        metavar="NAME",
        help="only of this queue, by name or ARN; may be given again",
    )
    parser.add_argument(
        "--state",
        action="append",
        default=[],
        type=checked(read_states),
        metavar="STATE,…",
        help="only apps in one of these states; may be given again",
    )
    parser.add_argument("--name", default="", help="only apps whose name begins so")
    parser.add_argument("--user", default="", help="only apps of this user")
    parser.add_argument(
        "--tag",
        action="append",
        default=[],
        type=checked(_read_tag),
        metavar="KEY=VALUE",
        help="only apps with this tag; may be given again",
    )
    parser.add_argument(
        "--since",
        type=checked(read_time),
        metavar="TIME",
        help="only apps created since then: an ISO time, or an age such as 10m, 2h or 7d",
    )
    parser.add_argument(
        "--limit",
        type=whole_number(0),
        default=_LIMIT,
        metavar="N",
        help=f"at most so many (default {_LIMIT}; 0 for all)",
    )
    parser.add_argument(
        "--all", action="store_true", help="also jobs that were not submitted with Wherry"
    )
    add_json(parser, LIST_KEYS)
    parser.set_defaults(func=list_apps)


def _configure_gc(parser: Parser) -> None:
    _add_place(parser)
    parser.add_argument(
        "--older-than",
        type=checked(read_seconds),
        default=_DAYS_30,
        metavar="AGE",
        help="only those registered so long ago (12h, 30d; default 30d)",
    )
    parser.add_argument(
        "--dry-run", "--dryrun", action="store_true", help="only tell which they are"
    )
    add_json(parser, _GC_KEYS)
    parser.set_defaults(func=collect_garbage)


def _add_place(parser: Parser) -> None:
    parser.add_argument("--region", help="the AWS region, instead of the configured one")
    parser.add_argument("--profile", help="the AWS profile, instead of the configured one")


def list_apps(args: Namespace) -> int:
    """List what AWS knows, as it comes."""
    with Session(args) as runner:
        scheduler = _scheduler(runner, args)
        found = scheduler.list(_filter(args), queues=args.queue, everyone=args.all)
        if args.json:
            print_json([list_record(app) for app in found])
            return 0
        paint = Paint(sys.stdout)
        for number, app in enumerate(found, 1):
            if args.limit and number > args.limit:
                say(f"these are the newest {args.limit}; --limit 0 shows all")
                break
            state = paint.state(app.state) + " " * (10 - len(app.state.name))
            print(f"{state} {show_time(app.created_at)}  {app.app_handle}", flush=True)
    return 0


def collect_garbage(args: Namespace) -> int:
    """Deregister job definitions of ours that are old and that no job has."""
    from wherry.aws import definition_garbage

    with Session(args) as runner:
        calls = _aws(runner, args).calls()
        in_use = definition_garbage.in_use_by_jobs(calls)
        old = definition_garbage.garbage(calls, args.older_than, in_use)
        gone = list(old)
        if not args.dry_run:
            done = set(definition_garbage.deregister(calls, [each.arn for each in old]))
            gone = [each for each in old if each.arn in done]
    if args.json:
        print_json([_record(each) for each in gone])
        return 0
    for each in gone:
        print(f"{each.name}:{each.revision}")
    verb = "would be removed" if args.dry_run else "removed"
    say(f"{len(gone)} job definition{'' if len(gone) == 1 else 's'} {verb}")
    return 0


def _record(definition: OldDefinition) -> dict[str, object]:
    return {
        "arn": definition.arn,
        "name": definition.name,
        "revision": definition.revision,
        "registered_at": definition.registered_at,
    }


def _filter(args: Namespace) -> ListFilter:
    from wherry.schedulers.api import ListFilter
    from wherry.specs.states import AppState

    states: frozenset[AppState] = frozenset().union(*args.state)
    # One more than is shown tells whether there are more; --json has what was asked for.
    more = 0 if args.json else 1
    return ListFilter(
        states=states,
        name=args.name,
        since=args.since,
        limit=args.limit + more if args.limit else None,
        user=args.user,
        tags=dict(args.tag),
    )


def _read_tag(text: str) -> tuple[str, str]:
    from wherry.errors import UsageError

    key, mark, value = text.partition("=")
    if not key or not mark:
        raise UsageError(f"a tag is KEY=VALUE, not {text!r}")
    return key, value


def _scheduler(runner: Runner, args: Namespace) -> AWSBatchScheduler:
    """Return the scheduler, told where to look."""
    found = runner.scheduler(_SCHEDULER)
    options = _place(runner, args)
    found.configure(lambda: options)
    return found  # type: ignore[return-value]  # the table knows it by its name only


def _aws(runner: Runner, args: Namespace) -> AwsSession:
    return _scheduler(runner, args).aws()


def _place(runner: Runner, args: Namespace) -> dict[str, CfgVal]:
    """Return the configured region and profile, with those of the command line over them."""
    opts = runner.scheduler_run_opts(_SCHEDULER)
    settings = runner.config.options(_SCHEDULER, opts, runner.scheduler_backends)
    chosen: dict[str, CfgVal] = {name: setting.value for name, setting in settings.items()}
    given = {"region": args.region, "profile": args.profile}
    return {**chosen, **{name: value for name, value in given.items() if value}}
