"""What ``nodeProperties`` may consist of: ranges of nodes that together are all nodes.

Ranges may lie within each other (``0:10`` and ``4:5``), and the inner one then holds. AWS does not
say what becomes of ranges that overlap otherwise; they are refused, as nobody could tell which one
holds. Words of refusals as in `definition_rules`.
"""

from __future__ import annotations

import re

from wherry.emulator.batch import container_rules, limits, pod_rules, task_rules
from wherry.emulator.batch.errors import refuse
from wherry.emulator.batch.overrides import node_range
from wherry.emulator.batch.ports import Document

_TARGET = re.compile(r"(\d+|\d*:\d*)\Z")
_PAYLOADS = ("container", "ecsProperties", "eksProperties")


def check(properties: Document) -> None:
    """Refuse ``nodeProperties`` that AWS would refuse.

    Raises:
        ClientError: they are refused.
    """
    nodes, main = properties["numNodes"], properties["mainNode"]
    ranges = properties["nodeRangeProperties"]
    refuse(not 1 <= nodes <= limits.NODES, f"Number of nodes must be between 1 and {limits.NODES}.")
    refuse(not 0 <= main < nodes, "Main node index is out of range, must be less than numNodes.")
    refuse(
        len(ranges) > limits.NODE_GROUPS,
        f"Maximum allowed size of node range properties is {limits.NODE_GROUPS}",
    )
    spans = [span(each["targetNodes"], nodes) for each in ranges]
    _check_spans(spans, nodes, [each["targetNodes"] for each in ranges])
    for each in ranges:
        _check_range(each)
    _check_needs(ranges, spans, nodes)


def span(target: str, nodes: int) -> tuple[int, int]:
    """Return the first and the last node that ``targetNodes`` means.

    >>> span("0:3", 10), span(":3", 10), span("4:", 10), span("5", 10)
    ((0, 3), (0, 3), (4, 9), (5, 5))

    Raises:
        ClientError: it is no range of nodes.
    """
    refuse(not _TARGET.match(target), "targetNodes should contain only digits.")
    return node_range(target, nodes)


def _check_spans(spans: list[tuple[int, int]], nodes: int, targets: list[str]) -> None:
    for (first, last), target in zip(spans, targets, strict=True):
        refuse(
            not first <= last < nodes,
            f"targetNodes {target} is out of range, must be less than numNodes.",
        )
    for one, other in ((a, b) for a in spans for b in spans if a < b):
        disjoint = one[1] < other[0]
        nested = other[1] <= one[1] or one[0] == other[0]
        refuse(not (disjoint or nested), "targetNodes ranges can be nested but can not overlap.")
    refuse(len(set(spans)) < len(spans), "Duplicate targetNodes ranges are not allowed.")
    covered = {node for first, last in spans for node in range(first, last + 1)}
    refuse(len(covered) < nodes, "Node range properties must account for all nodes.")


def _check_range(node_range: Document) -> None:
    target = node_range["targetNodes"]
    given = [payload for payload in _PAYLOADS if payload in node_range]
    refuse(not given, f"Must specify container for node range {target}")
    if len(given) > 1:
        refuse(True, f"NodeRangeProperties can not use both {given[1]} and {given[0]} fields")
    instance_types = node_range.get("instanceTypes", [])
    refuse(
        bool(instance_types) and "ecsProperties" not in node_range,
        "Using instanceTypes with nodeRangeProperty is only allowed for ecsProperties jobs.",
    )
    refuse(len(instance_types) > 1, "Only 1 instance type is allowed in instanceTypes.")
    if "container" in node_range:
        container_rules.check_node(node_range["container"])
    elif "ecsProperties" in node_range:
        task_rules.check(node_range["ecsProperties"], "EC2")
    else:
        pod_rules.check(node_range["eksProperties"])


def _check_needs(ranges: list[Document], spans: list[tuple[int, int]], nodes: int) -> None:
    """Refuse a node for which no range says how many vCPUs, how much memory or which image."""
    kinds = [next(payload for payload in _PAYLOADS if payload in each) for each in ranges]
    refuse(
        len(set(kinds)) > 1,
        f"NodeRangeProperties can not use both {' and '.join(_two(kinds))} fields",
    )
    if kinds[0] != "container":
        return
    for node in range(nodes):
        over = [
            each["container"]
            for each, (first, last) in zip(ranges, spans, strict=True)
            if first <= node <= last
        ]
        refuse(not any(each.get("image") for each in over), "ECS Container Image must be provided.")
        container_rules.check_needs(*over)


def _two(kinds: list[str]) -> list[str]:
    return sorted(set(kinds), reverse=True)[:2]
