"""The scheduler against moto's own Batch, so that our emulator is not the only judge of it.

moto's jobs end well at once, without output; arrays, retries and the ends of jobs are not AWS's.
"""

from __future__ import annotations

import json
import os
import shutil
import urllib.request
from collections.abc import Iterator

import boto3
import pytest
from moto.server import ThreadedMotoServer

from support.batch_apps import app, described, over, submitted
from wherry.emulator import exports
from wherry.errors import UnknownNameError
from wherry.home import home
from wherry.schedulers.aws_batch import AWSBatchScheduler
from wherry.specs import AppState


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    url = "http://{}:{}".format(*moto.get_host_and_port())
    settings = json.dumps({"batch": {"use_docker": False}}).encode()
    urllib.request.urlopen(
        urllib.request.Request(f"{url}/moto-api/config", settings, method="POST")
    ).close()
    yield url
    moto.stop()


@pytest.fixture
def moto(server, monkeypatch) -> AWSBatchScheduler:
    for name in exports.blind(os.environ):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    urllib.request.urlopen(
        urllib.request.Request(f"{server}/moto-api/reset", b"", method="POST")
    ).close()
    role = boto3.client("iam").create_role(RoleName="batch", AssumeRolePolicyDocument="{}")
    batch = boto3.client("batch")
    batch.create_compute_environment(
        computeEnvironmentName="environment",
        type="UNMANAGED",
        state="ENABLED",
        serviceRole=role["Role"]["Arn"],
    )
    batch.create_job_queue(
        jobQueueName="main",
        state="ENABLED",
        priority=1,
        computeEnvironmentOrder=[{"order": 1, "computeEnvironment": "environment"}],
    )
    return AWSBatchScheduler("tests")


def test_an_app_is_submitted_watched_and_described(moto):
    app_id = submitted(moto, app("true"), tags="team:red")

    assert over(moto, app_id).state is AppState.SUCCEEDED
    answer = described(moto, app_id)
    assert answer.raw_state == "SUCCEEDED"
    assert answer.app == app("true")
    job_id = answer.metadata["job_id"]
    told = boto3.client("batch").describe_jobs(jobs=[job_id])["jobs"][0]
    assert told["tags"]["team"] == "red"


def test_runs_share_a_definition(moto):
    for word in ("one", "two"):
        submitted(moto, f"echo {word}")

    assert len(boto3.client("batch").describe_job_definitions()["jobDefinitions"]) == 1


def test_apps_are_listed_and_found_without_a_record(moto):
    made = [submitted(moto, app("true", name=f"app{n}")) for n in range(3)]
    shutil.rmtree(f"{home()}/aws_batch")

    assert {each.app_id for each in moto.list()} == set(made)
    assert over(AWSBatchScheduler("other"), made[1]).state is AppState.SUCCEEDED


def test_an_unknown_queue_is_told(moto):
    with pytest.raises(UnknownNameError, match="did you mean 'main'"):
        submitted(moto, "true", queue="mian")
