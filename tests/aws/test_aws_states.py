"""What AWS's words mean in ours."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.aws import jobs
from wherry.aws.jobs import JobView
from wherry.schedulers.aws_batch.record import Wish
from wherry.schedulers.aws_batch.states import HONOURED, STATES, combined, counted, state_of
from wherry.specs import AppState, is_terminal

S = AppState


def test_every_word_of_aws_has_one_of_ours():
    assert set(STATES) == set(jobs.STATES)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("SUBMITTED", S.SUBMITTED),
        ("PENDING", S.PENDING),
        ("RUNNABLE", S.PENDING),
        ("STARTING", S.PENDING),
        ("RUNNING", S.RUNNING),
        ("SUCCEEDED", S.SUCCEEDED),
        ("FAILED", S.FAILED),
        ("A_NEW_ONE", S.UNKNOWN),
    ],
)
def test_a_state_is_read(status, state):
    assert state_of(JobView("x", status)) is state


@pytest.mark.parametrize("mark", ["is_cancelled", "is_terminated"])
def test_what_somebody_ended_is_cancelled(mark):
    assert state_of(JobView("x", "FAILED", **{mark: True})) is S.CANCELLED
    assert state_of(JobView("x", "SUCCEEDED", **{mark: True})) is S.SUCCEEDED
    assert state_of(JobView("x", "RUNNING", **{mark: True})) is S.RUNNING


@pytest.mark.parametrize(
    ("reason", "stopped_at", "state"),
    [
        ("enough", 1001.0, S.CANCELLED),
        ("enough (before: UNDETERMINED)", 1001.0, S.CANCELLED),
        ("enough", None, S.CANCELLED),
        ("Essential container in task exited", 1001.0, S.FAILED),
        ("enough", 100.0, S.FAILED),
    ],
)
def test_an_api_without_marks_is_read_by_our_own_reason(reason, stopped_at, state):
    job = JobView("x", "FAILED", reason=reason, stopped_at=stopped_at)

    assert state_of(job, Wish("enough", 1000.0)) is state


@pytest.mark.parametrize(
    ("counts", "state"),
    [
        ({"RUNNABLE": 3}, S.PENDING),
        ({"RUNNABLE": 2, "STARTING": 1}, S.PENDING),
        ({"RUNNABLE": 2, "RUNNING": 1}, S.RUNNING),
        ({"RUNNABLE": 2, "SUCCEEDED": 1}, S.RUNNING),
        ({}, S.PENDING),
    ],
)
def test_an_array_runs_when_a_child_does_or_did(counts, state):
    assert state_of(JobView("x", "PENDING", array_size=3, counts=counts)) is state


@pytest.mark.parametrize(
    ("states", "state"),
    [
        ([S.SUCCEEDED, S.SUCCEEDED], S.SUCCEEDED),
        ([S.SUCCEEDED, S.FAILED], S.FAILED),
        ([S.CANCELLED, S.FAILED], S.CANCELLED),
        ([S.SUCCEEDED, S.PENDING], S.RUNNING),
        ([S.FAILED, S.SUBMITTED], S.RUNNING),
        ([S.PENDING, S.SUBMITTED], S.PENDING),
        ([S.PENDING, S.RUNNING], S.RUNNING),
        ([], S.UNKNOWN),
    ],
)
def test_several_jobs_are_one_app(states, state):
    for order in itertools.permutations(states):
        assert combined(order) is state


@given(st.lists(st.sampled_from(list(STATES.values())), min_size=1, max_size=6))
def test_an_app_has_ended_exactly_when_all_of_its_jobs_have(states):
    assert is_terminal(combined(states)) == all(map(is_terminal, states))


@given(st.dictionaries(st.sampled_from(jobs.STATES), st.integers(1, 100)))
def test_counting_loses_nobody(counts):
    assert sum(count for _, count in counted(counts)) == sum(counts.values())


def test_every_part_of_an_app_is_in_the_table_of_what_is_kept_to():
    words = " ".join(HONOURED).replace(",", " ").split()

    for part in ("image", "array", "timeout", "secrets", "mounts", "ulimits", "depends_on"):
        assert part in words
    assert all(
        text.startswith(("enforced", "ignored", "EC2:", "advisory")) for text in HONOURED.values()
    )
