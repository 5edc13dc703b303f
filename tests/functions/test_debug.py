"""Calls in this process: the same surface, with everything known at once."""

from __future__ import annotations

import concurrent.futures
import os

import pytest

import wherry
from wherry import AppState, DebugExecutor
from wherry.errors import JobCancelledError, StateError, UnknownAppError, UnknownNameError


def half(x):
    if x % 2:
        raise ValueError(f"{x} is odd")
    return x // 2


def test_a_call_runs_here_and_shares_objects():
    seen = []
    job = DebugExecutor().submit(seen.append, 1)

    assert seen == [1]
    assert job.result() is None
    assert job.done()
    assert job.status is AppState.SUCCEEDED
    assert job.exit_code == 0
    assert job.provider_id == str(os.getpid())
    assert (job.kind, job.environment, job.name) == ("single", "debug", "append")


def test_an_exception_is_the_very_same_with_its_own_traceback():
    job = DebugExecutor().submit(half, 3)

    with pytest.raises(ValueError, match="3 is odd") as caught:
        job.result()
    assert caught.traceback[-1].name == "half"
    assert job.status is AppState.FAILED
    assert job.status_reason == "ValueError: 3 is odd"
    assert job.outcome().error is caught.value
    assert job.why().findings[0].summary == "ValueError: 3 is odd"


def test_a_map_has_parts():
    ex = DebugExecutor()
    runs = ex.map_array(half, range(4))

    assert [str(one) for one in runs.results(return_exceptions=True)] == [
        "0",
        "1 is odd",
        "1",
        "3 is odd",
    ]
    assert [job.number for job in runs.failures()] == [1, 3]
    assert runs.status_counts() == {AppState.SUCCEEDED: 2, AppState.FAILED: 2}
    assert runs.exit_codes == [0, 1, 0, 1]
    assert runs[2].result() == 1
    assert runs[2].kind == "child"
    with pytest.raises(ValueError, match="1 is odd"):
        runs.result()
    assert list(ex.map(half, [2, 4], chunksize=7)) == [1, 2]
    assert ex.map_array(half, [2, 4]).result() == [1, 2]


def test_too_many_failures_stop_the_rest():
    runs = DebugExecutor().map_array(half, [1, 3, 2], max_failures=1)

    assert isinstance(list(runs.results(return_exceptions=True))[2], JobCancelledError)


def test_futures_of_all_kinds_go_together():
    ex = DebugExecutor()
    jobs = [ex.submit(half, 2), ex.submit(half, 1)]

    assert concurrent.futures.wait(jobs).done == set(jobs)
    assert set(concurrent.futures.as_completed(jobs)) == set(jobs)


def test_jobs_are_found_again_while_the_process_lives():
    ex = DebugExecutor()
    job = ex.submit(half, 2)

    assert ex.attach(job.id) is job
    assert list(ex.jobs(status="SUCCEEDED")) == [job]
    job.delete()
    with pytest.raises(UnknownAppError):
        ex.attach(job.id)


def test_what_means_nothing_here_is_told():
    with pytest.warns(RuntimeWarning, match="does not honour timeout="):
        DebugExecutor(timeout=3).submit(half, 2)
    with pytest.raises(UnknownNameError, match="this one's output"):
        DebugExecutor().submit(half, 2).log()
    with pytest.raises(StateError, match="submit it again"):
        DebugExecutor().submit(half, 2).rerun()


def test_it_can_be_the_default():
    with wherry.using(DebugExecutor()) as ex:
        assert wherry.submit(half, 4).executor is ex
