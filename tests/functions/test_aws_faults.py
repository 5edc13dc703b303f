"""AWS Batch in trouble, and clients that die: no job is lost, none runs twice, each end is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import boto3
import pytest

import wherry
from support.waiting import until
from wherry import AWSBatchExecutor, errors

SECONDS = 100
BUCKET = "calls"

CLIENT = """
import os, signal, sys
import wherry

step, path, kind = sys.argv[1:]

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def on_step(name, job):
    if name == "recorded":
        print(job, flush=True)
    if name == step:
        die()

def note(x, path):
    with open(path, "a") as file:
        file.write(f"{x}\\n")
    return x

if step in ("asking", "asked"):
    from wherry.aws import calls
    once = calls.Calls.once
    def dying(self, operation, **params):
        if operation == "SubmitJob" and step == "asking":
            die()
        answer = once(self, operation, **params)
        if operation == "SubmitJob":
            die()
        return answer
    calls.Calls.once = dying

ex = wherry.AWSBatchExecutor(
    s3_bucket_name="calls", batch_queue="main", vcpu=1, memory=0.25, on_step=on_step)
if kind == "call":
    ex.submit(note, 1, path)
else:
    ex.map_array(note, [1, 2, 3], [path] * 3)
"""


@pytest.fixture
def aws(wherry_aws):
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    return wherry_aws


def executor(**options):
    known = {"s3_bucket_name": BUCKET, "batch_queue": "main", "vcpu": 1, "memory": 0.25}
    return AWSBatchExecutor(**{**known, **options})


def jobs_at_aws():
    """List all jobs, but the children of arrays."""
    filters = [{"name": "AFTER_CREATED_AT", "values": ["1"]}]
    pages = boto3.client("batch").get_paginator("list_jobs")
    return [
        job
        for page in pages.paginate(jobQueue="main", filters=filters)
        for job in page["jobSummaryList"]
    ]


def killed_at(step, path, kind="call"):
    """Run a client that kills itself at a step; return the id of its job, if there is one yet."""
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, step, str(path), kind], capture_output=True, text=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("step", ["packed", "stored"])
def test_before_the_record_there_is_no_job(aws, tmp_path, step):
    assert killed_at(step, tmp_path / "runs") == ""

    assert list(wherry.jobs()) == []
    assert jobs_at_aws() == []


@pytest.mark.parametrize("kind", ["call", "map"])
@pytest.mark.parametrize("step", ["recorded", "asking", "asked", "submitted"])
def test_from_the_record_on_there_is_one_job(aws, tmp_path, step, kind):
    job = killed_at(step, tmp_path / "runs", kind)

    attached = executor().attach(job)
    assert attached.result(SECONDS) == (1 if kind == "call" else [1, 2, 3])
    assert wherry.job(job).result(SECONDS) == attached.result()
    assert len(jobs_at_aws()) == 1
    runs = sorted((tmp_path / "runs").read_text().split())
    assert runs == (["1"] if kind == "call" else ["1", "2", "3"])


def test_a_client_that_is_still_at_it_is_not_helped(aws, tmp_path):
    program = CLIENT.replace("die()\n", "os.kill(os.getpid(), signal.SIGSTOP)\n", 1)
    client = subprocess.Popen(
        [sys.executable, "-c", program, "recorded", str(tmp_path / "runs"), "call"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        job = client.stdout.readline().strip()
        attached = executor().attach(job)
        assert not attached.done()
        assert jobs_at_aws() == []
    finally:
        client.send_signal(signal.SIGCONT)
        client.communicate(timeout=SECONDS)

    assert attached.result(SECONDS) == 1
    assert len(jobs_at_aws()) == 1


def test_a_reply_that_is_lost_makes_no_second_job(aws):
    with aws.fault("lost-reply", operation="SubmitJob", times=1):
        job = executor().submit(pow, 2, 5)

    assert job.result(SECONDS) == 32
    assert len(jobs_at_aws()) == 1


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)
    return "seen"


def test_an_array_that_was_ended_by_somebody_else_says_so(aws, tmp_path):
    runs = executor().map_array(wait_for, [os.devnull, str(tmp_path / "never")])
    until(lambda: runs[0].done(), "the first to end")
    boto3.client("batch").terminate_job(jobId=runs.provider_id, reason="by hand")

    found = list(runs.results(return_exceptions=True, timeout=SECONDS))

    assert found[0] == "seen"
    assert isinstance(found[1], errors.JobCancelledError)
    assert "by hand" in str(found[1])
    (tmp_path / "never").touch()
    assert runs.retry_failed().result(SECONDS) == ["seen"]


def test_one_child_is_cancelled_and_the_others_go_on(aws, tmp_path):
    go = str(tmp_path / "go")
    runs = executor().map_array(wait_for, [go, str(tmp_path / "never")])
    until(runs[1].running, "the start")

    assert runs[1].cancel("not that one")
    with pytest.raises(errors.JobCancelledError, match="not that one"):
        runs[1].result(SECONDS)
    (tmp_path / "go").touch()
    assert runs[0].result(SECONDS) == "seen"


def test_credentials_that_expire_while_one_waits_are_asked_for_again(aws, tmp_path):
    job = executor(poll_freq=0.2).submit(wait_for, str(tmp_path / "go"))
    until(job.running, "the start")
    with aws.fault("expired-token", service="*"):
        with pytest.raises(TimeoutError):
            job.result(1.0)
    (tmp_path / "go").touch()

    assert job.result(SECONDS) == "seen"


def test_credentials_that_have_expired_for_good_say_what_to_do(aws, tmp_path, monkeypatch):
    from wherry.functions import handle

    monkeypatch.setattr(handle, "_PATIENCE", 1.0)
    job = executor(poll_freq=0.2).submit(wait_for, str(tmp_path / "go"))
    until(job.running, "the start")

    with aws.fault("expired-token", service="*"):
        with pytest.raises((errors.CredentialsError, errors.StoreError), match="expired") as told:
            job.result(SECONDS)
    assert any(word in str(told.value) for word in ("aws sso login", "renew", "credentials"))
    job.cancel()
