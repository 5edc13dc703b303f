"""Faults of requests: what goes wrong on the way, for Batch and for all other services."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from support.cloud import client, define, emulator, unique
from wherry.emulator.faults import Fault
from wherry.emulator.server.emulator import Emulator


@pytest.fixture(scope="module")
def running() -> Iterator[Emulator]:
    with emulator() as made:
        yield made


@pytest.fixture(autouse=True)
def _clean(running: Emulator) -> Iterator[None]:
    yield
    running.faults.clear()


def refused(call: Any) -> tuple[str, int]:
    with pytest.raises(ClientError) as caught:
        call()
    answer = caught.value.response
    return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]


@pytest.mark.parametrize(
    ("kind", "code", "status"),
    [
        ("throttle", "TooManyRequestsException", 429),
        ("server-error", "ServerException", 500),
        ("access-denied", "AccessDeniedException", 403),
        ("expired-token", "ExpiredTokenException", 403),
    ],
)
def test_batch_refuses_in_its_own_way(running: Emulator, kind: str, code: str, status: int) -> None:
    running.faults.add(Fault(kind))

    assert refused(client(running, "batch").describe_job_queues) == (code, status)


@pytest.mark.parametrize(
    ("service", "operation", "code", "status"),
    [
        ("logs", "describe_log_groups", "ThrottlingException", 400),
        ("sts", "get_caller_identity", "ThrottlingException", 400),
        ("ec2", "describe_vpcs", "ThrottlingException", 400),
        ("s3", "list_buckets", "SlowDown", 503),
        ("iam", "list_roles", "ThrottlingException", 400),
    ],
)
def test_every_protocol_of_aws_can_read_a_refusal(
    running: Emulator, service: str, operation: str, code: str, status: int
) -> None:
    running.faults.add(Fault("throttle", service=service))

    assert refused(getattr(client(running, service), operation)) == (code, status)


def test_a_fault_is_of_the_operation_that_is_meant(running: Emulator) -> None:
    running.faults.add(Fault("throttle", operation="ListJobs"))
    running.faults.add(Fault("throttle", service="logs", operation="PutLogEvents"))
    running.faults.add(Fault("throttle", service="iam", operation="GetRole"))
    batch, iam = client(running, "batch"), client(running, "iam")

    assert batch.describe_job_queues()
    assert client(running, "logs").describe_log_groups()
    assert iam.list_roles()
    assert refused(lambda: batch.list_jobs(jobQueue="main"))[1] == 429
    assert refused(lambda: iam.get_role(RoleName="wherry-job"))[1] == 400


def test_a_fault_of_batch_leaves_other_services_alone(running: Emulator) -> None:
    running.faults.add(Fault("server-error"))

    assert client(running, "s3").list_buckets()
    assert client(running, "sts").get_caller_identity()


def test_a_fault_of_all_services_spares_none(running: Emulator) -> None:
    running.faults.add(Fault("access-denied", service="*"))

    assert refused(client(running, "s3").list_buckets)[1] == 403
    assert refused(client(running, "batch").describe_job_queues)[1] == 403


def test_a_client_that_retries_comes_through(running: Emulator) -> None:
    running.faults.add(Fault("throttle", times=2))
    batch = client(running, "batch", retries={"total_max_attempts": 5, "mode": "standard"})

    assert batch.describe_job_queues()["ResponseMetadata"]["RetryAttempts"] == 2


def test_every_second_request_can_be_struck(running: Emulator) -> None:
    running.faults.add(Fault("throttle", every=2))
    batch = client(running, "batch")

    assert batch.describe_job_queues()
    assert refused(batch.describe_job_queues)[1] == 429
    assert batch.describe_job_queues()


def test_a_lost_reply_comes_after_the_work(running: Emulator) -> None:
    batch = client(running, "batch")
    definition = define(batch, ["true"])
    running.faults.add(Fault("lost-reply", operation="SubmitJob", times=1))
    name = unique("job")

    with pytest.raises(ConnectionClosedError):
        batch.submit_job(jobName=name, jobQueue="main", jobDefinition=definition)

    filters = [{"name": "JOB_NAME", "values": [name]}]
    found = batch.list_jobs(jobQueue="main", filters=filters)["jobSummaryList"]
    assert [job["jobName"] for job in found] == [name]


def test_a_lost_reply_of_s3_has_put_the_object(running: Emulator) -> None:
    s3, key = client(running, "s3"), unique("key")
    running.faults.add(Fault("lost-reply", service="s3", times=1))

    with pytest.raises(ConnectionClosedError):
        s3.put_object(Bucket="wherry", Key=key, Body=b"there")

    assert s3.get_object(Bucket="wherry", Key=key)["Body"].read() == b"there"


def test_latency_comes_before_the_answer(running: Emulator) -> None:
    running.faults.add(Fault("latency", value="0.3", times=1))
    before = time.monotonic()

    client(running, "batch").describe_job_queues()

    assert time.monotonic() - before >= 0.3


def test_latency_goes_together_with_a_refusal(running: Emulator) -> None:
    running.faults.add(Fault("latency", value="0.2"))
    running.faults.add(Fault("throttle"))
    before = time.monotonic()

    assert refused(client(running, "batch").describe_job_queues)[1] == 429
    assert time.monotonic() - before >= 0.2


def test_the_admin_path_is_never_struck(running: Emulator) -> None:
    from support.cloud import http

    running.faults.add(Fault("server-error", service="*"))

    assert http(f"{running.url}/_wherry/health")[0] == 200
