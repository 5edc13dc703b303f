"""What clients of others do, as their documents and sources show it: nothing here is ours but AWS.

Clients themselves, each from its package, were tried by hand: `docs/emulator.md` has the list.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import botocore
import pytest
from botocore import xform_name
from botocore.exceptions import ClientError

from support.cloud import client, define, emulator, lines, over, run, unique
from support.waiting import until
from wherry.emulator.server.emulator import Emulator

Call = Callable[..., dict[str, Any]]
BATCH = Path(botocore.__file__).parent / "data" / "batch" / "2016-08-10"
EXAMPLES = json.loads((BATCH / "examples-1.json").read_text())["examples"]
PAGINATORS = json.loads((BATCH / "paginators-1.json").read_text())["pagination"]


@pytest.fixture(scope="module")
def aws() -> Iterator[Emulator]:
    with emulator() as running:
        yield running


@pytest.fixture(scope="module")
def batch(aws: Emulator) -> Any:
    return client(aws, "batch")


# -- the examples of the API reference ------------------------------------------------------------

ORDER = """
    CreateComputeEnvironment CreateJobQueue RegisterJobDefinition SubmitJob
    DescribeComputeEnvironments DescribeJobDefinitions DescribeJobQueues DescribeJobs ListJobs
    TagResource UntagResource ListTagsForResource CancelJob TerminateJob
    UpdateJobQueue DeleteJobQueue UpdateComputeEnvironment DeleteComputeEnvironment
    DeregisterJobDefinition
""".split()
"""All operations that have examples, so that what one needs has been made by others."""

NOT_MADE_BY_AN_EXAMPLE: dict[str, tuple[tuple[str, str, str], ...]] = {
    "CreateComputeEnvironment": (
        ("computeEnvironmentName", "C4OnDemand", "P2OnDemand"),
    ),
    "CreateJobQueue": (("jobQueueName", "LowPriority", "GPGPU"),),
    "RegisterJobDefinition": (("jobDefinitionName", "sleep30", "sleep60"),),
}
"""What examples use and none makes: it is made as another one, under its name."""

NO_LONGER_TRUE = {"DeregisterJobDefinition"}
"""The reference says that a revision has to be given, and its example gives none."""


def _inputs(operation: str) -> Iterator[dict[str, Any]]:
    for example in EXAMPLES[operation]:
        given = example.get("input", {})
        yield given
        for member, like, name in NOT_MADE_BY_AN_EXAMPLE.get(operation, ()):
            if given[member] == like:
                yield {**given, member: name}


def test_every_example_of_the_api_reference_is_answered_in_the_shape_that_it_shows():
    # Queues and roles of the examples belong to another account: the regions have the same one.
    with emulator() as running:
        batch = client(running, "batch", region="eu-west-1")
        assert set(ORDER) == set(EXAMPLES)
        for operation in ORDER:
            for given in _inputs(operation):
                _answer_like_the_example(batch, operation, given)


def _answer_like_the_example(batch: Any, operation: str, given: dict[str, Any]) -> None:
    call = getattr(batch, xform_name(operation))
    if "resourceArn" in given:
        given = {**given, "resourceArn": given["resourceArn"].replace("us-east-1", "eu-west-1")}
    if operation in NO_LONGER_TRUE:
        with pytest.raises(ClientError, match="name and revision"):
            call(**given)
        given = {**given, "jobDefinition": f"{given['jobDefinition']}:1"}
    answer = call(**given)
    for example in EXAMPLES[operation]:
        assert set(example.get("output") or {}) <= set(answer), operation


# -- paginators -----------------------------------------------------------------------------------


def _made_for_listing(batch: Any) -> dict[str, dict[str, Any]]:
    """Make at least three of everything; return what each paginator is asked."""
    word = unique("page")
    place = [{"order": 1, "computeEnvironment": "main"}]
    resource = [{"consumableResource": f"{word}-0", "quantity": 1}]
    definition = define(batch, ["true"]).rpartition("/")[2].partition(":")[0]
    for number in range(3):
        name = f"{word}-{number}"
        batch.create_consumable_resource(
            consumableResourceName=name, totalQuantity=9, resourceType="REPLENISHABLE"
        )
        batch.create_scheduling_policy(name=name, fairsharePolicy={})
        batch.create_service_environment(
            serviceEnvironmentName=name,
            serviceEnvironmentType="SAGEMAKER_TRAINING",
            capacityLimits=[{"maxCapacity": 1, "capacityUnit": "NUM_INSTANCES"}],
        )
        batch.submit_job(
            jobName=name,
            jobQueue="main",
            jobDefinition=definition,
            consumableResourcePropertiesOverride={"consumableResourceList": resource},
        )
    del place
    return {
        "ListJobs": {"jobQueue": "main", "filters": [{"name": "JOB_NAME", "values": [f"{word}*"]}]},
        "ListJobsByConsumableResource": {"consumableResource": f"{word}-0"},
    }


NOT_OFFERED = {"ListServiceJobs", "ListQuotaShares"}
"""Service jobs do not exist here; quota shares have a test of their own."""


@pytest.mark.parametrize("operation", sorted(set(PAGINATORS) - NOT_OFFERED))
def test_a_paginator_of_boto3_walks_over_everything_in_pages_of_any_size(operation: str):
    with emulator() as running:
        batch = client(running, "batch")
        asked = _made_for_listing(batch).get(operation, {})
        paginator = batch.get_paginator(xform_name(operation))
        key = PAGINATORS[operation]["result_key"]

        def walk(size: int) -> list[Any]:
            pages = list(paginator.paginate(**asked, PaginationConfig={"PageSize": size}))
            assert all(len(page[key]) <= size for page in pages)
            return [json.dumps(_identity(entry)) for page in pages for entry in page[key]]

        whole = walk(100)
        assert len(whole) == len(set(whole)) >= 3 or operation == "DescribeJobDefinitions"
        assert walk(1) == walk(2) == whole


def _identity(entry: dict[str, Any]) -> Any:
    names = [name for name in sorted(entry) if name.lower().endswith("arn")]
    return [entry[name] for name in names]
