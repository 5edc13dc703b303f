"""From the words after a component's name to the call that they stand for.

The component's options come first. At ``--``, or at the first word that is not an option, the
words become ``*args`` and are not looked at any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from wherry.components.options import Option, Signature, signature_of
from wherry.components.values import ValueType
from wherry.errors import ComponentError, nearest, unknown

if TYPE_CHECKING:
    from wherry.components.component import Component

HELP = "--help"


class Call(NamedTuple):
    """The arguments of one call."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class _Split(NamedTuple):
    """The words, sorted: the options' texts in the order given, what is left, a wish for help."""

    given: list[tuple[Option, str]]
    rest: tuple[str, ...] = ()
    help: bool = False


def wants_help(component: Component, argv: Sequence[str]) -> bool:
    """Tell whether the words ask for the component's own help.

    ``--help`` counts where an option may stand, unless the component has a parameter ``help``; a
    ``--help`` among the program's arguments is the program's.

    Raises:
        ComponentError: a word before it cannot be understood.
    """
    return _split(signature_of(component.fn, component.name), argv, component.name).help


def read_call(
    signature: Signature, argv: Sequence[str], defaults: Mapping[str, str], where: str
) -> Call:
    """Turn words into a call.

    Args:
        signature: the component's options.
        argv: the words after the component's name.
        defaults: text by option name, for options that the words do not give.
        where: the component's name, for messages.

    Returns:
        The arguments.

    Raises:
        ComponentError: a word, an option or a value that the component does not take.
    """
    split = _split(signature, argv, where)
    if split.help:
        raise ComponentError(f"{where}: {HELP} asks for help; it makes no app")
    values = _configured(signature, defaults, where) | _given(split.given, where)
    missing = [o.flag for o in signature.options.values() if o.required and o.name not in values]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise ComponentError(
            f"{where}: {', '.join(missing)} {verb} required; `wherry run {where} {HELP}` "
            "shows all options"
        )
    filled = {name: values.get(name, option.default) for name, option in signature.options.items()}
    leading = [filled.pop(name) for name in signature.by_position]
    rest = [_read(signature.rest_type, signature.rest, word, where) for word in split.rest]
    return Call((*leading, *rest), filled)


def _split(signature: Signature, argv: Sequence[str], where: str) -> _Split:
    given: list[tuple[Option, str]] = []
    rest: list[str] = []
    words = list(argv)
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            rest = words[at + 1 :]
            break
        if not _looks_like_option(word):
            _refuse_flag_value(given, words, at, where)
            rest = words[at:]
            break
        at += 1
        if word == HELP and "help" not in signature.options:
            return _Split(given, help=True)
        option, text = _match(signature, word, where)
        if text is None:
            text = _next_value(option, words, at, where)
            at += 1
        given.append((option, text))
    if rest and not signature.rest:
        raise ComponentError(_no_arguments(signature, rest[0], where))
    return _Split(given, tuple(rest))


def _looks_like_option(word: str) -> bool:
    """Tell ``-x`` and ``--x`` from ``-`` (standard input, by habit) and from negative numbers."""
    if not word.startswith("-") or word == "-":
        return False
    return not word[1:2].isdigit() and not (word[1] == "." and word[2:3].isdigit())


def _match(signature: Signature, word: str, where: str) -> tuple[Option, str | None]:
    """Find the option that a word means, and its text when the word holds it."""
    flag, mark, text = word.partition("=")
    name = _parameter(flag)
    option = signature.options.get(name)
    if option is not None:
        if mark:
            return option, text
        return option, ("true" if option.type.is_flag else None)
    positive = signature.options.get(name[3:]) if name.startswith("no_") else None
    if positive is not None and positive.type.is_flag:
        if mark:
            raise ComponentError(f"{where}: {flag} takes no value; write {positive.flag}={text}")
        return positive, "false"
    raise ComponentError(_unknown_option(signature, word, where))


def _parameter(flag: str) -> str:
    """Return the parameter that a flag names: ``num_replicas``; ``j`` for ``-j`` and ``--j``."""
    dashes = len(flag) - len(flag.lstrip("-"))
    name = flag[dashes:].replace("-", "_")
    return name if dashes == 2 or (dashes == 1 and len(name) == 1) else ""


def _next_value(option: Option, words: list[str], at: int, where: str) -> str:
    if at == len(words):
        raise ComponentError(f"{where}: {option.flag} needs a value: {option.type.words}")
    word = words[at]
    if word == "--" or _looks_like_option(word):
        raise ComponentError(
            f"{where}: {option.flag} needs a value, and {word!r} looks like an option; "
            f"write {option.flag}={word} if it is the value"
        )
    return word


def _refuse_flag_value(
    given: list[tuple[Option, str]], words: list[str], at: int, where: str
) -> None:
    """Refuse ``--debug True``: the flag stands alone, so ``True`` would become the program."""
    if not given or words[at].lower() not in ("true", "false"):
        return
    option = given[-1][0]
    if option.type.is_flag and "=" not in words[at - 1]:
        raise ComponentError(
            f"{where}: {option.flag} takes no separate value; write {option.flag}={words[at]}, "
            f"or put `--` before {words[at]!r} if it is the program's"
        )


def _unknown_option(signature: Signature, word: str, where: str) -> str:
    flag, mark, text = word.partition("=")
    letter = signature.options.get(flag[1:2]) if not flag.startswith("--") else None
    flags = [option.flag for option in signature.options.values()]
    if letter is not None and flag[2:]:
        message = f"unknown option {word!r}; did you mean '{letter.flag} {flag[2:]}{mark}{text}'?"
    else:
        message = unknown("option", flag, flags, shown=30)
    if signature.rest:
        message += " Put `--` before the program's own arguments."
    return f"{where}: {message}"


def _no_arguments(signature: Signature, word: str, where: str) -> str:
    flags = ", ".join(option.flag for option in signature.options.values())
    takes = f"its options are {flags}" if flags else "it has no options either"
    return f"{where} takes no arguments, and {word!r} is one; {takes}"


def _configured(signature: Signature, defaults: Mapping[str, str], where: str) -> dict[str, Any]:
    values = {}
    for key, text in defaults.items():
        option = signature.options.get(key.replace("-", "_"))
        if option is None:
            raise ComponentError(
                f"configuration of {where}: {unknown('option', key, signature.options, shown=30)}"
            )
        values[option.name] = _read(option.type, key, text, f"configuration of {where}")
    return values


def _given(given: list[tuple[Option, str]], where: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    texts: dict[str, str] = {}
    for option, text in given:
        value = _read(option.type, option.flag, text, where)
        if option.name not in values:
            values[option.name] = value
        elif option.type.merge is not None:
            values[option.name] = option.type.merge(values[option.name], value)
        else:
            raise ComponentError(
                f"{where}: {option.flag} is given twice ({texts[option.name]!r} and {text!r}); "
                "give it once"
            )
        texts[option.name] = text
    return values


def _read(kind: ValueType, name: str, text: str, where: str) -> Any:
    try:
        return kind.read(text)
    except ValueError as error:
        reason = f": {error}" if str(error) else ""
        close = nearest(text, kind.choices)
        hint = f"; did you mean {close!r}?" if close else ""
        raise ComponentError(
            f"{where}: {name} takes {kind.words}, not {text!r}{reason}{hint}"
        ) from None
