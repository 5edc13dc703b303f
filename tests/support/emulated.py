"""A control plane to play with: an engine that does what it is told, a clock turned by hand.

Nothing here has a thread. `World.settle` does all that is due, so a test says what happens, then
looks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from wherry.emulator.batch import arns, job_operations
from wherry.emulator.batch.catalog import Catalog
from wherry.emulator.batch.placement import Machine, Placement
from wherry.emulator.batch.plane import Plane
from wherry.emulator.batch.ports import Archive, Document
from wherry.emulator.batch.records import ComputeEnvironment, JobDefinition, JobQueue
from wherry.emulator.clock import Clock
from wherry.emulator.engines.api import (
    ESSENTIAL_EXITED,
    FAILED_TO_START,
    ContainerEnd,
    Engine,
    Task,
    TaskEnded,
    TaskEvent,
    TaskStarted,
)
from wherry.emulator.faults import Faults

REGION = "us-east-1"
START = 1_700_000_000.0


class HandClock(Clock):
    """Time that stands still until it is turned with `advance`."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale, wall=lambda: START, monotonic=lambda: 0.0)


class FakeEngine(Engine):
    """Keeps what it is asked for; a test says what tasks do by `begin`, `end` and `lost`.

    Attributes:
        tasks: every task that was started and has not ended, by its id, in order.
        stops: task id and grace of each call of `stop`.
        networks: names of networks that were to be forgotten.
    """

    name = "fake"

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}
        self.started: list[Task] = []
        self.stops: list[tuple[str, float]] = []
        self.losses: list[tuple[str, str]] = []
        self.networks: list[str] = []
        self.addresses_given = 0

    def open(self) -> None:
        """Do nothing."""

    def start(self, task: Task) -> None:
        """Keep the task."""
        self.tasks[task.id] = task
        self.started.append(task)

    def stop(self, task_id: str, grace: float) -> None:
        """Keep the wish."""
        self.stops.append((task_id, grace))

    def lose(self, task_id: str, reason: str) -> None:
        """Keep the loss."""
        self.losses.append((task_id, reason))

    def forget_network(self, network: str) -> None:
        """Keep the name."""
        self.networks.append(network)

    def addresses(self) -> tuple[str, ...]:
        """Return none."""
        return ()

    def endpoint(self, port: int) -> str:
        """Return loopback."""
        return f"http://127.0.0.1:{port}"

    def close(self) -> None:
        """Do nothing."""


class FakeSurroundings:
    """The rest of AWS, as small as can be; keeps the events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, list[str], Document]] = []
        self.over: list[str] = []
        self.secrets: dict[str, str] = {}
        self.streams: list[tuple[str, str]] = []

    def task_environment(
        self, task_id: str, region: str, role_arn: str | None
    ) -> Mapping[str, str]:
        """Return what every task needs."""
        return {"AWS_REGION": region, "ECS_CONTAINER_METADATA_URI_V4": f"http://x/{task_id}"}

    def task_over(self, task_id: str) -> None:
        """Keep the id."""
        self.over.append(task_id)

    def describe_task(self, task_id: str, metadata: Document) -> None:
        """Ignore it."""

    def secret(self, value_from: str, region: str, role_arn: str | None) -> str:
        """Return one of `secrets`."""
        if value_from not in self.secrets:
            raise LookupError(f"unable to pull secret {value_from}")
        return self.secrets[value_from]

    def emit(self, region: str, detail_type: str, resources: list[str], detail: Document) -> None:
        """Keep a copy of the event."""
        self.events.append((detail_type, resources, detail))

    def open_stream(self, region: str, group: str, stream: str, *, create_group: bool) -> str:
        """Keep the name."""
        self.streams.append((group, stream))
        return ""

    def states_of(self, job_id: str) -> list[str]:
        """Return the states that a job went through, as told by events."""
        return [
            detail["status"]
            for kind, _, detail in self.events
            if detail["jobId"] == job_id and kind == "Batch Job State Change"
        ]


class MemoryArchive:
    """An archive in a dictionary; what was not committed is not there after `crash`."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, str]] = {}
        self._waiting: list[tuple[str, str, str | None]] = []

    def load(self, kind: str) -> Iterable[tuple[str, Document]]:
        """Return all committed records of a kind."""
        return [(key, json.loads(body)) for key, body in self.kept.get(kind, {}).items()]

    def save(self, kind: str, key: str, record: Document) -> None:
        """Keep a record from the next commit on."""
        self._waiting.append((kind, key, json.dumps(record)))

    def remove(self, kind: str, key: str) -> None:
        """Drop a record from the next commit on."""
        self._waiting.append((kind, key, None))

    def commit(self) -> None:
        """Take over all that waits."""
        for kind, key, body in self._waiting:
            if body is None:
                self.kept.get(kind, {}).pop(key, None)
            else:
                self.kept.setdefault(kind, {})[key] = body
        self._waiting.clear()

    def crash(self) -> None:
        """Lose all that waits."""
        self._waiting.clear()


SIMPLE: Document = {
    "type": "container",
    "containerProperties": {
        "image": "busybox",
        "command": ["true"],
        "resourceRequirements": [
            {"type": "VCPU", "value": "1"},
            {"type": "MEMORY", "value": "128"},
        ],
    },
    "platformCapabilities": ["EC2"],
}


FARGATE: Document = {
    "type": "container",
    "containerProperties": {
        "image": "busybox",
        "command": ["true"],
        "executionRoleArn": "arn:aws:iam::123456789012:role/execution",
        "resourceRequirements": [
            {"type": "VCPU", "value": "1"},
            {"type": "MEMORY", "value": "2048"},
        ],
    },
    "platformCapabilities": ["FARGATE"],
}


def multinode(nodes: int = 3, main: int = 0) -> Document:
    """Return a definition of a multi-node job."""
    return {
        "type": "multinode",
        "nodeProperties": {
            "numNodes": nodes,
            "mainNode": main,
            "nodeRangeProperties": [
                {"targetNodes": "0:", "container": SIMPLE["containerProperties"]}
            ],
        },
        "platformCapabilities": ["EC2"],
    }


def _resources(kind: str, vcpus: int) -> Document:
    resources: Document = {"type": kind, "maxvCpus": vcpus, "subnets": ["subnet-1"]}
    if kind in ("EC2", "SPOT"):
        resources |= {"minvCpus": 0, "instanceTypes": ["m5.large"]}
    return resources


class World:
    """A plane with a queue ``main`` on EC2 and a definition ``simple``.

    Args:
        vcpus: of the compute environment.
        archive: where state outlives the world.
        clock: to go on with an earlier one.
        kind: of the compute environment.
    """

    def __init__(
        self,
        *,
        vcpus: int = 64,
        archive: Archive | None = None,
        clock: Clock | None = None,
        kind: str = "EC2",
    ) -> None:
        self.clock = clock or HandClock()
        self.engine = FakeEngine()
        self.surroundings = FakeSurroundings()
        self.faults = Faults(seed=0)
        self.catalog = Catalog(REGION, self.clock, archive)
        self.furnish(self.catalog, vcpus, kind)
        self.queue = self.catalog.queue("main")
        self.placement = Placement(self.catalog, Machine(), self.faults)
        self.plane = Plane(
            REGION,
            self.catalog,
            self.placement,
            self.engine,
            self.surroundings,
            self.clock,
            self.faults,
            archive,
        )
        self.plane.resume()
        self.settle()

    # -- resources --------------------------------------------------------------------------------

    @staticmethod
    def furnish(catalog: Catalog, vcpus: int = 64, kind: str = "EC2") -> None:
        """Put an environment ``ce``, a queue ``main`` and a definition ``simple`` in a catalog."""
        if catalog.find_queue("main") is not None:
            return
        environment = ComputeEnvironment(
            name="ce",
            arn=catalog.arn(arns.ENVIRONMENT, "ce"),
            uuid="0000",
            type="MANAGED",
            resources=_resources(kind, vcpus),
            ecs_cluster_arn=arns.cluster(catalog.region, "ce", "0000"),
        )
        catalog.keep(environment)
        catalog.keep(JobQueue("main", catalog.arn(arns.QUEUE, "main"), 1, [environment.arn]))
        arn = catalog.arn(arns.DEFINITION, "simple:1")
        catalog.keep(JobDefinition("simple", 1, arn, SIMPLE))

    def define(self, name: str, document: Document, **more: Any) -> JobDefinition:
        """Register a definition."""
        revision = self.catalog.next_revision(name)
        arn = self.catalog.arn(arns.DEFINITION, f"{name}:{revision}")
        definition = JobDefinition(name, revision, arn, {**document, **more})
        self.catalog.keep(definition)
        return definition

    def add_queue(self, name: str, **more: Any) -> JobQueue:
        """Make another queue of the environment."""
        environments = self.queue.environments
        queue = JobQueue(name, self.catalog.arn(arns.QUEUE, name), 1, environments, **more)
        self.catalog.keep(queue)
        self.placement.changed()
        return queue

    # -- the API ----------------------------------------------------------------------------------

    def call(self, operation: str, **params: Any) -> Document:
        """Do an operation about jobs, and save."""
        answer = job_operations.OPERATIONS[operation](self.plane, params)
        self.plane.save()
        return answer

    def submit(self, definition: str = "simple", *, settle: bool = True, **params: Any) -> str:
        """Submit a job; returns its id."""
        request = {"jobName": "job", "jobQueue": "main", "jobDefinition": definition, **params}
        job_id = str(self.call("SubmitJob", **request)["jobId"])
        if settle:
            self.settle()
        return job_id

    def describe(self, job_id: str) -> Document:
        """Return what DescribeJobs says of one job."""
        found: list[Document] = self.call("DescribeJobs", jobs=[job_id])["jobs"]
        assert found, f"{job_id} is not known"
        return found[0]

    def status(self, job_id: str) -> str:
        """Return the state of a job."""
        return str(self.describe(job_id)["status"])

    def knows(self, job_id: str) -> bool:
        """Tell whether DescribeJobs knows a job."""
        return bool(self.call("DescribeJobs", jobs=[job_id])["jobs"])

    def states(self, job_id: str) -> list[str]:
        """Return the states that a job went through, as told by events."""
        return self.surroundings.states_of(job_id)

    # -- what happens -----------------------------------------------------------------------------

    def settle(self) -> None:
        """Do all that can be done without time going by."""
        for _ in range(10_000):
            more = self.plane.advance()
            due = self.plane.next_due()
            if not more and (due is None or due > self.clock.now()):
                return
        raise AssertionError("the plane does not come to rest")

    def turn(self, seconds: float) -> None:
        """Let time go by, and do what has become due."""
        self.clock.advance(seconds)
        self.settle()

    def tell(self, event: TaskEvent) -> None:
        """Have the engine tell something."""
        self.plane.on_event(event)
        self.settle()

    def task_of(self, job_id: str) -> Task:
        """Return the task that runs for a job."""
        flights = self.plane.flights.values()
        found = next((flight.task for flight in flights if flight.job.id == job_id), None)
        assert found is not None, f"nothing runs for {job_id}, which is {self.status(job_id)}"
        return found

    def begin(self, job_id: str, address: str = "10.0.0.1") -> Task:
        """Let the containers of a job run."""
        task = self.task_of(job_id)
        assert task.id in self.engine.tasks, "the engine was not asked to start it"
        self.tell(TaskStarted(task.id, address))
        return task

    def end(
        self, job_id: str, code: int | None = 0, reason: str = "", *, why: str = ESSENTIAL_EXITED
    ) -> None:
        """Let all containers of a job end with a code."""
        task = self.task_of(job_id)
        ends = {container.name: ContainerEnd(code, reason) for container in task.containers}
        self.engine.tasks.pop(task.id)
        self.tell(TaskEnded(task.id, why, ends))

    def run(self, job_id: str, code: int = 0) -> None:
        """Let a job run and end."""
        self.begin(job_id)
        self.end(job_id, code)

    def fail_to_start(self, job_id: str, reason: str) -> None:
        """Let the start of a job's containers fail."""
        self.end(job_id, None, reason, why=FAILED_TO_START)

    def obey(self) -> None:
        """Let the engine do what it was asked for: stopped tasks die, lost ones vanish."""
        for task_id, reason in self.engine.losses:
            if self.engine.tasks.pop(task_id, None) is not None:
                self.tell(TaskEnded(task_id, reason, {}))
        self.engine.losses.clear()
        for task_id, _ in self.engine.stops:
            task = self.engine.tasks.pop(task_id, None)
            if task is not None:
                ends = {container.name: ContainerEnd(143) for container in task.containers}
                self.tell(TaskEnded(task_id, ESSENTIAL_EXITED, ends))
        self.engine.stops.clear()
