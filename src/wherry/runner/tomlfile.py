"""One ``wherry.toml``: where it is looked for, how it is read, and what may stand in it.

Every error names the file and the line. The line is searched only when there is an error, by
asking the TOML parser itself at which line the key first appears.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn

from wherry.errors import ConfigError, unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

NAME = "wherry.toml"

RUN_KEYS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "scheduler": (str, "the name of a scheduler, as text"),
    "detach": (bool, "true or false"),
    "workspace": ((str, list), "a folder, as text, or a list of such"),
    "workspace_limit": (str, 'an amount of bytes, as text, such as "2GiB", or "none"'),
}
"""What ``[run]`` may hold: type, and the words for it."""

_SCALARS = (str, int, float, bool)


class ConfigFile:
    """The checked content of one file.

    Args:
        path: the file.

    Raises:
        ConfigError: it cannot be read, is not TOML, or holds what it may not.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._text = _read(path)
        self._content = self._parsed()
        self.run: Mapping[str, Any] = self._table(("run",))
        self.schedulers = self._tables("scheduler")
        self.components = self._tables("component")
        self.executor: Mapping[str, Any] = self._table(("executor",))
        self._check()

    def place(self, *keys: str) -> str:
        """Say where a key stands, as ``path:line``.

        Args:
            keys: the key's path from the top, such as ``"run", "scheduler"``.
        """
        return f"{self.path}:{_line_of(self._text, keys)}"

    def refuse(self, keys: tuple[str, ...], why: str) -> NoReturn:
        """Raise a `ConfigError` that names the file, the line and the reason."""
        raise ConfigError(f"{self.place(*keys)}: {why}")

    def _parsed(self) -> dict[str, Any]:
        try:
            return _loads(self._text)
        except ValueError as error:
            raise ConfigError(_syntax_error(self.path, self._text, str(error))) from None

    def _table(self, keys: tuple[str, ...]) -> dict[str, Any]:
        value: Any = self._content
        for key in keys:
            value = value.get(key, {})
        if not isinstance(value, dict):
            self.refuse(keys, f"{'.'.join(keys)} must be a table [{_dotted(keys)}], not {value!r}")
        return value

    def _tables(self, section: str) -> dict[str, dict[str, Any]]:
        return {name: self._table((section, name)) for name in self._table((section,))}

    def _check(self) -> None:
        for section in self._content:
            if section not in _SECTIONS:
                self.refuse((section,), unknown("section", section, _SECTIONS))
        for key, value in self.run.items():
            self._check_run(key, value)
        for name, options in self.schedulers.items():
            for key, value in options.items():
                self._check_option(("scheduler", name, key), value)
        for name, options in self.components.items():
            for key, value in options.items():
                self._check_default(("component", name, key), value)

    def _check_run(self, key: str, value: object) -> None:
        if key not in RUN_KEYS:
            self.refuse(("run", key), unknown("key of [run]", key, RUN_KEYS))
        wanted, words = RUN_KEYS[key]
        if not isinstance(value, wanted) or not _is_text(value):
            self.refuse(("run", key), f"{key} of [run] takes {words}, not {_shown(value)}")

    def _check_option(self, keys: tuple[str, ...], value: object) -> None:
        """Refuse what no run option could hold; its own type is checked when it is used."""
        items = value.values() if isinstance(value, dict) else _items(value)
        if not all(isinstance(item, _SCALARS) for item in items):
            self._refuse_value(keys, value, "text, a number, true or false, a list or a table")

    def _check_default(self, keys: tuple[str, ...], value: object) -> None:
        items = _items(value)
        if not all(isinstance(item, _SCALARS) for item in items):
            self._refuse_value(keys, value, "text, a number, true or false, or a list of these")
        for item in items if isinstance(value, list) else ():
            if "," in str(item):
                self.refuse(keys, f"an item of {keys[-1]} cannot hold a comma: {item!r}")

    def _refuse_value(self, keys: tuple[str, ...], value: object, words: str) -> NoReturn:
        self.refuse(
            keys, f"{keys[-1]} of [{_dotted(keys[:-1])}] takes {words}, not {_shown(value)}"
        )


def _is_text(value: object) -> bool:
    """Tell whether a list, if it is one, is one of texts."""
    return not isinstance(value, list) or all(isinstance(item, str) for item in value)


_SECTIONS = ("component", "executor", "run", "scheduler")


def project_file(folder: str) -> str | None:
    """Find the nearest ``wherry.toml`` from a folder upward.

    Args:
        folder: where to begin.

    Returns:
        The file's path, or ``None``.
    """
    for parent in _upward(os.path.abspath(folder)):
        path = os.path.join(parent, NAME)
        if os.path.isfile(path) and _may_be_trusted(path, parent):
            return path
    return None


def user_folder(environ: Mapping[str, str]) -> str:
    """Return the folder of the user's own ``wherry.toml``.

    Args:
        environ: the environment; ``WHERRY_CONFIG_HOME`` in it names another folder.
    """
    given = environ.get("WHERRY_CONFIG_HOME")
    if given:
        return os.path.abspath(os.path.expanduser(given))
    if os.uname().sysname == "Linux":
        # What platformdirs says on Linux, without the price of importing it in every command.
        xdg = environ.get("XDG_CONFIG_HOME", "")
        base = xdg if os.path.isabs(xdg) else os.path.expanduser("~/.config")
        return os.path.join(base, "wherry")
    import platformdirs

    return platformdirs.user_config_dir("wherry")


def _upward(folder: str) -> Iterator[str]:
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def _may_be_trusted(path: str, folder: str) -> bool:
    """Tell whether a stranger may have put the file there, as anybody may in ``/tmp``."""
    import stat

    return os.stat(path).st_uid == os.getuid() or not os.stat(folder).st_mode & stat.S_IWOTH


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        raise ConfigError(f"{path}:{before.count(10) + 1}: not UTF-8 text") from None


def _loads(text: str) -> dict[str, Any]:
    import importlib
    import sys

    parser = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    content: dict[str, Any] = parser.loads(text)
    return content


def _syntax_error(path: str, text: str, message: str) -> str:
    import re

    found = re.search(r"line (\d+)", message)
    line = int(found[1]) if found else text.count("\n") + 1
    return f"{path}:{line}: not TOML: {message}"


def _line_of(text: str, keys: tuple[str, ...]) -> int:
    """Find the line on which the statement begins that brings a key in.

    A text cut at the end of a statement parses; cut within one it does not. So "the text up to
    the next line that makes it parse holds the key" is false for every line before the statement
    and true from its first line on, whatever quotes, dots and tables it is written with.
    """
    import bisect

    lines = [f"{line}\n" for line in text.split("\n")]

    def holds_key(count: int) -> bool:
        for end in range(count, len(lines) + 1):
            try:
                content = _loads("".join(lines[:end]))
            except ValueError:
                continue
            return _has(content, keys)
        return True

    return bisect.bisect_left(range(len(lines)), True, key=holds_key)


def _has(content: Any, keys: tuple[str, ...]) -> bool:
    for key in keys:
        if not isinstance(content, dict) or key not in content:
            return False
        content = content[key]
    return True


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _dotted(keys: tuple[str, ...]) -> str:
    return ".".join(
        key if key.replace("_", "").replace("-", "").isalnum() else f'"{key}"' for key in keys
    )


def _shown(value: object) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
