"""docs/coming-from.md is true: what stands in the right column of its tables works."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import boto3
import pytest

import wherry
from wherry.functions.settings import AUTO, INHERIT

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "coming-from.md").read_text()
SECTIONS = dict(
    zip(*[iter(re.split(r"^## (.*)\n", PAGE, flags=re.MULTILINE)[1:])] * 2, strict=True)
)
BUCKET = "calls"


def rows(section: str) -> list[str]:
    """Return the right column of a section's table."""
    lines = [line for line in SECTIONS[section].splitlines() if line.startswith("|")]
    cells = [line.rsplit(" | ", 1)[1].removesuffix(" |") for line in lines[2:]]
    assert len(cells) > 10
    assert all(cell.startswith("`") and cell.endswith("`") for cell in cells), cells
    return [cell[1:-1] for cell in cells]


def run_rows(section: str, space: dict[str, Any]) -> None:
    for row in rows(section):
        try:
            eval(row, space)
        except Exception as error:
            raise AssertionError(f"{row}: {type(error).__name__}: {error}") from error


@pytest.fixture
def at_aws(wherry_aws, tmp_path):
    """What the rows about AWS speak of."""
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    boto3.client("batch").register_job_definition(
        jobDefinitionName="own",
        type="container",
        containerProperties={
            "image": "python:3",
            "resourceRequirements": [
                {"type": "VCPU", "value": "1"},
                {"type": "MEMORY", "value": "512"},
            ],
        },
    )

    def f(x):
        return x + 1

    ex = wherry.AWSBatchExecutor(s3_bucket_name=BUCKET, batch_queue="main", vcpu=1, memory=0.5)
    own = wherry.AWSBatchExecutor(s3_bucket_name=BUCKET, queue="main", job_definition="own")
    job, runs = ex.submit(f, 1), ex.map_array(f, [1, 2])
    assert job.result(60) == 2
    assert list(runs.results(timeout=60)) == [2, 3]
    yield {
        "wherry": wherry,
        "ex": ex,
        "own": own,
        "job": job,
        "runs": runs,
        "child": runs[1],
        "f": f,
        "it": asyncio.run,
        "task": {"dispatch_id": "d", "node_id": 0},
        "group": {"dispatch_id": "d", "node_ids": [0], "task_group_id": 0},
        "folder": str(tmp_path),
        "AUTO": AUTO,
        "INHERIT": INHERIT,
    }
    ex.shutdown(cancel_futures=True)


@pytest.mark.parametrize(
    "section", ["From Wolfram's remote batch jobs", "From Covalent's AWS Batch executor"]
)
def test_what_is_said_of_aws_works(section, at_aws):
    run_rows(section, at_aws)


def test_what_is_said_of_torchx_works():
    app = wherry.AppDef("echo", [wherry.Role("echo", entrypoint="echo", args=["hello"])])
    with wherry.Runner() as runner:
        handle = runner.run(app, "local_cwd")
        runner.wait(handle)
        run_rows("From TorchX", {"wherry": wherry, "runner": runner, "handle": handle, "app": app})


def test_every_property_of_the_tables_is_what_it_says(at_aws):
    own, ex = at_aws["own"], at_aws["ex"]

    assert (own.vcpu, own.num_gpus, own.memory) == (INHERIT, INHERIT, AUTO)
    assert (ex.vcpu, ex.memory, ex.retry_attempts, ex.time_limit) == (1, 0.5, 3, None)
    assert at_aws["child"].number == 1
    assert (at_aws["job"].succeeded, at_aws["job"].failed, at_aws["job"].in_progress) == (
        True,
        False,
        False,
    )
