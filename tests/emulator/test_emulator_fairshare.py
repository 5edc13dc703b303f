"""Fair shares: weights, decay, reservation, priorities within a share, and what does not block."""

from __future__ import annotations

from collections import Counter

import pytest

from support.placing import World
from wherry.emulator.batch import limits


def fair(most: int = 8, **policy) -> World:
    world = World()
    world.resources.add_environment("fargate", "FARGATE", most=most)
    arn = world.resources.add_policy(**policy)
    world.resources.add_queue("q", "fargate", scheduling_policy_arn=arn)
    return world


def submit(world: World, share: str, count: int = 1, **asked) -> list[str]:
    return world.submit(share=share, count=count, platforms=("FARGATE",), **asked)


def counts(world: World, shares: dict[str, list[str]]) -> Counter[str]:
    started = set(world.started())
    return Counter({name: len(started & set(jobs)) for name, jobs in shares.items()})


def test_shares_of_one_weight_get_the_same():
    world = fair()
    shares = {name: submit(world, name, 10) for name in ("a", "b")}

    assert counts(world, shares) == {"a": 4, "b": 4}


def test_a_share_with_a_lower_weight_gets_more():
    distribution = [
        {"shareIdentifier": "a", "weightFactor": 0.25},
        {"shareIdentifier": "b", "weightFactor": 1.0},
    ]
    world = fair(most=10, shareDistribution=distribution)
    shares = {name: submit(world, name, 20) for name in ("b", "a")}

    assert counts(world, shares) == {"a": 8, "b": 2}


def test_a_weight_holds_for_all_shares_with_a_prefix():
    world = fair(10, shareDistribution=[{"shareIdentifier": "team*", "weightFactor": 0.25}])
    shares = {name: submit(world, name, 20) for name in ("other", "teamA")}

    assert counts(world, shares) == {"teamA": 8, "other": 2}


def test_what_was_used_lately_counts_against_a_share():
    world = fair(most=2, shareDecaySeconds=3600)
    busy = submit(world, "busy", 2)
    world.place()
    world.now += 3 * 3600
    world.end(*busy)
    submit(world, "busy", 2)
    fresh = submit(world, "fresh", 2)

    assert world.started() == fresh


def test_what_was_used_long_ago_is_forgiven():
    world = fair(most=1, shareDecaySeconds=600)
    for share, seconds, idle in (("old", 6000, 60_000), ("recent", 300, 0)):
        jobs = submit(world, share)
        world.place()
        world.now += seconds
        world.end(*jobs)
        world.now += idle
    submit(world, "recent")
    due = submit(world, "old")

    assert world.started() == due


def test_higher_priority_goes_first_within_a_share():
    world = fair(most=1)
    submit(world, "a", priority=1)
    [urgent] = submit(world, "a", priority=9)

    assert world.started() == [urgent]


def test_priority_means_nothing_between_shares():
    world = fair(most=2)
    submit(world, "a", 2, priority=9)
    [humble] = submit(world, "b", priority=1)

    assert humble in world.started()


def test_priority_means_nothing_without_a_policy():
    world = World()
    world.resources.add_environment("fargate", "FARGATE", most=1)
    world.resources.add_queue("q", "fargate")
    [first] = submit(world, "", priority=1)
    submit(world, "", priority=9)

    assert world.started() == [first]


@pytest.mark.parametrize(("reservation", "started"), [(0, 8), (50, 4), (25, 6)])
def test_a_reservation_holds_capacity_for_shares_that_are_not_there(reservation, started):
    world = fair(most=8, computeReservation=reservation)
    submit(world, "a", 20)

    assert len(world.started()) == started


def test_the_reservation_shrinks_with_every_share_that_comes():
    world = fair(most=8, computeReservation=50)
    submit(world, "a", 20)
    world.place()
    newcomers = submit(world, "b", 20)

    assert world.started() == newcomers[:2]


def test_a_reservation_never_stops_a_queue_that_runs_nothing():
    world = fair(most=4, computeReservation=99)
    [job] = submit(world, "a", vcpus=4)

    assert world.started() == [job]


def test_a_job_that_can_never_fit_does_not_block_the_others():
    world = fair(most=4)
    submit(world, "a", vcpus=8)
    others = [*submit(world, "a"), *submit(world, "b")]

    assert sorted(world.started()) == sorted(others)


def test_a_job_set_aside_has_its_turn_when_it_can_fit_after_all():
    world = fair(most=4)
    [large] = submit(world, "a", vcpus=8)
    later = submit(world, "a", 6)
    world.end(*world.started())
    world.resources.add_environment("fargate", "FARGATE", most=8)
    world.placement.changed()

    assert world.started() == [large]
    assert later


def test_a_large_job_gets_its_turn():
    world = fair(most=4)
    small = submit(world, "a", 4)
    assert len(world.started()) == 4
    [large] = submit(world, "b", vcpus=4)
    submit(world, "a", 4)
    world.now += 60
    for job in small[:3]:
        world.end(job)
        assert world.started() == []
    world.end(small[3])

    assert world.started() == [large]


def test_a_job_that_waits_for_a_consumable_holds_up_its_share_alone():
    world = fair()
    token = world.resources.add_consumable("token", 0)
    submit(world, "a", consumables=((token, 1),))
    behind = submit(world, "a")
    [other] = submit(world, "b")

    assert world.started() == [other]
    assert behind


def test_a_retried_job_goes_first_in_its_share():
    world = fair(most=1)
    submit(world, "a", priority=9)
    [retried] = submit(world, "a", front=True)

    assert world.started() == [retried]


def test_shares_beyond_the_limit_wait_for_others_to_be_over():
    world = fair(most=10_000)
    jobs = [submit(world, f"s{number}")[0] for number in range(limits.SHARES + 1)]

    assert world.started() == jobs[:-1]
    world.end(jobs[0])
    assert world.started() == [jobs[-1]]


def test_a_policy_can_be_replaced():
    world = fair(most=10)
    world.resources.add_queue(
        "q",
        "fargate",
        scheduling_policy_arn=world.resources.add_policy(
            shareDistribution=[{"shareIdentifier": "a", "weightFactor": 0.25}]
        ),
    )
    world.placement.changed()
    shares = {name: submit(world, name, 20) for name in ("b", "a")}

    assert counts(world, shares) == {"a": 8, "b": 2}


def test_a_queue_that_gets_a_policy_keeps_its_jobs():
    world = World()
    world.resources.add_environment("fargate", "FARGATE", most=2)
    world.resources.add_queue("q", "fargate")
    jobs = submit(world, "a", 3)
    world.place()
    arn = world.resources.add_policy()
    world.resources.add_queue("q", "fargate", scheduling_policy_arn=arn)
    world.placement.changed()
    world.end(jobs[0])

    assert world.started() == [jobs[2]]
