"""What SubmitJob refuses at once, as far as it concerns what is to run.

Definitions have been judged when they were registered; here it is the request's overrides, and
what they make of the definition. The words are AWS's where they are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from wherry.emulator.batch import container_rules, limits, overrides
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import JobDefinition
from wherry.emulator.batch.refusal import refuse

_RESERVED = "AWS_BATCH"
_OVERRIDES = {
    "containerOverrides": "container",
    "ecsPropertiesOverride": "ecs",
    "eksPropertiesOverride": "eks",
    "nodeOverrides": "multinode",
}
"""Which overrides go with which kind of definition."""

_NAMES = {
    "containerOverrides": "Container overrides",
    "ecsPropertiesOverride": "ECS properties override",
    "eksPropertiesOverride": "EKS properties override",
    "nodeOverrides": "Node overrides",
}
_JOBS = {
    "container": "single-node container jobs",
    "ecs": "jobs with ECS properties",
    "eks": "jobs that run on EKS resources",
    "multinode": "multinode jobs",
}


def check(definition: JobDefinition, request: Document, kinds: set[str]) -> None:
    """Refuse what can be seen to be wrong before the job exists.

    Args:
        definition: the revision that the job would have.
        request: what SubmitJob was given.
        kinds: the kinds of the environments of its queue, such as ``EC2`` and ``FARGATE``.

    Raises:
        ClientError: it is refused.
    """
    kind = _kind(definition.document)
    for name, its_kind in _OVERRIDES.items():
        refuse(
            bool(request.get(name)) and its_kind != kind,
            f"{_NAMES[name]} should not be set for {_JOBS[kind]}.",
        )
    for override in _container_overrides(request):
        _check_container(override)
    if kind == "multinode":
        _check_nodes(definition, request, kinds)
        return
    _check_names(definition.document, request)
    if "FARGATE" in (definition.document.get("platformCapabilities") or ()):
        _check_fargate(overrides.merged(definition, request), request)


def _kind(document: Document) -> str:
    keys = {"nodeProperties": "multinode", "ecsProperties": "ecs", "eksProperties": "eks"}
    return next((kind for key, kind in keys.items() if document.get(key)), "container")


def _container_overrides(request: Document) -> Iterator[Document]:
    """Iterate over all overrides of containers, wherever they stand in a request."""
    if request.get("containerOverrides"):
        yield request["containerOverrides"]
    for task in (request.get("ecsPropertiesOverride") or {}).get("taskProperties") or ():
        yield from task.get("containers") or ()
    pod = (request.get("eksPropertiesOverride") or {}).get("podProperties") or {}
    for name in ("containers", "initContainers"):
        yield from pod.get(name) or ()
    for group in (request.get("nodeOverrides") or {}).get("nodePropertyOverrides") or ():
        yield from _container_overrides(group)


def _check_container(override: Document) -> None:
    refuse(
        "" in (override.get("command") or ()),
        "Container overrides command should not contain an empty string.",
    )
    for entry in (*(override.get("environment") or ()), *(override.get("env") or ())):
        name = entry.get("name") or ""
        refuse(not name, "Environment variable name should not be empty.")
        refuse(
            name.startswith(_RESERVED),
            f"Environment variable name {name} should not start with {_RESERVED}.",
        )
    for old, least in (("vcpus", 1), ("memory", limits.MEMORY_MIB)):
        given = override.get(old)
        refuse(
            given is not None and given < least,
            f"Container overrides {old} should be at least {least}, but is {given}.",
        )
    _check_requirements(override.get("resourceRequirements") or ())


def _check_requirements(requirements: Iterable[Document]) -> None:
    seen = set()
    for entry in requirements:
        kind, value = entry.get("type"), entry.get("value")
        number = _number(value)
        least = limits.MEMORY_MIB if kind == "MEMORY" else 0
        is_whole = kind == "VCPU" or number == math.floor(number or 0)
        refuse(
            number is None or number <= 0 or number < least or not is_whole,
            f"Resource requirement {kind} has an invalid value {value!r}.",
        )
        refuse(kind in seen, f"Resource requirement {kind} should not be given more than once.")
        seen.add(kind)


def _number(text: object) -> float | None:
    try:
        number = float(str(text))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


# -- names of containers --------------------------------------------------------------------------


def _check_names(document: Document, request: Document) -> None:
    tasks = (document.get("ecsProperties") or {}).get("taskProperties") or ()
    known = {each.get("name") for task in tasks for each in task.get("containers") or ()}
    over = (request.get("ecsPropertiesOverride") or {}).get("taskProperties") or ()
    _check_known(known, (each for task in over for each in task.get("containers") or ()), "")
    pod = (document.get("eksProperties") or {}).get("podProperties") or {}
    over_pod = (request.get("eksPropertiesOverride") or {}).get("podProperties") or {}
    for name in ("containers", "initContainers"):
        known = {each.get("name") or "Default" for each in pod.get(name) or ()}
        _check_known(known, over_pod.get(name) or (), "Default")


def _check_known(known: set[str | None], given: Iterable[Document], default: str) -> None:
    for entry in given:
        name = entry.get("name") or default
        refuse(
            name not in known,
            f"Container override name {name!r} does not match any container of the job definition.",
        )


# -- Fargate --------------------------------------------------------------------------------------


def _check_fargate(document: Document, request: Document) -> None:
    override = request.get("containerOverrides") or {}
    for old in ("vcpus", "memory"):
        refuse(
            override.get(old) is not None,
            f"Container overrides {old} is not applicable for Fargate; use resourceRequirements.",
        )
    needs = [
        container.get("resourceRequirements") or [] for container in _containers_of_ecs(document)
    ]
    refuse(
        any(entry["type"] == "GPU" for each in needs for entry in each),
        "GPU resource requirements are not supported for Fargate.",
    )
    if needs:
        container_rules.check_fargate_pair(*needs)


def _containers_of_ecs(document: Document) -> list[Document]:
    if "container" in document:
        return [document["container"]]
    tasks = (document.get("ecsProperties") or {}).get("taskProperties") or ()
    return [container for task in tasks for container in task.get("containers") or ()]


# -- multi-node -----------------------------------------------------------------------------------


def _check_nodes(definition: JobDefinition, request: Document, kinds: set[str]) -> None:
    refuse(
        bool(kinds) and all(kind.startswith("FARGATE") for kind in kinds),
        "Multinode jobs are not supported on Fargate.",
    )
    refuse(bool(request.get("arrayProperties")), "Array jobs cannot be multinode jobs.")
    properties = definition.document["nodeProperties"]
    number = overrides.num_nodes(properties, request)
    given = request.get("nodeOverrides") or {}
    if given.get("numNodes") is not None:
        _check_number(properties, given["numNodes"])
    for group in given.get("nodePropertyOverrides") or ():
        first, last = _range(group.get("targetNodes") or "", number)
        refuse(
            not 0 <= first <= last < number,
            f"Target nodes {group.get('targetNodes')!r} should be within 0:{number - 1}.",
        )


def _check_number(properties: Document, number: int) -> None:
    """Check the three conditions of the API reference, NodeOverrides.numNodes."""
    refuse(
        not 1 <= number <= limits.NODES,
        f"numNodes should be 1 to {limits.NODES}, but is {number}.",
    )
    ranges = [group["targetNodes"] for group in properties["nodeRangeProperties"]]
    refuse(
        number != properties["numNodes"] and not any(each.endswith(":") for each in ranges),
        "numNodes can only be overridden when a node range of the job definition has an open "
        "upper boundary.",
    )
    lowest = max(_range(each, number)[0] for each in ranges)
    refuse(
        lowest >= number,
        f"The lower boundary of every node range should be less than numNodes {number}.",
    )
    main = properties["mainNode"]
    refuse(main >= number, f"The main node index {main} should be less than numNodes {number}.")


def _range(target: str, number: int) -> tuple[int, int]:
    try:
        return overrides.node_range(target, number)
    except ValueError:
        refuse(True, f"Target nodes {target!r} should look like 0:3, 4: or :5.")
        raise
