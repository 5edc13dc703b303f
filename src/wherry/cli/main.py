"""The ``wherry`` command: finds the command that is meant, runs it, and words what goes wrong.

Start-up counts. A command is a row in a table, and only the chosen one's module is imported;
commands of other packages are looked for when no row fits, and for the list in ``--help``.
"""

from __future__ import annotations

import os
import sys

from wherry.errors import UnknownAppError, UsageError, WaitTimeout, WherryError, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence

    from wherry.cli.parsing import Parser
    from wherry.runner import Runner

    RunnerFactory = Callable[[], Runner]

# Command → one line of help, module, and the function in it that describes the command to a
# parser. The function sets the default `func`, which runs the command and returns an exit code.
COMMANDS = {
    "run": ("run a component", "cmd_run", "configure"),
    "status": ("show the state of an app", "cmd_inspect", "configure_status"),
    "describe": ("show all that is known of an app", "cmd_inspect", "configure_describe"),
    "why": ("say why an app does not run, or failed", "cmd_why", "configure"),
    "log": ("print or follow logs", "cmd_log", "configure"),
    "cancel": ("end an app", "cmd_control", "configure_cancel"),
    "wait": ("wait for an app's end", "cmd_control", "configure_wait"),
    "list": ("list apps", "cmd_list", "configure"),
    "map": ("call a function for each item", "cmd_map", "configure"),
    "jobs": ("list calls of functions", "cmd_jobs", "configure_jobs"),
    "result": ("print the value of a call", "cmd_jobs", "configure_result"),
    "retry": ("run a call, or failed items, again", "cmd_jobs", "configure_retry"),
    "task-ids": ("print the numbers of a map's items", "cmd_jobs", "configure_task_ids"),
    "builtins": ("list components", "cmd_discover", "configure_builtins"),
    "runopts": ("list the options of schedulers", "cmd_discover", "configure_runopts"),
    "configure": ("write a wherry.toml to start from", "cmd_configure", "configure"),
    "ledger": ("look after the index of apps", "cmd_records", "configure_ledger"),
    "prune": ("remove records of apps that ended", "cmd_records", "configure_prune"),
    "aws": ("look after what is at AWS", "cmd_aws", "configure"),
    "emulator": ("run AWS Batch on this machine", "cmd_emulator", "configure"),
    "completion": ("print a shell's completion script", "cmd_completion", "configure"),
}
EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_TIMEOUT = 124  # as timeout(1)
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE


def main(argv: Sequence[str] | None = None, runner_factory: RunnerFactory | None = None) -> int:
    """Run one command.

    Args:
        argv: the words after ``wherry``; the process's own when ``None``.
        runner_factory: makes the Runner; `wherry.runner.get_runner` when ``None``.

    Returns:
        The exit code.
    """
    if "_ARGCOMPLETE" in os.environ:
        from wherry.cli.completion import complete

        return complete(runner_factory or _get_runner)
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        _never_fail_on_odd_characters()
    return _guarded(words, runner_factory or _get_runner)


def parser_of(name: str) -> Parser:
    """Make the parser of one of our commands; imports its module."""
    import importlib

    from wherry.cli.parsing import Parser

    summary, module, function = COMMANDS[name]
    parser = Parser(prog=f"wherry {name}", description=summary[:1].upper() + summary[1:] + ".")
    getattr(importlib.import_module(f"wherry.cli.{module}"), function)(parser)
    return parser


def _get_runner() -> Runner:
    from wherry.runner import get_runner

    return get_runner()


def _guarded(words: list[str], runner_factory: RunnerFactory) -> int:
    """Dispatch, and turn what goes wrong into a line on stderr and an exit code."""
    try:
        code = _dispatch(words, runner_factory)
        sys.stdout.flush()
        return code
    except SystemExit as end:
        return _exit_code(end)
    except BrokenPipeError:
        silence_stdout()
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except (WherryError, OSError) as error:
        if os.environ.get("WHERRY_DEBUG"):
            raise
        return _report(error)


def _dispatch(words: list[str], runner_factory: RunnerFactory) -> int:
    if not words:
        print(_help(), file=sys.stderr)
        return EXIT_USAGE
    name, rest = words[0], words[1:]
    if name in ("-h", "--help", "help"):
        return _show_help(rest)
    if name in ("-V", "--version"):
        from wherry import __version__

        print(f"wherry {__version__}")
        return 0
    if name in COMMANDS:
        found = parser_of(name).read(rest)
        found.runner_factory = runner_factory
    else:
        found = _plugin_parser(name).read(rest)
    return _call(found)


def _call(found: Namespace) -> int:
    code = found.func(found)
    return code if isinstance(code, int) else 0


def _plugin_parser(name: str) -> Parser:
    if name.startswith("-"):
        raise UsageError(
            f"unknown option {name!r}; options come after the command (see `wherry --help`)"
        )
    from wherry.cli import plugins

    others = plugins.names()
    if name not in others:
        raise UsageError(unknown("command", name, [*COMMANDS, *others], shown=40))
    return plugins.parser_of(name)


def _show_help(rest: list[str]) -> int:
    if rest and rest[0] in COMMANDS:
        parser_of(rest[0]).print_help()
    elif rest:
        _plugin_parser(rest[0]).print_help()
    else:
        print(_help())
    return 0


def _help() -> str:
    from wherry.cli import plugins

    rows = {name: row[0] for name, row in COMMANDS.items()}
    rows.update(plugins.summaries(known=COMMANDS))
    width = max(map(len, rows))
    return "\n".join(
        (
            "usage: wherry COMMAND [option ...]",
            "",
            "Run the same work on this machine, in a container, or on AWS Batch.",
            "",
            "commands:",
            *(f"  {name:<{width}}  {summary}" for name, summary in rows.items()),
            "",
            "options:",
            f"  {'-h, --help':<{width}}  show this, or `wherry COMMAND --help` for a command",
            f"  {'--version':<{width}}  show the version",
            "",
            "Begin with: wherry run utils.echo --msg hello",
        )
    )


def _report(error: WherryError | OSError) -> int:
    from wherry.cli.output import Paint, clean, say

    label = Paint(sys.stderr)("wherry: error:", "red")
    say(f"{label} {clean(_message(error))}")
    if isinstance(error, (UsageError, UnknownAppError)):
        return EXIT_USAGE
    return EXIT_TIMEOUT if isinstance(error, WaitTimeout) else EXIT_FAILURE


def _message(error: WherryError | OSError) -> str:
    if not isinstance(error, OSError) or isinstance(error, WherryError):
        return str(error)
    reason = error.strerror or str(error) or type(error).__name__
    if error.filename is None:
        return f"{reason} (WHERRY_DEBUG=1 shows where)"
    return f"{os.fsdecode(error.filename)}: {reason}"


def _exit_code(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)
    return EXIT_FAILURE


def silence_stdout() -> None:
    """Let what is still buffered for a reader who has gone vanish, so that nobody complains."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass


def _never_fail_on_odd_characters() -> None:
    for file in (sys.stdout, sys.stderr):
        reconfigure = getattr(file, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
