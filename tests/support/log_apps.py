"""Jobs of an emulator as apps, and what reads their logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from support.cloud import client, define, unique
from wherry.aws.session import Session, session_of
from wherry.emulator.server.emulator import Emulator
from wherry.schedulers.aws_batch.logs import BatchLogs
from wherry.schedulers.aws_batch.replicas import AppJobs
from wherry.schedulers.aws_batch.shape import Group, Kind


@dataclass(frozen=True)
class Job:
    """One job behind an app."""

    id: str
    first: int = 0
    count: int = 1


class Apps:
    """Submits commands as apps, and reads their logs.

    Args:
        running: the emulator.
    """

    def __init__(self, running: Emulator) -> None:
        self.emulator = running
        self.batch = client(running, "batch")
        self.session: Session = session_of({"batch": self.batch, "logs": client(running, "logs")})
        self.told: list[str] = []
        self.logs = BatchLogs(self.session, notice=self.told.append)

    def calls(self) -> dict[str, int]:
        """Return how often each operation was asked for."""
        return {**self.session.calls().counts, **self.session.calls("logs").counts}

    def submit(self, script: str, **options: Any) -> AppJobs:
        """Run a shell script as a single job."""
        return AppJobs("app", Kind.SINGLE, [Group("main", 0, 1)], [self._job(script, **options)])

    def array(self, script: str, size: int, **options: Any) -> AppJobs:
        """Run a shell script as an array."""
        job = self._job(script, size, arrayProperties={"size": size}, **options)
        return AppJobs("app", Kind.ARRAY, [Group("main", 0, size)], [job])

    def gang(self, script: str, *groups: Group) -> AppJobs:
        """Run a shell script as a multi-node job, one group a role."""
        nodes = sum(group.count for group in groups)
        container = {
            "image": "busybox",
            "command": ["sh", "-c", script],
            "resourceRequirements": [
                {"type": "VCPU", "value": "1"},
                {"type": "MEMORY", "value": "64"},
            ],
        }
        definition = self.batch.register_job_definition(
            jobDefinitionName=unique("def"),
            type="multinode",
            nodeProperties={
                "numNodes": nodes,
                "mainNode": 0,
                "nodeRangeProperties": [{"targetNodes": "0:", "container": container}],
            },
        )["jobDefinitionArn"]
        answer = self.batch.submit_job(
            jobName=unique("job"), jobQueue="main", jobDefinition=definition
        )
        return AppJobs("app", Kind.GANG, groups, [Job(answer["jobId"], 0, nodes)])

    def containers(self, **scripts: tuple[str, bool]) -> AppJobs:
        """Run shell scripts as the containers of one job; each is essential or not."""
        definition = self.batch.register_job_definition(
            jobDefinitionName=unique("def"),
            type="container",
            ecsProperties={
                "taskProperties": [
                    {
                        "containers": [
                            {
                                "name": name,
                                "image": "busybox",
                                "command": ["sh", "-c", script],
                                "essential": essential,
                                "resourceRequirements": [
                                    {"type": "VCPU", "value": "1"},
                                    {"type": "MEMORY", "value": "64"},
                                ],
                            }
                            for name, (script, essential) in scripts.items()
                        ]
                    }
                ]
            },
        )["jobDefinitionArn"]
        answer = self.batch.submit_job(
            jobName=unique("job"), jobQueue="main", jobDefinition=definition
        )
        return AppJobs("app", Kind.SINGLE, [Group("main", 0, 1)], [Job(answer["jobId"])])

    def _job(self, script: str, count: int = 1, **options: Any) -> Job:
        container = options.pop("container", {})
        definition = define(self.batch, ["sh", "-c", script], **container)
        name = options.pop("name", None) or unique("job")
        answer = self.batch.submit_job(
            jobName=name, jobQueue="main", jobDefinition=definition, **options
        )
        return Job(answer["jobId"], 0, count)
