"""How big a container is: virtual CPUs, memory and GPUs, as definitions write them down.

There are three ways: ``resourceRequirements``, the old members ``vcpus`` and ``memory`` of a
container of ECS, and the quantities of Kubernetes.
"""

from __future__ import annotations

from wherry.emulator.batch.ports import Document

Amounts = tuple[float, int, int]
"""Virtual CPUs, MiB, GPUs."""

OLD_MEMBERS = {"vcpus": "VCPU", "memory": "MEMORY"}
"""The old members of ``containerProperties``, and the type of the requirement that they stand for.

They are kept and shown as they were given; a requirement of the same type goes before them (API
reference, ContainerDetail.memory; nextstrain/cli#177).
"""

DEFAULT_VCPUS = 1.0
DEFAULT_MIB = 128
"""What a container has whose definition says nothing; registration refuses most of these."""

_MIB = {"": 1 / 2**20, "Ki": 1 / 1024, "Mi": 1, "Gi": 1024, "K": 1e3 / 2**20, "M": 1e6 / 2**20}


def requirements(container: Document) -> list[Document]:
    """Return ``resourceRequirements`` of a container of ECS, with what its old members ask for.

    >>> requirements({"vcpus": 2, "resourceRequirements": [{"type": "MEMORY", "value": "64"}]})
    [{'type': 'VCPU', 'value': '2'}, {'type': 'MEMORY', 'value': '64'}]
    """
    given: list[Document] = container.get("resourceRequirements") or []
    types = {each["type"] for each in given}
    old = [
        {"type": kind, "value": str(container[member])}
        for member, kind in OLD_MEMBERS.items()
        if container.get(member) is not None and kind not in types
    ]
    return [*old, *given]


def of_container(container: Document) -> Amounts:
    """Return virtual CPUs, MiB and GPUs of a container of ECS."""
    asked = {each["type"]: each["value"] for each in requirements(container)}
    vcpus, memory = asked.get("VCPU") or DEFAULT_VCPUS, asked.get("MEMORY") or DEFAULT_MIB
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
