"""An argument parser whose mistakes are usage errors like all others.

It also knows where a command's own options end, for the command that runs somebody else's.
"""

from __future__ import annotations

import argparse
import os

from wherry.errors import UsageError, nearest, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, NoReturn, TypeVar

    T = TypeVar("T")
    # Command → one line of help, and what describes it to a parser.
    Commands = Mapping[str, tuple[str, Callable[["Parser"], None]]]


class Parser(argparse.ArgumentParser):
    """The parser of one command.

    ``passes_words`` makes it stop at the first word that is not one of its own options or their
    values, and hand that word and all that follow to the command untouched, as ``words``.

    A parser with ``commands`` reads its own options, then the name of one of them, and lets the
    parser of that one read the rest.
    """

    passes_words = False
    commands: Commands = {}  # noqa: RUF012 — replaced, never changed

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", _Help)
        super().__init__(allow_abbrev=False, **settings)

    def read(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse the words after the command's name.

        Raises:
            UsageError: they do not fit; the message names the nearest option.
        """
        if self.commands:
            return self._read_command(argv)
        own, words = self.split(argv) if self.passes_words else (list(argv), [])
        found, extra = self.parse_known_args(own)
        if extra:
            raise UsageError(self._surplus(extra))
        if self.passes_words:
            found.words = words
        return found

    def offer(self, commands: Commands) -> None:
        """Make this the parser of a command that has commands of its own."""
        self.commands = commands
        width = max(map(len, commands))
        rows = (f"  {name:<{width}}  {summary}" for name, (summary, _) in commands.items())
        self.usage = f"{self.prog} COMMAND [option ...]"
        self.epilog = "\n".join(("commands:", *rows))

    def command(self, name: str) -> Parser:
        """Make the parser of one of this parser's commands."""
        summary, describe = self.commands[name]
        description = f"{summary[:1].upper()}{summary[1:]}."
        parser = Parser(prog=f"{self.prog} {name}", description=description)
        describe(parser)
        return parser

    def split(self, argv: Sequence[str]) -> tuple[list[str], list[str]]:
        """Cut the words at the first that is neither an option nor an option's value."""
        taken = False
        for at, word in enumerate(argv):
            if taken:
                taken = False
            elif word == "--":
                return list(argv[:at]), list(argv[at + 1 :])
            elif not word.startswith("-") or word == "-":
                return list(argv[:at]), list(argv[at:])
            else:
                taken = self._takes_next(word)
        return list(argv), []

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print."""
        raise UsageError(f"{message} (see `{self.prog} --help`)")

    def option_names(self) -> list[str]:
        """Return the options that this parser knows, as they are written."""
        return list(self._option_string_actions)

    def _read_command(self, argv: Sequence[str]) -> argparse.Namespace:
        own, words = self.split(argv)
        _, extra = self.parse_known_args(own)
        if extra:
            raise UsageError(self._surplus(extra))
        if not words:
            self.error(f"say what to do: {', '.join(self.commands)}")
        if words[0] not in self.commands:
            raise UsageError(unknown(f"command of `{self.prog}`:", words[0], self.commands))
        return self.command(words[0]).read(words[1:])

    def _takes_next(self, word: str) -> bool:
        action = self._option_string_actions.get(word)
        if action is not None:
            return action.nargs != 0
        if word.startswith("--") or "=" in word or len(word) < 3:
            return False
        # A cluster such as -ds: the last letter may want the next word.
        first = self._option_string_actions.get(word[:2])
        return first is not None and first.nargs == 0 and self._takes_next("-" + word[2:])

    def _surplus(self, extra: Sequence[str]) -> str:
        word = extra[0].partition("=")[0]
        if not word.startswith("-"):
            return f"unexpected argument {extra[0]!r} (see `{self.prog} --help`)"
        close = nearest(word, self.option_names())
        hint = f"; did you mean {close!r}?" if close else ""
        return f"unknown option {word!r}{hint} (see `{self.prog} --help`)"


class _Help(argparse.RawDescriptionHelpFormatter):
    """Writes help as wide as the terminal, up to what is easy to read.

    argparse makes one for every argument that is added, and looks for the width with a module
    that costs more than all the rest of it.
    """

    def __init__(self, prog: str, **settings: Any) -> None:
        settings.setdefault("width", columns() - 2)
        super().__init__(prog, **settings)


def columns() -> int:
    """Return how wide text for reading should be."""
    try:
        wide = int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size().columns
    except (ValueError, OSError):
        wide = 80
    return min(max(wide, 40), 100)


def checked(convert: Callable[[str], T]) -> Callable[[str], T]:
    """Let a converter's usage error keep its words inside argparse, which would drop them."""

    def converted(text: str) -> T:
        try:
            return convert(text)
        except UsageError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return converted


def whole_number(least: int) -> Callable[[str], int]:
    """Make a converter for whole numbers from ``least`` on."""

    def convert(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise UsageError(f"expected a whole number from {least} on, not {text!r}")
        return number

    return checked(convert)


def one_of(kind: str, words: Sequence[str]) -> Callable[[str], str]:
    """Make a converter that takes only these words, and names the nearest for another."""

    def convert(text: str) -> str:
        if text not in words:
            raise UsageError(unknown(kind, text, words))
        return text

    return checked(convert)


def add_handle(parser: argparse.ArgumentParser, **settings: Any) -> None:
    """Add the argument that names an app."""
    action = parser.add_argument(
        "handle",
        metavar="HANDLE",
        help="the app: its handle, its id, or enough of the id's beginning",
        **settings,
    )
    set_completer(action, "handles")


def add_json(parser: argparse.ArgumentParser, keys: str = "") -> None:
    """Add ``--json``, and say which keys it prints."""
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    if keys:
        parser.epilog = f"--json prints:\n  {keys}"


def set_completer(action: argparse.Action, kind: str) -> None:
    """Say what completes an argument; `wherry.cli.completion` knows how.

    Args:
        action: the argument.
        kind: ``handles``, ``targets``, ``schedulers``, ``components``, ``functions`` or ``jobs``.
    """
    vars(action)["completes"] = kind
