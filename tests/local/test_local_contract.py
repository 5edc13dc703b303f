"""The local scheduler keeps the contract that every scheduler's author can test against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from wherry.schedulers.local import LocalScheduler
from wherry.specs import AppDef, Role
from wherry.testing.contract import SchedulerContract


def shell(script: str) -> AppDef:
    return AppDef("app", [Role("role", entrypoint="sh", args=["-c", script])])


class TestLocalScheduler(SchedulerContract):
    @pytest.fixture
    def scheduler(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[LocalScheduler]:
        monkeypatch.chdir(tmp_path)
        made = LocalScheduler("contract")
        yield made
        made.close()

    def succeeding_app(self) -> AppDef:
        return shell("true")

    def failing_app(self) -> AppDef:
        return shell("exit 3")

    def logging_app(self, lines: Sequence[str]) -> AppDef:
        words = " ".join(f"'{line}'" for line in lines)
        return shell(f"printf '%s\\n' {words}")

    def long_app(self) -> AppDef:
        return shell("sleep 1000")
