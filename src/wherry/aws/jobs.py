"""Jobs of AWS Batch as values: what DescribeJobs and ListJobs say of one, in one shape.

DescribeJobs tells the same thing in four places: ``container`` for jobs of one container,
``ecsProperties`` for those of several, ``eksProperties`` for pods, and ``attempts`` (or
``eksAttempts``) for what is over; ListJobs tells a little of it. Whoever uses a `JobView` need not
know. Nothing here asks AWS; `lookup` does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from wherry.aws.documents import Document

SUBMITTED, PENDING, RUNNABLE = "SUBMITTED", "PENDING", "RUNNABLE"
STARTING, RUNNING = "STARTING", "RUNNING"
SUCCEEDED, FAILED = "SUCCEEDED", "FAILED"

WAITING = (SUBMITTED, PENDING, RUNNABLE)
ACTIVE = (*WAITING, STARTING, RUNNING)
ENDED = (SUCCEEDED, FAILED)
STATES = (*ACTIVE, *ENDED)
"""AWS's seven words, in the order of a job's life."""

LOG_GROUP = "/aws/batch/job"
LOG_DRIVER = "awslogs"

_FAMILY = re.compile(r"(?P<parent>[^:#]+)(?P<mark>[:#])(?P<index>\d+)\Z")


@dataclass(frozen=True)
class ContainerView:
    """One container of a job, or of one attempt.

    Args:
        name: its name; empty in jobs of one container.
        image: its image.
        exit_code: the program's; ``None`` while it runs, and when it never ran.
        reason: why it ended, in the words of the container agent; often empty.
        log_stream: its stream; empty before it is known. That it is named does not mean that it
            exists.
        log_group: where the stream is.
        log_region: the region of the log group; empty for the job's own.
        log_driver: what takes its output; only ``awslogs`` makes a stream.
        task_arn: the task of ECS.
        instance_arn: the container instance of ECS; empty on Fargate.
        essential: whether its end ends the others.
        requirements: ``VCPU``, ``MEMORY`` and ``GPU``, as far as they are given.
        document: what AWS says of it.
    """

    name: str = ""
    image: str = ""
    exit_code: int | None = None
    reason: str = ""
    log_stream: str = ""
    log_group: str = LOG_GROUP
    log_region: str = ""
    log_driver: str = LOG_DRIVER
    task_arn: str = ""
    instance_arn: str = ""
    essential: bool = True
    requirements: Mapping[str, str] = field(default_factory=dict)
    document: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class AttemptView:
    """One attempt of a job.

    Args:
        number: from 1.
        containers: its containers.
        reason: ``statusReason``, which says why the attempt ended.
        started_at, stopped_at: seconds since the epoch; without an end it goes on.
    """

    number: int
    containers: tuple[ContainerView, ...] = ()
    reason: str = ""
    started_at: float | None = None
    stopped_at: float | None = None

    @property
    def exit_code(self) -> int | None:
        """The exit code: of several containers the first that is not 0."""
        return _exit_code(self.containers)

    @property
    def container_reason(self) -> str:
        """What the container agent says about its end; empty when it says nothing."""
        return next((each.reason for each in self.containers if each.reason), "")

    @property
    def log_streams(self) -> tuple[str, ...]:
        """The streams of its containers, as far as they are known."""
        return tuple(each.log_stream for each in self.containers if each.log_stream)

    @property
    def task_arn(self) -> str:
        """The task of ECS, or nothing."""
        return next((each.task_arn for each in self.containers if each.task_arn), "")


@dataclass(frozen=True)
class JobView:
    """One job, as AWS described it at one moment.

    Args:
        id: AWS's id; ``…:7`` is a child of an array, ``…#1`` a node of a multi-node job.
        arn: its ARN.
        name: its name.
        queue: the ARN of its queue; empty in a list's line.
        definition: the ARN of its job definition.
        status: AWS's word, one of `STATES`.
        reason: ``statusReason``.
        created_at, started_at, stopped_at: seconds since the epoch.
        array_size: how many children it has; 0 when it is no array.
        counts: state → children, of an array; may lag behind.
        counted_at: when the children were counted.
        index: of a child, its index; of a node, its number.
        num_nodes: how many nodes it has; 0 when it is no multi-node job.
        main_node: the node whose end decides.
        is_main_node: whether this node is it.
        is_cancelled, is_terminated: whether somebody asked for its end.
        share: its share identifier.
        platform: ``EC2``, ``FARGATE`` …; empty where AWS does not say.
        containers: its containers, with what is known of the last attempt.
        attempts: all of them, the present one included.
        attempts_allowed: how many there may be.
        timeout: seconds that an attempt may take; ``None`` without a bound.
        depends_on: the ids of the jobs that it waits for.
        tags: its tags.
        detailed: whether this is from DescribeJobs. A list's line has neither attempts nor log
            streams, and may be deduced from an array's counts.
        document: what AWS said.
    """

    id: str
    status: str
    arn: str = ""
    name: str = ""
    queue: str = ""
    definition: str = ""
    reason: str = ""
    created_at: float | None = None
    started_at: float | None = None
    stopped_at: float | None = None
    array_size: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    counted_at: float | None = None
    index: int | None = None
    num_nodes: int = 0
    main_node: int = 0
    is_main_node: bool = False
    is_cancelled: bool = False
    is_terminated: bool = False
    share: str = ""
    platform: str = ""
    containers: tuple[ContainerView, ...] = ()
    attempts: tuple[AttemptView, ...] = ()
    attempts_allowed: int = 1
    timeout: int | None = None
    depends_on: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    detailed: bool = False
    document: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)

    @property
    def kind(self) -> str:
        """``single``, ``array``, ``child``, ``multinode`` or ``node``."""
        member = _FAMILY.match(self.id)
        if member:
            return "child" if member["mark"] == ":" else "node"
        if self.array_size:
            return "array"
        return "multinode" if self.num_nodes else "single"

    @property
    def parent(self) -> str:
        """The id of the array or multi-node job that it belongs to; its own when it is alone."""
        return parent_of(self.id)

    @property
    def ended(self) -> bool:
        """Whether nothing will change any more."""
        return self.status in ENDED

    @cached_property
    def exit_code(self) -> int | None:
        """The exit code of the last attempt; ``None`` while it runs, and when it never ran."""
        return self.attempts[-1].exit_code if self.attempts else _exit_code(self.containers)

    @property
    def container_reason(self) -> str:
        """What the container agent says about the end of the last attempt."""
        if self.attempts:
            return self.attempts[-1].container_reason
        return next((each.reason for each in self.containers if each.reason), "")

    @property
    def image(self) -> str:
        """The image of the first container."""
        return self.containers[0].image if self.containers else ""

    @property
    def region(self) -> str:
        """The region, from its ARN."""
        return _arn_part(self.arn, 3)

    @property
    def account(self) -> str:
        """The account, from its ARN."""
        return _arn_part(self.arn, 4)

    @property
    def queue_name(self) -> str:
        """The name of its queue; empty where AWS does not say."""
        return self.queue.rpartition("/")[2]

    @property
    def definition_name(self) -> str:
        """The name and revision of its job definition."""
        return self.definition.rpartition("/")[2]


def view(document: Document) -> JobView:
    """Read a job from DescribeJobs or a line of ListJobs."""
    job_id = str(document.get("jobId", ""))
    array: Document = document.get("arrayProperties") or {}
    node: Document = {
        **(document.get("nodeProperties") or {}),
        **(document.get("nodeDetails") or {}),
    }
    member = _FAMILY.match(job_id)
    containers = _containers(document)
    platforms: Sequence[str] = document.get("platformCapabilities") or ()
    timeout = (document.get("timeout") or {}).get("attemptDurationSeconds")
    return JobView(
        id=job_id,
        status=str(document.get("status", "")),
        arn=str(document.get("jobArn", "")),
        name=str(document.get("jobName", "")),
        queue=str(document.get("jobQueue", "")),
        definition=str(document.get("jobDefinition", "")),
        reason=str(document.get("statusReason") or ""),
        created_at=_seconds(document.get("createdAt")),
        started_at=_seconds(document.get("startedAt")),
        stopped_at=_seconds(document.get("stoppedAt")),
        array_size=0 if member else int(array.get("size") or 0),
        counts={state: int(n) for state, n in (array.get("statusSummary") or {}).items() if n},
        counted_at=_seconds(array.get("statusSummaryLastUpdatedAt")),
        index=_index(member, array, node),
        num_nodes=0 if member else int(node.get("numNodes") or 0),
        main_node=int(node.get("mainNode") or 0),
        is_main_node=bool(node.get("isMainNode")),
        is_cancelled=bool(document.get("isCancelled")),
        is_terminated=bool(document.get("isTerminated")),
        share=str(document.get("shareIdentifier") or ""),
        platform=platforms[0] if platforms else "",
        containers=containers,
        attempts=_attempts(document, containers),
        attempts_allowed=int((document.get("retryStrategy") or {}).get("attempts") or 1),
        timeout=int(timeout) if timeout else None,
        depends_on=tuple(
            str(each["jobId"]) for each in document.get("dependsOn") or () if each.get("jobId")
        ),
        tags=dict(document.get("tags") or {}),
        detailed="jobQueue" in document,
        document=document,
    )


def parent_of(job_id: str) -> str:
    """Return the array or multi-node job that an id belongs to; itself when it is alone.

    >>> parent_of("6f1c:7"), parent_of("6f1c#0"), parent_of("6f1c")
    ('6f1c', '6f1c', '6f1c')
    """
    member = _FAMILY.match(job_id)
    return member["parent"] if member else job_id


def index_of(job_id: str) -> int | None:
    """Return the index of a child, or the number of a node; nothing for others."""
    member = _FAMILY.match(job_id)
    return int(member["index"]) if member else None


def child_id(parent: str, index: int) -> str:
    """Return the id of a child of an array."""
    return f"{parent}:{index}"


def node_id(parent: str, index: int) -> str:
    """Return the id of a node of a multi-node job."""
    return f"{parent}#{index}"


def _index(member: re.Match[str] | None, array: Document, node: Document) -> int | None:
    given = array.get("index", node.get("nodeIndex"))
    if given is not None:
        return int(given)
    return int(member["index"]) if member else None  # not every emulator of AWS says it


# -- containers -----------------------------------------------------------------------------------


def _containers(document: Document) -> tuple[ContainerView, ...]:
    """Return a job's containers, with what is known of its last attempt."""
    tasks = (document.get("ecsProperties") or {}).get("taskProperties") or ()
    if tasks:
        return tuple(
            _container(each, task) for task in tasks for each in task.get("containers") or ()
        )
    pod = (document.get("eksProperties") or {}).get("podProperties") or {}
    if pod:
        return tuple(_container(each, {}) for each in pod.get("containers") or ())
    alone = document.get("container")
    if alone:
        return (_container(alone, alone),)
    return _group_containers(document)


def _group_containers(document: Document) -> tuple[ContainerView, ...]:
    """Return the containers of a multi-node job: those of each group of nodes."""
    groups = (document.get("nodeProperties") or {}).get("nodeRangeProperties") or ()
    found: list[ContainerView] = []
    for group in groups:
        found.extend(_containers({**group, "nodeProperties": None}))
    return tuple(found)


def _container(document: Document, task: Document) -> ContainerView:
    log: Document = document.get("logConfiguration") or {}
    options: Document = log.get("options") or {}
    code = document.get("exitCode")
    return ContainerView(
        name=str(document.get("name") or ""),
        image=str(document.get("image") or ""),
        exit_code=None if code is None else int(code),
        reason=str(document.get("reason") or ""),
        log_stream=str(document.get("logStreamName") or ""),
        log_group=str(options.get("awslogs-group") or LOG_GROUP),
        log_region=str(options.get("awslogs-region") or ""),
        log_driver=str(log.get("logDriver") or LOG_DRIVER),
        task_arn=str(task.get("taskArn") or ""),
        instance_arn=str(task.get("containerInstanceArn") or ""),
        essential=bool(document.get("essential", True)),
        requirements={
            str(each["type"]): str(each["value"])
            for each in document.get("resourceRequirements") or ()
        },
        document=document,
    )


def _exit_code(containers: Sequence[ContainerView]) -> int | None:
    codes = [each.exit_code for each in containers if each.exit_code is not None]
    return next((code for code in codes if code), codes[0] if codes else None)


# -- attempts -------------------------------------------------------------------------------------


def _attempts(document: Document, containers: tuple[ContainerView, ...]) -> tuple[AttemptView, ...]:
    """Return all attempts: those that AWS has written down, and the one that goes on."""
    over = document.get("attempts") or document.get("eksAttempts") or ()
    attempts = [_attempt(n, each, containers) for n, each in enumerate(over, 1)]
    present = _present(document, containers, attempts)
    return (*attempts, present) if present else tuple(attempts)


def _attempt(number: int, document: Document, containers: tuple[ContainerView, ...]) -> AttemptView:
    tasks = document.get("taskProperties") or ()
    if tasks:
        ends = [(each, task) for task in tasks for each in task.get("containers") or ()]
    elif "containers" in document:  # a pod
        ends = [(each, {}) for each in document["containers"]]
    else:
        alone: Document = document.get("container") or {}
        ends = [(alone, alone)]
    return AttemptView(
        number,
        tuple(_ended(each, task, containers) for each, task in ends),
        str(document.get("statusReason") or ""),
        _seconds(document.get("startedAt")),
        _seconds(document.get("stoppedAt")),
    )


def _ended(end: Document, task: Document, containers: tuple[ContainerView, ...]) -> ContainerView:
    """Return a container of an attempt; image and logs are those of the job's container."""
    name = str(end.get("name") or "")
    known = next((each for each in containers if not name or each.name == name), None)
    asked: Mapping[str, object] = known.document if known else {}
    kept = {key: asked[key] for key in _LASTING if key in asked}
    return _container({**kept, **end}, task)


_LASTING = ("image", "logConfiguration", "essential", "resourceRequirements")


def _present(
    document: Document, containers: tuple[ContainerView, ...], over: Sequence[AttemptView]
) -> AttemptView | None:
    """Return the attempt that ``attempts`` does not have yet; ``None`` when there is none."""
    if not any(each.task_arn or each.log_stream for each in containers):
        return None
    known = {each.task_arn for each in over} | {name for one in over for name in one.log_streams}
    known.discard("")
    if any(each.task_arn in known or each.log_stream in known for each in containers):
        return None
    ended = document.get("status") in ENDED
    return AttemptView(
        len(over) + 1,
        containers,
        str(document.get("statusReason") or "") if ended else "",
        _seconds(document.get("startedAt")),
        _seconds(document.get("stoppedAt")) if ended else None,
    )


def _seconds(milliseconds: object) -> float | None:
    return float(milliseconds) / 1000 if isinstance(milliseconds, (int, float)) else None


def _arn_part(arn: str, place: int) -> str:
    parts = arn.split(":", 5)
    return parts[place] if len(parts) > place else ""
