"""Pushing to Amazon ECR: its API is emulated, and a real registry stands in for the push."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.engine import client, image, require_engine
from support.registry import registry
from wherry.aws.session import Session
from wherry.emulator.server.emulator import Emulator
from wherry.emulator.settings import Settings
from wherry.errors import AwsError, RegistryError
from wherry.workspace.push import push_image
from wherry.workspace.push_ecr import ecr_login, ecr_logins, ecr_repository

HOST = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    with Emulator(Settings(port=0, engine="process")) as running:
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        yield Session(region="eu-west-1")


@pytest.mark.parametrize(
    ("address", "name", "region"),
    [
        (f"{HOST}/app", "app", "eu-west-1"),
        (f"{HOST}/team/app", "team/app", "eu-west-1"),
        ("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/app", "app", "cn-north-1"),
        ("123456789012.dkr.ecr-fips.us-east-1.amazonaws.com/app", "app", "us-east-1"),
        ("123456789012.dkr-ecr.us-east-1.on.aws/app", "app", "us-east-1"),
    ],
)
def test_an_address_of_ecr_is_taken_apart(address, name, region):
    found = ecr_repository(address)

    assert found is not None
    assert (found.account, found.name, found.region) == ("123456789012", name, region)


@pytest.mark.parametrize(
    "address",
    [
        "example.com/app",
        "public.ecr.aws/team/app",
        "app",
        f"{HOST}",
        f"evil.com/{HOST}/app",
        f"{HOST}.evil.com/app",
    ],
)
def test_other_registries_are_left_to_the_users_login(address):
    def never(_region: str) -> Session:
        raise AssertionError("nobody has to be asked")

    assert ecr_repository(address) is None
    assert ecr_logins(lambda region: never(region).calls("ecr"))(address) is None


def test_a_repository_that_is_not_there_is_made_once(aws):
    login_for = ecr_logins(lambda _region: aws.calls("ecr"))

    first, again = login_for(f"{HOST}/team/new"), login_for(f"{HOST}/team/new")

    found = aws.calls("ecr").call("DescribeRepositories")["repositories"]
    assert [entry["repositoryName"] for entry in found] == ["team/new"]
    assert first == again == {"username": "AWS", "password": "123456789012-auth-token"}


def test_the_repositorys_own_region_is_asked(aws):
    asked = []

    def calls_in(region: str):
        asked.append(region)
        return aws.calls("ecr")

    ecr_logins(calls_in)("123456789012.dkr.ecr.ap-south-1.amazonaws.com/app")

    assert asked == ["ap-south-1"]


def test_the_login_of_ecr_opens_the_registry(aws, tmp_path: Path):
    require_engine()
    repository = ecr_repository(f"{HOST}/app")
    assert repository is not None
    local = f"wherry-test/ecr-{uuid.uuid4().hex[:8]}"
    subprocess.run(["docker", "tag", image("busybox"), local], check=True)
    with registry(tmp_path / "registry", "AWS", "123456789012-auth-token") as host:
        pushed = push_image(
            local,
            f"{host}/app",
            "c",
            login_for=lambda _: ecr_login(repository, aws.calls("ecr")),
            quiet=True,
        )

    assert pushed.sent
    with client() as docker:
        for name in (local, f"{host}/app:c"):
            docker.remove_image(name, force=True)


class Refusing:
    """Amazon ECR of somebody who may do nothing but what is listed."""

    def __init__(self, **answers: object) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def call(self, operation: str, /, **params: object) -> dict:
        self.asked.append(operation)
        answer = self.answers.get(operation)
        if isinstance(answer, dict):
            return answer
        raise AwsError(f"{operation} was refused", code=str(answer or "AccessDeniedException"))


TOKEN = {"authorizationData": [{"authorizationToken": "QVdTOnNlY3JldA=="}]}


def test_who_may_not_look_may_push_all_the_same():
    calls = Refusing(GetAuthorizationToken=TOKEN)
    repository = ecr_repository(f"{HOST}/app")

    assert ecr_login(repository, calls) == {"username": "AWS", "password": "secret"}
    assert calls.asked == ["DescribeRepositories", "GetAuthorizationToken"]


def test_a_repository_that_may_not_be_made_is_told_with_the_command():
    calls = Refusing(DescribeRepositories="RepositoryNotFoundException")

    with pytest.raises(RegistryError) as told:
        ecr_login(ecr_repository(f"{HOST}/team/app"), calls)

    command = "aws ecr create-repository --region eu-west-1 --repository-name team/app"
    assert command in str(told.value)
    assert "CreateRepository was refused" in str(told.value)


def test_somebody_else_who_made_it_at_the_same_time_is_no_trouble():
    calls = Refusing(
        DescribeRepositories="RepositoryNotFoundException",
        CreateRepository="RepositoryAlreadyExistsException",
        GetAuthorizationToken=TOKEN,
    )

    assert ecr_login(ecr_repository(f"{HOST}/app"), calls)["password"] == "secret"


def test_no_login_names_the_permission():
    calls = Refusing(DescribeRepositories={})

    with pytest.raises(RegistryError, match="ecr:GetAuthorizationToken"):
        ecr_login(ecr_repository(f"{HOST}/app"), calls)
