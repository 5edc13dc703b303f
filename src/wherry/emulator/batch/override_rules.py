"""What SubmitJob refuses at once, as far as it concerns what is to run.

Definitions have been judged when they were registered; here it is the request's overrides, and
what they make of the definition. The words are AWS's where they are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wherry.emulator.batch import (
    container_rules,
    definition_rules,
    limits,
    node_rules,
    overrides,
    sizes,
)
from wherry.emulator.batch.errors import refuse
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import PLATFORMS, JobDefinition

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
    _check_consumables(request)
    if kind == "multinode":
        _check_nodes(definition, request, kinds)
        return
    _check_names(definition.document, request)
    containers = _containers_of_ecs(overrides.merged(definition, request))
    if "FARGATE" in (definition.document.get("platformCapabilities") or ()):
        _check_fargate(containers, request)
    else:
        for container in containers:
            container_rules.check_ec2_vcpus(container)
    if kind != "eks":
        _check_platform(definition.document, kinds)


def _check_platform(document: Document, kinds: set[str]) -> None:
    """Refuse a job that no environment of its queue can run; the words are those aegea waits for.

    Where a queue's environments are of both kinds, which AWS does not let it have, either will do.
    """
    wanted = next(iter(document.get("platformCapabilities") or ()), "EC2")
    offered = {PLATFORMS.get(kind, "EC2") for kind in kinds}
    refuse(
        bool(offered) and wanted not in offered,
        "Job Queue is attached to Compute Environment that can not run Jobs with capability"
        f" {wanted}",
    )


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
    container_rules.check_environment(override.get("environment") or ())
    container_rules.check_environment(override.get("env") or ())
    container_rules.check_requirements(sizes.requirements(override))


def _check_consumables(request: Document) -> None:
    groups = (request.get("nodeOverrides") or {}).get("nodePropertyOverrides") or ()
    for each in (request, *groups):
        given = each.get("consumableResourcePropertiesOverride") or {}
        definition_rules.check_consumables(given)


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


# -- sizes ----------------------------------------------------------------------------------------


def _check_fargate(containers: list[Document], request: Document) -> None:
    container_rules.check_no_old_members(request.get("containerOverrides") or {})
    for container in containers:
        container_rules.check_requirements(sizes.requirements(container), container_rules.FARGATE)
    if containers:
        container_rules.check_fargate_pair(*containers)


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
        first, last = node_rules.span(group.get("targetNodes") or "", number)
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
    lowest = max(overrides.node_range(each, number)[0] for each in ranges)
    refuse(
        lowest >= number,
        f"The lower boundary of every node range should be less than numNodes {number}.",
    )
    main = properties["mainNode"]
    refuse(main >= number, f"The main node index {main} should be less than numNodes {number}.")
