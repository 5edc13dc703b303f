"""An emulator with a state folder is killed while jobs run, and started again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from support.waiting import until
from wherry.emulator import record

COMMAND = (sys.executable, "-m", "wherry.cli", "emulator")
PATIENCE = 60.0
JOBS = 50
LOST = re.compile(r"Host EC2 \(instance i-[0-9a-f]+\) terminated\.")
SLEEP = f"{10_000 + os.getpid()}.25"
"""What the jobs sleep; nobody else on this machine sleeps as long."""


def emulator(*words: str) -> str:
    done = subprocess.run(
        [*COMMAND, *words],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"wherry emulator {' '.join(words)}: {done.stderr}"
    return done.stdout


@pytest.fixture(autouse=True)
def of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Let nobody else's emulator be found, and leave none behind."""
    monkeypatch.setenv("WHERRY_RUNTIME_DIR", str(tmp_path / "run"))
    yield
    own = record.find()
    if own is not None:
        record.end(own, signal.SIGKILL, PATIENCE)


def start(state: Path, *options: str) -> None:
    words = ("--detach", "--port", "0", "--engine", "process", "--state", str(state))
    emulator("start", *words, *options)


def batch() -> Any:
    given = json.loads(emulator("env", "--shell", "json"))
    return boto3.client(
        "batch",
        endpoint_url=given["AWS_ENDPOINT_URL"],
        aws_access_key_id=given["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=given["AWS_SECRET_ACCESS_KEY"],
        region_name=given["AWS_DEFAULT_REGION"],
        config=Config(proxies={}),
    )


def kill() -> None:
    """Kill the emulator's own process, and nothing else."""
    own = record.find()
    assert own is not None
    record.end(own, signal.SIGKILL, PATIENCE)


def answers() -> bool:
    own = record.find()
    return own is not None and bool(own.url)


def define(client: Any, name: str, command: list[str]) -> None:
    client.register_job_definition(
        jobDefinitionName=name,
        type="container",
        containerProperties={
            "image": "busybox",
            "command": command,
            "resourceRequirements": [
                {"type": "VCPU", "value": "1"},
                {"type": "MEMORY", "value": "16"},
            ],
        },
    )


def submit(client: Any, count: int, definition: str = "long", **more: Any) -> list[str]:
    return [
        client.submit_job(
            jobName=f"job-{number}", jobQueue="main", jobDefinition=definition, **more
        )["jobId"]
        for number in range(count)
    ]


def described(client: Any, jobs: list[str]) -> list[dict[str, Any]]:
    found = {job["jobId"]: job for job in client.describe_jobs(jobs=jobs)["jobs"]}
    assert sorted(found) == sorted(jobs)
    return [found[job] for job in jobs]


def states(client: Any, jobs: list[str]) -> Counter[str]:
    return Counter(job["status"] for job in described(client, jobs))


def sleepers() -> list[int]:
    """Return the processes that the jobs of this test have started."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if words[:2] == [b"sleep", SLEEP.encode()]:
            found.append(int(entry.name))
    return found


def test_a_killed_emulator_leaves_no_process_and_knows_its_jobs_when_it_is_back(tmp_path: Path):
    start(tmp_path / "state", "--vcpus", str(JOBS))
    client = batch()
    define(client, "long", ["sleep", SLEEP])
    define(client, "short", ["true"])
    rules = [
        {"onStatusReason": "Host EC2*", "action": "RETRY"},
        {"onReason": "*", "action": "EXIT"},
    ]
    (done,) = submit(client, 1, "short")
    until(lambda: states(client, [done])["SUCCEEDED"], "the end of the short job")
    retried = submit(client, 5, retryStrategy={"attempts": 2, "evaluateOnExit": rules})
    lost = submit(client, JOBS - 5)
    waiting = submit(client, 5)
    running = retried + lost
    until(lambda: states(client, running)["RUNNING"] == JOBS, f"{JOBS} jobs to run", PATIENCE)
    until(lambda: len(sleepers()) == JOBS, "their processes")
    before = described(client, [done])

    kill()

    until(lambda: not sleepers(), "no process of a job to be left", PATIENCE)
    start(tmp_path / "state", "--vcpus", str(JOBS))
    client = batch()
    for job in described(client, lost):
        assert job["status"] == "FAILED"
        assert "exitCode" not in job["container"]
        assert [attempt["statusReason"] for attempt in job["attempts"]] == [job["statusReason"]]
        assert LOST.fullmatch(job["statusReason"])
    until(lambda: states(client, retried + waiting)["RUNNING"] == 10, "the others to run", PATIENCE)
    for job in described(client, retried):
        assert LOST.fullmatch(job["attempts"][0]["statusReason"])
    assert described(client, [done]) == before

    emulator("stop")
    assert sleepers() == []


def test_ctrl_c_at_the_terminal_ends_the_emulator_and_all_that_its_jobs_started():
    words = ("start", "--port", "0", "--engine", "process", "--vcpus", str(JOBS))
    process = subprocess.Popen(
        [*COMMAND, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        until(answers, "the emulator", PATIENCE)
        client = batch()
        define(client, "long", ["sh", "-c", f"trap '' TERM; sleep {SLEEP} & sleep {SLEEP}"])
        jobs = submit(client, JOBS)
        until(lambda: states(client, jobs)["RUNNING"] == JOBS, f"{JOBS} jobs to run", PATIENCE)
        until(lambda: len(sleepers()) == 2 * JOBS, "their processes")

        os.killpg(process.pid, signal.SIGINT)

        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert b"Traceback" not in errors
    assert process.returncode in (0, 130, -signal.SIGINT)
    assert sleepers() == []
