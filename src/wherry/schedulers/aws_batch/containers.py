"""One role as a container of a job definition: all that a submission cannot override.

EC2 and Fargate differ in what they have; what one of them has not is refused by name, with the
way out, before anything is sent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from wherry.aws import fargate
from wherry.aws.documents import Document
from wherry.errors import InvalidOptionError, InvalidSpecError, unknown
from wherry.schedulers.aws_batch import limits, naming
from wherry.schedulers.aws_batch.facts import Platform
from wherry.schedulers.aws_batch.mounts import Mounted, mounted
from wherry.schedulers.aws_batch.options import Options
from wherry.specs.app import Role
from wherry.specs.mounts import BindMount

MAIN = "default"
"""The program's container in a job of several; log streams of a single one have this word too."""

HELPER = "launcher"
"""The container that brings the shell."""

SHELL_FOLDER = "/.wherry"
SHELL = f"{SHELL_FOLDER}/sh"

DEFAULT_CPU = 1
DEFAULT_MEMORY = 2048
"""MiB for a role that states none; AWS Batch must be told some."""

_HELPER_MEMORY = 64
_SHELL_VOLUME = "wherry-shell"
_ULIMITS = (
    *("core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc"),
    *("rss", "rtprio", "rttime", "sigpending", "stack"),
)
_ARCHITECTURES = {"x86_64": "X86_64", "arm64": "ARM64"}

Warn = Callable[[str], None]


@dataclass(frozen=True)
class Ask:
    """What a container asks of its host, in whole numbers and pairs that AWS takes."""

    cpu: float
    memory: int
    gpu: int = 0

    def requirements(self) -> list[Document]:
        """Return it as ``resourceRequirements``."""
        pairs = [("VCPU", f"{self.cpu:g}"), ("MEMORY", str(self.memory))]
        if self.gpu:
            pairs.append(("GPU", str(self.gpu)))
        return [{"type": kind, "value": value} for kind, value in pairs]


def container(
    role: Role, image: str, options: Options, platform: Platform, warn: Warn, *, node: bool
) -> Document:
    """Return the ``containerProperties`` of a role.

    Args:
        role: the role.
        image: what it runs in.
        options: the run options.
        platform: what the queue is made of.
        warn: is told what is not as it was asked for.
        node: whether it is a node of a multi-node job, where the instance type can be chosen.

    Raises:
        UsageError: the role asks for something that cannot be had there.
    """
    naming.check_image(f"role {role.name!r}", image)
    mounts = mounted(role, options.efa, warn)
    if platform is Platform.FARGATE:
        _refuse_what_fargate_has_not(role, options, mounts)
    ask = ask_of(role, platform, warn)
    document: Document = {
        "image": image,
        "resourceRequirements": ask.requirements(),
        "jobRoleArn": options.job_role_arn,
        "executionRoleArn": options.execution_role_arn,
        "volumes": mounts.volumes,
        "mountPoints": mounts.mount_points,
        "privileged": options.privileged,
        "ulimits": _ulimits(role, mounts),
        "secrets": _secrets(role, options),
        "logConfiguration": _log_configuration(options),
        **_of_platform(role, options, platform, mounts, ask, warn, node=node),
    }
    return {name: value for name, value in document.items() if value}


def ask_of(role: Role, platform: Platform, warn: Warn) -> Ask:
    """Return what a role asks for, rounded up to what there is, and say so.

    Raises:
        UsageError: no host of this platform is that large.
    """
    asked = role.resource
    cpu, memory = asked.cpu or DEFAULT_CPU, asked.memMB or DEFAULT_MEMORY
    if platform is Platform.FARGATE:
        pair = fargate.round_up(cpu, memory)
        if (pair.cpu, pair.memory) != (cpu, memory):
            warn(
                f"role {role.name!r}: {fargate.Pair(cpu, memory)} is rounded up to {pair}, "
                "the next that Fargate has"
            )
        return Ask(pair.cpu, pair.memory)
    if memory < limits.MEMORY_MIB:
        raise InvalidSpecError(
            f"role {role.name!r} asks for {memory} MiB; AWS Batch gives {limits.MEMORY_MIB} or more"
        )
    whole = math.ceil(cpu)
    if whole != cpu:
        warn(
            f"role {role.name!r}: {cpu:g} vCPU is rounded up to {whole}; "
            "EC2 instances give whole ones"
        )
    return Ask(whole, memory, asked.gpu)


def with_shell(document: Document, platform: Platform, launcher_image: str) -> Document:
    """Return the ``ecsProperties`` of a container to which a second one brings a shell.

    The second container copies its static busybox onto a volume that both see, and ends; then
    the program's begins. It asks for a vCPU (a quarter on Fargate) and 64 MiB besides the
    program's; on Fargate the sum of both is rounded up to a legal pair.

    Args:
        document: ``containerProperties``.
        platform: what the queue is made of.
        launcher_image: the image with the busybox.

    Raises:
        UsageError: Fargate has no task large enough for both.
    """
    main = {key: document[key] for key in document if key not in _TASK_KEYS}
    point = {"sourceVolume": _SHELL_VOLUME, "containerPath": SHELL_FOLDER}
    helper_ask, requirements = _with_helper(document["resourceRequirements"], platform)
    helper: Document = {
        "name": HELPER,
        "image": launcher_image,
        "essential": False,
        "command": ["/bin/busybox", "cp", "/bin/busybox", SHELL],
        "resourceRequirements": helper_ask.requirements(),
        "mountPoints": [point],
    }
    if "logConfiguration" in document:
        helper["logConfiguration"] = dict(document["logConfiguration"])
    task: Document = {_TASK_KEYS[key]: document[key] for key in document if key in _TASK_KEYS}
    task["volumes"] = [*task.get("volumes", []), {"name": _SHELL_VOLUME, "host": {}}]
    if platform is Platform.FARGATE:
        task["volumes"][-1] = {"name": _SHELL_VOLUME}
    main = {
        "name": MAIN,
        "essential": True,
        "dependsOn": [{"containerName": HELPER, "condition": "SUCCESS"}],
        **main,
        "resourceRequirements": requirements,
        "mountPoints": [*main.get("mountPoints", []), {**point, "readOnly": True}],
    }
    return {"taskProperties": [{**task, "containers": [helper, main]}]}


def asked_together(properties: Document) -> str:
    """Say in words what the containers of ``ecsProperties`` ask for together."""
    items = [
        item
        for made in properties["taskProperties"][0]["containers"]
        for item in made["resourceRequirements"]
    ]
    cpu = sum(float(item["value"]) for item in items if item["type"] == "VCPU")
    memory = sum(int(item["value"]) for item in items if item["type"] == "MEMORY")
    return str(fargate.Pair(cpu, memory))


# What belongs to the task in a job of several containers, and its name there.
_TASK_KEYS = {
    "jobRoleArn": "taskRoleArn",
    "executionRoleArn": "executionRoleArn",
    "volumes": "volumes",
    "networkConfiguration": "networkConfiguration",
    "runtimePlatform": "runtimePlatform",
}


def _with_helper(requirements: list[Document], platform: Platform) -> tuple[Ask, list[Document]]:
    if platform is not Platform.FARGATE:
        return Ask(1, _HELPER_MEMORY), requirements
    asked = {item["type"]: item["value"] for item in requirements}
    helper = Ask(0.25, _HELPER_MEMORY)
    pair = fargate.round_up(float(asked["VCPU"]) + helper.cpu, int(asked["MEMORY"]) + helper.memory)
    main = Ask(pair.cpu - helper.cpu, pair.memory - helper.memory)
    return helper, main.requirements()


def _refuse_what_fargate_has_not(role: Role, options: Options, mounts: Mounted) -> None:
    asked = {
        "privileged containers": (options.privileged, "leave out privileged"),
        "GPUs": (role.resource.gpu, "ask for gpu=0"),
        "ulimits": (role.ulimits, "leave them out"),
        "devices": (mounts.devices, "leave them out"),
        "paths of the host to mount": (
            any(isinstance(mount, BindMount) for mount in role.mounts),
            "mount an EFS file system (type=volume) in their place",
        ),
    }
    for what, (wanted, fix) in asked.items():
        if wanted:
            raise InvalidSpecError(
                f"role {role.name!r}: Fargate has no {what}; {fix}, or use a queue of EC2 instances"
            )
    if options.execution_role_arn is None:
        raise InvalidOptionError(
            "Fargate needs a role that pulls the image and writes the log; "
            "set one with -cfg execution_role_arn=arn:aws:iam::<account>:role/<name>"
        )


def _of_platform(
    role: Role,
    options: Options,
    platform: Platform,
    mounts: Mounted,
    ask: Ask,
    warn: Warn,
    *,
    node: bool,
) -> Document:
    instance_type = role.resource.capabilities.get("instance_type")
    if platform is Platform.FARGATE:
        if instance_type:
            warn(f"role {role.name!r}: Fargate has no instance types; {instance_type} is not used")
        arch = str(role.resource.capabilities.get("arch", "x86_64"))
        if arch not in _ARCHITECTURES:
            raise InvalidSpecError(unknown("architecture", arch, _ARCHITECTURES))
        runtime = {"operatingSystemFamily": "LINUX", "cpuArchitecture": _ARCHITECTURES[arch]}
        return {
            "networkConfiguration": {
                "assignPublicIp": "ENABLED" if options.public_ip else "DISABLED"
            },
            "runtimePlatform": runtime if arch != "x86_64" else None,
        }
    if instance_type and not node:
        warn(
            f"role {role.name!r}: AWS Batch chooses the instance type of a job that is not a "
            f"gang; {instance_type} counts only for the vCPUs, memory and GPUs that it stands for"
        )
    # Data loaders share memory between processes, and Docker gives 64 MiB unasked.
    parameters = {"devices": mounts.devices, "sharedMemorySize": ask.memory}
    return {
        "linuxParameters": {name: value for name, value in parameters.items() if value},
    }


def _ulimits(role: Role, mounts: Mounted) -> list[Document]:
    pairs = dict(role.ulimits)
    if mounts.uses_efa:  # its buffers are locked in memory
        pairs.setdefault("memlock", (-1, -1))
    for name in pairs:
        if name not in _ULIMITS:
            raise InvalidSpecError(unknown(f"ulimit of role {role.name!r}:", name, _ULIMITS))
    return [
        {"name": name, "softLimit": soft, "hardLimit": hard} for name, (soft, hard) in pairs.items()
    ]


def _secrets(role: Role, options: Options) -> list[Document]:
    secrets = {**options.secrets, **role.secrets}
    for name, reference in secrets.items():
        complaint = naming.secret_complaint(name, reference)
        if complaint:
            raise InvalidSpecError(f"role {role.name!r}: {complaint}")
        if name in role.env:
            raise InvalidSpecError(
                f"role {role.name!r}: {name} is both a secret and in env; AWS takes one of them"
            )
    if secrets and options.execution_role_arn is None:
        raise InvalidOptionError(
            f"role {role.name!r} has secrets ({', '.join(secrets)}), which AWS reads with the "
            "execution role; set one with "
            "-cfg execution_role_arn=arn:aws:iam::<account>:role/<name>"
        )
    return [{"name": name, "valueFrom": reference} for name, reference in secrets.items()]


def _log_configuration(options: Options) -> Document:
    document: Document = {"logDriver": "awslogs"}
    if options.log_group:
        document["options"] = {"awslogs-group": options.log_group}
    return document
