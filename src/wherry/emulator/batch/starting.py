"""What all containers of a task that is about to start have in common, whoever described them.

Environment, secrets, log streams, volumes, the variables that AWS Batch sets, the limit on what may
be said to ECS, and what it is when a task cannot start. Where the pieces of one container stand in
a definition is the business of `ecs_tasks` and `pods`.
"""

from __future__ import annotations

import functools
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wherry.emulator.batch import limits, overrides, parameters
from wherry.emulator.batch.placing import Place
from wherry.emulator.batch.ports import Document, Surroundings
from wherry.emulator.batch.records import Job
from wherry.emulator.engines.api import Container, Mount

LOG_GROUP = "/aws/batch/job"
"""Where logs go unless the definition says otherwise."""

TASK_FAILED = "Task failed to start"
"""The status reason of every attempt whose task ECS could not start."""

TOO_LONG = f"Container Overrides length must be at most {limits.OVERRIDES_CHARACTERS}"
"""Status reason of a job whose overrides ECS refuses (Netflix/metaflow#1482, ASFHyP3/hyp3#3041)."""

_PREFIX_LENGTH = 200
_METADATA = ("ECS_CONTAINER_METADATA_URI", "ECS_CONTAINER_METADATA_URI_V4")
_AGENT_VARIABLE = "AWS_EXECUTION_ENV"


class CannotStart(Exception):  # noqa: N818 — what has happened to the attempt, as its users say it
    """An attempt fails before anything of it runs.

    Args:
        status_reason: what the attempt's ``statusReason`` is.
        container_reason: what its container's ``reason`` is.
        container: which container it is that cannot start; empty when it is the whole task.
    """

    def __init__(self, status_reason: str, container_reason: str = "", container: str = "") -> None:
        super().__init__(container_reason or status_reason)
        self.status_reason = status_reason
        self.container_reason = container_reason
        self.container = container


@dataclass(frozen=True)
class Start:
    """One attempt that is about to become a task.

    Attributes:
        job: the job, child or node.
        attempt: which attempt, from 1.
        task_id: 32 hexadecimal digits.
        place: where it runs.
        queue_name: of its queue.
        surroundings: the rest of AWS.
        region: where it runs.
        main_address: the main node's address, for the other nodes.
        array_size: of the array that it is a child of, or 0.
        num_nodes: of the multi-node job that it is a node of, or 0.
        efs_root: the folder that has a folder for each file system of EFS; one among this user's
            temporary files when empty.
        instance_role: what the instance may do, for jobs without a role of their own.
    """

    job: Job
    attempt: int
    task_id: str
    place: Place
    queue_name: str
    surroundings: Surroundings
    region: str
    main_address: str = ""
    array_size: int = 0
    num_nodes: int = 0
    efs_root: str = ""
    instance_role: str = ""

    @property
    def main_index(self) -> int:
        """Which node is the main one."""
        return overrides.main_node(self.job)

    @property
    def is_fargate(self) -> bool:
        """Whether it runs on Fargate."""
        return not self.place.instance_id

    @functools.cached_property
    def parameters(self) -> dict[str, str]:
        """Values for ``Ref::name``."""
        defaults = self.job.definition.document.get("parameters")
        return parameters.overlaid(defaults, self.job.request.get("parameters"))

    def role(self, own: str | None) -> str | None:
        """Return a job's role, or else its instance's; on Fargate there is none to fall back on."""
        return own or (None if self.is_fargate else self.instance_role) or None


@dataclass(frozen=True)
class Log:
    """Where the output of a container goes; empty for nowhere."""

    group: str = ""
    stream: str = ""
    region: str = ""


# -- environment ----------------------------------------------------------------------------------


def environment(
    start: Start,
    explicit: Iterable[tuple[str, str]],
    surrounding: Mapping[str, str],
    container: str,
    *,
    is_only: bool,
) -> tuple[tuple[str, str], ...]:
    """Return the whole environment of a container.

    What the user set, under what AWS Batch sets, which cannot be overridden; the surroundings add
    what the user did not set.

    Args:
        start: the attempt.
        explicit: what definition, overrides and secrets say.
        surrounding: what `Surroundings.task_environment` says.
        container: its name.
        is_only: whether it is the task's only one.
    """
    merged = {**dict(explicit), **batch_variables(start)}
    for name, value in surrounding.items():
        if name == _AGENT_VARIABLE and start.is_fargate:
            value = "AWS_ECS_FARGATE"
        if name in _METADATA and not is_only:
            value = f"{value}/{container}"
        merged.setdefault(name, value)
    return tuple(merged.items())


def batch_variables(start: Start) -> dict[str, str]:
    """Return the ``AWS_BATCH_*`` variables (user guide, "Job environment variables")."""
    job = start.job
    found = {
        "AWS_BATCH_JOB_ID": job.id,
        "AWS_BATCH_JOB_ATTEMPT": str(start.attempt),
        "AWS_BATCH_CE_NAME": start.place.environment_name,
        "AWS_BATCH_JQ_NAME": start.queue_name,
    }
    if job.kind == "child":
        found["AWS_BATCH_JOB_ARRAY_INDEX"] = str(job.index)
        found["AWS_BATCH_JOB_ARRAY_SIZE"] = str(start.array_size)
    if job.kind == "node":
        found["AWS_BATCH_JOB_NODE_INDEX"] = str(job.index)
        found["AWS_BATCH_JOB_NUM_NODES"] = str(start.num_nodes)
        found["AWS_BATCH_JOB_MAIN_NODE_INDEX"] = str(start.main_index)
        if job.index != start.main_index:
            found["AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"] = start.main_address
    return found


def check_length(start: Start, given: Mapping[str, Document]) -> None:
    """Refuse what ECS would: overrides of more than 8192 characters, punctuation included.

    What the definition says is in the task definition and does not count; what AWS Batch adds
    (its variables, commands after substitution) does.

    Args:
        start: the attempt.
        given: for each container by name what is told to ECS besides its definition.

    Raises:
        CannotStart: they are too long.
    """
    told = [
        {
            "name": name,
            **{key: value for key, value in override.items() if key != "environment"},
            "environment": [
                *(override.get("environment") or ()),
                *({"name": key, "value": value} for key, value in batch_variables(start).items()),
            ],
        }
        for name, override in given.items()
    ]
    said = json.dumps({"containerOverrides": told}, separators=(",", ":"), ensure_ascii=False)
    if len(said) > limits.OVERRIDES_CHARACTERS:
        raise CannotStart(TOO_LONG)


# -- secrets --------------------------------------------------------------------------------------


def secret_values(
    start: Start, entries: Iterable[Document], role_arn: str | None, container: str
) -> dict[str, str]:
    """Return the value of each secret by the name of its variable; none is kept or logged here.

    Args:
        start: the attempt.
        entries: ``secrets`` of a container: name, valueFrom.
        role_arn: the role that may read them.
        container: its name.

    Raises:
        CannotStart: one cannot be had; the reason says which.
    """
    found = {}
    for entry in entries:
        try:
            value = start.surroundings.secret(entry["valueFrom"], start.region, role_arn)
        except LookupError as error:
            words = str(error.args[0]) if error.args else str(error)
            reason = f"ResourceInitializationError: {words}"
            raise CannotStart(TASK_FAILED, reason, container) from error
        found[entry["name"]] = value
    return found


# -- logs -----------------------------------------------------------------------------------------


def log_of(start: Start, configuration: Document | None, container: str) -> Log:
    """Return where a container's output goes.

    The stream is ``first200CharsOfJobDefinitionName/default/ecsTaskId`` (API reference,
    ContainerDetail.logStreamName). Drivers other than ``awslogs`` have none.
    """
    configuration = configuration or {}
    if configuration.get("logDriver", "awslogs") != "awslogs":
        return Log()
    options = configuration.get("options") or {}
    prefix = options.get("awslogs-stream-prefix") or start.job.definition.name[:_PREFIX_LENGTH]
    group = options.get("awslogs-group") or LOG_GROUP
    region = options.get("awslogs-region") or start.region
    return Log(group, f"{prefix}/{container}/{start.task_id}", region)


def open_stream(start: Start, configuration: Document | None, container: str, log: Log) -> None:
    """Make the log stream of a container.

    Raises:
        CannotStart: the log driver cannot start.
    """
    if not log.group:
        return
    options = (configuration or {}).get("options") or {}
    # AWS Batch makes its own group when it is missing; others only when it is told to.
    create = log.group == LOG_GROUP or options.get("awslogs-create-group") == "true"
    complaint = start.surroundings.open_stream(
        log.region, log.group, log.stream, create_group=create
    )
    if complaint:
        raise CannotStart(TASK_FAILED, complaint, container)


# -- volumes --------------------------------------------------------------------------------------


def mount(target: str, source: str, volume: str, *, read_only: bool) -> Mount:
    """Return a mount of a folder of this machine, or else of a volume of the task."""
    return Mount(target, source, "" if source else volume, read_only)


def shared_folder(start: Start, *names: str) -> str:
    """Return the folder that stands for a file system that jobs share; it is made when missing.

    A path that climbs out of the folder is not followed.
    """
    parts = [part for name in names for part in name.split("/") if part not in ("", ".", "..")]
    folder = os.path.join(start.efs_root or _own_folder(), *parts)
    os.makedirs(folder, exist_ok=True)
    return folder


def _own_folder() -> str:
    return os.path.join(tempfile.gettempdir(), f"wherry-efs-{os.getuid()}")


# -- what the task is told about itself -----------------------------------------------------------


def describe(start: Start, containers: Iterable[Container]) -> None:
    """Tell the metadata endpoint about a task (ECS task metadata, version 4)."""
    place, definition = start.place, start.job.definition
    cluster = place.cluster_arn
    start.surroundings.describe_task(
        start.task_id,
        {
            "Cluster": cluster,
            "TaskARN": f"{cluster.replace(':cluster/', ':task/', 1)}/{start.task_id}",
            "Family": definition.name,
            "Revision": str(definition.revision),
            "LaunchType": "FARGATE" if start.is_fargate else "EC2",
            "Containers": [_described(container) for container in containers],
        },
    )


def _described(container: Container) -> Document:
    described: Document = {
        "Name": container.name,
        "Image": container.image,
        "Limits": {"CPU": int(container.vcpus * 1024), "Memory": container.memory_mib},
    }
    if container.log_stream:
        described["LogDriver"] = "awslogs"
        described["LogOptions"] = {
            "awslogs-group": container.log_group,
            "awslogs-stream": container.log_stream,
        }
    return described
