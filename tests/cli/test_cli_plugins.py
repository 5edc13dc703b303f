"""Commands that other packages add by entry point."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PLUGIN = '''
def greet(parser):
    """Configure."""
    parser.description = "Greet somebody."
    parser.add_argument("name")
    parser.set_defaults(func=lambda args: print(f"hello {args.name}") or 3)

def silent(parser):
    parser.set_defaults(func=lambda args: None)

def unfinished(parser):
    parser.add_argument("name")

def broken(parser):
    raise RuntimeError("not today")
'''
ENTRY_POINTS = """
[wherry.commands]
greet = own_commands:greet
silent = own_commands:silent
unfinished = own_commands:unfinished
broken = own_commands:broken
missing = own_commands:nowhere
list = own_commands:greet
"""


@pytest.fixture(autouse=True)
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package that adds commands."""
    site = tmp_path / "site"
    info = site / "own_commands-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "own_commands.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-commands\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.setenv("PYTHONPATH", str(site))


def test_an_added_command_runs_and_gives_its_exit_code(wherry: Callable) -> None:
    greeted, silent = wherry("greet", "you"), wherry("silent")

    assert (greeted.code, greeted.out) == (3, "hello you\n")
    assert (silent.code, silent.out) == (0, "")


def test_an_added_command_is_in_the_help_and_broken_ones_are_warnings(wherry: Callable) -> None:
    done = wherry("--help")

    assert done.code == 0
    assert "greet" in done.out
    assert "Greet somebody." in done.out
    assert "  status" in done.out
    warnings = [line for line in done.err.splitlines() if line.startswith("warning: ")]
    assert any("'broken'" in line and "not today" in line for line in warnings)
    assert any("'missing'" in line for line in warnings)
    assert any("'unfinished'" in line and "'func'" in line for line in warnings)


def test_an_added_command_has_help_and_checks_its_words(wherry: Callable) -> None:
    assert "usage: wherry greet" in wherry("greet", "--help").out
    assert wherry("greet").code == 2


def test_a_broken_command_is_an_error_line(wherry: Callable) -> None:
    done = wherry("broken")

    assert done.code == 1
    assert "wherry: error: command 'broken'" in done.err
    assert "not today" in done.err


def test_a_built_in_command_is_not_replaced(wherry: Callable) -> None:
    assert wherry("list", "--json").out == "[]\n"
    assert "hidden by the built-in one" in wherry("--help").err


def test_an_added_command_is_suggested(wherry: Callable) -> None:
    assert "did you mean 'greet'" in wherry("gret").err
