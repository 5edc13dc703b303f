"""``wherry.emulator.running``: an AWS for as long as a block runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import wherry
from support.waiting import until
from wherry.emulator import Fault, Running, running
from wherry.errors import UsageError

REQUIREMENTS = [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "64"}]


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with wherry.emulator.running(engine="process", scale=60) as one:
        yield one


@pytest.fixture
def aws(shared: Running) -> Iterator[Running]:
    yield shared
    shared.faults.clear()
    shared.reset()


def submitted(aws: Running, *command: str, **more: Any) -> str:
    """Submit a command as a job; returns its id."""
    batch = aws.client("batch")
    batch.register_job_definition(
        jobDefinitionName="run",
        type="container",
        containerProperties={
            "image": "alpine",
            "command": list(command),
            "resourceRequirements": REQUIREMENTS,
        },
    )
    job = batch.submit_job(jobName="run", jobQueue="main", jobDefinition="run", **more)
    return str(job["jobId"])


def described(aws: Running, job: str) -> Any:
    return aws.client("batch").describe_jobs(jobs=[job])["jobs"][0]


def at_state(aws: Running, job: str, state: str) -> Any:
    return until(
        lambda: found if (found := described(aws, job))["status"] == state else None,
        f"{job} to be {state}",
    )


def test_a_job_runs_and_its_log_is_read(aws: Running) -> None:
    job = submitted(aws, "echo", "hello")

    stream = at_state(aws, job, "SUCCEEDED")["container"]["logStreamName"]

    events = aws.client("logs").get_log_events(
        logGroupName="/aws/batch/job", logStreamName=stream, startFromHead=True
    )["events"]
    assert [event["message"] for event in events] == ["hello"]


def test_the_processes_own_environment_is_left_alone(aws: Running) -> None:
    before = dict(os.environ)

    variables = aws.environment()

    assert variables["AWS_ENDPOINT_URL"] == aws.url
    assert dict(os.environ) == before


def test_the_environment_points_at_it_inside_the_block_when_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import boto3

    monkeypatch.setenv("AWS_PROFILE", "nobody")
    monkeypatch.setenv("AWS_ENDPOINT_URL_BATCH", "http://127.0.0.1:1")
    before = dict(os.environ)

    with running(engine="process", patch_environment=True) as aws:
        assert os.environ["AWS_ENDPOINT_URL"] == aws.url
        queues = boto3.client("batch").describe_job_queues()["jobQueues"]

    assert "main" in {queue["jobQueueName"] for queue in queues}
    assert dict(os.environ) == before


def test_a_client_ignores_what_the_user_has_set(
    aws: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")

    assert aws.client("sts").get_caller_identity()["Account"] == "123456789012"


def test_a_fault_lasts_as_long_as_its_block(aws: Running) -> None:
    from botocore.config import Config

    batch = aws.client("batch", config=Config(retries={"total_max_attempts": 1}))

    with aws.fault("server-error", operation="DescribeJobQueues"):
        with pytest.raises(batch.exceptions.ServerException):
            batch.describe_job_queues()

    assert batch.describe_job_queues()["jobQueues"]
    assert aws.faults.active() == []


def test_a_fault_that_is_spent_before_its_block_ends_is_no_error(aws: Running) -> None:
    from botocore.config import Config

    batch = aws.client("batch", config=Config(retries={"total_max_attempts": 1}))

    with aws.fault("throttle", times=1):
        with pytest.raises(batch.exceptions.ClientError, match="TooManyRequests"):
            batch.describe_job_queues()
        batch.describe_job_queues()


def test_faults_are_added_as_data(aws: Running) -> None:
    number = aws.faults.add(Fault("pull-failure", value="no such image", times=1))
    job = submitted(aws, "true")

    found = at_state(aws, job, "FAILED")

    assert number
    assert found["statusReason"] == "Task failed to start"
    assert found["container"]["reason"] == "CannotPullContainerError: no such image"


def test_a_misspelt_fault_is_answered_with_the_nearest(aws: Running) -> None:
    with pytest.raises(UsageError, match="did you mean 'throttle'"), aws.fault("throtle"):
        pass


def test_a_reclaimed_job_is_retried(aws: Running) -> None:
    job = submitted(aws, "sleep", "600", retryStrategy={"attempts": 2})
    at_state(aws, job, "RUNNING")

    assert aws.reclaim(job) == [job]

    found = until(
        lambda: found if len((found := described(aws, job))["attempts"]) == 1 else None,
        "the first attempt to end",
    )
    assert found["attempts"][0]["statusReason"].startswith("Host EC2 (instance i-")


def test_a_lost_agent_is_told(aws: Running) -> None:
    job = submitted(aws, "sleep", "600")
    at_state(aws, job, "RUNNING")

    aws.lose_agent(job)

    assert at_state(aws, job, "FAILED")["container"]["reason"] == "AGENT"


def test_ended_jobs_are_forgotten_on_demand_or_after_days(aws: Running) -> None:
    first, second = submitted(aws, "true"), submitted(aws, "true")
    for job in (first, second):
        at_state(aws, job, "SUCCEEDED")

    assert aws.expire(first) == 1
    assert len(aws.client("batch").describe_jobs(jobs=[first, second])["jobs"]) == 1

    aws.clock.advance(8 * 86400)
    until(
        lambda: not aws.client("batch").describe_jobs(jobs=[second])["jobs"],
        "the other to be forgotten",
    )


def test_reset_forgets_jobs(aws: Running) -> None:
    job = submitted(aws, "sleep", "600")
    at_state(aws, job, "RUNNING")

    aws.reset()

    assert aws.client("batch").describe_jobs(jobs=[job])["jobs"] == []
    assert not aws.status()["jobs"].get("RUNNING")


def test_two_run_side_by_side_and_nothing_is_left(aws: Running) -> None:
    threads = set(threading.enumerate())
    with running(engine="process") as other:
        job = submitted(other, "sleep", "600")
        at_state(other, job, "RUNNING")
        assert other.url != aws.url
        assert aws.client("batch").describe_jobs(jobs=[job])["jobs"] == []

    until(lambda: set(threading.enumerate()) <= threads, "its threads to be gone")
    with pytest.raises(OSError, match="refused"):
        _connect(other.url)


def _connect(url: str) -> None:
    import socket
    from urllib.parse import urlsplit

    at = urlsplit(url)
    socket.create_connection((at.hostname or "", at.port or 0)).close()


@pytest.mark.parametrize(
    ("setting", "problem"),
    [({"engine": "dokcer"}, "did you mean 'docker'"), ({"scale": 0}, "scale")],
)
def test_a_wrong_setting_is_refused(setting: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem), running(**setting):
        pass


def test_looking_at_the_room_loads_nothing_of_it() -> None:
    program = (
        "import json, sys, wherry; wherry.emulator\n"
        "print(json.dumps([name for name in sys.modules if name.startswith('wherry.emulator.')"
        " or name in ('moto', 'boto3', 'botocore', 'werkzeug', 'docker')]))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert json.loads(done.stdout) == []
