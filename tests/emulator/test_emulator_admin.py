"""The admin path: faults, actions and the clock over HTTP, for this machine alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from support.cloud import client, define, emulator, http, over, run
from support.waiting import until
from wherry.emulator.server.emulator import Emulator
from wherry.emulator.server.front import Front
from wherry.emulator.server.listening import LOCAL_ADDRESS


@pytest.fixture(scope="module")
def running() -> Iterator[Emulator]:
    with emulator() as made:
        yield made


@pytest.fixture(autouse=True)
def _clean(running: Emulator) -> Iterator[None]:
    yield
    running.faults.clear()
    running.clock.set_scale(1)


def admin(running: Emulator, method: str, path: str, body: Any = None, **headers: str) -> Any:
    return http(f"{running.url}/_wherry/{path}", method, body, **headers)[:2]


def test_it_says_that_it_is_there(running: Emulator) -> None:
    assert admin(running, "GET", "health") == (200, {"status": "ok"})


def test_the_status_tells_engine_queues_jobs_and_how_to_get_there(running: Emulator) -> None:
    run(client(running, "batch"), ["true"])

    status, found = admin(running, "GET", "status")

    assert status == 200
    assert found["engine"] == "process"
    assert found["jobs"]["SUCCEEDED"] >= 1
    assert {queue["name"] for queue in found["queues"]} >= {"main", "spot", "fargate"}
    assert found["environment"] == running.environment()
    assert found["scale"] == 1


def test_a_fault_is_added_listed_and_removed(running: Emulator) -> None:
    _, added = admin(running, "POST", "faults", {"kind": "throttle", "rate": 0.5, "times": 2})
    _, listed = admin(running, "GET", "faults")

    fault = listed["faults"][0]
    assert (fault["number"], fault["kind"], fault["struck"]) == (added["number"], "throttle", 0)
    assert (fault["rate"], fault["times"]) == (0.5, 2)
    assert admin(running, "DELETE", f"faults/{added['number']}")[0] == 200
    assert admin(running, "GET", "faults")[1] == {"faults": []}


def test_all_faults_are_removed_at_once(running: Emulator) -> None:
    for kind in ("throttle", "latency"):
        admin(running, "POST", "faults", {"kind": kind})

    assert admin(running, "DELETE", "faults")[0] == 200
    assert running.faults.active() == []


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("POST", "faults", {"kind": "trottle"}, "did you mean 'throttle'"),
        ("POST", "faults", {"kind": "throttle", "rat": 1}, "did you mean 'rate'"),
        ("POST", "faults", {"kind": "throttle", "rate": "often"}, "rate is a number"),
        ("POST", "faults", {"value": "x"}, "has a kind"),
        ("DELETE", "faults/99", None, "no fault 99"),
        ("DELETE", "faults/x", None, "have numbers"),
        ("POST", "actions/explode", {"x": 1}, "unknown action"),
        ("POST", "actions/reclaim", {"x": 1}, "unknown member"),
        ("POST", "actions/reclaim", {"target": "nobody"}, "nobody"),
        ("POST", "actions/lose-agent", {"job": "nobody"}, "nobody"),
        ("POST", "actions/expire", {"job": "nobody"}, "nobody"),
        ("POST", "actions/expire?region=moon", {}, "moon"),
        ("POST", "clock", {"scale": -1}, "scale"),
        ("POST", "clock", {"advance": -1}, "forward"),
        ("POST", "faults", b"{", "not JSON"),
    ],
)
def test_what_cannot_be_done_says_why(
    running: Emulator, method: str, path: str, body: Any, said: str
) -> None:
    status, found = admin(running, method, path, body if body is not None else None)

    assert status == 400
    assert said in found["error"]


def test_a_path_that_does_not_exist_says_which_do(running: Emulator) -> None:
    status, found = admin(running, "GET", "nothing")

    assert status == 404
    assert "GET status" in found["error"]


def test_the_clock_jumps_and_goes_faster(running: Emulator) -> None:
    _, before = admin(running, "GET", "clock")
    _, after = admin(running, "POST", "clock", {"advance": 3600, "scale": 10})

    assert after["now"] - before["now"] >= 3600
    assert after["scale"] == running.clock.scale == 10


def test_a_reclaimed_instance_takes_its_job_with_it(running: Emulator) -> None:
    batch = client(running, "batch")
    job = _started(running, batch)

    status, found = admin(running, "POST", "actions/reclaim", {"target": job})

    assert (status, found["jobs"]) == (200, [job])
    ended = over(batch, job)
    assert ended["statusReason"].startswith("Host EC2 (instance i-")
    assert "exitCode" not in ended["container"]


def test_a_lost_agent_is_the_reason_of_the_container(running: Emulator) -> None:
    batch = client(running, "batch")
    job = _started(running, batch)

    assert admin(running, "POST", "actions/lose-agent", {"job": job})[0] == 200

    assert over(batch, job)["container"]["reason"] == "AGENT"


def test_an_expired_job_is_not_known_any_more(running: Emulator) -> None:
    batch = client(running, "batch")
    job = run(batch, ["true"])["jobId"]

    status, found = admin(running, "POST", "actions/expire", {"job": job})

    assert (status, found) == (200, {"expired": 1})
    assert batch.describe_jobs(jobs=[job])["jobs"] == []


def test_an_action_is_for_the_region_that_is_named(running: Emulator) -> None:
    here, there = client(running, "batch"), client(running, "batch", "eu-west-1")
    run(here, ["true"])
    run(there, ["true"])

    _, found = admin(running, "POST", "actions/expire?region=eu-west-1", {})

    assert found == {"expired": 1}


def test_a_reset_goes_back_to_the_start(running: Emulator) -> None:
    batch = client(running, "batch")
    job = run(batch, ["true"])["jobId"]
    admin(running, "POST", "faults", {"kind": "throttle", "operation": "SubmitJob"})

    assert admin(running, "POST", "actions/reset", {})[0] == 200

    assert batch.describe_jobs(jobs=[job])["jobs"] == []
    assert running.faults.active() == []
    assert run(batch, ["true"])["status"] == "SUCCEEDED"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "169.254.170.2:4566"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
    ],
)
def test_web_pages_and_other_names_are_refused(running: Emulator, headers: dict[str, str]) -> None:
    status, found = admin(running, "GET", "status", **headers)

    assert status == 403
    assert "environment" not in found


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_pages_of_this_machine_are_welcome(running: Emulator, host: str) -> None:
    origin = f"http://{host}:3000"

    assert admin(running, "GET", "health", Origin=origin)[0] == 200


def test_a_job_in_a_container_cannot_reach_it(running: Emulator) -> None:
    front = running._listener._app
    assert isinstance(front, Front)
    statuses: list[str] = []
    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": "/_wherry/status",
        "HTTP_HOST": "localhost",
        LOCAL_ADDRESS: "169.254.170.2",
    }

    front(environ, lambda status, headers, _=None: statuses.append(status))

    assert statuses == ["403 Forbidden"]


def _started(running: Emulator, batch: Any) -> str:
    program = define(batch, [sys.executable, "-c", "import time; time.sleep(1000)"])
    job = str(batch.submit_job(jobName="long", jobQueue="main", jobDefinition=program)["jobId"])
    until(
        lambda: batch.describe_jobs(jobs=[job])["jobs"][0]["status"] == "RUNNING",
        "the job to run",
    )
    return job
