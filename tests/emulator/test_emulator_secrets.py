"""Secrets reach a container as ECS brings them: from Secrets Manager and the parameter store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.cloud import client, emulator, lines, run, unique
from wherry.emulator.cloud.secrets import parse_secret_arn, secret
from wherry.emulator.server.emulator import Emulator

ROLE = "arn:aws:iam::123456789012:role/ecsTaskExecutionRole"


@pytest.fixture(scope="module")
def running() -> Iterator[Emulator]:
    with emulator() as made:
        yield made


@pytest.fixture
def manager(running: Emulator) -> Any:
    return client(running, "secretsmanager")


def made(manager: Any, value: str) -> str:
    return str(manager.create_secret(Name=unique("db"), SecretString=value)["ARN"])


def test_a_job_gets_a_secret_and_a_parameter(running: Emulator, manager: Any) -> None:
    name = unique("/app/token")
    client(running, "ssm").put_parameter(Name=name, Value="p4r", Type="SecureString")
    secrets = [
        {"name": "PASSWORD", "valueFrom": made(manager, json.dumps({"pw": "s3cr3t"})) + ":pw::"},
        {"name": "TOKEN", "valueFrom": name},
    ]

    job = run(
        client(running, "batch"),
        ["sh", "-c", "echo $PASSWORD $TOKEN"],
        secrets=secrets,
        executionRoleArn=ROLE,
    )

    assert lines(client(running, "logs"), job) == ["s3cr3t p4r"]


def test_a_job_whose_secret_is_missing_does_not_start(running: Emulator) -> None:
    arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:nope-AbCdEf"

    job = run(
        client(running, "batch"),
        ["true"],
        secrets=[{"name": "A", "valueFrom": arn}],
        executionRoleArn=ROLE,
    )

    assert job["status"] == "FAILED"
    assert job["statusReason"] == "Task failed to start"
    whole = (
        "ResourceInitializationError: unable to pull secrets or registry auth: execution resource"
        " retrieval failed: unable to retrieve secret from asm: service call has been retried 1"
        f" time(s): failed to fetch secret {arn} from secrets manager: ResourceNotFoundException:"
        " Secrets Manager can't find the specified secret."
    )
    # A reason has at most 255 characters (API reference, ContainerDetail.reason).
    assert job["container"]["reason"] == whole[:255]
    assert "exitCode" not in job["container"]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("", '{"user": "me", "port": 5}'),
        (":::", '{"user": "me", "port": 5}'),
        (":user::", "me"),
        (":port::", "5"),
        (":user:AWSCURRENT:", "me"),
    ],
)
def test_parts_after_the_arn_choose_what_is_given(manager: Any, after: str, expected: str) -> None:
    arn = made(manager, '{"user": "me", "port": 5}')

    assert secret(arn + after, "us-east-1") == expected


def test_an_earlier_version_can_be_asked_for(manager: Any) -> None:
    arn = made(manager, "old")
    manager.put_secret_value(SecretId=arn, SecretString="new")

    assert secret(arn, "us-east-1") == "new"
    assert secret(f"{arn}::AWSPREVIOUS:", "us-east-1") == "old"


def test_a_key_that_is_not_there_is_named(manager: Any) -> None:
    with pytest.raises(LookupError, match="did not contain json key nope"):
        secret(made(manager, "{}") + ":nope::", "us-east-1")


def test_a_key_of_what_is_no_json_is_refused(manager: Any) -> None:
    with pytest.raises(LookupError, match="invalid character"):
        secret(made(manager, "plain") + ":key::", "us-east-1")


def test_a_stage_that_does_not_exist_is_refused(manager: Any) -> None:
    with pytest.raises(LookupError, match="unable to retrieve secret from asm"):
        secret(made(manager, "x") + "::NOSUCH:", "us-east-1")


@pytest.mark.parametrize("form", ["{name}", "arn:aws:ssm:us-east-1:123456789012:parameter{name}"])
def test_a_parameter_is_found_by_name_and_by_arn(running: Emulator, form: str) -> None:
    name = unique("/a/b")
    client(running, "ssm").put_parameter(Name=name, Value="v", Type="String")

    assert secret(form.format(name=name), "us-east-1") == "v"


def test_a_parameter_without_slash_is_found_by_its_arn(running: Emulator) -> None:
    name = unique("plain")
    client(running, "ssm").put_parameter(Name=name, Value="v", Type="String")

    assert secret(f"arn:aws:ssm:us-east-1:123456789012:parameter/{name}", "eu-west-1") == "v"


def test_a_missing_parameter_is_named() -> None:
    with pytest.raises(LookupError, match="invalid parameters: /no/such"):
        secret("/no/such", "us-east-1")


def test_an_arn_of_something_else_is_refused() -> None:
    with pytest.raises(LookupError, match="invalid secret reference"):
        secret("arn:aws:s3:::bucket", "us-east-1")


def test_an_arn_is_taken_apart() -> None:
    ref = parse_secret_arn("arn:aws:secretsmanager:eu-west-1:1:secret:db-AbCdEf:user:STAGE:v1")

    assert ref is not None
    assert ref.arn == "arn:aws:secretsmanager:eu-west-1:1:secret:db-AbCdEf"
    assert (ref.region, ref.json_key, ref.stage, ref.version) == (
        "eu-west-1",
        "user",
        "STAGE",
        "v1",
    )
    assert parse_secret_arn("/a/parameter") is None
