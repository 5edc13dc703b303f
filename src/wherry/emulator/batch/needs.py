"""What a job asks of a host, and what makes it wait: read from its effective document.

The only thing known here is how a definition writes numbers down; where they can be had is not.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Protocol

from wherry.emulator.batch import overrides
from wherry.emulator.batch.errors import ClientError
from wherry.emulator.batch.placing import NodeNeed, Waiting
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import ConsumableResource, Job

Amounts = tuple[float, int, int]

DEFAULT_VCPUS = 1.0
DEFAULT_MIB = 128
"""What a container has whose definition says nothing; registration refuses most of these."""

_MIB = {"": 1 / 2**20, "Ki": 1 / 1024, "Mi": 1, "Gi": 1024, "K": 1e3 / 2**20, "M": 1e6 / 2**20}


class Consumables(Protocol):
    """The part of the catalog that knows consumable resources."""

    def consumable(self, ref: str) -> ConsumableResource:
        """Return a consumable resource by name or ARN; `ClientError` when there is none."""


def waiting(job: Job, now: float, front: bool, catalog: Consumables) -> Waiting:
    """Return how a job that has become RUNNABLE waits.

    Args:
        job: a single job, a child or a multi-node job.
        now: the emulated time.
        front: whether it is retried, and goes before the others.
        catalog: names consumable resources.
    """
    nodes, consumables = _asked(job)
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
        nodes=nodes,
        platforms=tuple(definition.get("platformCapabilities") or ("EC2",)),
        architecture=_architecture(overrides.merged(job.definition, job.request)),
        consumables=_named(consumables, catalog),
        since=now,
        front=front,
    )


def of_container(container: Document) -> Amounts:
    """Return virtual CPUs, MiB and GPUs of a container of ECS."""
    asked = {each["type"]: each["value"] for each in container.get("resourceRequirements") or ()}
    vcpus = asked.get("VCPU") or container.get("vcpus") or DEFAULT_VCPUS
    memory = asked.get("MEMORY") or container.get("memory") or DEFAULT_MIB
    return float(vcpus), int(float(memory)), int(float(asked.get("GPU") or 0))


def of_pod_container(container: Document) -> Amounts:
    """Return virtual CPUs, MiB and GPUs of a container of a pod."""
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    gpus = int(asked.get("nvidia.com/gpu") or 0)
    return cpus(asked.get("cpu")), mebibytes(asked.get("memory")), gpus


def cpus(quantity: str | None) -> float:
    """Return the virtual CPUs of a Kubernetes quantity such as ``"0.25"`` or ``"250m"``."""
    if not quantity:
        return DEFAULT_VCPUS
    return float(quantity[:-1]) / 1000 if quantity.endswith("m") else float(quantity)


def mebibytes(quantity: str | None) -> int:
    """Return the MiB of a Kubernetes quantity such as ``"2048Mi"``."""
    if not quantity:
        return DEFAULT_MIB
    number = quantity.rstrip("KMGi")
    return int(float(number) * _MIB.get(quantity[len(number) :], 1))


def _asked(job: Job) -> tuple[tuple[NodeNeed, ...], list[Document]]:
    definition, request = job.definition, job.request
    whole = overrides.merged(definition, request)
    if "nodeProperties" not in whole:
        return (NodeNeed(1, *_total(whole)),), _consumable_list(whole)
    number = whole["nodeProperties"]["numNodes"]
    nodes = [overrides.merged_node(definition, request, index) for index in range(number)]
    needs = [
        NodeNeed(1, *_total(node), overrides.instance_type(definition, request, index))
        for index, node in enumerate(nodes)
    ]
    groups = tuple(
        dataclasses.replace(need, count=len(list(same))) for need, same in itertools.groupby(needs)
    )
    own = [entry for node in nodes for entry in _consumable_list(node)]
    return groups, own or _consumable_list(whole)


def _total(document: Document) -> Amounts:
    if "ecsProperties" in document:
        task = document["ecsProperties"]["taskProperties"][0]
        return _sum(of_container(each) for each in task["containers"])
    if "eksProperties" in document:
        pod = document["eksProperties"]["podProperties"]
        together = _sum(of_pod_container(each) for each in pod["containers"])
        # Those that run first run one after another, and before the others.
        first = [of_pod_container(each) for each in pod.get("initContainers") or ()]
        vcpus, memory, gpus = (max(each) for each in zip(together, *first, strict=True))
        return float(vcpus), int(memory), int(gpus)
    return of_container(document.get("container") or {})


def _sum(amounts: Iterable[Amounts]) -> Amounts:
    vcpus, memory, gpus = zip(*amounts, strict=True)
    return sum(vcpus), sum(memory), sum(gpus)


def _architecture(document: Document) -> str:
    tasks = (document.get("ecsProperties") or {}).get("taskProperties") or [{}]
    described = document.get("container") or tasks[0]
    platform = described.get("runtimePlatform") or {}
    return str(platform.get("cpuArchitecture") or "")


def _consumable_list(document: Document) -> list[Document]:
    properties = document.get("consumableResourceProperties") or {}
    return list(properties.get("consumableResourceList") or ())


def _named(asked: Iterable[Document], catalog: Consumables) -> tuple[tuple[str, int], ...]:
    total: dict[str, int] = {}
    for entry in asked:
        name = entry.get("consumableResource") or ""
        try:
            arn = catalog.consumable(name).arn
        except ClientError:
            arn = name  # deleted since; the job waits for somebody to make it again
        total[arn] = total.get(arn, 0) + int(entry.get("quantity") or 0)
    return tuple(total.items())
