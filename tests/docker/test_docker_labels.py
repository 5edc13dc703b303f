"""Apps without a record here: told, listed, cancelled and forgotten from the Engine alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.docker_bench import Bench
from support.waiting import until
from wherry.errors import StateError, UnknownAppError, UnknownNameError
from wherry.schedulers.docker import DockerScheduler
from wherry.specs import AppState, Resource


def lose_record(app_id: str) -> None:
    shutil.rmtree(Path(os.environ["WHERRY_HOME"], "apps", app_id))


def test_an_app_nobody_knows_is_none_and_never_a_success(bench: Bench) -> None:
    scheduler = bench.scheduler

    assert scheduler.describe("never-was") is None
    assert scheduler.statuses(["never-was"]) == {"never-was": None}
    assert not scheduler.exists("never-was")
    for ask in (scheduler.cancel, scheduler.forget, scheduler.why):
        with pytest.raises(UnknownAppError):
            ask("never-was")
    with pytest.raises(UnknownAppError):
        scheduler.log_iter("never-was", "role")


def test_an_ended_app_is_told_by_its_containers(bench: Bench) -> None:
    by_record = bench.run("exit 3", replicas=2, array=True, env={"A": "1"})
    app_id = by_record.app_id
    lose_record(app_id)

    told = DockerScheduler("elsewhere").describe(app_id)

    assert told is not None
    assert (told.state, told.to_status().exit_code) == (AppState.FAILED, 3)
    assert "exited with code 3" in told.msg
    assert told.app == by_record.app
    (role,) = told.roles_statuses
    assert [[a.exit_code for a in one.attempts] for one in role.replicas] == [[3], [3]]
    times = (told.created_at, told.started_at, told.ended_at)
    assert list(times) == sorted(times)  # type: ignore[type-var]
    assert told.metadata["session"] == "test"


def test_out_of_memory_is_told_by_the_engine_too(bench: Bench) -> None:
    app_id = bench.run("tail /dev/zero", resource=Resource(memMB=16)).app_id
    lose_record(app_id)

    told = DockerScheduler("elsewhere").describe(app_id)

    assert told is not None
    assert "out of memory: the limit is 16 MiB" in told.msg


def test_a_running_app_of_another_home_is_told_waited_for_and_cancelled(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app_id = bench.start("echo ready; sleep 1000", replicas=2)
    bench.wait_for_line(app_id, "ready", 1)
    home = os.environ["WHERRY_HOME"]
    monkeypatch.setenv("WHERRY_HOME", str(tmp_path / "another-home"))
    elsewhere = DockerScheduler("elsewhere")

    told = elsewhere.describe(app_id)
    assert told is not None
    assert told.state is AppState.RUNNING
    assert [app.state for app in elsewhere.unrecorded() if app.app_id == app_id] == [
        AppState.RUNNING
    ]
    with pytest.raises(StateError, match="cancel it first"):
        elsewhere.forget(app_id)
    with pytest.raises(UnknownNameError, match="did you mean 'role'"):
        elsewhere.log_iter(app_id, "rule")

    elsewhere.cancel(app_id, "from elsewhere")
    elsewhere.wait_for_change(app_id, 60, until_end=True)

    monkeypatch.setenv("WHERRY_HOME", home)
    ended = bench.end(app_id)
    assert (ended.state, ended.msg) == (AppState.CANCELLED, "from elsewhere")


def test_an_app_without_any_record_is_cancelled_by_its_containers(bench: Bench) -> None:
    app_id = bench.start("echo ready; sleep 1000", replicas=2)
    bench.wait_for_line(app_id, "ready", 1)
    bench.scheduler.detach(app_id)
    lose_record(app_id)
    scheduler = DockerScheduler("elsewhere")

    scheduler.cancel(app_id, "the first reason")
    scheduler.cancel(app_id, "the second reason")

    told = until(
        lambda: (d := scheduler.describe(app_id)) and d.to_status().is_terminal() and d, "its end"
    )
    assert (told.state, told.msg) == (AppState.CANCELLED, "the first reason")
    scheduler.forget(app_id)
    assert scheduler.describe(app_id) is None
    assert bench.containers(app_id) == []


def test_the_command_line_lists_and_reads_what_has_no_record(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app_id = bench.run("echo hello").app_id
    monkeypatch.setenv("WHERRY_HOME", str(tmp_path / "another-home"))

    def wherry(*words: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "wherry.cli", *words], capture_output=True, text=True, check=True
        ).stdout

    listed = json.loads(wherry("list", "-s", "local_docker", "--limit", "0", "--json"))
    assert app_id in [one["app_id"] for one in listed]
    handle = f"local_docker://test/{app_id}"
    assert json.loads(wherry("status", handle, "--json"))["state"] == "SUCCEEDED"
    assert wherry("log", handle).endswith("hello\n")
    assert json.loads(wherry("list", "--limit", "0", "--json")) == []
