"""Pushing local images to a repository that others pull them from, by content and by digest.

An image is pushed under a tag that says what is in it, unless the repository has that tag; it is
used by the digest that the registry gives, which nobody can give to another image. The login is the
user's own (``docker login``, credential helpers), or one that is handed in, as for Amazon ECR.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wherry.errors import DockerError, RegistryError
from wherry.workspace.image_engine import distribution_digest, engine, read_news, tell, words_of
from wherry.workspace.image_pruning import note_pushed_name

if TYPE_CHECKING:
    from docker import APIClient

Login = Mapping[str, str]
"""A user's name and password, under ``username`` and ``password``."""

LoginFor = Callable[[str], "Login | None"]
"""Gives a login for a repository, and sees to it that there is one to push to; nothing where the
user's own login is to be used."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Pushed:
    """An image that a registry has.

    Args:
        reference: ``repository@sha256:…``.
        sent: whether it was not there before.
    """

    reference: str
    sent: bool


def push_image(
    image: str,
    repository: str,
    tag: str,
    *,
    login_for: LoginFor | None = None,
    client: APIClient | None = None,
    host: str | None = None,
    quiet: bool = False,
    say: Say | None = None,
) -> Pushed:
    """Push a local image, unless the repository has its tag.

    Args:
        image: its name or id on this machine.
        repository: where it goes, such as ``example.com/team/app``.
        tag: what is in it.
        login_for: gives logins that Docker does not keep.
        client: a client of the Engine; one of our own when not given.
        host: the Docker Engine's address; the usual one when not given.
        quiet: say nothing while it is pushed.
        say: is told how it goes; by default the logger ``wherry``, which writes to standard error
            where nobody has said otherwise.

    Raises:
        DockerError: there is no Docker Engine, or no such image.
        RegistryError: the registry refused, or does not answer.
    """
    login = login_for(repository) if login_for is not None else None
    told = _nothing if quiet else say or tell
    if client is not None:
        return _Push(client, repository, tag, login, told).push(image)
    with engine(host) as api:
        return _Push(api, repository, tag, login, told).push(image)


def push_images(
    images: Mapping[str, tuple[str, str]],
    *,
    login_for: LoginFor | None = None,
    client: Any = None,
    quiet: bool = False,
) -> dict[str, str]:
    """Push several local images; see `push_image`.

    Args:
        images: local image → repository and tag.
        login_for: gives logins that Docker does not keep.
        client: a client of the package docker; one of our own when not given.
        quiet: say nothing while they are pushed.

    Returns:
        Repository and tag → what to use in their place: ``repository@sha256:…``.
    """
    api = getattr(client, "api", client)
    return {
        f"{repository}:{tag}": push_image(
            image, repository, tag, login_for=login_for, client=api, quiet=quiet
        ).reference
        for image, (repository, tag) in images.items()
    }


class _Push:
    """One image on its way to one repository."""

    def __init__(
        self, api: APIClient, repository: str, tag: str, login: Login | None, say: Say
    ) -> None:
        self._api, self._say = api, say
        self._repository, self._tag = repository, tag
        self._login = dict(login) if login is not None else None
        self._where = f"{repository}:{tag}"

    def push(self, image: str) -> Pushed:
        """Push it, or find it there."""
        digest = self._digest_there()
        sent = not digest
        if sent:
            self._name(image)
            digest = self._send()
        return Pushed(f"{self._repository}@{digest}", sent)

    def _digest_there(self) -> str:
        """Return the digest that the registry has under the tag; empty when it has none.

        What is wrong with the registry, the push will say.
        """
        from docker.errors import APIError

        try:
            found = distribution_digest(self._api, self._where, self._login)
        except APIError:
            return ""
        return found

    def _name(self, image: str) -> None:
        from docker.errors import ImageNotFound, NotFound

        try:
            self._api.tag(image, self._repository, self._tag, force=True)
        except (ImageNotFound, NotFound):
            raise DockerError(f"there is no image {image!r} on this machine to push") from None
        note_pushed_name(self._where)

    def _send(self) -> str:
        from docker.errors import APIError

        self._say(f"pushing {self._where}")
        digest, layers, there = "", set(), set()
        try:
            news = self._api.push(
                self._repository,
                tag=self._tag,
                auth_config=self._login,
                stream=True,
                decode=True,
            )
            for line in read_news(news, RegistryError):
                digest = line.get("aux", {}).get("Digest", digest)
                if line.get("status") == "Pushed":
                    layers.add(line.get("id"))
                elif line.get("status") in ("Layer already exists", "Mounted from"):
                    there.add(line.get("id"))
        except (APIError, RegistryError) as error:
            raise self._refusal(words_of(error)) from None
        if not digest:
            raise RegistryError(f"{self._where} was pushed, and the registry told no digest")
        self._say(f"pushed {self._where}: {len(layers)} layers sent, {len(there)} were there")
        return str(digest)

    def _refusal(self, said: str) -> RegistryError:
        registry = self._repository.partition("/")[0]
        return RegistryError(
            f"{self._where} was not pushed: {said}. {_fix(said.lower(), registry)}"
        )


_FIXES = (
    (
        ("no basic auth", "unauthorized", "authentication required", "401"),
        "Log in first: `docker login {registry}`",
    ),
    (
        ("denied", "forbidden", "403", "not authorized"),
        "Log in to {registry} as one who may push (`docker login`), or set another image_repo",
    ),
    (
        ("name unknown", "does not exist", "not found", "404"),
        "Make the repository first, or set another image_repo",
    ),
    (
        ("no such host", "connection refused", "timeout", "server gave http response", "no route"),
        "Check that {registry} is right, and that the Docker Engine's machine reaches it",
    ),
    (("no space left",), "The disk of the registry or of the Docker Engine is full"),
)


def _fix(said: str, registry: str) -> str:
    for signs, fix in _FIXES:
        if any(sign in said for sign in signs):
            return fix.format(registry=registry)
    return "Check image_repo, and your login there"


def _nothing(_line: str) -> None:
    pass
