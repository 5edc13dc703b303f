"""What every scheduler promises, of aws_batch on the emulator, with clients of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from wherry.schedulers.aws_batch import AWSBatchScheduler
from wherry.specs import AppDef, Resource, Role
from wherry.testing.contract import SchedulerContract


def shell(script: str, name: str) -> AppDef:
    resource = Resource(cpu=1, memMB=128)
    role = Role("main", image="busybox", entrypoint="sh", args=["-c", script], resource=resource)
    return AppDef(name, [role])


@pytest.mark.usefixtures("wherry_aws")
class TestAWSBatchScheduler(SchedulerContract):
    cfg = {"queue": "main"}  # noqa: RUF012

    @pytest.fixture
    def scheduler(self) -> Iterator[AWSBatchScheduler]:
        made = AWSBatchScheduler("test")
        yield made
        made.close()

    def succeeding_app(self) -> AppDef:
        return shell("exit 0", "good")

    def failing_app(self) -> AppDef:
        return shell("exit 3", "bad")

    def logging_app(self, lines: Sequence[str]) -> AppDef:
        return shell("".join(f"echo '{line}';" for line in lines), "talker")

    def long_app(self) -> AppDef:
        return shell("exec sleep 600", "long")
