"""docs/emulator.md is true: its commands and its code run, and the tests that it names exist."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from wherry.emulator import record

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "emulator.md").read_text()
TESTS = ROOT / "tests" / "emulator"
# The page starts it as people do; a test takes a port that nobody else has, and needs no Docker.
START = "wherry emulator start --detach"
QUIETLY = f"{START} --port 0 --engine process"
NAMED = re.compile(r"`(\w+)::(test_\w+)`")


def commands(block: str) -> list[tuple[str, str]]:
    """Return each command of a block with what it prints."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def nothing_is_left() -> Iterator[None]:
    """End an emulator that a failed test left; the runtime folder is the test's own."""
    yield
    own = record.find()
    if own is not None:
        record.end(own, signal.SIGKILL, 60)


@pytest.mark.usefixtures("nothing_is_left")
def test_the_commands_print_what_the_page_says(tmp_path: Path) -> None:
    pairs = commands(blocks("console")[0])
    assert pairs[0][0] == START
    cut = "-- next --"
    script = "\n".join(f"{command}\necho '{cut}'" for command, _ in pairs).replace(START, QUIETLY)
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    answer = subprocess.run(
        ["sh", "-c", f"set -e; exec 2>&1\n{script}"],
        env={**env, "HOME": str(tmp_path), "SHELL": "/bin/sh"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    printed = answer.stdout.split(f"{cut}\n")
    for (command, expected), found in zip(pairs, printed, strict=False):
        # The screen after the start is longer than its first line.
        shown = found.partition("\n")[0] if command == START else found.strip()
        pattern = ".*".join(map(re.escape, expected.strip().split("…")))
        assert re.fullmatch(pattern, shown), (command, found)


def test_the_commands_about_faults_are_commands() -> None:
    from wherry.cli.main import parser_of

    for command, _ in commands(blocks("console")[1]):
        words = [word.strip("'") for word in command.split()]
        assert words[:2] == ["wherry", "emulator"]
        assert parser_of("emulator").read(words[2:]).func


def test_the_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, _ = blocks("python")

    exec(compile(code, "emulator.md", "exec"), {})


def test_the_users_test_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    _, code = blocks("python")
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
