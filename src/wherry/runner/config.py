"""Settings: the user's ``wherry.toml`` < the project's < ``WHERRY_*`` variables < arguments.

This is the one place that reads them. Nothing is read before it is asked for, and every value
remembers where it came from, so that a message can say so. Arguments are laid over by the Runner.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wherry.errors import ConfigError, InvalidOptionError, nearest, unknown
from wherry.specs.options import FALSE_WORDS, TRUE_WORDS, CfgVal, runopt, runopts

if TYPE_CHECKING:
    from wherry.components import Component
    from wherry.runner.tomlfile import ConfigFile

T = TypeVar("T")

_OPTION_PREFIX = "WHERRY_CFG_"


@dataclass(frozen=True)
class Setting(Generic[T]):
    """A value and where it came from.

    Args:
        value: the value.
        where: says where it came from; asked only when somebody wants to know.
    """

    value: T
    where: Callable[[], str]

    @property
    def source(self) -> str:
        """Where it came from: ``path:line``, or a variable's name."""
        return self.where()


class Config:
    """The settings that hold for one working directory and one environment.

    Making one reads nothing; a file that cannot be understood is reported at the first question.

    Args:
        cwd: where the search for the project's file begins; the current directory by default.
        environ: the environment; the process's own by default.
        paths: the files to read, the one that wins first, instead of searching for them.
    """

    def __init__(
        self,
        cwd: str | None = None,
        environ: Mapping[str, str] | None = None,
        paths: Sequence[str] | None = None,
    ) -> None:
        self._cwd = cwd
        self._environ = os.environ if environ is None else environ
        self._given_paths = paths
        self._loaded: tuple[ConfigFile, ...] | None = None

    def paths(self) -> list[str]:
        """Return the files that are read, the one that wins first."""
        if self._given_paths is not None:
            return list(self._given_paths)
        from wherry.runner import tomlfile

        project = tomlfile.project_file(self._cwd or _current_folder())
        user = os.path.join(tomlfile.user_folder(self._environ), tomlfile.NAME)
        found = [project] if project else []
        if os.path.isfile(user) and not (project and os.path.samefile(project, user)):
            found.append(user)
        return found

    def scheduler(self) -> Setting[str] | None:
        """Return the scheduler to use when none is named, or ``None`` when nobody says."""
        word = self._variable("WHERRY_SCHEDULER")
        return word or self._run("scheduler")

    def detach(self) -> Setting[bool] | None:
        """Tell whether runs are detached, or ``None`` when nobody says."""
        word = self._variable("WHERRY_DETACH")
        if word is None:
            return self._run("detach")
        if word.value.lower() not in TRUE_WORDS | FALSE_WORDS:
            raise ConfigError(
                f"{word.source} takes yes or no (or true, false, 1, 0), not {word.value!r}"
            )
        return Setting(word.value.lower() in TRUE_WORDS, word.where)

    def workspace(self) -> Setting[tuple[str, ...]] | None:
        """Return the folders of code that go along with apps, or ``None`` when nobody says.

        In a file, they are meant from the file's own folder.
        """
        word = self._variable("WHERRY_RUN_WORKSPACE")
        if word is not None:
            return Setting(tuple(filter(None, word.value.split(","))), word.where)
        for file in self._files():
            if "workspace" in file.run:
                from wherry.runner.config_folders import read_folders

                folders = read_folders(file.run["workspace"], os.path.dirname(file.path))
                return Setting(folders, _in_file(file, ("run", "workspace")))
        return None

    def workspace_limit(self) -> Setting[str] | None:
        """Return how large a workspace may be, or ``None`` when nobody says."""
        return self._variable("WHERRY_WORKSPACE_LIMIT") or self._run("workspace_limit")

    def executor(self) -> dict[str, Setting[Any]]:
        """Return what is said of the executor that function calls use when none is named.

        ``kind`` is which one; all else are its arguments. `WHERRY_EXECUTOR` names another kind,
        for which a file's arguments do not count.
        """
        settings: dict[str, Setting[Any]] = {
            name: Setting(value, _in_file(file, ("executor", name)))
            for file in reversed(self._files())
            for name, value in file.executor.items()
        }
        word = self._variable("WHERRY_EXECUTOR")
        if word is None:
            return settings
        same = "kind" in settings and settings["kind"].value == word.value
        return {**(settings if same else {}), "kind": word}

    def options(
        self,
        scheduler: str,
        opts: runopts,
        known: Callable[[], Iterable[str]] = tuple,
    ) -> dict[str, Setting[CfgVal]]:
        """Return what files and environment say of one scheduler's options.

        Args:
            scheduler: the scheduler's name.
            opts: the options that it takes; values are checked and turned into their types.
            known: names all schedulers; asked only when a variable fits no option of this one,
                since it may be another's (``LOCAL`` and ``LOCAL_CWD`` begin alike).

        Raises:
            ConfigError: an unknown option or a value of the wrong type.
        """
        settings: dict[str, Setting[CfgVal]] = {}
        for file in reversed(self._files()):
            for name, value in file.schedulers.get(scheduler, {}).items():
                keys = ("scheduler", scheduler, name)
                option = opts.get(name)
                if option is None:
                    file.refuse(keys, _unknown_option(scheduler, name, opts))
                settings[name] = _checked(option, name, value, _in_file(file, keys))
        settings.update(self._option_variables(scheduler, opts, known))
        return settings

    def component_defaults(self, component: str) -> dict[str, Setting[str]]:
        """Return the configured default options of a component, as text for a command line.

        Args:
            component: its name, such as ``utils.echo``.
        """
        return {
            name: Setting(_as_word(value), _in_file(file, ("component", component, name)))
            for file in reversed(self._files())
            for name, value in file.components.get(component, {}).items()
        }

    def scheduler_sections(self) -> dict[str, Callable[[], str]]:
        """Return the schedulers that files speak of, each with where it does."""
        return {
            name: _in_file(file, ("scheduler", name))
            for file in reversed(self._files())
            for name in file.schedulers
        }

    def _files(self) -> tuple[ConfigFile, ...]:
        if self._loaded is None:
            paths = self.paths()
            if not paths:
                self._loaded = ()
                return ()
            from wherry.runner.tomlfile import ConfigFile

            self._loaded = tuple(ConfigFile(path) for path in paths)
        return self._loaded

    def _run(self, key: str) -> Setting[Any] | None:
        for file in self._files():
            if key in file.run:
                return Setting(file.run[key], _in_file(file, ("run", key)))
        return None

    def _variable(self, name: str) -> Setting[str] | None:
        """Return a variable; an empty one counts as not set."""
        value = self._environ.get(name, "").strip()
        return Setting(value, lambda: name) if value else None

    def _option_variables(
        self, scheduler: str, opts: runopts, known: Callable[[], Iterable[str]]
    ) -> dict[str, Setting[CfgVal]]:
        prefix = _prefix(scheduler)
        by_word = {_word(name): (name, option) for name, option in opts}
        settings = {}
        for variable in _beginning(self._environ, prefix):
            word = variable[len(prefix) :]
            if word in by_word:
                name, option = by_word[word]
                value = self._environ[variable]
                settings[name] = _checked(option, name, value, _named(variable))
            elif not any(
                variable.startswith(other) and len(other) > len(prefix)
                for other in map(_prefix, known())
            ):
                raise ConfigError(_unknown_variable(scheduler, variable, prefix, by_word))
        return settings


def check_defaults(component: Component, settings: Mapping[str, Setting[str]]) -> None:
    """Refuse a configured default that a component does not take.

    Args:
        component: the component.
        settings: its configured options.

    Raises:
        ConfigError: an unknown option or a value of the wrong type, and where it stands.
    """
    from wherry.components.options import signature_of

    options = signature_of(component.fn, component.name).options
    for name, setting in settings.items():
        option = options.get(name.replace("-", "_"))
        if option is None:
            why = unknown(f"option of {component.name}", name, options)
            raise ConfigError(f"{setting.source}: {why}")
        try:
            option.type.read(setting.value)
        except ValueError:
            raise ConfigError(
                f"{setting.source}: option {name!r} of {component.name} takes "
                f"{option.type.words}, not {setting.value!r}"
            ) from None


def template(schedulers: Mapping[str, runopts]) -> str:
    """Write a ``wherry.toml`` that shows every setting, each commented out with its default.

    Prose is behind ``# ``, settings are behind a bare ``#``.

    Args:
        schedulers: each scheduler's name and options.

    Returns:
        The text; with the ``#`` before its settings taken away it is a valid file, too.
    """
    lines = [
        "# Settings for Wherry. This file in a project holds from its folder downward, and wins",
        "# over the user's own. WHERRY_* variables win over both, arguments over everything.",
        "# Take the # away before a setting to change it.",
        "",
        "[run]",
        "# The scheduler of `wherry run` without --scheduler. WHERRY_SCHEDULER says the same.",
        f"#scheduler = {_toml(next(iter(schedulers), 'local_cwd'))}",
        "# Whether `wherry run` returns at once and leaves the app running. WHERRY_DETACH.",
        "#detach = false",
        "# The folder of code that goes along with apps, from this file's folder; or a list of",
        "# them, laid over each other; ROLE=FOLDER for one role. WHERRY_RUN_WORKSPACE.",
        '#workspace = "."',
        "# The most that it may have; none for no limit. WHERRY_WORKSPACE_LIMIT.",
        '#workspace_limit = "512MiB"',
    ]
    for name, opts in schedulers.items():
        lines += ["", f"[scheduler.{_key(name)}]"]
        lines += [f"# Also as variables: {_prefix(name)}<OPTION>."] if len(opts) else []
        for option_name, option in opts:
            lines += _explained(option_name, option)
    lines += [
        "",
        "# The executor of wherry.submit and wherry.map_array: local, docker, aws_batch or debug,",
        "# and its arguments. WHERRY_EXECUTOR names the kind.",
        "#[executor]",
        '#kind = "local"',
        "",
        "# Options of a component that hold unless the command line gives them.",
        '#[component."utils.echo"]',
        '#msg = "hello"',
    ]
    return "\n".join(lines) + "\n"


def _explained(name: str, option: runopt) -> Iterator[str]:
    notes = " ".join(option.help.split())
    if option.choices:
        notes += f" One of: {', '.join(option.choices)}."
    if option.required:
        notes += " Required."
    yield f"# {notes}"
    yield f"#{_key(name)} = {_toml(_example(option))}"


def _example(option: runopt) -> CfgVal:
    if option.default is not None:
        return option.default
    return option.choices[0] if option.choices else _EXAMPLES[option.type_]


_EXAMPLES: dict[type, CfgVal] = {
    str: "",
    int: 0,
    float: 0.0,
    bool: False,
    list: [],
    dict: {},
}


def _toml(value: CfgVal) -> str:
    if isinstance(value, dict):
        pairs = (f"{_key(key)} = {_toml(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quoted(value) if isinstance(value, str) else repr(value)


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "a").replace("-", "a").isalnum()
    return name if bare else _quoted(name)


def _quoted(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _checked(option: runopt, name: str, value: object, where: Callable[[], str]) -> Setting[CfgVal]:
    try:
        return Setting(option.parse(name, value), where)
    except InvalidOptionError as error:
        raise ConfigError(f"{where()}: {error}") from None


def _in_file(file: ConfigFile, keys: tuple[str, ...]) -> Callable[[], str]:
    return lambda: file.place(*keys)


def _named(variable: str) -> Callable[[], str]:
    return lambda: variable


def _as_word(value: object) -> str:
    """Write a TOML value as one would on a command line: ``a,b`` for a list."""
    if isinstance(value, list):
        return ",".join(map(_as_word, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _beginning(environ: Mapping[str, str], prefix: str) -> list[str]:
    return sorted(name for name, value in environ.items() if name.startswith(prefix) and value)


def _prefix(scheduler: str) -> str:
    return f"{_OPTION_PREFIX}{_word(scheduler)}_"


def _word(name: str) -> str:
    return "".join(char if char.isalnum() else "_" for char in name).upper()


def _unknown_option(scheduler: str, name: str, opts: runopts) -> str:
    return unknown(f"option of scheduler {scheduler}", name, [known for known, _ in opts])


def _unknown_variable(
    scheduler: str, variable: str, prefix: str, by_word: Mapping[str, object]
) -> str:
    words = [prefix + word for word in by_word]
    close = nearest(variable, words)
    hint = f"did you mean {close}?" if close else f"its options are {', '.join(words) or 'none'}"
    return f"{variable} names no option of scheduler {scheduler}; {hint}"


def _current_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed; its name may still lead to the folders above
        return os.environ.get("PWD", os.sep)
