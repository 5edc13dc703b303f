"""Completion in a shell: what may come next on the line so far.

Loaded only when a shell asks, through argcomplete's variables. Only the parser of the command
that is being written is filled in.
"""

from __future__ import annotations

import argparse
import os

from wherry.cli.cmd_completion import SHELLS
from wherry.cli.main import COMMANDS, parser_of
from wherry.cli.parsing import Parser
from wherry.errors import WherryError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wherry.cli.main import RunnerFactory
    from wherry.runner import Runner

    Completer = Callable[..., list[str]]

_RECENT = 50


def complete(runner_factory: RunnerFactory) -> int:
    """Answer a shell; the process ends here when argcomplete has written the answer."""
    import argcomplete

    parser = line_parser(_words_before_cursor(), runner_factory)
    argcomplete.autocomplete(parser, always_complete_options=False)
    return 0


def line_parser(words: Sequence[str], runner_factory: RunnerFactory) -> argparse.ArgumentParser:
    """Make the parser for a line that begins with these words, ``wherry`` itself left out."""
    from wherry.cli import plugins

    top = argparse.ArgumentParser(prog="wherry")
    top.add_argument("--version", action="store_true", help="show the version")
    commands = top.add_subparsers(dest="command", parser_class=argparse.ArgumentParser)
    chosen = words[0] if words else ""
    known = {name: row[0] for name, row in COMMANDS.items()}
    known.update({name: "" for name in plugins.names() if name not in COMMANDS})
    for name, summary in known.items():
        if name != chosen:
            commands.add_parser(name, help=summary)
    if chosen in known:
        own = _command_parser(chosen, words[1:], runner_factory)
        commands.add_parser(chosen, help=known[chosen], parents=[own], add_help=False)
    return top


def _command_parser(name: str, words: Sequence[str], runner_factory: RunnerFactory) -> Parser:
    from wherry.cli import plugins

    parser = parser_of(name) if name in COMMANDS else plugins.parser_of(name)
    if parser.commands:
        return _with_commands(parser, words, runner_factory)
    parser = _filled(parser, words)
    _attach_completers(parser, runner_factory)
    return parser


def _with_commands(parser: Parser, words: Sequence[str], runner_factory: RunnerFactory) -> Parser:
    """Let a parser know its commands as argparse does, the one that is written filled in."""
    chosen = words[0] if words else ""
    commands = parser.add_subparsers(parser_class=argparse.ArgumentParser)
    for name, (summary, _) in parser.commands.items():
        if name != chosen:
            commands.add_parser(name, help=summary)
    if chosen in parser.commands:
        own = parser.command(chosen)
        if own.commands:
            own = _with_commands(own, words[1:], runner_factory)
        _attach_completers(own, runner_factory)
        commands.add_parser(chosen, parents=[own], add_help=False)
    return parser


def _filled(parser: Parser, words: Sequence[str]) -> Parser:
    if not parser.passes_words:
        return parser
    _, rest = parser.split(words)
    if rest:
        return _component_parser(rest[0])
    component = parser.add_argument("component")
    vars(component)["completes"] = "components"
    return parser


def _component_parser(name: str) -> Parser:
    """Make a parser of what may follow a component's name: its own options, then files."""
    from wherry import components

    parser = Parser(add_help=False)
    parser.add_argument("component")
    try:
        options = components.option_names(components.find(name))
    except WherryError:
        options = []
    for option in options:
        parser.add_argument(option, nargs="?", dest=option)
    parser.add_argument("words", nargs="*")
    return parser


def _attach_completers(parser: argparse.ArgumentParser, runner_factory: RunnerFactory) -> None:
    kinds: dict[str, Callable[[Runner, str], Iterable[str]]] = {
        "handles": _handles,
        "targets": _targets,
        "shells": lambda _runner, _prefix: SHELLS,
        "schedulers": lambda runner, _: runner.scheduler_backends(),
        "components": lambda _, prefix: _components(prefix),
        "functions": lambda _, prefix: _python_files(prefix),
        "jobs": lambda *_: _jobs(),
    }

    def completer_of(find: Callable[[Runner, str], Iterable[str]]) -> Completer:
        def completer(prefix: str, **_: object) -> list[str]:
            try:
                with runner_factory() as runner:
                    return [word for word in find(runner, prefix) if word.startswith(prefix)]
            except (WherryError, OSError):
                return []  # a shell has no place for our errors

        return completer

    for action in parser._actions:  # noqa: SLF001 — argparse has no public way to its actions
        kind = vars(action).get("completes")
        if kind is not None:
            vars(action)["completer"] = completer_of(kinds[kind])


def _handles(runner: Runner, prefix: str) -> list[str]:
    from wherry.schedulers.api import ListFilter

    apps = runner.list(chosen=ListFilter(limit=_RECENT))
    return [app.app_handle if "://" in prefix else app.app_id for app in apps]


def _targets(runner: Runner, prefix: str) -> list[str]:
    known = _handles(runner, prefix)
    app = next((name for name in known if prefix.startswith(f"{name}/")), None)
    described = None if app is None else runner.describe(app)
    if described is None:
        return known
    return [f"{app}/{role.role}" for role in described.roles_statuses]


def _jobs() -> list[str]:
    from itertools import islice

    from wherry.functions import records

    return [entry.id for entry in islice(records.entries(), _RECENT)]


def _components(prefix: str) -> list[str]:
    from wherry import components

    if os.sep in prefix or prefix.endswith(".py"):
        return _python_files(prefix)
    found, _ = components.builtins()
    return [component.name for component in found] + _python_files(prefix)


def _python_files(prefix: str) -> list[str]:
    """List folders and Python files; a function of one is written after a colon."""
    folder, name = os.path.split(prefix)
    with os.scandir(folder or ".") as entries:
        return [
            os.path.join(folder, entry.name) + (os.sep if entry.is_dir() else ":")
            for entry in entries
            if entry.name.startswith(name)
            and (entry.is_dir() or entry.name.endswith(".py"))
            and not entry.name.startswith((".", "__"))
        ]


def _words_before_cursor() -> list[str]:
    """Return the words before the one that is being written, ``wherry`` itself left out."""
    from argcomplete.lexers import split_line

    line = os.environ.get("COMP_LINE", "")
    point = int(os.environ.get("COMP_POINT", len(line)))
    start = int(os.environ.get("_ARGCOMPLETE", "1"))
    words = split_line(line, point)[3]
    return list(words[start:])
