"""Macros: what is replaced, what stays, and that two rounds are one."""

from __future__ import annotations

import copy

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wherry.specs import Role, macros
from wherry.specs.substitution import substitute

VALUES = macros.Values("/img", "train-1", "3", "WHERRY_RANK0_HOST")
OF_THE_ROLE = macros.Values("/img", "train-1", None, "WHERRY_RANK0_HOST")


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("", ""),
        ("plain", "plain"),
        ("${app_id}", "train-1"),
        (macros.img_root, "/img"),
        (macros.app_id, "train-1"),
        (macros.replica_id, "3"),
        (macros.rank0_env, "WHERRY_RANK0_HOST"),
        ("a/${app_id}/${replica_id}/b", "a/train-1/3/b"),
        ("${app_id}${app_id}", "train-1train-1"),
        # An escaped dollar.
        ("$$", "$"),
        ("$$$$", "$$"),
        ("$${app_id}", "${app_id}"),
        ("$$${app_id}", "$train-1"),
        ("$$HOME", "$HOME"),
        # Whatever else has a dollar in it is a shell's, or a user's, and stays.
        ("$", "$"),
        ("$HOME ${HOME} $(date) $1", "$HOME ${HOME} $(date) $1"),
        ("${app_id", "${app_id"),
        ("$app_id", "$app_id"),
        ("${ app_id }", "${ app_id }"),
        ("${APP_ID}", "${APP_ID}"),
        ("${}", "${}"),
        ("}${", "}${"),
        ("${x${app_id}", "${xtrain-1"),
    ],
)
def test_a_text_after_the_last_round(text: str, replaced: str) -> None:
    assert VALUES.apply(text) == replaced


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("${app_id}/${replica_id}", "train-1/${replica_id}"),
        ("$$HOME/${app_id}", "$$HOME/train-1"),
        ("${HOME}", "${HOME}"),
    ],
)
def test_the_round_of_the_role_leaves_the_replica_and_escapes_for_the_next(
    text: str, replaced: str
) -> None:
    assert OF_THE_ROLE.apply(text) == replaced


def test_a_dollar_in_a_value_is_only_a_dollar() -> None:
    role_round = macros.Values("/data/$$x/${replica_id}", "a", None, "R")

    both = macros.Values("", "", "7", "").apply(role_round.apply("${img_root}"))

    assert both == "/data/$$x/${replica_id}"


def test_only_the_known_values_are_listed() -> None:
    assert OF_THE_ROLE.by_name() == {
        "img_root": "/img",
        "app_id": "train-1",
        "rank0_env": "WHERRY_RANK0_HOST",
    }


def test_a_role_is_filled_in_its_args_env_and_metadata() -> None:
    made = Role(
        name="trainer",
        entrypoint="${app_id}",
        args=["--out", "${img_root}/${replica_id}"],
        env={"RANK": "${replica_id}", "PRICE": "$$5"},
        metadata={"labels": ["${app_id}", {"k": "${replica_id}", "n": 5}], "${app_id}": None},
    )
    before = copy.deepcopy(made)

    filled = VALUES.apply_to_role(made)

    assert filled.args == ("--out", "/img/3")
    assert filled.env == {"RANK": "3", "PRICE": "$5"}
    assert filled.metadata == {"labels": ("train-1", {"k": "3", "n": 5}), "${app_id}": None}
    assert filled.entrypoint == "${app_id}"
    assert made == before


NAMES = ("app_id", "replica_id", "img_root")
pieces = st.one_of(
    st.sampled_from(["$", "$$", "{", "}", "${", "${x}", "${app_id}", "${replica_id}", "a", "/"]),
    st.text(max_size=3),
)
texts = st.lists(pieces, max_size=12).map("".join)


@settings(deadline=None)
@given(texts, texts, texts, texts)
@example("${x${app_id}", "}", "", "")
@example("${app_id}$", "x$", "", "")
@example("${replica_id${app_id}", "}", "", "3")
def test_two_rounds_are_one(text: str, app_id: str, img_root: str, replica_id: str) -> None:
    role, replica = {"app_id": app_id, "img_root": img_root}, {"replica_id": replica_id}

    at_once = substitute(text, {**role, **replica})

    assert substitute(substitute(text, role, final=False), replica) == at_once


@settings(deadline=None)
@given(texts, texts, texts, texts)
def test_three_rounds_are_one(text: str, app_id: str, img_root: str, replica_id: str) -> None:
    first = substitute(text, {"app_id": app_id}, final=False)
    second = substitute(first, {"img_root": img_root}, final=False)

    assert substitute(second, {"replica_id": replica_id}) == substitute(
        text, {"app_id": app_id, "img_root": img_root, "replica_id": replica_id}
    )


@settings(deadline=None)
@given(st.text())
def test_an_escaped_text_comes_out_as_it_was(text: str) -> None:
    assert VALUES.apply(text.replace("$", "$$")) == text


@settings(deadline=None)
@given(st.text(st.characters(exclude_characters="$")))
def test_a_text_without_a_dollar_is_left_alone(text: str) -> None:
    assert VALUES.apply(text) == text


@pytest.mark.timeout(20)
@pytest.mark.parametrize("hostile", ["$", "$$", "${", "${a", "${app_id", "${app_id}", "}"])
def test_hostile_texts_take_linear_time(hostile: str) -> None:
    assert substitute(hostile * 200_000, {"app_id": ""}, final=True) is not None
    assert substitute(hostile * 200_000, {"app_id": ""}, final=False) is not None
