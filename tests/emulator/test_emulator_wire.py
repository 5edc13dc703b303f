"""Requests to AWS Batch are read against botocore's own model."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import botocore.loaders
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.emulator_api import Api
from wherry.emulator.batch import wire
from wherry.emulator.batch.catalog_operations import OPERATIONS
from wherry.emulator.batch.errors import BatchError, ClientError

SUBMIT = {"jobName": "a", "jobQueue": "q", "jobDefinition": "d"}
ARN = "arn:aws:batch:us-east-1:123456789012:job-queue/main"


def submitted(**members: Any) -> dict[str, Any]:
    return wire.checked("SubmitJob", json.dumps({**SUBMIT, **members}).encode(), {}, {})


# -- routes


def test_every_operation_of_the_model_has_a_route_that_leads_back_to_it():
    for name in wire.model().operation_names:
        http = wire.model().operation_model(name).http
        path = http["requestUri"].replace("{resourceArn}", quote(ARN, safe=""))
        found = wire.operation_for(http["method"], path)
        assert found is not None
        assert found[0] == name


@pytest.mark.parametrize("path", [f"/v1/tags/{quote(ARN, safe='')}", f"/v1/tags/{ARN}"])
def test_the_arn_in_a_path_is_read_whole_whether_encoded_or_not(path):
    assert wire.operation_for("GET", path) == ("ListTagsForResource", {"resourceArn": ARN})


def test_keys_to_untag_come_repeated_in_the_query():
    query = {"tagKeys": ["a", "b c"]}

    request = wire.checked("UntagResource", b"", {"resourceArn": ARN}, query)

    assert request == {"resourceArn": ARN, "tagKeys": ["a", "b c"]}


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/submitjob"), ("POST", "/v1/nothing"), ("GET", "/v1/tags/")]
)
def test_other_paths_have_no_operation(method, path):
    assert wire.operation_for(method, path) is None


def test_all_operations_that_are_not_about_container_jobs_are_in_the_table():
    jobs = {
        "CancelJob",
        "CancelJobs",
        "DescribeJobs",
        "GetJobQueueSnapshot",
        "ListJobs",
        "ListJobsByConsumableResource",
        "SubmitJob",
        "TerminateJob",
        "TerminateJobs",
    }
    assert set(wire.model().operation_names) - set(OPERATIONS) == jobs


# -- bodies


def test_a_request_comes_through_unchanged():
    overrides = {"command": ["echo", "Ref::x"], "environment": [{"name": "A", "value": ""}]}

    request = submitted(containerOverrides=overrides, arrayProperties={"size": 3})

    assert request == {
        **SUBMIT,
        "containerOverrides": overrides,
        "arrayProperties": {"size": 3},
    }


def test_unknown_members_and_nulls_are_ignored():
    request = submitted(surprise=1, tags=None, containerOverrides={"surprise": [], "vcpus": None})

    assert request == {**SUBMIT, "containerOverrides": {}}


@pytest.mark.parametrize("body", [b"{", b"[]", b"1", b'"text"', b"\xff\xfe", b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_a_serialization_exception(body):
    with pytest.raises(wire.SerializationError) as refused:
        wire.checked("SubmitJob", body, {}, {})

    assert refused.value.code == "SerializationException"
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "members",
    [
        {"jobName": 1},
        {"jobName": True},
        {"jobName": ["a"]},
        {"arrayProperties": []},
        {"arrayProperties": {"size": "3"}},
        {"arrayProperties": {"size": 2.5}},
        {"arrayProperties": {"size": True}},
        {"arrayProperties": {"size": 2**31}},
        {"dependsOn": {}},
        {"dependsOn": [None]},
        {"tags": []},
        {"tags": {"a": 1}},
        {"propagateTags": "true"},
        {"propagateTags": 1},
    ],
)
def test_a_member_of_another_type_is_a_serialization_exception(members):
    with pytest.raises(wire.SerializationError):
        submitted(**members)


def test_a_whole_number_may_be_written_as_a_decimal():
    size = submitted(arrayProperties={"size": 3.0})["arrayProperties"]["size"]

    assert size == 3
    assert isinstance(size, int)


@pytest.mark.parametrize("missing", sorted(SUBMIT))
def test_a_missing_member_is_named(missing):
    body = {member: value for member, value in SUBMIT.items() if member != missing}

    with pytest.raises(ClientError, match=f"{missing} is required"):
        wire.checked("SubmitJob", json.dumps(body).encode(), {}, {})


def test_a_value_outside_an_enum_is_refused_with_the_choices():
    with pytest.raises(ClientError, match=r"type can only be one of \[N_TO_N, SEQUENTIAL\]"):
        submitted(dependsOn=[{"jobId": "x", "type": "ANY"}])


def test_a_retry_action_may_be_written_in_any_case():
    retry = {"attempts": 2, "evaluateOnExit": [{"onReason": "*", "action": "exit"}]}

    assert submitted(retryStrategy=retry)["retryStrategy"]["evaluateOnExit"][0]["action"] == "EXIT"


def test_a_refusal_is_wrapped_as_aws_wraps_it_and_names_its_request():
    with pytest.raises(ClientError) as refused:
        wire.checked("SubmitJob", b"{}", {}, {})

    message = refused.value.message
    assert message.startswith("Error executing request, Exception : ")
    assert message.endswith(f", RequestId: {getattr(refused.value, 'request_id', None)}")
    assert (refused.value.code, refused.value.status) == ("ClientException", 400)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
MEMBERS = sorted(
    {
        member
        for name in wire.model().operation_names
        for member in wire.model().operation_model(name).input_shape.members
    }
)


@given(
    operation=st.sampled_from(sorted(wire.model().operation_names)),
    body=st.dictionaries(st.sampled_from(MEMBERS), JSON, max_size=6),
)
def test_any_json_is_either_read_or_refused_in_batch_s_words(operation, body):
    shape = wire.model().operation_model(operation).input_shape
    try:
        request = wire.checked(operation, json.dumps(body).encode(), {}, {})
    except BatchError as error:
        assert error.status == 400  # noqa: PT017 — either outcome is fine, but no other error
    else:
        assert set(request) <= set(shape.members)
        assert set(shape.required_members) <= set(request)


# -- AWS's own examples


def examples(operation: str) -> list[dict[str, Any]]:
    loaded = botocore.loaders.Loader().load_data("batch/2016-08-10/examples-1")
    return [example["input"] for example in loaded["examples"].get(operation, [])]


def test_aws_s_own_examples_work():
    api = Api()
    for operation in ("CreateComputeEnvironment", "CreateJobQueue", "RegisterJobDefinition"):
        assert examples(operation)
        for request in examples(operation):
            api(operation, **request)

    assert api("DescribeJobQueues", **examples("DescribeJobQueues")[0])["jobQueues"]
