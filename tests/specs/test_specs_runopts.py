"""Run options: types, defaults, and what is refused."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wherry.errors import InvalidOptionError
from wherry.specs import runopt, runopts


@pytest.fixture
def opts() -> runopts:
    made = runopts()
    made.add("queue", help="queue to submit to", required=True)
    made.add("quiet", type_=bool, default=False, help="say less")
    made.add("priority", type_=int, default=0, help="higher goes first")
    made.add("grace", type_=float, help="seconds")
    made.add("tags", type_=list, default=["a"], help="labels")
    made.add("env", type_=dict, help="variables")
    made.add("level", choices=("low", "high"), help="how loud")
    return made


# -- booleans ----------------------------------------------------------------------------------

YES = ["yes", "y", "1", "true", "t", "on", "YES", "True", " yes "]
NO = ["no", "n", "0", "false", "f", "off", "NO", "False", " no "]


@pytest.mark.parametrize("word", [*YES, True, 1])
def test_words_for_yes(opts: runopts, word: object) -> None:
    assert opts.resolve({"queue": "q", "quiet": word})["quiet"] is True


@pytest.mark.parametrize("word", [*NO, False, 0])
def test_words_for_no(opts: runopts, word: object) -> None:
    assert opts.resolve({"queue": "q", "quiet": word})["quiet"] is False


@pytest.mark.parametrize("word", YES)
def test_yes_on_the_command_line_is_not_false(opts: runopts, word: str) -> None:
    assert opts.cfg_from_str(f"quiet={word}") == {"quiet": True}


@pytest.mark.parametrize("word", ["", "maybe", "2", "-1", "None", "truee", 2, 1.0, [], ["yes"]])
def test_any_other_word_is_refused(opts: runopts, word: object) -> None:
    with pytest.raises(InvalidOptionError, match="'quiet' takes yes or no"):
        opts.resolve({"queue": "q", "quiet": word})


# -- the other types ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given", "parsed"),
    [
        ("queue", "main", "main"),
        ("queue", "", ""),
        ("queue", "a=b", "a=b"),
        ("priority", "5", 5),
        ("priority", "-5", -5),
        ("priority", 5, 5),
        ("grace", "1.5", 1.5),
        ("grace", "1e3", 1000.0),
        ("grace", 2, 2.0),
        ("tags", "a", ["a"]),
        ("tags", "a;b", ["a", "b"]),
        ("tags", " a ; b ;", ["a", "b"]),
        ("tags", "", []),
        ("tags", ["a;b", "c"], ["a;b", "c"]),
        ("tags", ("a",), ["a"]),
        ("env", "A:1", {"A": "1"}),
        ("env", "A:1;B:2", {"A": "1", "B": "2"}),
        ("env", "URL:s3://b/k", {"URL": "s3://b/k"}),
        ("env", "", {}),
        ("env", {"A": "1", "B": 2}, {"A": "1", "B": "2"}),
        ("level", "low", "low"),
    ],
)
def test_a_value_becomes_its_options_type(
    opts: runopts, name: str, given: object, parsed: object
) -> None:
    value = opts.resolve({"queue": "q", name: given})[name]

    assert value == parsed
    assert type(value) is type(parsed)


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("queue", 5, "'queue' takes text, not 5"),
        ("queue", ["main"], "'queue' takes text"),
        ("priority", "high", "'priority' takes a whole number, not 'high'"),
        ("priority", "1.5", "'priority' takes a whole number"),
        ("priority", 1.5, "'priority' takes a whole number"),
        ("priority", True, "'priority' takes a whole number"),
        ("priority", "9" * 5000, "'priority' takes a whole number"),
        ("grace", "soon", "'grace' takes a number"),
        ("grace", True, "'grace' takes a number"),
        ("tags", 5, "'tags' takes a list"),
        ("tags", [5], "'tags' takes a list"),
        ("tags", {"a": "b"}, "'tags' takes a list"),
        ("env", "A=1", "'env' takes pairs"),
        ("env", "A:1;B", "'env' takes pairs"),
        ("env", ["A:1"], "'env' takes pairs"),
        ("env", {"A": None}, "'env' takes pairs"),
        ("env", {"A": ["1"]}, "'env' takes pairs"),
        ("level", "lo", "unknown value for option 'level': 'lo'; did you mean 'low'?"),
        ("level", "x", "known: high, low"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(
    opts: runopts, name: str, given: object, expected: str
) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        opts.resolve({"queue": "q", name: given})

    assert expected in str(refused.value)


def test_each_item_of_a_list_must_be_one_of_the_choices() -> None:
    opts = runopts()
    opts.add("sides", type_=list, choices=("left", "right"), help="which")

    assert opts.cfg_from_str("sides=left;right") == {"sides": ["left", "right"]}
    with pytest.raises(InvalidOptionError, match="'rihgt'; did you mean 'right'"):
        opts.cfg_from_str("sides=left;rihgt")


# -- resolve -----------------------------------------------------------------------------------


def test_every_option_has_a_value_in_the_options_order(opts: runopts) -> None:
    assert list(opts.resolve({"priority": "1", "queue": "q"}).items()) == [
        ("queue", "q"),
        ("quiet", False),
        ("priority", 1),
        ("grace", None),
        ("tags", ["a"]),
        ("env", None),
        ("level", None),
    ]


def test_none_means_not_set(opts: runopts) -> None:
    assert opts.resolve({"queue": "q", "priority": None})["priority"] == 0


def test_resolving_twice_changes_nothing(opts: runopts) -> None:
    once = opts.resolve({"queue": "q", "tags": "a;b", "env": "A:1"})

    assert opts.resolve(once) == once


@pytest.mark.parametrize("cfg", [{}, {"queue": None}])
def test_a_required_option_must_be_set(opts: runopts, cfg: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        opts.resolve(cfg)

    assert str(refused.value) == (
        "option 'queue' is required (queue to submit to); set it with -cfg queue=…"
    )


@pytest.mark.parametrize("way", ["resolve", "cfg_from_str", "cfg_from_json_repr"])
def test_an_unknown_option_is_refused_with_the_nearest(opts: runopts, way: str) -> None:
    given: Any = {
        "resolve": {"queue": "q", "prioritty": "1"},
        "cfg_from_str": "queue=q,prioritty=1",
        "cfg_from_json_repr": '{"queue": "q", "prioritty": 1}',
    }[way]

    with pytest.raises(InvalidOptionError, match="unknown option 'prioritty'; did you mean 'pri"):
        getattr(opts, way)(given)


def test_the_callers_values_are_neither_changed_nor_shared(opts: runopts) -> None:
    tags, env = ["x"], {"A": "1"}
    cfg = {"queue": "q", "tags": tags, "env": env}

    resolved = opts.resolve(cfg)
    resolved["tags"].append("y")  # type: ignore[union-attr]
    resolved["env"]["B"] = "2"  # type: ignore[index, call-overload]

    assert cfg == {"queue": "q", "tags": ["x"], "env": {"A": "1"}}


def test_a_default_is_not_shared_between_answers(opts: runopts) -> None:
    opts.resolve({"queue": "q"})["tags"].append("b")  # type: ignore[union-attr]

    assert opts.resolve({"queue": "q"})["tags"] == ["a"]


# -- definitions -------------------------------------------------------------------------------


def test_a_default_written_as_text_gets_its_type() -> None:
    opts = runopts()
    opts.add("n", type_=int, default="5", help="how many")

    assert opts.resolve({}) == {"n": 5}


@pytest.mark.parametrize(
    ("definition", "named"),
    [
        ({"type_": set}, "no such type"),
        ({"type_": int, "default": "five"}, "'x' takes a whole number"),
        ({"default": "a", "required": True}, "required and has a default"),
        ({"default": "c", "choices": ("a", "b")}, "known: a, b"),
    ],
)
def test_a_definition_that_contradicts_itself_is_refused(
    definition: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        runopts().add("x", help="x", **definition)

    assert named in str(refused.value)


def test_options_are_listed_in_order(opts: runopts) -> None:
    assert [name for name, _ in opts] == [
        "queue", "quiet", "priority", "grace", "tags", "env", "level",
    ]  # fmt: skip
    assert len(opts) == 7


def test_an_option_is_found_by_name(opts: runopts) -> None:
    found = opts.get("quiet")

    assert found == runopt("say less", bool, False)
    assert opts.get("loud") is None


def test_update_adds_and_replaces(opts: runopts) -> None:
    more = runopts()
    more.add("quiet", type_=bool, default=True, help="say nothing")
    more.add("image", help="image")

    opts.update(more)

    assert opts.resolve({"queue": "q"})["quiet"] is True
    assert len(opts) == 8
    assert len(more) == 2


def test_the_printed_form_tells_what_there_is(opts: runopts) -> None:
    text = repr(opts)

    assert text.startswith("usage: queue=QUEUE,[quiet=QUIET],[priority=PRIORITY]")
    assert "queue=QUEUE (str)\n        queue to submit to" in text
    assert "priority=PRIORITY (int, 0)" in text
    assert "One of: low, high." in text


# -- text --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cfg"),
    [
        ("", {}),
        (" , ", {}),
        ("queue=main", {"queue": "main"}),
        (" queue = main , priority=5,", {"queue": "main", "priority": 5}),
        ("queue=a=b", {"queue": "a=b"}),
        ("tags=a;b,queue=q", {"tags": ["a", "b"], "queue": "q"}),
        ("tags=a,b,queue=q", {"tags": ["a", "b"], "queue": "q"}),
        ("env=A:1;B:2,queue=q", {"env": {"A": "1", "B": "2"}, "queue": "q"}),
        ("queue=a,queue=b", {"queue": "b"}),
    ],
)
def test_a_text_of_options(opts: runopts, text: str, cfg: dict[str, Any]) -> None:
    assert opts.cfg_from_str(text) == cfg


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("queue", "'queue' is not key=value"),
        ("queue=a,b", "'b' is not key=value"),
        ("=a", "unknown option ''"),
        ("tags=a,quue=q", "unknown option 'quue'; did you mean 'queue'"),
        ("priority=", "'priority' takes a whole number, not ''"),
    ],
)
def test_a_bad_text_of_options_is_refused(opts: runopts, text: str, named: str) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        opts.cfg_from_str(text)

    assert named in str(refused.value)


def test_options_as_json(opts: runopts) -> None:
    text = '{"queue": "q", "quiet": "yes", "priority": 5, "tags": ["a"], "grace": null}'

    assert opts.cfg_from_json_repr(text) == {
        "queue": "q",
        "quiet": True,
        "priority": 5,
        "tags": ["a"],
        "grace": None,
    }


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{", "options are not JSON"),
        ("[1]", "must be a JSON object"),
        ('{"quiet": "maybe"}', "'quiet' takes yes or no"),
    ],
)
def test_bad_json_is_refused(opts: runopts, text: str, named: str) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        opts.cfg_from_json_repr(text)

    assert named in str(refused.value)


# -- round trips -------------------------------------------------------------------------------

ALL = runopts()
ALL.add("text", help="t")
ALL.add("flag", type_=bool, help="f")
ALL.add("number", type_=int, help="n")
ALL.add("real", type_=float, help="r")
ALL.add("words", type_=list, help="w")
ALL.add("pairs", type_=dict, help="p")


def bare(excluded: str, least: int = 0) -> st.SearchStrategy[str]:
    """Texts that the form key=value,key=value can hold: no separators, no outer white space."""
    return st.text(st.characters(exclude_characters=excluded), min_size=least).filter(
        lambda text: text == text.strip()
    )


values = st.fixed_dictionaries(
    {},
    optional={
        "text": bare(","),
        "flag": st.booleans(),
        "number": st.integers(),
        "real": st.floats(allow_nan=False),
        "words": st.lists(bare(",;=", 1)),
        "pairs": st.dictionaries(bare(",;:=", 1), bare(",;")),
    },
)


def written(value: object) -> str:
    if isinstance(value, list):
        return ";".join(value)
    if isinstance(value, dict):
        return ";".join(f"{key}:{item}" for key, item in value.items())
    return str(value)


@settings(deadline=None)
@given(values)
def test_what_is_written_is_read_back(cfg: dict[str, Any]) -> None:
    text = ",".join(f"{name}={written(value)}" for name, value in cfg.items())

    assert ALL.cfg_from_str(text) == cfg


@settings(deadline=None)
@given(values)
def test_json_is_read_back(cfg: dict[str, Any]) -> None:
    assert ALL.cfg_from_json_repr(json.dumps(cfg)) == cfg


@settings(deadline=None)
@given(values)
def test_what_was_resolved_resolves_to_itself(cfg: dict[str, Any]) -> None:
    resolved = ALL.resolve(cfg)

    assert {name: value for name, value in resolved.items() if value is not None} == cfg
    assert ALL.resolve(resolved) == resolved


@settings(deadline=None)
@given(st.text())
def test_garbage_is_refused_and_never_crashes(text: str) -> None:
    for read in (ALL.cfg_from_str, ALL.cfg_from_json_repr):
        with contextlib.suppress(InvalidOptionError):
            assert set(read(text)) <= {name for name, _ in ALL}
