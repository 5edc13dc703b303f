"""``wherry prune`` on calls: what goes, what stays, and what a submission may rely on."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import pytest

import wherry as package
from support.waiting import until
from wherry import AppState, AWSBatchExecutor, LocalExecutor
from wherry.functions import records
from wherry.functions.defaults import executor_of
from wherry.functions.pruning import Clearance
from wherry.store.blobs import has_blobs, put_blob
from wherry.store.opening import open_store
from wherry.worker.formats import blob_key

SECONDS = 60


@pytest.fixture
def ex() -> Iterator[LocalExecutor]:
    executor = LocalExecutor()
    yield executor
    executor.shutdown(cancel_futures=True)


@pytest.fixture
def folder(own_home: Path) -> Path:
    return own_home / "store"


def size_of(data):
    return len(data)


def fail():
    raise ValueError("no")


def ended(job):
    """Wait until nothing of a job runs any more."""
    job._block(SECONDS)
    until(
        lambda: job.executor.scheduler.describe(job.record.apps[0].app_id).state in ENDS, "its end"
    )
    return job


ENDS = (AppState.SUCCEEDED, AppState.FAILED, AppState.CANCELLED)


def age(*folders: Path, seconds: float = 7200) -> None:
    """Let all files and folders below be so old."""
    then = time.time() - seconds
    for top in folders:
        for path in [top, *top.rglob("*")]:
            os.utime(path, (then, then))


def blobs(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("blobs/*/*")}


def test_ended_calls_go_with_their_records_and_blobs(
    ex: LocalExecutor, wherry: Callable, own_home: Path, folder: Path
) -> None:
    gone = ended(ex.submit(size_of, b"x" * 5000))
    age(folder / "blobs")

    listed = wherry("prune", "--all", "--dry-run")
    assert f"local_cwd://wherry/{gone.id}\n" in listed.out
    assert f"call {gone.id}: " in listed.out
    assert "store: 2 unused, 5." in listed.out
    assert "would remove 1 record, 1 call, " in listed.err
    assert gone.result() == 5000

    done = wherry("prune", "--all", "--json")
    told = json.loads(done.out)
    assert [one.get("app_id") or one.get("job") or one["where"] for one in told] == [
        gone.id,
        gone.id,
        f"file://{folder}",
    ]
    assert told[2]["count"] == 2
    assert not [*folder.rglob("*")]
    assert not [*(own_home / "jobs").iterdir()]
    assert wherry("jobs").out == wherry("list").out == ""
    assert "removed 0 records\n" in wherry("prune", "--all").err


def test_what_others_share_stays(ex: LocalExecutor, wherry: Callable, folder: Path) -> None:
    data = b"shared" * 1000
    gone = ended(ex.options(name="gone").submit(size_of, data))
    kept = ended(ex.options(name="kept").submit(fail))
    again = ended(ex.options(name="kept2").map_array(size_of, [data, b"other"]))
    age(folder)
    shared = gone.record.call["function"]["blob"]

    wherry("prune", "--state", "succeeded")

    assert [path.name for path in (folder / "jobs").iterdir()] == [kept.id]
    assert blobs(folder) == {kept.record.call["function"]["blob"]}
    assert shared == again.record.call["function"]["blob"]
    assert "ValueError: no" in wherry("result", kept.id).err
    assert ended(kept.rerun()).status is AppState.FAILED


def test_young_blobs_stay_until_they_are_old(
    ex: LocalExecutor, wherry: Callable, own_home: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    ended(LocalExecutor(store=str(other)).submit(size_of, b"1"))

    wherry("prune", "--all")
    assert len(blobs(other)) == 2

    # The index knows nothing of that store any more, and yet it is looked into.
    age(other)
    assert "other: 2 unused" in wherry("prune", "--dry-run").out
    wherry("prune", "--all")
    assert not blobs(other)
    assert json.loads((own_home / "stores.json").read_text()) == []


def test_calls_that_run_or_are_being_submitted_stay(
    ex: LocalExecutor, wherry: Callable, folder: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"

    def wait(path):
        while not os.path.exists(path):
            time.sleep(0.01)
        return "done"

    runs = ex.submit(wait, str(gate))
    seen: list[str] = []

    def prune_now(step: str, job: str) -> None:
        if step == "recorded":  # It has a record, and no app yet.
            seen.append(job)
            wherry("prune", "--all")

    late = LocalExecutor(on_step=prune_now).submit(size_of, b"123")

    assert seen == [late.id]
    assert late.result(SECONDS) == 3
    gate.touch()
    assert runs.result(SECONDS) == "done"


def test_a_submission_makes_old_blobs_young_before_it_relies_on_them(
    ex: LocalExecutor, wherry: Callable, folder: Path
) -> None:
    ended(ex.submit(size_of, b"again"))
    age(folder)

    def prune_now(step: str, job: str) -> None:
        if step == "stored":  # The blobs are there, and no record names them.
            wherry("prune", "--all")

    late = LocalExecutor(on_step=prune_now).submit(size_of, b"again")

    assert late.result(SECONDS) == 5
    assert len(list((folder / "jobs").iterdir())) == 1


def test_a_blob_that_is_relied_on_when_its_turn_comes_stays(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    digest, _ = put_blob(store, [b"one"])
    age(tmp_path)

    assert has_blobs(store, [digest]) == {digest}
    assert store.delete_old([blob_key(digest)], time.time() - 3600) == 0
    assert store.read(blob_key(digest)) == b"one"

    age(tmp_path)
    assert store.delete_old([blob_key(digest), blob_key("0" * 64)], time.time() - 3600) == 3
    assert store.head(blob_key(digest)) is None
    assert has_blobs(store, [digest]) == set()


def test_age_is_counted_from_a_calls_end(ex: LocalExecutor, wherry: Callable, folder: Path) -> None:
    old, new = ended(ex.submit(size_of, b"1")), ended(ex.submit(size_of, b"2"))
    age(folder / "jobs" / old.id, seconds=3 * 86400)

    wherry("prune", "--older-than", "2d")

    assert [path.name for path in (folder / "jobs").iterdir()] == [new.id]
    assert [line.split()[-1] for line in wherry("jobs").out.splitlines()[1:]] == [new.id]


def test_what_has_no_job_any_more_goes_when_it_is_old(
    ex: LocalExecutor, wherry: Callable, folder: Path, own_home: Path
) -> None:
    kept = ended(ex.submit(size_of, b"1"))
    cut_off = folder / "jobs" / "call-1"
    cut_off.mkdir()
    (cut_off / "call.json").write_text("{}")
    notes = folder / "tasks" / "d1"
    notes.mkdir(parents=True)
    (notes / "0.json").write_text('{"job": "call-1"}')
    (notes / "1.json").write_text(json.dumps({"job": kept.id}))
    wherry("prune", "--state", "failed")
    assert cut_off.exists()

    age(folder)
    wherry("prune", "--state", "failed")

    assert not cut_off.exists()
    assert [path.name for path in notes.iterdir()] == ["1.json"]
    assert kept.result() == 1


def test_folders_and_workers_that_nobody_needs_go(
    ex: LocalExecutor, wherry: Callable, own_home: Path
) -> None:
    kept = ended(ex.options(name="kept", inputs={"a.txt": b"a"}).submit(os.getcwd))
    gone = ended(ex.options(name="gone", inputs={"a.txt": b"abc"}).submit(os.getcwd))
    workers = own_home / "cache" / "worker"
    present = {path.name for path in workers.glob("*.zip")}
    (workers / f"{'0' * 64}.zip").write_text("of an earlier version")
    gone.delete()
    age(own_home / "work", own_home / "cache")

    listed = wherry("prune", "--dry-run")
    done = wherry("prune", "--state", "failed")

    assert "/work: 1 unused, 3 bytes" in listed.out
    assert "/worker: 1 unused" in listed.out
    assert done.code == 0
    assert [str(path) for path in (own_home / "work").iterdir()] == [kept.result()]
    assert {path.name for path in workers.glob("*.zip")} == present


def test_shipped_code_stays_as_long_as_a_call_needs_it(
    ex: LocalExecutor, wherry: Callable, folder: Path, tmp_path: Path
) -> None:
    from wherry.workspace.archive import pack, upload
    from wherry.workspace.tree import scan

    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "mine.py").write_text("x = 1\n")
    archive = pack(scan(str(tmp_path / "code")))
    kept = ended(ex.submit(size_of, b"1"))
    upload(archive, ex.store)
    record = folder / "jobs" / kept.id / "call.json"
    call = json.loads(record.read_text())
    call["code"] = [{"manifest": archive.digest, "target": "."}]
    record.write_text(json.dumps(call))
    parts = {archive.digest, *(blob.digest for blob in archive.blobs)}
    age(folder)

    wherry("prune", "--state", "failed")
    assert parts <= blobs(folder)

    wherry("prune", "--all")
    assert not blobs(folder)


def test_stores_are_named_one_by_one(ex: LocalExecutor, wherry: Callable, tmp_path: Path) -> None:
    other = tmp_path / "other"
    here = ended(ex.submit(size_of, b"1"))
    ended(LocalExecutor(store=str(other)).submit(size_of, b"1"))

    done = wherry("prune", "--all", "--store", str(other))
    wrong = wherry("prune", "--all", "--store", str(tmp_path / "othr"))

    assert done.code == 0
    assert not [*(other / "jobs").glob("*")]
    assert here.result() == 1
    assert wrong.code == 2
    assert "unknown store" in wrong.err


def test_states_in_which_nothing_has_ended_remove_nothing(
    ex: LocalExecutor, wherry: Callable
) -> None:
    job = ended(ex.submit(size_of, b"1"))

    done = wherry("prune", "--state", "running")

    assert done.code == 2
    assert job.result() == 1


def test_s3_is_cleaned_up_only_when_it_is_asked_for(wherry: Callable, wherry_aws: object) -> None:
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="calls")
    executor = AWSBatchExecutor(s3_bucket_name="calls", batch_queue="main", vcpu=1, memory=0.25)
    job = executor.submit(len, b"123")
    assert job.result(SECONDS) == 3
    until(lambda: job.raw_status == "SUCCEEDED", "the job's end")

    passed = wherry("prune", "--state", "failed,succeeded")
    assert "1 call in S3 are left; --remote" in passed.err
    assert package.job(job.id).result() == 3

    done = wherry("prune", "--all", "--store", "s3://calls/wherry")
    left = [one["Key"] for one in s3.list_objects_v2(Bucket="calls").get("Contents", [])]
    assert "1 call" in done.err
    # Blobs of a bucket stay for days: others may be about to rely on them.
    assert left
    assert all(key.startswith("wherry/blobs/") for key in left)


def test_what_nobody_needs_in_s3_goes_when_it_is_old(wherry_aws: object) -> None:
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="swept")
    executor = AWSBatchExecutor(s3_bucket_name="swept", batch_queue="main", vcpu=1, memory=0.25)
    gone, kept = executor.submit(len, b"1" * 9000), executor.submit(int, "none")
    assert gone.result(SECONDS) == 9000
    assert isinstance(kept.exception(SECONDS), ValueError)
    until(lambda: gone.raw_status == "SUCCEEDED", "the job's end")
    store = executor_of(records.find(gone.id)).store
    store.kept_for = -3600.0  # All that is there is old.

    clearance = Clearance(states={AppState.SUCCEEDED}, remote=True)
    assert [job.record.id for job in clearance.choose()] == [gone.id]
    counted = clearance.remove(dry_run=True)
    removed = clearance.remove()

    assert counted == removed
    assert removed[0].count == 2
    assert removed[0].size > 9000
    assert isinstance(package.job(kept.id).exception(SECONDS), ValueError)
    call = kept.record.call["function"]["blob"]
    assert has_blobs(executor.store, [call, gone.record.call["arguments"]["blob"]]) == {call}
    # One that could be cleaned up is not relied on, and stored again.
    assert has_blobs(store, [call]) == set()
    assert clearance.problems == []


def test_nothing_is_looked_at_before_it_is_asked_for(ex: LocalExecutor) -> None:
    job = ended(ex.submit(size_of, b"1"))
    clearance = Clearance()

    assert [one.record.id for one in clearance.choose()] == [job.id]
    assert clearance.remove(dry_run=True) == []
    assert job.result() == 1
