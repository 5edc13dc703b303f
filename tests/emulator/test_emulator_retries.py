"""Attempts: when a job is tried again, and when its time is up."""

from __future__ import annotations

import pytest

from support.emulated import World
from wherry.emulator.batch.retries import Outcome, action

EXITED = "Essential container in task exited"


@pytest.fixture
def world() -> World:
    return World()


def test_one_attempt_is_the_default(world: World) -> None:
    job = world.submit()
    world.run(job, code=1)

    assert world.status(job) == "FAILED"


def test_a_failed_attempt_goes_back_to_runnable_and_has_its_own_task_and_log(
    world: World,
) -> None:
    job = world.submit(retryStrategy={"attempts": 3})
    world.run(job, code=1)
    world.run(job, code=2)
    world.run(job, code=0)

    assert world.states(job) == [*["RUNNABLE", "STARTING", "RUNNING"] * 3, "SUCCEEDED"]
    attempts = world.describe(job)["attempts"]
    assert [attempt["container"]["exitCode"] for attempt in attempts] == [1, 2, 0]
    assert len({attempt["container"]["taskArn"] for attempt in attempts}) == 3
    assert len({attempt["container"]["logStreamName"] for attempt in attempts}) == 3
    numbers = [
        dict(task.containers[0].env)["AWS_BATCH_JOB_ATTEMPT"] for task in world.engine.started
    ]
    assert numbers == ["1", "2", "3"]


def test_the_job_fails_after_its_last_attempt(world: World) -> None:
    job = world.submit(retryStrategy={"attempts": 2})
    world.run(job, code=1)
    world.run(job, code=5)

    shown = world.describe(job)
    assert (shown["status"], shown["container"]["exitCode"]) == ("FAILED", 5)


def test_the_definitions_strategy_holds_without_another(world: World) -> None:
    from support.emulated import SIMPLE

    world.define("twice", SIMPLE, retryStrategy={"attempts": 2})
    job = world.submit("twice")
    world.run(job, code=1)

    assert world.status(job) == "STARTING"


def test_a_retry_goes_to_the_front_of_the_queue() -> None:
    world = World(vcpus=2)
    first = world.submit(retryStrategy={"attempts": 2})
    other = world.submit()
    waiting = world.submit()
    world.run(first, code=1)

    assert world.status(first) == "STARTING"
    assert world.status(waiting) == "RUNNABLE"
    assert world.status(other) == "STARTING"


def test_a_failed_start_is_retried(world: World) -> None:
    job = world.submit(retryStrategy={"attempts": 2})
    world.fail_to_start(job, "CannotPullContainerError: no")
    assert world.status(job) == "STARTING"
    world.run(job)

    assert world.status(job) == "SUCCEEDED"


@pytest.mark.parametrize(
    ("rules", "outcome", "verdict"),
    [
        ([], Outcome(False, EXITED, 1), "RETRY"),
        ([{"onExitCode": "1", "action": "EXIT"}], Outcome(False, EXITED, 1), "EXIT"),
        ([{"onExitCode": "1", "action": "EXIT"}], Outcome(False, EXITED, 12), "RETRY"),
        ([{"onExitCode": "1*", "action": "exit"}], Outcome(False, EXITED, 12), "EXIT"),
        ([{"onExitCode": "*", "action": "EXIT"}], Outcome(False, "Host EC2 x"), "RETRY"),
        ([{"onReason": "*", "action": "EXIT"}], Outcome(False, EXITED, 1), "EXIT"),
        ([{"onReason": "Out*", "action": "EXIT"}], Outcome(False, EXITED, 1), "RETRY"),
        ([{"onStatusReason": "host EC2*", "action": "EXIT"}], Outcome(False, "Host EC2"), "RETRY"),
        (
            [{"onStatusReason": "Ess*", "onExitCode": "2", "action": "EXIT"}],
            Outcome(False, EXITED, 1),
            "RETRY",
        ),
        (
            [{"onStatusReason": "Ess*", "onExitCode": "2", "action": "EXIT"}],
            Outcome(False, EXITED, 2),
            "EXIT",
        ),
        (
            [
                {"onStatusReason": "Host EC2*", "action": "RETRY"},
                {"onReason": "*", "action": "EXIT"},
            ],
            Outcome(False, "Host EC2 (instance i-1) terminated."),
            "RETRY",
        ),
    ],
)
def test_rules_are_tried_in_order_and_all_conditions_of_one_have_to_hold(
    rules: list[dict[str, str]], outcome: Outcome, verdict: str
) -> None:
    assert action(rules, outcome) == verdict


def test_a_rule_that_says_exit_ends_the_job(world: World) -> None:
    rules = [{"onExitCode": "3", "action": "EXIT"}]
    job = world.submit(retryStrategy={"attempts": 5, "evaluateOnExit": rules})
    world.run(job, code=1)
    assert world.status(job) == "STARTING"
    world.run(job, code=3)

    assert world.status(job) == "FAILED"


def test_an_attempt_that_runs_too_long_is_stopped_and_not_retried(world: World) -> None:
    job = world.submit(retryStrategy={"attempts": 3}, timeout={"attemptDurationSeconds": 60})
    task = world.begin(job)
    world.turn(59)
    assert not world.engine.stops

    world.turn(1)
    assert world.engine.stops == [(task.id, 30.0)]
    assert world.status(job) == "RUNNING"
    world.obey()

    shown = world.describe(job)
    assert shown["status"] == "FAILED"
    assert shown["statusReason"] == "Job attempt duration exceeded timeout"
    assert shown["attempts"][0]["statusReason"] == "Job attempt duration exceeded timeout"
    assert shown["container"]["exitCode"] == 143


def test_a_timeout_counts_from_the_start_of_each_attempt(world: World) -> None:
    job = world.submit(retryStrategy={"attempts": 2}, timeout={"attemptDurationSeconds": 60})
    world.turn(100)
    world.begin(job)
    world.turn(50)
    world.end(job, 1)
    world.begin(job)
    world.turn(50)

    assert not world.engine.stops
    world.turn(10)
    assert len(world.engine.stops) == 1


def test_exit_code_zero_after_a_timeout_has_failed(world: World) -> None:
    job = world.submit(timeout={"attemptDurationSeconds": 60})
    world.begin(job)
    world.turn(60)
    world.end(job, 0)

    assert world.status(job) == "FAILED"


def test_grace_is_told_to_the_engine_in_real_seconds(world: World) -> None:
    world.clock.set_scale(60)
    job = world.submit(timeout={"attemptDurationSeconds": 60})
    world.begin(job)
    world.turn(60)

    assert world.engine.stops[0][1] == 0.5


def test_overrides_of_more_than_8192_characters_fail_the_job_for_good(world: World) -> None:
    environment = [{"name": "BIG", "value": "x" * 8200}]
    job = world.submit(
        containerOverrides={"environment": environment}, retryStrategy={"attempts": 5}
    )

    shown = world.describe(job)
    assert shown["status"] == "FAILED"
    assert shown["statusReason"] == "Container Overrides length must be at most 8192"
    assert len(shown["attempts"]) == 1
