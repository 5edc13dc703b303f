"""A scheduler's options as data: what there is, of which type, and what it means.

One description drives ``-cfg key=value``, configuration files, ``wherry runopts`` and the docs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from wherry.errors import InvalidOptionError, unknown

CfgVal = str | int | float | bool | list[str] | dict[str, str] | None
"""What a run option can hold."""

TRUE_WORDS = frozenset(("yes", "y", "1", "true", "t", "on"))
FALSE_WORDS = frozenset(("no", "n", "0", "false", "f", "off"))


@dataclass(frozen=True)
class runopt:  # noqa: N801 — TorchX's name for it
    """One option.

    Args:
        help: one sentence.
        type_: ``str``, ``int``, ``float``, ``bool``, ``list`` (of strings) or ``dict``.
        default: its value when nobody sets it.
        required: whether somebody must set it.
        choices: the only values it may have; any when empty.
    """

    help: str
    type_: type = str
    default: CfgVal = None
    required: bool = False
    choices: tuple[str, ...] = ()

    def parse(self, name: str, value: object) -> CfgVal:
        """Turn text, or a value of the right type already, into the option's type.

        Raises:
            InvalidOptionError: the value is of another type.
        """
        parsed = _PARSERS[self.type_](value)
        if parsed is _WRONG:
            raise InvalidOptionError(
                f"option {name!r} takes {_TYPE_WORDS[self.type_]}, not {value!r}"
            )
        for word in parsed if isinstance(parsed, (list, dict)) else [parsed]:
            if self.choices and word not in self.choices:
                raise InvalidOptionError(
                    unknown(f"value for option {name!r}:", str(word), self.choices)
                )
        return parsed  # type: ignore[return-value]


class runopts:  # noqa: N801 — TorchX's name for it
    """The options of one scheduler, in the order in which they were added.

    >>> opts = runopts()
    >>> opts.add("queue", help="queue to submit to", required=True)
    >>> opts.add("quiet", type_=bool, default=False, help="say less")
    >>> opts.resolve(opts.cfg_from_str("queue=main,quiet=yes"))
    {'queue': 'main', 'quiet': True}
    """

    def __init__(self) -> None:
        self._opts: dict[str, runopt] = {}

    def add(
        self,
        name: str,
        *,
        help: str,  # noqa: A002 — TorchX's name for it
        type_: type = str,
        default: CfgVal = None,
        required: bool = False,
        choices: tuple[str, ...] = (),
    ) -> None:
        """Add an option.

        Raises:
            InvalidOptionError: the definition contradicts itself.
        """
        if type_ not in _PARSERS:
            raise InvalidOptionError(f"option {name!r}: no such type of option as {type_!r}")
        if required and default is not None:
            raise InvalidOptionError(f"option {name!r} is required and has a default")
        option = runopt(help, type_, None, required, choices)
        if default is not None:
            option = replace(option, default=option.parse(name, default))
        self._opts[name] = option

    def update(self, other: runopts) -> None:
        """Add all options of another set; the same names are replaced."""
        self._opts.update(other._opts)

    def get(self, name: str) -> runopt | None:
        """Return one option, or ``None``."""
        return self._opts.get(name)

    def __iter__(self) -> Iterator[tuple[str, runopt]]:
        return iter(self._opts.items())

    def __len__(self) -> int:
        return len(self._opts)

    def resolve(self, cfg: Mapping[str, object]) -> dict[str, CfgVal]:
        """Check given values, turn text into types, and add defaults.

        Args:
            cfg: values by option name; ``None`` means "not set".

        Returns:
            A value for every option, in the options' order.

        Raises:
            InvalidOptionError: an unknown name, a wrong type, a required option that is missing.
        """
        for name in cfg:
            self._known(name)
        resolved: dict[str, CfgVal] = {}
        for name, option in self._opts.items():
            value = cfg.get(name)
            if value is not None:
                resolved[name] = option.parse(name, value)
            elif option.required:
                raise InvalidOptionError(
                    f"option {name!r} is required ({option.help}); set it with -cfg {name}=…"
                )
            else:  # parsed once more, so that nobody gets hold of the default list itself
                default = option.default
                resolved[name] = None if default is None else option.parse(name, default)
        return resolved

    def cfg_from_str(self, text: str) -> dict[str, CfgVal]:
        """Read ``key=value,key=value``, with each value turned into its option's type.

        A list is ``key=a;b`` or ``key=a,b`` (a word without ``=`` goes on the list before it), a
        dict ``key=a:1;b:2``.

        Raises:
            InvalidOptionError: a word that is not ``key=value``, an unknown key, a wrong type.
        """
        raw: dict[str, str] = {}
        last = ""
        for word in _split_words(text):
            name, mark, value = word.partition("=")
            if not mark:
                if last and self._opts[last].type_ is list:
                    raw[last] += ";" + word
                    continue
                raise InvalidOptionError(f"{word!r} is not key=value (in {text!r})")
            last = name.strip()
            self._known(last)
            raw[last] = value.strip()
        return {name: self._opts[name].parse(name, value) for name, value in raw.items()}

    def cfg_from_json_repr(self, text: str) -> dict[str, CfgVal]:
        """Read options from a JSON object; ``null`` means "not set".

        Raises:
            InvalidOptionError: not a JSON object, an unknown key, a wrong type.
        """
        import json

        try:
            values = json.loads(text)
        except ValueError as error:
            raise InvalidOptionError(f"options are not JSON: {error}") from None
        if not isinstance(values, dict):
            raise InvalidOptionError(f"options must be a JSON object, not {text!r}")
        for name in values:
            self._known(name)
        return {
            name: None if value is None else self._opts[name].parse(name, value)
            for name, value in values.items()
        }

    def __repr__(self) -> str:
        required = [f"{n}={n.upper()}" for n, o in self._opts.items() if o.required]
        optional = [f"[{n}={n.upper()}]" for n, o in self._opts.items() if not o.required]
        lines = [f"usage: {','.join(required + optional)}"]
        for title, wanted in (("required arguments:", True), ("optional arguments:", False)):
            chosen = [(n, o) for n, o in self._opts.items() if o.required is wanted]
            if chosen:
                lines += ["", title]
            for name, option in chosen:
                kind = option.type_.__name__
                default = "" if option.required else f", {option.default}"
                choices = f" One of: {', '.join(option.choices)}." if option.choices else ""
                lines += [f"    {name}={name.upper()} ({kind}{default})"]
                lines += [f"        {option.help}{choices}"]
        return "\n".join(lines)

    def _known(self, name: str) -> None:
        if name not in self._opts:
            raise InvalidOptionError(unknown("option", str(name), self._opts))


_WRONG = object()
_TYPE_WORDS = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "yes or no (or true, false, 1, 0)",
    list: "a list (a;b)",
    dict: "pairs (a:1;b:2)",
}


def _split_words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _to_str(value: object) -> object:
    return value if isinstance(value, str) else _WRONG


def _to_bool(value: object) -> object:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower() if isinstance(value, (str, int)) else ""
    if word in TRUE_WORDS:
        return True
    return False if word in FALSE_WORDS else _WRONG


def _to_int(value: object) -> object:
    if isinstance(value, bool):
        return _WRONG
    if isinstance(value, int):
        return value
    try:
        return int(value) if isinstance(value, str) else _WRONG
    except ValueError:
        return _WRONG


def _to_float(value: object) -> object:
    if isinstance(value, bool):
        return _WRONG
    if isinstance(value, (int, float)):
        return float(value)
    try:
        return float(value) if isinstance(value, str) else _WRONG
    except ValueError:
        return _WRONG


def _to_list(value: object) -> object:
    if isinstance(value, str):
        return [part.strip() for part in value.split(";") if part.strip()]
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return list(value)
    return _WRONG


def _to_dict(value: object) -> object:
    if isinstance(value, Mapping):
        plain = all(isinstance(item, (str, int, float)) for item in value.values())
        return {str(key): str(item) for key, item in value.items()} if plain else _WRONG
    if not isinstance(value, str):
        return _WRONG
    pairs = [part.partition(":") for part in value.split(";") if part.strip()]
    if not all(mark for _, mark, _ in pairs):
        return _WRONG
    return {key.strip(): item.strip() for key, _, item in pairs}


_PARSERS = {
    str: _to_str,
    int: _to_int,
    float: _to_float,
    bool: _to_bool,
    list: _to_list,
    dict: _to_dict,
}
