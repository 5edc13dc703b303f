"""What outlives the process: jobs in an archive, and what becomes of those that ran."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.emulated import FARGATE, MemoryArchive, World, multinode
from wherry.emulator.batch.archive import SqliteArchive
from wherry.errors import LaunchError


@pytest.fixture
def archive() -> MemoryArchive:
    return MemoryArchive()


def again(world: World, archive: MemoryArchive) -> World:
    """Return the world after the process died and was started again."""
    archive.crash()
    return World(archive=archive, clock=world.clock)


def test_an_answered_submission_is_not_lost(archive: MemoryArchive) -> None:
    world = World(archive=archive)
    job = world.submit(settle=False, tags={"a": "b"}, parameters={"x": "1"})

    after = again(world, archive)

    shown = after.describe(job)
    assert shown["status"] == "STARTING"
    assert (shown["tags"], shown["parameters"]) == ({"a": "b"}, {"x": "1"})


def test_ended_jobs_are_described_as_before(archive: MemoryArchive) -> None:
    world = World(archive=archive)
    job = world.submit(retryStrategy={"attempts": 2})
    world.run(job, code=4)
    world.run(job, code=5)
    before = world.describe(job)

    assert again(world, archive).describe(job) == before


def test_a_running_job_ends_as_if_its_host_had_gone(archive: MemoryArchive) -> None:
    world = World(archive=archive)
    job = world.submit()
    world.begin(job)
    instance = next(iter(world.plane.flights.values())).place.instance_id

    shown = again(world, archive).describe(job)

    assert shown["status"] == "FAILED"
    assert shown["statusReason"] == f"Host EC2 (instance {instance}) terminated."
    assert shown["attempts"][0]["statusReason"] == shown["statusReason"]
    assert "exitCode" not in shown["container"]


def test_on_fargate_a_running_job_ends_as_an_interrupted_task(archive: MemoryArchive) -> None:
    world = World(archive=archive, kind="FARGATE")
    world.define("fargate", FARGATE)
    job = world.submit("fargate")
    world.begin(job)

    shown = again(world, archive).describe(job)

    assert (shown["status"], shown["statusReason"]) == (
        "FAILED",
        "Your Spot Task was interrupted.",
    )


def test_a_lost_attempt_is_retried_by_rule(archive: MemoryArchive) -> None:
    world = World(archive=archive)
    rules = [
        {"onStatusReason": "Host EC2*", "action": "RETRY"},
        {"onReason": "*", "action": "EXIT"},
    ]
    job = world.submit(retryStrategy={"attempts": 3, "evaluateOnExit": rules})
    world.begin(job)

    after = again(world, archive)

    assert after.status(job) == "STARTING"
    after.run(job)
    assert after.status(job) == "SUCCEEDED"
    assert len(after.describe(job)["attempts"]) == 2


def test_waiting_jobs_wait_again_in_their_order(archive: MemoryArchive) -> None:
    world = World(vcpus=2, archive=archive)
    running = [world.submit(), world.submit()]
    waiting = [world.submit() for _ in range(5)]
    for job in running:
        world.begin(job)

    after = again(world, archive)

    order = [task.labels for task in after.engine.started]
    assert [dict(labels)["job-id"] for labels in order] == waiting[:2]
    assert [after.status(job) for job in waiting[2:]] == ["RUNNABLE"] * 3
    after.run(waiting[0])
    assert after.status(waiting[2]) == "STARTING"


def test_an_array_goes_on_where_it_was(archive: MemoryArchive) -> None:
    world = World(vcpus=2, archive=archive)
    job = world.submit(arrayProperties={"size": 5})
    world.run(f"{job}:0")
    world.begin(f"{job}:1")

    after = again(world, archive)

    counts = after.describe(job)["arrayProperties"]["statusSummary"]
    assert counts == {
        "SUBMITTED": 0,
        "PENDING": 0,
        "RUNNABLE": 0,
        "STARTING": 2,
        "RUNNING": 0,
        "SUCCEEDED": 1,
        "FAILED": 2,
    }
    for index in (3, 4):
        after.run(f"{job}:{index}")
    assert after.status(job) == "FAILED"


def test_dependencies_are_remembered(archive: MemoryArchive) -> None:
    world = World(archive=archive)
    first = world.submit(retryStrategy={"attempts": 2})
    second = world.submit(dependsOn=[{"jobId": first}])
    pairs = world.submit(arrayProperties={"size": 2}, dependsOn=[{"type": "SEQUENTIAL"}])

    after = again(world, archive)

    assert after.status(second) == "PENDING"
    after.run(first)
    assert after.status(second) == "STARTING"
    assert after.status(pairs) == "FAILED"


def test_a_multi_node_job_restarts_as_a_whole(archive: MemoryArchive) -> None:
    world = World(archive=archive)
    world.define("gang", multinode(2))
    job = world.submit("gang", retryStrategy={"attempts": 2})
    world.begin(f"{job}#0")
    world.begin(f"{job}#1")

    after = again(world, archive)

    assert [after.status(one) for one in (job, f"{job}#0", f"{job}#1")] == [
        "STARTING",
        "STARTING",
        "RUNNABLE",
    ]
    after.begin(f"{job}#0")
    after.begin(f"{job}#1")
    after.end(f"{job}#0")
    after.obey()
    assert after.status(job) == "SUCCEEDED"


def test_a_termination_is_remembered(archive: MemoryArchive) -> None:
    world = World(archive=archive)
    job = world.submit(retryStrategy={"attempts": 3})
    world.begin(job)
    world.call("TerminateJob", jobId=job, reason="stop")

    shown = again(world, archive).describe(job)

    assert (shown["status"], shown["statusReason"]) == ("FAILED", "stop")


def test_ended_jobs_expire_after_a_restart_too(archive: MemoryArchive) -> None:
    world = World(archive=archive)
    job = world.submit()
    world.run(job)
    after = again(world, archive)

    after.turn(7 * 86_400.0)

    assert not after.knows(job)


def test_newest_first_still_holds_for_what_is_submitted_after_a_restart(
    archive: MemoryArchive,
) -> None:
    world = World(archive=archive)
    first = world.submit()
    after = again(world, archive)
    second = after.submit()

    filters = [{"name": "JOB_NAME", "values": ["job"]}]
    listed = after.call("ListJobs", jobQueue="main", filters=filters)["jobSummaryList"]

    assert [one["jobId"] for one in listed] == [second, first]


def test_a_job_whose_queue_has_gone_fails_instead_of_keeping_all_from_starting(
    archive: MemoryArchive,
) -> None:
    world = World(vcpus=2, archive=archive)
    other = world.add_queue("other")
    for _ in range(2):
        world.begin(world.submit())
    waiting = world.submit(jobQueue="other")
    assert world.status(waiting) == "RUNNABLE"
    world.catalog.remove(other)

    after = again(world, archive)

    shown = after.describe(waiting)
    assert (shown["status"], shown["statusReason"]) == (
        "FAILED",
        f"JobQueue {other.arn} not found.",
    )


def test_pages_go_on_after_a_restart(archive: MemoryArchive) -> None:
    world = World(archive=archive)
    jobs = [world.submit() for _ in range(3)]
    for job in jobs:
        world.run(job)
    asked = {"jobQueue": "main", "jobStatus": "SUCCEEDED", "maxResults": 2}
    first = world.call("ListJobs", **asked)

    rest = again(world, archive).call("ListJobs", **asked, nextToken=first["nextToken"])

    assert [one["jobId"] for one in rest["jobSummaryList"]] == jobs[:1]


def test_records_come_back_in_the_order_in_which_they_were_first_saved(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    store = SqliteArchive(path)
    for key in ("b", "a", "c"):
        store.save("job", key, {"key": key, "n": 1})
    store.save("queue", "b", {})
    store.commit()
    store.save("job", "b", {"key": "b", "n": 2})
    store.remove("job", "c")
    store.commit()
    store.save("job", "d", {"lost": True})
    store.close()

    loaded = list(SqliteArchive(path).load("job"))

    assert loaded == [("b", {"key": "b", "n": 2}), ("a", {"key": "a", "n": 1})]


def test_what_was_committed_survives_the_death_of_the_process(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    script = (
        "import sys, time\n"
        "from wherry.emulator.batch.archive import SqliteArchive\n"
        "store = SqliteArchive(sys.argv[1])\n"
        "for n in range(200):\n"
        "    store.save('job', str(n), {'n': n})\n"
        "    store.commit()\n"
        "store.save('job', 'late', {})\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, path], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process, process.stdout as out:
        assert out.readline() == "ready\n"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    store = SqliteArchive(path)
    assert [key for key, _ in store.load("job")] == [str(n) for n in range(200)]
    store.close()


def test_a_file_that_is_not_ours_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are not the jobs that you are looking for" * 50)

    with pytest.raises(LaunchError, match=r"notes\.txt"):
        SqliteArchive(str(path))
