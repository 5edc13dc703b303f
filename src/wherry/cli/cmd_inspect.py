"""``wherry status`` and ``wherry describe``: what is known of one app."""

from __future__ import annotations

import sys

from wherry.cli.output import Paint, print_json
from wherry.cli.parsing import add_handle, add_json
from wherry.cli.records import DESCRIBE_KEYS, STATUS_KEYS, describe_record, status_record
from wherry.cli.session import Session
from wherry.cli.targets import describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable
    from typing import Any

    from wherry.cli.parsing import Parser
    from wherry.schedulers.api import DescribeAppResponse

_LAST_LINES = 10
_LONGEST_LINE = 500


def configure_status(parser: Parser) -> None:
    """Describe ``wherry status``."""
    add_handle(parser)
    add_json(parser, STATUS_KEYS)
    parser.set_defaults(func=status)


def configure_describe(parser: Parser) -> None:
    """Describe ``wherry describe``."""
    add_handle(parser)
    add_json(parser, DESCRIBE_KEYS)
    parser.set_defaults(func=describe_app)


def status(args: Namespace) -> int:
    """Show an app's state; the exit code is 0 whatever the state is."""
    from wherry.cli.report import status_text

    return _show(args, status_record, status_text)


def describe_app(args: Namespace) -> int:
    """Show all that is known of an app."""
    from wherry.cli.report import description

    code = _show(args, describe_record, description)
    if not args.json:
        _show_last_lines(args)
    return code


def _show_last_lines(args: Namespace) -> None:
    """Show how the log of the replica that failed first ends: the cause often stands there."""
    from collections import deque

    from wherry.cli.output import clean
    from wherry.cli.report import first_failed

    with Session(args) as runner:
        handle = str(runner.resolve(args.handle))
        failed = first_failed(describe(runner, handle).roles_statuses)
        if failed is None or not failed.attempts:
            return
        lines = deque(runner.log_lines(handle, failed.role, failed.id), _LAST_LINES)
    if lines:
        print(f"\nthe log of {failed.role}/{failed.id} ends with")
        for line in lines:
            print(f"  {clean(line[:_LONGEST_LINE]).rstrip()}")


def _show(
    args: Namespace,
    record: Callable[[str, DescribeAppResponse], dict[str, Any]],
    text: Callable[[str, DescribeAppResponse, Paint], str],
) -> int:
    with Session(args) as runner:
        handle = str(runner.resolve(args.handle))
        described = describe(runner, handle)
        if args.json:
            print_json(record(handle, described))
        else:
            print(text(handle, described, Paint(sys.stdout)))
    return 0
