"""The Docker scheduler keeps the contract that every scheduler's author can test against."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from support.docker_bench import Bench
from support.engine import image, require_engine
from wherry.schedulers.api import ListAppResponse
from wherry.schedulers.docker import DockerScheduler
from wherry.specs import AppDef, Role
from wherry.testing.contract import SchedulerContract


def shell(script: str) -> AppDef:
    return AppDef(
        "app", [Role("role", image=image("busybox"), entrypoint="sh", args=["-c", script])]
    )


class AmongOthers(DockerScheduler):
    """Sees of what has no record here only its own session's: others use this Engine too."""

    def unrecorded(self, *, own: bool = False) -> Iterator[ListAppResponse]:
        found = super().unrecorded(own=own)
        return (line for line in found if line.session == self.session_name)


class TestDockerScheduler(SchedulerContract):
    @pytest.fixture
    def scheduler(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[DockerScheduler]:
        require_engine()
        monkeypatch.chdir(tmp_path)
        made = AmongOthers(f"contract-{uuid.uuid4().hex[:8]}")
        yield made
        made.close()
        Bench(made, tmp_path).clear()

    def succeeding_app(self) -> AppDef:
        return shell("true")

    def failing_app(self) -> AppDef:
        return shell("exit 3")

    def logging_app(self, lines: Sequence[str]) -> AppDef:
        words = " ".join(f"'{line}'" for line in lines)
        return shell(f"printf '%s\\n' {words}")

    def long_app(self) -> AppDef:
        return shell("sleep 1000")
