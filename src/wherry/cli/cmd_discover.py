"""``wherry builtins`` and ``wherry runopts``: what can be run, and the options of where."""

from __future__ import annotations

import sys

from wherry.cli.output import Paint, one_line, print_json, say, warn
from wherry.cli.parsing import add_json, set_completer
from wherry.cli.session import Session
from wherry.errors import PluginError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from wherry.cli.parsing import Parser
    from wherry.specs.options import runopts


def configure_builtins(parser: Parser) -> None:
    """Describe ``wherry builtins``."""
    parser.description = "List the components that have a name, or print the source of one."
    name = parser.add_argument(
        "--print", dest="source_of", metavar="NAME", help="print the component's source"
    )
    set_completer(name, "components")
    add_json(parser, "a list of {name, summary, source}; with --print: name, source, text")
    parser.set_defaults(func=builtins)


def configure_runopts(parser: Parser) -> None:
    """Describe ``wherry runopts``."""
    scheduler = parser.add_argument(
        "scheduler", nargs="?", metavar="SCHEDULER", help="only this scheduler's"
    )
    set_completer(scheduler, "schedulers")
    add_json(parser, "{scheduler: {option: {type, default, required, choices, help}}}")
    parser.set_defaults(func=show_runopts)


def builtins(args: Namespace) -> int:
    """List components."""
    from wherry import components

    if args.source_of is not None:
        return _print_source(args)
    found, problems = components.builtins()
    for problem in problems:
        warn(problem)
    if args.json:
        print_json(
            [{"name": c.name, "summary": c.summary, "source": c.source} for c in found],
        )
        return 0
    paint = Paint(sys.stdout)
    width = max((len(component.name) for component in found), default=0)
    for component in found:
        name = paint(component.name.ljust(width), "bold")
        print(f"{name}  {one_line(component.summary)}".rstrip())
    say("help for one: wherry run NAME --help")
    return 0


def _print_source(args: Namespace) -> int:
    from wherry import components

    component = components.find(args.source_of)
    text = components.source_text(component)
    if args.json:
        print_json({"name": component.name, "source": component.source, "text": text})
    else:
        print(text, end="")
    return 0


def show_runopts(args: Namespace) -> int:
    """List the options of one scheduler, or of all."""
    with Session(args) as runner:
        names = [args.scheduler] if args.scheduler else runner.scheduler_backends()
        options: dict[str, runopts] = {}
        for name in names:
            try:
                options[name] = runner.scheduler_run_opts(name)
            except PluginError as error:
                if args.scheduler:
                    raise
                warn(str(error))
    if args.json:
        from wherry.cli.records import options_record

        print_json({name: options_record(opts) for name, opts in options.items()})
    else:
        paint = Paint(sys.stdout)
        print("\n\n".join(f"{paint(name, 'bold')}\n{opts!r}" for name, opts in options.items()))
    return 0
