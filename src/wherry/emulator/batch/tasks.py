"""What a job is made of: its effective definition, what it asks for, and the task of an attempt.

This is the door of the room that turns definitions and requests into things that run. It knows the
shapes of the API and the contract of engines; it knows neither queues nor the lives of jobs.
"""

from __future__ import annotations

import os
import tempfile

from wherry.emulator.batch import ecs_tasks, overrides, pods
from wherry.emulator.batch.cannot_start import CannotStart
from wherry.emulator.batch.needs import waiting
from wherry.emulator.batch.override_rules import check
from wherry.emulator.batch.placing import Place
from wherry.emulator.batch.ports import Document, Surroundings
from wherry.emulator.batch.records import Job
from wherry.emulator.batch.starting import Start, describe
from wherry.emulator.engines.api import Task

__all__ = ["CannotStart", "build", "check", "effective", "network_of", "waiting"]


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


def network_of(job: Job) -> str:
    """Return the name of the network that the nodes of a multi-node job share; empty for others."""
    return f"wherry-{job.parent}" if job.kind == "node" else ""


def build(
    job: Job,
    attempt: int,
    task_id: str,
    place: Place,
    main_address: str,
    array_size: int,
    num_nodes: int,
    queue_name: str,
    surroundings: Surroundings,
    region: str,
    *,
    efs_root: str = "",
    instance_role: str = "",
    has_streams: bool = True,
) -> Task:
    """Return what an engine is to run for one attempt; makes its log streams.

    Timeouts of containers are those of the definition, in emulated seconds.

    Args:
        job: a single job, a child or a node.
        attempt: which attempt, from 1.
        task_id: 32 hexadecimal digits.
        place: where it runs.
        main_address: the main node's address, for other nodes; else empty.
        array_size: of the array that it is a child of, or 0.
        num_nodes: of the multi-node job that it is a node of, or 0.
        queue_name: of its queue.
        surroundings: the rest of AWS.
        region: where it runs.
        efs_root: the folder that has a folder for each file system of EFS; a folder of this user's
            temporary files when empty.
        instance_role: the role of the instances of the environment, for jobs that have none.
        has_streams: whether log streams come into being.

    Raises:
        CannotStart: the attempt fails before anything of it runs.
    """
    properties = job.definition.document.get("nodeProperties") or {}
    start = Start(
        job=job,
        attempt=attempt,
        task_id=task_id,
        place=place,
        main_address=main_address,
        main_index=properties.get("mainNode") or 0,
        array_size=array_size,
        num_nodes=num_nodes,
        queue_name=queue_name,
        surroundings=surroundings,
        region=region,
        efs_root=efs_root or _efs_root(),
        instance_role=instance_role,
        has_streams=has_streams,
    )
    try:
        task = _task(start, effective(job))
    except CannotStart:
        surroundings.task_over(task_id)
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
            network=network_of(job),
            host_network=pod.get("hostNetwork") is True,
            pid_mode="task" if pod.get("shareProcessNamespace") else "",
            labels=labels,
        )
    built, log_region = ecs_tasks.containers(start, document)
    shared = ecs_tasks.task_of(document)
    return Task(
        id=start.task_id,
        region=log_region or start.region,
        containers=tuple(built),
        network=network_of(job),
        pid_mode=shared.get("pidMode") or "",
        ipc_mode=shared.get("ipcMode") or "",
        labels=labels,
    )


def _efs_root() -> str:
    return os.path.join(tempfile.gettempdir(), f"wherry-efs-{os.getuid()}")
