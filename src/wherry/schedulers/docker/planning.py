"""From a request to what the supervisor is sent, now that the Engine and its images are known."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from wherry.errors import LaunchError
from wherry.home import home, runtime_dir
from wherry.schedulers.docker.facts import Facts
from wherry.schedulers.docker.labels import (
    APP,
    APP_ID,
    CREATED,
    HOME,
    LONGEST_APP,
    SESSION,
)
from wherry.schedulers.docker.mounts import check_sources
from wherry.schedulers.docker.pulling import stop_signal
from wherry.schedulers.docker.request import DockerRequest, DockerRoleRequest, cores_of, escaped
from wherry.schedulers.local.request import machine_cores, read_secret
from wherry.specs.app import RetryScope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wherry.schedulers.local.plan import EnginePlan, RolePlan
    from wherry.schedulers.local.record import Record

Document = dict[str, Any]

NAME = "{app_id}-{role}-{replica}"
"""What replicas are called; the supervisor shortens what would not resolve."""

# Unlike `json-file`, this driver keeps bytes as they are. The record has the whole log; this one
# is for those who have no record.
_LOGGING = {"Type": "local", "Config": {"max-size": "512m", "max-file": "2", "compress": "false"}}


def engine_plan(request: DockerRequest, record: Record, facts: Facts) -> EnginePlan:
    """Return what is made for the whole app."""
    return {
        "address": facts.address,
        "network": request.network or f"wherry-{request.app_id}",
        "own_network": request.network is None,
        "labels": app_labels(record),
    }


def app_labels(record: Record) -> dict[str, str]:
    """Return the labels of everything that is made for an app; no secret is in them."""
    plain = json.dumps(record.plain_app, separators=(",", ":"))
    if len(plain) > LONGEST_APP:
        short = {"name": record.plain_app.get("name"), "array": record.plain_app.get("array")}
        kept = ("name", "image", "num_replicas", "max_retries")
        short["roles"] = [
            {key: role[key] for key in kept if key in role}
            for role in record.plain_app.get("roles", ())
        ]
        plain = json.dumps(short, separators=(",", ":"))
    return {
        APP_ID: record.app_id,
        SESSION: record.session,
        APP: plain,
        CREATED: f"{record.created_at:.3f}",
        HOME: home(),
    }


def role_plan(
    role: DockerRoleRequest, request: DockerRequest, facts: Facts, image: Mapping[str, Any]
) -> RolePlan:
    """Turn a role's request into what the supervisor is sent.

    Raises:
        LaunchError: a secret or a source of a mount is not there.
    """
    create = copy.deepcopy(role.create)
    host_config = create.setdefault("HostConfig", {})
    if facts.is_here:
        check_sources(role.name, host_config.get("Mounts", ()), host_config.get("Devices", ()))
    create["Env"] = [*create.get("Env", ()), *_secrets(role)]
    if host_config.get("NanoCpus", 0) > facts.cores * 1_000_000_000:
        del host_config["NanoCpus"]  # All that there are; the Engine refuses a limit above them.
    if "local" in facts.log_drivers:
        host_config.setdefault("LogConfig", _LOGGING)
    host_config.setdefault("Init", facts.has_init if request.init is None else request.init)
    return {
        "name": role.name,
        "program": "",
        "argv": [],
        "env": {},
        "cwd": "/",
        "replicas": role.replicas,
        "min_replicas": role.min_replicas,
        "retries": role.max_retries,
        "retry_alone": role.retry_policy.scope is RetryScope.REPLICA,
        "rules": [rule.as_tuple() for rule in role.retry_policy.rules],
        "cores": cores_of(role, cores(facts)),
        "gpus": 0,
        "limits": [],
        "container": {"create": create, "name": NAME, "stop_signal": stop_signal(image)},
        "call": None,
    }


def _secrets(role: DockerRoleRequest) -> Iterable[str]:
    for name, reference in role.secrets.items():
        yield f"{name}={escaped(read_secret(role.name, name, reference))}"


def cores(facts: Facts) -> int:
    """Return how many cores arrays may fill."""
    return min(facts.cores, machine_cores()) if facts.is_here else facts.cores


def slots_dir(facts: Facts) -> str:
    """Return the folder in which the cores of the Engine's machine are counted."""
    if facts.is_here:
        return os.path.join(runtime_dir(), "slots")
    import zlib

    return os.path.join(runtime_dir(), f"slots-{zlib.crc32(facts.address.encode()):08x}")


def check_gpus(roles: Iterable[DockerRoleRequest], facts: Facts) -> None:
    """Refuse a request for GPUs that the Engine cannot give.

    Raises:
        LaunchError: there is one.
    """
    if facts.has_gpus is not False:
        return
    for role in roles:
        if role.create.get("HostConfig", {}).get("DeviceRequests"):
            raise LaunchError(
                f"role {role.name!r} asks for GPUs, and the Docker Engine at {facts.address} has "
                "no driver for them; install the NVIDIA Container Toolkit "
                "(`nvidia-ctk runtime configure --runtime=docker`), or ask for none"
            )


def size_warnings(roles: Iterable[DockerRoleRequest], facts: Facts) -> list[str]:
    """Say which roles may use more memory or cores than the Engine's machine has."""
    found = []
    for role in roles:
        memory = role.create.get("HostConfig", {}).get("Memory", 0)
        if facts.memory and memory > facts.memory:
            found.append(
                f"role {role.name!r} asks for {memory >> 20} MiB of memory a replica and the "
                f"Engine's machine has {facts.memory >> 20} MiB; it runs, and may be killed before "
                "its limit"
            )
        if role.cpu > facts.cores:
            found.append(
                f"role {role.name!r} asks for {role.cpu:g} cores a replica and the Engine's "
                f"machine has {facts.cores}; it gets those"
            )
    return found
