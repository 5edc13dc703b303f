"""Executors whose jobs do not outlive their test."""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

from wherry import AWSBatchExecutor, DockerExecutor, LocalExecutor
from wherry.errors import JobError
from wherry.functions import Executor

BUCKET = "calls"


@pytest.fixture(autouse=True)
def _test_modules_go_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no path lead to these modules, however pytest was started: nothing is shipped."""
    here = ("", os.getcwd())
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder not in here])


@pytest.fixture
def ex() -> Iterator[LocalExecutor]:
    executor = LocalExecutor()
    yield executor
    executor.shutdown(cancel_futures=True)


@pytest.fixture
def one_out_of_memory() -> Iterator[None]:
    """Hold off others that run out of memory: the kernel counts its kills for the whole machine.

    Where a process was killed and that count has grown, it is said to have run out of memory.
    """
    with open(f"{tempfile.gettempdir()}/wherry-tests-memory.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _local(_request: pytest.FixtureRequest, **options: Any) -> Executor:
    return LocalExecutor(**options)


def _docker(_request: pytest.FixtureRequest, **options: Any) -> Executor:
    from support import engine

    return DockerExecutor(engine.image("python"), docker={"grace": 1.0}, **options)


def _aws(request: pytest.FixtureRequest, **options: Any) -> Executor:
    import boto3

    aws = request.getfixturevalue("wherry_aws")
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    if "timeout" in options:
        options["timeout"] = 60  # the least that AWS Batch takes
        aws.clock.set_scale(60)
    known = {"s3_bucket_name": BUCKET, "batch_queue": "main", "vcpu": 1, "memory": 0.25}
    return AWSBatchExecutor(**{**known, **options})


@pytest.fixture(params=[_local, _docker, _aws], ids=["local", "docker", "aws"])
def make_anywhere(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Makes an executor of each kind, with options; its jobs do not outlive the test."""
    made: list[Executor] = []

    def make(**options: Any) -> Executor:
        made.append(request.param(request, **options))
        return made[-1]

    yield make
    for executor in made:
        executor.shutdown(cancel_futures=True)
        if executor.environment == "docker":
            _remove_containers(executor)


@pytest.fixture
def anywhere(make_anywhere: Any) -> Executor:
    """An executor of each kind."""
    made: Executor = make_anywhere()
    return made


def _remove_containers(executor: Executor) -> None:
    for job in executor.jobs():
        try:
            job.exception(60)
        except JobError:
            pass  # Cancelled.
        job.delete()
