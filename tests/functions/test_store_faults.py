"""A store that does not answer, is full, or has lost or changed what was in it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.s3_servers import KEY, SECRET, free_port, rclone, sign_as
from support.waiting import until
from wherry import LocalExecutor, errors
from wherry.worker.formats import out_key

SECONDS = 100


class Server:
    """A real S3 server that checks signatures, to be stopped and started."""

    def __init__(self, folder) -> None:
        self._folder = folder
        self.port = free_port()
        self._running = contextlib.ExitStack()

    def start(self) -> None:
        self._running.enter_context(rclone(self._folder, self.port))

    def stop(self) -> None:
        self._running.close()


@pytest.fixture
def server(tmp_path, monkeypatch):
    (tmp_path / "s3" / "bucket").mkdir(parents=True)
    made = Server(tmp_path / "s3")
    sign_as(monkeypatch, KEY, SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{made.port}")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def remote(server):
    executor = LocalExecutor(store="s3://bucket/wherry")
    yield executor
    executor.shutdown(cancel_futures=True)


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)
    return "seen"


def test_a_call_goes_through_a_server_that_checks_signatures(remote):
    assert remote.submit(pow, 2, 5).result(SECONDS) == 32
    assert remote.map_array(abs, [-1, -2]).result(SECONDS) == [1, 2]


def test_a_store_that_is_not_there_at_the_submission_is_named_and_nothing_is_submitted(
    server, remote
):
    server.stop()

    with pytest.raises(errors.StoreError, match=rf"127\.0\.0\.1:{server.port}"):
        remote.submit(len, "abc")
    server.start()
    assert list(remote.jobs()) == []


def test_a_store_that_is_away_while_the_job_runs_is_no_matter(server, remote, tmp_path):
    job = remote.submit(wait_for, str(tmp_path / "go"))
    until(lambda: "running" in _phase(job), "the function to begin")
    server.stop()
    server.start()
    (tmp_path / "go").touch()

    assert job.result(SECONDS) == "seen"


def test_a_store_that_is_away_when_the_job_ends_is_told_with_its_own_error(
    server, remote, tmp_path
):
    job = remote.submit(wait_for, str(tmp_path / "go"))
    until(lambda: "running" in _phase(job), "the function to begin")
    server.stop()
    (tmp_path / "go").touch()
    until(lambda: remote.scheduler.describe(job.id).state.name == "FAILED", "its end", SECONDS)
    server.start()

    with pytest.raises(errors.ResultError, match=r"could not store.*rerun"):
        job.result(SECONDS)
    assert "could not be stored" in job.log()
    assert job.rerun().result(SECONDS) == "seen"


def test_a_store_that_is_away_when_the_result_is_wanted_is_told_and_asked_again(server, remote):
    job = remote.submit(pow, 2, 6)
    until(lambda: remote.scheduler.describe(job.id).state.name == "SUCCEEDED", "its end")
    server.stop()

    with pytest.raises(errors.StoreError, match=rf"127\.0\.0\.1:{server.port}"):
        job.result(SECONDS)
    server.start()
    assert job.result(SECONDS) == 64


def _phase(job):
    return "running" if job.attempts and job.attempts[-1].state.name == "RUNNING" else ""


@pytest.mark.parametrize("kind", ["truncated", "changed", "deleted"])
@pytest.mark.parametrize("where", ["folder", "server"])
def test_an_outcome_that_is_not_what_was_stored_is_told(request, ex, kind, where):
    executor = request.getfixturevalue("remote") if where == "server" else ex
    job = executor.submit(bytes, 1000)
    until(job.done, "its end", SECONDS)
    key = out_key(job.id, 0)
    data = bytearray(executor.store.read(key))
    if kind == "changed":
        data[-500] ^= 1
    if kind == "deleted":
        executor.store.delete([key])
    else:
        executor.store.write(key, [data[: -10 if kind == "truncated" else None]])

    error = errors.MissingObjectError if kind == "deleted" else errors.CorruptObjectError
    with pytest.raises(error, match=r"job\.rerun\(\)"):
        job.result(SECONDS)
    with pytest.raises((error, errors.ResultError), match=r"rerun|emptied"):
        executor.attach(job.id).result(SECONDS)
    assert job.rerun().result(SECONDS) == bytes(1000)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda data: data[:-1], errors.CorruptObjectError),
        (lambda data: data[:-1] + b"?", errors.CorruptObjectError),
        (None, errors.MissingObjectError),
    ],
    ids=["truncated", "changed", "deleted"],
)
def test_an_argument_that_is_not_what_was_sent_is_told(tmp_path, change, error):
    def spoil(step, _job):
        if step != "stored":
            return
        (large,) = [info for info in spoiling.store.list("blobs/") if info.size > 1 << 20]
        if change is None:
            spoiling.store.delete([large.key])
        else:
            spoiling.store.write(large.key, [change(spoiling.store.read(large.key))])

    spoiling = LocalExecutor(store=str(tmp_path / "store"), on_step=spoil)
    job = spoiling.submit(len, b"x" * (2 << 20))

    with pytest.raises(error, match="submit the call again"):
        job.result(SECONDS)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 8 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)])
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.root
def test_a_value_that_the_workers_disk_has_no_room_for_is_told_with_its_size(small_disk):
    ex = LocalExecutor(store=str(small_disk / "store"))
    job = ex.submit(os.urandom, 12 << 20)

    with pytest.raises(errors.ResultError, match=r"no room.*see that the store has room"):
        job.result(SECONDS)
    assert ex.submit(os.urandom, 3).outcome(SECONDS).ok


@pytest.mark.root
def test_an_argument_that_the_disk_has_no_room_for_is_told_before_it_is_sent(small_disk):
    ex = LocalExecutor(store=str(small_disk / "store"))

    with pytest.raises(
        errors.PayloadError, match=r"needs 12\.0 MiB in the store .* has \d\.\d MiB left"
    ):
        ex.submit(len, bytes(12 << 20))
    assert list(ex.jobs()) == []
    assert [info.key for info in ex.store.list("")] == [] or sum(
        info.size for info in ex.store.list("")
    ) < 1 << 20


def test_a_state_that_cannot_be_read_is_raised_rather_than_guessed(server, remote, tmp_path):
    job = remote.submit(wait_for, str(tmp_path / "never"))
    server.stop()

    for word in ("in_progress", "succeeded", "failed"):
        with pytest.raises(errors.StoreError):
            getattr(job, word)
    server.start()
    assert job.in_progress


def test_a_large_array_goes_there_and_back_without_a_third_copy(server, tmp_path):
    pytest.importorskip("numpy")
    script = Path(__file__).parents[2] / "benchmarks" / "ours" / "payload.py"
    done = subprocess.run(
        [sys.executable, str(script), str(256 << 20), "s3://bucket/payload"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)

    # What was made, what came back, and 64 MiB of pieces on their way.
    assert figures["client"] < 2.5
    assert figures["job"] < 2.5
