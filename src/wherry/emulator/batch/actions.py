"""What AWS does to its users, on demand: hosts that go away, and agents that are lost.

Each happens once and at once; what comes of it (a retry, say) is decided as with AWS.

How a job ends whose agent was lost is documented only in so far as ``container.reason`` is
``AGENT``, by AWS's own sample of a retry strategy; here there is no exit code, and the status
reason is the usual one. Fargate's text is that of ECS for an interrupted Spot task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wherry.emulator.batch import attempts, notes
from wherry.emulator.batch.attempts import Flight
from wherry.emulator.batch.ports import Document
from wherry.emulator.engines.api import ESSENTIAL_EXITED
from wherry.errors import StateError, UnknownNameError, unknown

if TYPE_CHECKING:
    from wherry.emulator.batch.book import Entry
    from wherry.emulator.batch.plane import Plane

FARGATE_INTERRUPTED = "Your Spot Task was interrupted."


def host_lost(instance_id: str) -> str:
    """Return the status reason of an attempt whose host has gone; no instance is Fargate."""
    if not instance_id:
        return FARGATE_INTERRUPTED
    return f"Host EC2 (instance {instance_id}) terminated."


def reclaim(plane: Plane, instance_or_job: str) -> list[str]:
    """Take an instance away, with all that runs on it.

    Args:
        plane: knows the jobs.
        instance_or_job: an instance; or a job, whose instances are meant. On Fargate, where there
            is no instance, only the job itself is interrupted.

    Returns:
        The ids of the jobs, children and nodes that lose what they run.

    Raises:
        UnknownNameError: there is no such instance or job.
        StateError: the job has nothing that runs.
    """
    job = plane.book.find(instance_or_job)
    if job is None:
        return _reclaim_instance(plane, instance_or_job)
    flights = _running(plane, job)
    lost = []
    for instance in dict.fromkeys(flight.place.instance_id for flight in flights):
        if instance:
            lost += _reclaim_instance(plane, instance)
    lost += [_lose(plane, flight) for flight in flights if not flight.place.instance_id]
    return lost


def lose_agent(plane: Plane, job_id: str) -> None:
    """Lose the agent of the host on which a job runs; its attempt ends with the reason AGENT.

    Raises:
        UnknownNameError: there is no such job.
        StateError: it has nothing that runs.
    """
    job = plane.book.find(job_id)
    if job is None:
        raise UnknownNameError(unknown("job", job_id, plane.book.jobs))
    for flight in _running(plane, job):
        flight.agent_lost = True
        attempts.lose(plane, flight, ESSENTIAL_EXITED)


def status(plane: Plane) -> Document:
    """Return how many jobs are in each state, of each queue too, and the instances in use.

    Its notes say what active job definitions ask for and is left out.
    """
    active = [one for one in plane.catalog.definitions() if one.status == "ACTIVE"]
    instances: dict[str, list[str]] = {}
    for flight in plane.flights.values():
        place = flight.place
        where = place.instance_id or f"{place.environment_name} (no instance)"
        instances.setdefault(where, []).append(flight.job.id)
    return {
        "region": plane.region,
        "jobs": plane.book.totals(),
        "queues": {queue.name: plane.book.totals_of(queue.arn) for queue in plane.catalog.queues()},
        "instances": instances,
        "held": sorted(plane.held),
        "definitions": len(active),
        "notes": notes.about(active),
    }


def _reclaim_instance(plane: Plane, instance_id: str) -> list[str]:
    flights = [one for one in plane.flights.values() if one.place.instance_id == instance_id]
    if not flights:
        known = {flight.place.instance_id for flight in plane.flights.values()} - {""}
        raise UnknownNameError(unknown("instance or job", instance_id, known))
    plane.placing.drop_instance(instance_id)
    plane.unplaced = True
    return [_lose(plane, flight) for flight in flights]


def _lose(plane: Plane, flight: Flight) -> str:
    attempts.lose(plane, flight, host_lost(flight.place.instance_id))
    return flight.job.id


def _running(plane: Plane, job: Entry) -> list[Flight]:
    flights = list(attempts.flights_of(plane, job))
    if not flights:
        raise StateError(f"job {job.id} is {job.status}; nothing of it runs")
    return flights
