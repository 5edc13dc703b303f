"""What is said to jobs that are stuck, when, and which of them a queue's time limits cancel."""

from __future__ import annotations

import pytest

from support.placing import MINUTE, World
from wherry.emulator.batch import reasons
from wherry.emulator.batch.placing import NodeNeed
from wherry.emulator.faults import Fault


def a_world(kind: str = "FARGATE", most: int = 4, limits=(), **machine) -> World:
    world = World(**machine)
    world.resources.add_environment("e", kind, most)
    world.resources.add_queue("q", "e", time_limits=list(limits))
    return world


def limit(reason: str, seconds: int = 600) -> dict:
    return {"reason": reason, "state": "RUNNABLE", "maxTimeSeconds": seconds, "action": "CANCEL"}


def test_a_head_that_can_never_fit_is_told_after_three_minutes():
    world = a_world()
    [job] = world.submit(vcpus=8, platforms=("FARGATE",))
    assert world.said() == {}

    world.now += 2.9 * MINUTE
    assert world.said() == {}
    world.now += 0.1 * MINUTE

    assert world.said() == {job: reasons.STUCK[reasons.MAX_RESOURCE]}
    assert world.said() == {}


def test_only_the_head_is_told():
    world = a_world()
    head, _ = world.submit(count=2, vcpus=8, platforms=("FARGATE",))
    world.place()
    world.now += 5 * MINUTE

    assert list(world.said()) == [head]


def test_a_head_that_waits_its_turn_is_told_nothing():
    world = a_world()
    world.submit(count=2, vcpus=4, platforms=("FARGATE",))
    world.place()
    world.now += 60 * MINUTE

    assert world.said() == {}
    assert world.placement.next_due(world.now) is None


def test_the_next_head_is_told_in_its_turn():
    world = a_world()
    first, second = world.submit(count=2, vcpus=8, platforms=("FARGATE",))
    world.place()
    world.now += 5 * MINUTE
    world.said()
    world.placement.remove(first)
    assert world.said() == {}
    world.now += 3 * MINUTE

    assert list(world.said()) == [second]


def test_a_reason_is_taken_back_when_it_no_longer_holds():
    world = a_world()
    running = world.submit(vcpus=4, platforms=("FARGATE",))
    world.place()
    [job] = world.submit(vcpus=8, platforms=("FARGATE",))
    world.place()
    world.now += 5 * MINUTE
    world.said()
    world.resources.add_environment("e", "FARGATE", 8)
    world.placement.changed()

    assert world.said() == {job: ""}
    assert running


def test_a_reason_is_taken_back_when_another_job_goes_to_the_front():
    world = a_world()
    world.submit(vcpus=4, platforms=("FARGATE",))
    world.place()
    [job] = world.submit(vcpus=8, platforms=("FARGATE",))
    world.place()
    world.now += 5 * MINUTE
    world.said()
    world.submit(vcpus=4, platforms=("FARGATE",), front=True)

    assert world.said() == {job: ""}


_CASES = {
    "more virtual CPUs than maxvCpus": ({}, {"vcpus": 8}, reasons.MAX_RESOURCE),
    "a platform that no environment has": ({}, {"platforms": ("EC2",)}, reasons.REQUIREMENT),
    "a GPU on Fargate": ({}, {"gpus": 1}, reasons.REQUIREMENT),
    "more than the machine has": (
        {"memory_mib": 1024, "hard": True},
        {"memory": 2048},
        reasons.CAPACITY,
    ),
}


@pytest.mark.parametrize("case", _CASES)
def test_the_reason_names_what_is_wrong(case):
    machine, asked, key = _CASES[case]
    world = a_world(**machine)
    [job] = world.submit(**{"platforms": ("FARGATE",), **asked})
    world.place()
    world.now += 3 * MINUTE

    assert world.said()[job].startswith(f"{key} - ")


def on_ec2(most: int, asked: dict, **resources) -> str:
    world = World(memory_mib=64 * 1024, hard=True)
    world.resources.add_environment("e", "EC2", most, resources=resources)
    world.resources.add_queue("q", "e")
    [job] = world.submit(**asked)
    world.place()
    world.now += 3 * MINUTE
    return world.said()[job]


_ON_EC2 = {
    "no type is large enough": (
        64,
        {"vcpus": 8},
        {"instanceTypes": ["m5.xlarge"]},
        reasons.REQUIREMENT,
    ),
    "more than maxvCpus, and than any type": (
        64,
        {"vcpus": 5000},
        {"instanceTypes": ["optimal"]},
        reasons.MAX_RESOURCE,
    ),
    "no type has a GPU": (64, {"gpus": 1}, {"instanceTypes": ["optimal"]}, reasons.REQUIREMENT),
    "the wrong architecture": (
        64,
        {"architecture": "ARM64"},
        {"instanceTypes": ["m5"]},
        reasons.REQUIREMENT,
    ),
    "no instance may be launched for a strict maximum": (
        2,
        {"vcpus": 1},
        {"instanceTypes": ["m5.xlarge"], "allocationStrategy": "BEST_FIT"},
        reasons.MAX_RESOURCE,
    ),
    "too many nodes": (
        4,
        {"nodes": (NodeNeed(4, 1, 128, 0),)},
        {"instanceTypes": ["m5.large"]},
        reasons.MAX_RESOURCE,
    ),
    "types that do not exist": (4, {}, {"instanceTypes": ["m5.enormous"]}, reasons.UNSUPPORTED),
}


@pytest.mark.parametrize("case", _ON_EC2)
def test_the_reason_on_instances_names_what_is_wrong(case):
    most, asked, resources, key = _ON_EC2[case]

    assert on_ec2(most, asked, **resources) == reasons.STUCK[key]


def test_insufficient_capacity_names_the_instance_type():
    said = on_ec2(64, {"memory": 65 * 1024}, instanceTypes=["r5.4xlarge"])

    assert said == (
        "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - Service cannot fulfill the capacity requested "
        "for instance type [r5.4xlarge]"
    )


def test_a_job_fits_as_long_as_one_environment_has_room():
    world = a_world(most=1)
    world.resources.add_environment("large", "FARGATE", 8)
    world.resources.add_queue("q", "e", "large")
    world.placement.changed()
    [job] = world.submit(vcpus=8, platforms=("FARGATE",))

    assert world.started() == [job]


@pytest.mark.parametrize(
    ("change", "key"),
    [({"status": "INVALID"}, reasons.INVALID), ({"state": "DISABLED"}, reasons.UNDETERMINED)],
)
def test_environments_that_take_no_jobs_are_told(change, key):
    world = World()
    world.resources.add_environment("e", "FARGATE", 4, **change)
    world.resources.add_queue("q", "e")
    [job] = world.submit(platforms=("FARGATE",))
    world.place()
    world.now += 3 * MINUTE

    assert world.said() == {job: reasons.STUCK[key]}


def test_a_consumable_that_there_is_not_enough_of_is_undetermined():
    world = a_world()
    token = world.resources.add_consumable("token", 1)
    [job] = world.submit(platforms=("FARGATE",), consumables=((token, 2),))
    world.place()
    world.now += 3 * MINUTE

    assert world.said() == {job: reasons.STUCK[reasons.UNDETERMINED]}


@pytest.mark.parametrize("key", reasons.STUCK)
def test_a_fault_can_say_each_of_the_documented_reasons(key):
    world = a_world()
    world.faults.add(Fault("stuck-runnable", value=key))
    [job] = world.submit(platforms=("FARGATE",))
    assert world.started() == []
    world.now += 3 * MINUTE

    said = world.said()[job]

    assert said.partition(" ")[0] == key
    if key != reasons.CAPACITY:
        assert said == reasons.STUCK[key]


def test_a_fault_without_a_value_is_undetermined():
    world = a_world()
    world.faults.add(Fault("stuck-runnable"))
    [job] = world.submit(platforms=("FARGATE",))
    world.place()
    world.now += 3 * MINUTE

    assert world.said() == {job: reasons.STUCK[reasons.UNDETERMINED]}


def test_the_head_of_a_fair_share_queue_is_told_though_others_start():
    world = World()
    world.resources.add_environment("e", "FARGATE", 4)
    arn = world.resources.add_policy()
    world.resources.add_queue("q", "e", scheduling_policy_arn=arn)
    [stuck] = world.submit(vcpus=8, platforms=("FARGATE",), share="a")
    [other] = world.submit(platforms=("FARGATE",), share="b")
    assert world.started() == [other]
    world.now += 3 * MINUTE

    assert list(world.said()) == [stuck]


# -- time limits ----------------------------------------------------------------------------------


def test_a_time_limit_cancels_a_head_that_has_been_stuck_for_its_reason():
    world = a_world(limits=[limit(reasons.MAX_RESOURCE, 600)])
    [job] = world.submit(vcpus=8, platforms=("FARGATE",))
    world.place()
    world.now += 599
    assert world.placement.overdue(world.now) == []
    world.now += 1

    words = (
        "Canceled by JobStateTimeLimit action due to reason: "
        "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE"
    )
    assert world.placement.overdue(world.now) == [(job, words)]
    world.placement.remove(job)
    assert world.placement.overdue(world.now) == []


def test_a_time_limit_for_another_reason_cancels_nothing():
    world = a_world(limits=[limit(reasons.REQUIREMENT)])
    world.submit(vcpus=8, platforms=("FARGATE",))
    world.place()
    world.now += 86_400

    assert world.placement.overdue(world.now) == []


@pytest.mark.parametrize("key", sorted(set(reasons.STUCK) - reasons.ACTIONABLE))
def test_reasons_that_are_not_actionable_cancel_nothing(key):
    world = a_world(limits=[limit(key)])
    world.faults.add(Fault("stuck-runnable", value=key))
    world.submit(platforms=("FARGATE",))
    world.place()
    world.now += 86_400

    assert world.placement.overdue(world.now) == []


def test_the_control_thread_is_told_when_to_look_again():
    world = a_world(limits=[limit(reasons.MAX_RESOURCE, 900)])
    world.submit(vcpus=8, platforms=("FARGATE",))
    world.place()
    begin = world.now

    assert world.placement.next_due(begin) == begin + reasons.DELAY
    assert world.placement.next_due(begin + reasons.DELAY) == begin + 900
    assert world.placement.next_due(begin + 900) is None


@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("UNDETERMINED", reasons.UNDETERMINED),
        ("job_resource_requirement", reasons.REQUIREMENT),
        (reasons.STUCK[reasons.CAPACITY], reasons.CAPACITY),
        ("what is this", reasons.UNDETERMINED),
    ],
)
def test_a_reason_may_be_called_by_its_key_its_last_part_or_its_text(word, key):
    assert reasons.key_of(word) == key
