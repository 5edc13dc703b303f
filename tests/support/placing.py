"""A catalog of a few queues and environments, and jobs that wait, for tests of placing."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from wherry.emulator.batch.errors import ClientError
from wherry.emulator.batch.placement import Machine, Placement
from wherry.emulator.batch.placing import NodeNeed, Placed, Waiting
from wherry.emulator.batch.records import (
    ComputeEnvironment,
    ConsumableResource,
    JobQueue,
    SchedulingPolicy,
)
from wherry.emulator.faults import Faults

_ARN = "arn:aws:batch:us-east-1:123456789012"
_CLUSTER = "arn:aws:ecs:us-east-1:123456789012:cluster"
MINUTE = 60.0


class Resources:
    """Queues, environments, policies and consumable resources, by ARN."""

    def __init__(self) -> None:
        self._queues: dict[str, JobQueue] = {}
        self._environments: dict[str, ComputeEnvironment] = {}
        self._policies: dict[str, SchedulingPolicy] = {}
        self._consumables: dict[str, ConsumableResource] = {}
        self.kept: list[tuple[str, int]] = []

    def queues(self) -> Iterable[JobQueue]:
        return list(self._queues.values())

    def environment(self, ref: str) -> ComputeEnvironment:
        return _found(self._environments, ref)

    def policy(self, arn: str) -> SchedulingPolicy:
        return _found(self._policies, arn)

    def consumable(self, ref: str) -> ConsumableResource:
        return _found(self._consumables, ref)

    def keep(self, record: ConsumableResource) -> None:
        self.kept.append((record.name, record.in_use))

    def add_queue(self, name: str, *environments: str, **more: Any) -> JobQueue:
        arns = [f"{_ARN}:compute-environment/{each}" for each in environments]
        more.setdefault("priority", 1)
        queue = JobQueue(name, queue_arn(name), environments=arns, **more)
        self._queues[queue.arn] = queue
        return queue

    def drop_queue(self, name: str) -> None:
        del self._queues[queue_arn(name)]

    def add_environment(
        self, name: str, kind: str = "EC2", most: int = 256, **more: Any
    ) -> ComputeEnvironment:
        given = more.pop("resources", {})
        resources = {"type": kind, "maxvCpus": most, **given}
        if kind in ("EC2", "SPOT"):
            resources.setdefault("instanceTypes", ["optimal"])
            resources.setdefault("allocationStrategy", "BEST_FIT_PROGRESSIVE")
        more.setdefault("type", "MANAGED")
        environment = ComputeEnvironment(
            name,
            f"{_ARN}:compute-environment/{name}",
            name,
            resources=resources,
            ecs_cluster_arn=f"{_CLUSTER}/AWSBatch-{name}",
            **more,
        )
        self._environments[environment.arn] = environment
        return environment

    def add_policy(self, **policy: Any) -> str:
        arn = f"{_ARN}:scheduling-policy/p{len(self._policies)}"
        self._policies[arn] = SchedulingPolicy("p", arn, {"fairsharePolicy": policy})
        return arn

    def add_consumable(self, name: str, total: int, type: str = "REPLENISHABLE") -> str:
        arn = f"{_ARN}:consumable-resource/{name}"
        self._consumables[arn] = ConsumableResource(name, arn, type, total)
        return arn

    def drop_consumable(self, arn: str) -> None:
        del self._consumables[arn]


class World:
    """A placement over a catalog, with a count of what has been started."""

    def __init__(self, **machine: Any) -> None:
        self.resources = Resources()
        self.faults = Faults(seed=1)
        self.placement = Placement(self.resources, Machine(**machine), self.faults)
        self.now = 1000.0
        self._numbers = itertools.count(1)

    def submit(self, queue: str = "q", count: int = 1, **asked: Any) -> list[str]:
        """Let jobs wait; returns their ids."""
        jobs = [job(f"j{next(self._numbers)}", queue, self.now, **asked) for _ in range(count)]
        for each in jobs:
            self.placement.add(each)
        return [each.job_id for each in jobs]

    def place(self) -> list[Placed]:
        return self.placement.place(self.now)

    def started(self) -> list[str]:
        """Start all that can; returns the ids in the order of their start."""
        return [placed.job_id for placed in self.place()]

    def jobs_on(self, instance_id: str) -> list[str]:
        """Return the jobs on an instance; none when it is not there."""
        found = self.placement.instances()
        return [job for one in found if one["instanceId"] == instance_id for job in one["jobs"]]

    def end(self, *job_ids: str) -> None:
        for job_id in job_ids:
            self.placement.release(job_id, self.now)

    def said(self) -> dict[str, str]:
        """Look at the heads of all queues; returns the reasons that have changed."""
        self.place()
        return dict(self.placement.reasons(self.now))


def queue_arn(name: str) -> str:
    return f"{_ARN}:job-queue/{name}"


def job(
    job_id: str,
    queue: str = "q",
    since: float = 1000.0,
    *,
    vcpus: float = 1,
    memory: int = 128,
    gpus: int = 0,
    nodes: tuple[NodeNeed, ...] = (),
    platforms: tuple[str, ...] = ("EC2",),
    architecture: str = "",
    share: str = "",
    priority: int = 0,
    consumables: tuple[tuple[str, int], ...] = (),
    front: bool = False,
    name: str = "work",
) -> Waiting:
    return Waiting(
        job_id=job_id,
        arn=f"{_ARN}:job/{job_id}",
        job_name=name,
        queue_arn=queue_arn(queue),
        share=share,
        priority=priority,
        nodes=nodes or (NodeNeed(1, vcpus, memory, gpus),),
        platforms=platforms,
        architecture=architecture,
        consumables=consumables,
        since=since,
        front=front,
    )


def _found(table: dict[str, Any], ref: str) -> Any:
    if ref not in table:
        raise ClientError(f"{ref} does not exist.")
    return table[ref]
