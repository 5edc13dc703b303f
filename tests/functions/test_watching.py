"""When a client hears of an outcome."""

from __future__ import annotations

import os

import psutil

from support.waiting import until


def answer_and_linger(path):
    """Answer, and do not end before a file is there."""
    import atexit
    import time

    def linger():
        while not os.path.exists(path):
            time.sleep(0.01)

    atexit.register(linger)
    return os.getpid()


def test_a_value_is_here_before_its_process_has_ended(ex, tmp_path):
    path = tmp_path / "go"
    job = ex.submit(answer_and_linger, str(path))
    try:
        pid = job.result(timeout=60)
        assert psutil.pid_exists(pid)
    finally:
        path.touch()

    assert until(lambda: not psutil.pid_exists(pid), "the end of the process")
    assert until(lambda: job.exit_code == 0, "the exit code")


def test_many_waiting_jobs_are_told_apart(ex, tmp_path):
    jobs = [ex.submit(answer_and_linger, str(tmp_path / str(k))) for k in range(6)]
    pids = [job.result(timeout=60) for job in reversed(jobs)]
    for k in range(6):
        (tmp_path / str(k)).touch()

    assert len(set(pids)) == 6
    assert [job.result() for job in reversed(jobs)] == pids
