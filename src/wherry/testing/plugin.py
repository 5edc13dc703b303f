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

    from wherry.emulator import Running
    from wherry.runner import Runner
    from wherry.testing.clock import Clock
    from wherry.testing.scheduler import MemoryScheduler


_ENGINE = "wherry_emulator_engine"
_ENGINE_HELP = "what runs the jobs of wherry_aws: docker, process (the default) or auto"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run, or a project's settings, choose what runs the emulator's jobs."""
    parser.getgroup("wherry").addoption(
        "--wherry-emulator-engine", metavar="ENGINE", default=None, dest=_ENGINE, help=_ENGINE_HELP
    )
    parser.addini(_ENGINE, _ENGINE_HELP, default="process")


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


@pytest.fixture(scope="session")
def wherry_emulator_server(request: pytest.FixtureRequest) -> Iterator[Running]:
    """AWS Batch and what belongs to it on a port of its own, one for each worker of a run.

    Tests share it, with all that is in it; ``wherry_aws`` is the same, empty for each test.
    """
    from wherry.emulator import running

    engine = request.config.getoption(_ENGINE) or request.config.getini(_ENGINE)
    with running(engine=engine) as aws:
        yield aws


@pytest.fixture
def wherry_aws(
    wherry_emulator_server: Running, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Running]:
    """An AWS of the test's own, as an emulator is at its start: empty but for a few queues.

    Clients that the test, or what it tests, makes without a word about addresses find it. Neither
    profiles nor credentials of the user are seen.
    """
    import os

    from wherry.emulator import exports

    aws = wherry_emulator_server
    for name, value in (exports.blind(os.environ) | aws.changes(os.environ)).items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    aws.reset()
    pace = aws.clock.scale
    yield aws
    aws.faults.clear()
    aws.clock.set_scale(pace)
