"""docs/functions.md is true: its code runs, its commands print what it says."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import engine
from support.pages import blocks, check, commands
from wherry import errors
from wherry.functions.options import Options
from wherry.runner.config import Config
from wherry.worker import formats

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "functions.md").read_text()
ELSEWHERE = ("wherry.DockerExecutor(", "wherry.AWSBatchExecutor(")
SQUARE = "import wherry\n\ndef square(x):\n    return x * x\n\n"


def run(code: str, folder: Path) -> None:
    """Run code as a script in a process of its own."""
    script = folder / "script.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env={**os.environ, "WHERRY_DEPS_DIR": str(folder / "deps")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def block_with(text: str) -> str:
    (found,) = [code for code in blocks(PAGE, "python") if text in code and "import" not in code]
    return found


def test_the_python_runs_as_one_script(tmp_path: Path) -> None:
    here = [code for code in blocks(PAGE, "python") if not any(name in code for name in ELSEWHERE)]
    assert len(here) >= 6

    run("\n".join(here), tmp_path)


def test_the_python_about_containers_runs(tmp_path: Path) -> None:
    code = block_with("wherry.DockerExecutor(").replace("python:3.12-slim", engine.image("python"))

    run(SQUARE + code, tmp_path)


@pytest.mark.usefixtures("wherry_aws")
def test_the_python_about_aws_runs(tmp_path: Path) -> None:
    import boto3

    boto3.client("s3").create_bucket(Bucket="my-bucket")

    run(SQUARE + block_with("wherry.AWSBatchExecutor("), tmp_path)


def test_the_commands_print_what_the_page_says(tmp_path: Path) -> None:
    check(commands(blocks(PAGE, "console")[0]), tmp_path)


def test_the_settings_are_settings(tmp_path: Path) -> None:
    (tmp_path / "wherry.toml").write_text(blocks(PAGE, "toml")[0])

    found = Config(environ={}, paths=(str(tmp_path / "wherry.toml"),)).executor()

    assert found["kind"].value == "aws_batch"
    assert found["vcpu"].value == 4


def test_the_table_of_options_is_whole() -> None:
    table = PAGE.partition("| option |")[2].partition("\n\n")[0]
    names = [row.partition("|")[2].partition("|")[0] for row in table.splitlines()[2:]]
    told = [name.strip(" `") for row in names for name in row.split(",")]

    assert sorted(told) == sorted(field.name for field in dataclasses.fields(Options))


def test_the_errors_are_errors() -> None:
    table = PAGE.partition("| error |")[2].partition("\n\n")[0]
    for row in table.splitlines()[2:]:
        for name in row.split("|")[1].split(","):
            assert issubclass(getattr(errors, name.strip(" `")), errors.WherryError)


def test_the_keys_are_those_of_the_store() -> None:
    keys = {
        formats.blob_key("abcd…"),
        formats.call_key("JOB"),
        formats.job_key("JOB"),
        formats.out_key("JOB", 7).replace("7", "INDEX"),
        formats.beat_key("JOB", 7).replace("7", "INDEX"),
        formats.file_key("JOB", 7, "…").replace("7", "INDEX"),
    }
    table = PAGE.partition("| key |")[2].partition("\n\n")[0]
    told = {row.split("|")[1].strip(" `") for row in table.splitlines()[2:]}

    assert keys <= told


def test_the_lifecycle_rule_is_one() -> None:
    import botocore.session
    from botocore.validate import ParamValidator

    rule = json.loads(blocks(PAGE, "json")[0])
    client = botocore.session.get_session().create_client("s3", region_name="eu-west-1")
    shape = client.meta.service_model.operation_model("PutBucketLifecycleConfiguration").input_shape

    report = ParamValidator().validate({"Bucket": "b", "LifecycleConfiguration": rule}, shape)

    assert not report.has_errors(), report.generate_report()
    assert rule["Rules"][0]["Filter"]["Prefix"] == "wherry/"
