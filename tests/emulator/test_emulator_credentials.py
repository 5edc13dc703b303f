"""Who a job is: the credentials of its role, at the address where ECS serves them."""

from __future__ import annotations

import datetime as dt
import sys
import uuid
from collections.abc import Iterator

import boto3
import pytest

from support.cloud import client, emulator, http, lines, run
from support.waiting import until
from wherry.emulator.clock import Clock
from wherry.emulator.cloud.credentials import LIFE, RENEW_BEFORE, Credentials
from wherry.emulator.cloud.surroundings import Cloud
from wherry.emulator.faults import Faults
from wherry.emulator.server.emulator import Emulator
from wherry.emulator.settings import Settings

ROLE = "arn:aws:iam::123456789012:role/wherry-job"
FETCH = (
    "import os, urllib.request as u;"
    " print(u.urlopen(os.environ['AWS_CONTAINER_CREDENTIALS_FULL_URI']).read().decode())"
)


@pytest.fixture(scope="module")
def running() -> Iterator[Emulator]:
    with emulator() as made:
        yield made


def cloud(endpoint: str) -> Cloud:
    return Cloud(Settings(), Clock(), lambda: endpoint, Faults())


def test_a_job_fetches_credentials_in_the_format_of_ecs(running: Emulator) -> None:
    import json

    job = run(client(running, "batch"), [sys.executable, "-c", FETCH], jobRoleArn=ROLE)

    found = json.loads(lines(client(running, "logs"), job)[0])
    assert set(found) == {"RoleArn", "AccessKeyId", "SecretAccessKey", "Token", "Expiration"}
    assert found["RoleArn"] == ROLE
    assert found["AccessKeyId"].startswith("ASIA")
    expires = dt.datetime.strptime(found["Expiration"], "%Y-%m-%dT%H:%M:%SZ")
    assert expires > dt.datetime.now(dt.timezone.utc).replace(tzinfo=None)


def test_a_job_without_a_role_on_fargate_gets_none(running: Emulator) -> None:
    job = run(
        client(running, "batch"),
        ["sh", "-c", "env | grep -cE 'CONTAINER_CREDENTIALS|ACCESS_KEY' || true"],
        queue="fargate",
        platform="FARGATE",
        executionRoleArn="arn:aws:iam::123456789012:role/ecsTaskExecutionRole",
    )

    assert lines(client(running, "logs"), job) == ["0"]


def test_a_job_without_a_role_on_ec2_is_its_instance(running: Emulator) -> None:
    program = "import boto3; print(boto3.client('sts').get_caller_identity()['Arn'])"

    job = run(client(running, "batch"), [sys.executable, "-c", program])

    identity = lines(client(running, "logs"), job)[0]
    assert identity.startswith("arn:aws:sts::123456789012:assumed-role/ecsInstanceRole/")


def test_credentials_are_gone_with_the_task(running: Emulator) -> None:
    program = "import os; print(os.environ['AWS_CONTAINER_CREDENTIALS_FULL_URI'])"
    job = run(client(running, "batch"), [sys.executable, "-c", program], jobRoleArn=ROLE)

    url = lines(client(running, "logs"), job)[0]

    until(lambda: http(url)[0] == 404, "the credentials to be withdrawn")


def test_an_address_that_nobody_was_given_has_nothing(running: Emulator) -> None:
    assert http(f"{running.url}/_wherry/credentials/{uuid.uuid4().hex}")[0] == 404


def test_the_same_credentials_come_until_they_are_about_to_expire() -> None:
    now = [1_700_000_000.0]
    credentials = Credentials(lambda: now[0])
    token = credentials.grant("task", "us-east-1", ROLE)

    first = credentials.fetch(token)
    now[0] += LIFE - RENEW_BEFORE - 1
    same = credentials.fetch(token)
    now[0] += 2
    renewed = credentials.fetch(token)

    assert first is not None
    assert renewed is not None
    assert same == first
    assert renewed["AccessKeyId"] != first["AccessKeyId"]
    assert renewed["Expiration"] > first["Expiration"]


def test_sts_knows_who_the_task_is_and_forgets_it(running: Emulator) -> None:
    credentials = Credentials(lambda: 1_700_000_000.0)
    token = credentials.grant("0123abcd", "us-east-1", ROLE)
    found = credentials.fetch(token) or {}

    def identity() -> str:
        session = boto3.Session(found["AccessKeyId"], found["SecretAccessKey"], found["Token"])
        sts = session.client("sts", endpoint_url=running.url, region_name="us-east-1")
        return str(sts.get_caller_identity()["Arn"])

    assert identity() == "arn:aws:sts::123456789012:assumed-role/wherry-job/0123abcd"
    credentials.revoke("0123abcd")
    assert credentials.fetch(token) is None
    assert "assumed-role" not in identity()


@pytest.mark.parametrize("host", ["127.0.0.1", "169.254.170.2"])
def test_where_sdks_accept_an_address_the_task_gets_one(host: str) -> None:
    found = cloud(f"http://{host}:4566").task_environment("t", "us-east-1", ROLE)

    address = found["AWS_CONTAINER_CREDENTIALS_FULL_URI"]
    assert address.startswith(f"http://{host}:4566/_wherry/credentials/")
    assert "AWS_ACCESS_KEY_ID" not in found


def test_where_they_do_not_it_gets_the_credentials_themselves() -> None:
    found = cloud("http://host.docker.internal:4566").task_environment("t", "us-east-1", ROLE)

    assert "AWS_CONTAINER_CREDENTIALS_FULL_URI" not in found
    assert found["AWS_ACCESS_KEY_ID"].startswith("ASIA")
    assert found["AWS_SESSION_TOKEN"]


def test_a_task_knows_endpoint_and_region() -> None:
    found = cloud("http://169.254.170.2:4566").task_environment("t", "eu-west-1", None)

    assert found["AWS_ENDPOINT_URL"] == "http://169.254.170.2:4566"
    assert found["AWS_REGION"] == found["AWS_DEFAULT_REGION"] == "eu-west-1"
    assert found["AWS_EXECUTION_ENV"].startswith("AWS_ECS_")
