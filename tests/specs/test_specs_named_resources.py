"""Named resources: generic sizes and AWS types; how much memory a host really offers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

import pytest

from wherry.errors import InvalidSpecError, UnknownNameError
from wherry.specs import Resource, named_resources, resource

EFA = "vpc.amazonaws.com/efa"
NEURON = "aws.amazon.com/neurondevice"
GIB = 1024


# -- lookup ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "cpu", "gpu", "mem"),
    [
        ("cpu.nano", 1, 0, 512),
        ("cpu.micro", 1, 0, 1 * GIB),
        ("cpu.small", 1, 0, 2 * GIB),
        ("cpu.medium", 2, 0, 4 * GIB),
        ("cpu.large", 2, 0, 8 * GIB),
        ("cpu.xlarge", 8, 0, 32 * GIB),
        ("gpu.small", 8, 1, 32 * GIB),
        ("gpu.medium", 16, 2, 64 * GIB),
        ("gpu.large", 32, 4, 128 * GIB),
        ("gpu.xlarge", 64, 8, 256 * GIB),
    ],
)
def test_generic_sizes(name: str, cpu: int, gpu: int, mem: int) -> None:
    assert named_resources[name] == Resource(cpu=cpu, gpu=gpu, memMB=mem)


# virtual CPUs, GiB, GPUs, EFA interfaces, Neuron devices, architecture: AWS EC2
# DescribeInstanceTypes
FACTS = {
    "t3.nano": (2, 0.5, 0, 0, 0, "x86_64"),
    "t4g.medium": (2, 4, 0, 0, 0, "arm64"),
    "m5.large": (2, 8, 0, 0, 0, "x86_64"),
    "m5.metal": (96, 384, 0, 0, 0, "x86_64"),
    "m6i.32xlarge": (128, 512, 0, 1, 0, "x86_64"),
    "m7i-flex.large": (2, 8, 0, 0, 0, "x86_64"),
    "m7i.metal-24xl": (96, 384, 0, 0, 0, "x86_64"),
    "m7a.medium": (1, 4, 0, 0, 0, "x86_64"),
    "m8i.96xlarge": (384, 1536, 0, 1, 0, "x86_64"),
    "m8g.48xlarge": (192, 768, 0, 1, 0, "arm64"),
    "c5.9xlarge": (36, 72, 0, 0, 0, "x86_64"),
    "c5n.large": (2, 5.25, 0, 0, 0, "x86_64"),
    "c6in.32xlarge": (128, 256, 0, 2, 0, "x86_64"),
    "c7g.16xlarge": (64, 128, 0, 1, 0, "arm64"),
    "c8gn.metal-48xl": (192, 384, 0, 2, 0, "arm64"),
    "r5.24xlarge": (96, 768, 0, 0, 0, "x86_64"),
    "r6g.metal": (64, 512, 0, 0, 0, "arm64"),
    "r7iz.metal-16xl": (64, 512, 0, 0, 0, "x86_64"),
    "x2idn.32xlarge": (128, 2048, 0, 1, 0, "x86_64"),
    "x2iedn.xlarge": (4, 128, 0, 0, 0, "x86_64"),
    "x2gd.medium": (1, 16, 0, 0, 0, "arm64"),
    "p3.2xlarge": (8, 61, 1, 0, 0, "x86_64"),
    "p3.16xlarge": (64, 488, 8, 0, 0, "x86_64"),
    "p3dn.24xlarge": (96, 768, 8, 1, 0, "x86_64"),
    "p4d.24xlarge": (96, 1152, 8, 4, 0, "x86_64"),
    "p4de.24xlarge": (96, 1152, 8, 4, 0, "x86_64"),
    "p5.4xlarge": (16, 256, 1, 1, 0, "x86_64"),
    "p5.48xlarge": (192, 2048, 8, 32, 0, "x86_64"),
    "p5en.48xlarge": (192, 2048, 8, 16, 0, "x86_64"),
    "p6-b200.48xlarge": (192, 2048, 8, 8, 0, "x86_64"),
    "g4dn.12xlarge": (48, 192, 4, 1, 0, "x86_64"),
    "g5.48xlarge": (192, 768, 8, 1, 0, "x86_64"),
    "g5g.16xlarge": (64, 128, 2, 0, 0, "arm64"),
    "g6e.48xlarge": (192, 1536, 8, 4, 0, "x86_64"),
    "gr6.8xlarge": (32, 256, 1, 1, 0, "x86_64"),
    "trn1.2xlarge": (8, 32, 0, 0, 1, "x86_64"),
    "trn1.32xlarge": (128, 512, 0, 8, 16, "x86_64"),
    "trn1n.32xlarge": (128, 512, 0, 16, 16, "x86_64"),
    "trn2.48xlarge": (192, 2048, 0, 16, 16, "x86_64"),
    "inf1.6xlarge": (24, 48, 0, 0, 4, "x86_64"),
    "inf2.24xlarge": (96, 384, 0, 0, 6, "x86_64"),
}


@pytest.mark.parametrize("name", FACTS)
def test_aws_types(name: str) -> None:
    cpu, gib, gpu, efa, neuron, arch = FACTS[name]

    found = named_resources[name]

    assert (found.cpu, found.gpu) == (cpu, gpu)
    assert found.capabilities == {"instance_type": name, "arch": arch}
    assert found.devices == {
        device: count for device, count in ((EFA, efa), (NEURON, neuron)) if count
    }
    assert gib * GIB * 0.64 < found.memMB < gib * GIB


def test_an_aws_type_goes_by_both_names() -> None:
    assert named_resources["aws_p4d.24xlarge"] == named_resources["p4d.24xlarge"]
    assert "aws_p4d.24xlarge" in named_resources
    assert "p4d.24xlarge" in named_resources


@pytest.mark.parametrize(
    "families",
    [
        "t3 m5 m6i m6a m7i m7a m8i c5 c6i c6a c7i c7a r5 r6i r7i r7a x2idn",
        "p3 p3dn p4d p4de p5 p5e p5en p6-b200 g4dn g5 g6 g6e gr6",
        "trn1 trn1n trn2 inf1 inf2",
        "t4g m6g m7g m8g c6g c7g c8g r6g r7g r8g g5g",
    ],
)
def test_the_families_of_today_are_there(families: str) -> None:
    there = {name.removeprefix("aws_").partition(".")[0] for name in named_resources}

    assert set(families.split()) <= there


def test_every_entry_is_a_resource_with_less_than_the_nominal_memory() -> None:
    names = list(named_resources)

    for name in names:
        found = named_resources[name]
        assert isinstance(found, Resource)
        assert found.cpu >= 1
        assert found.memMB >= 256
        if name.startswith("aws_"):
            assert found.capabilities["instance_type"] == name.removeprefix("aws_")
            assert found.capabilities["arch"] in {"x86_64", "arm64"}
            assert found.memMB % GIB != 0
    assert len(set(names)) == len(names) == len(named_resources)


def test_a_bigger_size_offers_more_memory() -> None:
    sizes = ["large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "12xlarge", "24xlarge", "48xlarge"]

    memory = [named_resources[f"c7a.{size}"].memMB for size in sizes]

    assert memory == sorted(memory)
    assert len(set(memory)) == len(memory)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gpu.smal", "did you mean 'gpu.small'?"),
        ("GPU.SMALL", "did you mean 'gpu.small'?"),
        ("p4d.24xlrage", "did you mean 'p4d.24xlarge'?"),
        ("aws_p4d.24xlrage", "did you mean 'aws_p4d.24xlarge'?"),
        ("aws_m5_large", "did you mean 'aws_m5.large'?"),
        ("m5.3xlarge", "did you mean 'm5."),
        ("m5", "gpu.xlarge, and EC2 instance types such as m5.large."),
        ("quantum", "cpu.xlarge, gpu.large"),
        ("", "known: cpu.large"),
    ],
)
def test_an_unknown_name_is_answered_with_what_there_is(name: str, hint: str) -> None:
    with pytest.raises(UnknownNameError) as refused:
        named_resources[name]

    assert f"unknown named resource {name!r}" in str(refused.value)
    assert hint in str(refused.value)
    assert name not in named_resources
    assert named_resources.get(name) is None


@pytest.mark.parametrize(
    "name", ["m5.", ".large", "m5.large ", "aws_aws_m5.large", "aws_gpu.small", "m5.large.x", "m5d"]
)
def test_what_is_nearly_a_name_is_none(name: str) -> None:
    assert name not in named_resources


def test_what_is_not_text_is_no_name() -> None:
    assert 5 not in named_resources
    with pytest.raises(UnknownNameError, match="'5'"):
        named_resources[5]  # type: ignore[index]


def test_it_is_a_mapping() -> None:
    assert isinstance(named_resources, Mapping)
    assert named_resources.get("gpu.small") == named_resources["gpu.small"]
    assert named_resources.get("quantum", 5) == 5
    assert dict(named_resources)["aws_m5.large"] == named_resources["m5.large"]


def test_the_catalogue_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        named_resources["gpu.small"] = Resource()  # type: ignore[index]
    with pytest.raises(TypeError):
        named_resources["p4d.24xlarge"].capabilities["arch"] = "arm64"  # type: ignore[index]


# -- memory ------------------------------------------------------------------------------------

# MiB advertised, and MiB that a running host reported less than that: measured on Amazon Linux 2
# (aws/karpenter-provider-aws, zz_generated.memory_overhead.go, commit 15e8769). The worst of each
# size, and types from every family that was measured.
KEPT = {
    "t3.nano": (512, 88.7),
    "t3.micro": (1024, 103.5),
    "t3.small": (2048, 131.0),
    "t4g.small": (2048, 196.7),
    "c6g.medium": (2048, 208.6),
    "m6g.medium": (4096, 295.5),
    "c5.large": (4096, 432.7),
    "c6a.large": (4096, 294.7),
    "c5n.large": (5376, 456.7),
    "m5.large": (8192, 558.7),
    "c5.xlarge": (8192, 559.2),
    "c5d.xlarge": (8192, 615.2),
    "c5n.xlarge": (10752, 663.2),
    "m5.xlarge": (16384, 867.2),
    "c5.2xlarge": (16384, 868.1),
    "r5.large": (16384, 698.7),
    "c5n.2xlarge": (21504, 1076.1),
    "r5.xlarge": (32768, 1147.2),
    "m6g.2xlarge": (32768, 1391.3),
    "c5.4xlarge": (32768, 1486.0),
    "c5n.4xlarge": (43008, 1902.0),
    "p3.2xlarge": (62464, 1197.6),
    "m5.4xlarge": (65536, 2718.0),
    "c5.9xlarge": (73728, 3520.6),
    "c5.12xlarge": (98304, 3907.4),
    "m5.8xlarge": (131072, 5089.7),
    "g5.8xlarge": (131072, 3635.7),
    "m6g.8xlarge": (131072, 5056.7),
    "c5.18xlarge": (147456, 6727.1),
    "c5n.18xlarge": (196608, 7495.1),
    "m5d.12xlarge": (196608, 7555.4),
    "p3.8xlarge": (249856, 4247.8),
    "m6g.16xlarge": (262144, 9975.9),
    "m5d.24xlarge": (393216, 14605.0),
    "p3.16xlarge": (499712, 7960.0),
    "m6a.32xlarge": (524288, 19168.5),
    "r7g.16xlarge": (524288, 17602.9),
    "g5.48xlarge": (786432, 20551.1),
    "m6a.48xlarge": (786432, 28647.4),
    "r6i.32xlarge": (1048576, 32696.4),
    "r6a.48xlarge": (1572864, 57071.7),
    "x2idn.32xlarge": (2097152, 49080.9),
    "x2iedn.32xlarge": (4194304, 81850.0),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_job_of_this_size_fits_the_host_and_wastes_little(name: str) -> None:
    advertised, kept = KEPT[name]

    asked = named_resources[name].memMB

    assert asked + 32 + 50 <= advertised - kept
    assert asked >= advertised * 0.64


@pytest.mark.parametrize(
    ("name", "registered"),
    [
        ("r6id.xlarge", 31_517),  # ASFHyP3/hyp3#1900
        ("r6id.4xlarge", 126_722),
        ("trn1.32xlarge", 507_821),  # meta-pytorch/torchx#795
        ("m6i.large", 7_817),  # aws/amazon-ecs-ami#597
    ],
)
def test_a_job_of_this_size_fits_what_ecs_registered(name: str, registered: int) -> None:
    assert registered * 0.94 < named_resources[name].memMB < registered


# -- resource() --------------------------------------------------------------------------------


def test_nothing_given_is_one_core_and_a_gibibyte() -> None:
    assert resource() == Resource(cpu=1, gpu=0, memMB=1024)


def test_each_number_has_its_own_default() -> None:
    assert resource(cpu=0.5) == Resource(cpu=0.5, gpu=0, memMB=1024)
    assert resource(gpu=2) == Resource(cpu=1, gpu=2, memMB=1024)
    assert resource(memMB=5) == Resource(cpu=1, gpu=0, memMB=5)


def test_zero_is_a_number() -> None:
    assert resource(cpu=0, gpu=0, memMB=0) == Resource()


def test_a_name_wins_over_the_numbers() -> None:
    assert resource(cpu=1, gpu=0, memMB=1, h="gpu.small") == named_resources["gpu.small"]


def test_a_bad_name_or_number_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean 'gpu\.small'"):
        resource(h="gpu.smal")
    with pytest.raises(UnknownNameError):
        resource(h="")
    with pytest.raises(InvalidSpecError, match=r"Resource\.memMB"):
        resource(memMB=-1)


# -- what is loaded ----------------------------------------------------------------------------


def loaded_after(statement: str) -> set[str]:
    script = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout))


def test_a_generic_name_loads_neither_the_aws_tables_nor_plug_ins() -> None:
    loaded = loaded_after("from wherry.specs import named_resources as r; r['gpu.small']")

    assert "wherry.specs.catalogue.generic" in loaded
    assert "wherry.specs.catalogue.aws" not in loaded
    assert "importlib.metadata" not in loaded


def test_an_aws_name_does_not_load_plug_ins() -> None:
    loaded = loaded_after("from wherry.specs import named_resources as r; r['aws_m5.large']")

    assert "wherry.specs.catalogue.aws" in loaded
    assert "importlib.metadata" not in loaded
