"""A command loads what it needs and no more, since a person waits for it."""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

import pytest

PROGRAM = """
import sys
from wherry.cli.main import main
code = main({words!r})
print("loaded", *sorted(sys.modules), file=sys.stderr)
sys.exit(code)
"""


class Cost(NamedTuple):
    """A command and modules that it must do without."""

    words: list[str]
    without: tuple[str, ...]


_HEAVY = ("rich", "importlib.metadata", "asyncio", "boto3", "docker", "moto", "starlette", "numpy")
_LEAN = (*_HEAVY, "sqlite3", "platformdirs", "logging", "subprocess", "pathlib", "argcomplete")


@pytest.mark.parametrize(
    "cost",
    [
        Cost(["--version"], (*_LEAN, "argparse", "dataclasses", "wherry.runner")),
        Cost(["run", "utils.echo"], (*_LEAN, "docstring_parser", "wherry.cli.report")),
        Cost(["run", "--array", "3", "utils.echo"], _LEAN),
        Cost(["run", "--detach", "utils.echo"], (*_LEAN, "threading")),
        Cost(["completion", "bash"], (*_HEAVY, "wherry.runner", "wherry.specs")),
        Cost(["list"], ("rich", "argcomplete", "wherry.cli.cmd_run", "wherry.components")),
    ],
    ids=lambda cost: " ".join(cost.words),
)
def test_a_command_does_without(cost: Cost) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(words=cost.words)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    loaded = set(done.stderr.partition("loaded ")[2].split())
    assert "wherry.cli.main" in loaded
    assert loaded.isdisjoint(cost.without), loaded.intersection(cost.without)
