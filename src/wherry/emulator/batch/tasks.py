"""What a job is made of: its effective definition, what it asks for, and the task of an attempt.

This is the door of the room that turns definitions and requests into things that run. It knows the
shapes of the API and the contract of engines; it knows neither queues nor the lives of jobs.
"""

from __future__ import annotations

from wherry.emulator.batch import ecs_tasks, overrides, pods
from wherry.emulator.batch.needs import waiting
from wherry.emulator.batch.override_rules import check
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import Job
from wherry.emulator.batch.starting import CannotStart, Start, describe
from wherry.emulator.engines.api import Task

__all__ = ["CannotStart", "Start", "build", "check", "container_names", "effective", "waiting"]


def effective(job: Job) -> Document:
    """Return what runs, as DescribeJobs shows it; shared, so nobody may change it.

    Args:
        job: a job of any kind.

    Returns:
        Members of ``JobDetail``: one of ``container``, ``ecsProperties``, ``eksProperties`` and
        ``nodeProperties``, and ``consumableResourceProperties`` where there are any. For a node it
        is what its node range says.
    """
    if job.kind == "node":
        return overrides.merged_node(job.definition, job.request, job.index)
    return overrides.merged(job.definition, job.request)


def container_names(job: Job) -> list[str]:
    """Return the names of the containers of a single job, a child or a node, in their order."""
    document = effective(job)
    if "eksProperties" in document:
        return pods.names(document["eksProperties"]["podProperties"])
    return ecs_tasks.names(document)


def build(start: Start) -> Task:
    """Return what an engine is to run for one attempt; makes its log streams.

    Timeouts of containers are those of the definition, in emulated seconds.

    Args:
        start: the attempt, of a single job, a child or a node.

    Raises:
        CannotStart: the attempt fails before anything of it runs.
    """
    try:
        task = _task(start, effective(start.job))
    except CannotStart:
        start.surroundings.task_over(start.task_id)
        raise
    describe(start, task.containers)
    return task


def _task(start: Start, document: Document) -> Task:
    job = start.job
    labels = (
        ("job-id", job.id),
        ("job-name", job.name),
        ("attempt", str(start.attempt)),
        ("queue", start.queue_name),
    )
    if "eksProperties" in document:
        pod = document["eksProperties"]["podProperties"]
        return Task(
            id=start.task_id,
            region=start.region,
            containers=tuple(pods.containers(start, pod)),
            network=_network_of(job),
            host_network=pod.get("hostNetwork") is True,
            pid_mode="task" if pod.get("shareProcessNamespace") else "",
            ends_with="all",
            labels=labels,
        )
    built, log_region = ecs_tasks.containers(start, document)
    shared = ecs_tasks.task_of(document)
    return Task(
        id=start.task_id,
        region=log_region or start.region,
        containers=tuple(built),
        network=_network_of(job),
        pid_mode=shared.get("pidMode") or "",
        ipc_mode=shared.get("ipcMode") or "",
        labels=labels,
    )


def _network_of(job: Job) -> str:
    """Return the name of the network that the nodes of a multi-node job share; empty for others."""
    return f"wherry-{job.parent}" if job.kind == "node" else ""
