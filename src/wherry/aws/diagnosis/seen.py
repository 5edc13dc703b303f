"""DescribeJobs documents as this room reads them: containers, attempts and how those ended.

A view, made once for each document. The three shapes of AWS (one container, several on ECS, pods
on EKS) look the same from here on. No calls, no judgement.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Document = Mapping[str, Any]
"""JSON as AWS has it."""

DEFAULT_GROUP = "/aws/batch/job"
ENDED = ("SUCCEEDED", "FAILED")
_MAIN = "default"


@dataclass(frozen=True)
class Container:
    """What one container of a job asks for.

    Args:
        name: ``default`` where the job has only one.
        image: as the definition says it.
        command: its words.
        vcpus, memory_mib, gpus: its resource requirements.
        is_essential: whether its end ends the job.
        log_driver: empty for the default, CloudWatch.
        log_options: of that driver.
        secrets: what they are called, and where they are kept.
    """

    name: str
    image: str
    command: tuple[str, ...] = ()
    vcpus: float = 0.0
    memory_mib: int = 0
    gpus: int = 0
    is_essential: bool = True
    log_driver: str = ""
    log_options: Document = field(default_factory=dict)
    secrets: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class End:
    """How a container ended, as far as it did.

    Args:
        name: the container's.
        exit_code: ``None`` where there is none.
        reason: ECS's words; empty where it says nothing.
        stream: of its log; empty before it runs.
    """

    name: str
    exit_code: int | None = None
    reason: str = ""
    stream: str = ""


@dataclass(frozen=True)
class Attempt:
    """One attempt.

    Args:
        number: from 1.
        started_at, stopped_at: seconds since the epoch; ``None`` where it did not get so far.
        reason: its ``statusReason``.
        ends: of its containers.
        instance: the ARN of the container instance; empty on Fargate.
    """

    number: int
    started_at: float | None
    stopped_at: float | None
    reason: str
    ends: tuple[End, ...] = ()
    instance: str = ""

    def decisive(self, essential: frozenset[str] = frozenset()) -> End:
        """Return the end that decided: the first bad one of an essential container.

        A container that ended by itself comes before one that was only stopped with the others.
        """
        ends = [end for end in self.ends if not essential or end.name in essential]
        bad = [end for end in ends if end.exit_code or end.reason]
        own = [end for end in bad if end.exit_code not in (137, 143)]
        return next(iter((*own, *bad, *ends, *self.ends)), End(_MAIN))


class Job:
    """One job, child or node.

    Args:
        document: of DescribeJobs.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.id: str = document.get("jobId", "")
        self.arn: str = document.get("jobArn", "")
        self.name: str = document.get("jobName", "")
        self.status: str = document.get("status", "")
        self.reason: str = document.get("statusReason") or ""
        self.created_at = _seconds(document.get("createdAt")) or 0.0
        self.started_at = _seconds(document.get("startedAt"))
        self.stopped_at = _seconds(document.get("stoppedAt"))
        self.is_cancelled = bool(document.get("isCancelled"))
        self.is_terminated = bool(document.get("isTerminated"))

    @property
    def has_ended(self) -> bool:
        """Whether nothing changes any more."""
        return self.status in ENDED

    @property
    def queue(self) -> str:
        """The ARN of its queue."""
        return str(self.document.get("jobQueue", ""))

    @property
    def region(self) -> str:
        """The region, as its ARN says it."""
        return part_of(self.arn, 3)

    @property
    def account(self) -> str:
        """The account, as its ARN says it."""
        return part_of(self.arn, 4)

    @property
    def share(self) -> str:
        """Its share identifier; empty where there is none."""
        return str(self.document.get("shareIdentifier") or "")

    @property
    def parent_id(self) -> str:
        """The array or multi-node job that it is a part of; empty for others."""
        return self.id.partition(":")[0].partition("#")[0] if self.is_part else ""

    @property
    def is_part(self) -> bool:
        """Whether it is a child of an array, or a node."""
        return ":" in self.id or "#" in self.id

    @property
    def is_node(self) -> bool:
        """Whether it is a node of a multi-node job."""
        return "#" in self.id

    @property
    def is_array(self) -> bool:
        """Whether it is an array, as a whole."""
        return bool((self.document.get("arrayProperties") or {}).get("size"))

    @property
    def is_gang(self) -> bool:
        """Whether it is a multi-node job, as a whole."""
        return bool(self.document.get("nodeProperties")) and not self.is_node

    @property
    def size(self) -> int:
        """How many children or nodes it has; 1 for other jobs."""
        array = self.document.get("arrayProperties") or {}
        nodes = self.document.get("nodeProperties") or {}
        return int(array.get("size") or (nodes.get("numNodes") if self.is_gang else 0) or 1)

    @property
    def counts(self) -> dict[str, int]:
        """How many of its children are in each state."""
        summary = (self.document.get("arrayProperties") or {}).get("statusSummary") or {}
        return {state: int(count) for state, count in summary.items() if count}

    @property
    def main_node(self) -> int:
        """The index of the main node."""
        return int((self.document.get("nodeProperties") or {}).get("mainNode") or 0)

    @property
    def needs(self) -> list[Document]:
        """What it depends on."""
        return list(self.document.get("dependsOn") or ())

    @property
    def platforms(self) -> tuple[str, ...]:
        """What it can run on; EC2 when its definition does not say."""
        return tuple(self.document.get("platformCapabilities") or ()) or ("EC2",)

    @property
    def is_fargate(self) -> bool:
        """Whether it is made for Fargate."""
        return "FARGATE" in self.platforms

    @property
    def timeout(self) -> float | None:
        """Seconds that an attempt may take."""
        seconds = (self.document.get("timeout") or {}).get("attemptDurationSeconds")
        return float(seconds) if seconds else None

    @property
    def attempts_allowed(self) -> int:
        """How many attempts it may have."""
        return int((self.document.get("retryStrategy") or {}).get("attempts") or 1)

    @property
    def rules(self) -> list[Document]:
        """The rules that say what is retried."""
        return list((self.document.get("retryStrategy") or {}).get("evaluateOnExit") or ())

    @property
    def consumables(self) -> list[tuple[str, int]]:
        """Consumable resources and how much of each."""
        asked = (self.document.get("consumableResourceProperties") or {}).get(
            "consumableResourceList"
        )
        return [
            (str(one.get("consumableResource", "")), int(one.get("quantity") or 0))
            for one in asked or ()
        ]

    @property
    def job_role(self) -> str:
        """The ARN of the role that its program acts as."""
        task = self._task
        return str(task.get("jobRoleArn") or task.get("taskRoleArn") or "")

    @property
    def execution_role(self) -> str:
        """The ARN of the role that pulls its image and reads its secrets."""
        return str(self._task.get("executionRoleArn") or "")

    @property
    def architecture(self) -> str:
        """``X86_64`` or ``ARM64``; empty when the definition does not say."""
        return str((self._task.get("runtimePlatform") or {}).get("cpuArchitecture") or "")

    @functools.cached_property
    def containers(self) -> tuple[Container, ...]:
        """What its containers ask for; of a multi-node job, those of the main node."""
        return containers_of(self.node_groups[0][1] if self.is_gang else self.document)

    @functools.cached_property
    def node_groups(self) -> list[tuple[int, Document]]:
        """How many nodes are described by each document of a multi-node job; main node first."""
        nodes = self.document.get("nodeProperties") or {}
        ranges = nodes.get("nodeRangeProperties") or ()
        total = self.size
        described: list[Document] = [{} for _ in range(total)]
        for one in ranges:
            first, colon, last = str(one.get("targetNodes", "0:")).partition(":")
            begin = int(first or 0)
            end = int(last) if last else (total - 1 if colon else begin)
            for index in range(begin, min(end, total - 1) + 1):
                described[index] = {**described[index], **one}
        groups: list[tuple[int, Document]] = []
        order = [self.main_node, *(i for i in range(total) if i != self.main_node)]
        for index in (i for i in order if i < total):
            if groups and groups[-1][1] == described[index]:
                groups[-1] = (groups[-1][0] + 1, groups[-1][1])
            else:
                groups.append((1, described[index]))
        return groups or [(1, {})]

    @functools.cached_property
    def essential(self) -> frozenset[str]:
        """The names of the containers whose end ends the job."""
        return frozenset(each.name for each in self.containers if each.is_essential)

    @functools.cached_property
    def attempts(self) -> tuple[Attempt, ...]:
        """Its attempts that have ended, oldest first."""
        found = self.document.get("attempts") or self.document.get("eksAttempts") or ()
        return tuple(_attempt(number, one) for number, one in enumerate(found, 1))

    @property
    def last(self) -> Attempt | None:
        """The last attempt that has ended."""
        return self.attempts[-1] if self.attempts else None

    @functools.cached_property
    def present(self) -> tuple[End, ...]:
        """Its containers as they are now: with the log stream of the attempt that runs."""
        for member in ("ecsProperties", "eksProperties"):
            if member in self.document:
                return tuple(_end(each) for each in _listed(self.document))
        return (_end(self.document.get("container") or {}),)

    @property
    def end(self) -> End:
        """How its last attempt ended, as far as containers tell."""
        last = self.last
        return End(_MAIN) if last is None else last.decisive(self.essential)

    @functools.cached_property
    def _task(self) -> Document:
        whole = self.node_groups[0][1] if self.is_gang else self.document
        tasks = (whole.get("ecsProperties") or {}).get("taskProperties") or ()
        found: Document = tasks[0] if tasks else whole.get("container") or {}
        return found


def containers_of(document: Document) -> tuple[Container, ...]:
    """Return the containers that a job, a definition or a node range describes."""
    return tuple(_container(each) for each in _listed(document))


def part_of(arn: str, index: int) -> str:
    """Return one of the parts of an ARN that colons separate; empty where there is none."""
    parts = arn.split(":", 5)
    return parts[index] if len(parts) > index else ""


def name_of(arn: str) -> str:
    """Return the last part of an ARN's path; a name stays as it is."""
    return arn.rpartition("/")[2]


def _listed(document: Document) -> list[Document]:
    for member, inner in (("ecsProperties", "taskProperties"), ("ecs", "taskProperties")):
        tasks = (document.get(member) or {}).get(inner)
        if tasks:
            return list(tasks[0].get("containers") or ())
    for member in ("eksProperties", "eks"):
        pod = (document.get(member) or {}).get("podProperties")
        if pod:
            return list(pod.get("containers") or ())
    single = document.get("container") or document.get("containerProperties")
    return [single] if single else []


def _container(document: Document) -> Container:
    wants = {
        one.get("type"): one.get("value") for one in document.get("resourceRequirements") or ()
    }
    wants = {**_pod_wants(document), **wants}
    log = document.get("logConfiguration") or {}
    return Container(
        name=str(document.get("name") or _MAIN),
        image=str(document.get("image") or ""),
        command=tuple(document.get("command") or ()),
        vcpus=_number(wants.get("VCPU") or document.get("vcpus")),
        memory_mib=int(_number(wants.get("MEMORY") or document.get("memory"))),
        gpus=int(_number(wants.get("GPU"))),
        is_essential=document.get("essential") is not False,
        log_driver=str(log.get("logDriver") or ""),
        log_options=dict(log.get("options") or {}),
        secrets=tuple(
            (str(one.get("name", "")), str(one.get("valueFrom", "")))
            for one in document.get("secrets") or ()
        ),
    )


def _pod_wants(document: Document) -> dict[str, str]:
    """Return what a container of a pod asks for, in the names and units of the others."""
    resources = document.get("resources") or {}
    given = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    found = {
        "VCPU": given.get("cpu"),
        "MEMORY": str(given.get("memory") or "").removesuffix("Mi"),
        "GPU": given.get("nvidia.com/gpu"),
    }
    return {name: str(value) for name, value in found.items() if value}


def _attempt(number: int, document: Document) -> Attempt:
    tasks = document.get("taskProperties") or ()
    where = tasks[0] if tasks else document.get("container") or {}
    listed = where.get("containers") if tasks else document.get("containers")
    ends = [_end(each) for each in listed] if listed else [_end(where)]
    return Attempt(
        number,
        _seconds(document.get("startedAt")),
        _seconds(document.get("stoppedAt")),
        str(document.get("statusReason") or ""),
        tuple(ends),
        str(where.get("containerInstanceArn") or ""),
    )


def _end(document: Document) -> End:
    code = document.get("exitCode")
    return End(
        str(document.get("name") or _MAIN),
        None if code is None else int(code),
        str(document.get("reason") or ""),
        str(document.get("logStreamName") or ""),
    )


def _seconds(milliseconds: object) -> float | None:
    return milliseconds / 1000 if isinstance(milliseconds, int | float) and milliseconds else None


def _number(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        return 0.0
