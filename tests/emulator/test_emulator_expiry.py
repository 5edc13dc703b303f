"""Ended jobs are forgotten."""

from __future__ import annotations

import uuid

import pytest

from support.emulated import MemoryArchive, World
from wherry.emulator.batch import expiry
from wherry.errors import StateError, UnknownAppError

WEEK = 7 * 86_400.0


@pytest.fixture
def world() -> World:
    return World()


def test_an_ended_job_is_known_for_seven_days(world: World) -> None:
    job = world.submit()
    world.run(job)
    world.turn(WEEK - 1)
    assert world.knows(job)

    world.turn(1)

    assert not world.knows(job)
    assert world.call("ListJobs", jobQueue="main", jobStatus="SUCCEEDED")["jobSummaryList"] == []


def test_a_job_that_has_not_ended_is_never_forgotten(world: World) -> None:
    job = world.submit()
    world.begin(job)

    world.turn(10 * WEEK)

    assert world.status(job) == "RUNNING"


def test_children_go_with_their_array(world: World) -> None:
    job = world.submit(arrayProperties={"size": 2})
    world.run(f"{job}:0")
    world.turn(WEEK)
    assert world.knows(f"{job}:0")
    world.run(f"{job}:1")

    world.turn(WEEK)

    assert not world.knows(job)
    assert not world.knows(f"{job}:0")


def test_a_job_that_others_wait_for_is_kept_longer(world: World) -> None:
    first, second = world.submit(), world.submit()
    third = world.submit(dependsOn=[{"jobId": first}, {"jobId": second}])
    world.run(first)
    world.turn(2 * WEEK)
    assert world.knows(first)

    world.run(second)
    world.run(third)
    world.turn(3600)

    assert not world.knows(first)


def test_a_job_can_be_made_to_expire_now(world: World) -> None:
    job, other = world.submit(), world.submit()
    world.run(job)
    world.run(other)

    assert expiry.expire(world.plane, job) == 1

    assert not world.knows(job)
    assert world.knows(other)


def test_all_that_has_ended_can_be_made_to_expire(world: World) -> None:
    array = world.submit(arrayProperties={"size": 2})
    running = world.submit()
    world.run(f"{array}:0")
    world.run(f"{array}:1")

    assert expiry.expire(world.plane) == 3
    assert world.knows(running)


def test_what_has_not_ended_or_is_unknown_cannot_expire(world: World) -> None:
    job = world.submit(arrayProperties={"size": 2})

    with pytest.raises(StateError, match="PENDING"):
        expiry.expire(world.plane, job)
    with pytest.raises(StateError, match=job):
        expiry.expire(world.plane, f"{job}:0")
    with pytest.raises(UnknownAppError):
        expiry.expire(world.plane, str(uuid.uuid4()))


def test_the_success_of_an_expired_job_still_counts(world: World) -> None:
    first, second = world.submit(), world.submit()
    third = world.submit(dependsOn=[{"jobId": first}, {"jobId": second}])
    world.run(first)
    expiry.expire(world.plane, first)

    world.run(second)

    assert world.status(third) == "STARTING"


def test_an_expired_job_is_unknown_after_a_restart() -> None:
    archive = MemoryArchive()
    world = World(archive=archive)
    job = world.submit()
    world.run(job)
    expiry.expire(world.plane, job)
    world.plane.save()

    assert not World(archive=archive, clock=world.clock).knows(job)


def test_an_expired_job_is_no_dependency(world: World) -> None:
    job = world.submit()
    world.run(job)
    expiry.expire(world.plane, job)

    with pytest.raises(Exception, match="does not exist"):
        world.submit(dependsOn=[{"jobId": job}])
