"""The states of one job, and what an attempt leaves behind."""

from __future__ import annotations

import pytest

from support.emulated import SIMPLE, World
from wherry.emulator.batch.ports import Document
from wherry.emulator.engines.api import OUT_OF_MEMORY, ContainerEnd, TaskEnded
from wherry.emulator.faults import Fault


@pytest.fixture
def world() -> World:
    return World()


def test_a_job_without_dependencies_goes_through_its_states_in_order(world: World) -> None:
    job = world.submit()
    world.run(job)

    assert world.states(job) == ["RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED"]


def test_submission_itself_is_no_event_and_leaves_the_job_submitted(world: World) -> None:
    job = world.submit(settle=False)

    assert world.status(job) == "SUBMITTED"
    assert world.surroundings.events == []


def test_an_event_has_the_shape_of_describe_jobs_and_names_the_job(world: World) -> None:
    job = world.submit(settle=False, tags={"team": "a"})
    world.settle()

    kind, resources, detail = world.surroundings.events[0]
    described = world.describe(job)
    assert kind == "Batch Job State Change"
    assert resources == [described["jobArn"]]
    assert detail["status"] == "RUNNABLE"
    assert detail["jobId"] == job
    assert detail["container"]["image"] == "busybox"
    assert detail["tags"] == {"resourceArn": described["jobArn"], "team": "a"}


def test_exit_code_zero_succeeds_with_the_usual_reason(world: World) -> None:
    job = world.submit()
    world.run(job)

    shown = world.describe(job)
    assert shown["status"] == "SUCCEEDED"
    assert shown["statusReason"] == "Essential container in task exited"
    assert shown["container"]["exitCode"] == 0


def test_another_exit_code_fails_with_the_same_reason(world: World) -> None:
    job = world.submit()
    world.run(job, code=3)

    shown = world.describe(job)
    assert shown["status"] == "FAILED"
    assert shown["statusReason"] == "Essential container in task exited"
    assert shown["container"]["exitCode"] == 3


def test_a_killed_container_shows_its_reason(world: World) -> None:
    job = world.submit()
    world.begin(job)
    world.end(job, 137, OUT_OF_MEMORY)

    shown = world.describe(job)["container"]
    assert (shown["exitCode"], shown["reason"]) == (137, OUT_OF_MEMORY)


def test_times_are_emulated_milliseconds(world: World) -> None:
    job = world.submit()
    world.turn(5)
    world.begin(job)
    world.turn(10)
    world.end(job)

    shown = world.describe(job)
    assert shown["startedAt"] - shown["createdAt"] == 5_000
    assert shown["stoppedAt"] - shown["startedAt"] == 10_000


def test_an_attempt_names_its_task_its_instance_and_its_log_stream(world: World) -> None:
    job = world.submit()
    task = world.begin(job)
    running = world.describe(job)
    world.end(job, 1)

    attempt = world.describe(job)["attempts"][0]
    assert running["attempts"] == []
    assert running["container"]["logStreamName"] == f"simple/default/{task.id}"
    assert attempt["container"]["logStreamName"] == f"simple/default/{task.id}"
    assert attempt["container"]["taskArn"].endswith(f"/{task.id}")
    assert ":container-instance/" in attempt["container"]["containerInstanceArn"]
    assert attempt["container"]["exitCode"] == 1
    assert attempt["statusReason"] == "Essential container in task exited"
    assert attempt["startedAt"] <= attempt["stoppedAt"]


def test_a_log_stream_is_named_from_running_on(world: World) -> None:
    job = world.submit()

    assert world.status(job) == "STARTING"
    assert "logStreamName" not in world.describe(job)["container"]
    assert "taskArn" in world.describe(job)["container"]


def test_a_failed_start_has_a_reason_and_no_exit_code(world: World) -> None:
    job = world.submit()
    world.fail_to_start(job, "CannotPullContainerError: no such image")

    shown = world.describe(job)
    assert shown["status"] == "FAILED"
    assert shown["statusReason"] == "Task failed to start"
    assert shown["container"]["reason"] == "CannotPullContainerError: no such image"
    assert "exitCode" not in shown["container"]
    assert "RUNNING" not in world.states(job)


def test_a_task_that_ended_before_its_start_was_told_has_run(world: World) -> None:
    job = world.submit()
    world.end(job, 0)

    assert world.states(job) == ["RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED"]


def test_events_of_unknown_and_ended_tasks_are_ignored(world: World) -> None:
    job = world.submit()
    task = world.begin(job)
    world.end(job)

    world.tell(TaskEnded(task.id, "again", {"default": ContainerEnd(1)}))
    world.tell(TaskEnded("f" * 32, "who", {}))

    assert world.status(job) == "SUCCEEDED"


def test_the_end_of_a_task_withdraws_its_credentials(world: World) -> None:
    job = world.submit()
    task = world.begin(job)
    world.end(job)

    assert world.surroundings.over == [task.id]


def test_a_full_environment_keeps_the_next_job_runnable_until_there_is_room() -> None:
    world = World(vcpus=2)
    first, second, third = (world.submit() for _ in range(3))
    assert [world.status(job) for job in (first, second, third)] == [
        "STARTING",
        "STARTING",
        "RUNNABLE",
    ]

    world.run(first)

    assert world.status(third) == "STARTING"


def test_a_multi_container_job_needs_zero_of_its_essential_containers_only(world: World) -> None:
    world.define("pair", _pair())
    job = world.submit("pair")
    task = world.begin(job)
    ends = {"main": ContainerEnd(0), "side": ContainerEnd(7)}
    world.tell(TaskEnded(task.id, "Essential container in task exited", ends))

    shown = world.describe(job)
    assert shown["status"] == "SUCCEEDED"
    attempt = shown["attempts"][0]["taskProperties"][0]
    assert [(one["name"], one["exitCode"]) for one in attempt["containers"]] == [
        ("main", 0),
        ("side", 7),
    ]
    containers = shown["ecsProperties"]["taskProperties"][0]["containers"]
    assert containers[1]["exitCode"] == 7
    assert containers[0]["logStreamName"] == f"pair/main/{task.id}"


def test_a_multi_container_job_fails_with_an_essential_container(world: World) -> None:
    world.define("pair", _pair())
    job = world.submit("pair")
    task = world.begin(job)
    ends = {"main": ContainerEnd(1), "side": ContainerEnd(0)}
    world.tell(TaskEnded(task.id, "Essential container in task exited", ends))

    assert world.status(job) == "FAILED"


def test_a_container_that_cannot_start_is_named_among_the_others(world: World) -> None:
    pair = _pair()
    side = pair["ecsProperties"]["taskProperties"][0]["containers"][1]
    side["secrets"] = [{"name": "TOKEN", "valueFrom": "nowhere"}]
    world.define("pair", pair)
    job = world.submit("pair")

    shown = world.describe(job)
    assert (shown["status"], shown["statusReason"]) == ("FAILED", "Task failed to start")
    reason = "ResourceInitializationError: unable to pull secret nowhere"
    [attempt] = shown["attempts"]
    assert attempt["taskProperties"][0]["containers"] == [
        {"name": "main", "networkInterfaces": []},
        {"name": "side", "reason": reason, "networkInterfaces": []},
    ]
    main, side = shown["ecsProperties"]["taskProperties"][0]["containers"]
    assert "reason" not in main
    assert side["reason"] == reason


def test_overrides_that_are_too_long_leave_a_container_without_a_reason(world: World) -> None:
    environment = [{"name": "X", "value": "x" * 9000}]
    job = world.submit(
        containerOverrides={"environment": environment}, retryStrategy={"attempts": 3}
    )

    shown = world.describe(job)
    assert shown["statusReason"] == "Container Overrides length must be at most 8192"
    assert "reason" not in shown["container"]
    assert len(shown["attempts"]) == 1


@pytest.mark.parametrize("state", ["SUBMITTED", "RUNNABLE", "STARTING"])
def test_a_held_job_stays_in_the_state_until_the_fault_is_off(world: World, state: str) -> None:
    number = world.faults.add(Fault("hold", value=state.lower(), job="job"))
    job = world.submit()
    world.turn(5)
    assert world.status(job) == state
    assert not world.engine.started

    world.faults.remove(number)
    world.turn(1)
    world.run(job)

    assert world.status(job) == "SUCCEEDED"


def test_a_held_job_can_be_terminated(world: World) -> None:
    world.faults.add(Fault("hold", value="STARTING"))
    job = world.submit()

    world.call("TerminateJob", jobId=job, reason="enough")

    assert world.describe(job)["statusReason"] == "enough"
    assert world.status(job) == "FAILED"


def test_a_pull_failure_on_demand_reaches_the_task(world: World) -> None:
    world.faults.add(Fault("pull-failure", value="toomanyrequests", times=1))

    world.submit()
    world.submit()

    assert [task.start_fault for task in world.engine.started] == [
        "CannotPullContainerError: toomanyrequests",
        "",
    ]


def test_a_start_failure_on_demand_has_the_whole_reason(world: World) -> None:
    world.faults.add(Fault("start-failure", value="CannotCreateContainerError: disk full"))

    world.submit()

    assert world.engine.started[0].start_fault == "CannotCreateContainerError: disk full"


def test_more_than_fifty_propagated_tags_fail_the_job(world: World) -> None:
    definition = world.define("tagged", SIMPLE)
    definition.tags = {f"d{n}": "" for n in range(30)}
    job = world.submit("tagged", tags={f"j{n}": "" for n in range(30)}, propagateTags=True)

    assert world.status(job) == "FAILED"
    assert "tags" in world.describe(job)["statusReason"]


def test_a_job_that_can_never_run_is_told_why_and_its_queue_is_reported_as_blocked(
    world: World,
) -> None:
    job = world.submit(containerOverrides=_vcpus(512))
    assert "statusReason" not in world.describe(job)

    world.turn(600)

    reason = world.describe(job)["statusReason"]
    assert reason.startswith("MISCONFIGURATION:")
    kind, resources, detail = world.surroundings.events[-1]
    assert kind == "Batch Job Queue Blocked"
    assert resources == [world.describe(job)["jobArn"], world.queue.arn]
    assert (detail["status"], detail["statusReason"]) == ("RUNNABLE", reason)


def test_a_queues_time_limit_cancels_the_job_that_blocks_it(world: World) -> None:
    job = world.submit(containerOverrides=_vcpus(512))
    world.turn(600)
    limit = {
        "reason": world.describe(job)["statusReason"],
        "state": "RUNNABLE",
        "maxTimeSeconds": 600,
        "action": "CANCEL",
    }
    world.add_queue("limited", time_limits=[limit])
    limited = world.submit(jobQueue="limited", containerOverrides=_vcpus(512))

    world.turn(1800)

    shown = world.describe(limited)
    assert (shown["status"], shown["isCancelled"]) == ("FAILED", True)
    assert shown["statusReason"].startswith(
        "Canceled by JobStateTimeLimit action due to reason: MISCONFIGURATION:"
    )
    assert world.status(job) == "RUNNABLE"


def _vcpus(number: int) -> dict[str, object]:
    return {"resourceRequirements": [{"type": "VCPU", "value": str(number)}]}


def _pair() -> Document:
    container = {
        "image": "busybox",
        "command": ["true"],
        "resourceRequirements": SIMPLE["containerProperties"]["resourceRequirements"],
    }
    return {
        "type": "container",
        "ecsProperties": {
            "taskProperties": [
                {
                    "containers": [
                        {**container, "name": "main", "essential": True},
                        {**container, "name": "side", "essential": False},
                    ]
                }
            ]
        },
        "platformCapabilities": ["EC2"],
    }
