"""How the text of one option becomes a value of the type that its parameter is annotated with.

The small records of this room are named tuples: making a dataclass takes a millisecond, on the
way of every run.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, Union, get_args, get_origin


class ValueType(NamedTuple):
    """One kind of value.

    Args:
        words: what an error message says that the option takes.
        metavar: what help shows in the value's place; empty for a flag.
        read: text → value; raises `ValueError`, with the reason when there is more to say than
            ``words`` does.
        merge: how a repeated option adds to what it holds; ``None`` when it may not be repeated.
        choices: the only texts it takes; any when empty.
    """

    words: str
    metavar: str
    read: Callable[[str], Any]
    merge: Callable[[Any, Any], Any] | None = None
    choices: tuple[str, ...] = ()

    @property
    def is_flag(self) -> bool:
        """Whether the option stands without a value."""
        return not self.metavar


def value_type(annotation: Any) -> ValueType:
    """Find out how to read values for an annotation.

    Args:
        annotation: a type, evaluated (not the text of one).

    Returns:
        The kind of value.

    Raises:
        TypeError: values of that type cannot be written as one option.
    """
    plain = _unwrapped(annotation)
    origin = get_origin(plain) or plain
    if origin is Literal:
        return _literal(get_args(plain))
    if origin in _LISTS:
        return _list(plain, _LISTS[origin])
    if origin in _DICTS:
        return _dict(plain)
    if isinstance(origin, type):
        return _scalar(origin)
    return _unsupported(annotation)


def _unwrapped(annotation: Any) -> Any:
    """Take off what says nothing about the text: ``Annotated``, ``NewType`` and ``Optional``."""
    if get_origin(annotation) is Annotated:
        return _unwrapped(get_args(annotation)[0])
    if hasattr(annotation, "__supertype__"):
        return _unwrapped(annotation.__supertype__)
    if get_origin(annotation) in (Union, types.UnionType):
        members = [member for member in get_args(annotation) if member is not type(None)]
        return _unwrapped(members[0]) if len(members) == 1 else _unsupported(annotation)
    return annotation


def _unsupported(annotation: Any) -> NoReturn:
    shown = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    raise TypeError(
        f"{shown} cannot be given as an option; use str, int, float, bool, a path, an Enum, a "
        "Literal, list[…] or dict[str, …] of these, or one of them with None"
    )


def _scalar(cls: type) -> ValueType:
    if cls in _SCALARS:
        return _SCALARS[cls]
    if issubclass(cls, Enum):
        return _enum(cls)
    for base, metavar in _SUBCLASSED.items():
        if issubclass(cls, base):
            return ValueType(f"a {cls.__name__}", metavar, cls)
    return _unsupported(cls)


def _read_bool(text: str) -> bool:
    from wherry.specs.options import FALSE_WORDS, TRUE_WORDS

    word = text.strip().lower()
    if word not in TRUE_WORDS | FALSE_WORDS:
        raise ValueError
    return word in TRUE_WORDS


def _read_int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError from None


def _read_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError from None


_SCALARS: dict[type, ValueType] = {
    str: ValueType("text", "TEXT", str),
    int: ValueType("a whole number", "INT", _read_int),
    float: ValueType("a number", "NUM", _read_float),
    bool: ValueType("yes or no (or true, false, 1, 0)", "", _read_bool),
}
_SUBCLASSED: dict[type, str] = {str: "TEXT", int: "INT", float: "NUM", os.PathLike: "PATH"}


def _enum(cls: type[Enum]) -> ValueType:
    by_text = {str(member.value): member for member in cls} | dict(cls.__members__)
    return _chosen(by_text, tuple(cls.__members__))


def _literal(values: Iterable[Any]) -> ValueType:
    by_text = {str(value): value for value in values if value is not None}
    return _chosen(by_text, tuple(by_text))


def _chosen(by_text: Mapping[str, Any], choices: tuple[str, ...]) -> ValueType:
    def read(text: str) -> Any:
        if text not in by_text:
            raise ValueError
        return by_text[text]

    words = "one of " + ", ".join(choices)
    return ValueType(words, "{" + ",".join(choices) + "}", read, choices=choices)


_LISTS: dict[Any, type[list[Any]] | type[tuple[Any, ...]]] = {
    list: list,
    tuple: tuple,
    Sequence: list,
    Collection: list,
    Iterable: list,
}
_DICTS = frozenset((dict, Mapping, MutableMapping))


def _list(annotation: Any, build: type[list[Any]] | type[tuple[Any, ...]]) -> ValueType:
    args = get_args(annotation) or (str,)
    if build is tuple and args != (str,) and args[1:] != (...,):
        _unsupported(annotation)
    item = _item(annotation, args[0])

    def read(text: str) -> Any:
        return build(item.read(part) for part in text.split(",")) if text else build()

    return ValueType(
        f"a list, each {item.words} (a,b)", f"{_short(item)},…", read, merge=lambda a, b: a + b
    )


def _dict(annotation: Any) -> ValueType:
    key, value = (_item(annotation, arg) for arg in get_args(annotation) or (str, str))

    def read(text: str) -> dict[Any, Any]:
        return {key.read(name): value.read(item) for name, item in _pairs(text)}

    return ValueType(
        f"pairs, each value {value.words} (K=V,K2=V2)",
        f"K={_short(value)},…",
        read,
        merge=lambda a, b: {**a, **b},
    )


def _pairs(text: str) -> list[tuple[str, str]]:
    """Split ``K=V,K2=V2``; a piece without ``=`` goes on the value before it."""
    pairs: list[tuple[str, str]] = []
    for piece in text.split(",") if text else ():
        name, mark, value = piece.partition("=")
        if mark and name:
            pairs.append((name, value))
        elif mark or not pairs:
            raise ValueError
        else:
            pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]},{piece}")
    return pairs


def _item(annotation: Any, of: Any) -> ValueType:
    item = value_type(of)
    return item if item.merge is None else _unsupported(annotation)


def _short(item: ValueType) -> str:
    return item.metavar or "yes|no"
