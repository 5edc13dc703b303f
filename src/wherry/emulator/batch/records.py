"""What the control plane remembers: resources, jobs and their attempts, as plain records."""

from __future__ import annotations

from dataclasses import dataclass, field

from wherry.emulator.batch.ports import Document


@dataclass
class ComputeEnvironment:
    """A compute environment; `resources` is ``computeResources`` as the API has it."""

    name: str
    arn: str
    uuid: str
    type: str  # MANAGED or UNMANAGED
    state: str = "ENABLED"
    status: str = "VALID"
    status_reason: str = "ComputeEnvironment Healthy"
    resources: Document = field(default_factory=dict)
    unmanaged_vcpus: int = 0
    service_role: str = ""
    ecs_cluster_arn: str = ""
    eks: Document = field(default_factory=dict)
    update_policy: Document = field(default_factory=dict)
    ecs_settings: Document = field(default_factory=dict)
    context: str = ""
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """``EC2``, ``SPOT``, ``FARGATE``, ``FARGATE_SPOT`` …; EC2 when unmanaged."""
        return str(self.resources.get("type", "EC2"))


@dataclass
class JobQueue:
    """A job queue; `environments` are ARNs in the order in which they are tried.

    `orders` are the numbers that were given to them; empty for 1, 2, 3.
    """

    name: str
    arn: str
    priority: int
    environments: list[str]
    state: str = "ENABLED"
    status: str = "VALID"
    status_reason: str = "JobQueue Healthy"
    scheduling_policy_arn: str = ""
    type: str = ""  # jobQueueType
    time_limits: list[Document] = field(default_factory=list)  # jobStateTimeLimitActions
    service_environments: list[Document] = field(default_factory=list)
    orders: list[int] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)


@dataclass
class JobDefinition:
    """One revision of a job definition.

    `document` holds what RegisterJobDefinition was given and DescribeJobDefinitions returns
    (``type``, ``containerProperties``, ``nodeProperties``, ``ecsProperties``, ``eksProperties``,
    ``parameters``, ``retryStrategy``, ``timeout``, ``platformCapabilities``,
    ``schedulingPriority``, ``propagateTags``, ``consumableResourceProperties``), without name,
    revision, ARN, status and tags. A container's ``vcpus`` and ``memory`` are as they were given;
    `wherry.emulator.batch.sizes` reads both styles.
    """

    name: str
    revision: int
    arn: str
    document: Document
    status: str = "ACTIVE"
    deregistered_at: float | None = None
    tags: dict[str, str] = field(default_factory=dict)


@dataclass
class SchedulingPolicy:
    """A scheduling policy; `document` holds ``fairsharePolicy`` or ``quotaSharePolicy``."""

    name: str
    arn: str
    document: Document
    tags: dict[str, str] = field(default_factory=dict)


REPLENISHABLE, NON_REPLENISHABLE = "REPLENISHABLE", "NON_REPLENISHABLE"
"""What a consumable resource can be: given back when a job's attempt ends, or used up by it."""


@dataclass
class ConsumableResource:
    """A consumable resource.

    `in_use` is counted by whoever places jobs: what jobs hold now, or, of one that is not
    replenished, what they have used up so far.
    """

    name: str
    arn: str
    type: str
    total: int
    in_use: int = 0
    created_at: int = 0
    tags: dict[str, str] = field(default_factory=dict)


@dataclass
class QuotaShare:
    """A part of a queue of service jobs; `document` is what CreateQuotaShare was given."""

    name: str
    arn: str
    queue_arn: str
    document: Document
    state: str = "ENABLED"
    tags: dict[str, str] = field(default_factory=dict)


@dataclass
class ServiceEnvironment:
    """An environment for service jobs; `capacity` is ``capacityLimits``."""

    name: str
    arn: str
    type: str
    capacity: list[Document]
    state: str = "ENABLED"
    tags: dict[str, str] = field(default_factory=dict)


@dataclass
class Attempt:
    """One attempt of a job: what DescribeJobs shows in ``attempts``, and the one that runs.

    Times are in milliseconds; 0 is not yet. `containers` has one entry for each container, with
    ``name``, ``exitCode``, ``reason``, ``logStreamName`` where they are known. `instance_id` is the
    instance, `environment_arn` the compute environment where it runs.
    """

    task_id: str
    task_arn: str
    instance_arn: str  # containerInstanceArn; empty on Fargate
    instance_id: str = ""
    environment_arn: str = ""
    started_at: int = 0
    stopped_at: int = 0
    status_reason: str = ""
    containers: list[Document] = field(default_factory=list)


@dataclass(eq=False)
class Job:
    """A job of any kind: single, array parent, child, multi-node parent, node.

    Attributes:
        request: what SubmitJob was given, checked; shared by parent and children.
        definition: the revision it was submitted with; shared.
        index: which child or node it is; -1 for neither.
        parent: the id of the array or multi-node job that it belongs to.
        children: how many an array has, or nodes a multi-node job; 0 for neither.
        runs: the ends of earlier attempts, then the present one.
    """

    id: str
    arn: str
    name: str
    queue_arn: str
    definition: JobDefinition
    request: Document
    created_at: int
    status: str = "SUBMITTED"
    status_reason: str = ""
    started_at: int = 0
    stopped_at: int = 0
    parent: str = ""
    index: int = -1
    children: int = 0
    kind: str = "single"  # single, array, child, multinode, node
    runs: list[Attempt] = field(default_factory=list)
    is_cancelled: bool = False
    is_terminated: bool = False
    tags: dict[str, str] = field(default_factory=dict)


STATES = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED", "FAILED")
ENDED = frozenset(("SUCCEEDED", "FAILED"))

PLATFORMS = {
    "FARGATE": "FARGATE",
    "FARGATE_SPOT": "FARGATE",
    "ECS_MANAGED_INSTANCES": "MANAGED_INSTANCES",
}
"""The platform capability that jobs need on an environment of a kind; ``EC2`` on all others."""
