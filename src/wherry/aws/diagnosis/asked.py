"""What a job asks for, and how its attempts ended: what `JobView` does not say by itself.

Small readings of DescribeJobs documents. No calls, no judgement.
"""

from __future__ import annotations

from dataclasses import dataclass

from wherry.aws import jobs
from wherry.aws.documents import Document
from wherry.aws.jobs import AttemptView, ContainerView, JobView

_STOPPED = (137, 143)


@dataclass(frozen=True)
class Amounts:
    """What one container asks for, or several together."""

    vcpus: float = 0.0
    memory_mib: int = 0
    gpus: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(
            self.vcpus + other.vcpus,
            self.memory_mib + other.memory_mib,
            self.gpus + other.gpus,
        )


def containers_of(document: Document) -> tuple[ContainerView, ...]:
    """Return the containers that a job, a definition's properties or a node range describes."""
    return jobs.view({"jobId": "", **document}).containers


def amounts_of(containers: tuple[ContainerView, ...]) -> Amounts:
    """Return what containers ask for together."""
    return sum(map(_amounts, containers), Amounts())


def node_groups(job: JobView) -> list[tuple[int, Document]]:
    """Return how many nodes each document of a multi-node job describes; the main node first."""
    properties = _member(job, "nodeProperties")
    total = max(1, job.num_nodes)
    described: list[Document] = [{} for _ in range(total)]
    for one in properties.get("nodeRangeProperties") or ():
        for index in _indexes(str(one.get("targetNodes", "0:")), total):
            described[index] = {**described[index], **one, "targetNodes": ""}
    main = min(job.main_node, total - 1)
    groups: list[tuple[int, Document]] = []
    for index in (main, *(index for index in range(total) if index != main)):
        if groups and groups[-1][1] == described[index]:
            groups[-1] = (groups[-1][0] + 1, described[index])
        else:
            groups.append((1, described[index]))
    return groups


def main_containers(job: JobView) -> tuple[ContainerView, ...]:
    """Return the containers of a job; of a multi-node job, those of the main node."""
    return containers_of(node_groups(job)[0][1]) if job.kind == "multinode" else job.containers


def platforms_of(job: JobView) -> tuple[str, ...]:
    """Return what a job can run on; EC2 when its definition does not say."""
    given = job.document.get("platformCapabilities")
    return tuple(map(str, given)) if isinstance(given, list) and given else ("EC2",)


def roles_of(job: JobView) -> tuple[str, str]:
    """Return the ARNs of a job's execution role and job role; empty where there is none."""
    task = _task(job)
    own = task.get("jobRoleArn") or task.get("taskRoleArn")
    return str(task.get("executionRoleArn") or ""), str(own or "")


def architecture_of(job: JobView) -> str:
    """Return ``X86_64`` or ``ARM64``; empty when the definition does not say."""
    return str((_task(job).get("runtimePlatform") or {}).get("cpuArchitecture") or "")


def rules_of(job: JobView) -> list[Document]:
    """Return the rules that say what is retried."""
    return list((_member(job, "retryStrategy")).get("evaluateOnExit") or ())


def needs_of(job: JobView) -> list[Document]:
    """Return what a job depends on."""
    given = job.document.get("dependsOn")
    return list(given) if isinstance(given, list) else []


def consumables_of(job: JobView) -> list[tuple[str, int]]:
    """Return consumable resources, and how much of each a job takes."""
    listed = _member(job, "consumableResourceProperties").get("consumableResourceList") or ()
    return [(str(one.get("consumableResource")), int(one.get("quantity") or 0)) for one in listed]


def finished(job: JobView) -> tuple[AttemptView, ...]:
    """Return the attempts that are over."""
    return tuple(each for each in job.attempts if each.stopped_at is not None)


def last_of(job: JobView) -> AttemptView | None:
    """Return the last attempt that is over."""
    return next(reversed(finished(job)), None)


def decisive(attempt: AttemptView) -> ContainerView:
    """Return the container that decided how an attempt ended.

    Of the essential ones the first that ended badly; one that ended by itself comes before one
    that was only stopped with the others.
    """
    essential = [each for each in attempt.containers if each.essential]
    bad = [each for each in essential if each.exit_code or each.reason]
    own = [each for each in bad if each.exit_code not in _STOPPED]
    return next(iter((*own, *bad, *essential, *attempt.containers)), ContainerView())


def end_of(job: JobView) -> ContainerView:
    """Return the container that decided how a job's last attempt ended, as far as one did.

    A line of ListJobs has no attempts; it tells of the job's container alone.
    """
    attempt = last_of(job)
    if attempt is not None:
        return decisive(attempt)
    return job.containers[0] if job.containers and not job.detailed else ContainerView()


def name_of(arn: str) -> str:
    """Return the last part of an ARN's path; a name stays as it is."""
    return arn.rpartition("/")[2]


def part_of(arn: str, index: int) -> str:
    """Return one of the parts of an ARN that colons separate; empty where there is none."""
    parts = arn.split(":", 5)
    return parts[index] if len(parts) > index else ""


def _task(job: JobView) -> Document:
    whole: Document = node_groups(job)[0][1] if job.kind == "multinode" else dict(job.document)
    tasks = (whole.get("ecsProperties") or {}).get("taskProperties") or ()
    found: Document = tasks[0] if tasks else whole.get("container") or {}
    return found


def _member(job: JobView, name: str) -> Document:
    found = job.document.get(name)
    return found if isinstance(found, dict) else {}


def _indexes(target: str, total: int) -> range:
    first, colon, last = target.partition(":")
    begin = int(first or 0)
    end = int(last) if last else (total - 1 if colon else begin)
    return range(begin, min(end, total - 1) + 1)


def _amounts(container: ContainerView) -> Amounts:
    wants = container.requirements
    document = container.document
    pod = _pod_amounts(document.get("resources"))
    return Amounts(
        _number(wants.get("VCPU") or pod.get("cpu") or document.get("vcpus")),
        int(_number(wants.get("MEMORY") or pod.get("memory") or document.get("memory"))),
        int(_number(wants.get("GPU") or pod.get("nvidia.com/gpu"))),
    )


def _pod_amounts(resources: object) -> dict[str, str]:
    given = resources if isinstance(resources, dict) else {}
    merged = {**(given.get("requests") or {}), **(given.get("limits") or {})}
    return {name: str(value).removesuffix("Mi") for name, value in merged.items()}


def _number(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        return 0.0
