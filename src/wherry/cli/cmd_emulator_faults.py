"""``wherry emulator fault``, ``reclaim``, ``lose-agent``, ``expire`` and ``clock``.

What goes wrong on purpose, and how time passes, in an emulator that runs.
"""

from __future__ import annotations

from wherry.cli.emulator_target import add_target, show_clock, target_of
from wherry.cli.output import Paint, one_line, print_json, say, table
from wherry.cli.parsing import add_json, checked, whole_number
from wherry.cli.times import read_seconds
from wherry.errors import UsageError, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from wherry.cli.parsing import Commands, Parser

# What narrows a fault, in the order in which it is shown.
_NARROWING = ("job", "queue", "operation", "service")


def configure_fault(parser: Parser) -> None:
    """Describe ``wherry emulator fault``."""
    parser.description = "Let things go wrong on purpose."
    parser.offer(FAULT_COMMANDS)


def configure_list(parser: Parser) -> None:
    """Describe ``wherry emulator fault list``."""
    add_target(parser)
    add_json(parser, "a list: number, kind, value, job, queue, operation, service, rate, …, struck")
    parser.set_defaults(func=list_faults)


def configure_add(parser: Parser) -> None:
    """Describe ``wherry emulator fault add``."""
    from wherry.emulator.faults import KINDS

    width = max(map(len, KINDS))
    parser.epilog = "\n".join(
        ("kinds:", *(f"  {kind:<{width}}  {what}" for kind, what in KINDS.items()))
    )
    add = parser.add_argument
    add("kind", type=checked(_kind), choices=tuple(KINDS), metavar="KIND", help="what goes wrong")
    add("--value", default="", metavar="VALUE", help="seconds, a text or a name; see the kinds")
    add("--job", default="", metavar="JOB", help="only this job: an id, or a pattern of names")
    add("--queue", default="", metavar="QUEUE", help="only jobs of this queue")
    add("--operation", default="", metavar="NAME", help="only this operation, such as SubmitJob")
    add("--service", default="batch", metavar="NAME", help="only this service (default: batch)")
    add("--rate", type=checked(_share), default=1.0, metavar="SHARE", help="of 1, how many it hits")
    add("--every", type=whole_number(1), default=0, metavar="N", help="hit every N-th instead")
    add("--times", type=whole_number(1), default=0, metavar="N", help="hit so often, then no more")
    add_target(parser)
    add_json(parser)
    parser.set_defaults(func=add_fault)


def configure_clear(parser: Parser) -> None:
    """Describe ``wherry emulator fault clear``."""
    parser.add_argument(
        "number", nargs="?", type=whole_number(1), metavar="NUMBER", help="which; all when left out"
    )
    add_target(parser)
    parser.set_defaults(func=clear_faults)


def configure_reclaim(parser: Parser) -> None:
    """Describe ``wherry emulator reclaim``."""
    parser.description = (
        "Take an instance away, as EC2 does with Spot: every job on it fails with "
        "`Host EC2 (instance i-…) terminated.`, and is retried if it may be."
    )
    parser.add_argument("target", metavar="JOB_OR_INSTANCE", help="an instance, or a job on it")
    add_target(parser, region=True)
    add_json(parser, "jobs (those that it ran)")
    parser.set_defaults(func=reclaim)


def configure_lose_agent(parser: Parser) -> None:
    """Describe ``wherry emulator lose-agent``."""
    parser.description = "Let a job lose its ECS agent: reason `AGENT`, and no exit code."
    parser.add_argument("job", metavar="JOB", help="its id")
    add_target(parser, region=True)
    parser.set_defaults(func=lose_agent)


def configure_expire(parser: Parser) -> None:
    """Describe ``wherry emulator expire``."""
    parser.description = (
        "Forget jobs that have ended now, as AWS does after days: DescribeJobs leaves them out."
    )
    parser.add_argument("job", nargs="?", metavar="JOB", help="its id; all that ended without one")
    add_target(parser, region=True)
    add_json(parser, "expired (how many)")
    parser.set_defaults(func=expire)


def configure_clock(parser: Parser) -> None:
    """Describe ``wherry emulator clock``."""
    parser.description = (
        "Show the emulated time, or change how it passes. Programs inside jobs live in real time."
    )
    parser.add_argument(
        "--scale", type=checked(_pace), metavar="X", help="emulated seconds for each second"
    )
    parser.add_argument(
        "--advance", type=checked(read_seconds), metavar="TIME", help="jump ahead: 90s, 10m, 7d"
    )
    add_target(parser)
    add_json(parser, "now (seconds since the epoch), scale")
    parser.set_defaults(func=clock)


def list_faults(args: Namespace) -> int:
    """Print the faults that are on."""
    import sys

    found = target_of(args).faults()
    if args.json:
        print_json(found)
        return 0
    if not found:
        say("no faults are on; `wherry emulator fault add --help` lists the kinds")
        return 0
    rows: list[tuple[str, ...]] = [
        (str(fault["number"]), fault["kind"], str(fault["struck"]), one_line(_details(fault)))
        for fault in found
    ]
    print("\n".join(table(rows, Paint(sys.stdout), ("NUMBER", "KIND", "STRUCK", "WHICH"))))
    return 0


def add_fault(args: Namespace) -> int:
    """Turn a fault on."""
    from dataclasses import asdict, fields

    from wherry.emulator.faults import Fault

    given = {field.name: getattr(args, field.name) for field in fields(Fault)}
    fault = asdict(Fault(**given))
    number = target_of(args).add_fault(fault)
    if args.json:
        print_json({"number": number})
    else:
        say(
            f"fault {number} is on: {one_line(' '.join((args.kind, _details(fault))))}; "
            f"`wherry emulator fault clear {number}` turns it off"
        )
    return 0


def clear_faults(args: Namespace) -> int:
    """Turn one fault off, or all."""
    target_of(args).clear_faults(args.number)
    say("all faults are off" if args.number is None else f"fault {args.number} is off")
    return 0


def reclaim(args: Namespace) -> int:
    """Take an instance away."""
    jobs = target_of(args).act("reclaim", target=args.target)["jobs"]
    if args.json:
        print_json({"jobs": jobs})
        return 0
    for job in jobs:
        print(one_line(job))
    say(f"reclaimed; it ran {len(jobs)} {'job' if len(jobs) == 1 else 'jobs'}")
    return 0


def lose_agent(args: Namespace) -> int:
    """Let a job lose its agent."""
    target_of(args).act("lose-agent", job=args.job)
    say(f"the agent of {one_line(args.job)} is lost")
    return 0


def expire(args: Namespace) -> int:
    """Forget jobs that have ended."""
    count = int(target_of(args).act("expire", job=args.job)["expired"])
    if args.json:
        print_json({"expired": count})
    else:
        say(f"forgot {count} {'job' if count == 1 else 'jobs'}")
    return 0


def clock(args: Namespace) -> int:
    """Show or change the emulated time."""
    remote = target_of(args)
    asked = args.scale is not None or args.advance is not None
    found = remote.set_clock(args.scale, args.advance) if asked else remote.clock()
    if args.json:
        print_json(found)
    else:
        print(show_clock(found))
    return 0


def _details(fault: dict[str, object]) -> str:
    """Say what a fault hits, in the words of the options."""
    words = [f"{name}={fault[name]}" for name in ("value", *_NARROWING) if fault.get(name)]
    if fault.get("every"):
        words.append(f"every={fault['every']}")
    elif fault.get("rate") != 1:
        words.append(f"rate={fault['rate']}")
    if fault.get("times"):
        words.append(f"times={fault['times']}")
    return " ".join(words)


def _kind(text: str) -> str:
    from wherry.emulator.faults import KINDS

    if text not in KINDS:
        raise UsageError(unknown("fault", text, KINDS))
    return text


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UsageError(f"expected a share from 0 to 1, such as 0.5, not {text!r}")
    return share


def _pace(text: str) -> float:
    try:
        pace = float(text)
    except ValueError:
        pace = 0.0
    if not 0 < pace < float("inf"):
        raise UsageError(f"expected emulated seconds for each second, such as 60, not {text!r}")
    return pace


FAULT_COMMANDS: Commands = {
    "list": ("list the faults that are on", configure_list),
    "add": ("turn a fault on", configure_add),
    "clear": ("turn one fault off, or all", configure_clear),
}
COMMANDS: Commands = {
    "fault": ("let things go wrong on purpose", configure_fault),
    "reclaim": ("take an instance away, as Spot does", configure_reclaim),
    "lose-agent": ("let a job lose its agent", configure_lose_agent),
    "expire": ("forget jobs that have ended", configure_expire),
    "clock": ("show or change the emulated time", configure_clock),
}
