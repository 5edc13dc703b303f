"""The port: who answers what, over connections that stay open, and nothing left at the end."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from support.cloud import client, define, emulator, lines, over, run, unique
from support.cloud import http as ask
from support.engine import image
from support.waiting import until
from wherry.emulator.cloud import moto
from wherry.emulator.server.emulator import Emulator
from wherry.emulator.settings import Settings
from wherry.errors import LaunchError, UsageError


@pytest.fixture(scope="module")
def running() -> Iterator[Emulator]:
    with emulator() as made:
        yield made


def test_a_job_runs_from_registration_to_its_log(running: Emulator) -> None:
    batch, logs = client(running, "batch"), client(running, "logs")

    job = run(batch, ["sh", "-c", "echo one; echo two"])

    assert job["status"] == "SUCCEEDED"
    assert job["container"]["exitCode"] == 0
    assert lines(logs, job) == ["one", "two"]


def test_a_job_finds_aws_without_being_told(running: Emulator) -> None:
    batch, logs = client(running, "batch"), client(running, "logs")
    program = (
        "import boto3; print(boto3.client('sts').get_caller_identity()['Arn']);"
        " print(boto3.client('batch').meta.region_name)"
    )

    job = run(
        batch,
        [sys.executable, "-c", program],
        jobRoleArn="arn:aws:iam::123456789012:role/wherry-job",
    )

    identity, region = lines(logs, job)
    task = job["container"]["taskArn"].rpartition("/")[2]
    assert identity == f"arn:aws:sts::123456789012:assumed-role/wherry-job/{task}"
    assert region == "us-east-1"


def test_a_container_reaches_aws_and_not_the_admin_path() -> None:
    image_name = image("busybox")
    program = (
        "wget -qO- $ECS_CONTAINER_METADATA_URI_V4/task; echo;"
        " wget -qO- $AWS_ENDPOINT_URL/_wherry/status 2>&1"
    )
    with emulator(engine="docker") as made:
        batch, logs = client(made, "batch"), client(made, "logs")

        job = run(batch, ["sh", "-c", program], image=image_name)

        metadata, refused = lines(logs, job)
        assert json.loads(metadata)["TaskARN"] == job["container"]["taskArn"]
        assert "403" in refused
        assert len(made.status()["addresses"]) == 2


def test_a_refusal_reaches_botocore_with_code_message_and_request_id(running: Emulator) -> None:
    batch = client(running, "batch")

    with pytest.raises(batch.exceptions.ClientException) as caught:
        batch.submit_job(jobName="a", jobQueue="nobody", jobDefinition="nothing")

    error = caught.value.response
    assert error["Error"]["Code"] == "ClientException"
    assert error["Error"]["Message"]
    assert error["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert error["ResponseMetadata"]["RequestId"]


def test_an_unsigned_request_to_batch_is_for_the_emulators_region(running: Emulator) -> None:
    status, body, headers = ask(f"{running.url}/v1/describejobqueues", "POST", {"x": 1})

    assert status == 200
    assert {queue["jobQueueName"] for queue in body["jobQueues"]} >= {"main"}
    assert all(":us-east-1:" in queue["jobQueueArn"] for queue in body["jobQueues"])
    assert headers["x-amzn-RequestId"]


def test_each_region_has_a_batch_of_its_own(running: Emulator) -> None:
    here, there = client(running, "batch"), client(running, "batch", "eu-central-1")
    name = define(here, ["true"]).rpartition("/")[2].partition(":")[0]

    found = there.describe_job_definitions(jobDefinitionName=name)

    assert found["jobDefinitions"] == []
    queue = there.describe_job_queues(jobQueues=["main"])["jobQueues"][0]
    assert ":eu-central-1:" in queue["jobQueueArn"]


@pytest.mark.parametrize("region", ["moon-1", "us-west-99", "..", "US-EAST-1"])
def test_a_region_that_does_not_exist_is_refused(running: Emulator, region: str) -> None:
    scope = f"AWS4-HMAC-SHA256 Credential=A/20260101/{region}/batch/aws4_request, Signature=x"

    status, body, _ = ask(f"{running.url}/v1/listjobs", "POST", {"a": 1}, Authorization=scope)

    assert status == 400
    assert "region" in body["message"]


def test_tags_of_an_arn_with_slashes_are_found(running: Emulator) -> None:
    batch = client(running, "batch")
    arn = define(batch, ["true"])

    batch.tag_resource(resourceArn=arn, tags={"team": "a b"})

    assert batch.list_tags_for_resource(resourceArn=arn)["tags"] == {"team": "a b"}


def test_what_is_no_operation_of_batch_says_so(running: Emulator) -> None:
    scope = "AWS4-HMAC-SHA256 Credential=A/20260101/us-east-1/batch/aws4_request, Signature=x"

    status, body, headers = ask(f"{running.url}/v1/nothing", "POST", {}, Authorization=scope)

    assert status == 404
    assert headers["x-amzn-ErrorType"] == "UnknownOperationException"
    assert "/v1/nothing" in body["message"]


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"jobs": 3}'])
def test_a_body_that_cannot_be_read_is_refused(running: Emulator, body: bytes) -> None:
    status, answer, _ = ask(f"{running.url}/v1/describejobs", "POST", body)

    assert status == 400
    assert answer["message"]


def test_a_web_page_of_another_origin_cannot_run_jobs(running: Emulator) -> None:
    url = f"{running.url}/v1/submitjob"

    status, body, headers = ask(url, "POST", {"jobName": "a"}, Origin="https://evil.example")

    assert status == 403
    assert headers["x-amzn-ErrorType"] == "AccessDeniedException"
    assert "Access-Control-Allow-Origin" not in headers
    assert "origin" in body["message"]


def test_a_connection_serves_many_requests_whatever_is_left_of_a_body(running: Emulator) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    try:
        connection.request("GET", "/_wherry/health")
        assert connection.getresponse().read()
        first = connection.sock
        for path in ("/_wherry/credentials/nobody", "/v1/nothing", "/v1/describejobqueues"):
            connection.request("POST", path, body=b"x" * 100_000)
            connection.getresponse().read()
        connection.request("GET", "/_wherry/health")
        answer = connection.getresponse()
        assert json.loads(answer.read()) == {"status": "ok"}
        assert connection.sock is first
    finally:
        connection.close()


def test_a_body_may_come_in_chunks(running: Emulator) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    try:
        connection.request("POST", "/v1/describejobqueues", body=iter([b'{"jobQueues":', b"[]}"]))
        answer = connection.getresponse()
        assert answer.status == 200
        answer.read()
        connection.request("GET", "/_wherry/health")
        assert connection.getresponse().status == 200
    finally:
        connection.close()


def test_a_service_that_nobody_knows_is_refused_without_a_word_on_stdout(
    running: Emulator, capfd: pytest.CaptureFixture[str]
) -> None:
    scope = "AWS4-HMAC-SHA256 Credential=A/20260101/us-east-1/nosuch/aws4_request, Signature=x"

    status, body, _ = ask(f"{running.url}/", "POST", {"a": 1}, Authorization=scope)

    assert status == 501
    assert "nosuch" in body["message"]
    assert capfd.readouterr().out == ""


def test_a_port_in_use_is_named_with_its_holder_and_the_way_out() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        second = emulator(port=port)

        with pytest.raises(LaunchError) as caught:
            second.start()

    text = str(caught.value)
    assert str(port) in text
    assert str(os.getpid()) in text
    assert "--port" in text


def test_an_engine_that_nobody_knows_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'docker'"):
        emulator(engine="dokcer").start()


def test_docker_without_an_engine_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")

    with pytest.raises(LaunchError, match="--engine process"):
        emulator(engine="docker").start()


def test_auto_takes_processes_where_no_engine_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")

    with emulator(engine="auto", bootstrap=False) as made:
        status = made.status()

    assert status["engine"] == "process"
    assert "/nonexistent/docker.sock" in status["engine_reason"]


def test_it_listens_on_loopback_and_nowhere_else(running: Emulator) -> None:
    assert running.status()["addresses"] == ["127.0.0.1"]


def test_a_stop_leaves_no_thread_socket_or_process() -> None:
    with emulator(bootstrap=False):
        pass  # what stays for ever, because it is imported or made once, is there now
    threads, descriptors = set(threading.enumerate()), _descriptors()
    made = emulator()
    made.start()
    batch = client(made, "batch")
    program = define(batch, ["sleep", "1000"])
    job = batch.submit_job(jobName="long", jobQueue="main", jobDefinition=program)["jobId"]
    until(
        lambda: batch.describe_jobs(jobs=[job])["jobs"][0]["status"] == "RUNNING",
        "the job to run",
    )
    idle = socket.create_connection(("127.0.0.1", made.port))

    made.stop()
    made.stop()

    with idle, pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", made.port)).close()
    batch.close()
    assert set(threading.enumerate()) - threads == set()
    until(lambda: _descriptors() <= descriptors, "descriptors to be closed", 10)
    children = subprocess.run(
        ["ps", "-o", "args=", "--ppid", str(os.getpid())], capture_output=True, text=True
    ).stdout
    assert "sleep 1000" not in children


def test_a_failed_start_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    threads = set(threading.enumerate())

    made = emulator(engine="docker")
    with pytest.raises(LaunchError):
        made.start()

    assert set(threading.enumerate()) - threads == set()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", made.port)).close()


def test_two_emulators_in_one_process_have_jobs_of_their_own(running: Emulator) -> None:
    with emulator() as other:
        here, there = client(running, "batch"), client(other, "batch")
        job = run(there, ["true"])

        assert job["status"] == "SUCCEEDED"
        assert here.describe_jobs(jobs=[job["jobId"]])["jobs"] == []


def test_a_reset_ends_jobs_and_forgets_all_but_the_beginning() -> None:
    with emulator() as made:
        batch, logs, s3 = client(made, "batch"), client(made, "logs"), client(made, "s3")
        ended = run(batch, ["echo", "hello"])
        bucket = unique("bucket")
        s3.create_bucket(Bucket=bucket)
        program = define(batch, ["sleep", "1000"])
        job = batch.submit_job(jobName="long", jobQueue="main", jobDefinition=program)["jobId"]

        made.reset()

        assert batch.describe_jobs(jobs=[job, ended["jobId"]])["jobs"] == []
        assert batch.describe_job_definitions()["jobDefinitions"] == []
        assert [b["Name"] for b in s3.list_buckets()["Buckets"]] == ["wherry"]
        assert logs.describe_log_groups()["logGroups"] == []
        again = run(batch, ["echo", "again"])
        assert lines(logs, again) == ["again"]


def test_state_outlives_the_emulator(tmp_path: Path) -> None:
    with emulator(state=str(tmp_path)) as made:
        batch = client(made, "batch")
        ended = run(batch, ["echo", "kept"])
        program = define(batch, ["sleep", "1000"])
        long = batch.submit_job(jobName="long", jobQueue="main", jobDefinition=program)["jobId"]
        until(
            lambda: batch.describe_jobs(jobs=[long])["jobs"][0]["status"] == "RUNNING",
            "the job to run",
        )
    moto.reset()  # as if the process were a new one

    with emulator(state=str(tmp_path)) as made:
        batch, logs = client(made, "batch"), client(made, "logs")
        found = batch.describe_jobs(jobs=[ended["jobId"]])["jobs"][0]
        assert found["status"] == "SUCCEEDED"
        assert lines(logs, found) == ["kept"]
        lost = over(batch, long)
        assert lost["status"] == "FAILED"
        assert lost["statusReason"].startswith("Host EC2")


def test_what_a_killed_emulator_ran_is_known_as_lost(tmp_path: Path) -> None:
    marker = unique("marker")
    program = (
        "import sys, threading; from wherry.emulator import Emulator, Settings;"
        " made = Emulator(Settings(port=0, engine='process', state=sys.argv[1])); made.start();"
        " print(made.port, flush=True); threading.Event().wait()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        dead = Emulator(Settings(port=int(first.stdout.readline())))
        batch = client(dead, "batch")
        sleeper = [sys.executable, "-c", f"import time; time.sleep(1000)  # {marker}"]
        definition = define(batch, sleeper)
        job = batch.submit_job(jobName="long", jobQueue="main", jobDefinition=definition)["jobId"]
        until(
            lambda: batch.describe_jobs(jobs=[job])["jobs"][0]["status"] == "RUNNING",
            "the job to run",
        )
        first.kill()

    with emulator(state=str(tmp_path)) as made:
        lost = over(client(made, "batch"), job)

    assert lost["status"] == "FAILED"
    assert lost["statusReason"].startswith("Host EC2")
    until(lambda: not _running(marker), "the orphan to be gone")


def test_a_state_folder_is_for_one_emulator_at_a_time(tmp_path: Path) -> None:
    with emulator(state=str(tmp_path), bootstrap=False):
        with pytest.raises(LaunchError, match="another emulator keeps its state"):
            emulator(state=str(tmp_path)).start()


def test_the_clients_variables_name_endpoint_keys_and_region(running: Emulator) -> None:
    assert set(running.environment()) == {
        "AWS_ENDPOINT_URL",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_DEFAULT_REGION",
        "AWS_REGION",
    }


def test_a_client_error_is_not_an_internal_one(running: Emulator) -> None:
    with pytest.raises(ClientError) as caught:
        client(running, "batch").describe_jobs(jobs=["x"] * 101)

    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


def _running(marker: str) -> bool:
    listed = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True).stdout
    return marker in listed


def _descriptors() -> set[str]:
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if target.startswith("socket:"):
            found.add(number)
    return found
