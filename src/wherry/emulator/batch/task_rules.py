"""What ``ecsProperties`` may consist of: one task of up to ten containers.

Words of refusals as in `definition_rules`.
"""

from __future__ import annotations

from wherry.emulator.batch import container_rules, limits
from wherry.emulator.batch.container_rules import FARGATE
from wherry.emulator.batch.errors import refuse
from wherry.emulator.batch.ports import Document

_CONDITIONS = ("START", "COMPLETE", "SUCCESS")
_IPC_MODES = ("host", "task", "none")
_PID_MODES = ("host", "task")
_FARGATE_ONLY = ("networkConfiguration", "platformVersion", "ephemeralStorage", "runtimePlatform")
_MANAGED_INSTANCES = "MANAGED_INSTANCES"


def check(properties: Document, platform: str) -> None:
    """Refuse ``ecsProperties`` that AWS would refuse.

    Raises:
        ClientError: they are refused.
    """
    tasks = properties["taskProperties"]
    refuse(len(tasks) != 1, "Exactly 1 taskProperties element must be provided.")
    task = tasks[0]
    containers = task["containers"]
    refuse(
        not 1 <= len(containers) <= limits.CONTAINERS,
        f"Number of containers must be between 1 and {limits.CONTAINERS}",
    )
    for container in containers:
        _check_container(container, task, platform)
    _check_together(containers)
    _check_dependencies(containers)
    _check_modes(task, platform)
    container_rules.check_volumes(
        task.get("volumes", []), platform, str(task.get("platformVersion", ""))
    )
    if platform == FARGATE:
        _check_fargate(task)
    else:
        _check_ec2(task, platform)


def _check_container(container: Document, task: Document, platform: str) -> None:
    refuse(not container.get("image"), "ECS Container Image must be provided.")
    container_rules.check_needs(container)
    container_rules.check_container(container, platform)
    container_rules.check_roles(
        {**container, "volumes": task.get("volumes", [])},
        task.get("executionRoleArn", ""),
        task.get("taskRoleArn", ""),
    )
    least, most = limits.CONTAINER_TIMEOUT_SECONDS
    for member in ("startTimeout", "stopTimeout"):
        seconds = container.get(member)
        refuse(
            seconds is not None and seconds < least, f"{member} must be at least {least} seconds."
        )
        refuse(
            platform == FARGATE and seconds is not None and seconds > most,
            f"{member} must be at most {most} seconds for Fargate.",
        )


def _check_together(containers: list[Document]) -> None:
    names = [container.get("name", "") for container in containers]
    refuse("" in names, "Container name is required in a multi-container job.")
    refuse(len(set(names)) < len(names), "Container names must be unique")
    refuse(
        not any(container["essential"] for container in containers),
        "At least one container must be set as essential",
    )


def _check_dependencies(containers: list[Document]) -> None:
    named = {container["name"]: container for container in containers}
    for container in containers:
        wanted = container.get("dependsOn", [])
        refuse(
            bool(wanted) and len(containers) == 1,
            "Container dependency can not be used in a single-container job.",
        )
        for dependency in wanted:
            _check_dependency(container["name"], dependency, named)
    graph = {
        name: {each["containerName"] for each in container.get("dependsOn", [])}
        for name, container in named.items()
    }
    refuse(_has_cycle(graph), "Container dependencies can not have cycles.")


def _check_dependency(name: str, dependency: Document, named: dict[str, Document]) -> None:
    target, condition = dependency.get("containerName"), dependency.get("condition")
    refuse(target not in named, f"containerName {target} must reference a defined container.")
    refuse(target == name, "A container can not depend on itself.")
    refuse(
        condition not in _CONDITIONS,
        f"TaskContainer dependency {condition} is not valid. Valid values are:"
        f" [{', '.join(_CONDITIONS)}]",
    )
    refuse(
        condition != "START" and named[str(target)]["essential"],
        "The container target of a dependency can not have condition"
        f" {condition} if the target is essential",
    )


def _has_cycle(graph: dict[str, set[str]]) -> bool:
    """Tell whether taking away whatever depends on nothing that is left ends before the end."""
    left = dict(graph)
    while left:
        free = [name for name, targets in left.items() if not targets & left.keys()]
        if not free:
            return True
        for name in free:
            del left[name]
    return False


def _check_modes(task: Document, platform: str) -> None:
    pid, ipc = task.get("pidMode"), task.get("ipcMode")
    refuse(
        pid is not None and pid not in _PID_MODES,
        f"Capability {pid} is not valid. Valid capabilities: [{', '.join(_PID_MODES)}]",
    )
    refuse(
        ipc is not None and ipc not in _IPC_MODES,
        f"ipcMode {ipc} is not valid. Valid values are: [{', '.join(_IPC_MODES)}]",
    )
    refuse(platform == FARGATE and ipc is not None, "ipcMode is not applicable for Fargate.")
    refuse(platform == FARGATE and pid == "host", "pidMode host is not applicable for Fargate.")
    mode = task.get("networkMode")
    refuse(
        mode is not None and platform != _MANAGED_INSTANCES,
        f"networkMode is not applicable for {'Fargate' if platform == FARGATE else 'EC2'}.",
    )
    refuse(mode not in (None, "host"), "networkMode can only be one of [host].")


def _check_fargate(task: Document) -> None:
    refuse(not task.get("executionRoleArn"), "executionRoleArn is required for Fargate jobs.")
    container_rules.check_ephemeral(task.get("ephemeralStorage"))
    container_rules.check_runtime_platform(task.get("runtimePlatform", {}))
    container_rules.check_fargate_pair(*task["containers"])


def _check_ec2(task: Document, platform: str) -> None:
    managed = platform == _MANAGED_INSTANCES
    words = _MANAGED_INSTANCES if managed else "EC2"
    for member in _FARGATE_ONLY:
        refuse(
            member in task and not (managed and member == "runtimePlatform"),
            f"{member} is not applicable for {words}.",
        )
    family = task.get("runtimePlatform", {}).get("operatingSystemFamily", "LINUX")
    refuse(
        family != "LINUX",
        "runtimePlatform for MANAGED_INSTANCES only supports LINUX operating system family.",
    )
    for container in task["containers"]:
        container_rules.check_ec2_vcpus(container)
