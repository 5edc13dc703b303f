"""The fixtures ``wherry_aws`` and ``wherry_emulator_server`` in test files of a user's own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def users_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a user's test file in a pytest of its own."""
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)

    def run(text: str, *options: str, ini: str = "") -> subprocess.CompletedProcess[str]:
        (tmp_path / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
        file = tmp_path / "test_mine.py"
        file.write_text(textwrap.dedent(text))
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(file)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_an_unmodified_program_runs_jobs_and_each_test_begins_anew(
    users_tests: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    done = users_tests(
        """
        import os, time
        import boto3

        def submit(*command):
            '''The user's program: it knows nothing of an emulator.'''
            batch = boto3.client("batch")
            batch.register_job_definition(
                jobDefinitionName="mine",
                type="container",
                containerProperties={
                    "image": "alpine",
                    "command": list(command),
                    "resourceRequirements": [
                        {"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "64"}
                    ],
                },
            )
            return batch.submit_job(jobName="a", jobQueue="main", jobDefinition="mine")["jobId"]

        def state(job):
            return boto3.client("batch").describe_jobs(jobs=[job])["jobs"][0]["status"]

        def test_one(wherry_aws):
            boto3.client("s3").create_bucket(Bucket="mine")
            job = submit("sh", "-c", "exit 0")
            deadline = time.monotonic() + 60
            while state(job) != "SUCCEEDED":
                assert time.monotonic() < deadline
                time.sleep(0.02)
            wherry_aws.faults.add(__import__("wherry").emulator.Fault("throttle"))
            wherry_aws.clock.set_scale(60)

        def test_two(wherry_aws, wherry_emulator_server):
            assert wherry_aws is wherry_emulator_server
            assert wherry_aws.clock.scale == 1
            buckets = boto3.client("s3").list_buckets()["Buckets"]
            assert "mine" not in {bucket["Name"] for bucket in buckets}
            assert boto3.client("batch").describe_job_definitions()["jobDefinitions"] == []
            assert submit("true")

        def test_the_environment_comes_back():
            assert os.environ["AWS_PROFILE"] == "nobody"
            assert "AWS_ENDPOINT_URL" not in os.environ
        """
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("options", "ini"),
    [
        (("--wherry-emulator-engine", "dokcer"), ""),
        ((), "wherry_emulator_engine = dokcer"),
        (("--wherry-emulator-engine=dokcer",), "wherry_emulator_engine = process"),
    ],
)
def test_the_engine_is_chosen_by_option_or_setting(
    users_tests: Run, options: tuple[str, ...], ini: str
) -> None:
    done = users_tests("def test_a(wherry_aws): pass", *options, ini=ini)

    assert done.returncode == 1
    assert "did you mean 'docker'" in done.stdout


def test_the_option_is_in_the_help(users_tests: Run) -> None:
    done = users_tests("", "--help")

    assert "--wherry-emulator-engine=ENGINE" in done.stdout
    assert "wherry_emulator_engine" in done.stdout
