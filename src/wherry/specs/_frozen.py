"""Values that stay as they were made: a read-only dict, and checks for fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any, NoReturn, TypeVar

from wherry.errors import InvalidSpecError

K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V]):
    """A dict that cannot be changed; it still prints, compares and serialises as one."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("specs are values: make a new one with dataclasses.replace()")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (dict(self),))

    def __copy__(self) -> FrozenDict[K, V]:
        return self

    def __hash__(self) -> int:  # type: ignore[override]
        # Equal dicts have equal keys; their values may be equal and print differently (1, 1.0).
        return hash(frozenset(self))


def set_field(owner: object, name: str, value: object) -> None:
    """Set a field of a frozen dataclass while it is being made."""
    object.__setattr__(owner, name, value)


def frozen_strings(where: str, value: Iterable[str]) -> tuple[str, ...]:
    """Copy a sequence of strings; one string by itself is a mistake and is refused."""
    items = sequence(where, value, "strings")
    for index, item in enumerate(items):
        text(f"{where}[{index}]", item)
    return items


def frozen_string_map(where: str, value: Mapping[str, str]) -> FrozenDict[str, str]:
    """Copy a mapping of strings to strings, refusing anything else by name."""
    for key, item in mapping(where, value).items():
        text(f"a key of {where}", key)
        text(f"{where}[{key!r}]", item)
    return FrozenDict(value)


def frozen_data(where: str, value: Mapping[str, Any]) -> FrozenDict[str, Any]:
    """Copy a mapping of strings to plain data, so deep that nothing of the caller's is shared."""
    for key in mapping(where, value):
        if not isinstance(key, str):
            raise InvalidSpecError(f"{where} has the key {key!r}; keys are strings")
    return FrozenDict({key: _frozen_item(f"{where}[{key!r}]", item) for key, item in value.items()})


def _frozen_item(where: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return frozen_data(where, value)
    if isinstance(value, (list, tuple)):
        return tuple(_frozen_item(f"{where}[{index}]", item) for index, item in enumerate(value))
    return value


def mapping(where: str, value: Mapping[K, V]) -> Mapping[K, V]:
    """Check that a field is a mapping."""
    if not isinstance(value, Mapping):
        raise InvalidSpecError(f"{where} must be a mapping, not {value!r}")
    return value


def sequence(where: str, value: Iterable[V], kind: str) -> tuple[V, ...]:
    """Copy a sequence; one item by itself is a mistake and is refused."""
    if isinstance(value, (str, bytes, Mapping, Set)) or not hasattr(value, "__iter__"):
        raise InvalidSpecError(f"{where} must be a list of {kind}, not {value!r}")
    return tuple(value)


def text(where: str, value: object) -> str:
    """Check that a field is a string that a system call would take."""
    if not isinstance(value, str):
        raise InvalidSpecError(f"{where} must be a string, not {value!r}{_hint(value)}")
    if "\0" in value:
        raise InvalidSpecError(f"{where} contains a NUL byte")
    return value


def whole_number(where: str, value: object, *, least: int) -> int:
    """Check that a field is a whole number and not below ``least``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidSpecError(f"{where} must be a whole number, not {value!r}")
    if value < least:
        raise InvalidSpecError(f"{where} must be {least} or more, not {value}")
    return value


def _hint(value: object) -> str:
    return f"; write {str(value)!r}" if isinstance(value, (int, float)) else ""
