"""Pushing local images to the repository that AWS pulls them from."""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Mapping

from wherry.aws.documents import Client
from wherry.aws.session import Session
from wherry.errors import AwsError, LaunchError

_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?(/|\Z)"
)


def push_images(
    images: Mapping[str, tuple[str, str]],
    aws: Session,
    client: Client | None = None,
    *,
    quiet: bool = False,
) -> None:
    """Tag local images and push them; logs in to Amazon ECR where the repository is there.

    Args:
        images: local image → repository and tag.
        aws: gives the login for ECR.
        client: a Docker client; the environment's when not given.
        quiet: whether nothing is said while it is pushed.

    Raises:
        LaunchError: there is no Docker Engine, no such image, or the registry refused it.
    """
    docker = client if client is not None else _docker()
    for image, (repository, tag) in images.items():
        _tag(docker, image, repository, tag)
        if not quiet:
            logging.getLogger("wherry").warning("pushing %s:%s", repository, tag)
        _push(docker, repository, tag, _login(repository, aws))


def _docker() -> Client:
    try:
        import docker
    except ImportError:
        raise LaunchError(
            "pushing an image needs the package docker; install it with: "
            "pip install 'wherry[docker]'"
        ) from None
    try:
        return docker.from_env()
    except docker.errors.DockerException as error:
        raise LaunchError(f"there is no Docker Engine to push the image from: {error}") from error


def _tag(docker: Client, image: str, repository: str, tag: str) -> None:
    try:
        docker.images.get(image).tag(repository, tag=tag)
    except Exception as error:  # of a package that is not loaded here
        raise LaunchError(f"image {image} cannot be tagged {repository}:{tag}: {error}") from error


def _push(docker: Client, repository: str, tag: str, login: dict[str, str] | None) -> None:
    try:
        told = docker.images.push(repository, tag=tag, auth_config=login, stream=True, decode=True)
        lines = list(told)
    except Exception as error:
        raise LaunchError(f"{repository}:{tag} cannot be pushed: {error}") from error
    for line in lines:
        if line.get("error"):
            raise LaunchError(f"{repository}:{tag} was not pushed: {line['error']}")


def _login(repository: str, aws: Session) -> dict[str, str] | None:
    """Return a login for Amazon ECR; nothing for other registries, whose login Docker keeps."""
    found = _ECR.match(repository)
    if found is None:
        return None
    try:
        answer = aws.calls("ecr").call("GetAuthorizationToken")
    except AwsError as error:
        raise LaunchError(f"no login for {repository}: {error}") from error
    token = answer["authorizationData"][0]["authorizationToken"]
    user, _, password = base64.b64decode(token).decode().partition(":")
    return {"username": user, "password": password}
