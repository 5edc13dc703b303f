"""One attempt of a job: its task is built and started, stopped when it has to be, and judged.

Sources: AWS Batch user guide, "Job states", "Job timeouts", "Automated job retries". All delays are
emulated seconds; an engine gets real ones.
"""

from __future__ import annotations

import dataclasses
import uuid
from typing import TYPE_CHECKING

from wherry.emulator.batch import arns, lifecycle, limits, nodes, retries, tasks
from wherry.emulator.batch.records import Attempt, Job
from wherry.emulator.batch.retries import Outcome
from wherry.emulator.engines.api import ESSENTIAL_EXITED, Task, TaskEnded, TaskStarted
from wherry.emulator.settings import ACCOUNT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wherry.emulator.batch.book import Entry
    from wherry.emulator.batch.placing import Place
    from wherry.emulator.batch.plane import Plane
    from wherry.emulator.batch.ports import Document
    from wherry.emulator.engines.api import ContainerEnd
    from wherry.emulator.faults import Fault

GRACE = 30.0
"""Seconds between SIGTERM and SIGKILL."""

TIMED_OUT = "Job attempt duration exceeded timeout"
AGENT = "AGENT"


@dataclasses.dataclass(eq=False)
class Flight:
    """A task that an engine has, or will have in a moment.

    Attributes:
        job: the job, child or node that it is an attempt of.
        task: what was built for it.
        place: where it is thought to run.
        stopping: whether the engine has been asked to stop it.
        agent_lost: whether it ends because the agent of its host was lost.
    """

    job: Entry
    task: Task
    place: Place
    stopping: bool = False
    agent_lost: bool = False


def launch(plane: Plane, job: Entry, place: Place, main_address: str = "") -> None:
    """Build the task of an attempt and hand it to the engine.

    Args:
        plane: has the engine.
        job: a single job, a child or a node, in STARTING.
        place: where it goes.
        main_address: the main node's address, for the other nodes.
    """
    task_id = uuid.uuid4().hex
    run = Attempt(
        task_id,
        _task_arn(plane, place, task_id),
        place.instance_arn,
        place.instance_id,
        place.environment_arn,
    )
    job.runs.append(run)
    plane.book.touch(job)
    parent = plane.book.parent_of(job) if job.parent else job
    start = tasks.Start(
        job=job,
        attempt=len(job.runs),
        task_id=task_id,
        place=place,
        queue_name=arns.name_of(job.queue_arn),
        surroundings=plane.surroundings,
        region=plane.region,
        main_address=main_address,
        array_size=parent.children if job.kind == "child" else 0,
        num_nodes=parent.children if job.kind == "node" else 0,
        efs_root=plane.efs_root,
        instance_role=_instance_role(plane, place),
    )
    try:
        task = tasks.build(start)
    except tasks.CannotStart as refusal:
        run.containers = _unstarted(tasks.container_names(job), refusal)
        reason = refusal.container_reason
        over(plane, job, Outcome(False, refusal.status_reason, None, reason, final=not reason))
        return
    task = _in_real_time(plane, _with_fault(plane, job, task))
    if task.network and job.parent:
        plane.networks[job.parent] = task.network
    plane.flights[task_id] = Flight(job, task, place)
    plane.outbox.append((plane.engine.start, (task,)))


def started(plane: Plane, event: TaskStarted) -> None:
    """Take note that a task runs."""
    flight = plane.flights.get(event.task_id)
    if flight is None or flight.job.status != "STARTING":
        return
    job, run = flight.job, flight.job.runs[-1]
    run.containers = [
        _stream_of(container.name, container.log_stream) for container in flight.task.containers
    ]
    reason = job.status_reason if job.is_terminated else ""
    lifecycle.move(plane, job, "RUNNING", reason)
    run.started_at = job.started_at
    if job.kind == "node":
        nodes.started(plane, job, event.address)
    else:
        watch_time(plane, job)


def ended(plane: Plane, event: TaskEnded) -> None:
    """Take note that nothing of a task is left, and judge the attempt."""
    flight = plane.flights.get(event.task_id)
    if flight is None:
        return
    if _ran_unseen(flight, event):
        started(plane, TaskStarted(event.task_id, ""))
    del plane.flights[event.task_id]
    plane.surroundings.task_over(event.task_id)
    job = flight.job
    run = job.runs[-1]
    run.containers = [
        _end_of(flight, container.name, container.log_stream, event)
        for container in flight.task.containers
    ]
    over(plane, job, _outcome(flight, event))


def over(plane: Plane, job: Entry, outcome: Outcome) -> None:
    """Close the present attempt of a job, and let whoever decides go on."""
    run = job.runs[-1]
    run.stopped_at = plane.clock.now_ms()
    run.status_reason = _reason(plane, job, outcome)
    plane.book.touch(job)
    if job.kind == "node":
        nodes.ended(plane, job, outcome)
    else:
        decide(plane, job, outcome)


def decide(plane: Plane, job: Entry, outcome: Outcome) -> None:
    """End a job after an attempt, or let it run again.

    What was terminated or timed out has failed, whatever its exit code, and is not retried.
    """
    reason = _reason(plane, job, outcome)
    if job.kind == "multinode":
        job.runs[-1].status_reason = reason
    if will_retry(plane, job, outcome):
        lifecycle.run_again(plane, job)
        return
    was_ended = job.timed_out or job.is_terminated
    job.timed_out = False
    status = "SUCCEEDED" if outcome.success and not was_ended else "FAILED"
    nodes.end_all(plane, job, status, reason)
    lifecycle.finish(plane, job, status, reason)


def will_retry(plane: Plane, job: Entry, outcome: Outcome) -> bool:
    """Tell whether an attempt is to be followed by another, as far as can be known by now."""
    if outcome.success or job.timed_out or job.is_terminated:
        return False
    return not _array_is_cancelled(plane, job) and retries.again(job, outcome)


def stop(plane: Plane, job: Entry) -> bool:
    """Stop whatever runs of a job; tells whether there was anything."""
    if job.kind == "multinode":
        nodes.stop(plane, job)
        return bool(job.flying)
    return stop_task(plane, job)


def stop_task(plane: Plane, job: Entry) -> bool:
    """Stop the task of a single job, a child or a node, if it has one."""
    flight = flight_of(plane, job)
    if flight is None:
        return False
    if not flight.stopping:
        flight.stopping = True
        grace = plane.clock.real_seconds(GRACE)
        plane.outbox.append((plane.engine.stop, (flight.task.id, grace)))
    return True


def lose(plane: Plane, flight: Flight, reason: str) -> None:
    """Let the host of a task be gone."""
    plane.outbox.append((plane.engine.lose, (flight.task.id, reason)))


def flight_of(plane: Plane, job: Entry) -> Flight | None:
    """Return the task that runs for a job, if one does."""
    return plane.flights.get(job.runs[-1].task_id) if job.runs else None


def flights_of(plane: Plane, job: Entry) -> Iterator[Flight]:
    """Return all tasks that run for a job: one, or those of the nodes."""
    for each in (job, *plane.book.family_of(job)):
        flight = flight_of(plane, each)
        if flight is not None:
            yield flight


def watch_time(plane: Plane, job: Entry) -> None:
    """Have the present attempt ended when its time is up."""
    seconds = timeout_of(job)
    if seconds:
        plane.remind(job.started_at / 1000 + seconds, "timeout", job.id, len(job.runs))


def time_is_up(plane: Plane, job: Entry, attempt: int) -> None:
    """End an attempt that has run for as long as it may."""
    if job.status != "RUNNING" or len(job.runs) != attempt or job.is_terminated:
        return
    job.timed_out = True
    plane.book.touch(job)
    stop(plane, job)


def timeout_of(job: Job) -> int:
    """Return how long an attempt may run, in seconds; 0 for no bound."""
    given = job.request.get("timeout") or job.definition.document.get("timeout") or {}
    return int(given.get("attemptDurationSeconds") or 0)


def _array_is_cancelled(plane: Plane, job: Entry) -> bool:
    return job.kind == "child" and plane.book.parent_of(job).is_cancelled


def _task_arn(plane: Plane, place: Place, task_id: str) -> str:
    cluster = place.cluster_arn.rpartition("/")[2]
    prefix = f"arn:{arns.partition(plane.region)}:ecs:{plane.region}:{ACCOUNT}"
    return f"{prefix}:task/{cluster}/{task_id}"


def _instance_role(plane: Plane, place: Place) -> str:
    """Return the role that a job without one of its own has: that of its instance."""
    environment = plane.catalog.find_environment(place.environment_arn)
    return str(environment.resources.get("instanceRole", "")) if environment else ""


def _struck(plane: Plane, job: Entry, *kinds: str) -> list[Fault]:
    return plane.faults.for_job(kinds, job.id, job.name, arns.name_of(job.queue_arn))


def _with_fault(plane: Plane, job: Entry, task: Task) -> Task:
    struck = _struck(plane, job, *_START_FAULTS)
    if not struck:
        return task
    fault = struck[0]
    return dataclasses.replace(task, start_fault=_START_FAULTS[fault.kind](fault.value, task))


def _in_real_time(plane: Plane, task: Task) -> Task:
    """Give an engine the real seconds of what its containers wait for."""
    if plane.clock.scale == 1:
        return task
    real = plane.clock.real_seconds
    containers = (
        dataclasses.replace(
            container,
            start_timeout=real(container.start_timeout),
            stop_timeout=real(container.stop_timeout),
        )
        for container in task.containers
    )
    return dataclasses.replace(task, containers=tuple(containers))


def _pull_failure(value: str, task: Task) -> str:
    image = task.containers[0].image
    cause = value or f"pull image manifest has been retried 5 time(s): {image}: not found"
    return f"CannotPullContainerError: {cause}"


def _start_failure(value: str, task: Task) -> str:  # noqa: ARG001 — one of a table
    return value or (
        "DockerTimeoutError: Could not transition to created; timed out after waiting 4m0s"
    )


_START_FAULTS = {"pull-failure": _pull_failure, "start-failure": _start_failure}


def _unstarted(names: list[str], refusal: tasks.CannotStart) -> list[Document]:
    """Return containers of which none ran, the reason at the one that could not start."""
    at_fault = refusal.container or names[0]
    reason = refusal.container_reason[: limits.CONTAINER_REASON_LENGTH]
    return [
        {"name": name, "reason": reason} if reason and name == at_fault else {"name": name}
        for name in names
    ]


def _ran_unseen(flight: Flight, event: TaskEnded) -> bool:
    """Tell whether containers ran although the start was never told."""
    ran = any(end.exit_code is not None for end in event.containers.values())
    return ran and flight.job.status == "STARTING" and flight.job.kind != "node"


def _stream_of(name: str, stream: str) -> Document:
    return {"name": name, "logStreamName": stream} if stream else {"name": name}


def _end_of(flight: Flight, name: str, stream: str, event: TaskEnded) -> Document:
    end = event.containers.get(name)
    shown = _stream_of(name, stream)
    code = _code(flight, end)
    if code is not None:
        shown["exitCode"] = code
    reason = _container_reason(flight, end)
    if reason:
        shown["reason"] = reason
    return shown


def _code(flight: Flight, end: ContainerEnd | None) -> int | None:
    return None if flight.agent_lost or end is None else end.exit_code


def _container_reason(flight: Flight, end: ContainerEnd | None) -> str:
    if flight.agent_lost:
        return AGENT
    return "" if end is None else end.reason[: limits.CONTAINER_REASON_LENGTH]


def _outcome(flight: Flight, event: TaskEnded) -> Outcome:
    """Judge a task: every essential container has to have ended with 0, and all of a pod."""
    task = flight.task
    judged = [one.name for one in task.containers if one.essential or task.ends_with == "all"]
    ends = [event.containers.get(name) for name in judged]
    bad = [end for end in ends if _code(flight, end) != 0]
    if not bad and event.reason == ESSENTIAL_EXITED:
        return Outcome(True, event.reason, 0)
    worst = next((end for end in bad if _code(flight, end) is not None), bad[0] if bad else None)
    reason = _container_reason(flight, worst) or _first_reason(flight, event)
    return Outcome(False, event.reason, _code(flight, worst), reason)


def _first_reason(flight: Flight, event: TaskEnded) -> str:
    reasons = (_container_reason(flight, end) for end in event.containers.values())
    return next((reason for reason in reasons if reason), "")


def _reason(plane: Plane, job: Entry, outcome: Outcome) -> str:
    whole = plane.book.parent_of(job) if job.kind == "node" else job
    if whole.is_terminated:
        return whole.wish
    if whole.timed_out:
        return TIMED_OUT
    return outcome.status_reason
