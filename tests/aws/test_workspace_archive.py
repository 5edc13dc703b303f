"""Workspaces of jobs on AWS Batch, through a store: nothing of them is in the image."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.engine import image, require_engine
from wherry import AppDef, Resource, Role, Runner
from wherry.emulator.server.emulator import Emulator
from wherry.emulator.settings import Settings
from wherry.errors import InvalidOptionError
from wherry.schedulers.aws_batch.boot import BOOT_ENV, REFERENCE
from wherry.schedulers.aws_batch.limits import OVERRIDES_CHARACTERS
from wherry.schedulers.aws_batch.overrides import compact
from wherry.schedulers.shipping import ARCHIVE
from wherry.specs.states import AppState
from wherry.worker.boot_text import BOOT

STORE = "s3://wherry/ws"
OPTIONS = {"queue": "main", "store": STORE}
SCRIPT = """\
import os, sys
print(sys.argv[1:], os.environ["WHERRY_REPLICA_ID"], open("data/words.txt").read(), os.getcwd())
"""


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
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "data").mkdir(parents=True)
    (folder / "train.py").write_text(SCRIPT)
    (folder / "data" / "words.txt").write_text("words")
    return folder


def role(*args: str, **more: object) -> Role:
    fields = {"image": image("python"), "resource": Resource(cpu=1, memMB=256), **more}
    return Role("main", entrypoint="python3", args=["train.py", *args], **fields)  # type: ignore[arg-type]


def run(runner: Runner, app: AppDef, tree: Path, **options: object) -> str:
    info = runner.dryrun(app, "aws_batch", {**OPTIONS, **options}, workspace=str(tree))  # type: ignore[dict-item]
    handle = runner.schedule(info)
    status = runner.wait(handle, timeout=90)
    assert status.state is AppState.SUCCEEDED, (status.msg, log(runner, handle))
    return handle


def log(runner: Runner, handle: str, k: int = 0) -> str:
    return "".join(runner.log_lines(handle, "main", k))


def test_a_script_that_the_image_does_not_have(runner, tree):
    handle = run(runner, AppDef("train", [role("--rate", "0.1")]), tree)

    assert log(runner, handle) == "['--rate', '0.1'] 0 words /\n"


def test_every_replica_of_an_array_with_macros_empty_words_and_dollars(runner, tree):
    words = ("no ${replica_id}", "", "$$HOME", 'it\'s "so"')
    app = AppDef("array", [role(*words, num_replicas=2)], array=True)

    handle = run(runner, app, tree)

    told = [log(runner, handle, k) for k in range(2)]
    expected = "['no {k}', '', '$HOME', 'it\\'s \"so\"'] {k} words /\n"
    assert told == [expected.replace("{k}", str(k)) for k in range(2)]


def test_a_gang(runner, tree):
    handle = run(runner, AppDef("gang", [role(num_replicas=2)]), tree)

    assert [log(runner, handle, k) for k in range(2)] == ["[] 0 words /\n", "[] 1 words /\n"]


def test_a_folder_of_its_own_in_the_container(runner, tree):
    handle = run(runner, AppDef("own", [role()]), tree, workspace_dir="/srv/code")

    assert log(runner, handle) == "[] 0 words /srv/code\n"


def test_with_a_sidecar_that_brings_the_shell(runner, tree):
    options = {"launcher": "sidecar", "launcher_image": image("busybox")}

    handle = run(runner, AppDef("side", [role(max_retries=1)]), tree, **options)

    assert log(runner, handle) == "[] 0 words /\n"


def test_the_exit_code_is_the_programs(runner, tree):
    (tree / "train.py").write_text("raise SystemExit(7)\n")

    handle = runner.run(AppDef("seven", [role()]), "aws_batch", OPTIONS, workspace=str(tree))

    status = runner.wait(handle, timeout=90)
    assert (status.state, status.exit_code) == (AppState.FAILED, 7)


def test_an_image_without_python_says_so(runner, tree):
    app = AppDef("none", [role(image=image("busybox"))])

    handle = runner.run(app, "aws_batch", OPTIONS, workspace=str(tree))

    assert runner.wait(handle, timeout=90).exit_code == 127
    assert "this image has no Python" in log(runner, handle)


def test_an_unchanged_tree_sends_nothing_and_a_changed_file_little(runner, tree):
    app = AppDef("again", [role()])
    (tree / "large.bin").write_bytes(bytes(range(256)) * 8192)
    outcomes = []
    for edit in (None, None, "changed"):
        if edit:
            (tree / "data" / "words.txt").write_text(edit)
        info = runner.dryrun(app, "aws_batch", OPTIONS, workspace=str(tree))
        for prepare in info.preparations:
            prepare()
        outcomes.append(info.shipments[0].outcome)

    assert outcomes[0].endswith(" sent")
    assert outcomes[1] == "nothing to send"
    assert outcomes[2].endswith(" bytes sent") or outcomes[2].endswith(" KB sent")


def test_a_dry_run_sends_nothing(runner, tree):
    import boto3

    (tree / "only.txt").write_text("in this test alone")
    info = runner.dryrun(AppDef("dry", [role()]), "aws_batch", OPTIONS, workspace=str(tree))

    (shipment,) = info.shipments
    assert (shipment.mode, shipment.files) == (ARCHIVE, 3)
    assert shipment.place == f"{STORE}/blobs/{shipment.digest[:2]}/{shipment.digest}"
    bucket = boto3.client("s3")
    key = shipment.place.removeprefix("s3://wherry/")
    assert bucket.list_objects_v2(Bucket="wherry", Prefix=key)["KeyCount"] == 0
    bucket.close()


def test_the_text_that_starts_it_is_in_the_definition_and_a_reference_in_the_job(runner, tree):
    info = runner.dryrun(AppDef("size", [role()]), "aws_batch", OPTIONS, workspace=str(tree))
    bare = runner.dryrun(AppDef("size", [role()]), "aws_batch", OPTIONS)

    container = info.request.job_def["containerProperties"]
    assert container["environment"] == [{"name": BOOT_ENV, "value": BOOT}]
    command = info.request.job["containerOverrides"]["command"]
    assert REFERENCE in command
    assert BOOT not in command
    more = len(compact(info.request.job)) - len(compact(bare.request.job))
    assert more < OVERRIDES_CHARACTERS / 8


def test_runs_of_different_trees_share_a_definition(runner, tree):
    first = runner.dryrun(AppDef("same", [role()]), "aws_batch", OPTIONS, workspace=str(tree))
    (tree / "more.txt").write_text("more")
    second = runner.dryrun(AppDef("same", [role()]), "aws_batch", OPTIONS, workspace=str(tree))

    assert first.request.definition() == second.request.definition()
    assert first.shipments != second.shipments


def test_a_definition_of_the_users_own(runner, tree):
    import boto3

    batch = boto3.client("batch")
    batch.register_job_definition(
        jobDefinitionName="mine",
        type="container",
        containerProperties={
            "image": image("python"),
            "resourceRequirements": [
                {"type": "VCPU", "value": "1"},
                {"type": "MEMORY", "value": "256"},
            ],
        },
    )
    batch.close()
    app = AppDef("own", [role(image="", resource=Resource())])

    handle = run(runner, app, tree, job_definition="mine")

    assert log(runner, handle) == "[] 0 words /\n"


def test_what_is_described_is_the_users_own_command(runner, tree):
    info = runner.dryrun(AppDef("shown", [role("x")]), "aws_batch", OPTIONS, workspace=str(tree))

    (shown,) = info.app.roles
    assert (shown.entrypoint, list(shown.args)) == ("python3", ["train.py", "x"])
    assert shown.metadata["wherry.workspace"] == info.shipments[0].place


def test_a_request_for_fargate_is_made_again_with_its_workspace(runner, tree):
    role_arn = "arn:aws:iam::123456789012:role/any"
    info = runner.dryrun(
        AppDef("far", [role()]),
        "aws_batch",
        {**OPTIONS, "queue": "fargate", "execution_role_arn": role_arn},
        workspace=str(tree),
    )

    settled = runner.settled(info)

    assert settled.request.platform.value == "FARGATE"
    assert REFERENCE in settled.request.job["containerOverrides"]["command"]
    assert settled.shipments == info.shipments
    assert settled.preparations == info.preparations


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "neither is set"),
        ({"workspace_mode": "archive"}, "is archive, which needs -cfg store="),
        ({"workspace_mode": "image", "store": STORE}, "is image, which needs -cfg image_repo="),
        ({"image_repo": "e.com/a", "job_definition": "mine:1"}, "has its own image"),
        ({"store": "/tmp/here"}, "option 'store' takes the address of a store"),
        ({"store": "https://x/y"}, "option 'store' takes the address of a store"),
    ],
)
def test_options_that_are_not_enough_are_told_with_the_fix(runner, tree, options, words):
    with pytest.raises(InvalidOptionError, match=words):
        runner.dryrun(
            AppDef("bad", [role()]), "aws_batch", {"queue": "main", **options}, workspace=str(tree)
        )
