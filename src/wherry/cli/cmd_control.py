"""``wherry cancel`` and ``wherry wait``: end an app, or see it end."""

from __future__ import annotations

import sys

from wherry.cli.output import Paint, is_terminal, print_json, say
from wherry.cli.parsing import add_handle, add_json, checked
from wherry.cli.records import ENDING_KEYS, ending_record
from wherry.cli.session import Session
from wherry.cli.times import read_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from wherry.cli.parsing import Parser


def configure_cancel(parser: Parser) -> None:
    """Describe ``wherry cancel``."""
    add_handle(parser)
    parser.add_argument("--reason", default="", help="why; kept with the app")
    parser.add_argument("--kill", action="store_true", help="leave programs no time to clean up")
    add_json(parser, "handle, state (at once; `wherry wait` sees the end)")
    parser.set_defaults(func=cancel)


def configure_wait(parser: Parser) -> None:
    """Describe ``wherry wait``."""
    add_handle(parser)
    parser.add_argument(
        "--timeout",
        type=checked(read_seconds),
        metavar="SECONDS",
        help="give up after this long (or 10m, 2h), with exit code 124; the app goes on",
    )
    add_json(parser, ENDING_KEYS)
    parser.set_defaults(func=wait)


def cancel(args: Namespace) -> int:
    """Ask for an app's end; one that has ended stays as it is."""
    with Session(args) as runner:
        handle = str(runner.resolve(args.handle))
        runner.cancel(handle, args.reason, kill=args.kill)
        status = runner.status(handle)
        state = None if status is None else status.state.name
        if args.json:
            print_json({"handle": handle, "state": state})
        elif status is not None and is_terminal(sys.stderr):
            ended = status.is_terminal()
            say(f"{handle} is {state}" if ended else f"{handle} is being cancelled")
    return 0


def wait(args: Namespace) -> int:
    """Wait for an app's end and exit as it did."""
    with Session(args) as runner:
        handle = str(runner.resolve(args.handle))
        status = runner.wait(handle, args.timeout)
    if args.json:
        print_json(ending_record(handle, status))
    if status.exit_code != 0:
        from wherry.cli.report import failure

        say(failure(handle, status, Paint(sys.stderr)))
    elif is_terminal(sys.stderr):
        say(Paint(sys.stderr).state(status.state))
    return 1 if status.exit_code is None else status.exit_code
