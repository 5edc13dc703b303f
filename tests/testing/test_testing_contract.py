"""The in-memory scheduler passes the suite that it ships with."""

from __future__ import annotations

import pytest

from wherry.specs import AppDef, Role
from wherry.testing import MemoryScheduler, Outcome
from wherry.testing.contract import SchedulerContract


class TestMemoryScheduler(SchedulerContract):
    @pytest.fixture
    def scheduler(self):
        self.memory = MemoryScheduler()
        self.memory.script(Outcome.fail(exit_code=3, after=1), app="fails")
        self.memory.script(Outcome.hang(), app="long")
        return self.memory

    def succeeding_app(self):
        return self.app("succeeds")

    def failing_app(self):
        return self.app("fails")

    def logging_app(self, lines):
        self.memory.script(Outcome.succeed(after=1, log=lines), app="logs")
        return self.app("logs")

    def long_app(self):
        return self.app("long")

    def app(self, name):
        return AppDef(name, [Role("main", entrypoint="prog")])
