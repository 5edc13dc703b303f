"""Amazon ECR as a place to push to: the login that lasts for hours, and repositories as needed."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from wherry.errors import AwsError, RegistryError

if TYPE_CHECKING:
    from wherry.workspace.push import Login, LoginFor

_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr[.-]ecr(-fips)?\.(?P<region>[a-z0-9-]+)"
    r"\.(amazonaws\.com(\.cn)?|on\.aws)/(?P<name>[^:@]+)\Z"
)


class EcrCalls(Protocol):
    """Calls of Amazon ECR in one region."""

    def call(self, operation: str, /, **params: Any) -> dict[str, Any]:
        """Ask Amazon ECR for something."""


@dataclass(frozen=True)
class EcrRepository:
    """A repository of Amazon ECR, as its address says it.

    Args:
        account: the number of the account that it belongs to.
        region: its region.
        name: its name there.
    """

    account: str
    region: str
    name: str


def ecr_repository(address: str) -> EcrRepository | None:
    """Take the address of a repository apart; ``None`` when it is not one of Amazon ECR.

    >>> ecr_repository("123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/app").name
    'team/app'
    """
    found = _ECR.match(address)
    return EcrRepository(found["account"], found["region"], found["name"]) if found else None


def ecr_logins(calls_in: Callable[[str], EcrCalls]) -> LoginFor:
    """Make what logs in to repositories of Amazon ECR, and to no others.

    Args:
        calls_in: gives the calls of Amazon ECR in a region.
    """

    def login_for(address: str) -> Login | None:
        repository = ecr_repository(address)
        return None if repository is None else ecr_login(repository, calls_in(repository.region))

    return login_for


def ecr_login(repository: EcrRepository, calls: EcrCalls) -> Login:
    """Return a login for a repository, which is made when it is not there.

    Raises:
        RegistryError: AWS gives no login, or does not let the repository be made.
    """
    ensure_repository(repository, calls)
    try:
        answer = calls.call("GetAuthorizationToken")
    except AwsError as error:
        raise RegistryError(
            f"no login for {repository.name} in Amazon ECR: {error}. Pushing there needs the "
            "permission ecr:GetAuthorizationToken"
        ) from error
    token = answer["authorizationData"][0]["authorizationToken"]
    user, _, password = base64.b64decode(token).decode().partition(":")
    return {"username": user, "password": password}


def ensure_repository(repository: EcrRepository, calls: EcrCalls) -> None:
    """Make a repository unless it is there, or we may not look.

    Raises:
        RegistryError: it is not there, and may not be made.
    """
    name, account = repository.name, repository.account
    try:
        calls.call("DescribeRepositories", registryId=account, repositoryNames=[name])
        return
    except AwsError as error:
        if error.code != "RepositoryNotFoundException":
            return  # who may push need not be allowed to look; the push will tell
    try:
        calls.call("CreateRepository", registryId=account, repositoryName=name)
    except AwsError as error:
        if error.code != "RepositoryAlreadyExistsException":
            raise RegistryError(
                f"the repository {name} is not there in Amazon ECR of account {account}, "
                f"{repository.region}, and could not be made: {error}. Make it with "
                f"`aws ecr create-repository --region {repository.region} --repository-name {name}`"
            ) from error
