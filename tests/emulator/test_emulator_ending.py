"""CancelJob and TerminateJob, one by one and in bulk."""

from __future__ import annotations

import uuid

import pytest

from support.emulated import World, multinode
from wherry.emulator.batch.errors import ClientError


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def full() -> World:
    """A world in which two jobs run, and all others wait."""
    world = World(vcpus=2)
    for _ in range(2):
        world.begin(world.submit(jobName="before"))
    return world


def test_cancelling_a_runnable_job_fails_it_with_the_reason(full: World) -> None:
    job = full.submit()
    full.call("CancelJob", jobId=job, reason="changed my mind")

    shown = full.describe(job)
    assert (shown["status"], shown["statusReason"]) == ("FAILED", "changed my mind")
    assert (shown["isCancelled"], shown["isTerminated"]) == (True, False)
    assert "stoppedAt" in shown
    assert shown["attempts"] == []


def test_cancelling_a_submitted_job_fails_it(world: World) -> None:
    job = world.submit(settle=False)
    world.call("CancelJob", jobId=job, reason="x")
    world.settle()

    assert world.states(job) == ["FAILED"]
    assert not world.engine.started


def test_a_pending_job_is_cancelled_when_its_dependencies_have_ended(world: World) -> None:
    first = world.submit()
    job = world.submit(dependsOn=[{"jobId": first}])
    world.call("CancelJob", jobId=job, reason="x")
    world.settle()
    assert (world.status(job), world.describe(job)["isCancelled"]) == ("PENDING", True)

    world.run(first)

    assert world.states(job) == ["PENDING", "FAILED"]
    assert world.describe(job)["statusReason"] == "x"


def test_cancelling_a_starting_or_running_job_succeeds_without_effect(world: World) -> None:
    job = world.submit(retryStrategy={"attempts": 2})
    world.call("CancelJob", jobId=job, reason="too late")
    world.begin(job)
    world.call("CancelJob", jobId=job, reason="too late")
    world.settle()

    shown = world.describe(job)
    assert (shown["status"], shown["isCancelled"]) == ("RUNNING", False)
    assert "statusReason" not in shown
    assert not world.engine.stops
    world.end(job, 1)
    assert world.status(job) == "STARTING"


def test_terminating_a_waiting_job_fails_it_at_once(full: World) -> None:
    first = full.submit()
    pending = full.submit(dependsOn=[{"jobId": first}])
    for job in (pending, first):
        full.call("TerminateJob", jobId=job, reason="stop")

        shown = full.describe(job)
        assert (shown["status"], shown["statusReason"]) == ("FAILED", "stop")
        assert (shown["isCancelled"], shown["isTerminated"]) == (False, True)


def test_a_terminated_job_runs_until_its_process_has_died(world: World) -> None:
    job = world.submit(retryStrategy={"attempts": 3})
    task = world.begin(job)
    world.call("TerminateJob", jobId=job, reason="stop")
    world.settle()
    assert world.engine.stops == [(task.id, 30.0)]
    assert world.status(job) == "RUNNING"
    assert world.describe(job)["statusReason"] == "stop"

    world.obey()

    shown = world.describe(job)
    assert (shown["status"], shown["statusReason"]) == ("FAILED", "stop")
    assert shown["attempts"][0]["statusReason"] == "stop"
    assert shown["container"]["exitCode"] == 143


def test_a_job_terminated_while_starting_never_succeeds(world: World) -> None:
    job = world.submit()
    world.call("TerminateJob", jobId=job, reason="stop")
    world.settle()
    world.begin(job)
    world.end(job, 0)

    assert world.status(job) == "FAILED"
    assert world.describe(job)["statusReason"] == "stop"


def test_the_engine_is_asked_to_stop_once(world: World) -> None:
    job = world.submit()
    world.begin(job)
    for reason in ("first", "second"):
        world.call("TerminateJob", jobId=job, reason=reason)
        world.settle()

    assert len(world.engine.stops) == 1
    assert world.describe(job)["statusReason"] == "second"


@pytest.mark.parametrize("operation", ["CancelJob", "TerminateJob"])
def test_an_ended_job_keeps_its_reason(world: World, operation: str) -> None:
    job = world.submit()
    world.run(job)
    world.call(operation, jobId=job, reason="late")

    shown = world.describe(job)
    assert shown["status"] == "SUCCEEDED"
    assert shown["statusReason"] == "Essential container in task exited"
    assert not shown["isCancelled"]
    assert not shown["isTerminated"]


@pytest.mark.parametrize("operation", ["CancelJob", "TerminateJob"])
def test_an_unknown_job_is_no_error(world: World, operation: str) -> None:
    assert world.call(operation, jobId=str(uuid.uuid4()), reason="x") == {}


@pytest.mark.parametrize("operation", ["CancelJob", "TerminateJob"])
@pytest.mark.parametrize("reason", ["", "x" * 1025])
def test_a_reason_of_1_to_1024_characters_is_required(
    world: World, operation: str, reason: str
) -> None:
    job = world.submit()

    with pytest.raises(ClientError, match=r"[Rr]eason"):
        world.call(operation, jobId=job, reason=reason)
    world.call(operation, jobId=job, reason="x" * 1024)


@pytest.mark.parametrize("operation", ["CancelJob", "TerminateJob"])
def test_a_node_is_not_ended_alone(world: World, operation: str) -> None:
    world.define("gang", multinode())
    job = world.submit("gang")

    with pytest.raises(ClientError, match="node"):
        world.call(operation, jobId=f"{job}#1", reason="x")


def test_bulk_calls_tell_of_each_job(world: World) -> None:
    world.define("gang", multinode())
    gang, single, missing = world.submit("gang"), world.submit(), str(uuid.uuid4())

    answer = world.call("TerminateJobs", jobs=[single, f"{gang}#1", missing], reason="x")

    assert answer["successful"] == [single, missing]
    assert [one["job"] for one in answer["errors"]] == [f"{gang}#1"]
    assert answer["errors"][0]["code"] == "ClientException"
    assert "node" in answer["errors"][0]["message"]
    assert world.describe(single)["isTerminated"]


def test_bulk_cancel_leaves_running_jobs(full: World) -> None:
    running = next(iter(full.plane.flights.values())).job.id
    waiting = full.submit()

    answer = full.call("CancelJobs", jobs=[running, waiting], reason="x")

    assert answer == {"successful": [running, waiting], "errors": []}
    assert (full.status(running), full.status(waiting)) == ("RUNNING", "FAILED")


@pytest.mark.parametrize("operation", ["CancelJobs", "TerminateJobs"])
def test_bulk_calls_take_1_to_50_jobs(world: World, operation: str) -> None:
    ids = [str(uuid.uuid4()) for _ in range(51)]

    assert len(world.call(operation, jobs=ids[:50], reason="x")["successful"]) == 50
    for wrong in ([], ids):
        with pytest.raises(ClientError):
            world.call(operation, jobs=wrong, reason="x")


def test_an_ended_job_gives_its_place_back() -> None:
    world = World(vcpus=2)
    first, _ = world.submit(), world.submit()
    third = world.submit()
    world.begin(first)
    world.call("TerminateJob", jobId=first, reason="x")
    world.settle()
    assert world.status(third) == "RUNNABLE"

    world.obey()

    assert world.status(third) == "STARTING"


ARN = "arn:aws:batch:us-east-1:123456789012:job/"


@pytest.mark.parametrize("operation", ["CancelJob", "TerminateJob"])
def test_a_job_can_be_ended_by_its_arn(full: World, operation: str) -> None:
    job = full.submit()
    full.call(operation, jobId=ARN + job, reason="by ARN")

    assert full.describe(job)["statusReason"] == "by ARN"


def test_a_child_can_be_ended_by_its_arn(full: World) -> None:
    job = full.submit(arrayProperties={"size": 2})
    full.call("TerminateJob", jobId=f"{ARN}{job}:1", reason="by ARN")
    full.settle()

    assert [full.status(f"{job}:{index}") for index in (0, 1)] == ["RUNNABLE", "FAILED"]


@pytest.mark.parametrize("operation", ["CancelJobs", "TerminateJobs"])
def test_bulk_calls_take_arns_and_tell_of_what_they_were_given(full: World, operation: str) -> None:
    first, second = full.submit(), full.submit()

    answer = full.call(operation, jobs=[ARN + first, second], reason="x")

    assert answer == {"successful": [ARN + first, second], "errors": []}
    assert [full.status(job) for job in (first, second)] == ["FAILED", "FAILED"]


def test_the_arn_of_another_region_is_no_job_of_this_one(full: World) -> None:
    job = full.submit()
    full.call("CancelJob", jobId=ARN.replace("us-east-1", "eu-west-1") + job, reason="x")

    assert full.status(job) == "RUNNABLE"
