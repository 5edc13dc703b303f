"""``wherry emulator``: AWS Batch on this machine, from a terminal.

What needs the emulator's own code is imported when a command needs it; a command to one that
runs already only talks to its address.
"""

from __future__ import annotations

import os

from wherry.cli import cmd_emulator_faults as faults
from wherry.cli.emulator_target import ABSENT, add_target, show_clock, target_of
from wherry.cli.output import Paint, one_line, print_json, say
from wherry.cli.parsing import add_json, checked, one_of, whole_number
from wherry.cli.sizes import read_mib
from wherry.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from wherry.cli.parsing import Commands, Parser
    from wherry.emulator.record import Record
    from wherry.emulator.settings import Settings

ENGINES = ("auto", "docker", "process")
SHELLS = ("sh", "fish", "json")
_ENDING_PATIENCE = 60.0
_QUEUES = "main (EC2), spot, fargate"
_WAITING = ("SUBMITTED", "PENDING", "RUNNABLE")
_TRY = """\
In any terminal, for every AWS client:
  eval "$(wherry emulator env)"
  aws batch register-job-definition --job-definition-name hello --type container \\
    --container-properties '{"image":"alpine","command":["echo","hello"],"resourceRequirements":\
[{"type":"VCPU","value":"1"},{"type":"MEMORY","value":"128"}]}'
  aws batch submit-job --job-name first --job-queue main --job-definition hello
  aws batch list-jobs --job-queue main --job-status SUCCEEDED"""


def configure(parser: Parser) -> None:
    """Describe ``wherry emulator``."""
    parser.description = (
        "Run AWS Batch, and what belongs to it, on this machine: every AWS client can use it."
    )
    parser.offer(COMMANDS)


def configure_start(parser: Parser) -> None:
    """Describe ``wherry emulator start``."""
    add = parser.add_argument
    add("--port", type=_port, default=4566, help="where it listens; 0 for any (default: 4566)")
    add(
        "--engine",
        type=one_of("engine", ENGINES),
        choices=ENGINES,
        default="auto",
        metavar="ENGINE",
        help="what runs jobs: docker, process, or auto for Docker where it answers (the default)",
    )
    add(
        "--vcpus",
        type=checked(_amount),
        metavar="N",
        help="vCPUs for all jobs together; what does not fit stays RUNNABLE",
    )
    add(
        "--memory",
        type=checked(read_mib),
        metavar="SIZE",
        help="memory for all jobs together, such as 16GiB",
    )
    add("--gpus", type=whole_number(0), default=0, metavar="N", help="GPUs for all jobs together")
    add(
        "--s3",
        type=checked(_address),
        metavar="URL",
        help="an S3 server in place of the one inside",
    )
    add("--state", metavar="DIR", help="keep Batch's state here for the next start")
    add(
        "--scale",
        type=checked(_amount),
        default=1.0,
        metavar="X",
        help="emulated seconds for each second (default: 1)",
    )
    add("--region", default="us-east-1", metavar="REGION", help="for requests that name none")
    add("--no-bootstrap", action="store_true", help="make no queues at the start")
    add("--detach", action="store_true", help="leave it running and come back")
    add("--verbose", action="store_true", help="show each request")
    parser.set_defaults(func=start)


def configure_stop(parser: Parser) -> None:
    """Describe ``wherry emulator stop``."""
    parser.description = (
        "End the emulator and all its jobs. When none runs, there is nothing to do."
    )
    parser.set_defaults(func=stop)


def configure_status(parser: Parser) -> None:
    """Describe ``wherry emulator status``."""
    parser.description = "Show what runs. The exit code is 1 when no emulator does."
    add_target(parser)
    add_json(parser)
    parser.set_defaults(func=status)


def configure_env(parser: Parser) -> None:
    """Describe ``wherry emulator env``."""
    parser.description = "Print what makes a shell's AWS clients use the emulator."
    parser.epilog = (
        'sh, bash, zsh: eval "$(wherry emulator env)"\n'
        "fish:          wherry emulator env --shell fish | source"
    )
    parser.add_argument(
        "--shell",
        type=one_of("shell", SHELLS),
        choices=SHELLS,
        metavar="SHELL",
        help="sh, fish, or json for programs; by default what $SHELL says",
    )
    add_target(parser)
    parser.set_defaults(func=env)


def configure_reset(parser: Parser) -> None:
    """Describe ``wherry emulator reset``."""
    parser.description = (
        "End all jobs and forget everything: jobs, definitions, queues, buckets, logs, faults. "
        "The emulator goes on, as it was at its start; its clock goes on too."
    )
    add_target(parser)
    parser.set_defaults(func=reset)


def start(args: Namespace) -> int:
    """Run an emulator, here or in a process of its own."""
    settings = _settings(args)
    if args.detach:
        from wherry.emulator.detached import launch

        own = launch(settings, verbose=args.verbose)
        _show(own, settings)
        print(f"\nIt goes on without this terminal; `wherry emulator stop` ends it. Log: {own.log}")
        return 0
    from wherry.emulator.hosting import host

    def ready(own: Record) -> None:
        _show(own, settings)
        print("\nCtrl-C ends it, and all its jobs.", flush=True)

    def ending(name: str, jobs: int) -> None:
        working = f", and {jobs} running {'job' if jobs == 1 else 'jobs'}" if jobs else ""
        shown = "\n" if name == "SIGINT" else ""
        say(f"{shown}{name}: ending the emulator{working} …")

    host(settings, verbose=args.verbose, ready=ready, ending=ending)
    say("ended; nothing is left running")
    return 0


def stop(_: Namespace) -> int:
    """End the emulator that runs."""
    import signal

    from wherry.emulator import record
    from wherry.errors import StateError

    own = record.find()
    if own is None:
        say("no emulator runs; nothing to stop")
        return 0
    if not record.end(own, signal.SIGTERM, _ENDING_PATIENCE):
        raise StateError(
            f"the emulator (process {own.pid}) is still ending after {_ENDING_PATIENCE:g} s"
            + (f"; see its log, {own.log}" if own.log else "")
        )
    say(f"ended the emulator at {own.url or f'process {own.pid}'}, and all its jobs")
    return 0


def status(args: Namespace) -> int:
    """Show what runs."""
    from wherry.emulator import record

    own = None if args.url else record.find()
    if not args.url and (own is None or not own.url):
        if args.json:
            print_json({"running": False})
        say(ABSENT if own is None else f"an emulator is starting (process {own.pid})")
        return 1
    remote = target_of(args)
    found = remote.status()
    if args.json:
        extra = {"pid": own.pid, "log": own.log} if own else {}
        print_json({"running": True, "url": remote.url, **extra, **found})
        return 0
    print("\n".join(_status_lines(remote.url, own, found)))
    return 0


def env(args: Namespace) -> int:
    """Print the variables of a client."""
    from wherry.emulator import exports

    found = target_of(args).status()["environment"]
    shell = args.shell or ("fish" if os.environ.get("SHELL", "").endswith("/fish") else "sh")
    print("\n".join(exports.SHELLS[shell](exports.changes(found, os.environ))))
    return 0


def reset(args: Namespace) -> int:
    """Forget everything."""
    remote = target_of(args)
    remote.act("reset")
    say(f"the emulator at {remote.url} is as it was at its start")
    return 0


def _settings(args: Namespace) -> Settings:
    from wherry.emulator.settings import Settings

    return Settings(
        port=args.port,
        engine=args.engine,
        vcpus=args.vcpus,
        memory_mib=args.memory,
        gpus=args.gpus,
        state=os.path.abspath(os.path.expanduser(args.state)) if args.state else None,
        s3=args.s3,
        scale=args.scale,
        region=args.region,
        bootstrap=not args.no_bootstrap,
    )


def _show(own: Record, settings: Settings) -> None:
    """Print where it is, what runs jobs and why, and what to type next."""
    import sys

    paint = Paint(sys.stdout)
    rows = [("engine", f"{own.engine} ({own.engine_reason})" if own.engine_reason else own.engine)]
    rows.append(("queues", _QUEUES if settings.bootstrap else "none yet (--no-bootstrap)"))
    rows.append(("region", own.region))
    if settings.scale != 1:
        rows.append(("clock", f"{settings.scale:g} emulated seconds each second"))
    rows.append(("state", own.state or "in memory, gone at the end"))
    if settings.s3:
        rows.append(("S3", _without_key(settings.s3)))
    print(paint(f"AWS Batch on this machine: {own.url}", "bold"))
    print("\n".join(f"  {name:<8}{one_line(value)}" for name, value in rows))
    print(f"\n{_TRY}", flush=True)


def _status_lines(url: str, own: Record | None, found: dict[str, Any]) -> list[str]:
    counts = {name: n for name, n in found.get("jobs", {}).items() if n}
    jobs = ", ".join(f"{n} {name}" for name, n in counts.items()) or "none"
    rows = [
        ("engine", " ".join(filter(None, (found.get("engine"), _bracketed(found))))),
        ("jobs", jobs),
        ("queues", ", ".join(map(_queue, found.get("queues", []))) or "none"),
        ("clock", show_clock(found)),
        ("faults", str(len(found.get("faults", []))) if found.get("faults") else "none"),
    ]
    rows += [("note", note) for note in found.get("notes", [])]
    if own is not None:
        rows += [("process", str(own.pid)), ("state", own.state or "in memory")]
        rows += [("log", own.log)] if own.log else []
    return [f"running at {url}", *(f"  {name:<9}{one_line(value)}" for name, value in rows)]


def _bracketed(found: dict[str, Any]) -> str:
    reason = found.get("engine_reason")
    return f"({reason})" if reason else ""


def _queue(queue: dict[str, Any]) -> str:
    waiting = sum(queue["jobs"].get(state, 0) for state in _WAITING)
    return f"{queue['name']} ({waiting} waiting)" if waiting else str(queue["name"])


def _without_key(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def _amount(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise UsageError(f"expected a number above 0, not {text!r}")
    return number


def _address(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise UsageError(f"expected an address such as http://127.0.0.1:8333, not {text!r}")
    return text


@checked
def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise UsageError(f"expected a port from 0 to 65535, not {text!r}")
    return int(text)


COMMANDS: Commands = {
    "start": ("run an emulator", configure_start),
    "stop": ("end it, and all its jobs", configure_stop),
    "status": ("show what runs", configure_status),
    "env": ("print the variables that send AWS clients to it", configure_env),
    "reset": ("forget all jobs and all else", configure_reset),
    **faults.COMMANDS,
}
