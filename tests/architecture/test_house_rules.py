"""Rules of the house that a program can check."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from pathlib import Path

import pytest

import wherry
from wherry import errors

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PACKAGE = Path(wherry.__file__).parent
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
MODULES = sorted(PACKAGE.rglob("*.py"))
NAMES = [path.relative_to(PACKAGE) for path in MODULES]
# The command line, and the programs that components run inside an app.
PRINTING = ("cli", "components/utils/inside")
ERRORS = [
    cls
    for _, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, errors.WherryError)
]

each_module = pytest.mark.parametrize(
    "path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix()
)
each_error = pytest.mark.parametrize("error", ERRORS, ids=lambda cls: cls.__name__)


def test_no_module_is_named_for_nothing():
    empty = {"common", "helper", "helpers", "misc", "shared", "util", "utils"}
    found = [name for name in NAMES if empty & set(name.with_suffix("").parts)]

    # The one exception is a public name: components are called utils.echo, utils.sh …
    assert [name for name in found if name.parts[:2] != ("components", "utils")] == []


@each_module
def test_a_module_says_what_it_is_for(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


@each_module
def test_only_the_command_line_prints(path):
    if any(path.is_relative_to(PACKAGE / room) for room in PRINTING):
        return
    calls = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "print"
    ]

    assert calls == []


@each_error
def test_an_error_has_a_docstring_of_its_own_which_is_its_message(error):
    assert "__doc__" in vars(error)
    assert error.__doc__
    assert str(error()) == error.__doc__.partition("\n")[0]
    assert str(error("what happened")) == "what happened"


def test_the_error_tree_is_drawn_as_it_is():
    assert drawn(errors.__doc__) == {
        cls.__name__: [base.__name__ for base in cls.__bases__] for cls in ERRORS
    }


def drawn(text: str) -> dict[str, list[str]]:
    """Read the drawing: each class and its bases."""
    bases: dict[str, list[str]] = {}
    above: list[str] = []
    for line in text.splitlines():
        if line.strip() == "WherryError":
            bases["WherryError"] = ["Exception"]
            above = ["WherryError"]
        branch = re.match(r"    ((?:│   |    )*)[├└]── (\w+)(?: \((\w+)\))?  ", line)
        if branch:
            trunk, name, other = branch.groups()
            above = [*above[: len(trunk) // 4 + 1], name]
            bases[name] = [above[-2], *([other] if other else [])]
    return bases


def test_every_dependency_has_a_lower_bound():
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(item for extra in extras for item in extra)]

    assert [item for item in wanted if not re.match(r"[\w.-]+(\[[\w,]+\])?>=\d", item)] == []


def test_no_command_is_run_by_a_shell_unasked():
    """``shell=True`` would let names and arguments meet a shell."""
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.keyword) and node.arg == "shell"
        if not (isinstance(node.value, ast.Constant) and node.value.value is False)
    ]

    assert found == []
