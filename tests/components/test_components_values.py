"""The types that a component's parameters may have."""

# ruff: noqa: UP006, UP007, UP035, UP045 - components are written with the old spellings too

from __future__ import annotations

import enum
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Dict, List, Literal, NewType, Optional, Union

import pytest

from wherry.components import Component, build
from wherry.errors import ComponentError
from wherry.specs import AppDef

if TYPE_CHECKING:
    from decimal import Decimal

APP = AppDef(name="job")
GOT: list[Any] = []


class Colour(enum.Enum):
    RED = "r"
    GREEN = 2


class Level(str, enum.Enum):
    LOW = "low"
    HIGH = "high"


class Version(str):
    def __new__(cls, text: str) -> Version:
        if not text[:1].isdigit():
            raise ValueError("it begins with a digit")
        return super().__new__(cls, text)


Seconds = NewType("Seconds", float)


def taking(annotation: Any) -> Component:
    """A component whose one parameter ``x`` has this type."""

    def fn(x):
        GOT[:] = [x]
        return APP

    fn.__annotations__ = {"x": annotation, "return": AppDef}
    return Component("job", fn, "", "test")


def read(annotation: Any, *texts: str) -> Any:
    build(taking(annotation), [f"-x={text}" for text in texts])
    return GOT[0]


@pytest.mark.parametrize(
    ("annotation", "text", "expected"),
    [
        (str, "None", "None"),
        (int, "-3", -3),
        (float, "2", 2.0),
        (bool, "off", False),
        (Optional[int], "5", 5),
        (Union[int, None], "5", 5),
        (int | None, "5", 5),
        (Optional[bool], "yes", True),
        (Annotated[int, "of something"], "5", 5),
        (Seconds, "1.5", 1.5),
        (list, "a,b", ["a", "b"]),
        (list[str], "", []),
        (List[int], "1,2", [1, 2]),
        (Optional[list[float]], "1,2.5", [1.0, 2.5]),
        (list[bool], "yes,no", [True, False]),
        (Sequence[str], "a,b", ["a", "b"]),
        (Iterable[int], "1", [1]),
        (tuple[int, ...], "1,2", (1, 2)),
        (list[Level], "low,HIGH", [Level.LOW, Level.HIGH]),
        (dict, "A=1", {"A": "1"}),
        (dict[str, str], "A=1,2,B=x=y", {"A": "1,2", "B": "x=y"}),
        (dict[str, str], "", {}),
        (Dict[str, int], "a=1,b=2", {"a": 1, "b": 2}),
        (Mapping[str, float], "a=1", {"a": 1.0}),
        (Colour, "RED", Colour.RED),
        (Colour, "r", Colour.RED),
        (Colour, "2", Colour.GREEN),
        (Level, "low", Level.LOW),
        (Literal["a", "b"], "b", "b"),
        (Literal[1, 2], "2", 2),
        (Optional[Literal["a"]], "a", "a"),
        (Version, "1.2", Version("1.2")),
        (pathlib.Path, "a/b", pathlib.Path("a/b")),
        ("Optional[int]", "7", 7),
    ],
)
def test_text_becomes_a_value_of_the_type(annotation, text, expected):
    value = read(annotation, text)
    assert value == expected
    assert type(value) is type(expected)


def test_tuples_are_appended_too():
    assert read(tuple[int, ...], "1,2", "3") == (1, 2, 3)


@pytest.mark.parametrize(
    ("annotation", "text", "message"),
    [
        (int, "1.5", "-x takes a whole number, not '1.5'"),
        (Optional[int], "", "-x takes a whole number, not ''"),
        (float, "fast", "-x takes a number, not 'fast'"),
        (list[int], "1,,2", "-x takes a list, each a whole number (a,b), not '1,,2'"),
        (dict[str, str], "A", "-x takes pairs, each value text (K=V,K2=V2), not 'A'"),
        (dict[str, str], "=1", "-x takes pairs, each value text (K=V,K2=V2), not '=1'"),
        (dict[str, int], "A=x", "-x takes pairs, each value a whole number"),
        (Colour, "REDD", "-x takes one of RED, GREEN, not 'REDD'; did you mean 'RED'?"),
        (Literal["fast", "slow"], "quick", "-x takes one of fast, slow, not 'quick'"),
        (Version, "v1", "-x takes a Version, not 'v1': it begins with a digit"),
    ],
)
def test_text_of_another_type_is_refused_with_what_is_taken(annotation, text, message):
    with pytest.raises(ComponentError) as caught:
        read(annotation, text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "annotation",
    [
        Any,
        object,
        bytes,
        int | str,
        list[list[str]],
        tuple[int, str],
        dict[str, list[str]],
        list[int | str],
    ],
)
def test_a_type_that_words_cannot_express_is_refused_by_name(annotation):
    with pytest.raises(ComponentError, match=r"job: parameter 'x': .* cannot be given"):
        read(annotation, "1")


def test_a_type_that_is_not_there_at_run_time_is_refused_by_name():
    def late(x: Decimal) -> AppDef:
        return APP

    with pytest.raises(ComponentError, match=r"'x', 'Decimal', cannot be read: .*TYPE_CHECKING"):
        build(Component("job", late, "", "test"), ["-x=1"])


def test_a_parameter_without_a_type_is_refused_by_name():
    def untyped(x) -> AppDef:
        return APP

    with pytest.raises(ComponentError, match=r"job: parameter 'x' has no type"):
        build(Component("job", untyped, "", "test"), ["-x=1"])


def test_keywords_that_have_no_name_are_refused():
    def open_ended(**settings: str) -> AppDef:
        return APP

    with pytest.raises(ComponentError, match=r"\*\*settings cannot be options"):
        build(Component("job", open_ended, "", "test"), [])


def test_a_function_that_returns_something_else_is_no_component():
    def number() -> int:
        return 1

    with pytest.raises(ComponentError, match=r"job returns int, not wherry\.AppDef"):
        build(Component("job", number, "", "test"), [])


def test_a_function_that_does_not_say_what_it_returns_is_told_how():
    def silent():
        return APP

    with pytest.raises(ComponentError, match=r"def silent\(…\) -> wherry.AppDef:"):
        build(Component("job", silent, "", "test"), [])


def test_a_class_is_no_component():
    with pytest.raises(ComponentError, match="job is not a function but a type"):
        build(Component("job", AppDef, "", "test"), [])
