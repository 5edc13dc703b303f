"""Host paths, volumes and devices of a role, in the form of the Engine's API.

A named resource of AWS states the *most* devices that its instance type can have. On this machine
those of them are handed on that are there; devices of a resource made by hand have to be.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from wherry.errors import InvalidSpecError, LaunchError, nearest, unknown
from wherry.specs.app import Role
from wherry.specs.catalogue.aws import EFA, NEURON
from wherry.specs.mounts import BindMount, DeviceMount, VolumeMount

Document = dict[str, Any]

_DEVICE_PATHS = {EFA: "/dev/infiniband/uverbs", NEURON: "/dev/neuron"}
_VOLUME = re.compile(r"[A-Za-z0-9][\w.-]+\Z", re.ASCII)


def mounts_of(role: Role) -> list[Document]:
    """Return the ``Mounts`` of a role's containers; relative paths count from this folder.

    Args:
        role: the role; it is not changed.

    Raises:
        InvalidSpecError: a mount that Docker cannot make.
    """
    made = [_mount(role, mount) for mount in role.mounts if not isinstance(mount, DeviceMount)]
    paths = [mount.dst_path for mount in role.mounts]
    for path in paths:
        if paths.count(path) > 1:
            raise InvalidSpecError(f"role {role.name!r} has two mounts at {path!r}")
    return made


def _mount(role: Role, mount: BindMount | VolumeMount) -> Document:
    if not mount.dst_path.startswith("/"):
        raise InvalidSpecError(
            f"role {role.name!r}: a mount's path in the container begins with '/', "
            f"not {mount.dst_path!r}"
        )
    if isinstance(mount, BindMount):
        kind, source = "bind", os.path.abspath(os.path.expanduser(mount.src_path))
    else:
        kind, source = "volume", mount.src
        if not _VOLUME.match(source):
            hint = "; for a path of this machine write type=bind" if "/" in source else ""
            raise InvalidSpecError(
                f"role {role.name!r}: {source!r} is no name for a volume: letters, digits, '_', "
                f"'.' and '-'{hint}"
            )
    made: Document = {"Type": kind, "Source": source, "Target": mount.dst_path}
    return made | {"ReadOnly": True} if mount.read_only else made


def devices_of(role: Role, warn: Callable[[str], None]) -> list[Document]:
    """Return the ``Devices`` of a role's containers.

    Args:
        role: the role; it is not changed.
        warn: is told of devices that are left out.

    Raises:
        InvalidSpecError: a device that is not known.
    """
    mounted = [mount for mount in role.mounts if isinstance(mount, DeviceMount)]
    taken = {mount.src_path for mount in mounted}
    mounted += [device for device in _of_resource(role, warn) if device.src_path not in taken]
    return [
        {
            "PathOnHost": device.src_path,
            "PathInContainer": device.dst_path,
            "CgroupPermissions": device.permissions,
        }
        for device in mounted
    ]


def _of_resource(role: Role, warn: Callable[[str], None]) -> Iterator[DeviceMount]:
    by_hand = "instance_type" not in role.resource.capabilities
    for name, count in role.resource.devices.items():
        if name not in _DEVICE_PATHS:
            raise InvalidSpecError(unknown(f"device of role {role.name!r}:", name, _DEVICE_PATHS))
        paths = [f"{_DEVICE_PATHS[name]}{index}" for index in range(count)]
        there = [path for path in paths if by_hand or os.path.exists(path)]
        if len(there) < len(paths):
            warn(
                f"role {role.name!r}: this machine has {len(there)} of the {count} devices {name} "
                "that the instance type has; the others are left out"
            )
        yield from map(DeviceMount, there)


def check_sources(role: str, mounts: Iterable[Document], devices: Iterable[Document]) -> None:
    """See that what is handed on from this machine is there.

    Raises:
        LaunchError: something is not.
    """
    for mount in mounts:
        if mount["Type"] == "bind" and not os.path.lexists(mount["Source"]):
            raise LaunchError(
                f"role {role!r}: the mount's source {mount['Source']} does not exist"
                f"{_near(mount['Source'])}"
            )
    for device in devices:
        if not os.path.exists(device["PathOnHost"]):
            raise LaunchError(
                f"role {role!r}: this machine has no device {device['PathOnHost']}"
                f"{_near(device['PathOnHost'])}"
            )


def _near(path: str) -> str:
    folder, name = os.path.split(path)
    try:
        close = nearest(name, os.listdir(folder))
    except OSError:
        return f"; neither does {folder}" if not os.path.exists(folder) else ""
    return f"; did you mean {os.path.join(folder, close)}?" if close else ""
