"""What a job asks of hosts, and of consumable resources: read from its effective document.

How a definition writes sizes down is the business of `sizes`; where they can be had is known to
those who place jobs.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator

from wherry.emulator.batch import arns, overrides, sizes
from wherry.emulator.batch.placing import NodeNeed, Waiting
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import Job

_CONSUMABLES = "consumableResourceProperties"


def waiting(job: Job, now: float, front: bool) -> Waiting:
    """Return how a job that has become RUNNABLE waits.

    Args:
        job: a single job, a child or a multi-node job.
        now: the emulated time.
        front: whether it is retried, and goes before the others.
    """
    definition = job.definition.document
    priority = job.request.get("schedulingPriorityOverride")
    if priority is None:
        priority = definition.get("schedulingPriority") or 0
    return Waiting(
        job_id=job.id,
        arn=job.arn,
        job_name=job.name,
        queue_arn=job.queue_arn,
        share=job.request.get("shareIdentifier") or "",
        priority=int(priority),
        nodes=nodes(job),
        platforms=tuple(definition.get("platformCapabilities") or ("EC2",)),
        architecture=_architecture(overrides.merged(job.definition, job.request)),
        consumables=consumables(job),
        since=now,
        front=front,
    )


def nodes(job: Job) -> tuple[NodeNeed, ...]:
    """Return what the nodes of a job ask for, in their order; all but multi-node jobs have one."""
    definition, request = job.definition, job.request
    if not _has_nodes(job):
        return (NodeNeed(1, *_total(overrides.merged(definition, request))),)
    each_node = [
        NodeNeed(1, *_total(document), overrides.instance_type(definition, request, index))
        for index, document in enumerate(_node_documents(job))
    ]
    return tuple(
        dataclasses.replace(need, count=len(list(same)))
        for need, same in itertools.groupby(each_node)
    )


def vcpus(job: Job) -> float:
    """Return the virtual CPUs that all nodes of a job ask for together."""
    return sum(need.vcpus * need.count for need in nodes(job))


def consumables(job: Job) -> tuple[tuple[str, int], ...]:
    """Return the ARN of each consumable resource that a job asks for, and how much of it.

    Whether there are such resources is not asked. A multi-node job asks for what it names itself
    and for what each of its nodes names.
    """
    asked = _consumable_list(overrides.merged(job.definition, job.request))
    if _names_some_by_node(job):
        asked += [entry for node in _node_documents(job) for entry in _consumable_list(node)]
    region = arns.region_of(job.arn)
    total: dict[str, int] = {}
    for entry in asked:
        ref = entry["consumableResource"]
        arn = ref if arns.is_arn(ref) else arns.make(region, arns.CONSUMABLE, ref)
        total[arn] = total.get(arn, 0) + int(entry.get("quantity") or 0)
    return tuple(total.items())


def _has_nodes(job: Job) -> bool:
    return "nodeProperties" in job.definition.document


def _names_some_by_node(job: Job) -> bool:
    if not _has_nodes(job):
        return False
    ranges = job.definition.document["nodeProperties"]["nodeRangeProperties"]
    overridden = (job.request.get("nodeOverrides") or {}).get("nodePropertyOverrides") or ()
    return any(_CONSUMABLES in name for each in (*ranges, *overridden) for name in each)


def _node_documents(job: Job) -> Iterator[Document]:
    number = overrides.num_nodes(job.definition.document["nodeProperties"], job.request)
    return (overrides.merged_node(job.definition, job.request, index) for index in range(number))


def _total(document: Document) -> sizes.Amounts:
    if "ecsProperties" in document:
        task = document["ecsProperties"]["taskProperties"][0]
        return _sum(sizes.of_container(each) for each in task["containers"])
    if "eksProperties" in document:
        pod = document["eksProperties"]["podProperties"]
        together = _sum(sizes.of_pod_container(each) for each in pod["containers"])
        # Those that run first run one after another, and before the others.
        first = [sizes.of_pod_container(each) for each in pod.get("initContainers") or ()]
        cpus, memory, gpus = (max(each) for each in zip(together, *first, strict=True))
        return float(cpus), int(memory), int(gpus)
    return sizes.of_container(document.get("container") or {})


def _sum(amounts: Iterable[sizes.Amounts]) -> sizes.Amounts:
    cpus, memory, gpus = zip(*amounts, strict=True)
    return sum(cpus), sum(memory), sum(gpus)


def _architecture(document: Document) -> str:
    """Return the architecture that a job asks for; of node ranges, that of the first with one."""
    ranges = (document.get("nodeProperties") or {}).get("nodeRangeProperties") or ()
    found = (_own_architecture(each) for each in (document, *ranges))
    return next(filter(None, found), "")


def _own_architecture(document: Document) -> str:
    tasks = (document.get("ecsProperties") or {}).get("taskProperties") or [{}]
    described = document.get("container") or tasks[0]
    platform = described.get("runtimePlatform") or {}
    return str(platform.get("cpuArchitecture") or "")


def _consumable_list(document: Document) -> list[Document]:
    properties = document.get(_CONSUMABLES) or {}
    return list(properties.get("consumableResourceList") or ())
