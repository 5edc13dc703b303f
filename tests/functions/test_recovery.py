"""A client that dies at any step of a submission: no job is lost, and none runs twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

import wherry
from support.waiting import until
from wherry import AppState, LocalExecutor
from wherry.errors import LaunchError, StoreError
from wherry.specs.states import is_terminal

SECONDS = 60

CLIENT = """
import os, signal, sys
import wherry

step, path, kind = sys.argv[1:]

def on_step(name, job):
    if name == step:
        print(job, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

def note(x, path):
    with open(path, "a") as file:
        file.write(f"{x}\\n")
    return x

ex = wherry.LocalExecutor(on_step=on_step)
if kind == "call":
    ex.submit(note, 1, path)
else:
    ex.map_array(note, [1, 2, 3], [path] * 3)
"""


def killed_at(step, path, kind="call") -> str:
    """Run a client that kills itself at a step; return the id that its job would have had."""
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, step, str(path), kind], capture_output=True, text=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("step", ["packed", "stored"])
def test_before_the_record_there_is_no_job(tmp_path, step):
    job = killed_at(step, tmp_path / "runs")

    assert list(wherry.jobs()) == []
    with pytest.raises(wherry.errors.UnknownAppError):
        LocalExecutor().attach(job)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("kind", ["call", "map"])
@pytest.mark.parametrize("step", ["recorded", "submitted"])
def test_from_the_record_on_the_job_runs_once(tmp_path, step, kind):
    job = killed_at(step, tmp_path / "runs", kind)

    expected = 1 if kind == "call" else [1, 2, 3]
    assert [one.id for one in wherry.jobs()] == [job]
    first, second = LocalExecutor().attach(job), wherry.job(job)
    assert first.result(SECONDS) == expected
    assert second.result(SECONDS) == expected
    assert sorted((tmp_path / "runs").read_text().split()) == (
        ["1"] if kind == "call" else ["1", "2", "3"]
    )


def test_a_list_of_jobs_starts_none_of_them(tmp_path):
    job = killed_at("recorded", tmp_path / "runs")

    (listed,) = LocalExecutor().jobs()

    assert listed.id == job
    assert not is_terminal(listed.status) or listed.status is AppState.EXPIRED
    assert not (tmp_path / "runs").exists()


def test_many_who_take_a_job_up_at_once_start_it_once(tmp_path):
    job = killed_at("recorded", tmp_path / "runs")
    values = []
    threads = [
        threading.Thread(target=lambda: values.append(LocalExecutor().attach(job).result(SECONDS)))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)

    assert values == [1] * 6
    assert (tmp_path / "runs").read_text() == "1\n"


def test_a_job_outlives_the_process_that_submitted_it(tmp_path):
    program = (
        "import time, os, sys, wherry\n"
        "def wait(path):\n"
        "    while not os.path.exists(path):\n"
        "        time.sleep(0.01)\n"
        "    return 'seen'\n"
        "print(wherry.LocalExecutor().submit(wait, sys.argv[1]).id, flush=True)\n"
        "if sys.argv[2] == 'killed':\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    for how in ("left", "killed"):
        go = tmp_path / how
        done = subprocess.run(
            [sys.executable, "-c", program, str(go), how], capture_output=True, text=True
        )
        job = LocalExecutor().attach(done.stdout.strip())
        until(job.running, "the job to run")
        go.touch()
        assert job.result(SECONDS) == "seen"


def test_a_supervisor_that_was_killed_is_told_and_the_call_not_run_again(ex, tmp_path):
    def note_and_wait(path):
        import time

        with open(path, "a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(300)

    runs = tmp_path / "runs"
    job = ex.submit(note_and_wait, str(runs))
    until(lambda: runs.exists() and runs.read_text().endswith("\n"), "the call to begin")
    marker = f"WHERRY_APP_ID={job.id}".encode()
    from wherry.engine import processes

    worker = processes.marked_processes(marker)
    assert worker
    supervisors = set()
    for pid in worker:
        with open(f"/proc/{pid}/stat") as file:
            supervisors.add(int(file.read().rpartition(")")[2].split()[1]))
    for pid in supervisors - set(worker):
        os.kill(pid, signal.SIGKILL)

    assert job.exception(SECONDS) is not None
    assert job.status is AppState.FAILED
    assert len(runs.read_text().split()) == 1


def test_a_job_that_cannot_be_started_leaves_nothing(ex, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))

    with pytest.raises(LaunchError):
        ex.submit(len, "abc")

    assert list(ex.jobs()) == []
    assert [info.key for info in ex.store.list("jobs/")] == []


def test_a_store_that_cannot_be_written_is_told_at_once(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreError, match="file"):
        LocalExecutor(store=str(tmp_path / "file" / "store")).submit(len, "abc")
