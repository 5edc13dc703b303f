"""Tags of everything that has an ARN."""

from __future__ import annotations

import pytest

from support.emulator_api import Api, arn, read
from wherry.emulator.batch import wire
from wherry.emulator.batch.catalog_operations import OPERATIONS
from wherry.emulator.batch.errors import ClientError


def call(api: Api, operation: str, resource: str, body: bytes = b"", **query: list[str]) -> dict:
    request = wire.checked(operation, body, {"resourceArn": resource}, query)
    return read(operation, OPERATIONS[operation](api.catalog, request))


@pytest.fixture
def api() -> Api:
    made = Api()
    made.environment("ce")
    made.queue("jq")
    made.definition("jd")
    made("CreateSchedulingPolicy", name="p")
    made("CreateConsumableResource", consumableResourceName="c")
    return made


@pytest.mark.parametrize(
    "resource",
    [
        arn("job-queue", "jq"),
        arn("compute-environment", "ce"),
        arn("job-definition", "jd:1"),
        arn("scheduling-policy", "p"),
        arn("consumable-resource", "c"),
    ],
)
def test_tags_are_added_replaced_listed_and_removed(api, resource):
    call(api, "TagResource", resource, b'{"tags": {"a": "1", "b": "2"}}')
    call(api, "TagResource", resource, b'{"tags": {"b": "3", "c": ""}}')
    call(api, "UntagResource", resource, tagKeys=["a", "unknown"])

    assert call(api, "ListTagsForResource", resource) == {"tags": {"b": "3", "c": ""}}


def test_tags_of_a_resource_are_in_its_description(api):
    call(api, "TagResource", arn("job-definition", "jd:1"), b'{"tags": {"a": "1"}}')

    assert api.described("jd")["tags"] == {"a": "1"}


@pytest.mark.parametrize(
    "resource",
    [
        arn("job-queue", "no"),
        arn("job-definition", "no:1"),
        arn("job-definition", "jd"),
        arn("bucket", "b"),
        "jq",
        arn("job", "0"),
    ],
)
def test_resources_that_are_not_there_are_refused(api, resource):
    with pytest.raises(ClientError):
        call(api, "ListTagsForResource", resource)


def test_tags_of_a_job_are_read_and_written_through_the_hook(api):
    tags = {arn("job", "0"): {"a": "1"}}

    def hook(job: str, after: dict[str, str] | None) -> dict[str, str] | None:
        if after is not None:
            tags[job] = after
        return tags.get(job)

    api.catalog.job_tags = hook
    call(api, "TagResource", arn("job", "0"), b'{"tags": {"b": "2"}}')
    call(api, "UntagResource", arn("job", "0"), tagKeys=["a"])

    assert call(api, "ListTagsForResource", arn("job", "0")) == {"tags": {"b": "2"}}


@pytest.mark.parametrize("child", ["0:7", "0#1"])
def test_children_and_nodes_have_no_tags(api, child):
    api.catalog.job_tags = lambda _arn, _tags: {}

    with pytest.raises(ClientError, match=r"child jobs .* are not supported"):
        call(api, "ListTagsForResource", arn("job", child))
