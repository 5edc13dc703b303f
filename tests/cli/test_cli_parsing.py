"""Where a command's own options end, and what is said of words that do not fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.cli.main import COMMANDS, parser_of
from wherry.errors import UsageError


@pytest.mark.parametrize(
    ("own", "rest"),
    [
        ([], ["utils.echo", "--msg", "hi"]),
        (["-s", "local_cwd"], ["utils.echo", "-s", "x"]),
        (["-slocal_cwd"], ["utils.echo"]),
        (["--scheduler=local_cwd", "--json"], ["utils.echo", "--json"]),
        (["--scheduler", "aws_batch", "--scheduler_args", "queue=torchx"], ["utils.echo"]),
        (["-s", "aws_batch", "-cfg", "queue=main"], ["utils.echo", "--image", "alpine:latest"]),
        (["-cfg=queue=main"], ["utils.echo"]),
        (["-ds", "local_dir"], ["utils.sh", "ls", "--help"]),
        (["--detach", "--array", "3"], ["a.py:fn", "--", "x"]),
    ],
)
def test_options_of_run_end_at_the_component(own: list[str], rest: list[str]) -> None:
    assert parser_of("run").split([*own, *rest]) == (own, rest)


def test_a_double_dash_ends_the_options_of_run() -> None:
    assert parser_of("run").split(["-d", "--", "utils.echo"]) == (["-d"], ["utils.echo"])


@given(st.lists(st.text(max_size=8), max_size=6))
def test_words_after_the_component_are_never_touched(words: list[str]) -> None:
    found = parser_of("run").read(["-s", "x", "utils.echo", *words])

    assert found.words == ["utils.echo", *words]
    assert found.scheduler == "x"


def test_an_unknown_option_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean '--scheduler'"):
        parser_of("run").read(["--sheduler", "x"])


def test_an_option_is_not_abbreviated() -> None:
    with pytest.raises(UsageError, match="--sched"):
        parser_of("run").read(["--sched", "x", "utils.echo"])


def test_a_surplus_word_is_named() -> None:
    with pytest.raises(UsageError, match="'two'"):
        parser_of("status").read(["one", "two"])


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parser_of(name).read(["--help"])

    assert end.value.code == 0
    assert f"usage: wherry {name}" in capfd.readouterr().out
