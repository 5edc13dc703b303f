"""A container as the Engine's API wants it.

Pure data: from a container of a task to the body of ``POST /containers/create``. This module knows
how ECS's agent translates a container definition for Docker; it knows neither the `docker` package
nor any state. Field names are those of the Engine's API:
https://docs.docker.com/reference/api/engine/version/v1.41/#tag/Container/operation/ContainerCreate
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wherry.emulator.engines.api import Container, Task

Document = dict[str, Any]

MIB = 1024 * 1024

LEAST_MEMORY_MIB = 6
"""Docker takes no less; ECS's agent raises what is below it, and so do we."""

LEAST_CPU_SHARES = 2
"""The kernel takes no less; ECS uses it for a container without CPU units."""

MOST_CPU_SHARES = 262_144
"""The kernel takes no more."""

CPU_PERIOD_US = 100_000

LOGGING = {"Type": "local", "Config": {"max-size": "16m", "max-file": "2", "compress": "false"}}
"""Output is read as it comes; what the Engine keeps is for `docker logs`, and for catching up after
the Engine was restarted. Unlike ``json-file``, this driver keeps bytes as they are."""


@dataclass(frozen=True)
class Surrounds:
    """What a container gets from its task and its engine rather than from its definition.

    Attributes:
        network: name of the network, ``host``, or ``container:<id>``.
        labels: by which the engine finds its own again.
        volumes: for the names of volumes that live as long as the task, what Docker calls them.
        gpus: which GPUs, by number.
        extra_hosts: ``name:address`` lines for ``/etc/hosts``.
        holder: id of the container whose namespaces the task shares; empty where it shares none.
    """

    network: str
    labels: Mapping[str, str]
    volumes: Mapping[str, str]
    gpus: Sequence[str] = ()
    extra_hosts: Sequence[str] = ()
    holder: str = ""


def creation(task: Task, container: Container, around: Surrounds) -> Document:
    """Return the body that creates a container.

    Args:
        task: the container's task.
        container: what is to run.
        around: what it gets from outside.

    Returns:
        A document for ``POST /containers/create``.
    """
    body: Document = {
        "Image": container.image,
        "Env": [f"{name}={value}" for name, value in container.env],
        "Labels": dict(around.labels),
        # Both streams are attached to before the start, so that nothing is lost.
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "OpenStdin": False,
        "HostConfig": _host_config(task, container, around),
    }
    # An absent key leaves the image's own; an empty list would take it away.
    optional = {
        "Cmd": list(container.command),
        "Entrypoint": list(container.entrypoint),
        "User": container.user,
        "WorkingDir": container.working_dir,
    }
    return body | {key: value for key, value in optional.items() if value}


def _host_config(task: Task, container: Container, around: Surrounds) -> Document:
    config: Document = {
        "NetworkMode": around.network,
        "Memory": max(container.memory_mib, LEAST_MEMORY_MIB) * MIB,
        "CpuShares": cpu_shares(container.vcpus),
        "Privileged": container.privileged,
        "ReadonlyRootfs": container.read_only_root,
        "LogConfig": LOGGING,
        "RestartPolicy": {"Name": "no"},
        "Binds": _binds(container, around.volumes),
        "Tmpfs": {
            tmpfs.target: ",".join((f"size={tmpfs.size_mib}m", *tmpfs.options))
            for tmpfs in container.tmpfs
        },
        "Ulimits": [
            {"Name": name, "Soft": soft, "Hard": hard} for name, soft, hard in container.ulimits
        ],
        "Devices": [
            {
                "PathOnHost": device.host,
                "PathInContainer": device.target or device.host,
                "CgroupPermissions": device.permissions,
            }
            for device in container.devices
        ],
    }
    if container.hard_cpu:
        config |= {"CpuPeriod": CPU_PERIOD_US, "CpuQuota": int(container.vcpus * CPU_PERIOD_US)}
    if container.init:
        config["Init"] = True
    if container.shm_mib:
        config["ShmSize"] = container.shm_mib * MIB
    if around.gpus:
        config["DeviceRequests"] = [{"DeviceIDs": list(around.gpus), "Capabilities": [["gpu"]]}]
    # A container that joins another's network has that one's hosts file.
    if around.extra_hosts and not around.network.startswith("container:"):
        config["ExtraHosts"] = list(around.extra_hosts)
    return config | _swap(container) | _namespaces(task, around)


def cpu_shares(vcpus: float) -> int:
    """Return the relative weight that ECS gives a container: 1,024 for each vCPU."""
    return min(max(int(vcpus * 1024), LEAST_CPU_SHARES), MOST_CPU_SHARES)


def _binds(container: Container, volumes: Mapping[str, str]) -> list[str]:
    # Binds rather than mounts: as on an ECS host, a folder that is not there is made.
    return [
        f"{mount.source or volumes[mount.volume]}:{mount.target}{':ro' if mount.read_only else ''}"
        for mount in container.mounts
    ]


def _swap(container: Container) -> Document:
    """Without `max_swap_mib`, Docker's default: as much swap again as memory.

    Swappiness counts only together with it:
    https://docs.aws.amazon.com/batch/latest/APIReference/API_LinuxParameters.html
    """
    if container.max_swap_mib < 0:
        return {}
    memory = max(container.memory_mib, LEAST_MEMORY_MIB)
    swap: Document = {"MemorySwap": (memory + container.max_swap_mib) * MIB}
    if container.swappiness >= 0:
        swap["MemorySwappiness"] = container.swappiness
    return swap


def _namespaces(task: Task, around: Surrounds) -> Document:
    shared = f"container:{around.holder}" if around.holder else ""
    modes = {
        "PidMode": {"host": "host", "task": shared},
        "IpcMode": {"host": "host", "task": shared, "none": "none"},
    }
    asked = {"PidMode": task.pid_mode, "IpcMode": task.ipc_mode}
    found = {key: modes[key].get(mode, "") for key, mode in asked.items()}
    return {key: mode for key, mode in found.items() if mode}


def volume_names(task: Task) -> list[str]:
    """Return the names of a task's volumes that live only as long as it does."""
    return sorted(
        {
            mount.volume
            for container in task.containers
            for mount in container.mounts
            if not mount.source
        }
    )
