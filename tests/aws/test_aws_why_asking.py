"""How a diagnosis asks: few calls, whatever name a job has, and on when something is refused."""

from __future__ import annotations

from typing import Any

import pytest

from support.why_world import REGION, World, wants
from wherry.aws import jobs
from wherry.aws.diagnosis import diagnose, most_telling
from wherry.aws.documents import Document
from wherry.emulator import Running
from wherry.errors import AwsError, CredentialsError
from wherry.specs.states import AppState

JOB = "11111111-1111-1111-1111-111111111111"
ARN = f"arn:aws:batch:{REGION}:123456789012:job/{JOB}"


class Scripted:
    """Answers of one service by operation; an exception is raised."""

    def __init__(self, **answers: Document | Exception) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def call(
        self, operation: str, /, *, patience: float | None = None, **params: object
    ) -> Document:
        self.asked.append(operation)
        answer = self.answers[operation]
        if isinstance(answer, Exception):
            raise answer
        return answer


def job(status: str, **more: Any) -> Document:
    return {
        "jobId": JOB,
        "jobArn": ARN,
        "jobName": "train",
        "jobQueue": f"arn:aws:batch:{REGION}:123456789012:job-queue/main",
        "status": status,
        "createdAt": 1_000_000,
        "container": {"image": "alpine:3", "resourceRequirements": wants(1, 128)},
        **more,
    }


def denied(operation: str) -> AwsError:
    return AwsError("no", code="AccessDeniedException", operation=operation, status=403)


# -- names ----------------------------------------------------------------------------------------


def test_an_arn_is_as_good_as_an_id(wherry_aws: Running) -> None:
    world = World(wherry_aws)
    made = world.run("exit 3")

    by_id = world.diagnosed(made)
    by_arn = world.diagnosed(world.look(made)["jobArn"])

    assert by_arn == by_id


def test_a_child_and_a_node_are_asked_for_by_their_ids(wherry_aws: Running) -> None:
    world = World(wherry_aws)
    array = world.submit(world.define("sweep", "false"), arrayProperties={"size": 2})
    gang = world.submit(world.define_gang("gang", "false"))
    world.until(array, "FAILED")
    world.until(gang, "FAILED")

    child, node = world.diagnosed(f"{array}:1"), world.diagnosed(f"{gang}#0")

    assert child.facts[0].text == f"sweep, child 1 of {array}"
    assert node.facts[0].text == f"gang, node 0 of {gang}"
    assert child.state is node.state is AppState.FAILED


# -- calls ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "most"),
    [
        (lambda world: world.run("exit 3"), 3),
        (lambda world: world.held("STARTING", 2), 1),
        (lambda world: world.stuck("UNDETERMINED"), 6),
    ],
    ids=["failed", "starting", "runnable"],
)
def test_few_calls_are_made(wherry_aws: Running, make: Any, most: int) -> None:
    world = World(wherry_aws)
    made = make(world)

    world.diagnosed(made)

    services = ("batch", "logs", "iam", "ecr", "ec2")
    counts = [world.session.calls(service).counts for service in services]
    assert sum(sum(count.values()) for count in counts) <= most


def test_an_array_of_many_failed_children_costs_no_more(wherry_aws: Running) -> None:
    world = World(wherry_aws)
    size = 200
    made = world.submit(world.define("sweep", "false"), arrayProperties={"size": size})
    world.until(made, "FAILED")

    diagnosis = world.diagnosed(made)

    assert diagnosis.cause is not None
    assert diagnosis.cause.summary.startswith(f"{size} of {size} children failed")
    assert sum(world.session.calls("batch").counts.values()) == 3


# -- refusals -------------------------------------------------------------------------------------


def test_services_that_are_not_there_are_named() -> None:
    roles = {"jobRoleArn": "arn:aws:iam::123456789012:role/train"}
    starting = job("STARTING", container={"image": "alpine:3", **roles})
    services = {"batch": Scripted(DescribeJobs={"jobs": [starting]})}

    diagnosis = diagnose(services, JOB, 1100.0)

    assert diagnosis.unseen == ("the job role: iam is not asked here",)
    assert diagnosis.cause is not None
    assert diagnosis.cause.code == "starting"


@pytest.mark.parametrize(
    "refused",
    [
        "DescribeJobQueues",
        "DescribeComputeEnvironments",
        "GetJobQueueSnapshot",
    ],
)
def test_a_refusal_ends_nothing(wherry_aws: Running, refused: str) -> None:
    world = World(wherry_aws)
    made = world.stuck("UNDETERMINED")
    world.fault("access-denied", operation=refused)

    diagnosis = world.diagnosed(made)

    assert diagnosis.cause is not None
    assert diagnosis.cause.code == "undetermined"
    assert any(f"batch:{refused}" in sentence for sentence in diagnosis.unseen)


def test_a_source_that_fails_is_named_with_its_error() -> None:
    failed = job(
        "FAILED",
        attempts=[
            {
                "container": {"exitCode": 3, "logStreamName": "a/b/c"},
                "startedAt": 1_000_000,
                "stoppedAt": 1_001_000,
                "statusReason": "Essential container in task exited",
            }
        ],
    )
    services = {
        "batch": Scripted(DescribeJobs={"jobs": [failed]}),
        "logs": Scripted(GetLogEvents=AwsError("down", code="ServiceUnavailable", status=503)),
    }

    diagnosis = diagnose(services, JOB, 1100.0)

    assert diagnosis.unseen == ("the log: logs:GetLogEvents failed (ServiceUnavailable)",)
    assert diagnosis.cause is not None


def test_credentials_that_are_not_taken_are_an_error() -> None:
    services = {"batch": Scripted(DescribeJobs=CredentialsError("expired"))}

    with pytest.raises(CredentialsError):
        diagnose(services, JOB, 0.0)


def test_a_service_that_cannot_be_reached_is_an_error() -> None:
    services = {"batch": Scripted(DescribeJobs=AwsError("down", status=500))}

    with pytest.raises(AwsError):
        diagnose(services, JOB, 0.0)


def test_jobs_that_may_not_be_described_are_no_error() -> None:
    services = {"batch": Scripted(DescribeJobs=denied("DescribeJobs"))}

    diagnosis = diagnose(services, JOB, 0.0)

    assert diagnosis.state is AppState.UNKNOWN


def test_roles_and_images_of_other_places_are_not_asked_for() -> None:
    container = {
        "image": "123456789012.dkr.ecr.eu-west-1.amazonaws.com/train:v1",
        "jobRoleArn": "arn:aws:iam::210987654321:role/train",
    }
    services = {"batch": Scripted(DescribeJobs={"jobs": [job("STARTING", container=container)]})}

    diagnosis = diagnose(services, JOB, 1100.0)

    assert len(diagnosis.unseen) == 2
    assert "another account" in diagnosis.unseen[0]
    assert "eu-west-1" in diagnosis.unseen[1]


def test_an_empty_page_is_not_the_end_of_a_log() -> None:
    class Paged(Scripted):
        def call(
            self, operation: str, /, *, patience: float | None = None, **params: object
        ) -> Document:
            self.asked.append(operation)
            if "nextToken" not in params:
                return {"events": [], "nextBackwardToken": "b/1"}
            return {"events": [{"message": "ValueError: x"}], "nextBackwardToken": "b/2"}

    failed = job(
        "FAILED",
        attempts=[
            {
                "container": {"exitCode": 1, "logStreamName": "a/b/c"},
                "startedAt": 1_000_000,
                "stoppedAt": 1_001_000,
            }
        ],
    )
    services = {"batch": Scripted(DescribeJobs={"jobs": [failed]}), "logs": Paged()}

    diagnosis = diagnose(services, JOB, 1100.0)

    assert diagnosis.log == ("ValueError: x",)
    assert diagnosis.cause is not None
    assert diagnosis.cause.code == "exception"


# -- what is peculiar -----------------------------------------------------------------------------


def test_consumables_that_are_gone_are_told() -> None:
    asked = {"consumableResourceList": [{"consumableResource": "licence", "quantity": 1}]}
    waiting = job("RUNNABLE", consumableResourceProperties=asked)
    batch = Scripted(
        DescribeJobs={"jobs": [waiting]},
        DescribeJobQueues={"jobQueues": []},
        GetJobQueueSnapshot={},
        DescribeConsumableResource=AwsError("no such", code="ClientException", status=400),
    )

    diagnosis = diagnose({"batch": batch}, JOB, 1100.0)

    assert diagnosis.cause is not None
    assert diagnosis.cause.code == "consumable-gone"


def test_a_job_that_succeeded_although_a_child_process_was_killed_is_told() -> None:
    done = job(
        "SUCCEEDED",
        attempts=[
            {
                "container": {
                    "exitCode": 0,
                    "reason": "OutOfMemoryError: Container killed due to memory usage",
                },
                "startedAt": 1_000_000,
                "stoppedAt": 1_001_000,
            }
        ],
    )

    diagnosis = diagnose({"batch": Scripted(DescribeJobs={"jobs": [done]})}, JOB, 1100.0)

    assert [finding.code for finding in diagnosis.findings] == ["out-of-memory", "succeeded"]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"type": "EC2", "maxvCpus": 16, "desiredvCpus": 8}, "not-registered"),
        ({"type": "EC2", "maxvCpus": 16, "desiredvCpus": 16}, "environment-full"),
        ({"type": "EC2", "maxvCpus": 16, "desiredvCpus": 0}, "no-instances"),
        ({"type": "FARGATE", "maxvCpus": 16}, "no-fargate"),
    ],
)
def test_what_the_environment_wants_tells_why_nothing_comes(
    resources: Document, expected: str
) -> None:
    platforms = ["FARGATE"] if resources["type"] == "FARGATE" else ["EC2"]
    container = {"image": "alpine:3", "resourceRequirements": wants(1, 2048)}
    waiting = job("RUNNABLE", platformCapabilities=platforms, container=container)
    arn = "arn:aws:batch:us-east-1:123456789012:compute-environment/main"
    environment = {
        "computeEnvironmentName": "main",
        "computeEnvironmentArn": arn,
        "type": "MANAGED",
        "computeResources": resources,
    }
    order = [{"order": 1, "computeEnvironment": arn}]
    batch = Scripted(
        DescribeJobs={"jobs": [waiting]},
        DescribeJobQueues={
            "jobQueues": [{"jobQueueName": "main", "computeEnvironmentOrder": order}]
        },
        DescribeComputeEnvironments={"computeEnvironments": [environment]},
        GetJobQueueSnapshot={"frontOfQueue": {"jobs": [{"jobArn": ARN}]}},
    )

    diagnosis = diagnose({"batch": batch}, JOB, 5000.0)

    assert diagnosis.cause is not None
    assert diagnosis.cause.code == expected


def test_a_pending_job_that_nothing_holds_is_told_to_wait() -> None:
    other = "22222222-2222-2222-2222-222222222222"
    batch = Scripted(
        DescribeJobs={
            "jobs": [
                job("PENDING", dependsOn=[{"jobId": other}]),
                job("SUCCEEDED") | {"jobId": other},
            ]
        }
    )

    diagnosis = diagnose({"batch": batch}, JOB, 5000.0)

    assert [finding.code for finding in diagnosis.findings] == ["pending"]


def test_the_clock_of_aws_counts_when_it_is_ahead() -> None:
    batch = Scripted(
        DescribeJobs={"jobs": [job("RUNNABLE")]},
        DescribeJobQueues={"jobQueues": []},
        GetJobQueueSnapshot={"frontOfQueue": {"jobs": [], "lastUpdatedAt": 1_000_000 + 1_860_000}},
    )

    diagnosis = diagnose({"batch": batch}, JOB, 1000.0)

    assert any(fact.text == "for 31 minutes" for fact in diagnosis.facts)


def test_of_several_jobs_the_one_that_failed_first_tells_most() -> None:
    def seen(job_id: str, status: str, stopped: int = 0) -> jobs.JobView:
        return jobs.view({"jobId": job_id, "status": status, "stoppedAt": stopped or None})

    of_one = [
        seen("a", "SUCCEEDED", 1000),
        seen("b", "FAILED", 3000),
        seen("c", "RUNNABLE"),
        seen("d", "FAILED", 2000),
    ]

    assert most_telling(of_one) is of_one[3]
    assert most_telling(of_one[:1] + of_one[2:3]) is of_one[2]
    assert most_telling([]) is None
