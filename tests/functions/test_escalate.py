"""A job that runs out of memory goes on with more, where its client has named more."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from wherry import AppState, Escalate, errors

SECONDS = 100


def needs(mib, seconds=0.0):
    held = bytearray(b"x") * (mib << 20)
    time.sleep(seconds)
    print("held", mib)
    return len(held) >> 20


def test_a_job_that_ran_out_of_memory_goes_on_with_the_next_amount(
    make_anywhere, one_out_of_memory
):
    ex = make_anywhere(memory=Escalate(0.125, 0.25, 1))
    job = ex.submit(needs, 400, 1.5)

    assert job.result(SECONDS) == 400
    assert job.status is AppState.SUCCEEDED
    assert [attempt.number for attempt in job.attempts] == [1, 2, 3]
    assert all(attempt.exit_code != 0 for attempt in job.attempts[:2])
    assert job.outcome().attempt == 3
    again = ex.attach(job.id)
    assert again.result(SECONDS) == 400
    assert len(again.attempts) == 3


def test_when_the_last_amount_is_not_enough_either_the_job_fails_and_names_it(ex):
    job = ex.options(memory=Escalate(0.125, 0.25)).submit(needs, 800)

    with pytest.raises(errors.JobMemoryError, match=r"256 MiB.*memory="):
        job.result(SECONDS)
    assert len(job.attempts) == 2
    job.delete()
    assert list(ex.store.list("jobs/")) == []


def test_other_failures_are_not_tried_with_more(ex):
    job = ex.options(memory=Escalate(1, 2)).submit(int, "word")

    with pytest.raises(ValueError, match="word"):
        job.result(SECONDS)
    assert len(job.attempts) == 1


def test_the_log_of_each_attempt_can_be_read(ex):
    def tells(mib):
        print("try", flush=True)
        return len(bytearray(b"x") * (mib << 20))

    job = ex.options(memory=Escalate(0.125, 1)).submit(tells, 300)
    job.result(SECONDS)

    assert job.log().count("try\n") == 2
    assert "MemoryError" in job.log(attempt=1)
    assert job.log(attempt=2) == "try\n"


def test_two_who_see_it_fall_short_start_it_again_once(ex, tmp_path):
    def note(path, mib):
        with open(path, "a") as file:
            file.write("x")
        return len(bytearray(b"x") * (mib << 20)) >> 20

    job = ex.options(memory=Escalate(0.125, 1)).submit(note, str(tmp_path / "runs"), 300)
    program = f"import wherry; print(wherry.job({job.id!r}).result({SECONDS}))"
    others = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]

    assert job.result(SECONDS) == 300
    assert [other.communicate(timeout=SECONDS)[0] for other in others] == ["300\n"] * 2
    assert (tmp_path / "runs").read_text() == "xx"


def test_a_map_is_run_again_with_more_where_it_fell_short(ex):
    with pytest.raises(errors.UsageError, match=r"retry_failed\(memory=2\)"):
        ex.options(memory=Escalate(1, 2)).map_array(needs, [1])
    runs = ex.options(memory=0.125).map_array(needs, [1, 400])
    with pytest.raises(errors.JobMemoryError, match="128 MiB"):
        runs.result(SECONDS)

    assert runs.retry_failed(memory=1).result(SECONDS) == [400]


def test_three_words_tell_how_a_job_is(ex, tmp_path):
    def waits(path):
        while not os.path.exists(path):
            time.sleep(0.01)

    job = ex.submit(waits, str(tmp_path / "go"))
    assert (job.in_progress, job.succeeded, job.failed) == (True, False, False)
    (tmp_path / "go").touch()
    job.result(SECONDS)
    assert (job.in_progress, job.succeeded, job.failed) == (False, True, False)
    bad = ex.submit(int, "x")
    bad.exception(SECONDS)
    assert (bad.in_progress, bad.succeeded, bad.failed) == (False, False, True)
