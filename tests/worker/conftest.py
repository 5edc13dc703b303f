"""Fixtures for tests of the worker."""

from __future__ import annotations

import pytest

from support.worker_bench import WorkerBench


@pytest.fixture(scope="session")
def worker_home(tmp_path_factory):
    return tmp_path_factory.mktemp("worker-home")


@pytest.fixture
def bench(tmp_path, worker_home, monkeypatch):
    monkeypatch.setenv("WHERRY_HOME", str(worker_home))
    for name in ("WHERRY_REPLICA_ID", "AWS_BATCH_JOB_ARRAY_INDEX", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    root = tmp_path / "store"
    root.mkdir()
    return WorkerBench(root)
