"""docs/emulator.md is true: its commands and its code run, and the tests that it names exist."""

from __future__ import annotations

import ast
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.pages import START, blocks, check, commands
from wherry.emulator import record

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "emulator.md").read_text()
TESTS = ROOT / "tests" / "emulator"
NAMED = re.compile(r"`(\w+)::(test_\w+)`")


@pytest.fixture
def nothing_is_left() -> Iterator[None]:
    """End an emulator that a failed test left; the runtime folder is the test's own."""
    yield
    own = record.find()
    if own is not None:
        record.end(own, signal.SIGKILL, 60)


@pytest.mark.usefixtures("nothing_is_left")
def test_the_commands_print_what_the_page_says(tmp_path: Path) -> None:
    pairs = commands(blocks(PAGE, "console")[0])
    assert pairs[0][0] == START

    check(pairs, tmp_path)


def test_the_commands_about_faults_are_commands() -> None:
    from wherry.cli.main import parser_of

    for command, _ in commands(blocks(PAGE, "console")[1]):
        words = [word.strip("'") for word in command.split()]
        assert words[:2] == ["wherry", "emulator"]
        assert parser_of("emulator").read(words[2:]).func


def test_the_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, _ = blocks(PAGE, "python")

    exec(compile(code, "emulator.md", "exec"), {})


def test_the_users_test_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    _, code = blocks(PAGE, "python")
    (tmp_path / "test_mine.py").write_text(code)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_each_row_of_the_conformance_table_names_tests_that_exist() -> None:
    table = PAGE.partition("## Conformance")[2]
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if not row.startswith(("| behaviour", "| ---"))]
    assert len(rows) > 50
    for row in rows:
        named = NAMED.findall(row)
        assert named, f"no test shows: {row}"
        for topic, test in named:
            assert test in functions_of(topic), f"{topic}::{test} of: {row}"


def functions_of(topic: str) -> set[str]:
    tree = ast.parse((TESTS / f"test_emulator_{topic}.py").read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
