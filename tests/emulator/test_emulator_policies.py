"""Scheduling policies."""

from __future__ import annotations

import pytest

from support.emulator_api import Api, arn
from wherry.emulator.batch.errors import ClientError

FAIR = {
    "shareDecaySeconds": 3600,
    "computeReservation": 10,
    "shareDistribution": [
        {"shareIdentifier": "A*", "weightFactor": 0.1},
        {"shareIdentifier": "B", "weightFactor": 2.0},
    ],
}


@pytest.fixture
def api() -> Api:
    return Api()


def shown(api: Api, name: str = "p") -> dict:
    found = api("DescribeSchedulingPolicies", arns=[arn("scheduling-policy", name)])
    return found["schedulingPolicies"][0]


def test_a_policy_is_shown_as_it_was_made(api):
    made = api("CreateSchedulingPolicy", name="p", fairsharePolicy=FAIR, tags={"a": "b"})

    assert made == {"name": "p", "arn": arn("scheduling-policy", "p")}
    assert shown(api) == {**made, "fairsharePolicy": FAIR, "tags": {"a": "b"}}


def test_an_update_replaces_the_whole_policy(api):
    made = api("CreateSchedulingPolicy", name="p", fairsharePolicy=FAIR)

    api("UpdateSchedulingPolicy", arn=made["arn"], fairsharePolicy={"computeReservation": 5})

    assert shown(api)["fairsharePolicy"] == {"computeReservation": 5}


def test_a_policy_keeps_its_kind(api):
    quota = {"idleResourceAssignmentStrategy": "FIFO"}
    made = api("CreateSchedulingPolicy", name="p", fairsharePolicy=FAIR)

    with pytest.raises(ClientError, match="type of a scheduling policy cannot be changed"):
        api("UpdateSchedulingPolicy", arn=made["arn"], quotaSharePolicy=quota)
    with pytest.raises(ClientError, match="either fairsharePolicy or quotaSharePolicy"):
        api("CreateSchedulingPolicy", name="q", fairsharePolicy=FAIR, quotaSharePolicy=quota)


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        (["A", "A"], "two or more identical shareIdentifiers"),
        (["A*", "A1"], r"Share identifier A1 matches another share identifier A\*"),
        (["A*", "AB*"], "matches another share identifier"),
        (["*A"], "should match a valid pattern"),
        (["a b"], "should match a valid pattern"),
        ([""], "should match a valid pattern"),
    ],
)
def test_share_identifiers_are_checked(api, shares, words):
    fair = {"shareDistribution": [{"shareIdentifier": each} for each in shares]}

    with pytest.raises(ClientError, match=words):
        api("CreateSchedulingPolicy", name="p", fairsharePolicy=fair)


def test_a_policy_of_a_queue_cannot_be_deleted(api):
    made = api("CreateSchedulingPolicy", name="p", fairsharePolicy=FAIR)
    api.environment("ce")
    api.queue("jq", schedulingPolicyArn=made["arn"], state="DISABLED")

    with pytest.raises(ClientError, match="found existing JobQueue relationship"):
        api("DeleteSchedulingPolicy", arn=made["arn"])
    api("DeleteJobQueue", jobQueue="jq")
    api("DeleteSchedulingPolicy", arn=made["arn"])

    assert api("ListSchedulingPolicies")["schedulingPolicies"] == []


def test_policies_are_listed_in_pages(api):
    for name in "abc":
        api("CreateSchedulingPolicy", name=name)

    first = api("ListSchedulingPolicies", maxResults=2)
    last = api("ListSchedulingPolicies", maxResults=2, nextToken=first["nextToken"])

    listed = [each["arn"] for each in (*first["schedulingPolicies"], *last["schedulingPolicies"])]
    assert listed == [arn("scheduling-policy", name) for name in "abc"]
    assert "nextToken" not in last


def test_unknown_policies_are_absent_from_a_description_and_not_found_otherwise(api):
    unknown = arn("scheduling-policy", "no")

    assert api("DescribeSchedulingPolicies", arns=[unknown]) == {"schedulingPolicies": []}
    for operation in ("UpdateSchedulingPolicy", "DeleteSchedulingPolicy"):
        with pytest.raises(ClientError, match="not found"):
            api(operation, arn=unknown)


def test_a_name_is_taken_once(api):
    api("CreateSchedulingPolicy", name="p")

    with pytest.raises(ClientError, match="Object already exists"):
        api("CreateSchedulingPolicy", name="p")
