"""Job queues: what goes together, what can be replaced, and how they end."""

from __future__ import annotations

import pytest

from support.emulator_api import CONTAINER, EC2_RESOURCES, FARGATE_RESOURCES, Api, arn
from wherry.emulator.batch.errors import ClientError

STUCK = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"


def limit(**change: object) -> dict[str, object]:
    usual = {"state": "RUNNABLE", "reason": STUCK, "maxTimeSeconds": 600, "action": "CANCEL"}
    return {**usual, **change}


@pytest.fixture
def api() -> Api:
    made = Api()
    made.environment("ce")
    return made


def described(api: Api, name: str = "jq") -> dict:
    return api("DescribeJobQueues", jobQueues=[name])["jobQueues"][0]


def policy(api: Api, name: str, **kind: object) -> str:
    return api("CreateSchedulingPolicy", name=name, **kind)["arn"]


def test_a_new_queue_shows_its_environments_as_arns_in_their_order(api):
    api.environment("other")
    order = [
        {"order": 7, "computeEnvironment": "other"},
        {"order": 0, "computeEnvironment": arn("compute-environment", "ce")},
    ]

    api("CreateJobQueue", jobQueueName="jq", priority=3, computeEnvironmentOrder=order)

    assert described(api) == {
        "jobQueueName": "jq",
        "jobQueueArn": arn("job-queue", "jq"),
        "state": "ENABLED",
        "status": "VALID",
        "statusReason": "JobQueue Healthy",
        "priority": 3,
        "computeEnvironmentOrder": [
            {"order": 0, "computeEnvironment": arn("compute-environment", "ce")},
            {"order": 7, "computeEnvironment": arn("compute-environment", "other")},
        ],
        "jobStateTimeLimitActions": [],
        "jobQueueType": "ECS",
        "tags": {},
    }


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ([], "computeEnvironmentOrder is required"),
        ([(1, "no")], "must be created and valid"),
        ([(1, "ce"), (1, "b")], "Duplicate ComputeEnvironment order values"),
        ([(1, "ce"), (2, "ce")], "Duplicate ComputeEnvironments within order list"),
        ([(1, "ce"), (2, "fargate")], "Fargate and EC2 compute environments can not be mixed"),
        ([(1, "ce"), (2, "eks")], "EKS and ECS compute environments can not be mixed"),
        ([(1, "ce"), (2, "arm")], "must share the same architecture"),
    ],
)
def test_environments_that_do_not_go_together_are_refused(api, order, words):
    api.environment("b")
    api.environment("fargate", FARGATE_RESOURCES)
    api.environment("arm", {**EC2_RESOURCES, "instanceTypes": ["m6g"]})
    api(
        "CreateComputeEnvironment",
        computeEnvironmentName="eks",
        type="MANAGED",
        computeResources={**EC2_RESOURCES, "allocationStrategy": "BEST_FIT_PROGRESSIVE"},
        eksConfiguration={
            "eksClusterArn": "arn:aws:eks:us-east-1:123456789012:cluster/c",
            "kubernetesNamespace": "jobs",
        },
    )
    wanted = [{"order": place, "computeEnvironment": name} for place, name in order]

    with pytest.raises(ClientError, match=words):
        api("CreateJobQueue", jobQueueName="jq", priority=1, computeEnvironmentOrder=wanted)


def test_a_queue_s_type_must_be_that_of_its_environments(api):
    with pytest.raises(ClientError, match="EKS job queue type must have EKS compute environment"):
        api.queue("jq", ["ce"], jobQueueType="EKS")

    api.queue("jq", ["ce"], jobQueueType="ECS")


def test_a_name_is_taken_once(api):
    api.queue("jq")

    with pytest.raises(ClientError, match="Object already exists"):
        api.queue("jq")


def test_an_update_changes_what_it_names_and_nothing_else(api):
    api.environment("other")
    api.queue("jq", tags={"a": "b"})

    answer = api(
        "UpdateJobQueue",
        jobQueue=arn("job-queue", "jq"),
        state="DISABLED",
        priority=9,
        computeEnvironmentOrder=[{"order": 1, "computeEnvironment": "other"}],
        jobStateTimeLimitActions=[limit()],
    )

    shown = described(api)
    assert answer == {"jobQueueName": "jq", "jobQueueArn": arn("job-queue", "jq")}
    assert (shown["state"], shown["priority"], shown["tags"]) == ("DISABLED", 9, {"a": "b"})
    assert shown["jobStateTimeLimitActions"] == [limit()]
    assert [each["computeEnvironment"] for each in shown["computeEnvironmentOrder"]] == [
        arn("compute-environment", "other")
    ]


def test_a_refused_update_changes_nothing(api):
    api.queue("jq")
    before = described(api)

    with pytest.raises(ClientError):
        api(
            "UpdateJobQueue",
            jobQueue="jq",
            priority=9,
            jobStateTimeLimitActions=[limit(maxTimeSeconds=1)],
        )

    assert described(api) == before


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        ([limit(action="TERMINATE")], r"Valid job actions: \[CANCEL\]"),
        ([limit(reason="because")], "Invalid reason because"),
        ([limit(), limit(maxTimeSeconds=700)], "Duplicate job state limit actions"),
    ],
)
def test_time_limits_are_checked(api, actions, words):
    with pytest.raises(ClientError, match=words):
        api.queue("jq", jobStateTimeLimitActions=actions)


def test_a_scheduling_policy_can_be_replaced_but_not_removed(api):
    first, second = policy(api, "one"), policy(api, "two")
    api.queue("jq", schedulingPolicyArn=first)

    api("UpdateJobQueue", jobQueue="jq", schedulingPolicyArn=second)

    assert described(api)["schedulingPolicyArn"] == second
    with pytest.raises(ClientError, match="cannot be removed"):
        api("UpdateJobQueue", jobQueue="jq", schedulingPolicyArn="")


def test_a_scheduling_policy_cannot_be_added_later(api):
    api.queue("jq")

    with pytest.raises(ClientError, match="cannot be added"):
        api("UpdateJobQueue", jobQueue="jq", schedulingPolicyArn=policy(api, "one"))


def test_a_scheduling_policy_must_exist_and_be_for_containers(api):
    with pytest.raises(ClientError, match=r"SchedulingPolicy .* not found"):
        api.queue("jq", schedulingPolicyArn=arn("scheduling-policy", "no"))
    quota = policy(api, "q", quotaSharePolicy={"idleResourceAssignmentStrategy": "FIFO"})
    with pytest.raises(ClientError, match="only supported for SageMaker Training job queues"):
        api.queue("jq", schedulingPolicyArn=quota)


def test_only_a_disabled_queue_can_be_deleted(api):
    api.queue("jq")
    with pytest.raises(ClientError, match="must be in DISABLED state"):
        api("DeleteJobQueue", jobQueue="jq")
    api("UpdateJobQueue", jobQueue="jq", state="DISABLED")

    api("DeleteJobQueue", jobQueue="jq")

    assert api("DescribeJobQueues")["jobQueues"] == []
    with pytest.raises(ClientError, match=r"JobQueue jq not found\."):
        api("UpdateJobQueue", jobQueue="jq")


def test_deleting_a_queue_ends_its_jobs_and_waits_for_the_last(api):
    running = {api.queue("jq")}
    ended: list[str] = []
    api.catalog.in_use = lambda used: used in running
    api.catalog.end_jobs = lambda queue: ended.append(queue.name)
    api("UpdateJobQueue", jobQueue="jq", state="DISABLED")

    api("DeleteJobQueue", jobQueue="jq")

    assert ended == ["jq"]
    assert described(api)["status"] == "DELETING"
    with pytest.raises(ClientError, match="resource is being modified"):
        api("UpdateJobQueue", jobQueue="jq", state="ENABLED")
    running.clear()
    assert api("DescribeJobQueues")["jobQueues"] == []


def test_queues_come_in_pages_that_stay_good_while_queues_come_and_go(api):
    for name in ("a", "b", "c", "e"):
        api.queue(name, state="DISABLED")
    first = api("DescribeJobQueues", maxResults=2)
    api("DeleteJobQueue", jobQueue="b")
    api.queue("d")

    rest = api("DescribeJobQueues", maxResults=100, nextToken=first["nextToken"])

    assert [queue["jobQueueName"] for queue in first["jobQueues"]] == ["a", "b"]
    assert [queue["jobQueueName"] for queue in rest["jobQueues"]] == ["c", "d", "e"]
    assert "nextToken" not in rest


def test_a_token_of_another_list_is_refused(api):
    for name in ("a", "b"):
        api("CreateConsumableResource", consumableResourceName=name)
    first = api("ListConsumableResources", maxResults=1)

    with pytest.raises(ClientError, match="Invalid nextToken"):
        api("DescribeJobQueues", nextToken=first["nextToken"])
    rest = api("ListConsumableResources", nextToken=first["nextToken"])
    assert [each["consumableResourceName"] for each in rest["consumableResources"]] == ["b"]


@pytest.mark.parametrize("token", ["nonsense!", "Zm9", "Zm9v", "YQ=="])
def test_a_token_that_was_never_given_is_refused(api, token):
    with pytest.raises(ClientError, match="Invalid nextToken"):
        api("DescribeJobQueues", nextToken=token)


# -- queues of service jobs, and their quota shares

SHARE = {
    "capacityLimits": [{"maxCapacity": 4, "capacityUnit": "ml.m5.large"}],
    "resourceSharingConfiguration": {"strategy": "LEND_AND_BORROW", "borrowLimit": 50},
    "preemptionConfiguration": {"inSharePreemption": "DISABLED"},
}


def service_queue(api: Api) -> None:
    api(
        "CreateServiceEnvironment",
        serviceEnvironmentName="se",
        serviceEnvironmentType="SAGEMAKER_TRAINING",
        capacityLimits=[{"maxCapacity": 5, "capacityUnit": "NUM_INSTANCES"}],
    )
    quota = policy(api, "q", quotaSharePolicy={"idleResourceAssignmentStrategy": "FIFO"})
    api(
        "CreateJobQueue",
        jobQueueName="training",
        priority=1,
        jobQueueType="SAGEMAKER_TRAINING",
        schedulingPolicyArn=quota,
        serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": "se"}],
    )


def test_a_queue_of_service_jobs_has_a_service_environment(api):
    service_queue(api)

    shown = described(api, "training")
    assert shown["jobQueueType"] == "SAGEMAKER_TRAINING"
    assert shown["computeEnvironmentOrder"] == []
    assert shown["serviceEnvironmentOrder"] == [{"order": 1, "serviceEnvironment": "se"}]


def test_a_service_environment_is_made_changed_and_deleted(api):
    service_queue(api)
    capacity = [{"maxCapacity": 9, "capacityUnit": "NUM_INSTANCES"}]
    api(
        "UpdateServiceEnvironment",
        serviceEnvironment="se",
        state="DISABLED",
        capacityLimits=capacity,
    )
    with pytest.raises(ClientError, match="found existing JobQueue relationship"):
        api("DeleteServiceEnvironment", serviceEnvironment="se")
    api("UpdateJobQueue", jobQueue="training", state="DISABLED")
    api("DeleteJobQueue", jobQueue="training")

    shown = api("DescribeServiceEnvironments", serviceEnvironments=["se"])["serviceEnvironments"]
    api("DeleteServiceEnvironment", serviceEnvironment="se")

    assert (shown[0]["state"], shown[0]["capacityLimits"]) == ("DISABLED", capacity)
    assert api("DescribeServiceEnvironments")["serviceEnvironments"] == []


@pytest.mark.parametrize(
    ("capacity", "words"),
    [
        ([], "Capacitylimits are required"),
        ([{"maxCapacity": 0, "capacityUnit": "NUM_INSTANCES"}], "must be more than 0"),
        ([{"maxCapacity": 1, "capacityUnit": "GPUS"}], "GPUS is unknown capacity unit"),
        (
            [
                {"maxCapacity": 1, "capacityUnit": "NUM_INSTANCES"},
                {"maxCapacity": 1, "capacityUnit": "ml.m5.large"},
            ],
            "either number of instances OR instance type",
        ),
    ],
)
def test_the_capacity_of_a_service_environment_is_checked(api, capacity, words):
    with pytest.raises(ClientError, match=words):
        api(
            "CreateServiceEnvironment",
            serviceEnvironmentName="se",
            serviceEnvironmentType="SAGEMAKER_TRAINING",
            capacityLimits=capacity,
        )


def test_a_quota_share_is_made_changed_listed_and_deleted(api):
    service_queue(api)

    made = api("CreateQuotaShare", quotaShareName="s", jobQueue="training", **SHARE)
    share = made["quotaShareArn"]
    api("UpdateQuotaShare", quotaShareArn=share, state="DISABLED")
    shown = api("DescribeQuotaShare", quotaShareArn=share)
    listed = api("ListQuotaShares", jobQueue="training")["quotaShares"]
    api("DeleteQuotaShare", quotaShareArn=share)

    assert share == arn("job-queue", "training/quota-share/s")
    assert shown["state"] == "DISABLED"
    assert shown["resourceSharingConfiguration"] == SHARE["resourceSharingConfiguration"]
    assert [each["quotaShareName"] for each in listed] == ["s"]
    assert api("ListQuotaShares", jobQueue="training")["quotaShares"] == []


def test_a_quota_share_needs_a_queue_with_such_a_policy(api):
    api.queue("jq")

    with pytest.raises(ClientError, match="does not have a quota share scheduling policy"):
        api("CreateQuotaShare", quotaShareName="s", jobQueue="jq", **SHARE)


def test_only_a_disabled_quota_share_can_be_deleted(api):
    service_queue(api)
    made = api("CreateQuotaShare", quotaShareName="s", jobQueue="training", **SHARE)

    with pytest.raises(ClientError, match="must be in DISABLED state"):
        api("DeleteQuotaShare", quotaShareArn=made["quotaShareArn"])


def test_a_limit_to_borrowing_needs_a_strategy_that_borrows(api):
    service_queue(api)
    sharing = {"strategy": "RESERVE", "borrowLimit": 50}
    request = {**SHARE, "resourceSharingConfiguration": sharing}

    with pytest.raises(ClientError, match="borrowLimit can only be applied"):
        api("CreateQuotaShare", quotaShareName="s", jobQueue="training", **request)


@pytest.mark.parametrize(
    ("operation", "request_"),
    [
        ("DescribeServiceJob", {"jobId": "x"}),
        ("ListServiceJobs", {}),
        ("TerminateServiceJob", {"jobId": "x", "reason": "r"}),
        ("UpdateServiceJob", {"jobId": "x", "schedulingPriority": 1}),
    ],
)
def test_service_jobs_are_refused_with_the_reason(api, operation, request_):
    with pytest.raises(ClientError, match=r"Service jobs .* are not available in this emulator"):
        api(operation, **request_)


# -- what outlives the process


class Shelf:
    """An archive in memory, which gives back what JSON would."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], str] = {}

    def load(self, kind: str) -> list[tuple[str, dict]]:
        import json

        return [(key, json.loads(body)) for (k, key), body in self.records.items() if k == kind]

    def save(self, kind: str, key: str, record: dict) -> None:
        import json

        self.records[kind, key] = json.dumps(record)

    def remove(self, kind: str, key: str) -> None:
        self.records.pop((kind, key), None)

    def commit(self) -> None:
        pass


def test_all_resources_are_there_after_a_restart():
    from wherry.emulator.batch.catalog import Catalog
    from wherry.emulator.clock import Clock

    shelf = Shelf()
    clock = Clock(wall=lambda: 1_000_000_000.0, monotonic=lambda: 0.0)
    before = Api(Catalog("us-east-1", clock, shelf))
    before.environment("ce")
    before.environment("gone")
    service_queue(before)
    before.queue("jq", tags={"a": "b"})
    before("CreateConsumableResource", consumableResourceName="licence", totalQuantity=3)
    before("CreateQuotaShare", quotaShareName="s", jobQueue="training", **SHARE)
    before.definition("jd")
    before("DeregisterJobDefinition", jobDefinition=before.definition("jd"))
    before("UpdateComputeEnvironment", computeEnvironment="gone", state="DISABLED")
    before("DeleteComputeEnvironment", computeEnvironment="gone")

    after = Api(Catalog("us-east-1", clock, shelf))

    for operation, request in (
        ("DescribeComputeEnvironments", {}),
        ("DescribeJobQueues", {}),
        ("DescribeJobDefinitions", {}),
        ("DescribeSchedulingPolicies", {"arns": [arn("scheduling-policy", "q")]}),
        ("DescribeConsumableResource", {"consumableResource": "licence"}),
        ("DescribeServiceEnvironments", {}),
        ("ListQuotaShares", {"jobQueue": "training"}),
    ):
        assert after(operation, **request) == before(operation, **request), operation
    assert after.definition("jd").endswith(":3")


# -- what was made elsewhere


def test_resources_of_a_stack_are_taken_over_and_brought_up_to_date(api):
    environment, queue = arn("compute-environment", "stack"), arn("job-queue", "stack")
    definition = arn("job-definition", "stack") + ":4"
    for priority in (1, 2):
        api.catalog.adopt(
            "environment", {"type": "MANAGED", "computeResources": {"type": "EC2"}}, environment
        )
        order = [{"order": 1, "computeEnvironment": environment}]
        api.catalog.adopt("queue", {"priority": priority, "computeEnvironmentOrder": order}, queue)
        api.catalog.adopt("definition", {"containerProperties": CONTAINER}, definition)

    assert described(api, "stack")["priority"] == 2
    assert api.catalog.queue(queue).environments == [environment]
    assert api.catalog.definition("stack").arn == definition
    assert api.definition("stack").endswith(":5")
