"""What a task can ask about itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from support.cloud import client, emulator, http, lines, run
from wherry.emulator.cloud.metadata import Metadata
from wherry.emulator.server.emulator import Emulator


@pytest.fixture(scope="module")
def running() -> Iterator[Emulator]:
    with emulator() as made:
        yield made


def test_a_job_reads_its_task_and_its_container(running: Emulator) -> None:
    program = (
        "import os, urllib.request as u; base = os.environ['ECS_CONTAINER_METADATA_URI_V4'];"
        " [print(u.urlopen(base + end).read().decode()) for end in ('', '/task')]"
    )
    batch = client(running, "batch")

    job = run(batch, [sys.executable, "-c", program])

    container, task = map(json.loads, lines(client(running, "logs"), job))
    assert task["TaskARN"] == job["container"]["taskArn"]
    assert task["Cluster"]
    assert task["Family"]
    assert task["Revision"]
    assert [entry["Name"] for entry in task["Containers"]] == [container["Name"]]
    assert container["Image"] == "busybox"
    assert container["DockerId"]
    assert container["Networks"][0]["IPv4Addresses"]
    assert container["Labels"]["com.amazonaws.ecs.task-arn"] == task["TaskARN"]


def test_containers_of_a_task_are_told_apart_by_name() -> None:
    metadata = Metadata()
    token = metadata.open("task", "us-east-1")
    metadata.describe("task", {"Containers": [{"Name": "a", "Image": "x"}, {"Name": "b"}]})

    assert metadata.answer(f"{token}/a")["Image"] == "x"
    assert metadata.answer(f"{token}/b")["Name"] == "b"
    assert metadata.answer(f"{token}/b/task") == metadata.answer(f"{token}/task")
    assert metadata.answer(token)["Name"] == "a"


def test_what_was_said_first_is_kept_when_more_is_said() -> None:
    metadata = Metadata()
    metadata.describe("task", {"Family": "mine"})
    token = metadata.open("task", "us-east-1")
    metadata.describe("task", {"Revision": "7"})

    task = metadata.answer(f"{token}/task")

    assert (task["Family"], task["Revision"]) == ("mine", "7")


def test_a_task_that_is_over_has_no_metadata() -> None:
    metadata = Metadata()
    token = metadata.open("task", "us-east-1")
    metadata.close("task")
    metadata.close("task")

    assert metadata.answer(token) is None


@pytest.mark.parametrize("path", ["nobody", "nobody/task", ""])
def test_an_address_that_nobody_was_given_has_nothing(running: Emulator, path: str) -> None:
    assert http(f"{running.url}/_wherry/metadata/v4/{path}")[0] == 404


def test_a_question_that_ecs_does_not_answer_has_no_answer() -> None:
    metadata = Metadata()
    token = metadata.open("task", "us-east-1")

    assert metadata.answer(f"{token}/nothing") is None
    assert metadata.answer(f"{token}/stats") == {}
