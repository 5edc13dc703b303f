"""Commands of other packages: entry points of the group ``wherry.commands``.

Each is a callable that gets a parser, adds its arguments and sets the default ``func``, which is
called with what was parsed and may return an exit code. One that cannot be loaded is a warning.
"""

from __future__ import annotations

from wherry.errors import PluginError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from importlib.metadata import EntryPoint

    from wherry.cli.parsing import Parser

GROUP = "wherry.commands"


def names() -> list[str]:
    """Return the commands that installed packages add."""
    return sorted(_found())


def parser_of(name: str) -> Parser:
    """Make the parser of another package's command.

    Raises:
        PluginError: it cannot be loaded, or does not say what to run.
    """
    from wherry.cli.parsing import Parser

    point = _found()[name]
    parser = Parser(prog=f"wherry {name}")
    try:
        point.load()(parser)
    except Exception as error:
        raise PluginError(_failure(point, error)) from error
    if parser.get_default("func") is None:
        raise PluginError(f"command {name!r} ({point.value}) sets no default 'func' to run")
    return parser


def summaries(known: Container[str]) -> dict[str, str]:
    """Return a line of help for each added command; a broken one says so on stderr.

    Args:
        known: our own commands, which no other package replaces.
    """
    from wherry.cli.output import warn

    lines = {}
    for name in names():
        if name in known:
            warn(f"command {name!r} of another package is hidden by the built-in one")
            continue
        try:
            parser = parser_of(name)
        except PluginError as error:
            warn(str(error))
            continue
        lines[name] = (parser.description or "").partition("\n")[0]
    return lines


def _found() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


def _failure(point: EntryPoint, error: Exception) -> str:
    return f"command {point.name!r} ({point.value}) failed to load: {type(error).__name__}: {error}"
