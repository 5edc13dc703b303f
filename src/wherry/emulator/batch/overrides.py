"""What a job really asks for: its definition, with the request's overrides laid over it.

Results have the shape in which DescribeJobs shows them. They are shared: by all children of an
array, and with the definition for all that is not overridden; nobody may change them. Whether an
override is allowed is not asked here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from wherry.emulator.batch import sizes
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import Job, JobDefinition

_KEPT = 1024
_LISTS = (
    "command",
    "volumes",
    "environment",
    "mountPoints",
    "ulimits",
    "networkInterfaces",
    "resourceRequirements",
    "secrets",
)
"""What DescribeJobs shows of a container even when there is none of it."""

_REQUIREMENTS = "resourceRequirements"
_DEFAULT_EKS_NAME = "Default"
_CONSUMABLES = "consumableResourceProperties"


class _Same:
    """Stands for an object that is known by where it is, not by what it says."""

    __slots__ = ("it",)

    def __init__(self, it: Any) -> None:
        self.it = it

    def __hash__(self) -> int:
        return id(self.it)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.it is self.it


def merged(definition: JobDefinition, request: Document) -> Document:
    """Return the definition with the overrides of a request.

    Args:
        definition: the revision.
        request: what SubmitJob was given; the same object gives the same result.

    Returns:
        The members of DescribeJobs' ``JobDetail`` that say what runs: ``container``,
        ``ecsProperties``, ``eksProperties`` or ``nodeProperties``, and
        ``consumableResourceProperties`` where there are any.
    """
    return _merged(_Same(definition), _Same(request))


def instance_type(definition: JobDefinition, request: Document, index: int) -> str:
    """Return the instance type that a node asks for; empty for any.

    Args:
        definition: the revision.
        request: what SubmitJob was given.
        index: which node.
    """
    node = _raw_node(definition.document["nodeProperties"], request, index)
    types = node.get("instanceTypes") or [(node.get("container") or {}).get("instanceType")]
    return types[0] or ""


def merged_node(definition: JobDefinition, request: Document, index: int) -> Document:
    """Return the same for one node of a multi-node job.

    Args:
        definition: the revision.
        request: what SubmitJob was given.
        index: which node.
    """
    return _merged_node(_Same(definition), _Same(request), index)


def given(job: Job) -> dict[str, Document]:
    """Return what a request says besides the definition, for each container of ECS by name.

    Args:
        job: a single job, a child or a node.
    """
    found: dict[str, Document] = {}
    for override in _overrides_of(job):
        if override.get("containerOverrides"):
            found["default"] = _container(
                found.get("default") or {}, override["containerOverrides"]
            )
        for task in (override.get("ecsPropertiesOverride") or {}).get("taskProperties") or ():
            for each in task.get("containers") or ():
                name = each.get("name") or ""
                found[name] = _ecs_container(found.get(name) or {}, each)
    return found


def _overrides_of(job: Job) -> Iterable[Document]:
    if job.kind != "node":
        return (job.request,)
    number = num_nodes(job.definition.document["nodeProperties"], job.request)
    return _covering(_node_overrides(job.request), job.index, number)


@functools.lru_cache(maxsize=_KEPT)
def _merged(definition: _Same, request: _Same) -> Document:
    document: Document = definition.it.document
    if "nodeProperties" in document:
        shown = _overridden(document, request.it, "containerProperties")
        return {**shown, "nodeProperties": _node_properties(document["nodeProperties"], request.it)}
    return _overridden(document, request.it, "containerProperties")


@functools.lru_cache(maxsize=_KEPT)
def _merged_node(definition: _Same, request: _Same, index: int) -> Document:
    properties = definition.it.document["nodeProperties"]
    return _shown(_raw_node(properties, request.it, index), "container")


def _raw_node(properties: Document, request: Document, index: int) -> Document:
    number = num_nodes(properties, request)
    base: Document = {}
    for group in _covering(properties["nodeRangeProperties"], index, number):
        for name, part in group.items():
            is_nested = name == "container" and name in base
            base[name] = _nested(base[name], part) if is_nested else part
    for override in _covering(_node_overrides(request), index, number):
        base = _raw(base, override, "container")
    return base


def num_nodes(properties: Document, request: Document) -> int:
    """Return how many nodes a multi-node job has.

    Args:
        properties: the definition's ``nodeProperties``.
        request: what SubmitJob was given.
    """
    return int((request.get("nodeOverrides") or {}).get("numNodes") or properties["numNodes"])


def main_node(job: Job) -> int:
    """Return the index of the main node of a multi-node job, or of the one that a node is of."""
    return int((job.definition.document.get("nodeProperties") or {}).get("mainNode") or 0)


def node_range(target: str, number: int) -> tuple[int, int]:
    """Return the first and the last node of a range; an open end is the last of all.

    >>> node_range("2:", 10), node_range(":3", 10), node_range("5", 10)
    ((2, 9), (0, 3), (5, 5))
    """
    start, colon, end = target.partition(":")
    first = int(start or 0)
    return (first, int(end) if end else number - 1) if colon else (first, first)


def _covering(groups: Iterable[Document], index: int, number: int) -> list[Document]:
    """Return the groups that a node is in, widest first: nested ranges override."""

    def span(group: Document) -> int:
        first, last = node_range(group["targetNodes"], number)
        return last - first

    def holds(group: Document) -> bool:
        first, last = node_range(group["targetNodes"], number)
        return first <= index <= last

    found = sorted(filter(holds, groups), key=span, reverse=True)
    return [{k: v for k, v in group.items() if k != "targetNodes"} for group in found]


def _nested(wide: Document, narrow: Document) -> Document:
    """Lay the container of a narrow range over that of a wide one.

    What a container has to have "can be specified in several places" (API reference,
    ContainerProperties.vcpus); so what the narrow range leaves empty is that of the wide one.
    """
    given = {name: value for name, value in narrow.items() if value not in ([], None)}
    types = {each["type"] for each in sizes.requirements(narrow)}
    left = [each for each in wide.get(_REQUIREMENTS) or () if each["type"] not in types]
    result = {
        name: value for name, value in wide.items() if sizes.OLD_MEMBERS.get(name) not in types
    }
    return {**result, **given, _REQUIREMENTS: [*left, *(narrow.get(_REQUIREMENTS) or ())]}


def _node_overrides(request: Document) -> Sequence[Document]:
    return (request.get("nodeOverrides") or {}).get("nodePropertyOverrides") or ()


def _node_properties(properties: Document, request: Document) -> Document:
    number = num_nodes(properties, request)
    groups = []
    for group in properties["nodeRangeProperties"]:
        first, last = node_range(group["targetNodes"], number)
        base = group
        for override in _node_overrides(request):
            start, end = node_range(override["targetNodes"], number)
            if start <= first and last <= end:
                base = _raw(base, override, "container")
        groups.append(base)
    return {**properties, "numNodes": number, "nodeRangeProperties": groups}


def _overridden(document: Document, request: Document, container: str) -> Document:
    return _shown(_raw(document, request, container), container)


def _raw(document: Document, override: Document, container: str) -> Document:
    """Lay one set of overrides over a definition, or over a group of nodes."""
    result = dict(document)
    for name, override_name, lay in _PARTS:
        key = container if name == "container" else name
        if override.get(override_name) and (document.get(key) is not None or name == _CONSUMABLES):
            result[key] = lay(document.get(key) or {}, override[override_name])
    if override.get("instanceTypes"):
        result["instanceTypes"] = override["instanceTypes"]
    return result


def _shown(document: Document, container: str) -> Document:
    """Keep what DescribeJobs shows."""
    shown: Document = {}
    if document.get(container) is not None:
        shown["container"] = {**{name: [] for name in _LISTS}, **document[container]}
    for name in ("ecsProperties", "eksProperties"):
        if document.get(name) is not None:
            shown[name] = document[name]
    if document.get(_CONSUMABLES):
        shown[_CONSUMABLES] = document[_CONSUMABLES]
    if "container" in shown and document.get("instanceTypes"):
        shown["container"]["instanceType"] = document["instanceTypes"][0]
    return shown


# -- one container --------------------------------------------------------------------------------


def _container(base: Document, override: Document) -> Document:
    result = _ecs_container(base, override)
    _lay_old_members(result, override)
    if override.get("instanceType"):
        result["instanceType"] = override["instanceType"]
    return result


def _lay_old_members(result: Document, override: Document) -> None:
    """Let ``vcpus`` and ``memory`` override what the definition has under these old names.

    "It overrides the vcpus parameter set in the job definition, but doesn't override any vCPU
    requirement specified in the resourceRequirements" (API reference, ContainerOverrides). A
    requirement that is given with the request takes the old member's place.
    """
    asked = _types(override)
    for member, kind in sizes.OLD_MEMBERS.items():
        if kind in asked:
            result.pop(member, None)
        elif override.get(member) is not None and (member in result or kind not in _types(result)):
            result[member] = override[member]


def _types(container: Document) -> set[str]:
    return {each["type"] for each in container.get(_REQUIREMENTS) or ()}


def _ecs_container(base: Document, override: Document) -> Document:
    result = dict(base)
    if override.get("command"):
        result["command"] = override["command"]
    for name, key in (("environment", "name"), (_REQUIREMENTS, "type")):
        if override.get(name):
            result[name] = _by(base.get(name) or (), override[name], key)
    return result


def _eks_container(base: Document, override: Document) -> Document:
    result = dict(base)
    for name in ("image", "command", "args"):
        if override.get(name):
            result[name] = override[name]
    if override.get("env"):
        result["env"] = _by(base.get("env") or (), override["env"], "name")
    if override.get("resources"):
        had = base.get("resources") or {}
        result["resources"] = {
            **had,
            **{
                name: {**(had.get(name) or {}), **values}
                for name, values in override["resources"].items()
                if values
            },
        }
    return result


def _by(base: Iterable[Document], override: Iterable[Document], key: str) -> list[Document]:
    """Return entries with those of the same name replaced, and new ones at the end."""
    entries = {each.get(key): each for each in base}
    entries.update({each.get(key): each for each in override})
    return list(entries.values())


# -- several containers ---------------------------------------------------------------------------


def _ecs(base: Document, override: Document) -> Document:
    tasks = list(base.get("taskProperties") or ())
    for index, over in enumerate(override.get("taskProperties") or ()):
        if index < len(tasks) and over.get("containers"):
            named = {each.get("name"): each for each in over["containers"]}
            containers = [
                _ecs_container(each, named.get(each.get("name")) or {})
                for each in tasks[index]["containers"]
            ]
            tasks[index] = {**tasks[index], "containers": containers}
    return {**base, "taskProperties": tasks}


def _eks(base: Document, override: Document) -> Document:
    pod, over = base.get("podProperties") or {}, override.get("podProperties") or {}
    result = dict(pod)
    for name in ("containers", "initContainers"):
        if over.get(name):
            result[name] = _pods_containers(pod.get(name) or (), over[name])
    if over.get("metadata"):
        result["metadata"] = _metadata(pod.get("metadata") or {}, over["metadata"])
    return {**base, "podProperties": result}


def _pods_containers(base: Iterable[Document], override: Sequence[Document]) -> list[Document]:
    named = {each.get("name") or _DEFAULT_EKS_NAME: each for each in override}
    return [
        _eks_container(each, named.get(each.get("name") or _DEFAULT_EKS_NAME) or {})
        for each in base
    ]


def _metadata(base: Document, override: Document) -> Document:
    return {
        **base,
        **{
            name: {**(base.get(name) or {}), **value} if isinstance(value, dict) else value
            for name, value in override.items()
        },
    }


def _consumables(base: Document, override: Document) -> Document:
    def bare(entry: Document) -> str:
        return str(entry.get("consumableResource", "")).rpartition("/")[2]

    entries = {bare(each): each for each in base.get("consumableResourceList") or ()}
    entries.update({bare(each): each for each in override.get("consumableResourceList") or ()})
    return {**base, "consumableResourceList": list(entries.values())}


_Lay = Callable[[Document, Document], Document]
_PARTS: tuple[tuple[str, str, _Lay], ...] = (
    ("container", "containerOverrides", _container),
    ("ecsProperties", "ecsPropertiesOverride", _ecs),
    ("eksProperties", "eksPropertiesOverride", _eks),
    (_CONSUMABLES, f"{_CONSUMABLES}Override", _consumables),
)
