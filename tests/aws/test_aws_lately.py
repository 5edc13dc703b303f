"""What AWS said lately is remembered over processes, for a while, and never relied on."""

from __future__ import annotations

import json
import time

import pytest

from wherry.schedulers.aws_batch.facts import Platform, QueueFacts
from wherry.schedulers.aws_batch.lately import Lately

FACTS = QueueFacts(Platform.FARGATE, scheduling_policy=True, gangs=False, environments=("ce",))


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "folder" / "lately.json")


def test_it_is_remembered_by_another_process(path):
    Lately(path).note_queue("main", FACTS)
    Lately(path).note_definition("name hash", "arn")
    Lately(path).note_role("arn:role")

    other = Lately(path)

    assert other.queue("main") == FACTS
    assert other.definition("name hash") == "arn"
    assert other.has_role("arn:role")
    assert other.queue("other") is None
    assert not other.has_role("arn:other")


def test_without_a_file_it_is_remembered_in_memory():
    lately = Lately(None)
    lately.note_queue("main", FACTS)
    lately.note_definition("x", "arn")

    assert lately.queue("main") == FACTS
    assert lately.definition("x") == "arn"


def test_it_can_be_forgotten(path):
    lately = Lately(path)
    lately.note_queue("main", FACTS)
    lately.note_definition("x", "arn")

    lately.forget(queue="main", definition="x")

    assert Lately(path).queue("main") is None
    assert Lately(path).definition("x") is None


def test_it_grows_old(path):
    Lately(path).note_queue("main", FACTS)
    with open(path) as file:
        known = json.load(file)
    known["queues"]["main"][0] = time.time() - 7200
    with open(path, "w") as file:
        json.dump(known, file)

    assert Lately(path).queue("main") is None


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1]", "3", '{"queues": 3}', '{"queues": {"main": 3}}', '{"queues": {"main": [1]}}'],
)
def test_a_file_that_is_broken_is_no_obstacle(path, text):
    Lately(path).note_role("x")
    with open(path, "w") as file:
        file.write(text)

    lately = Lately(path)

    assert lately.queue("main") is None
    lately.note_queue("main", FACTS)
    assert Lately(path).queue("main") == FACTS


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path):
    (tmp_path / "file").write_text("")

    lately = Lately(str(tmp_path / "file" / "lately.json"))
    lately.note_queue("main", FACTS)

    assert lately.queue("main") == FACTS


def test_it_does_not_grow_for_ever(path):
    lately = Lately(None)
    for number in range(600):
        lately.note_definition(str(number), "arn")

    assert lately.definition("0") is None
    assert lately.definition("599") == "arn"
