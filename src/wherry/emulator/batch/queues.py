"""Operations of job queues.

Refusals have the words that the service was seen to use (badmintoncryer/cdk-preflight, rules
``batch-jq-*``) where they are known.
"""

from __future__ import annotations

import itertools

from wherry.emulator.batch import arns, environment_rules, limits
from wherry.emulator.batch.catalog import Catalog
from wherry.emulator.batch.errors import ClientError, refuse
from wherry.emulator.batch.paging import answer, known
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import ComputeEnvironment, JobQueue, SchedulingPolicy

SAGEMAKER = "SAGEMAKER_TRAINING"

TIME_LIMIT_REASONS = (
    "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
    "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE",
    "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
    "MISCONFIGURATION:EC2_INSTANCE_CONFIGURATION_UNSUPPORTED",
    "MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE",
    "QUOTA_MANAGEMENT_LIMIT_EXCEEDED",
    "MISCONFIGURATION:QUOTA_MANAGEMENT_LIMIT_EXCEEDED",
)
"""Reasons on which a queue may act; userguide/job_stuck_in_runnable_time_limit_actions."""


def create(catalog: Catalog, request: Document) -> Document:
    """CreateJobQueue."""
    name = request["jobQueueName"]
    limits.check_name("Job Queue", name)
    limits.check_tags(request.get("tags", {}))
    refuse(catalog.find_queue(name) is not None, "Object already exists")
    kind = _kind(catalog, request)
    policy_arn = request.get("schedulingPolicyArn", "")
    if policy_arn:
        _check_policy(catalog.policy(policy_arn), kind)
    _check_time_limits(request.get("jobStateTimeLimitActions", []), kind)
    refuse(
        sum(1 for _ in catalog.queues()) >= limits.QUEUES,
        f"Maximum number of job queues supported is {limits.QUEUES}",
    )
    made = JobQueue(
        name=name,
        arn=catalog.arn(arns.QUEUE, name),
        priority=request["priority"],
        environments=_ordered(catalog, request.get("computeEnvironmentOrder", [])),
        orders=orders_of(request.get("computeEnvironmentOrder", [])),
        state=request.get("state", "ENABLED"),
        scheduling_policy_arn=policy_arn,
        type=kind,
        time_limits=list(request.get("jobStateTimeLimitActions", [])),
        service_environments=list(request.get("serviceEnvironmentOrder", [])),
        tags=dict(request.get("tags", {})),
    )
    catalog.keep(made)
    return {"jobQueueName": name, "jobQueueArn": made.arn}


def update(catalog: Catalog, request: Document) -> Document:
    """UpdateJobQueue."""
    found = catalog.queue(request["jobQueue"])
    if found.status == "DELETING":
        raise ClientError("Cannot update, resource is being modified")
    if "computeEnvironmentOrder" in request or "serviceEnvironmentOrder" in request:
        _kind(catalog, {**request, "jobQueueType": found.type})
    if "schedulingPolicyArn" in request:
        _check_replaced(catalog, found, request["schedulingPolicyArn"])
    _check_time_limits(request.get("jobStateTimeLimitActions", []), found.type)
    if "computeEnvironmentOrder" in request:
        found.environments = _ordered(catalog, request["computeEnvironmentOrder"])
        found.orders = orders_of(request["computeEnvironmentOrder"])
    found.service_environments = list(
        request.get("serviceEnvironmentOrder", found.service_environments)
    )
    found.scheduling_policy_arn = request.get("schedulingPolicyArn", found.scheduling_policy_arn)
    found.state = request.get("state", found.state)
    found.priority = request.get("priority", found.priority)
    found.time_limits = list(request.get("jobStateTimeLimitActions", found.time_limits))
    catalog.keep(found)
    return {"jobQueueName": found.name, "jobQueueArn": found.arn}


def delete(catalog: Catalog, request: Document) -> Document:
    """DeleteJobQueue: ends the queue's jobs; until the last has ended, it is there as DELETING."""
    found = catalog.queue(request["jobQueue"])
    if found.status == "DELETING":
        return {}
    if found.state != "DISABLED":
        raise ClientError("Cannot delete, JobQueue must be in DISABLED state")
    found.status, found.status_reason = "DELETING", "JobQueue is being deleted"
    catalog.keep(found)
    catalog.end_jobs(found)
    for share in list(catalog.quota_shares(found.arn)):
        catalog.remove(share)
    catalog.find_queue(found.name)  # drops it at once when nothing runs
    return {}


def describe(catalog: Catalog, request: Document) -> Document:
    """DescribeJobQueues. Unknown names are silently absent."""
    names = request.get("jobQueues", [])
    refuse(bool(names) and "maxResults" in request, "JobQueues and MaxResults cannot both be set")
    limits.check_count("job queues", names, limits.DESCRIBED)
    if names:
        return known("jobQueues", names, catalog.find_queue, _shown)
    return answer("jobQueues", catalog.queues(), lambda each: each.name, _shown, request)


def orders_of(order: list[Document]) -> list[int]:
    """Return the numbers that a request gives to a queue's environments, in their order."""
    return sorted(int(each["order"]) for each in order)


def _shown(queue: JobQueue) -> Document:
    optional = {
        "schedulingPolicyArn": queue.scheduling_policy_arn,
        "serviceEnvironmentOrder": queue.service_environments,
        "jobQueueType": queue.type,
    }
    return {
        "jobQueueName": queue.name,
        "jobQueueArn": queue.arn,
        "state": queue.state,
        "status": queue.status,
        "statusReason": queue.status_reason,
        "priority": queue.priority,
        "computeEnvironmentOrder": [
            {"order": place, "computeEnvironment": arn}
            for place, arn in zip(
                queue.orders or itertools.count(1), queue.environments, strict=False
            )
        ],
        "jobStateTimeLimitActions": list(queue.time_limits),
        "tags": dict(queue.tags),
        **{member: value for member, value in optional.items() if value},
    }


# -- rules ----------------------------------------------------------------------------------------


def _kind(catalog: Catalog, request: Document) -> str:
    """Check where a queue's jobs are to run, and return the queue's type.

    Raises:
        ClientError: the environments do not go together, or not with the type.
    """
    wanted = request.get("jobQueueType", "")
    if wanted == SAGEMAKER or "serviceEnvironmentOrder" in request:
        _check_service_environments(catalog, request)
        return SAGEMAKER
    order = request.get("computeEnvironmentOrder", [])
    refuse(not order, "computeEnvironmentOrder is required.")
    most = limits.ENVIRONMENTS_PER_QUEUE
    refuse(len(order) > most, f"Only {most} environments are allowed in job queue request.")
    places = {each["order"] for each in order}
    refuse(len(places) < len(order), "Duplicate ComputeEnvironment order values.")
    environments = [catalog.find_environment(each["computeEnvironment"]) for each in order]
    valid = [each for each in environments if each is not None and each.status == "VALID"]
    refuse(
        len(valid) < len(order),
        "Compute Environments must be created and valid before attaching them to a job queue",
    )
    refuse(
        len({each.arn for each in valid}) < len(valid),
        "Duplicate ComputeEnvironments within order list.",
    )
    return _common_type(valid, wanted)


def _common_type(environments: list[ComputeEnvironment], wanted: str) -> str:
    types = {_type_of(environment) for environment in environments}
    refuse(
        {"ECS", "ECS_FARGATE"} <= types, "Fargate and EC2 compute environments can not be mixed."
    )
    refuse("EKS" in types and len(types) > 1, "EKS and ECS compute environments can not be mixed.")
    refuse(
        len(types) > 1,
        "ECS_MANAGED_INSTANCES and other compute environments can not be mixed.",
    )
    kinds = {environment_rules.architecture(each) for each in environments} - {""}
    refuse(
        len(kinds) > 1,
        "All compute environments of a job queue must share the same architecture.",
    )
    kind = types.pop()
    refuse(
        bool(wanted) and wanted != kind,
        f"{wanted} job queue type must have {wanted} compute environment.",
    )
    return kind


def _type_of(environment: ComputeEnvironment) -> str:
    if environment.eks:
        return "EKS"
    if environment.kind in environment_rules.FARGATE:
        return "ECS_FARGATE"
    managed_instances = environment.kind == environment_rules.MANAGED_INSTANCES
    return environment_rules.MANAGED_INSTANCES if managed_instances else "ECS"


def _check_service_environments(catalog: Catalog, request: Document) -> None:
    order = request.get("serviceEnvironmentOrder", [])
    refuse(
        bool(request.get("computeEnvironmentOrder")),
        "A job queue can not have both serviceEnvironmentOrder and computeEnvironmentOrder.",
    )
    refuse(not order, f"Job queues of type {SAGEMAKER} must have serviceEnvironmentOrder.")
    refuse(
        request.get("jobQueueType") != SAGEMAKER,
        f"Job queues with serviceEnvironmentOrder must be of type {SAGEMAKER}.",
    )
    refuse(len(order) > 1, "Only 1 service environment is allowed in job queue request.")
    known = catalog.find_service_environment(order[0]["serviceEnvironment"])
    refuse(
        known is None,
        "Service environments must be created and valid before attaching them to a job queue.",
    )


def _ordered(catalog: Catalog, order: list[Document]) -> list[str]:
    placed = sorted(order, key=lambda each: int(each["order"]))
    return [catalog.environment(each["computeEnvironment"]).arn for each in placed]


def _check_policy(policy: SchedulingPolicy, kind: str) -> None:
    refuse(
        "quotaSharePolicy" in policy.document and kind != SAGEMAKER,
        "Quota Management feature is only supported for SageMaker Training job queues.",
    )


def _check_replaced(catalog: Catalog, queue: JobQueue, arn: str) -> None:
    """Refuse to add or to take away a policy: one can only be replaced by one of its kind."""
    refuse(
        not arn and bool(queue.scheduling_policy_arn),
        "schedulingPolicyArn can be replaced but cannot be removed.",
    )
    refuse(
        bool(arn) and not queue.scheduling_policy_arn,
        "schedulingPolicyArn cannot be added to a job queue that was created without one.",
    )
    if arn:
        after, before = catalog.policy(arn), catalog.policy(queue.scheduling_policy_arn)
        refuse(
            set(after.document) != set(before.document),
            "schedulingPolicyArn can only be replaced by a policy of the same type.",
        )
        _check_policy(after, queue.type)


def _check_time_limits(actions: list[Document], kind: str) -> None:
    allowed = "TERMINATE" if kind == SAGEMAKER else "CANCEL"
    seen: set[tuple[str, str]] = set()
    for action in actions:
        refuse(action["action"] != allowed, f"Invalid job action. Valid job actions: [{allowed}]")
        refuse(
            action["reason"].partition(" - ")[0] not in TIME_LIMIT_REASONS,
            f"Invalid reason {action['reason']}. Valid reasons: [{', '.join(TIME_LIMIT_REASONS)}]",
        )
        limits.check_range("maxTimeSeconds", action["maxTimeSeconds"], *limits.TIME_LIMIT_SECONDS)
        key = (action["state"], action["reason"])
        refuse(key in seen, "Duplicate job state limit actions are not allowed.")
        seen.add(key)
