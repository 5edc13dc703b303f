"""What Fargate can give one task: the legal pairs of vCPUs and memory, and rounding up to one.

A table and arithmetic; it knows nothing of apps and makes no calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from wherry.errors import UsageError


class Pair(NamedTuple):
    """vCPUs and MiB that go together."""

    cpu: float
    memory: int

    def __str__(self) -> str:
        return f"{self.cpu:g} vCPU and {self.memory} MiB"


PAIRS: Mapping[float, tuple[int, ...]] = {
    0.25: (512, 1024, 2048),
    0.5: tuple(range(1024, 4096 + 1, 1024)),
    1: tuple(range(2048, 8192 + 1, 1024)),
    2: tuple(range(4096, 16_384 + 1, 1024)),
    4: tuple(range(8192, 30_720 + 1, 1024)),
    8: tuple(range(16_384, 61_440 + 1, 4096)),
    16: tuple(range(32_768, 122_880 + 1, 8192)),
    32: (61_440, 122_880, 249_856),
}
"""MiB by vCPUs; the API model of AWS Batch, ``ResourceRequirement.value``."""

LARGEST = Pair(max(PAIRS), PAIRS[max(PAIRS)][-1])


def is_legal(cpu: float, memory: int) -> bool:
    """Tell whether Fargate has exactly this pair."""
    return memory in PAIRS.get(cpu, ())


def round_up(cpu: float, memory: int) -> Pair:
    """Return the least pair that has at least this much of both.

    The least vCPUs that can have the memory are chosen: a vCPU costs as much as about 9 GiB.

    Args:
        cpu: vCPUs.
        memory: MiB.

    Raises:
        UsageError: Fargate has no task that large.

    >>> round_up(1, 9000)
    Pair(cpu=2, memory=9216)
    """
    for cpus, memories in PAIRS.items():
        if cpus >= cpu:
            for mib in memories:
                if mib >= memory:
                    return Pair(cpus, mib)
    raise UsageError(
        f"Fargate has no task of {Pair(cpu, memory)}; the largest is {LARGEST}. "
        "Ask for less, or use a queue of EC2 instances"
    )
