"""``wherry configure``: write a ``wherry.toml`` that shows every setting, to start from."""

from __future__ import annotations

import os

from wherry.cli.output import say, warn
from wherry.cli.session import Session
from wherry.errors import PluginError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from wherry.cli.parsing import Parser
    from wherry.runner import Runner

_NAME = "wherry.toml"


def configure(parser: Parser) -> None:
    """Describe the command."""
    parser.description = f"Write a {_NAME} with every setting to the current folder."
    parser.add_argument("--print", action="store_true", help="print it, write nothing")
    parser.add_argument("--force", action="store_true", help=f"replace a {_NAME} that is there")
    parser.set_defaults(func=run)


def run(args: Namespace) -> int:
    """Write the file, whole or not at all."""
    if not args.print and not args.force and os.path.lexists(_NAME):
        raise UsageError(_there_already())
    with Session(args) as runner:
        text = _template(runner)
    if args.print:
        print(text, end="")
        return 0
    _write(text, replace=args.force)
    say(f"wrote {_NAME}; every setting in it is a comment until you take its # away")
    return 0


def _template(runner: Runner) -> str:
    from wherry.runner.config import template

    options = {}
    for name in runner.scheduler_backends():
        try:
            options[name] = runner.scheduler_run_opts(name)
        except PluginError as error:
            warn(str(error))
    return template(options)


def _write(text: str, *, replace: bool) -> None:
    draft = f".{_NAME}.{os.getpid()}"
    try:
        with open(draft, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(draft, _NAME)
        else:
            _link(draft)
    finally:
        if os.path.lexists(draft):
            os.unlink(draft)


def _link(draft: str) -> None:
    """Give the draft its name, unless somebody else took it meanwhile."""
    try:
        os.link(draft, _NAME)
    except FileExistsError:
        raise UsageError(_there_already()) from None


def _there_already() -> str:
    return f"{os.path.abspath(_NAME)} is there already; --force replaces it, --print only prints"
