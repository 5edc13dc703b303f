"""docs/workspaces.md is true: its commands print what it says, and its settings are settings."""

from __future__ import annotations

import json
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.engine import image
from support.image_trees import docker_build, removed_at_the_end
from support.pages import START, blocks, check, commands
from wherry.emulator import record
from wherry.runner.config import Config
from wherry.workspace.tree_guard import SIZE_LIMIT

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "workspaces.md").read_text()


@pytest.fixture
def nothing_is_left() -> Iterator[None]:
    """End an emulator that a failed test left; the runtime folder is the test's own."""
    yield
    own = record.find()
    if own is not None:
        record.end(own, signal.SIGKILL, 60)


@pytest.fixture
def base() -> Iterator[str]:
    """An image that nothing was built on before."""
    name = f"wherry-test/page-{uuid.uuid4().hex[:8]}"
    docker_build(name, f"FROM {image('busybox')}\nLABEL x={name}")
    with removed_at_the_end() as made:
        yield made.note(name)


@pytest.mark.usefixtures("nothing_is_left")
def test_the_commands_print_what_the_page_says(tmp_path: Path, base: str) -> None:
    pairs = [pair for block in blocks(PAGE, "console") for pair in commands(block)]
    assert START in [command for command, _ in pairs]

    check(
        [(command.replace("--image busybox", f"--image {base}"), told) for command, told in pairs],
        tmp_path,
    )


def test_the_settings_are_settings(tmp_path: Path) -> None:
    file = tmp_path / "wherry.toml"
    file.write_text(blocks(PAGE, "toml")[0])

    config = Config(environ={}, paths=(str(file),))

    folders, limit = config.workspace(), config.workspace_limit()
    assert folders is not None
    assert limit is not None
    assert (folders.value, limit.value) == ((f"{tmp_path}/app",), "2GiB")


def test_the_policy_is_json_and_the_limit_is_the_limit() -> None:
    assert json.loads(blocks(PAGE, "json")[0])["Statement"]
    assert f"more than {SIZE_LIMIT >> 20} MiB" in PAGE
