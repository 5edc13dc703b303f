"""ListJobs, DescribeJobs with many ids, snapshots, and jobs by consumable resource."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from support.emulated import SIMPLE, World, multinode
from wherry.emulator.batch.errors import ClientError
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import ConsumableResource, SchedulingPolicy


@pytest.fixture
def world() -> World:
    return World()


def ids(answer: Document) -> list[str]:
    """Return the ids that ListJobs answers."""
    return [summary["jobId"] for summary in answer["jobSummaryList"]]


def listed(world: World, **params: Any) -> list[str]:
    """Return the ids of jobs of the queue ``main``."""
    return ids(world.call("ListJobs", jobQueue="main", **params))


def filtered(world: World, name: str, value: str, **params: Any) -> list[str]:
    """Return the ids that a filter lets through."""
    return listed(world, filters=[{"name": name, "values": [value]}], **params)


def test_without_a_status_only_running_jobs_are_listed(world: World) -> None:
    running, _ = world.submit(), world.submit()
    world.begin(running)

    assert listed(world) == [running]


def test_a_status_lists_the_jobs_in_it(world: World) -> None:
    done, starting = world.submit(), world.submit()
    world.run(done)

    assert listed(world, jobStatus="SUCCEEDED") == [done]
    assert listed(world, jobStatus="STARTING") == [starting]
    assert listed(world, jobStatus="FAILED") == []


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"jobQueue": "main", "arrayJobId": "x"},
        {"arrayJobId": "x", "multiNodeJobId": "y"},
    ],
)
def test_exactly_one_of_queue_array_and_multi_node_job_is_needed(
    world: World, params: dict[str, str]
) -> None:
    with pytest.raises(ClientError, match="exactly one"):
        world.call("ListJobs", **params)


def test_an_unknown_queue_is_refused(world: World) -> None:
    with pytest.raises(ClientError, match="nowhere"):
        world.call("ListJobs", jobQueue="nowhere")


def test_children_are_listed_by_their_array_and_not_by_the_queue(world: World) -> None:
    job = world.submit(arrayProperties={"size": 3})
    world.begin(f"{job}:2")

    assert ids(world.call("ListJobs", arrayJobId=job)) == [f"{job}:2"]
    starting = world.call("ListJobs", arrayJobId=job, jobStatus="STARTING")
    assert ids(starting) == [f"{job}:0", f"{job}:1"]
    assert [one["arrayProperties"] for one in starting["jobSummaryList"]] == [
        {"index": 0},
        {"index": 1},
    ]
    assert listed(world) == []
    parent = world.call("ListJobs", jobQueue="main", jobStatus="PENDING")["jobSummaryList"][0]
    assert parent["arrayProperties"]["size"] == 3
    assert parent["arrayProperties"]["statusSummary"]["RUNNING"] == 1


def test_nodes_are_listed_by_their_multi_node_job(world: World) -> None:
    world.define("gang", multinode(2))
    job = world.submit("gang")
    world.begin(f"{job}#0")
    world.begin(f"{job}#1")

    answer = world.call("ListJobs", multiNodeJobId=job)

    assert ids(answer) == [f"{job}#0", f"{job}#1"]
    assert answer["jobSummaryList"][0]["nodeProperties"] == {
        "isMainNode": True,
        "numNodes": 2,
        "nodeIndex": 0,
    }
    parent = world.call("ListJobs", jobQueue="main")["jobSummaryList"][0]
    assert parent["nodeProperties"] == {"numNodes": 2}


def test_an_unknown_array_has_no_children(world: World) -> None:
    assert ids(world.call("ListJobs", arrayJobId=str(uuid.uuid4()))) == []


def test_a_summary_has_exit_code_and_reason_but_no_log_stream(world: World) -> None:
    job = world.submit()
    world.begin(job)
    world.end(job, 137, "OutOfMemoryError: Container killed due to memory usage")

    summary = world.call("ListJobs", jobQueue="main", jobStatus="FAILED")["jobSummaryList"][0]

    assert summary["container"] == {
        "exitCode": 137,
        "reason": "OutOfMemoryError: Container killed due to memory usage",
    }
    assert summary["statusReason"] == "Essential container in task exited"
    assert {"jobArn", "jobName", "createdAt", "startedAt", "stoppedAt", "jobDefinition"} <= set(
        summary
    )
    assert "isCancelled" not in summary
    assert "isTerminated" not in summary


def test_a_summary_tells_of_cancellation_and_termination_only_when_true(world: World) -> None:
    cancelled, terminated = world.submit(settle=False), world.submit(settle=False)
    world.call("CancelJob", jobId=cancelled, reason="x")
    world.call("TerminateJob", jobId=terminated, reason="x")

    answer = world.call("ListJobs", jobQueue="main", jobStatus="FAILED")["jobSummaryList"]

    flags = {one["jobId"]: (one.get("isCancelled"), one.get("isTerminated")) for one in answer}
    assert flags == {cancelled: (True, None), terminated: (None, True)}


def test_the_name_filter_ignores_case_and_takes_a_trailing_asterisk(world: World) -> None:
    first = world.submit(jobName="Test1")
    second = world.submit(jobName="test10")
    world.submit(jobName="best1")

    assert filtered(world, "JOB_NAME", "TEST1") == [first]
    assert filtered(world, "JOB_NAME", "test1*") == [second, first]


def test_the_definition_filter_covers_all_revisions_of_a_name_or_one_arn(world: World) -> None:
    first = world.define("train", SIMPLE)
    world.define("train", SIMPLE)
    jobs = [world.submit("train:1"), world.submit("train:2")]
    other = world.submit(world.define("train2", SIMPLE).arn)

    assert filtered(world, "JOB_DEFINITION", "train") == jobs[::-1]
    assert filtered(world, "JOB_DEFINITION", "train*") == [other, *jobs[::-1]]
    assert filtered(world, "JOB_DEFINITION", first.arn) == jobs[:1]
    assert filtered(world, "JOB_DEFINITION", "Train") == []


def test_filters_by_time_of_creation(world: World) -> None:
    first = world.submit()
    world.turn(10)
    moment = str(world.clock.now_ms())
    world.turn(10)
    second = world.submit()

    assert filtered(world, "BEFORE_CREATED_AT", moment) == [first]
    assert filtered(world, "AFTER_CREATED_AT", moment) == [second]


def test_a_filter_puts_the_status_aside_and_lists_newest_first(world: World) -> None:
    jobs = [world.submit() for _ in range(3)]
    world.run(jobs[0])

    assert filtered(world, "JOB_NAME", "job", jobStatus="FAILED") == jobs[::-1]


def test_a_share_filter_goes_with_a_status(world: World) -> None:
    policy = SchedulingPolicy("fair", world.catalog.arn("scheduling-policy", "fair"), {})
    policy.document["fairsharePolicy"] = {}
    world.catalog.keep(policy)
    world.add_queue("fair", scheduling_policy_arn=policy.arn)
    first, second = (world.submit(jobQueue="fair", shareIdentifier="a") for _ in range(2))
    world.submit(jobQueue="fair", shareIdentifier="b")
    world.run(first)
    filters = [{"name": "SHARE_IDENTIFIER", "values": ["a"]}]

    every = world.call("ListJobs", jobQueue="fair", filters=filters)
    done = world.call("ListJobs", jobQueue="fair", filters=filters, jobStatus="SUCCEEDED")

    assert ids(every) == [second, first]
    assert ids(done) == [first]


@pytest.mark.parametrize(
    "filters",
    [
        [{"name": "JOB_NAME", "values": ["a"]}, {"name": "JOB_DEFINITION", "values": ["b"]}],
        [{"name": "STATUS", "values": ["a"]}],
        [{"name": "AFTER_CREATED_AT", "values": ["yesterday"]}],
        [{"name": "JOB_NAME", "values": []}],
    ],
)
def test_filters_that_aws_does_not_take_are_refused(world: World, filters: list[Document]) -> None:
    with pytest.raises(ClientError):
        listed(world, filters=filters)


def test_pages_follow_one_another_without_gaps_while_jobs_are_added(world: World) -> None:
    jobs = [world.submit() for _ in range(5)]
    first = world.call("ListJobs", jobQueue="main", jobStatus="STARTING", maxResults=2)
    world.submit()
    second = world.call(
        "ListJobs",
        jobQueue="main",
        jobStatus="STARTING",
        maxResults=10,
        nextToken=first["nextToken"],
    )

    assert ids(first) + ids(second) == jobs[::-1]
    assert "nextToken" not in second


@pytest.mark.parametrize("token", ["nonsense!", "x", "c29tZXRoaW5n", "MDAwMDAwMDAwMDAwMDAwMQ=="])
def test_an_invalid_token_is_refused(world: World, token: str) -> None:
    with pytest.raises(ClientError, match="Invalid nextToken"):
        listed(world, nextToken=token)


def test_a_page_has_at_most_1000_jobs_and_with_a_filter_100(world: World) -> None:
    job = world.submit(arrayProperties={"size": 1200}, settle=False)

    answer = world.call("ListJobs", arrayJobId=job, jobStatus="SUBMITTED")

    assert len(ids(answer)) == 1000
    for params in ({"maxResults": 1001}, {"maxResults": 0}):
        with pytest.raises(ClientError, match="maxResults"):
            listed(world, **params)
    with pytest.raises(ClientError, match="maxResults"):
        filtered(world, "JOB_NAME", "job", maxResults=101)


def test_describe_takes_1_to_100_ids(world: World) -> None:
    with pytest.raises(ClientError, match="Maximum number of jobs supported is 100"):
        world.call("DescribeJobs", jobs=["x"] * 101)
    with pytest.raises(ClientError):
        world.call("DescribeJobs", jobs=[])


def test_describe_leaves_out_unknown_ids_and_tells_of_each_job_once(world: World) -> None:
    job = world.submit()

    answer = world.call("DescribeJobs", jobs=[job, str(uuid.uuid4()), job])

    assert [one["jobId"] for one in answer["jobs"]] == [job]


def test_describe_takes_arns_too_and_tells_of_each_job_once(world: World) -> None:
    job = world.submit(arrayProperties={"size": 2})
    arn = world.describe(job)["jobArn"]

    answer = world.call("DescribeJobs", jobs=[arn, job, f"{arn}:1"])

    assert [one["jobId"] for one in answer["jobs"]] == [job, f"{job}:1"]
    elsewhere = arn.replace("us-east-1", "eu-west-1")
    assert world.call("DescribeJobs", jobs=[elsewhere]) == {"jobs": []}


def test_children_and_nodes_are_listed_by_the_arn_of_their_job(world: World) -> None:
    world.define("gang", multinode(2))
    array, gang = world.submit(arrayProperties={"size": 2}), world.submit("gang")
    arns = [world.describe(job)["jobArn"] for job in (array, gang)]

    children = world.call("ListJobs", arrayJobId=arns[0], jobStatus="STARTING")
    nodes = world.call("ListJobs", multiNodeJobId=arns[1], jobStatus="STARTING")

    assert ids(children) == [f"{array}:0", f"{array}:1"]
    assert ids(nodes) == [f"{gang}#0"]


def test_a_queue_of_another_region_or_account_is_refused_with_the_reason(world: World) -> None:
    for arn in (
        "arn:aws:batch:eu-west-1:123456789012:job-queue/main",
        "arn:aws:batch:us-east-1:999999999999:job-queue/main",
    ):
        for operation in ("ListJobs", "GetJobQueueSnapshot"):
            with pytest.raises(ClientError, match="not found") as caught:
                world.call(operation, jobQueue=arn)
            assert arn in caught.value.message
            assert world.queue.arn in caught.value.message


def test_a_summary_tells_how_much_a_dispatched_job_uses() -> None:
    world = World(vcpus=6)
    world.define("gang", multinode(2))
    gang, array, waiting = (
        world.submit("gang"),
        world.submit(arrayProperties={"size": 2}),
        world.submit(),
    )
    world.begin(f"{gang}#0")

    [of_gang] = world.call("ListJobs", jobQueue="main", jobStatus="RUNNING")["jobSummaryList"]
    children = world.call("ListJobs", arrayJobId=array, jobStatus="STARTING")["jobSummaryList"]
    [parent] = world.call("ListJobs", jobQueue="main", jobStatus="PENDING")["jobSummaryList"]
    [later] = world.call("ListJobs", jobQueue="main", jobStatus="RUNNABLE")["jobSummaryList"]

    assert of_gang["capacityUsage"] == [{"capacityUnit": "VCPU", "quantity": 2}]
    assert [one["capacityUsage"][0]["quantity"] for one in children] == [1, 1]
    assert "capacityUsage" not in parent
    assert (later["jobId"], "capacityUsage" in later) == (waiting, False)


def test_a_snapshot_lists_who_waits() -> None:
    world = World(vcpus=2)
    for _ in range(2):
        world.submit()
    waiting = [world.submit() for _ in range(2)]

    front = world.call("GetJobQueueSnapshot", jobQueue="main")["frontOfQueue"]["jobs"]

    assert [one["jobArn"] for one in front] == [world.describe(job)["jobArn"] for job in waiting]


def test_jobs_are_listed_by_the_consumable_resource_that_they_ask_for(world: World) -> None:
    arn = world.catalog.arn("consumable-resource", "licence")
    world.catalog.keep(ConsumableResource("licence", arn, "REPLENISHABLE", 1))
    asked = {"consumableResourceList": [{"consumableResource": "licence", "quantity": 1}]}
    world.define("licensed", SIMPLE, consumableResourceProperties=asked)
    first = world.submit("licensed", jobName="first")
    world.submit()
    second = world.submit("licensed", jobName="second")

    answer = world.call("ListJobsByConsumableResource", consumableResource="licence")
    running = world.call(
        "ListJobsByConsumableResource",
        consumableResource=arn,
        filters=[{"name": "JOB_STATUS", "values": ["STARTING"]}],
    )

    assert [one["jobName"] for one in answer["jobs"]] == ["second", "first"]
    assert answer["jobs"][0]["jobStatus"] == "RUNNABLE"
    assert [one["jobName"] for one in running["jobs"]] == ["first"]
    assert world.catalog.in_use(arn)
    world.run(first)
    world.run(second)
    assert not world.catalog.in_use(arn)


def test_jobs_are_listed_by_a_resource_that_was_made_after_they_were_submitted(
    world: World,
) -> None:
    asked = {"consumableResourceList": [{"consumableResource": "licence", "quantity": 2}]}
    job = world.submit(consumableResourcePropertiesOverride=asked)
    assert world.status(job) == "RUNNABLE"

    arn = world.catalog.arn("consumable-resource", "licence")
    world.catalog.keep(ConsumableResource("licence", arn, "REPLENISHABLE", 2))
    world.placement.changed()
    world.plane.unplaced = True
    world.settle()

    [listed] = world.call("ListJobsByConsumableResource", consumableResource=arn)["jobs"]
    assert (listed["jobStatus"], listed["quantity"]) == ("STARTING", 2)
