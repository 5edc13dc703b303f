"""Containers of ECS: from ``containerProperties`` and ``ecsProperties`` to what an engine runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wherry.emulator.batch import overrides, parameters, sizes, starting
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.starting import Start
from wherry.emulator.engines.api import Container, Dependency, Device, Mount, Tmpfs

ONLY = "default"
"""The name of the container of a job that has only one."""

_PERMISSIONS = {"READ": "r", "WRITE": "w", "MKNOD": "m"}


def containers(start: Start, document: Document) -> tuple[list[Container], str]:
    """Return the containers of a task, and the region of its logs; opens their log streams.

    Args:
        start: the attempt.
        document: the effective document, with ``container`` or ``ecsProperties``.

    Raises:
        CannotStart: the attempt must fail.
    """
    task, entries = task_of(document), _entries(document)
    role = start.role(task.get("taskRoleArn") or task.get("jobRoleArn"))
    own_role = start.role(task.get("executionRoleArn"))
    starting.check_length(start, _told(start, entries))
    surrounding = start.surroundings.task_environment(start.task_id, start.region, role)
    volumes = {volume["name"]: volume for volume in task.get("volumes") or () if "name" in volume}
    built, region = [], ""
    for name, entry in entries.items():
        hidden = starting.secret_values(start, entry.get("secrets") or (), own_role, name)
        explicit = [
            (each["name"], each.get("value", "")) for each in entry.get("environment") or ()
        ]
        env = starting.environment(
            start, [*explicit, *hidden.items()], surrounding, name, is_only=len(entries) == 1
        )
        log = starting.log_of(start, entry.get("logConfiguration"), name)
        starting.open_stream(start, entry.get("logConfiguration"), name, log)
        region = region or log.region
        built.append(_container(start, name, entry, env, _mounts(start, entry, volumes), log))
    return built, region


def names(document: Document) -> list[str]:
    """Return the names of the containers, in their order."""
    return list(_entries(document))


def task_of(document: Document) -> Document:
    """Return what holds for all containers: the only one, or the task."""
    if "container" in document:
        container: Document = document["container"]
        return container
    task: Document = document["ecsProperties"]["taskProperties"][0]
    return task


def _entries(document: Document) -> dict[str, Document]:
    if "container" in document:
        return {ONLY: document["container"]}
    return {
        entry.get("name") or f"{ONLY}-{number}": entry
        for number, entry in enumerate(task_of(document)["containers"])
    }


def _container(
    start: Start,
    name: str,
    entry: Document,
    env: tuple[tuple[str, str], ...],
    mounts: tuple[Mount, ...],
    log: starting.Log,
) -> Container:
    vcpus, memory, gpus = sizes.of_container(entry)
    linux = entry.get("linuxParameters") or {}
    return Container(
        name=name,
        image=entry.get("image") or "",
        command=parameters.substituted(entry.get("command") or (), start.parameters),
        env=env,
        vcpus=vcpus,
        hard_cpu=start.is_fargate,
        memory_mib=memory,
        gpus=gpus,
        user=entry.get("user") or "",
        privileged=bool(entry.get("privileged")),
        read_only_root=bool(entry.get("readonlyRootFilesystem")),
        init=bool(linux.get("initProcessEnabled")),
        shm_mib=linux.get("sharedMemorySize") or 0,
        max_swap_mib=_or(linux.get("maxSwap"), -1),
        swappiness=_or(linux.get("swappiness"), -1),
        ulimits=tuple(
            (each["name"], each["softLimit"], each["hardLimit"])
            for each in entry.get("ulimits") or ()
        ),
        mounts=mounts,
        devices=tuple(_device(each) for each in linux.get("devices") or ()),
        tmpfs=tuple(
            Tmpfs(each["containerPath"], each["size"], tuple(each.get("mountOptions") or ()))
            for each in linux.get("tmpfs") or ()
        ),
        essential=entry.get("essential") is not False,
        depends_on=tuple(
            Dependency(each["containerName"], each["condition"])
            for each in entry.get("dependsOn") or ()
        ),
        start_timeout=float(_or(entry.get("startTimeout"), Container.start_timeout)),
        stop_timeout=float(_or(entry.get("stopTimeout"), Container.stop_timeout)),
        log_group=log.group,
        log_stream=log.stream,
    )


def _or(value: float | None, default: float) -> int:
    return int(default if value is None else value)


def _device(entry: Document) -> Device:
    given = entry.get("permissions")
    permissions = "".join(_PERMISSIONS[each] for each in given) if given else "rwm"
    return Device(entry["hostPath"], entry.get("containerPath") or entry["hostPath"], permissions)


def _mounts(start: Start, entry: Document, volumes: Mapping[str, Document]) -> tuple[Mount, ...]:
    return tuple(
        starting.mount(
            point["containerPath"],
            _source(start, volumes.get(point.get("sourceVolume") or "") or {}),
            point.get("sourceVolume") or "",
            read_only=bool(point.get("readOnly")),
        )
        for point in entry.get("mountPoints") or ()
        if point.get("containerPath")
    )


def _source(start: Start, volume: Document) -> str:
    """Return the folder of this machine behind a volume; empty when the task has it for itself."""
    path: str = (volume.get("host") or {}).get("sourcePath") or ""
    efs = volume.get("efsVolumeConfiguration")
    if efs:
        access_point = (efs.get("authorizationConfig") or {}).get("accessPointId") or ""
        return starting.shared_folder(
            start, efs["fileSystemId"], access_point, efs.get("rootDirectory") or ""
        )
    s3 = volume.get("s3filesVolumeConfiguration")
    if s3:
        system = s3["fileSystemArn"].rpartition("/")[2]
        return starting.shared_folder(start, system, s3.get("rootDirectory") or "")
    return path


# -- what is told to ECS besides the definition ---------------------------------------------------


def _told(start: Start, entries: Mapping[str, Document]) -> dict[str, Document]:
    given = overrides.given(start.job)
    return {name: _told_of(start, entry, given.get(name) or {}) for name, entry in entries.items()}


def _told_of(start: Start, entry: Document, override: Document) -> Document:
    told: Document = {}
    command: Iterable[str] = entry.get("command") or ()
    if override.get("command") or any("Ref::" in word for word in command):
        told["command"] = list(parameters.substituted(tuple(command), start.parameters))
    for name in ("environment", "resourceRequirements", *sizes.OLD_MEMBERS):
        if override.get(name):
            told[name] = override[name]
    return told
