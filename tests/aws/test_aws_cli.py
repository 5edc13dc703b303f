"""The command line with AWS Batch: the commands that users of TorchX know, with our name."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from support.batch_apps import app, counted, ended, reached, submitted
from wherry.cli.main import main
from wherry.home import home

HANDLE = re.compile(r"aws_batch://wherry/main:echo-[0-9a-z]{13}\n\Z")


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def plain_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def wherry(wherry_aws, capfd) -> Callable[..., Result]:
    """Run a command in this process; its words, as one would type them."""

    def run(*words: str) -> Result:
        capfd.readouterr()
        code = main(list(words))
        return Result(code, *capfd.readouterr())

    return run


@pytest.fixture
def handle(wherry) -> str:
    """An app that has said hello and ended."""
    done = wherry(
        *("run", "-s", "aws_batch", "-cfg", "queue=main", "--wait"),
        *("utils.echo", "--image", "alpine:latest", "--msg", "hello"),
    )
    assert done.code == 0, done.err
    return done.out.strip()


class TestRun:
    @pytest.mark.parametrize(
        "options",
        [
            ["-s", "aws_batch", "-cfg", "queue=main"],
            ["--scheduler", "aws_batch", "--scheduler_args", "queue=main"],
            ["--scheduler", "aws_batch", "--scheduler-args", "queue=main,user=ada,quiet=yes"],
        ],
    )
    def test_it_prints_the_handle_and_returns(self, wherry, options):
        done = wherry("run", *options, "utils.echo", "--image", "alpine:latest", "--msg", "hello")

        assert done.code == 0
        assert HANDLE.match(done.out), done.out
        assert done.err == ""

    def test_it_waits_or_follows_when_it_is_told_to(self, wherry):
        options = ["-s", "aws_batch", "-cfg", "queue=main"]

        waited = wherry("run", *options, "--wait", "utils.sh", "--image", "alpine", "exit 3")
        followed = wherry("run", *options, "--log", "utils.echo", "--image", "x", "--msg", "hi")
        stayed = wherry(
            "run", *options, "--no-detach", "utils.sh", "--image", "x", "echo so; exit 4"
        )

        assert waited.code == 3
        assert "exited with code 3" in waited.err
        assert (followed.code, followed.out) == (0, "hi\n")
        assert HANDLE.match(followed.err), followed.err
        assert (stayed.code, stayed.out) == (4, "so\n")

    def test_the_configuration_may_name_scheduler_and_queue(self, wherry, tmp_path):
        (tmp_path / "wherry.toml").write_text(
            '[run]\nscheduler = "aws_batch"\n[scheduler.aws_batch]\nqueue = "main"\n'
        )

        done = wherry("run", "utils.echo", "--image", "alpine", "--msg", "hello")

        assert HANDLE.match(done.out), (done.out, done.err)

    def test_a_dry_run_needs_neither_credentials_nor_a_network(self, tmp_path):
        env = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
        env |= {"AWS_EC2_METADATA_DISABLED": "true", "https_proxy": "http://127.0.0.1:9"}

        done = subprocess.run(
            [
                *(sys.executable, "-m", "wherry.cli", "run", "--dryrun", "-s", "aws_batch"),
                *("-cfg", "queue=main", "utils.echo", "--image", "alpine", "--msg", "hello"),
            ],
            capture_output=True,
            text=True,
            env=env,
            check=True,
        )

        shown = json.loads(done.stdout)
        assert shown["SubmitJob"][0]["jobQueue"] == "main"
        assert "was not asked what it runs on" in done.stderr

    def test_the_options_are_listed_without_credentials(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}

        done = subprocess.run(
            [sys.executable, "-m", "wherry.cli", "runopts", "aws_batch"],
            capture_output=True,
            text=True,
            env=env,
            check=True,
        )

        for option in ("queue", "share_id", "job_role_arn", "platform", "consumable_resources"):
            assert option in done.stdout

    def test_a_run_on_fargate_says_what_was_rounded_up_and_nothing_else(self, wherry):
        role = "arn:aws:iam::123456789012:role/ecsTaskExecutionRole"

        done = wherry(
            *("run", "-s", "aws_batch", "-cfg", f"queue=fargate,execution_role_arn={role}"),
            *("--wait", "utils.echo", "--image", "alpine", "--msg", "hello"),
        )

        assert done.code == 0, done.err
        assert "rounded up" in done.err
        assert "was not asked" not in done.err

    def test_many_copies_are_an_array(self, wherry):
        done = wherry(
            *("run", "-s", "aws_batch", "-cfg", "queue=main", "--array", "3", "--wait", "--json"),
            *("utils.sh", "--image", "x", "exit $WHERRY_REPLICA_ID"),
        )

        ending = json.loads(done.out)
        assert (ending["state"], done.code) == ("FAILED", ending["exit_code"])
        assert ending["msg"].startswith("2 of 3 replicas failed; the first: ")


class TestAskingAboutAnApp:
    def test_status(self, wherry, handle):
        shown = wherry("status", handle)
        data = json.loads(wherry("status", "--json", handle).out)

        assert shown.code == 0
        assert "SUCCEEDED" in shown.out
        assert data["state"] == "SUCCEEDED"
        assert data["raw_state"] == "SUCCEEDED"
        (attempt,) = data["roles"][0]["replicas"][0]["attempts"]
        assert attempt["logs"].startswith("/aws/batch/job:wherry-echo-")

    def test_an_id_or_its_beginning_will_do(self, wherry, handle):
        app_id = handle.rpartition("/")[2]

        assert wherry("status", app_id).out == wherry("status", app_id[:-3]).out

    def test_describe(self, wherry, handle):
        shown = wherry("describe", handle).out

        assert "definition wherry-echo-" in shown
        assert "console.aws.amazon.com" in shown
        assert "alpine:latest" in shown
        assert re.search(r"logs /aws/batch/job:wherry-echo-\S+[0-9a-f]\n", shown), shown

    def test_log(self, wherry, handle):
        assert wherry("log", handle).out == "hello\n"
        assert wherry("log", f"{handle}/echo/0").out == "hello\n"
        assert wherry("log", "--regex", "nothing", handle).out == ""
        assert wherry("log", "--attempt", "2", handle).code == 2

    def test_list(self, wherry, handle):
        shown = wherry("list").out

        assert handle in shown
        assert "SUCCEEDED" in shown
        assert json.loads(wherry("list", "--json", "-s", "aws_batch").out)[0]["handle"] == handle

    def test_wait(self, wherry, handle):
        assert wherry("wait", handle).code == 0

    def test_why(self, wherry, handle):
        assert wherry("why", handle).code == 0

    def test_another_machine_finds_it_by_its_handle(self, wherry, handle):
        shutil.rmtree(home())

        assert "SUCCEEDED" in wherry("status", handle).out
        assert wherry("log", handle).out == "hello\n"

    def test_an_unknown_app_is_a_usage_error(self, wherry):
        done = wherry("status", "aws_batch://wherry/main:never-was")

        assert done.code == 2
        assert "no record of app" in done.err


class TestCancel:
    def test_it_is_cancelled_for_a_reason(self, wherry, batch):
        app_id = submitted(batch, "sleep 60")
        reached(batch, app_id, "RUNNING")
        handle = f"aws_batch://tests/{app_id}"

        done = wherry("cancel", "--reason", "enough", handle)
        waited = wherry("wait", handle)

        assert done.code == 0
        assert waited.code != 0
        assert "CANCELLED: enough" in waited.err


class TestMistakesAreOneLine:
    @pytest.mark.parametrize(
        ("options", "code", "words"),
        [
            ("queue=mian", 2, "unknown job queue 'mian'; did you mean 'main'?"),
            ("queue=main,region=nowhere", 2, "'region' takes a region"),
            ("queue=main,profile=nobody", 2, "unknown AWS profile 'nobody'"),
            ("queue=main,priority=5", 2, "set share_id too"),
            ("queue=main,job_role_arn=x", 2, "takes the ARN of an IAM role"),
            ("queu=main", 2, "did you mean 'queue'?"),
            ("user=ada", 2, "queue"),
        ],
    )
    def test_of_an_option(self, wherry, options, code, words):
        done = wherry(
            *("run", "-s", "aws_batch", "-cfg", options),
            *("utils.echo", "--image", "alpine", "--msg", "x"),
        )

        assert (done.code, done.out) == (code, "")
        assert words in done.err
        assert done.err.count("\n") == 1, done.err
        assert "Traceback" not in done.err

    @pytest.mark.parametrize("verb", ["status", "describe", "log", "cancel", "wait", "why"])
    def test_without_credentials(self, wherry, batch, monkeypatch, verb):
        handle = f"aws_batch://tests/{submitted(batch, 'true')}"
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

        done = wherry(verb, handle)

        assert done.code == 1
        assert "credentials" in done.err
        assert done.err.count("\n") == 1, done.err

    def test_a_run_that_aws_refuses(self, wherry, wherry_aws):
        with wherry_aws.fault("access-denied", operation="SubmitJob"):
            done = wherry(
                *("run", "-s", "aws_batch", "-cfg", "queue=main"),
                *("utils.echo", "--image", "alpine", "--msg", "x"),
            )

        assert done.code == 1
        assert "may not do SubmitJob" in done.err
        assert done.err.count("\n") == 1


class TestAtAws:
    def test_what_aws_has_is_listed(self, wherry, batch):
        red = submitted(batch, app("true", name="one"), tags="team:red")
        blue = submitted(batch, app("true", name="two"), queue="spot", user="ada")

        def listed(*words: str) -> list[str]:
            done = wherry("aws", "list", "--json", *words)
            assert done.code == 0, done.err
            return [each["app_id"] for each in json.loads(done.out)]

        assert listed() == [blue, red]
        assert listed("--queue", "main") == [red]
        assert listed("--tag", "team=red") == [red]
        assert listed("--user", "ada") == [blue]
        assert listed("--name", "two", "--since", "1h") == [blue]
        assert listed("--limit", "1") == [blue]
        assert listed("--region", "eu-west-1") == []
        shown = wherry("aws", "list", "--limit", "1")
        assert f"aws_batch://tests/{blue}" in shown.out
        assert red not in shown.out
        assert "--limit 0 shows all" in shown.err

    def test_definitions_that_nobody_uses_are_removed(self, wherry, batch, wherry_aws):
        used = submitted(batch, app("sleep 60", name="used"))
        unused = submitted(batch, app("true", name="unused"), privileged=True)
        reached(batch, used, "RUNNING")
        ended(batch, unused)
        client = wherry_aws.client("batch")

        def active() -> list[str]:
            found = client.describe_job_definitions(status="ACTIVE")["jobDefinitions"]
            return sorted(each["jobDefinitionName"] for each in found)

        assert len(active()) == 2
        young = wherry("aws", "gc")
        dry = wherry("aws", "gc", "--older-than", "0.001", "--dry-run")
        assert len(active()) == 2
        done = wherry("aws", "gc", "--older-than", "0.001")

        assert young.out == ""
        assert dry.out == done.out
        assert done.out.startswith("wherry-unused-")
        assert "1 job definition removed" in done.err
        (left,) = active()
        assert left.startswith("wherry-used-")
        again = submitted(batch, app("true", name="unused"), privileged=True)
        assert ended(batch, again).state.name == "SUCCEEDED"

    def test_a_mistake_in_a_tag_is_told(self, wherry):
        done = wherry("aws", "list", "--tag", "red")

        assert done.code == 2
        assert "a tag is KEY=VALUE, not 'red'" in done.err

    def test_a_list_of_local_apps_asks_nothing_of_aws(self, wherry):
        wherry("run", "utils.echo", "--msg", "x")

        with counted() as asked:
            assert wherry("list").code == 0

        assert asked.calls == 0
