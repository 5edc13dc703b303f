"""Whether a request fits an environment: what is told, and how sure it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.aws import jobs
from wherry.aws.diagnosis import misfits
from wherry.aws.diagnosis.environments import Environment, advertised, hosts
from wherry.aws.diagnosis.fit import Kind, Need, Request, closest, obstacle, read_request
from wherry.specs.catalogue import aws
from wherry.specs.catalogue.aws_memory import offered
from wherry.specs.diagnosis import Certainty

SMALL = Environment("small", instance_types=("m5.large",), most=16)
GPU = Environment("gpu", instance_types=("g5.xlarge", "g5.12xlarge", "m5.24xlarge"), most=256)
FARGATE = Environment("fargate", kind="FARGATE", most=64)
SPOT = Environment("spot", kind="SPOT", instance_types=("optimal",), most=64)


def one(vcpus: float = 1, memory: int = 128, gpus: int = 0, **more: object) -> Request:
    return Request((Need(vcpus, memory, gpus),), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("request_", "environment", "kind"),
    [
        (one(), SMALL, None),
        (one(2, 7407), SMALL, None),
        (one(memory=7408), SMALL, Kind.TIGHT_MEMORY),
        (one(memory=8192), SMALL, Kind.TIGHT_MEMORY),
        (one(memory=8193), SMALL, Kind.MEMORY),
        (one(vcpus=3), SMALL, Kind.VCPUS),
        (one(gpus=1), SMALL, Kind.GPUS),
        (one(gpus=4), GPU, None),
        (one(gpus=5), GPU, Kind.GPUS),
        (one(architecture="ARM64"), SMALL, Kind.ARCHITECTURE),
        (one(platforms=("FARGATE",)), SMALL, Kind.PLATFORM),
        (one(vcpus=17), Environment("all", instance_types=("optimal",), most=16), Kind.MAX_VCPUS),
        (Request((Need(1, 128, count=2),), is_gang=True), SPOT, Kind.GANG),
        (Request((Need(2, 128, count=9),), is_gang=True), SMALL, Kind.MAX_VCPUS),
        (Request((Need(1, 128, instance_type="p4d"),)), SMALL, Kind.INSTANCE_TYPE),
        (Request((Need(1, 128, instance_type="m5.large"),)), SMALL, None),
        (one(1, 2048, platforms=("FARGATE",)), FARGATE, None),
        (one(1, 2000, platforms=("FARGATE",)), FARGATE, Kind.FARGATE_PAIR),
        (one(3, 2048, platforms=("FARGATE",)), FARGATE, Kind.FARGATE_PAIR),
        (one(1, 2048, 1, platforms=("FARGATE",)), FARGATE, Kind.FARGATE_GPU),
        (one(4, 8192, platforms=("FARGATE",)), replace(FARGATE, most=2), Kind.MAX_VCPUS),
    ],
)
def test_what_is_in_the_way(request_: Request, environment: Environment, kind: Kind | None) -> None:
    found = obstacle(request_, environment)

    assert (found and found.kind) == kind


def test_memory_of_many_gpus_is_compared_with_hosts_that_have_them() -> None:
    found = obstacle(one(memory=300_000, gpus=4), GPU)

    assert found is not None
    assert found.kind is Kind.MEMORY
    assert found.where == "g5.12xlarge"


def test_between_what_a_host_offers_and_what_it_is_said_to_have_nothing_is_certain() -> None:
    tight = obstacle(one(memory=7800), SMALL)
    whole = obstacle(one(memory=8192), SMALL)

    assert tight is not None
    assert misfits.finding(tight).certainty is Certainty.LIKELY
    assert whole is not None
    assert misfits.finding(whole).certainty is Certainty.CERTAIN


def test_a_type_that_is_not_in_the_tables_is_never_called_too_small() -> None:
    unknown = replace(SMALL, instance_types=("z99.metal",))
    mixed = replace(SMALL, instance_types=("m5.large", "z99.metal"))

    assert obstacle(one(memory=500_000), unknown) is None
    found = obstacle(one(memory=500_000), mixed)
    assert found is not None
    assert not found.is_certain


@pytest.mark.parametrize(
    "environment", [replace(SMALL, is_managed=False), replace(SMALL, is_eks=True)]
)
def test_hosts_of_the_user_s_own_are_not_judged(environment: Environment) -> None:
    assert obstacle(one(memory=500_000), environment) is None


def test_instances_that_are_launched_for_a_gang_count_whole() -> None:
    strict = Environment("big", instance_types=("m5.4xlarge",), most=24, strategy="BEST_FIT")
    loose = replace(strict, strategy="BEST_FIT_PROGRESSIVE")
    pair = Request((Need(1, 128, count=2),), is_gang=True)

    found = obstacle(pair, strict)

    assert found is not None
    assert found.kind is Kind.MAX_VCPUS
    assert obstacle(pair, loose) is None


def test_of_several_environments_the_closest_is_told() -> None:
    request = one(memory=9000)
    found = [obstacle(request, one_) for one_ in (FARGATE, SMALL)]

    assert closest(each for each in found if each).kind is Kind.MEMORY


def test_bundles_and_families_stand_for_their_types() -> None:
    known, unknown = hosts(["optimal", "p4d", "m7g.large", "nothing.large"])

    names = {host.name for host in known}
    assert {"m6i.large", "p4d.24xlarge", "m7g.large"} <= names
    assert unknown == ["nothing.large"]


@given(st.sampled_from(list(aws.instance_types())))
def test_the_memory_that_a_type_is_said_to_have_is_found_again(name: str) -> None:
    known = aws.find(name)
    assert known is not None

    assert offered(advertised(known.memMB)) == known.memMB


def test_containers_of_a_job_are_counted_together() -> None:
    containers = [
        {"name": name, "image": "a", "resourceRequirements": wants}
        for name, wants in (
            ("main", [{"type": "VCPU", "value": "2"}, {"type": "MEMORY", "value": "1000"}]),
            ("side", [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "24"}]),
        )
    ]
    document = {"jobId": "x", "ecsProperties": {"taskProperties": [{"containers": containers}]}}

    assert read_request(jobs.view(document)).needs == (Need(3, 1024),)


def test_node_groups_are_laid_over_one_another() -> None:
    def of(target: str, vcpus: str) -> dict[str, object]:
        wants = [{"type": "VCPU", "value": vcpus}, {"type": "MEMORY", "value": "128"}]
        return {"targetNodes": target, "container": {"image": "a", "resourceRequirements": wants}}

    nodes = {"numNodes": 4, "mainNode": 1, "nodeRangeProperties": [of("0:", "1"), of("1", "4")]}
    request = read_request(jobs.view({"jobId": "x", "nodeProperties": nodes}))

    assert request.needs == (Need(4, 128), Need(1, 128, count=3))
    assert request.is_gang
    assert request.vcpus == 7


@pytest.mark.parametrize("kind", list(Kind), ids=lambda kind: kind.value)
def test_each_obstacle_has_words(kind: Kind) -> None:
    from wherry.aws.diagnosis.fit import Obstacle

    finding = misfits.finding(Obstacle(kind, "env", "much", "little", "host"))

    assert finding.code == kind.value
    assert "{" not in finding.summary + finding.detail + finding.resolution
    assert finding.resolution
