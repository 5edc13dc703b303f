"""What is wrong is told before anything is started, with its name and what to do."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.docker_bench import Bench, docker
from support.engine import image
from support.registry import registry
from wherry.errors import DockerError, LaunchError, RegistryError
from wherry.schedulers.docker import DockerScheduler
from wherry.specs import AppDef, AppState, Resource, Role, parse_mounts
from wherry.specs.diagnosis import Certainty


@pytest.fixture
def pushed(bench: Bench, tmp_path: Path) -> Iterator[str]:
    """Push the small image to a registry with a login; return its name there, not kept here."""
    with registry(tmp_path / "registry", "ann", "sesame") as host:
        name = f"{host}/team/small:{bench.mark}"
        config = tmp_path / "docker"
        log_in(config, host)
        docker("tag", image("busybox"), name)
        subprocess.run(
            ["docker", "--config", str(config), "push", "--quiet", name],
            check=True,
            capture_output=True,
        )
        docker("image", "rm", name)
        yield name
        bench.clear()
        subprocess.run(["docker", "image", "rm", name], check=False, capture_output=True)


def log_in(config: Path, host: str) -> None:
    config.mkdir()
    word = base64.b64encode(b"ann:sesame").decode()
    (config / "config.json").write_text(json.dumps({"auths": {host: {"auth": word}}}))


def refused(bench: Bench, error: type[Exception], words: str, *given: Any, **fields: Any) -> str:
    with pytest.raises(error, match=words) as caught:
        bench.start("true", *given, **fields)
    assert list(bench.scheduler.recorded()) == []
    return str(caught.value)


# -- the Engine -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("unix:///nowhere/docker.sock", "no Docker Engine answers at unix:///nowhere/docker.sock"),
        ("tcp://127.0.0.1:1", "no Docker Engine answers at tcp://127.0.0.1:1"),
        ("ssh://me@there", "forward its socket"),
        ("floppy://disk", "expected unix:///PATH or tcp://HOST:PORT"),
    ],
)
def test_an_engine_that_is_not_there(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, host: str, words: str
) -> None:
    app = bench.app("true")
    with monkeypatch.context() as patch:
        patch.setenv("DOCKER_HOST", host)
        info = bench.scheduler.submit_dryrun(app, {})
        with pytest.raises(DockerError, match=words):
            bench.scheduler.schedule(info)
        (finding,) = bench.scheduler.preflight(info)
        assert (finding.code, finding.certainty) == ("no-engine", Certainty.CERTAIN)
        assert list(bench.scheduler.list()) == []


def test_a_socket_that_one_may_not_use(bench: Bench, tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become somebody who may not")
    door = Path("/tmp") / f"wherry-{bench.mark}.sock"
    script = (
        "import json, os, sys\n"
        "from wherry.engine.docker.connection import Engine\n"
        "from wherry.errors import DockerError\n"
        "os.setuid(65534)\n"
        "try: Engine(sys.argv[1]).request('GET', '/info')\n"
        "except DockerError as error: print(error)\n"
    )
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(door))
        listening.listen()
        door.chmod(0)
        try:
            made = subprocess.run(
                [sys.executable, "-c", script, f"unix://{door}"],
                capture_output=True,
                text=True,
                check=False,
                cwd="/",
            )
        finally:
            door.unlink()

    assert "you may not use the Docker Engine" in made.stdout
    assert "group docker" in made.stdout


# -- images ---------------------------------------------------------------------------------------


def test_an_image_that_is_not_here_and_may_not_be_pulled(bench: Bench) -> None:
    message = refused(
        bench, LaunchError, "pull=never", {"pull": "never"}, image="wherry-test/busybax"
    )

    assert "wherry-test/busybax" in message
    assert "did you mean 'wherry-test/busybox'" in message


def test_an_image_that_the_registry_does_not_have(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pushed: str
) -> None:
    host = pushed.partition("/")[0]
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))

    message = refused(bench, LaunchError, "no image", image=f"{host}/team/smell:1")

    assert f"{host}/team/smell:1" in message
    assert "check its name" in message


def test_a_registry_that_is_not_there(bench: Bench) -> None:
    message = refused(bench, RegistryError, "is not reached", image="127.0.0.1:1/team/app:1")

    assert "127.0.0.1:1/team/app:1" in message


def test_a_registry_that_refuses(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pushed: str
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "nobody"))

    message = refused(bench, RegistryError, "refuses the image", image=pushed)

    assert f"docker login {pushed.partition('/')[0]}" in message


def test_an_image_is_pulled_with_the_users_login_when_it_is_missing(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pushed: str
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))

    assert bench.out("echo pulled", image=pushed) == "pulled\n"
    assert bench.out("echo again", {"pull": "always"}, image=pushed) == "again\n"
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "nobody"))
    assert bench.out("echo kept", image=pushed) == "kept\n"
    assert "pull=missing uses it" in refused_pull(bench, pushed)


def refused_pull(bench: Bench, name: str) -> str:
    with pytest.raises(RegistryError) as caught:
        bench.start("true", {"pull": "always"}, image=name)
    return str(caught.value)


def test_an_image_of_another_platform_is_not_taken(bench: Bench) -> None:
    refused(bench, LaunchError, "not for linux/s390x", {"platform": "linux/s390x", "pull": "never"})


# -- the machine ----------------------------------------------------------------------------------


def test_a_mount_whose_source_is_missing(bench: Bench) -> None:
    (bench.folder / "data").mkdir()

    message = refused(
        bench, LaunchError, "does not exist", mounts=parse_mounts("type=bind,src=date,dst=/data")
    )

    assert f"{bench.folder}/date" in message
    assert f"did you mean {bench.folder}/data" in message


def test_a_device_that_is_missing(bench: Bench) -> None:
    mounts = parse_mounts("type=device,src=/dev/no-such-device")

    refused(bench, LaunchError, "no device /dev/no-such-device", mounts=mounts)


def test_what_the_machine_is_too_small_for_is_warned_of(bench: Bench) -> None:
    app = bench.app("true", resource=Resource(cpu=1000, memMB=1 << 30))

    info = bench.scheduler.settled(bench.scheduler.submit_dryrun(app, {}))

    assert any("MiB of memory" in warning for warning in info.warnings)
    assert any("1000 cores" in warning for warning in info.warnings)
    assert "too-large" in [finding.code for finding in bench.scheduler.preflight(info)]


def test_more_cores_than_there_are_means_all_of_them(bench: Bench) -> None:
    assert bench.run("true", resource=Resource(cpu=1000)).state is AppState.SUCCEEDED


def test_what_would_keep_it_from_running_is_foreseen(bench: Bench) -> None:
    role = Role(
        "role",
        image="wherry-test/no-such-image",
        entrypoint="true",
        mounts=parse_mounts("type=bind,src=/no/such/folder,dst=/x"),
    )
    info = bench.scheduler.submit_dryrun(AppDef("app", [role]), {"pull": "never"})

    findings = {one.code: one.certainty for one in bench.scheduler.preflight(info)}

    assert findings == {"no-image": Certainty.CERTAIN, "no-mount-source": Certainty.CERTAIN}


def test_a_missing_program_is_explained(bench: Bench) -> None:
    role = Role("role", image=image("busybox"), entrypoint="no-such-program")
    app_id = bench.start(AppDef("app", [role]))

    ended = bench.end(app_id)

    assert ended.to_status().exit_code == 127
    cause = DockerScheduler("any").why(app_id).cause
    assert cause is not None
    assert cause.code == "not-found"
