"""Stores of every kind for the tests of this room, and credentials that are not the user's."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.cloud import client, emulator
from support.s3_servers import KEY, SECRET, ScriptedS3, rclone, sign_as
from wherry.emulator.server.emulator import ACCESS_KEY, SECRET_KEY
from wherry.store.api import Store
from wherry.store.opening import open_store

MakeStore = Callable[[], Store]


@pytest.fixture(autouse=True)
def own_aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's credentials and configuration out, and let ours in."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "aws-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    sign_as(monkeypatch, KEY, SECRET)


@pytest.fixture(scope="session")
def real_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A real server that checks signatures, and the folder with its buckets."""
    folder = tmp_path_factory.mktemp("rclone")
    (folder / "bucket").mkdir()
    with rclone(folder) as url:
        yield url, folder


@pytest.fixture(scope="session")
def moto_s3() -> Iterator[str]:
    """The S3 of the emulator, which is moto's."""
    with emulator() as running:
        client(running, "s3").create_bucket(Bucket="bucket")
        yield running.url


@pytest.fixture
def scripted() -> Iterator[ScriptedS3]:
    """A server that does as it is told."""
    with ScriptedS3() as server:
        yield server


@pytest.fixture(params=["file", "rclone", "moto"])
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of store that a test of all kinds is about."""
    return str(request.param)


@pytest.fixture
def another(
    kind: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> MakeStore:
    """Opens the same store each time."""
    prefix = uuid.uuid4().hex
    if kind == "file":
        return lambda: open_store(str(tmp_path / "a store"))
    if kind == "rclone":
        url = request.getfixturevalue("real_s3")[0]
    else:
        url = request.getfixturevalue("moto_s3")
        sign_as(monkeypatch, ACCESS_KEY, SECRET_KEY)
    return lambda: open_store(f"s3://bucket/{prefix}", endpoint=url)


@pytest.fixture
def store(another: MakeStore) -> Iterator[Store]:
    """A store of its kind, with nothing in it."""
    made = another()
    yield made
    made.close()
