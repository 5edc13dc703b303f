"""The pytest plug-in: fixtures for tests of components and of tools that stand on Wherry.

It is loaded in every pytest run of everybody who has Wherry installed, so it imports nothing of
Wherry until a fixture is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wherry.runner import Runner
    from wherry.testing.clock import Clock
    from wherry.testing.scheduler import MemoryScheduler


def pytest_configure() -> None:
    """Let failed assertions of the shipped test suite be explained like those of any test."""
    pytest.register_assert_rewrite("wherry.testing.contract")


@pytest.fixture
def wherry_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for Wherry's records; neither the user's settings nor their apps are seen."""
    import os

    for name in os.environ:
        if name.startswith("WHERRY_"):
            monkeypatch.delenv(name)
    home = tmp_path / "wherry-home"
    for variable, folder in (
        ("WHERRY_HOME", home),
        ("WHERRY_RUNTIME_DIR", tmp_path / "wherry-runtime"),
        ("WHERRY_CONFIG_HOME", tmp_path / "wherry-config"),
    ):
        folder.mkdir(mode=0o700)
        monkeypatch.setenv(variable, str(folder))
    return home


@pytest.fixture
def wherry_clock() -> Clock:
    """A clock that goes straight to the next thing that is to happen; nobody sleeps."""
    from wherry.testing.clock import Clock

    return Clock()


@pytest.fixture
def wherry_scheduler(wherry_clock: Clock) -> MemoryScheduler:
    """A scheduler, ``memory``, that runs nothing and lets every app end as it was scripted."""
    from wherry.testing.scheduler import MemoryScheduler

    return MemoryScheduler(clock=wherry_clock)


@pytest.fixture
def wherry_runner(
    wherry_home: Path,  # noqa: ARG001 — its effect is wanted
    wherry_scheduler: MemoryScheduler,
) -> Iterator[Runner]:
    """A Runner whose only scheduler, and default, is ``wherry_scheduler``; no files are read."""
    from wherry.runner import Config, Runner

    config = Config(environ={"WHERRY_SCHEDULER": "memory"}, paths=())
    schedulers = {"memory": lambda _session: wherry_scheduler}
    with Runner("test", schedulers, config=config) as runner:
        yield runner
