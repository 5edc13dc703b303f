"""What AWS adds to a job definition: the members that DescribeJobDefinitions returns unasked.

Empty lists and the defaults of Fargate are those that clients have to discount when they compare
what they sent with what they get (hashicorp/terraform-provider-aws, batch job definitions).
"""

from __future__ import annotations

from wherry.emulator.batch.ports import Document

_CONTAINER_LISTS = (
    "command",
    "environment",
    "mountPoints",
    "resourceRequirements",
    "secrets",
    "ulimits",
    "volumes",
)
_TASK_CONTAINER_LISTS = (
    "command",
    "dependsOn",
    "environment",
    "mountPoints",
    "resourceRequirements",
    "secrets",
    "ulimits",
)
_POD_CONTAINER_LISTS = ("args", "command", "env", "volumeMounts")

FARGATE = "FARGATE"


def completed(document: Document) -> Document:
    """Return a definition as AWS keeps it; nothing that was given is lost or changed.

    Args:
        document: the request of RegisterJobDefinition, without name and tags.

    Returns:
        Another document.
    """
    on_fargate = FARGATE in document.get("platformCapabilities", ())
    on_eks = "eksProperties" in document or any(
        "eksProperties" in each
        for each in document.get("nodeProperties", {}).get("nodeRangeProperties", ())
    )
    after = {"parameters": {}, **document}
    after["containerOrchestrationType"] = "EKS" if on_eks else "ECS"
    if "retryStrategy" in document:
        after["retryStrategy"] = {"evaluateOnExit": [], **document["retryStrategy"]}
    _complete_properties(after, "containerProperties", fargate=on_fargate)
    if "nodeProperties" in document:
        ranges = document["nodeProperties"]["nodeRangeProperties"]
        after["nodeProperties"] = {
            **document["nodeProperties"],
            "nodeRangeProperties": [_completed_range(each) for each in ranges],
        }
    return after


def _completed_range(node_range: Document) -> Document:
    after = dict(node_range)
    _complete_properties(after, "container", fargate=False)
    return after


def _complete_properties(document: Document, container: str, *, fargate: bool) -> None:
    """Complete whichever kind of properties a new document has, in place."""
    if container in document:
        document[container] = _container(document[container], fargate=fargate)
    if "ecsProperties" in document:
        tasks = [_task(each) for each in document["ecsProperties"]["taskProperties"]]
        document["ecsProperties"] = {**document["ecsProperties"], "taskProperties": tasks}
    if "eksProperties" in document:
        document["eksProperties"] = _pod(document["eksProperties"])


def _container(properties: Document, *, fargate: bool) -> Document:
    after = {**{member: [] for member in _CONTAINER_LISTS}, **properties}
    if fargate:
        after.setdefault("fargatePlatformConfiguration", {"platformVersion": "LATEST"})
        after.setdefault("networkConfiguration", {"assignPublicIp": "DISABLED"})
    return _with_inner_defaults(after)


def _task(task: Document) -> Document:
    containers = [
        _with_inner_defaults(
            {**{member: [] for member in _TASK_CONTAINER_LISTS}, "essential": True, **each}
        )
        for each in task["containers"]
    ]
    if len(containers) == 1:
        containers[0].setdefault("name", "default")
    return {"volumes": [], **task, "containers": containers}


def _with_inner_defaults(container: Document) -> Document:
    after = dict(container)
    if "linuxParameters" in after:
        after["linuxParameters"] = {"devices": [], "tmpfs": [], **after["linuxParameters"]}
    if "logConfiguration" in after:
        log = {"options": {}, "secretOptions": [], **after["logConfiguration"]}
        after["logConfiguration"] = log
    return after


def _pod(properties: Document) -> Document:
    pod = properties.get("podProperties", {})
    after = {"volumes": [], **pod}
    for member in ("containers", "initContainers"):
        if member in pod:
            after[member] = [_pod_container(each) for each in pod[member]]
    return {**properties, "podProperties": after}


def _pod_container(container: Document) -> Document:
    lists: Document = {member: [] for member in _POD_CONTAINER_LISTS}
    return {**lists, "name": "Default", **container}
