"""Workspaces of jobs on AWS Batch in images of their own, pushed to a real registry."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.engine import client, image, require_engine
from support.registry import registry
from wherry import AppDef, Resource, Role, Runner
from wherry.emulator.server.emulator import Emulator
from wherry.emulator.settings import Settings
from wherry.errors import InvalidOptionError, RegistryError
from wherry.schedulers.aws_batch import create_scheduler
from wherry.schedulers.shipping import IMAGE
from wherry.specs.states import AppState


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    require_engine()
    with Emulator(Settings(port=0, engine="docker")) as running:
        yield running


@pytest.fixture
def runner(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    with Runner("ws") as made:
        yield made


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[str]:
    """A repository of a registry; what is pushed there is removed from this machine at the end."""
    with registry(tmp_path / "registry") as host:
        yield f"{host}/team/app"
        with client() as docker:
            for found in docker.images(filters={"reference": f"{host}/*/*"}):
                docker.remove_image(found["Id"], force=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "hello.txt").write_text(f"hello {uuid.uuid4()}\n")
    return folder


def role(name: str = "main", **more: object) -> Role:
    fields = {"image": image("busybox"), "args": ["-c", "cat hello.txt"], **more}
    return Role(name, entrypoint="sh", resource=Resource(cpu=1, memMB=64), **fields)  # type: ignore[arg-type]


def test_the_image_is_built_pushed_and_run_by_its_digest(runner, repository, tree, caplog):
    options = {"queue": "main", "image_repo": repository}
    app = AppDef("patched", [role()])
    info = runner.dryrun(app, "aws_batch", options, workspace=str(tree))
    (shipment,) = info.shipments
    planned = info.request.job_def["containerProperties"]["image"]

    handle = runner.schedule(info)

    assert runner.wait(handle, timeout=90).state is AppState.SUCCEEDED
    assert "".join(runner.log_lines(handle, "main")) == (tree / "hello.txt").read_text()
    assert shipment.mode == IMAGE
    assert planned == f"{repository}:{shipment.place.partition(':')[2]}"
    assert shipment.outcome == "image built"
    assert f"pushing {planned}" in caplog.text
    assert used(runner, handle).startswith(f"{repository}@sha256:")


def used(runner: Runner, handle: str) -> str:
    """Return the image of an app's job, as AWS has it."""
    import boto3

    described = runner.describe(handle)
    batch = boto3.client("batch")
    (job,) = [
        job
        for job in batch.list_jobs(
            jobQueue="main", filters=[{"name": "JOB_NAME", "values": [f"{described.app.name}*"]}]
        )["jobSummaryList"]
        if described.app_id.endswith(job["jobName"])
    ]
    found: str = batch.describe_jobs(jobs=[job["jobId"]])["jobs"][0]["container"]["image"]
    batch.close()
    return found


def test_an_unchanged_workspace_is_neither_built_nor_pushed_again(runner, repository, tree, caplog):
    options = {"queue": "main", "image_repo": repository}
    app = AppDef("twice", [role()])
    first = runner.run(app, "aws_batch", options, workspace=str(tree))
    caplog.clear()

    info = runner.dryrun(app, "aws_batch", options, workspace=str(tree))
    second = runner.schedule(info)

    assert info.shipments[0].outcome == "the image was there"
    assert caplog.messages == []
    assert used(runner, second) == used(runner, first)
    for handle in (first, second):
        assert runner.wait(handle, timeout=90).state is AppState.SUCCEEDED


def test_every_role_is_patched(runner, repository, tree):
    # The first node's end is the job's: it ends once the second has sent it its file. Its own input
    # must not end: nc would tell the other side, which then leaves before it has sent anything.
    listen = "cat hello.txt; mkfifo /tmp/open; nc -l -p 5000 0<>/tmp/open"
    send = "until cat hello.txt | nc $WHERRY_RANK0_HOST 5000; do sleep 0.1; done"
    roles = [
        role("first", args=["-c", listen]),
        role("second", args=["-c", send]),
    ]
    info = runner.dryrun(
        AppDef("gang", roles),
        "aws_batch",
        {"queue": "main", "image_repo": repository},
        workspace=str(tree),
    )

    handle = runner.schedule(info)

    assert runner.wait(handle, timeout=90).state is AppState.SUCCEEDED
    assert "".join(runner.log_lines(handle, "first")) == (tree / "hello.txt").read_text() * 2
    assert len(info.shipments) == 1
    assert info.shipments[0].roles == ("first", "second")


def test_the_seeds_way_to_an_image(runner, repository, tree):
    scheduler = create_scheduler("ws")
    built = scheduler.build_workspace_image(image("busybox"), str(tree))
    app = AppDef("seed", [role(image=built)])

    handle = runner.run(app, "aws_batch", {"queue": "main", "image_repo": repository})

    assert built.startswith("sha256:")
    assert runner.wait(handle, timeout=90).state is AppState.SUCCEEDED
    assert "".join(runner.log_lines(handle, "main")) == (tree / "hello.txt").read_text()
    scheduler.close()


def test_a_registry_that_is_not_there_leaves_nothing_submitted(runner, repository, tree):
    info = runner.dryrun(
        AppDef("nowhere", [role()]),
        "aws_batch",
        {"queue": "main", "image_repo": "127.0.0.1:1/team/app", "quiet": True},
        workspace=str(tree),
    )

    with pytest.raises(
        RegistryError, match=r"127\.0\.0\.1:1/team/app:.* was not pushed: .*refused"
    ):
        runner.schedule(info)
    assert runner.describe(f"aws_batch://ws/{info.request.app_id}") is None
    with client() as docker:
        docker.remove_image(info.shipments[0].place, force=True)
        docker.remove_image(info.request.job_def["containerProperties"]["image"], force=True)


def test_a_local_image_without_a_repository_is_refused(runner):
    with pytest.raises(InvalidOptionError, match="set the repository to push it to"):
        runner.dryrun(
            AppDef("bare", [role(image="wherry-workspace:abc")]), "aws_batch", {"queue": "main"}
        )
