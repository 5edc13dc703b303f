"""Images that come from a registry, which is a real one."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.engine import Bench, bench, client, container, image, require_engine
from support.waiting import until
from wherry.emulator.engines.api import FAILED_TO_START, ContainerEnd

CONFIGURATION = """
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "127.0.0.1:{port}"}}
log: {{level: error}}
"""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """A registry of this test's own; gives its address."""
    require_engine()
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("docker-registry is not installed (Debian: apt-get install docker-registry)")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    configuration = tmp_path / "registry.yml"
    configuration.write_text(CONFIGURATION.format(folder=tmp_path / "images", port=port))
    process = subprocess.Popen(
        [program, "serve", configuration], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def listens() -> bool:
        with socket.socket() as line:
            return line.connect_ex(("127.0.0.1", port)) == 0

    try:
        until(listens, "the registry")
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("ECS_CONTAINER_METADATA_URI_V4", "http://169.254.170.2/v4/host")
    with bench(tmp_path) as made:
        yield made


@pytest.fixture
def pushed(registry: str) -> Iterator[str]:
    """An image that is in the registry and nowhere else."""
    name = f"{registry}/team/tool"
    with client() as engine:
        engine.tag(image("busybox"), name, "1")
        try:
            engine.push(name, "1")
        finally:
            engine.remove_image(f"{name}:1")
        yield f"{name}:1"
        engine.remove_image(f"{name}:1")


def test_an_image_that_is_not_there_is_pulled_for_all_who_wait_for_it(
    docker: Bench, pushed: str
) -> None:
    waiting = [docker.start(container("echo", "pulled", image=pushed)) for _ in range(3)]

    for each in waiting:
        assert docker.end(each) == ContainerEnd(0)
        assert docker.output(each) == b"pulled\n"


def test_a_tag_that_does_not_exist_is_named_with_docker_s_own_words(
    docker: Bench, registry: str, pushed: str
) -> None:
    docker.run("true", image=pushed)

    made = docker.start(container("true", image=f"{registry}/team/tool:nothing"))

    ended = docker.ended(made)
    assert ended.reason == FAILED_TO_START
    why = ended.containers["default"]
    assert why.exit_code is None
    assert why.reason.startswith("CannotPullContainerError: Error response from daemon: manifest")
    assert "team/tool:nothing" in why.reason
