"""docs/aws.md is true: its commands print what it says, and its settings are settings."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.pages import START, blocks, check, commands
from wherry.emulator import record
from wherry.runner.config import Config

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "aws.md").read_text()


@pytest.fixture
def nothing_is_left() -> Iterator[None]:
    """End an emulator that a failed test left; the runtime folder is the test's own."""
    yield
    own = record.find()
    if own is not None:
        record.end(own, signal.SIGKILL, 60)


@pytest.mark.usefixtures("nothing_is_left")
def test_the_commands_print_what_the_page_says(tmp_path: Path) -> None:
    pairs = [pair for block in blocks(PAGE, "console") for pair in commands(block)]
    assert pairs[0][0] == START

    check(pairs, tmp_path)


def test_the_settings_are_settings(tmp_path: Path) -> None:
    file = tmp_path / "wherry.toml"
    file.write_text(blocks(PAGE, "toml")[0])

    config = Config(environ={}, paths=(str(file),))

    chosen = config.scheduler()
    assert chosen is not None
    assert chosen.value == "aws_batch"
