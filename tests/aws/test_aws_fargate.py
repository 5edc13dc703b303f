"""Legal pairs of vCPUs and memory on Fargate, and rounding up to one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.aws import fargate
from wherry.emulator.batch import limits
from wherry.errors import UsageError


@pytest.mark.parametrize(
    ("asked", "given_"),
    [
        ((0.1, 1), (0.25, 512)),
        ((0.25, 512), (0.25, 512)),
        ((0.25, 2049), (0.5, 3072)),
        ((1, 9000), (2, 9216)),
        ((3, 4096), (4, 8192)),
        ((8, 17000), (8, 20480)),
        ((16, 122_881), (32, 249_856)),
        ((32, 1), (32, 61_440)),
    ],
)
def test_what_is_asked_for_is_rounded_up_to_the_next_pair(asked, given_):
    assert fargate.round_up(*asked) == given_


@pytest.mark.parametrize("asked", [(33, 1), (1, 249_857)])
def test_what_no_task_has_is_refused_with_the_largest_there_is(asked):
    with pytest.raises(UsageError, match="largest is 32 vCPU and 249856 MiB"):
        fargate.round_up(*asked)


@given(st.floats(0.01, 32), st.integers(1, 249_856))
def test_a_rounded_pair_is_legal_and_enough_and_no_smaller_one_would_do(cpu, memory):
    pair = fargate.round_up(cpu, memory)

    assert fargate.is_legal(*pair)
    assert pair.cpu >= cpu
    assert pair.memory >= memory
    smaller = [
        (cpus, mib)
        for cpus, memories in fargate.PAIRS.items()
        for mib in memories
        if cpu <= cpus <= pair.cpu and memory <= mib and (cpus, mib) < pair
    ]
    assert smaller == []


def test_the_pairs_are_those_of_the_api_model():
    theirs = {float(cpu): memories for cpu, memories in limits.FARGATE_MEMORY_MIB.items()}

    assert dict(fargate.PAIRS) == theirs
