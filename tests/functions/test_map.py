"""Maps on this machine: one job, a process for each item, results in order, reruns."""

from __future__ import annotations

import concurrent.futures
import os
import signal
import time
from collections import Counter

import pytest

import wherry
from support.waiting import until
from wherry import AppState
from wherry.errors import JobCancelledError, JobKilledError, StateError, UsageError
from wherry.functions import submission

SECONDS = 60


def square(x):
    return x * x


def odd_fails(x):
    if x % 2:
        raise ValueError(f"{x} is odd")
    return x


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)
    return path


def test_results_come_in_the_order_of_the_items(ex):
    runs = ex.map_array(square, range(12))

    assert list(runs.results(timeout=SECONDS)) == [n * n for n in range(12)]
    assert runs.result() == [n * n for n in range(12)]
    assert runs.kind == "array"
    assert len(runs) == 12
    assert runs.status_counts() == {AppState.SUCCEEDED: 12}


def test_several_iterables_go_together_and_the_shortest_ends_them(ex):
    assert list(ex.map_array(pow, [2, 3, 4], [5, 2]).results(timeout=SECONDS)) == [32, 9]


def test_each_item_is_a_job_of_its_own(ex):
    def talk(x):
        print(f"item {x}")
        return os.getpid()

    runs = ex.map_array(talk, range(3))
    pids = runs.result(SECONDS)

    assert len(set(pids)) == 3
    assert runs[1] is runs[1]
    assert runs[1].log() == "item 1\n"
    assert runs[-1].log() == "item 2\n"
    assert runs[1].kind == "child"
    assert runs[1].id == f"{runs.id}:1"
    assert ex.attach(runs[1].id).result(SECONDS) == pids[1]
    assert runs[1].outcome().stdout == "item 1\n"
    assert [child.result() for child in runs.children[:2]] == pids[:2]
    until(lambda: runs.exit_codes == [0, 0, 0], "the end of all processes")


def test_failures_are_told_one_by_one_and_run_again(ex, tmp_path):
    def fails_until(x, path):
        if x % 2 and not os.path.exists(path):
            raise ValueError(f"{x} is odd")
        return x

    runs = ex.map_array(fails_until, range(5), [str(tmp_path / "go")] * 5)

    with pytest.raises(ValueError, match="1 is odd"):
        runs.result(SECONDS)
    found = list(runs.results(return_exceptions=True))
    assert [repr(one) for one in found] == [
        "0",
        "ValueError('1 is odd')",
        "2",
        "ValueError('3 is odd')",
        "4",
    ]
    assert [job.number for job in runs.failures()] == [1, 3]
    assert runs.status is AppState.FAILED
    until(lambda: runs.status_counts() == {AppState.SUCCEEDED: 3, AppState.FAILED: 2}, "counts")

    (tmp_path / "go").touch()
    again = runs.retry_failed()
    assert list(again.results(timeout=SECONDS)) == [1, 3]
    assert list(again.indices) == [1, 3]
    assert again.record.retry_of == runs.id


def test_a_rerun_of_a_rerun_keeps_the_first_numbers(ex):
    runs = ex.map_array(odd_fails, range(4))
    runs.exception(SECONDS)
    once = runs.retry_failed()
    once.exception(SECONDS)
    twice = once.retry_failed()

    assert list(twice.indices) == [1, 3]
    assert [str(one) for one in twice.results(return_exceptions=True, timeout=SECONDS)] == [
        "1 is odd",
        "3 is odd",
    ]


def test_nothing_is_run_again_where_nothing_failed(ex):
    runs = ex.map_array(square, [1])
    runs.result(SECONDS)

    with pytest.raises(StateError, match="no item"):
        runs.retry_failed()


def test_items_of_a_chunk_share_a_process_and_fail_alone(ex):
    runs = ex.map_array(odd_fails, range(7), chunksize=3)

    found = list(runs.results(return_exceptions=True, timeout=SECONDS))

    assert [one if isinstance(one, int) else str(one) for one in found] == [
        0, "1 is odd", 2, "3 is odd", 4, "5 is odd", 6,
    ]  # fmt: skip
    assert [job.number for job in runs.failures()] == [1, 3, 5]
    assert runs[2].result() == 2
    again = runs.retry_failed()
    assert [str(one) for one in again.results(return_exceptions=True, timeout=SECONDS)] == [
        "1 is odd",
        "3 is odd",
        "5 is odd",
    ]


def test_items_are_given_as_they_end(ex, tmp_path):
    paths = [str(tmp_path / "late"), os.devnull]
    ended = wherry.LocalExecutor(max_parallel=2).map_array(wait_for, paths).as_completed(SECONDS)

    assert next(ended).number == 1
    (tmp_path / "late").touch()
    assert [job.result() for job in ended] == [paths[0]]


def test_results_that_do_not_come_in_time_are_a_timeout(ex, tmp_path):
    runs = ex.map_array(wait_for, [os.devnull, str(tmp_path / "never")])

    with pytest.raises(concurrent.futures.TimeoutError, match="parts of"):
        list(runs.results(timeout=0.5))


def test_a_map_can_be_cancelled(ex, tmp_path):
    runs = ex.map_array(wait_for, [str(tmp_path / "never")] * 3)
    until(lambda: runs.status is AppState.RUNNING, "a start")

    assert runs.cancel("enough")
    with pytest.raises(JobCancelledError, match="enough"):
        runs.result(SECONDS)
    with pytest.raises(JobCancelledError):
        runs[0].result(SECONDS)


def test_a_killed_item_is_told_apart(ex):
    def killed(x):
        if x == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    runs = ex.map_array(killed, range(3))
    found = list(runs.results(return_exceptions=True, timeout=SECONDS))

    assert found[::2] == [0, 2]
    assert isinstance(found[1], JobKilledError)
    assert "SIGKILL" in runs.status_reasons[1]


def test_too_many_failures_end_the_rest(tmp_path):
    def fails_or_waits(x):
        if x < 3:
            raise ValueError(x)
        wait_for(str(tmp_path / "never"))

    ex = wherry.LocalExecutor(max_parallel=2)
    runs = ex.map_array(fails_or_waits, range(200), max_failures=2)
    found = Counter(
        type(one).__name__ for one in runs.results(return_exceptions=True, timeout=SECONDS)
    )

    assert found["ValueError"] == 3
    assert found["JobCancelledError"] == 197
    assert "max_failures is 2" in runs.status_reason


def test_one_item_is_a_single_app(ex):
    runs = ex.map_array(square, [3])

    assert runs.result(SECONDS) == [9]
    assert not ex.scheduler.describe(runs.id).app.array


def test_a_map_larger_than_one_array_is_several_behind_one_handle(ex, monkeypatch):
    monkeypatch.setattr(submission, "LARGEST_ARRAY", 4)
    runs = ex.map_array(odd_fails, range(10))

    found = list(runs.results(return_exceptions=True, timeout=SECONDS))

    assert [app.children for app in runs.record.apps] == [4, 4, 2]
    assert found[::2] == [0, 2, 4, 6, 8]
    assert [str(one) for one in found[1::2]] == [f"{n} is odd" for n in range(1, 10, 2)]
    assert runs[9].log().rstrip().endswith("9 is odd")
    assert list(runs.retry_failed().indices) == [1, 3, 5, 7, 9]
    assert ex.attach(runs.id)[8].result(SECONDS) == 8


def test_map_is_that_of_the_standard_library(ex):
    assert list(ex.map(square, range(100))) == [n * n for n in range(100)]
    assert list(ex.map(pow, [2, 3], [3, 2], timeout=SECONDS)) == [8, 9]
    assert list(ex.map(square, [])) == []
    with pytest.raises(ValueError, match="1 is odd"):
        list(ex.map(odd_fails, range(3)))


def test_map_leaves_nothing_running_when_its_reader_stops(ex, tmp_path):
    results = ex.map(wait_for, [os.devnull, str(tmp_path / "never")], chunksize=1)
    assert next(results) == os.devnull
    results.close()

    (job,) = ex.jobs()
    with pytest.raises(JobCancelledError):
        job.result(SECONDS)


def test_a_map_without_items_or_iterables_is_refused(ex):
    with pytest.raises(UsageError, match="no items"):
        ex.map_array(square, [])
    with pytest.raises(UsageError, match="at least one iterable"):
        ex.map_array(square)
    with pytest.raises(UsageError, match="chunksize must be 1 or more"):
        ex.map_array(square, [1], chunksize=0)


def test_joblib_runs_on_an_executor(ex):
    joblib = pytest.importorskip("joblib")
    from wherry.functions.joblib_backend import register

    register(ex)
    with joblib.parallel_config("wherry", n_jobs=2):
        found = joblib.Parallel()(joblib.delayed(square)(n) for n in range(6))

    assert found == [n * n for n in range(6)]
