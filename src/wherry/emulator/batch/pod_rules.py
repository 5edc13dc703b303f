"""What ``eksProperties`` may consist of: a pod of containers.

Words of refusals as in `definition_rules`.
"""

from __future__ import annotations

import re

from wherry.emulator.batch import limits
from wherry.emulator.batch.container_rules import check_environment
from wherry.emulator.batch.errors import refuse
from wherry.emulator.batch.ports import Document

_DNS_POLICIES = ("Default", "ClusterFirst", "ClusterFirstWithHostNet")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MEDIA = ("", "Memory")
_QUARTERS = 4
_MEMORY = re.compile(r"([0-9]+)Mi\Z")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?\Z")
_WHOLE = re.compile(r"[0-9]+\Z")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z")
_GPU = "nvidia.com/gpu"


def check(properties: Document) -> None:
    """Refuse ``eksProperties`` that AWS would refuse.

    Raises:
        ClientError: they are refused.
    """
    pod = properties.get("podProperties", {})
    containers, before = pod.get("containers", []), pod.get("initContainers", [])
    refuse(not containers, "Containers must be provided for Batch on EKS jobs.")
    limits.check_count("containers", containers, limits.CONTAINERS)
    limits.check_count("initContainers", before, limits.CONTAINERS)
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    for container in (*containers, *before):
        _check_container(container, volumes)
    names = [container["name"] for container in (*containers, *before)]
    refuse(len(set(names)) < len(names), "Container names must be unique")
    _check_needs(containers)
    refuse(pod.get("dnsPolicy", "Default") not in _DNS_POLICIES, "Unsupported DNS policy value.")
    for volume in pod.get("volumes", []):
        medium = volume.get("emptyDir", {}).get("medium", "")
        refuse(
            medium not in _MEDIA, 'Invalid Volume mount. Allowed values - Memory or "" (default)'
        )
    _check_metadata(pod.get("metadata", {}))


def _check_container(container: Document, volumes: set[str]) -> None:
    refuse(
        len(container["image"]) > limits.IMAGE_LENGTH,
        f"Container image cannot exceed {limits.IMAGE_LENGTH} characters.",
    )
    policy = container.get("imagePullPolicy")
    refuse(
        policy is not None and policy not in _PULL_POLICIES,
        f"imagePullPolicy {policy} is not valid. Valid values are: [{', '.join(_PULL_POLICIES)}]",
    )
    check_environment(container.get("env", []))
    for mount in container.get("volumeMounts", []):
        refuse(
            mount.get("name") not in volumes,
            f"volumeMount {mount.get('name')} must reference a defined volume.",
        )
    resources = container.get("resources", {})
    for amounts in (resources.get("limits", {}), resources.get("requests", {})):
        for kind, value in amounts.items():
            _check_amount(kind, value)
    _check_pair(resources.get("limits", {}), resources.get("requests", {}))


def _check_amount(kind: str, value: str) -> None:
    check_one = _AMOUNTS.get(kind)
    if check_one is None:
        refuse(True, f"{kind} is not a supported type for resources.")
    else:
        check_one(value)


def _check_cpu(value: str) -> None:
    good = bool(_NUMBER.match(value)) and (float(value) * _QUARTERS).is_integer()
    refuse(
        not good or float(value) <= 0,
        f"Value {value} for type cpu in resources is not valid. Provide a valid number that is an"
        " even multiple of 0.25.",
    )


def _check_memory(value: str) -> None:
    found = _MEMORY.match(value)
    refuse(found is None, f"Value {value} for type memory is not valid.")
    amount = int(found[1]) if found else 0
    refuse(
        amount < limits.MEMORY_MIB,
        f"Memory must be at least {limits.MEMORY_MIB} Mib, got {amount} Mib.",
    )


def _check_gpu(value: str) -> None:
    refuse(not _WHOLE.match(value), f"Value {value} for type {_GPU} is not valid.")


_AMOUNTS = {"cpu": _check_cpu, "memory": _check_memory, _GPU: _check_gpu}


def _check_pair(most: Document, asked: Document) -> None:
    refuse(
        "cpu" in most and "cpu" in asked and float(asked["cpu"]) > float(most["cpu"]),
        "cpu request must be <= to cpu limit if both are provided.",
    )
    for kind in ("memory", _GPU):
        refuse(
            kind in most and kind in asked and asked[kind] != most[kind],
            f"{kind} request must be equal to {kind} limit if both are provided.",
        )


def _check_needs(containers: list[Document]) -> None:
    for kind in ("cpu", "memory"):
        for container in containers:
            resources = container.get("resources", {})
            given = {**resources.get("requests", {}), **resources.get("limits", {})}
            refuse(kind not in given, f"{kind} is required in resources of EKS containers.")


def _check_metadata(metadata: Document) -> None:
    namespace = metadata.get("namespace")
    if namespace is None:
        return
    refuse(
        namespace == "default",
        "kubernetesNamespace cannot be the default Kubernetes namespace",
    )
    refuse(
        namespace.startswith("kube"),
        "kubernetesNamespace cannot be a Kubernetes system namespace",
    )
    refuse(not _NAMESPACE.match(namespace), "kubernetesNamespace should match a valid pattern.")
