"""Words after a component's name become a call, or an error that says what to write."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.components import Component, build, wants_help
from wherry.errors import ComponentError
from wherry.specs import AppDef

SEEN: dict[str, Any] = {}


def _app(values: dict[str, Any]) -> AppDef:
    SEEN.clear()
    SEEN.update(values)
    return AppDef(name="job")


def job(
    file: str,
    num_replicas: int = 1,
    j: str = "1x1",
    h: str | None = None,
    debug: bool = False,
    cache: bool = True,
    env: dict[str, str] | None = None,
    tags: list[str] | None = None,
) -> AppDef:
    return _app(dict(locals()))


def program(
    first: str = "-", *args: str, name: str = "", debug: bool = False, j: str = ""
) -> AppDef:
    return _app(dict(locals()))


def words(*tags: str) -> AppDef:
    return _app(dict(locals()))


def call(fn: Any, *argv: str, defaults: dict[str, str] | None = None) -> dict[str, Any]:
    build(Component("my.job", fn, "", "test"), argv, defaults=defaults)
    return dict(SEEN)


def refusal(fn: Any, *argv: str, defaults: dict[str, str] | None = None) -> str:
    with pytest.raises(ComponentError) as caught:
        call(fn, *argv, defaults=defaults)
    return str(caught.value)


# How an option is written


@pytest.mark.parametrize(
    "argv",
    [
        ("--num-replicas", "3"),
        ("--num_replicas", "3"),
        ("--num-replicas=3",),
        ("--num_replicas=3",),
    ],
)
def test_dashes_underscores_and_equals_signs_are_the_same(argv):
    assert call(job, "--file=f", *argv)["num_replicas"] == 3


@pytest.mark.parametrize("argv", [("-j", "2x2"), ("-j=2x2",), ("--j", "2x2"), ("--j=2x2",)])
def test_a_one_letter_parameter_answers_to_one_dash_and_to_two(argv):
    assert call(job, "--file=f", *argv)["j"] == "2x2"


def test_a_letter_with_its_value_stuck_on_is_refused_with_the_right_form():
    assert "did you mean '-j 2x2'?" in refusal(job, "--file=f", "-j2x2")


def test_h_is_the_components_own():
    assert call(job, "--file=f", "-h", "gpu.small")["h"] == "gpu.small"


def test_a_long_option_needs_two_dashes():
    assert "did you mean '--file'?" in refusal(job, "-file", "f")


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ((), False),
        (("--debug",), True),
        (("--no-debug",), False),
        (("--debug=yes",), True),
        (("--debug=true",), True),
        (("--debug=no",), False),
        (("--debug=False",), False),
    ],
)
def test_a_bool_is_a_flag(argv, expected):
    assert call(job, "--file=f", *argv)["debug"] is expected


def test_a_flag_that_is_on_is_turned_off():
    assert call(job, "--file=f", "--no-cache")["cache"] is False


@pytest.mark.parametrize("fn", [job, program])
def test_a_flag_does_not_swallow_the_next_word(fn):
    message = refusal(fn, "--debug", "True")
    assert "--debug takes no separate value; write --debug=True" in message


def test_after_a_separator_a_bool_word_is_the_programs():
    seen = call(program, "--debug", "--", "true")
    assert (seen["debug"], seen["args"]) == (True, ("true",))


def test_a_turned_off_flag_takes_no_value():
    assert "write --debug=yes" in refusal(job, "--file=f", "--no-debug=yes")


def test_a_flags_value_is_yes_or_no():
    assert "--debug takes yes or no" in refusal(job, "--file=f", "--debug=maybe")


def test_a_value_may_be_a_negative_number_or_a_dash():
    assert call(job, "--file", "-5")["file"] == "-5"
    assert call(job, "--file", "-")["file"] == "-"
    assert call(job, "--file", "-.5")["file"] == "-.5"


# Repetition


def test_a_repeated_list_appends():
    assert call(job, "--file=f", "--tags=a,b", "--tags", "c")["tags"] == ["a", "b", "c"]


def test_a_repeated_dict_merges():
    assert call(job, "--file=f", "--env=A=1,B=2", "--env=B=3")["env"] == {"A": "1", "B": "3"}


def test_a_repeated_scalar_is_refused():
    message = refusal(job, "--file=a", "--file", "b")
    assert "--file is given twice ('a' and 'b')" in message


# What is wrong is named


def test_an_unknown_option_names_the_nearest_and_all():
    message = refusal(job, "--num-replica", "2")
    assert "my.job: unknown option '--num-replica'; did you mean '--num-replicas'?" in message
    assert "--file" in message


def test_a_missing_option_is_named():
    assert "my.job: --file is required" in refusal(job)


def test_a_wrong_type_names_option_value_and_type():
    message = refusal(job, "--file=f", "--num-replicas=two")
    assert "--num-replicas takes a whole number, not 'two'" in message


def test_an_option_at_the_end_without_its_value_is_named():
    assert "--file needs a value" in refusal(job, "--file")


@pytest.mark.parametrize("follows", ["--debug", "--", "-x"])
def test_an_option_is_not_taken_for_a_value(follows):
    message = refusal(job, "--file", follows)
    assert "--file needs a value" in message
    assert f"write --file={follows}" in message


def test_a_word_is_refused_where_there_are_no_arguments():
    message = refusal(job, "--file=f", "extra")
    assert "takes no arguments, and 'extra' is one" in message
    assert "--num-replicas" in message


def test_a_lone_separator_is_harmless():
    assert call(job, "--file=f", "--")["file"] == "f"


# The program's own arguments


def test_the_first_word_that_is_no_option_ends_the_options():
    seen = call(words, "ls", "--tags", "-la", "--", "--help")
    assert seen["tags"] == ("ls", "--tags", "-la", "--", "--help")


def test_a_leading_separator_is_dropped_once():
    assert call(words, "--", "--", "a", "--")["tags"] == ("--", "a", "--")


def test_the_components_own_options_come_first():
    seen = call(program, "--name", "n", "--debug", "-j=2", "train", "--name", "other")
    assert seen == {
        "first": "-",
        "args": ("train", "--name", "other"),
        "name": "n",
        "debug": True,
        "j": "2",
    }


def test_a_parameter_before_the_arguments_keeps_its_place():
    seen = call(program, "--first", "x", "--", "a", "b")
    assert (seen["first"], seen["args"]) == ("x", ("a", "b"))


def test_a_negative_number_is_an_argument():
    assert call(words, "-1", "-2.5")["tags"] == ("-1", "-2.5")


def test_a_single_dash_is_an_argument():
    assert call(words, "-", "x")["tags"] == ("-", "x")


def test_an_unknown_option_before_the_arguments_is_refused_with_the_way_out():
    message = refusal(program, "--nmae", "x")
    assert "did you mean '--name'?" in message
    assert "Put `--` before the program's own arguments" in message


def test_arguments_may_have_a_type():
    def total(*numbers: int) -> AppDef:
        return _app(dict(locals()))

    assert call(total, "1", "-2")["numbers"] == (1, -2)
    assert "numbers takes a whole number, not 'x'" in refusal(total, "1", "x")


# Help


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--help"], True),
        (["--name=x", "--help", "rest"], True),
        (["ls", "--help"], False),
        (["--", "--help"], False),
        ([], False),
    ],
)
def test_help_is_asked_where_an_option_may_stand(argv, expected):
    assert wants_help(Component("my.job", program, "", "test"), argv) is expected


def test_a_parameter_may_be_called_help():
    def own(help: str = "") -> AppDef:
        return _app(dict(locals()))

    assert call(own, "--help", "me") == {"help": "me"}
    assert not wants_help(Component("own", own, "", "test"), ["--help", "me"])


def test_help_makes_no_app():
    assert "--help" in refusal(job, "--help")


# Values from configuration


def test_configuration_fills_in_what_the_words_leave_out():
    seen = call(
        job, "--num-replicas=2", defaults={"file": "cfg", "num-replicas": "9", "debug": "yes"}
    )
    assert (seen["file"], seen["num_replicas"], seen["debug"]) == ("cfg", 2, True)


def test_words_replace_a_configured_list():
    assert call(job, "--file=f", "--tags=a", defaults={"tags": "x,y"})["tags"] == ["a"]


def test_an_unknown_key_in_configuration_is_named():
    message = refusal(job, "--file=f", defaults={"num_replica": "2"})
    assert "configuration of my.job: unknown option 'num_replica'" in message
    assert "num_replicas" in message


def test_a_wrong_value_in_configuration_says_where_it_is():
    message = refusal(job, "--file=f", defaults={"num_replicas": "two"})
    assert message == "configuration of my.job: num_replicas takes a whole number, not 'two'"


# What the component does


def test_a_components_value_error_carries_its_name():
    def picky(n: int = 0) -> AppDef:
        raise ValueError("n must be even")

    assert refusal(picky) == "my.job: n must be even"


def test_a_component_must_return_an_app():
    def wrong() -> AppDef:
        return "app"  # type: ignore[return-value]

    assert refusal(wrong) == "my.job returned 'app'; a component returns an AppDef"


def test_another_error_of_the_component_is_its_own():
    def broken() -> AppDef:
        raise KeyError("x")

    with pytest.raises(KeyError):
        call(broken)


def test_the_words_are_not_changed():
    argv = ["--name", "x", "--", "a"]
    build(Component("my.job", program, "", "test"), argv)
    assert argv == ["--name", "x", "--", "a"]


# For any text

any_text = st.text()
word_without_comma = st.text().filter(lambda text: "," not in text)
key = st.text(min_size=1).filter(lambda text: "," not in text and "=" not in text)


@given(st.lists(any_text))
def test_any_arguments_arrive_untouched_after_a_separator(arguments):
    assert call(words, "--", *arguments)["tags"] == tuple(arguments)


@given(st.lists(any_text))
def test_any_arguments_arrive_untouched_after_a_first_word(arguments):
    seen = call(program, "--name=n", "run", *arguments)
    assert seen["args"] == ("run", *arguments)


@given(any_text)
def test_any_text_is_a_value_after_an_equals_sign(text):
    assert call(job, f"--file={text}")["file"] == text


@given(st.integers(), st.floats(allow_nan=False))
def test_numbers_arrive_as_they_were_written(whole, real):
    def numbers(whole: int, real: float) -> AppDef:
        return _app(dict(locals()))

    assert call(numbers, "--whole", str(whole), f"--real={real}") == {"whole": whole, "real": real}


@given(st.lists(word_without_comma, min_size=1).filter(lambda items: items != [""]))
def test_a_list_without_commas_arrives_as_it_was(items):
    assert call(job, "--file=f", f"--tags={','.join(items)}")["tags"] == items


@given(st.dictionaries(key, word_without_comma))
def test_a_dict_without_commas_arrives_as_it_was(pairs):
    text = ",".join(f"{name}={value}" for name, value in pairs.items())
    assert call(job, "--file=f", f"--env={text}")["env"] == pairs


@given(st.dictionaries(key, st.lists(key, min_size=1).map(",".join), min_size=1))
def test_a_piece_without_equals_sign_goes_on_the_value_before_it(pairs):
    text = ",".join(f"{name}={value}" for name, value in pairs.items())
    assert call(job, "--file=f", f"--env={text}")["env"] == pairs


@given(st.lists(any_text, max_size=6))
def test_any_words_make_an_app_or_an_error_of_ours(argv):
    for fn in (job, program, words):
        try:
            call(fn, *argv)
        except ComponentError:
            pass
