"""AWS EC2 instance types, as what one container can ask of an otherwise empty host.

Virtual CPUs, memory, GPUs, EFA interfaces and Neuron devices are those of AWS EC2
``DescribeInstanceTypes`` in 2026 (for the P3 family, which is no longer listed there, in 2024); how
much of the memory is left for a container is in `wherry.specs.catalogue.aws_memory`. The EFA
interfaces are the most that a type can have; a host has those that its launch template asks for.

Left out: types whose accelerators are not NVIDIA GPUs or Neuron devices (``g4ad``, ``dl1``),
parts of a GPU (``g6f``), Mac and storage families.
"""

from __future__ import annotations

from wherry.specs.catalogue.aws_memory import offered
from wherry.specs.resources import Resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

EFA = "vpc.amazonaws.com/efa"
NEURON = "aws.amazon.com/neurondevice"

X86, ARM = "x86_64", "arm64"

_TO_12 = "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge"
_TO_16 = f"{_TO_12} 16xlarge"
_TO_24 = f"{_TO_16} 24xlarge"
_TO_32 = f"{_TO_24} 32xlarge"

# Families that grow by a rule: so many GiB for each virtual CPU, and four virtual CPUs for each
# "x" of "xlarge". A size may add ":virtual CPUs" where its name does not tell, and
# "/EFA interfaces" where it has any.
_REGULAR = (
    (X86, "m5 m5d r5 r5d", f"{_TO_24} metal:96"),
    (X86, "c5a m5a r5a", _TO_24),
    (X86, "c5 c5d", "large xlarge 2xlarge 4xlarge 9xlarge 12xlarge 18xlarge 24xlarge metal:96"),
    (X86, "m5n r5n", f"{_TO_16} 24xlarge/1 metal:96/1"),
    (X86, "c6i c6id m6i m6id r6i r6id", f"{_TO_24} 32xlarge/1 metal:128/1"),
    (X86, "c6in m6in", f"{_TO_24} 32xlarge/2 metal:128/2"),
    (X86, "c6a m6a r6a", f"{_TO_32} 48xlarge/1 metal:192/1"),
    (X86, "c7i m7i r7i", f"{_TO_24} metal-24xl 48xlarge/1 metal-48xl/1"),
    (X86, "r7iz", f"{_TO_16} metal-16xl 32xlarge/1 metal-32xl/1"),
    (X86, "c7a m7a r7a", f"medium {_TO_32} 48xlarge/1 metal-48xl/1"),
    (X86, "c7i-flex c8i-flex m7i-flex m8i-flex r8i-flex", _TO_16),
    (X86, "c8i m8i r8i", f"{_TO_32} 48xlarge/1 metal-48xl/1 96xlarge/1 metal-96xl/1"),
    (X86, "c8a m8a r8a", f"medium {_TO_24} metal-24xl 48xlarge/1 metal-48xl/1"),
    (X86, "x2idn", "16xlarge 24xlarge 32xlarge/1 metal:128/1"),
    (X86, "x2iedn", "xlarge 2xlarge 4xlarge 8xlarge 16xlarge 24xlarge 32xlarge/1 metal:128/1"),
    (X86, "x8i", f"{_TO_32} 48xlarge/1 metal-48xl/1 64xlarge/1 96xlarge/1 metal-96xl/1"),
    (ARM, "c6g c6gd m6g m6gd r6g r6gd x2gd", f"medium {_TO_16} metal:64"),
    (ARM, "c6gn", f"medium {_TO_12} 16xlarge/1"),
    (ARM, "c7g c7gd c7gn m7g m7gd r7g r7gd", f"medium {_TO_12} 16xlarge/1 metal:64/1"),
    (
        ARM,
        "c8g c8gd m8g m8gd r8g r8gd x8g",
        f"medium {_TO_16} 24xlarge/1 metal-24xl/1 48xlarge/1 metal-48xl/1",
    ),
    (
        ARM,
        "c8gn",
        f"medium {_TO_12} 16xlarge/1 24xlarge/1 metal-24xl/1 48xlarge/2 metal-48xl/2",
    ),
)
_GIB_PER_VCPU = {"c": 2, "m": 4, "r": 8, "x": 16, "x2iedn": 32}

# The others. Size: virtual CPUs, GiB, GPUs, EFA interfaces, Neuron devices.
Facts = tuple[int, float, int, int, int]

_BURST: dict[str, Facts] = {
    "nano": (2, 0.5, 0, 0, 0),
    "micro": (2, 1, 0, 0, 0),
    "small": (2, 2, 0, 0, 0),
    "medium": (2, 4, 0, 0, 0),
    "large": (2, 8, 0, 0, 0),
    "xlarge": (4, 16, 0, 0, 0),
    "2xlarge": (8, 32, 0, 0, 0),
}
_G5: dict[str, Facts] = {
    "xlarge": (4, 16, 1, 0, 0),
    "2xlarge": (8, 32, 1, 0, 0),
    "4xlarge": (16, 64, 1, 0, 0),
    "8xlarge": (32, 128, 1, 1, 0),
    "12xlarge": (48, 192, 4, 1, 0),
    "16xlarge": (64, 256, 1, 1, 0),
    "24xlarge": (96, 384, 4, 1, 0),
    "48xlarge": (192, 768, 8, 1, 0),
}
_IRREGULAR: tuple[tuple[str, str, dict[str, Facts]], ...] = (
    (X86, "t3 t3a", _BURST),
    (ARM, "t4g", _BURST),
    (
        X86,
        "c5n",
        {
            "large": (2, 5.25, 0, 0, 0),
            "xlarge": (4, 10.5, 0, 0, 0),
            "2xlarge": (8, 21, 0, 0, 0),
            "4xlarge": (16, 42, 0, 0, 0),
            "9xlarge": (36, 96, 0, 1, 0),
            "18xlarge": (72, 192, 0, 1, 0),
            "metal": (72, 192, 0, 1, 0),
        },
    ),
    (
        X86,
        "p3",
        {
            "2xlarge": (8, 61, 1, 0, 0),
            "8xlarge": (32, 244, 4, 0, 0),
            "16xlarge": (64, 488, 8, 0, 0),
        },
    ),
    (X86, "p3dn", {"24xlarge": (96, 768, 8, 1, 0)}),
    (X86, "p4d p4de", {"24xlarge": (96, 1152, 8, 4, 0)}),
    (X86, "p5", {"4xlarge": (16, 256, 1, 1, 0), "48xlarge": (192, 2048, 8, 32, 0)}),
    (X86, "p5e", {"48xlarge": (192, 2048, 8, 32, 0)}),
    (X86, "p5en", {"48xlarge": (192, 2048, 8, 16, 0)}),
    (X86, "p6-b200", {"48xlarge": (192, 2048, 8, 8, 0)}),
    (X86, "p6-b300", {"48xlarge": (192, 4096, 8, 16, 0)}),
    (
        X86,
        "g4dn",
        {
            "xlarge": (4, 16, 1, 0, 0),
            "2xlarge": (8, 32, 1, 0, 0),
            "4xlarge": (16, 64, 1, 0, 0),
            "8xlarge": (32, 128, 1, 1, 0),
            "12xlarge": (48, 192, 4, 1, 0),
            "16xlarge": (64, 256, 1, 1, 0),
            "metal": (96, 384, 8, 1, 0),
        },
    ),
    (X86, "g5 g6", _G5),
    (
        X86,
        "g6e",
        {
            "xlarge": (4, 32, 1, 0, 0),
            "2xlarge": (8, 64, 1, 0, 0),
            "4xlarge": (16, 128, 1, 0, 0),
            "8xlarge": (32, 256, 1, 1, 0),
            "12xlarge": (48, 384, 4, 1, 0),
            "16xlarge": (64, 512, 1, 1, 0),
            "24xlarge": (96, 768, 4, 2, 0),
            "48xlarge": (192, 1536, 8, 4, 0),
        },
    ),
    (X86, "gr6", {"4xlarge": (16, 128, 1, 0, 0), "8xlarge": (32, 256, 1, 1, 0)}),
    (
        X86,
        "g7e",
        {
            "2xlarge": (8, 64, 1, 0, 0),
            "4xlarge": (16, 128, 1, 0, 0),
            "8xlarge": (32, 256, 1, 1, 0),
            "12xlarge": (48, 512, 2, 1, 0),
            "24xlarge": (96, 1024, 4, 2, 0),
            "48xlarge": (192, 2048, 8, 4, 0),
        },
    ),
    (
        ARM,
        "g5g",
        {
            "xlarge": (4, 8, 1, 0, 0),
            "2xlarge": (8, 16, 1, 0, 0),
            "4xlarge": (16, 32, 1, 0, 0),
            "8xlarge": (32, 64, 1, 0, 0),
            "16xlarge": (64, 128, 2, 0, 0),
            "metal": (64, 128, 2, 0, 0),
        },
    ),
    (X86, "trn1", {"2xlarge": (8, 32, 0, 0, 1), "32xlarge": (128, 512, 0, 8, 16)}),
    (X86, "trn1n", {"32xlarge": (128, 512, 0, 16, 16)}),
    (X86, "trn2", {"3xlarge": (12, 128, 0, 1, 1), "48xlarge": (192, 2048, 0, 16, 16)}),
    (
        X86,
        "inf1",
        {
            "xlarge": (4, 8, 0, 0, 1),
            "2xlarge": (8, 16, 0, 0, 1),
            "6xlarge": (24, 48, 0, 0, 4),
            "24xlarge": (96, 192, 0, 1, 16),
        },
    ),
    (
        X86,
        "inf2",
        {
            "xlarge": (4, 16, 0, 0, 1),
            "8xlarge": (32, 128, 0, 0, 1),
            "24xlarge": (96, 384, 0, 0, 6),
            "48xlarge": (192, 768, 0, 0, 12),
        },
    ),
)


def find(instance_type: str) -> Resource | None:
    """Return what a container can ask of a host of this type.

    Args:
        instance_type: such as ``"p4d.24xlarge"``.

    Returns:
        The resource, or ``None`` for a type that is not in the tables.
    """
    family, _, size = instance_type.partition(".")
    for arch, families, sizes in _REGULAR:
        if family in families.split():
            facts = _grown(family, sizes).get(size)
            return _make(instance_type, arch, facts) if facts else None
    for arch, families, table in _IRREGULAR:
        if family in families.split():
            facts = table.get(size)
            return _make(instance_type, arch, facts) if facts else None
    return None


def instance_types() -> Iterator[str]:
    """Iterate over the names of all types, a family at a time."""
    for _, families, sizes in _REGULAR:
        for family in families.split():
            yield from (f"{family}.{size}" for size in _grown(family, sizes))
    for _, families, table in _IRREGULAR:
        for family in families.split():
            yield from (f"{family}.{size}" for size in table)


def _make(instance_type: str, arch: str, facts: Facts) -> Resource:
    vcpus, gib, gpus, efa, neuron = facts
    devices = {EFA: efa, NEURON: neuron}
    return Resource(
        cpu=vcpus,
        gpu=gpus,
        memMB=offered(int(gib * 1024)),
        capabilities={"instance_type": instance_type, "arch": arch},
        devices={name: count for name, count in devices.items() if count},
    )


def _grown(family: str, sizes: str) -> dict[str, Facts]:
    gib = _GIB_PER_VCPU.get(family) or _GIB_PER_VCPU[family[0]]
    table: dict[str, Facts] = {}
    for size in sizes.split():
        rest, _, efa = size.partition("/")
        name, _, told = rest.partition(":")
        vcpus = int(told) if told else _vcpus(name)
        table[name] = (vcpus, vcpus * gib, 0, int(efa or 0), 0)
    return table


def _vcpus(size: str) -> int:
    small = {"medium": 1, "large": 2, "xlarge": 4}
    times = size.removeprefix("metal-").removesuffix("arge").removesuffix("xl")
    return small.get(size) or 4 * int(times)
