"""Where jobs go: capacity, queues, environments, gangs, consumable resources, the machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.placing import MINUTE, World, job, queue_arn
from wherry.emulator.batch.placing import NodeNeed
from wherry.emulator.faults import Fault


@pytest.fixture
def world() -> World:
    """A queue over Fargate with four virtual CPUs."""
    world = World()
    world.resources.add_environment("fargate", "FARGATE", most=4)
    world.resources.add_queue("q", "fargate")
    return world


def fargate(world: World, **asked):
    return world.submit(platforms=("FARGATE",), **asked)


def test_jobs_start_in_the_order_of_their_coming_as_far_as_there_is_room(world):
    first, second, third = fargate(world, count=3, vcpus=2)

    assert world.started() == [first, second]
    world.end(first)
    assert world.started() == [third]


def test_a_task_on_fargate_has_no_instance(world):
    fargate(world)

    [placed] = world.place()

    [place] = placed.places
    assert (place.environment_name, place.instance_id, place.instance_arn) == ("fargate", "", "")
    assert place.cluster_arn.endswith(":cluster/AWSBatch-fargate")


def test_the_head_of_a_fifo_queue_holds_up_those_behind_it(world):
    large, small = [*fargate(world, vcpus=3), *fargate(world, vcpus=1)]
    running = fargate(world, vcpus=0.25)
    world.placement.remove(large)
    assert world.started() == [small, *running]

    [large], [behind] = fargate(world, vcpus=4), fargate(world, vcpus=0.25)

    assert world.started() == []
    world.end(small, *running)
    assert world.started() == [large]
    world.end(large)
    assert world.started() == [behind]


def test_a_job_that_is_retried_goes_before_all_others(world):
    world.submit(platforms=("FARGATE",), vcpus=4, count=2)
    world.place()
    [retried] = fargate(world, vcpus=4, front=True)
    world.end("j1")

    assert world.started() == [retried]


def test_nothing_is_placed_for_a_job_that_was_taken_out(world):
    [gone], [kept] = fargate(world), fargate(world)
    world.placement.remove(gone)
    world.placement.remove("nobody")

    assert world.started() == [kept]


def test_a_release_of_an_unknown_job_changes_nothing(world):
    fargate(world, vcpus=4)
    world.place()
    world.end("nobody")
    fargate(world)

    assert world.started() == []


def test_the_queue_with_the_higher_priority_is_served_first(world):
    world.resources.add_queue("urgent", "fargate", priority=10)
    world.placement.changed()
    world.submit("q", platforms=("FARGATE",), vcpus=4)
    [urgent] = world.submit("urgent", platforms=("FARGATE",), vcpus=4)

    assert world.started() == [urgent]


def test_a_low_queue_takes_no_room_for_which_a_high_one_waits(world):
    world.resources.add_queue("urgent", "fargate", priority=10)
    world.placement.changed()
    [running] = world.submit("q", platforms=("FARGATE",), vcpus=1)
    world.place()
    [large] = world.submit("urgent", platforms=("FARGATE",), vcpus=4)
    world.submit("q", platforms=("FARGATE",), vcpus=1)

    assert world.started() == []
    world.end(running)
    assert world.started() == [large]


def test_queues_of_one_priority_take_turns(world):
    world.resources.add_queue("p", "fargate")
    world.placement.changed()
    world.submit("q", platforms=("FARGATE",), count=4)
    others = world.submit("p", platforms=("FARGATE",), count=4)

    started = world.started()

    assert len(started) == 4
    assert len(set(started) & set(others)) == 2


def test_environments_are_tried_in_the_order_of_the_queue(world):
    world.resources.add_environment("second", "FARGATE", most=4)
    world.resources.add_queue("q", "fargate", "second")
    world.placement.changed()
    fargate(world, count=3, vcpus=2)

    names = [placed.places[0].environment_name for placed in world.place()]

    assert names == ["fargate", "fargate", "second"]


@pytest.mark.parametrize("change", [{"state": "DISABLED"}, {"status": "INVALID"}])
def test_an_environment_that_is_not_open_takes_no_new_jobs(world, change):
    [running] = fargate(world)
    assert world.started() == [running]
    environment = world.resources.add_environment("fargate", "FARGATE", most=4, **change)
    world.placement.changed()
    [waiting] = fargate(world)
    assert world.started() == []

    environment.state, environment.status = "ENABLED", "VALID"
    world.placement.changed()

    assert world.started() == [waiting]


def test_a_disabled_queue_goes_on_with_the_jobs_it_has(world):
    world.resources.add_queue("q", "fargate", state="DISABLED")
    world.placement.changed()
    [waiting] = fargate(world)

    assert world.started() == [waiting]


def test_more_capacity_lets_waiting_jobs_start(world):
    world.submit(platforms=("FARGATE",), vcpus=4, count=2)
    assert len(world.started()) == 1
    world.resources.add_environment("fargate", "FARGATE", most=8)
    world.placement.changed()

    assert len(world.started()) == 1


def test_a_definition_for_ec2_does_not_run_on_fargate(world):
    world.submit(platforms=("EC2",))

    assert world.started() == []


def test_an_unmanaged_environment_is_as_big_as_the_machine():
    world = World(vcpus=3)
    world.resources.add_environment("own", type="UNMANAGED", resources={"maxvCpus": 0})
    world.resources.add_queue("q", "own")
    world.submit(count=4)

    placed = world.place()

    assert len(placed) == 3
    assert len({each.places[0].instance_id for each in placed}) == 1


def test_a_queue_that_is_gone_takes_its_waiting_jobs_with_it(world):
    fargate(world)
    world.resources.drop_queue("q")
    world.placement.changed()

    assert world.started() == []


# -- the machine ----------------------------------------------------------------------------------


def test_all_environments_together_use_no_more_than_the_machine():
    world = World(vcpus=2)
    for name in ("a", "b"):
        world.resources.add_environment(name, "FARGATE", most=4)
        world.resources.add_queue(name, name)
        world.submit(name, platforms=("FARGATE",), count=2)

    assert len(world.started()) == 2


def test_a_job_that_is_larger_than_the_machine_runs_alone():
    world = World(vcpus=2)
    world.resources.add_environment("fargate", "FARGATE", most=16)
    world.resources.add_queue("q", "fargate")
    small, large, after = [*fargate(world), *fargate(world, vcpus=8), *fargate(world)]

    assert world.started() == [small]
    world.end(small)
    assert world.started() == [large]
    world.end(large)
    assert world.started() == [after]


def test_a_large_job_is_not_starved_by_small_ones_of_another_queue():
    world = World(vcpus=2)
    world.resources.add_environment("fargate", "FARGATE", most=16)
    for name in ("a", "b"):
        world.resources.add_queue(name, "fargate")
    small = world.submit("a", platforms=("FARGATE",), count=6)
    [large] = world.submit("b", platforms=("FARGATE",), vcpus=8)

    started = world.started()
    order = list(started)
    for _ in range(20):
        if not started:
            break
        world.end(started.pop(0))
        fresh = world.started()
        started += fresh
        order += fresh

    assert order.index(large) < len(small)


def test_a_hard_bound_keeps_what_is_larger_waiting_for_ever():
    world = World(memory_mib=1024, hard=True)
    world.resources.add_environment("fargate", "FARGATE", most=16)
    world.resources.add_queue("q", "fargate")
    fargate(world, memory=2048)

    assert world.started() == []


# -- gangs ----------------------------------------------------------------------------------------


@pytest.fixture
def hosts() -> World:
    """A queue over instances of two virtual CPUs, eight in all."""
    world = World()
    world.resources.add_environment("ec2", most=8, resources={"instanceTypes": ["m5.large"]})
    world.resources.add_queue("q", "ec2")
    return world


def test_all_nodes_are_placed_at_once_each_on_an_instance_of_its_own(hosts):
    hosts.submit(nodes=(NodeNeed(3, 1, 128, 0),))

    [placed] = hosts.place()

    assert len({place.instance_id for place in placed.places}) == 3


def test_no_node_is_placed_while_there_is_no_room_for_all(hosts):
    running = hosts.submit(count=2, vcpus=2)
    hosts.place()
    [gang] = hosts.submit(nodes=(NodeNeed(4, 1, 128, 0),))

    assert hosts.started() == []
    hosts.end(running[0])
    assert hosts.started() == []
    hosts.end(running[1])
    assert hosts.started() == [gang]


def test_nothing_else_is_put_on_an_instance_of_a_node(hosts):
    [gang] = hosts.submit(nodes=(NodeNeed(4, 1, 128, 0),))
    hosts.submit()

    assert hosts.started() == [gang]


def test_groups_of_nodes_may_want_different_instances():
    world = World()
    types = {"instanceTypes": ["m5.large", "c5.xlarge"]}
    world.resources.add_environment("ec2", most=64, resources=types)
    world.resources.add_queue("q", "ec2")
    world.submit(nodes=(NodeNeed(1, 1, 128, 0, "c5.xlarge"), NodeNeed(2, 1, 128, 0, "m5.large")))

    [placed] = world.place()

    kinds = [place.instance_type for place in placed.places]
    assert kinds == ["c5.xlarge", "m5.large", "m5.large"]


@pytest.mark.parametrize("kind", ["SPOT", "FARGATE", "UNMANAGED"])
def test_gangs_run_only_on_managed_instances_on_demand(kind):
    world = World()
    type_ = "UNMANAGED" if kind == "UNMANAGED" else "MANAGED"
    world.resources.add_environment("e", kind, most=64, type=type_)
    world.resources.add_queue("q", "e")
    world.submit(nodes=(NodeNeed(2, 1, 128, 0),), platforms=("EC2", "FARGATE"))

    assert world.started() == []


# -- consumable resources -------------------------------------------------------------------------


def test_a_job_waits_until_its_consumable_resource_is_free(world):
    token = world.resources.add_consumable("token", 2)
    first, second = fargate(world, count=2, consumables=((token, 2),))

    assert world.started() == [first]
    assert world.resources.consumable(token).in_use == 2
    world.end(first)
    assert world.started() == [second]


def test_what_is_not_replenishable_does_not_come_back(world):
    token = world.resources.add_consumable("credit", 1, "NON_REPLENISHABLE")
    first, _ = fargate(world, count=2, consumables=((token, 1),))
    assert world.started() == [first]

    world.end(first)

    assert world.started() == []
    assert world.resources.consumable(token).in_use == 1
    assert world.resources.kept == [("credit", 1)]


def test_a_job_waits_for_a_consumable_resource_that_was_deleted(world):
    token = world.resources.add_consumable("token", 1)
    world.resources.drop_consumable(token)
    fargate(world, consumables=((token, 1),))

    assert world.started() == []


# -- faults ---------------------------------------------------------------------------------------


def test_a_stuck_job_starts_when_the_fault_is_taken_away(world):
    number = world.faults.add(Fault("stuck-runnable", job="stuck*"))
    [stuck] = fargate(world, name="stuck-1")
    assert world.started() == []
    due = world.placement.next_due(world.now)
    assert due is not None
    assert due < world.now + MINUTE

    world.faults.remove(number)

    assert world.started() == [stuck]
    assert world.placement.next_due(world.now) is None


def test_a_fault_that_strikes_once_keeps_one_job_stuck(world):
    world.faults.add(Fault("stuck-runnable", times=1))
    first, second = fargate(world, count=2)
    assert world.started() == []
    world.now += 10 * MINUTE
    assert world.started() == []

    world.placement.remove(first)

    assert world.started() == [second]


# -- whatever happens -----------------------------------------------------------------------------

_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from([0.25, 1, 2, 4, 9]), st.booleans()),
        st.tuples(st.just("end"), st.integers(0, 9), st.none()),
        st.tuples(st.just("remove"), st.integers(0, 9), st.none()),
        st.tuples(st.just("reclaim"), st.integers(0, 9), st.none()),
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=60)
@given(_STEPS, st.sampled_from(["", "fair"]))
def test_nobody_is_lost_started_twice_or_put_where_there_is_no_room(steps, kind):
    world = World(vcpus=12)
    policy = world.resources.add_policy(shareDistribution=[]) if kind else ""
    world.resources.add_environment("ec2", most=4, resources={"instanceTypes": ["m5", "c5"]})
    world.resources.add_environment("spot", "SPOT", most=4)
    world.resources.add_queue("q", "ec2", "spot", scheduling_policy_arn=policy)
    needs: dict[str, float] = {}
    waiting: set[str] = set()
    running: dict[str, str] = {}
    for step, value, front in steps:
        if step == "add":
            [job_id] = world.submit(vcpus=value, front=bool(front), share="s" if kind else "")
            needs[job_id] = value
            waiting.add(job_id)
        elif step == "end" and running:
            job_id = sorted(running)[value % len(running)]
            world.end(job_id)
            del running[job_id]
        elif step == "remove" and waiting:
            job_id = sorted(waiting)[value % len(waiting)]
            world.placement.remove(job_id)
            waiting.remove(job_id)
        elif step == "reclaim" and running:
            instance = sorted(running.values())[value % len(running)]
            hit = world.jobs_on(instance)
            assert set(hit) == {each for each, where in running.items() if where == instance}
            world.placement.drop_instance(instance)
            assert world.jobs_on(instance) == []
            for job_id in hit:
                world.end(job_id)
                del running[job_id]
        for placed in world.place():
            assert placed.job_id in waiting
            waiting.remove(placed.job_id)
            running[placed.job_id] = placed.places[0].instance_id
        assert sum(needs[job_id] for job_id in running) <= 12
        assert not any(needs[job_id] == 9 for job_id in running)
    for job_id in [*running]:
        world.end(job_id)
    for job_id in waiting:
        world.placement.remove(job_id)
    world.place()
    assert world.placement.instances() == []
    assert world.placement.snapshot(queue_arn("q"), world.now)["frontOfQueue"]["jobs"] == []


def test_what_waits_is_not_changed_by_placing(world):
    given_ = job("x", platforms=("FARGATE",))
    copy = replace(given_)
    world.placement.add(given_)
    world.place()

    assert given_ == copy
