"""Podman's socket serves as Docker's does."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.docker_bench import Bench
from support.engine import image
from support.waiting import until
from wherry.schedulers.docker import DockerScheduler
from wherry.specs import AppState

# What Podman asks for by itself may be more than a container's host allows.
LIMITS = {"nofile": (1024, 1024), "nproc": (1024, 1024)}


@pytest.fixture
def podman(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Run Podman's service with a store of its own, in which the small image is."""
    if shutil.which("podman") is None or os.getuid() != 0:
        pytest.skip("there is no podman, or this is not root: `apt-get install podman`")
    name = image("busybox")
    short = tempfile.mkdtemp(prefix="wp-", dir="/tmp")  # Podman takes no long ones.
    store = ["podman", "--root", f"{short}/root", "--runroot", f"{short}/run"]
    store += ["--tmpdir", f"{short}/tmp", "--storage-driver", "vfs"]
    saved = subprocess.run(["docker", "save", name], check=True, capture_output=True).stdout
    subprocess.run([*store, "load"], input=saved, check=True, capture_output=True)
    # What has no registry in its name is Docker Hub's for an Engine.
    there = f"docker.io/{name}:latest"
    subprocess.run([*store, "tag", f"localhost/{name}:latest", there], check=True)
    door = tmp_path / "podman.sock"
    with (tmp_path / "podman.log").open("wb") as log:
        service = subprocess.Popen(
            [*store, "system", "service", "--time", "0", f"unix://{door}"],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        until(door.exists, "Podman's socket")
        with monkeypatch.context() as patch:
            patch.setenv("DOCKER_HOST", f"unix://{door}")
            yield bench
            bench.clear()
            bench.started.clear()
    finally:
        service.terminate()
        service.wait()
        subprocess.run([*store, "rm", "--all", "--force"], check=False, capture_output=True)
        shutil.rmtree(short, ignore_errors=True)


def test_apps_run_end_and_are_told(podman: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    app_id = podman.start("echo out; echo err >&2; exit 3", {"pull": "never"}, ulimits=LIMITS)

    ended = podman.end(app_id)

    assert (ended.state, ended.to_status().exit_code) == (AppState.FAILED, 3)
    assert podman.log(app_id, stream="stdout") == "out\n"
    assert podman.log(app_id, stream="stderr") == "err\n"
    monkeypatch.setenv("WHERRY_HOME", f"{podman.folder}/another-home")
    elsewhere = DockerScheduler("elsewhere")
    told = elsewhere.describe(app_id)
    assert told is not None
    assert (told.state, told.to_status().exit_code) == (AppState.FAILED, 3)
    assert list(elsewhere.log_iter(app_id, "role", streams=None)) != []


def test_a_gang_is_reached_by_name_and_cancelled(podman: Bench) -> None:
    script = "echo ready; until nslookup $$WHERRY_RANK0_HOST; do sleep 0.1; done; sleep 1000"
    app_id = podman.start(script, {"pull": "never"}, replicas=2, ulimits=LIMITS)
    podman.wait_for_line(app_id, "Name:", 1)

    podman.scheduler.cancel(app_id, "enough")

    ended = podman.end(app_id)
    assert (ended.state, ended.msg) == (AppState.CANCELLED, "enough")
    assert podman.running(app_id) == []
