"""State changes of jobs are events of EventBridge, and reach the targets of rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.cloud import client, emulator, run, unique
from support.waiting import until
from wherry.emulator.server.emulator import Emulator

PATTERN = {"source": ["aws.batch"], "detail-type": ["Batch Job State Change"]}


@pytest.fixture(scope="module")
def running() -> Iterator[Emulator]:
    with emulator() as made:
        yield made


def rule(running: Emulator, arn: str, **detail: list[str]) -> None:
    events, name = client(running, "events"), unique("rule")
    pattern = {**PATTERN, **({"detail": detail} if detail else {})}
    events.put_rule(Name=name, EventPattern=json.dumps(pattern))
    events.put_targets(Rule=name, Targets=[{"Id": "1", "Arn": arn}])


def queue(running: Emulator) -> tuple[Any, str, str]:
    sqs = client(running, "sqs")
    url = sqs.create_queue(QueueName=unique("queue"))["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return sqs, url, arn["Attributes"]["QueueArn"]


def test_a_queue_hears_each_state_of_a_job(running: Emulator) -> None:
    sqs, url, arn = queue(running)
    rule(running, arn)

    job = run(client(running, "batch"), ["true"])

    heard: list[dict[str, Any]] = []

    def last() -> bool:
        for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get(
            "Messages", []
        ):
            heard.append(json.loads(message["Body"]))
        return any(event["detail"]["status"] == "SUCCEEDED" for event in heard)

    until(last, "the last event")
    mine = [event for event in heard if event["detail"]["jobId"] == job["jobId"]]
    states = [
        event["detail"]["status"] for event in mine if event["detail"]["status"] != "SUBMITTED"
    ]
    assert states == ["RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED"]
    event = mine[-1]
    assert event["source"] == "aws.batch"
    assert event["detail-type"] == "Batch Job State Change"
    assert event["resources"] == [job["jobArn"]]
    assert event["region"] == "us-east-1"
    assert event["detail"]["jobName"] == job["jobName"]


def test_a_rule_hears_what_its_pattern_says(running: Emulator) -> None:
    sqs, url, arn = queue(running)
    rule(running, arn, status=["FAILED"])
    batch = client(running, "batch")
    run(batch, ["true"])
    failed = run(batch, ["false"])

    def messages() -> Any:
        return sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages")

    bodies = [json.loads(message["Body"]) for message in until(messages, "the event")]

    assert [body["detail"]["jobId"] for body in bodies] == [failed["jobId"]]


def test_a_log_group_can_be_the_target(running: Emulator) -> None:
    logs, group = client(running, "logs"), unique("/events")
    logs.create_log_group(logGroupName=group)
    rule(running, f"arn:aws:logs:us-east-1:123456789012:log-group:{group}", status=["SUCCEEDED"])

    job = run(client(running, "batch"), ["true"])

    def found() -> Any:
        return logs.filter_log_events(logGroupName=group)["events"]

    event = json.loads(until(found, "the event")[0]["message"])
    assert event["detail"]["jobId"] == job["jobId"]


def test_a_target_that_is_gone_does_not_stop_a_job(running: Emulator) -> None:
    rule(running, f"arn:aws:sqs:us-east-1:123456789012:{unique('gone')}")

    assert run(client(running, "batch"), ["true"])["status"] == "SUCCEEDED"
