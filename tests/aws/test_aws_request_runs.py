"""Requests that are sent by an unmodified boto3 and run: what programs are told, in all kinds."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from support.batch_requests import app, made, role
from support.waiting import until
from wherry.emulator.server.emulator import Emulator
from wherry.emulator.settings import Settings
from wherry.schedulers.aws_batch import naming

TELL = """
import json, os, sys
known = {k: v for k, v in os.environ.items() if k.startswith(("WHERRY_", "MINE")) and v}
known.setdefault("MINE", "" if "MINE" in os.environ else "-")
print(json.dumps([sys.argv[1:], known]))
raise SystemExit(3 if os.environ["WHERRY_ATTEMPT"] == "1" and "fail-once" in sys.argv else 0)
"""


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator(Settings(port=0, engine="process", scale=20)) as running:
        yield running


@pytest.fixture
def client(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Any:
    boto3 = pytest.importorskip("boto3")
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    return boto3.session.Session()


def told(client, request) -> list[tuple[list[str], dict[str, str]]]:
    """Send a request, wait for its end, and give what each replica and attempt printed."""
    batch = client.client("batch")
    definition = request.definition()
    arn = batch.register_job_definition(**definition)["jobDefinitionArn"]
    ids = [batch.submit_job(**document)["jobId"] for document in request.submissions(arn)]
    for job in ids:
        until(lambda job=job: ended(batch, job), f"the end of {job}", seconds=60)
    return [
        tuple(json.loads(line))
        for job in ids
        for stream in streams(batch, job)
        for line in lines(client, stream)
    ]


def ended(batch, job):
    state = batch.describe_jobs(jobs=[job])["jobs"][0]["status"]
    assert state != "FAILED"
    return state == "SUCCEEDED"


def streams(batch, job) -> list[str]:
    found = batch.describe_jobs(jobs=[job])["jobs"][0]
    size = found.get("arrayProperties", {}).get("size", 0)
    nodes = found.get("nodeProperties", {}).get("numNodes", 0)
    ids = [f"{job}:{n}" for n in range(size)] or [f"{job}#{n}" for n in range(nodes)] or [job]
    each = batch.describe_jobs(jobs=ids)["jobs"]
    return [
        attempt["container"]["logStreamName"]
        for found in sorted(each, key=lambda one: ids.index(one["jobId"]))
        for attempt in found["attempts"]
    ]


def lines(client, stream) -> list[str]:
    logs = client.client("logs")

    def read():
        return logs.get_log_events(
            logGroupName="/aws/batch/job", logStreamName=stream, startFromHead=True
        )["events"]

    return [event["message"] for event in until(read, f"the log {stream}", seconds=20)]


def program(*args, script=TELL, **fields):
    return role(entrypoint=sys.executable, args=["-c", script, *args], **fields)


def fresh(whole, **options):
    return made(whole, token=naming.make_token(), **options)[0]


def test_a_single_replica_that_is_retried(client):
    request = fresh(app(program("", "fail-once", "${replica_id}", max_retries=1)))

    first, second = told(client, request)

    assert first[0] == second[0] == ["", "fail-once", "0"]
    assert [each[1]["WHERRY_ATTEMPT"] for each in (first, second)] == ["1", "2"]
    assert first[1]["WHERRY_REPLICA_ID"] == "0"
    assert first[1]["WHERRY_APP_ID"] == request.app_id


def test_the_children_of_an_array(client):
    whole = app(
        program("--n=${replica_id}", "two words", env={"MINE": "<${replica_id}>"}, num_replicas=3),
        array=True,
    )

    seen = told(client, fresh(whole))

    assert [words for words, _ in seen] == [[f"--n={n}", "two words"] for n in range(3)]
    assert [env["MINE"] for _, env in seen] == ["<0>", "<1>", "<2>"]
    assert {env["WHERRY_NUM_REPLICAS"] for _, env in seen} == {"3"}


# The main node's end stops the others, so it waits until they have spoken.
WORKER = TELL.replace("raise", "sys.stdout.flush(); open(sys.argv[1], 'w')\nraise")
LEADER = "import os, sys, time\nwhile len(os.listdir(sys.argv[2])) < 2: time.sleep(0.01)\n" + TELL


def test_the_nodes_of_a_gang_of_two_roles(client, tmp_path):
    leader = program("${replica_id}", str(tmp_path), name="leader", script=LEADER)
    worker = program(
        f"{tmp_path}/${{replica_id}}",
        name="worker",
        script=WORKER,
        num_replicas=2,
        env={"MINE": ""},
    )

    seen = told(client, fresh(app(leader, worker)))

    assert [words[0] for words, _ in seen] == ["0", f"{tmp_path}/0", f"{tmp_path}/1"]
    assert [env["WHERRY_ROLE_NAME"] for _, env in seen] == ["leader", "worker", "worker"]
    assert [env["WHERRY_NUM_REPLICAS"] for _, env in seen] == ["1", "2", "2"]
    assert [env["MINE"] for _, env in seen] == ["-", "", ""]
    assert seen[0][1]["WHERRY_RANK0_HOST"] == "localhost"
    assert all(env["WHERRY_RANK0_HOST"] for _, env in seen)
