"""Virtual EC2 instances: which type, how full, how many, and how they go."""

from __future__ import annotations

import re

import pytest

from support.placing import World
from wherry.emulator.batch.instances import host_types
from wherry.emulator.batch.placing import NodeNeed


def ec2(most: int = 256, kind: str = "EC2", **resources) -> World:
    world = World()
    world.resources.add_environment("ec2", kind, most, resources=resources)
    world.resources.add_queue("q", "ec2")
    return world


def types_started(world: World) -> list[str]:
    return [placed.places[0].instance_type for placed in world.place()]


def test_the_smallest_instance_that_fits_is_launched():
    world = ec2(instanceTypes=["m5"])
    world.submit(vcpus=3)

    assert types_started(world) == ["m5.xlarge"]


def test_memory_that_the_host_keeps_for_itself_does_not_count():
    world = ec2(instanceTypes=["m5.large", "m5.xlarge"])
    world.submit(vcpus=1, memory=8192)

    assert types_started(world) == ["m5.xlarge"]


def test_jobs_share_an_instance_while_it_has_room():
    world = ec2(instanceTypes=["m5.xlarge"])
    world.submit(count=5)

    instances = [placed.places[0].instance_id for placed in world.place()]

    assert len(set(instances[:4])) == 1
    assert instances[4] != instances[0]


def test_room_that_comes_free_is_used_again():
    world = ec2(most=4, instanceTypes=["m5.xlarge"])
    world.submit(count=4)
    [host] = {placed.places[0].instance_id for placed in world.place()}
    world.end("j2")
    world.submit()

    [placed] = world.place()

    assert placed.places[0].instance_id == host


def test_ids_and_arns_look_like_those_of_aws():
    world = ec2()
    world.submit()

    [placed] = world.place()

    [place] = placed.places
    assert re.fullmatch(r"i-[0-9a-f]{17}", place.instance_id)
    pattern = r"arn:aws:ecs:us-east-1:123456789012:container-instance/AWSBatch-ec2/[0-9a-f]{32}"
    assert re.fullmatch(pattern, place.instance_arn)


def test_maxvcpus_counts_instances_not_jobs():
    world = ec2(most=4, instanceTypes=["m5.large"])
    world.submit(count=3, memory=6000)

    assert len(world.started()) == 2


@pytest.mark.parametrize(
    ("kind", "strategy", "instances"),
    [
        ("EC2", "BEST_FIT", 1),
        ("EC2", "BEST_FIT_PROGRESSIVE", 2),
        ("SPOT", "SPOT_PRICE_CAPACITY_OPTIMIZED", 2),
        ("SPOT", "BEST_FIT", 2),
    ],
)
def test_maxvcpus_is_exceeded_by_one_instance_unless_best_fit_on_demand(kind, strategy, instances):
    world = ec2(6, kind, instanceTypes=["m5.xlarge"], allocationStrategy=strategy)
    world.submit(count=12)
    world.place()

    assert len(world.placement.instances()) == instances


def test_empty_instances_go_as_far_as_minvcpus_allows():
    world = ec2(instanceTypes=["m5.large"], minvCpus=2)
    world.submit(count=6)
    world.end(*world.started())

    world.place()

    assert len(world.placement.instances()) == 1


def test_an_idle_instance_makes_way_for_one_that_a_job_needs():
    world = ec2(4, instanceTypes=["m5.large", "m5.xlarge"], minvCpus=4)
    world.submit(count=4)
    world.end(*world.started())
    world.place()
    world.submit(vcpus=4)

    assert types_started(world) == ["m5.xlarge"]


def test_a_reclaim_finds_all_jobs_of_an_instance():
    world = ec2(instanceTypes=["m5.xlarge"])
    world.submit(count=6)
    placed = world.place()
    host = placed[0].places[0].instance_id

    assert world.jobs_on(host) == ["j1", "j2", "j3", "j4"]
    assert world.jobs_on("i-00000000000000000") == []


def test_nothing_is_placed_on_an_instance_that_is_gone():
    world = ec2(instanceTypes=["m5.xlarge"])
    world.submit()
    [placed] = world.place()
    host = placed.places[0].instance_id
    world.placement.drop_instance(host)
    world.submit()
    world.end("j1")

    [again] = world.place()

    assert again.places[0].instance_id != host


def test_gpus_are_given_out_once():
    world = ec2(4, instanceTypes=["g5.xlarge"], allocationStrategy="BEST_FIT")
    world.submit(count=2, gpus=1)

    assert world.started() == ["j1"]


def test_hosts_with_gpus_are_the_last_choice_for_jobs_without():
    world = ec2(instanceTypes=["g5.xlarge", "m5.2xlarge"])
    world.submit()

    assert types_started(world) == ["m5.2xlarge"]


@pytest.mark.parametrize(
    ("architecture", "type_"), [("ARM64", "m6g.large"), ("X86_64", "m5.large"), ("", "m5.large")]
)
def test_the_architecture_of_the_definition_is_kept(architecture, type_):
    world = ec2(instanceTypes=["m5.large", "m6g.large"])
    world.submit(architecture=architecture)

    assert types_started(world) == [type_]


def test_ordered_strategies_take_the_first_of_the_list():
    world = ec2(
        instanceTypes=["m5.4xlarge", "m5.large"], allocationStrategy="BEST_FIT_PROGRESSIVE_ORDERED"
    )
    world.submit()

    assert types_started(world) == ["m5.4xlarge"]


@pytest.mark.parametrize(
    ("word", "families"),
    [
        ("optimal", {"m6i", "c6i", "r6i", "c7i"}),
        ("default_x86_64", {"m6i", "c6i", "r6i", "c7i"}),
        ("default_arm64", {"m6g", "c6g", "r6g", "c7g"}),
        ("m5", {"m5"}),
    ],
)
def test_a_word_stands_for_families(word, families):
    hosts = host_types((word,))

    assert {host.name.partition(".")[0] for host in hosts} == families
    assert not any(".metal" in host.name for host in hosts)


def test_a_type_that_nobody_lists_is_judged_by_its_size():
    [host] = host_types(("i3.4xlarge",))

    assert (host.vcpus, host.architecture) == (16, "X86_64")
    assert 32_000 < host.memory_mib < 65_536


def test_a_word_that_is_no_type_stands_for_nothing():
    assert host_types(("m5.enormous",)) == ()


def test_a_node_finds_only_the_type_that_it_asks_for():
    world = ec2(instanceTypes=["m5", "c5"])
    world.submit(nodes=(NodeNeed(2, 1, 128, 0, "c5.2xlarge"),))

    [placed] = world.place()

    assert {place.instance_type for place in placed.places} == {"c5.2xlarge"}
