"""Images pushed to a real registry, pulled back under their digest, and run."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.engine import client, image
from support.registry import registry
from wherry.errors import DockerError, RegistryError
from wherry.workspace.push import Pushed, push_image, push_images


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[str]:
    """A registry that lets in one user."""
    with registry(tmp_path / "closed", "ann", "sesame") as running:
        yield running


@pytest.fixture
def local() -> Iterator[str]:
    """An image that nobody else has."""
    name = f"wherry-test/local-{uuid.uuid4().hex[:8]}"
    text = f"FROM {image('busybox')}\nENV TOKEN={name}\nCMD echo $TOKEN"
    subprocess.run(
        ["docker", "build", "-q", "-t", name, "-"],
        input=text.encode(),
        check=True,
        capture_output=True,
    )
    yield name
    remove(name)


def remove(name: str) -> None:
    from docker.errors import ImageNotFound

    with client() as docker:
        try:
            docker.remove_image(name, force=True)
        except ImageNotFound:
            pass


def forget(repository: str, tag: str) -> None:
    """Remove what a push leaves behind on this machine."""
    remove(f"{repository}:{tag}")


def test_pushed_pulled_back_under_its_digest_and_run(host, local):
    repository = f"{host}/team/app"

    pushed = push_image(local, repository, "content-1")

    assert pushed.sent
    assert pushed.reference.startswith(f"{repository}@sha256:")
    forget(repository, "content-1")
    remove(local)
    subprocess.run(["docker", "pull", "-q", pushed.reference], check=True, capture_output=True)
    ran = subprocess.run(["docker", "run", "--rm", pushed.reference], capture_output=True)
    assert ran.stdout.decode() == f"{local}\n"
    remove(pushed.reference)


def test_what_the_registry_has_is_not_pushed_again(host, local, caplog):
    repository = f"{host}/team/twice"
    first = push_image(local, repository, "c")
    caplog.clear()

    again = push_image(local, repository, "c")

    assert again == Pushed(first.reference, sent=False)
    assert caplog.messages == []
    forget(repository, "c")


def test_a_tag_that_another_machine_pushed_needs_no_image_here(host, local):
    repository = f"{host}/team/theirs"
    first = push_image(local, repository, "c")
    forget(repository, "c")
    remove(local)

    assert push_image("not/here:at-all", repository, "c").reference == first.reference


def test_progress_is_told_unless_quiet(host, local, caplog):
    repository = f"{host}/team/told"
    push_image(local, repository, "loud")
    loud = list(caplog.messages)
    caplog.clear()
    push_image(local, repository, "quiet", quiet=True)

    assert loud[0] == f"pushing {repository}:loud"
    assert loud[1].startswith(f"pushed {repository}:loud: ")
    assert caplog.messages == []
    forget(repository, "loud")
    forget(repository, "quiet")


def test_layers_that_are_there_are_not_sent_again(host, local, caplog):
    repository = f"{host}/team/layers"
    push_image(image("busybox"), repository, "base", quiet=True)

    push_image(local, repository, "derived")

    assert "0 layers sent, 1 were there" in caplog.text
    forget(repository, "base")
    forget(repository, "derived")


def test_several_images_are_known_by_repository_and_tag(host, local):
    repository = f"{host}/team/several"

    found = push_images({local: (repository, "c")}, quiet=True)

    assert list(found) == [f"{repository}:c"]
    assert found[f"{repository}:c"].startswith(f"{repository}@sha256:")
    forget(repository, "c")


def test_a_login_that_is_handed_in_is_used(closed, local):
    repository = f"{closed}/team/app"
    asked = []

    def login_for(address: str) -> dict[str, str]:
        asked.append(address)
        return {"username": "ann", "password": "sesame"}

    pushed = push_image(local, repository, "c", login_for=login_for, quiet=True)

    assert pushed.sent
    assert asked == [repository]
    assert not push_image(local, repository, "c", login_for=login_for).sent
    forget(repository, "c")


def test_the_users_docker_login_is_used(closed, local, tmp_path, monkeypatch):
    login = base64.b64encode(b"ann:sesame").decode()
    keep_login(tmp_path, monkeypatch, {"auths": {closed: {"auth": login}}})

    assert push_image(local, f"{closed}/team/kept", "c", quiet=True).sent
    forget(f"{closed}/team/kept", "c")


def test_a_credential_helper_is_asked(closed, local, tmp_path, monkeypatch):
    answer = json.dumps({"ServerURL": closed, "Username": "ann", "Secret": "sesame"})
    helper = tmp_path / "bin" / "docker-credential-fortest"
    helper.parent.mkdir()
    helper.write_text(f"#!/bin/sh\necho '{answer}'\n")
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{helper.parent}:/usr/bin:/bin")
    keep_login(tmp_path, monkeypatch, {"credHelpers": {closed: "fortest"}})

    assert push_image(local, f"{closed}/team/helped", "c", quiet=True).sent
    forget(f"{closed}/team/helped", "c")


def test_without_a_login_the_way_to_one_is_told(closed, local, tmp_path, monkeypatch):
    keep_login(tmp_path, monkeypatch, {})
    repository = f"{closed}/team/app"

    with pytest.raises(RegistryError) as told:
        push_image(local, repository, "c", quiet=True)

    assert f"{repository}:c was not pushed: no basic auth credentials" in str(told.value)
    assert f"`docker login {closed}`" in str(told.value)
    forget(repository, "c")


def test_a_wrong_password_is_told_apart(closed, local):
    wrong = {"username": "ann", "password": "open"}

    with pytest.raises(RegistryError, match=r"unauthorized|no basic auth"):
        push_image(local, f"{closed}/team/app", "c", login_for=lambda _: wrong, quiet=True)
    forget(f"{closed}/team/app", "c")


def test_a_host_where_nobody_listens_is_named(local):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{probe.getsockname()[1]}"
        repository = f"{host}/app"

        with pytest.raises(RegistryError) as told:
            push_image(local, repository, "c", quiet=True)

    assert "connection refused" in str(told.value)
    assert f"Check that {host} is right" in str(told.value)
    forget(repository, "c")


def test_an_image_that_is_not_here_is_named(host):
    with pytest.raises(DockerError, match="there is no image 'no/such:image' on this machine"):
        push_image("no/such:image", f"{host}/team/none", "c", quiet=True)


def keep_login(folder: Path, monkeypatch: pytest.MonkeyPatch, config: dict) -> None:
    """Be a user whose docker command has this configuration."""
    (folder / "docker").mkdir()
    (folder / "docker" / "config.json").write_text(json.dumps(config))
    monkeypatch.setenv("DOCKER_CONFIG", str(folder / "docker"))
