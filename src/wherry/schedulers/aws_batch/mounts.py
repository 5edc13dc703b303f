"""Host paths, file systems and devices of a role, in AWS Batch's form.

A bind mount becomes a volume of the host, a volume mount an EFS file system, a device mount a
device. `Resource.devices` becomes device mounts as well: Neuron devices always, since a host of
such a type has them; EFA devices when they were asked for. A named resource states the *most* EFA
interfaces of its instance type, and a host has those that its launch template asks for; a
container with a device that its host has not does not start. So EFA counts as asked for when the
resource was made by hand, or when the option ``efa`` says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from wherry.aws.documents import Document
from wherry.errors import InvalidSpecError, unknown
from wherry.specs.app import Role
from wherry.specs.catalogue.aws import EFA, NEURON
from wherry.specs.mounts import BindMount, DeviceMount, Mount, VolumeMount

_PERMISSIONS = {"r": "READ", "w": "WRITE", "m": "MKNOD"}
_DEVICE_PATHS = {EFA: "/dev/infiniband/uverbs", NEURON: "/dev/neuron"}
_FILE_SYSTEM = re.compile(r"(?P<id>fs-[0-9a-f]{8,40})(:(?P<folder>/.*))?\Z")


@dataclass(frozen=True)
class Mounted:
    """What a role's mounts come to.

    Args:
        volumes: ``volumes`` of the container.
        mount_points: its ``mountPoints``.
        devices: ``devices`` of its ``linuxParameters``.
        uses_efa: whether an EFA device is among them, which locks memory without limit.
    """

    volumes: list[Document] = field(default_factory=list)
    mount_points: list[Document] = field(default_factory=list)
    devices: list[Document] = field(default_factory=list)
    uses_efa: bool = False


def mounted(role: Role, efa: bool | None, warn: Callable[[str], None]) -> Mounted:
    """Turn a role's mounts and devices into AWS's form.

    Args:
        role: the role; it is not changed.
        efa: the option ``efa``.
        warn: is told of devices that are left out.

    Raises:
        InvalidSpecError: a mount or a device that AWS Batch cannot give.
    """
    result = Mounted()
    mounts = [*role.mounts, *_of_resource(role, efa, warn)]
    _refuse_doubles(role, mounts)
    for mount in mounts:
        if isinstance(mount, DeviceMount):
            result.devices.append(_device(mount))
            continue
        name = f"mount-{len(result.volumes)}"
        result.volumes.append({"name": name, **_volume(role, mount)})
        result.mount_points.append(
            {
                "containerPath": mount.dst_path,
                "readOnly": mount.read_only,
                "sourceVolume": name,
            }
        )
    uses_efa = any(device["hostPath"].startswith(_DEVICE_PATHS[EFA]) for device in result.devices)
    return Mounted(result.volumes, result.mount_points, result.devices, uses_efa)


def _volume(role: Role, mount: BindMount | VolumeMount) -> Document:
    if not mount.dst_path.startswith("/"):
        raise InvalidSpecError(
            f"role {role.name!r}: a mount's path in the container begins with '/', "
            f"not {mount.dst_path!r}"
        )
    if isinstance(mount, BindMount):
        return {"host": {"sourcePath": mount.src_path}}
    found = _FILE_SYSTEM.match(mount.src)
    if found is None:
        raise InvalidSpecError(
            f"role {role.name!r}: the volume {mount.src!r} is no EFS file system; write its id, "
            "such as fs-0123456789abcdef0, or id:/folder"
        )
    system: Document = {"fileSystemId": found["id"]}
    if found["folder"]:
        system["rootDirectory"] = found["folder"]
    return {"efsVolumeConfiguration": system}


def _device(mount: DeviceMount) -> Document:
    return {
        "hostPath": mount.src_path,
        "containerPath": mount.dst_path,
        "permissions": [_PERMISSIONS[letter] for letter in mount.permissions],
    }


def _of_resource(
    role: Role, efa: bool | None, warn: Callable[[str], None]
) -> Iterable[DeviceMount]:
    by_hand = "instance_type" not in role.resource.capabilities
    for name, count in role.resource.devices.items():
        if name not in _DEVICE_PATHS:
            raise InvalidSpecError(unknown(f"device of role {role.name!r}:", name, _DEVICE_PATHS))
        if name == EFA and not (by_hand if efa is None else efa):
            if role.num_replicas > 1 and efa is None:
                warn(
                    f"role {role.name!r}: no EFA device is used, though the instance type can "
                    f"have {count}; -cfg efa=yes adds them, if the hosts' launch template does"
                )
            continue
        for index in range(count):
            path = f"{_DEVICE_PATHS[name]}{index}"
            if all(mount.src_path != path for mount in _devices(role.mounts)):
                yield DeviceMount(path)


def _devices(mounts: Iterable[Mount]) -> list[DeviceMount]:
    return [mount for mount in mounts if isinstance(mount, DeviceMount)]


def _refuse_doubles(role: Role, mounts: Sequence[Mount]) -> None:
    paths = [mount.dst_path for mount in mounts]
    for path in paths:
        if paths.count(path) > 1:
            raise InvalidSpecError(f"role {role.name!r} has two mounts at {path!r}")
