"""``Ref::name`` in commands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.emulator.batch.parameters import overlaid, substituted

NAMES = st.text("abcXYZ019_-", min_size=1, max_size=6)
VALUES = st.text(max_size=10)


@pytest.mark.parametrize(
    ("command", "values", "result"),
    [
        (["echo", "Ref::word"], {"word": "hello"}, ("echo", "hello")),
        (["--in=Ref::in.txt"], {"in": "a"}, ("--in=a.txt",)),
        (["Ref::a/Ref::b"], {"a": "1", "b": "2"}, ("1/2",)),
        (["Ref::unknown", "Ref::"], {"a": "1"}, ("Ref::unknown", "Ref::")),
        (["Ref::ab"], {"a": "1"}, ("Ref::ab",)),
        (["Ref::a"], {"a": "Ref::b", "b": "2"}, ("Ref::b",)),
        (["Ref::a"], {"a": ""}, ("",)),
        (["ref::a", "Ref:a"], {"a": "1"}, ("ref::a", "Ref:a")),
        (["Ref::a"], {"a": r"\1"}, (r"\1",)),
        ([], {"a": "1"}, ()),
    ],
)
def test_names_become_values(command, values, result):
    assert substituted(command, values) == result


def test_the_requests_parameters_lie_over_the_definitions():
    assert overlaid({"a": "1", "b": "2"}, {"b": "3", "c": "4"}) == {"a": "1", "b": "3", "c": "4"}
    assert overlaid(None, None) == {}


@given(st.lists(st.text(max_size=20)), st.dictionaries(NAMES, VALUES))
def test_words_without_a_known_name_stay_as_they_are(words, values):
    words = [word.replace("Ref::", "") for word in words]

    assert substituted(words, values) == tuple(words)


@given(st.lists(st.tuples(NAMES, VALUES), min_size=1, max_size=5), NAMES)
def test_each_name_of_a_word_gets_its_own_value(pairs, stranger):
    values = dict(pairs)
    word = "".join(f"Ref::{name}/" for name, _ in pairs)

    expected = "".join(f"{values[name]}/" for name, _ in pairs)
    assert substituted([word], values) == (expected,)
    if stranger not in values:
        assert substituted([f"Ref::{stranger}"], values) == (f"Ref::{stranger}",)
