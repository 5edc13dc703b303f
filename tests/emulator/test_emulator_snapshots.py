"""GetJobQueueSnapshot: who is next, since when, and how much is used."""

from __future__ import annotations

import botocore.session
from botocore.validate import ParamValidator
from hypothesis import given
from hypothesis import strategies as st

from support.placing import World, queue_arn
from wherry.emulator.batch.snapshots import Moves


def a_world(most: int = 1, **policy) -> World:
    world = World()
    world.resources.add_environment("e", "FARGATE", most)
    arn = world.resources.add_policy(**policy) if policy else ""
    world.resources.add_queue("q", "e", scheduling_policy_arn=arn)
    return world


def submit(world: World, count: int = 1, **asked) -> list[str]:
    return world.submit(count=count, platforms=("FARGATE",), **asked)


def snapshot(world: World) -> dict:
    return world.placement.snapshot(queue_arn("q"), world.now)


def front(world: World) -> list[tuple[str, int]]:
    jobs = snapshot(world)["frontOfQueue"]["jobs"]
    return [(job["jobArn"].rpartition("/")[2], job["earliestTimeAtPosition"]) for job in jobs]


def names(world: World) -> list[str]:
    return [name for name, _ in front(world)]


def test_the_first_hundred_jobs_are_shown_in_their_order():
    world = a_world()
    jobs = submit(world, 150)
    world.place()

    assert names(world) == jobs[1:101]


def test_an_empty_queue_has_an_empty_front():
    world = a_world()

    assert snapshot(world)["frontOfQueue"] == {"jobs": [], "lastUpdatedAt": 1_000_000}


def test_a_job_is_at_its_place_since_the_last_one_before_it_left():
    world = a_world()
    first, second, third, fourth = submit(world, 4)
    world.now += 10
    world.place()
    assert front(world) == [(each, 1_010_000) for each in (second, third, fourth)]

    world.now += 10
    world.place()
    world.placement.remove(third)

    assert front(world) == [(second, 1_010_000), (fourth, 1_020_000)]
    assert first


def test_a_retried_job_is_shown_first_and_moves_the_others():
    world = a_world()
    submit(world)
    world.place()
    [waiting] = submit(world)
    world.now += 5
    [retried] = submit(world, front=True)

    assert front(world) == [(retried, 1_005_000), (waiting, 1_005_000)]


def test_shares_take_turns_in_the_order_in_which_they_would_start():
    world = a_world(shareDistribution=[{"shareIdentifier": "a", "weightFactor": 0.5}])
    submit(world, vcpus=1, share="z")
    world.place()
    a = submit(world, 4, share="a")
    b = submit(world, 2, share="b")

    assert names(world) == [a[0], b[0], a[1], a[2], b[1], a[3]]


def test_a_job_that_can_never_start_is_shown_at_the_head():
    world = a_world(shareDistribution=[])
    submit(world, share="a")
    world.place()
    submit(world, share="a")
    [stuck] = submit(world, share="b", vcpus=9)
    world.end("j1")
    world.place()

    assert names(world)[0] == stuck


def test_usage_is_shown_by_share():
    world = a_world(most=8, shareDistribution=[])
    submit(world, 3, share="a", vcpus=2)
    submit(world, 1, share="b", vcpus=1)
    world.place()

    usage = snapshot(world)["queueUtilization"]

    assert usage["totalCapacityUsage"] == [{"capacityUnit": "VCPU", "quantity": 7}]
    shares = usage["fairshareUtilization"]
    assert shares["activeShareCount"] == 2
    assert [each["shareIdentifier"] for each in shares["topCapacityUtilization"]] == ["a", "b"]


def test_the_answer_has_the_shape_of_the_api():
    world = a_world(most=8, shareDistribution=[])
    submit(world, 20, share="a")
    world.place()
    model = botocore.session.get_session().get_service_model("batch")
    shape = model.operation_model("GetJobQueueSnapshot").output_shape

    answer = snapshot(world)

    assert set(answer) <= set(shape.members)
    assert not ParamValidator().validate(answer, shape).has_errors()


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5)), max_size=30),
    st.integers(0, 20),
)
def test_a_job_moved_when_the_last_of_those_before_it_did(steps, number):
    moves, time, last = Moves(), 0, 0
    for which, later in steps:
        time += later
        moves.note(which, time)
        if which < number:
            last = time

    assert moves.since(number, 0) == last
