"""The service: lock, control thread, operations and actions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.emulated import (
    FARGATE,
    REGION,
    SIMPLE,
    FakeEngine,
    FakeSurroundings,
    HandClock,
    World,
)
from support.waiting import until
from wherry.emulator.batch import actions, expiry
from wherry.emulator.batch.errors import ClientError
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.service import BatchService
from wherry.emulator.engines.api import (
    ESSENTIAL_EXITED,
    ContainerEnd,
    Mount,
    Task,
    TaskEnded,
    TaskEvent,
    TaskStarted,
)
from wherry.emulator.faults import Faults
from wherry.emulator.settings import Settings
from wherry.errors import StateError, UnknownNameError


class QuickEngine(FakeEngine):
    """Ends every task with 0 as soon as it starts, from another thread; can be told to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.tell: Callable[[TaskEvent], None] = lambda _event: None
        self.waits = False

    def start(self, task: Task) -> None:
        super().start(task)
        if not self.waits:
            threading.Thread(target=self._run, args=(task,)).start()

    def stop(self, task_id: str, grace: float) -> None:
        super().stop(task_id, grace)
        self.tell(TaskEnded(task_id, ESSENTIAL_EXITED, {"default": ContainerEnd(143)}))

    def lose(self, task_id: str, reason: str) -> None:
        super().lose(task_id, reason)
        self.tell(TaskEnded(task_id, reason, {}))

    def _run(self, task: Task) -> None:
        self.tell(TaskStarted(task.id, "127.0.0.1"))
        self.tell(TaskEnded(task.id, ESSENTIAL_EXITED, {"default": ContainerEnd(0)}))


class Bench:
    """A started service with an engine and a clock turned by hand."""

    def __init__(self, efs_root: str = "") -> None:
        self.engine = QuickEngine()
        self.clock = HandClock()
        self.faults = Faults()
        self.service = BatchService(
            REGION,
            self.engine,
            FakeSurroundings(),
            self.clock,
            self.faults,
            Settings(),
            efs_root=efs_root,
        )
        self.engine.tell = self.service.on_task_event
        World.furnish(self.service.catalog)
        self.service.start()

    def submit(self, **params: Any) -> str:
        request = {"jobName": "job", "jobQueue": "main", "jobDefinition": "simple", **params}
        return str(self.service.call("SubmitJob", request)["jobId"])

    def describe(self, job: str) -> Document:
        found: list[Document] = self.service.call("DescribeJobs", {"jobs": [job]})["jobs"]
        return found[0]

    def wait(self, job: str, status: str) -> Document:
        until(lambda: self.describe(job)["status"] == status, f"{job} to be {status}")
        return self.describe(job)


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.service.close()


def test_a_job_runs_without_anybody_driving(bench: Bench) -> None:
    shown = bench.wait(bench.submit(), "SUCCEEDED")

    assert shown["container"]["exitCode"] == 0


def test_the_thread_ends_with_the_service(bench: Bench) -> None:
    name = f"wherry-batch-{REGION}"  # another emulator of this process may have one too
    its = [thread for thread in threading.enumerate() if thread.name == name]
    assert its

    bench.service.close()
    bench.service.close()

    assert len([thread for thread in its if thread.is_alive()]) == len(its) - 1


def test_an_unknown_operation_is_refused_by_name(bench: Bench) -> None:
    with pytest.raises(ClientError, match="MakeCoffee"):
        bench.service.call("MakeCoffee", {})


def test_operations_on_resources_come_through_the_same_door(bench: Bench) -> None:
    answer = bench.service.call("DescribeJobQueues", {"jobQueues": ["main"]})

    assert [queue["jobQueueName"] for queue in answer["jobQueues"]] == ["main"]


def test_a_task_is_owned_while_it_runs(bench: Bench) -> None:
    bench.engine.waits = True
    job = bench.submit()
    task = until(lambda: list(bench.engine.tasks), "the task to start")[0]
    assert bench.service.owns(task)
    assert not bench.service.owns("f" * 32)

    bench.service.call("TerminateJob", {"jobId": job, "reason": "x"})
    bench.wait(job, "FAILED")

    assert not bench.service.owns(task)


def test_a_jump_of_the_clock_wakes_what_is_due(bench: Bench) -> None:
    bench.engine.waits = True
    job = bench.submit(timeout={"attemptDurationSeconds": 60})
    task = until(lambda: list(bench.engine.tasks), "the task to start")[0]
    bench.service.on_task_event(TaskStarted(task, "127.0.0.1"))
    bench.wait(job, "RUNNING")

    bench.clock.advance(60)

    shown = bench.wait(job, "FAILED")
    assert shown["statusReason"] == "Job attempt duration exceeded timeout"


def test_reclaiming_a_jobs_instance_ends_its_attempt(bench: Bench) -> None:
    bench.engine.waits = True
    job = bench.submit()
    until(lambda: bench.engine.tasks, "the task to start")

    assert bench.service.reclaim(job) == [job]

    reason = bench.wait(job, "FAILED")["statusReason"]
    assert reason.startswith("Host EC2 (instance i-")
    assert reason.endswith(") terminated.")


def test_expire_makes_room_at_once(bench: Bench) -> None:
    job = bench.submit()
    bench.wait(job, "SUCCEEDED")

    assert bench.service.expire(job) == 1
    assert bench.service.call("DescribeJobs", {"jobs": [job]}) == {"jobs": []}


def test_status_counts_jobs_by_state(bench: Bench) -> None:
    bench.wait(bench.submit(), "SUCCEEDED")
    bench.engine.waits = True
    job = bench.submit()
    until(lambda: bench.engine.tasks and bench.describe(job)["status"] == "STARTING", "a start")

    status = bench.service.status()

    assert status["jobs"]["SUCCEEDED"] == 1
    assert status["queues"]["main"]["STARTING"] == 1
    assert [job] in status["instances"].values()


def test_file_systems_that_jobs_share_are_in_the_folder_that_the_service_was_given(
    tmp_path: Path,
) -> None:
    bench = Bench(efs_root=str(tmp_path))
    bench.engine.waits = True
    try:
        volume = {"name": "v", "efsVolumeConfiguration": {"fileSystemId": "fs-1"}}
        mount = {"sourceVolume": "v", "containerPath": "/data"}
        properties = {**SIMPLE["containerProperties"], "volumes": [volume], "mountPoints": [mount]}
        bench.service.call(
            "RegisterJobDefinition",
            {
                "jobDefinitionName": "shared",
                "type": "container",
                "containerProperties": properties,
            },
        )
        bench.submit(jobDefinition="shared")
        [task] = until(lambda: list(bench.engine.started), "the task to start")
    finally:
        bench.service.close()

    assert task.containers[0].mounts == (Mount("/data", str(tmp_path / "fs-1")),)
    assert (tmp_path / "fs-1").is_dir()


def test_an_environment_in_which_jobs_run_is_not_deleted() -> None:
    world = World()
    job = world.submit()
    arn = world.catalog.environment("ce").arn
    assert world.catalog.in_use(arn)

    world.run(job)

    assert not world.catalog.in_use(arn)


def test_many_threads_submit_at_once_and_nothing_is_lost(bench: Bench) -> None:
    ids: list[str] = []
    threads = [
        threading.Thread(target=lambda: ids.extend(bench.submit() for _ in range(25)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    until(lambda: bench.service.status()["jobs"]["SUCCEEDED"] == 200, "all jobs to succeed")
    assert len(set(ids)) == 200


# -- actions, on a world without threads ----------------------------------------------------------


def test_a_reclaimed_instance_takes_all_its_jobs_which_are_retried_by_rule() -> None:
    world = World(vcpus=8)
    rules = [
        {"onStatusReason": "Host EC2*", "action": "RETRY"},
        {"onReason": "*", "action": "EXIT"},
    ]
    strategy = {"attempts": 2, "evaluateOnExit": rules}
    jobs = [world.submit(retryStrategy=strategy) for _ in range(2)]
    for job in jobs:
        world.begin(job)
    places = {flight.place.instance_id for flight in world.plane.flights.values()}
    assert len(places) == 1, "an m5.large holds both"

    lost = actions.reclaim(world.plane, places.pop())
    world.settle()
    world.obey()

    assert sorted(lost) == sorted(jobs)
    assert [world.status(job) for job in jobs] == ["STARTING", "STARTING"]
    for job in jobs:
        world.run(job)
        attempt = world.describe(job)["attempts"][0]
        assert attempt["statusReason"].startswith("Host EC2 (instance i-")
        assert "exitCode" not in attempt["container"]


def test_on_fargate_only_the_job_itself_is_interrupted() -> None:
    world = World(kind="FARGATE_SPOT")
    world.define("fargate", FARGATE)
    job, other = world.submit("fargate"), world.submit("fargate")
    world.begin(job)
    world.begin(other)

    assert actions.reclaim(world.plane, job) == [job]
    world.settle()
    world.obey()

    assert world.describe(job)["statusReason"] == "Your Spot Task was interrupted."
    assert world.status(other) == "RUNNING"


def test_a_lost_agent_leaves_the_reason_agent_and_no_exit_code() -> None:
    world = World()
    rules = [
        {"onReason": "AGENT", "action": "RETRY"},
        {"onReason": "*", "action": "EXIT"},
    ]
    job = world.submit(retryStrategy={"attempts": 3, "evaluateOnExit": rules})
    world.begin(job)

    actions.lose_agent(world.plane, job)
    world.settle()
    world.obey()

    attempt = world.describe(job)["attempts"][0]
    assert attempt["container"]["reason"] == "AGENT"
    assert "exitCode" not in attempt["container"]
    assert world.status(job) == "STARTING"


def test_actions_take_the_arn_of_a_job() -> None:
    world = World()
    job = world.submit()
    world.begin(job)
    arn = world.describe(job)["jobArn"]

    actions.lose_agent(world.plane, arn)
    world.settle()
    world.obey()
    assert world.describe(job)["container"]["reason"] == "AGENT"

    assert expiry.expire(world.plane, arn) == 1
    assert not world.knows(job)


def test_actions_on_what_does_not_run_say_so() -> None:
    world = World(vcpus=2)
    job = world.submit()
    world.run(job)

    with pytest.raises(StateError, match="SUCCEEDED"):
        actions.reclaim(world.plane, job)
    with pytest.raises(StateError, match="SUCCEEDED"):
        actions.lose_agent(world.plane, job)
    with pytest.raises(UnknownNameError, match="i-123"):
        actions.reclaim(world.plane, "i-123")
    with pytest.raises(UnknownNameError, match="nobody"):
        actions.lose_agent(world.plane, "nobody")


def test_a_defect_of_the_engine_is_said_in_the_status_and_stops_nobody(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start = bench.engine.start

    def broken(task: Task) -> None:
        monkeypatch.setattr(bench.engine, "start", start)
        raise RuntimeError("out of coffee")

    monkeypatch.setattr(bench.engine, "start", broken)
    bench.submit()

    until(lambda: bench.service.status()["notes"], "the note")

    (note,) = bench.service.status()["notes"]
    assert "RuntimeError: out of coffee" in note
    assert "control thread" in caplog.text
    bench.wait(bench.submit(), "SUCCEEDED")
