"""From an app to a request: what is sent to the Engine, role by role. No Engine is asked here."""

from __future__ import annotations

import fnmatch
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wherry.errors import InvalidSpecError, unknown
from wherry.schedulers.docker.mounts import devices_of, mounts_of
from wherry.schedulers.docker.options import ALL_GPUS, Options
from wherry.schedulers.local.request import (
    RANK0_ENV,
    check_secrets,
    machine_cores,
    make_app_id,
    require_local,
)
from wherry.specs.app import AppDef, RetryPolicy, Role
from wherry.specs.macro import macros
from wherry.specs.plain import to_plain

Document = dict[str, Any]

BRIDGE, HOST, NONE = "bridge", "host", "none"
"""The Engine's own networks."""

_MIB = 1 << 20
_LEAST_MEMORY_MIB = 6
_LIMITS = frozenset(
    (
        *("core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile"),
        *("nproc", "rss", "rtprio", "rttime", "sigpending", "stack"),
    )
)
_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::\d+)?/)?{_PART}(?:/{_PART})*"
    r"(?::\w[\w.-]{0,127})?(?:@[\w+.-]+:[0-9a-fA-F]{32,})?\Z",
    re.ASCII,
)
_IMAGE_ID = re.compile(r"(sha256:)?[0-9a-f]{12,64}\Z")


@dataclass
class DockerRoleRequest:
    """One role of a request; each field may be edited before it is scheduled.

    Args:
        name: the role's name.
        replicas: how many containers.
        create: the body of ``POST /containers/create`` for each of them; ``${replica_id}`` and
            ``$$`` are replaced in ``Cmd``, ``Entrypoint`` and the values of ``Env``.
        min_replicas: how many must live for a gang to go on.
        max_retries: attempts beyond the first.
        retry_policy: what is retried.
        cpu: the cores that each may use at most; 0 for all.
        secrets: variable → ``env:NAME`` or ``file:PATH``; read when it is scheduled.
    """

    name: str
    replicas: int
    create: Document
    min_replicas: int
    max_retries: int = 0
    retry_policy: RetryPolicy = RetryPolicy.APPLICATION
    cpu: float = 0
    secrets: dict[str, str] = field(default_factory=dict)


@dataclass
class DockerRequest:
    """What the Docker scheduler starts; each field may be edited before it is scheduled.

    Args:
        app_id: the app's id.
        roles: its roles.
        array: whether replicas are independent.
        network: the network that the containers are in; one of the app's own when ``None``.
        pull: when images are pulled: always, missing or never.
        platform: the platform of the images; the Engine's own when ``None``.
        init: whether there is an init process above each program; if the Engine has one when
            ``None``.
        log_dir: the folder of this app's logs; beside its record when ``None``.
        timeout: seconds that an attempt may take.
        grace: seconds between the stop signal and SIGKILL.
        disk_patience: seconds that a full disk may hold a program back.
        max_parallel: how many replicas of an array run at once.
        depends_on: handles of apps that must have succeeded.
    """

    app_id: str
    roles: list[DockerRoleRequest]
    array: bool = False
    network: str | None = None
    pull: str = "missing"
    platform: str | None = None
    init: bool | None = None
    log_dir: str | None = None
    timeout: float | None = None
    grace: float = 10.0
    disk_patience: float = 30.0
    max_parallel: int | None = None
    depends_on: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        import json

        return json.dumps(to_plain(self), indent=2)


def make_request(
    app: AppDef,
    options: Options,
    environ: Mapping[str, str] = os.environ,
    now: float | None = None,
) -> tuple[DockerRequest, list[str]]:
    """Turn an app into a request.

    Args:
        app: the app; it is not changed.
        options: the run options.
        environ: where `copy_env` copies from.
        now: seconds since the epoch; part of the app's id.

    Returns:
        The request, and what will not be honoured, in words.

    Raises:
        InvalidSpecError: the app asks for something that Docker does not have.
    """
    warnings: list[str] = []
    app_id = make_app_id(app.name, now)
    for handle in app.depends_on:
        require_local(handle)
    log_dir = options.log_dir
    if log_dir is not None:
        log_dir = os.path.join(os.path.abspath(os.path.expanduser(log_dir)), app_id)
    making = _Making(app, app_id, options, _common_env(options, environ), warnings.append)
    return (
        DockerRequest(
            app_id=app_id,
            roles=[making.role(role) for role in app.roles],
            array=app.array,
            network=_network(app, options, warnings.append),
            pull=options.pull,
            platform=options.platform,
            init=options.init,
            log_dir=log_dir,
            timeout=app.timeout,
            grace=options.grace,
            disk_patience=options.disk_patience,
            max_parallel=options.max_parallel,
            depends_on=list(app.depends_on),
        ),
        warnings,
    )


def is_gang(app: AppDef) -> bool:
    """Tell whether an app has several replicas that have to reach each other."""
    return not app.array and sum(role.num_replicas for role in app.roles) > 1


def _network(app: AppDef, options: Options, warn: Callable[[str], None]) -> str | None:
    if options.network is None:
        return None if is_gang(app) else BRIDGE
    if is_gang(app) and options.network in (BRIDGE, NONE):
        warn(
            f"in the network {options.network!r} the replicas do not find each other by name; "
            "leave the option out, and they get a network of their own"
        )
    return options.network


def _common_env(options: Options, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of all containers, with each dollar kept from being read as a macro."""
    copied = {
        name: value
        for name, value in environ.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in options.copy_env)
    }
    return {name: escaped(value) for name, value in (copied | dict(options.env)).items()}


def escaped(text: str) -> str:
    """Write a text so that it stays as it is when macros are replaced."""
    return text.replace("$", "$$")


class _Making:
    """Makes the roles of one request."""

    def __init__(
        self,
        app: AppDef,
        app_id: str,
        options: Options,
        env: Mapping[str, str],
        warn: Callable[[str], None],
    ) -> None:
        self._app = app
        self._values = macros.Values("", app_id, None, RANK0_ENV)
        self._options = options
        self._env = env
        self._warn = warn
        self._ports = Counter(
            port
            for role in app.roles
            for port in role.port_map.values()
            for _ in range(role.num_replicas)
        )

    def role(self, role: Role) -> DockerRoleRequest:
        """Make one role's request."""
        _check(role)
        self._warn_of_sizes(role)
        return DockerRoleRequest(
            name=role.name,
            replicas=role.num_replicas,
            create=self._create(self._values.apply_to_role(role)),
            min_replicas=role.min_replicas or role.num_replicas,
            max_retries=role.max_retries,
            retry_policy=role.retry_policy,
            cpu=role.resource.cpu,
            secrets=dict(role.secrets),
        )

    def _create(self, role: Role) -> Document:
        # The command follows the image's own entrypoint, as with TorchX and on AWS Batch.
        body: Document = {
            "Image": role.image,
            "Cmd": [role.entrypoint, *role.args],
            "Env": [f"{name}={value}" for name, value in {**self._env, **role.env}.items()],
        }
        optional = {"User": self._options.user, "WorkingDir": self._options.workdir}
        body |= {key: value for key, value in optional.items() if value}
        bindings = self._bindings(role)
        if bindings:
            body["ExposedPorts"] = {port: {} for port in bindings}
        host_config = self._host_config(role) | ({"PortBindings": bindings} if bindings else {})
        return body | {"HostConfig": host_config}

    def _host_config(self, role: Role) -> Document:
        memory = role.resource.memMB * _MIB
        shm = self._options.shm_size * _MIB if self._options.shm_size else memory
        wanted: Document = {
            "NanoCpus": int(role.resource.cpu * 1_000_000_000),
            # As much as memory: no swap besides, so that the limit is one.
            "Memory": memory,
            "MemorySwap": memory,
            "ShmSize": shm,
            "Privileged": self._options.privileged,
            "Ulimits": [
                {"Name": name, "Soft": soft, "Hard": hard}
                for name, (soft, hard) in role.ulimits.items()
            ],
            "Mounts": mounts_of(role),
            "Devices": devices_of(role, self._warn),
            "DeviceRequests": self._gpus(role),
        }
        return {key: value for key, value in wanted.items() if value}

    def _gpus(self, role: Role) -> list[Document]:
        chosen = self._options.gpus
        if not chosen and not role.resource.gpu:
            return []
        request: Document = {"Capabilities": [["gpu"]]}
        if chosen == [ALL_GPUS]:
            request["Count"] = -1
        elif chosen:
            request["DeviceIDs"] = list(chosen)
        else:
            request["Count"] = role.resource.gpu
        return [request]

    def _bindings(self, role: Role) -> dict[str, list[dict[str, str]]]:
        """Publish ports; one that several containers have is at a free one for each of them."""
        if self._options.network in (HOST, NONE):
            return {}
        made = {}
        for name, port in role.port_map.items():
            if not port:
                raise InvalidSpecError(
                    f"role {role.name!r}: port_map[{name!r}] is 0; a container's port is 1 to 65535"
                )
            alone = self._ports[port] == 1
            if not alone:
                self._warn(
                    f"role {role.name!r}: several containers have port {port} ({name}); each is "
                    "published at a free port, which `wherry describe` shows"
                )
            host_port = str(port) if alone else ""
            made[f"{port}/tcp"] = [{"HostIp": self._options.bind, "HostPort": host_port}]
        return made

    def _warn_of_sizes(self, role: Role) -> None:
        resource = role.resource
        if self._app.array and resource.cpu > machine_cores():
            self._warn(
                f"role {role.name!r} asks for {resource.cpu:g} cores a replica and this machine "
                f"has {machine_cores()}; replicas run one at a time"
            )


def _check(role: Role) -> None:
    where = f"role {role.name!r}"
    if not role.image:
        raise InvalidSpecError(f"{where} has no image; local_docker runs it in a container of one")
    if not (_IMAGE.match(role.image) or _IMAGE_ID.match(role.image)):
        raise InvalidSpecError(
            f"{where}: {role.image!r} is not the name of an image; one looks like python:3.12, "
            "registry.example.com/team/app:1 or sha256:0123…"
        )
    if 0 < role.resource.memMB < _LEAST_MEMORY_MIB:
        raise InvalidSpecError(
            f"{where} asks for {role.resource.memMB} MiB of memory; Docker gives "
            f"{_LEAST_MEMORY_MIB} at least"
        )
    for name in role.ulimits:
        if name not in _LIMITS:
            raise InvalidSpecError(unknown(f"ulimit of {where}:", name, _LIMITS))
    check_secrets(role)


def cores_of(role: DockerRoleRequest, machine: int) -> int:
    """Return how many of a machine's cores a replica of an array takes."""
    return min(max(1, math.ceil(role.cpu)), machine)
