"""A component's help, its options for shells, and its source."""

from __future__ import annotations

import enum

import pytest

from wherry.components import Component, builtins, find, format_help, option_names, source_text
from wherry.specs import AppDef


class Speed(enum.Enum):
    FAST = 1
    SLOW = 2


def train(
    *args: str,
    data: str,
    num_epochs: int = 3,
    speed: Speed = Speed.FAST,
    debug: bool = False,
    env: dict[str, str] | None = None,
    x: float = 0.5,
) -> AppDef:
    """Train a model.

    It takes a while, and this sentence is long enough that it does not fit on one line of help.

    Args:
        *args: passed to the script
        data: where the data is, which
            may take two lines
        num_epochs: how often
    """
    return AppDef(name="train")


TRAIN = Component("train.py:train", train, "Train a model.", "train.py")


def test_help_has_usage_description_options_types_defaults_and_their_meaning():
    assert format_help(TRAIN).splitlines() == [
        "usage: wherry run train.py:train --data TEXT [options] [--] [args ...]",
        "",
        "Train a model.",
        "",
        "It takes a while, and this sentence is long enough that it does not fit on one",
        "line of help.",
        "",
        "arguments:",
        "  args                      passed to the script",
        "",
        "options:",
        "  --data TEXT               where the data is, which may take two lines",
        "                            (required)",
        "  --num-epochs INT          how often (default: 3)",
        "  --speed {FAST,SLOW}       (default: FAST)",
        "  --debug, --no-debug       (default: no)",
        "  --env K=TEXT,…",
        "  -x NUM                    (default: 0.5)",
        "  --help                    show this help",
    ]


@pytest.mark.parametrize("width", [0, 50, 72, 100, 200])
def test_help_fits_its_width(width):
    lines = format_help(find("dist.ddp"), width=width).splitlines()
    assert all(len(line) <= max(width, 60) for line in lines[2:])


def test_help_of_a_function_without_a_docstring_has_its_options():
    def bare(n: int = 1) -> AppDef:
        return AppDef(name="bare")

    assert "-n INT" in format_help(Component("bare", bare, "", "test"))


@pytest.mark.parametrize(
    "docstring",
    [
        "Do it.\n\n:param n: how often",
        "Do it.\n\nParameters\n----------\nn : int\n    how often",
        "Do it.\n\nArgs:\n    n (int): how often\n",
    ],
)
def test_help_reads_the_usual_kinds_of_docstring(docstring):
    def fn(n: int = 1) -> AppDef:
        return AppDef(name="fn")

    fn.__doc__ = docstring
    assert "how often (default: 1)" in format_help(Component("fn", fn, "", "test"))


def test_options_are_listed_for_shells():
    assert option_names(TRAIN) == [
        "--data",
        "--num-epochs",
        "--speed",
        "--debug",
        "--no-debug",
        "--env",
        "-x",
        "--help",
    ]


def test_source_text_is_the_function():
    assert source_text(find("utils.echo")).startswith("def echo(")


def test_every_option_of_every_built_in_component_is_explained():
    components, _ = builtins()
    for component in components:
        if component.source != "built in":
            continue
        assert component.summary
        for line in format_help(component, width=200).splitlines():
            if line.startswith("  -"):
                assert len(line.split()) > 3, f"{component.name}: {line}"
