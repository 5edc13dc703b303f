"""What one container of an ECS job may ask for, on EC2 and on Fargate.

A container stands for itself in ``containerProperties`` and in node ranges, and beside others in
``ecsProperties``; what they share is here. Words of refusals as in `definition_rules`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from wherry.emulator.batch import limits, sizes
from wherry.emulator.batch.errors import refuse
from wherry.emulator.batch.ports import Document

FARGATE = "FARGATE"
_ARCHITECTURES = ("X86_64", "ARM64")
_FARGATE_LOG_DRIVERS = ("awslogs", "splunk", "awsfirelens")
_OLD_PLATFORMS = ("1.0.0", "1.1.0", "1.2.0", "1.3.0")
_LINUX_NOT_ON_FARGATE = ("devices", "sharedMemorySize", "tmpfs", "maxSwap", "swappiness")
_VOLUME_KINDS = ("host", "efsVolumeConfiguration", "s3filesVolumeConfiguration")
_VOLUME_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{limits.VOLUME_NAME_LENGTH}}}\Z")
_FILE_SYSTEM = re.compile(r"fs-[0-9a-f]+\Z")
_RESERVED = "AWS_BATCH"
_WHOLE = re.compile(r"[0-9]+\Z")
_DECIMAL = re.compile(r"[0-9]+(\.[0-9]+)?\Z")


def check_single(container: Document, platform: str) -> None:
    """Refuse ``containerProperties`` that AWS would refuse.

    Raises:
        ClientError: they are refused.
    """
    refuse(not container.get("image"), "ECS Container Image must be provided.")
    if platform == FARGATE:
        check_no_old_members(container)
    check_needs(container)
    check_container(container, platform)
    check_roles(container, container.get("executionRoleArn", ""), container.get("jobRoleArn", ""))
    check_volumes(container.get("volumes", []), platform, _platform_version(container))
    if platform == FARGATE:
        _check_fargate(container)
        check_fargate_pair(container)
    else:
        _check_ec2(container)
        check_ec2_vcpus(container)


def check_node(container: Document) -> None:
    """Refuse the container of a node range that AWS would refuse.

    What a range leaves out may come from another range that has the same nodes.

    Raises:
        ClientError: it is refused.
    """
    check_container(container, "EC2")
    check_roles(container, container.get("executionRoleArn", ""), container.get("jobRoleArn", ""))
    check_volumes(container.get("volumes", []), "EC2", "")
    _check_ec2(container)
    check_ec2_vcpus(container)


def check_container(container: Document, platform: str) -> None:
    """Refuse what no container may have, alone or beside others.

    Raises:
        ClientError: it is refused.
    """
    image = container.get("image", "x")
    refuse(
        len(image) > limits.IMAGE_LENGTH,
        f"Container image cannot exceed {limits.IMAGE_LENGTH} characters.",
    )
    check_requirements(sizes.requirements(container), platform)
    check_environment(container.get("environment", []))
    for mount in container.get("mountPoints", []):
        refuse(not mount.get("containerPath"), "containerPath of mountPoints is required.")
    refuse(
        platform == FARGATE and bool(container.get("ulimits")),
        "ulimits is not applicable for Fargate.",
    )
    refuse(
        platform == FARGATE and bool(container.get("privileged")),
        "Fargate requires that the ‘privileged’ setting be ‘false’ at the container level.",
    )
    _check_linux(container.get("linuxParameters", {}), platform)
    driver = container.get("logConfiguration", {}).get("logDriver", "awslogs")
    refuse(
        platform == FARGATE and driver not in _FARGATE_LOG_DRIVERS,
        f"Log driver for Fargate is not valid: {driver}",
    )


def check_environment(variables: Iterable[Document]) -> None:
    """Refuse variables, of a definition or of overrides, without a name or with a reserved one.

    Raises:
        ClientError: they are refused.
    """
    for variable in variables:
        refuse(not variable.get("name"), "Environment variable name is required.")
        refuse(
            variable["name"].startswith(_RESERVED),
            f"Environment variables cannot start with {_RESERVED}.",
        )


def check_requirements(requirements: list[Document], platform: str = "EC2") -> None:
    """Refuse sizes, of a definition or of overrides, that are no sizes or that no host has.

    Raises:
        ClientError: they are refused.
    """
    kinds = [each["type"] for each in requirements]
    refuse(len(set(kinds)) < len(kinds), "Cannot provide duplicates in resourceRequirements.")
    for each in requirements:
        kind, value = each["type"], each["value"]
        number = _DECIMAL if kind == "VCPU" else _WHOLE
        refuse(
            not number.match(value), f"Value {value} for resourceRequirement {kind} is not valid."
        )
        refuse(
            kind == "MEMORY" and int(value) < limits.MEMORY_MIB,
            f"Memory must be at least {limits.MEMORY_MIB} Mib, got {value} Mib.",
        )
        refuse(kind == "VCPU" and float(value) <= 0, f"vCPU must be at least 1, got {value}.")
        if kind == "GPU":
            refuse(platform == FARGATE, "GPU is not applicable for Fargate.")
            refuse(int(value) < 1, f"GPU must be at least 1, got {value}.")


def check_needs(*containers: Document) -> None:
    """Refuse containers that do not say, all together, how many vCPUs and how much memory.

    Raises:
        ClientError: they are refused.
    """
    kinds = {each["type"] for container in containers for each in sizes.requirements(container)}
    refuse("VCPU" not in kinds, "vCPU is required.")
    refuse("MEMORY" not in kinds, "Memory is required.")


def check_no_old_members(container: Document) -> None:
    """Refuse ``vcpus`` and ``memory``, of a definition or of overrides, for Fargate.

    Raises:
        ClientError: they are refused, in the words of insitro/redun#95.
    """
    for member in sizes.OLD_MEMBERS:
        refuse(
            container.get(member) is not None,
            f"{member} is not applicable for Fargate. Use resource requirements instead.",
        )


def check_ec2_vcpus(container: Document) -> None:
    """Refuse less than one vCPU.

    Raises:
        ClientError: it is refused.
    """
    for each in sizes.requirements(container):
        refuse(
            each["type"] == "VCPU" and float(each["value"]) < 1,
            f"vCPU must be at least 1, got {each['value']}.",
        )


def check_fargate_pair(*containers: Document) -> None:
    """Refuse vCPUs and memory that Fargate does not offer together.

    Args:
        containers: of the task; what counts is the sum.

    Raises:
        ClientError: they are refused, in AWS's words.
    """
    vcpus, memory = _total("VCPU", containers), _total("MEMORY", containers)
    allowed = limits.FARGATE_MEMORY_MIB.get(f"{vcpus:g}", ())
    refuse(
        memory not in allowed,
        f"Fargate resource requirements ({vcpus:.2f} vCPU, {memory:.0f} MiB) not valid.",
    )


def check_roles(container: Document, execution_role: str, job_role: str) -> None:
    """Refuse secrets without an execution role, and S3 Files volumes without a job role.

    Raises:
        ClientError: they are refused.
    """
    secrets = container.get("secrets") or container.get("logConfiguration", {}).get("secretOptions")
    refuse(
        bool(secrets) and not execution_role,
        "executionRoleArn cannot be empty when using secrets or secretOptions.",
    )
    s3files = any("s3filesVolumeConfiguration" in each for each in container.get("volumes", []))
    refuse(
        s3files and not job_role,
        "A jobRoleArn/taskRoleArn is required when using s3filesVolumeConfiguration.",
    )


def check_volumes(volumes: list[Document], platform: str, platform_version: str) -> None:
    """Refuse volumes that AWS would refuse.

    Raises:
        ClientError: they are refused.
    """
    for volume in volumes:
        name = volume.get("name", "")
        refuse(not _VOLUME_NAME.match(name), f"Volume name {name!r} should match a valid pattern.")
        refuse(
            sum(kind in volume for kind in _VOLUME_KINDS) > 1,
            "Only one volume configuration can be specified for a volume.",
        )
        refuse(
            platform == FARGATE and bool(volume.get("host", {}).get("sourcePath")),
            "host.sourcePath should not be set for volumes in Fargate.",
        )
        if "efsVolumeConfiguration" in volume:
            refuse(
                platform_version in _OLD_PLATFORMS,
                "EFS is supported for Fargate platform versions 1.4.0 or later, provided"
                f" {platform_version}",
            )
            _check_efs(volume["efsVolumeConfiguration"])
    names = [volume.get("name") for volume in volumes]
    refuse(len(set(names)) < len(names), "Volume names must be unique.")


def check_runtime_platform(runtime: Document) -> None:
    """Refuse an operating system or architecture that Fargate does not have.

    Raises:
        ClientError: it is refused.
    """
    family = runtime.get("operatingSystemFamily", "LINUX")
    architecture = runtime.get("cpuArchitecture", "X86_64")
    windows = family.startswith("WINDOWS_SERVER_")
    refuse(
        family != "LINUX" and not windows,
        f"RuntimePlatform operatingSystemFamily {family} is not valid.",
    )
    refuse(
        architecture not in _ARCHITECTURES,
        f"RuntimePlatform cpuArchitecture {architecture} is not valid.",
    )
    refuse(windows and architecture != "X86_64", "Windows supported only by X86_64.")


def check_ephemeral(storage: Document | None) -> None:
    """Refuse ephemeral storage outside 21 to 200 GiB.

    Raises:
        ClientError: it is refused.
    """
    least, most = limits.EPHEMERAL_GIB
    refuse(
        storage is not None and not least <= storage["sizeInGiB"] <= most,
        f"Ephemeral storage for Fargate tasks can be only between range {least} GiB to {most} GiB",
    )


# -- parts ----------------------------------------------------------------------------------------


def _check_fargate(container: Document) -> None:
    refuse(not container.get("executionRoleArn"), "executionRoleArn is required for Fargate jobs.")
    refuse(bool(container.get("instanceType")), "instanceType is not applicable for Fargate.")
    check_ephemeral(container.get("ephemeralStorage"))
    check_runtime_platform(container.get("runtimePlatform", {}))


def _check_ec2(container: Document) -> None:
    for member in ("networkConfiguration", "fargatePlatformConfiguration"):
        refuse(member in container, f"{member} not applicable for EC2.")
    for member in ("runtimePlatform", "ephemeralStorage"):
        refuse(member in container, f"{member} is not applicable for EC2.")


def _check_linux(linux: Document, platform: str) -> None:
    for member in _LINUX_NOT_ON_FARGATE:
        # An empty list is what a client sends back that it has read from a description.
        given = linux.get(member) not in (None, [])
        refuse(
            platform == FARGATE and given, f"linuxParameter.{member} is not allowed for Fargate."
        )
    swap, swappiness = linux.get("maxSwap"), linux.get("swappiness")
    refuse(
        swap is not None and swap < 0, f"Invalid swap memory size: {swap}, must be non-negative."
    )
    refuse(
        swap is not None and swappiness is None,
        "When container specified swap memory, swappiness value is required.",
    )
    limits.check_range("swappiness", swappiness, *limits.SWAPPINESS)
    shared = linux.get("sharedMemorySize")
    refuse(shared is not None and shared < 1, "sharedMemorySize must be greater than 0.")
    for tmpfs in linux.get("tmpfs", []):
        refuse(tmpfs["size"] < 1, "tmpfs size must be greater than 0.")


def _check_efs(efs: Document) -> None:
    refuse(
        not _FILE_SYSTEM.match(efs["fileSystemId"]),
        f"EFS file system id {efs['fileSystemId']} is not valid.",
    )
    encrypted = efs.get("transitEncryption") == "ENABLED"
    authorization = efs.get("authorizationConfig", {})
    refuse(
        authorization.get("iam") == "ENABLED" and not encrypted,
        "EFS IAM authorization requires that TransitEncryption be ENABLED.",
    )
    if authorization.get("accessPointId"):
        refuse(not encrypted, "EFS access points require that TransitEncryption be ENABLED.")
        refuse(
            efs.get("rootDirectory", "/") not in ("", "/"),
            "When using an EFS access point, the root directory must be omitted or set to /.",
        )
    port = efs.get("transitEncryptionPort")
    limits.check_range("transitEncryptionPort", port, 0, 65_535)


def _platform_version(container: Document) -> str:
    return str(container.get("fargatePlatformConfiguration", {}).get("platformVersion", ""))


def _total(kind: str, containers: tuple[Document, ...]) -> float:
    return sum(
        float(each["value"])
        for container in containers
        for each in sizes.requirements(container)
        if each["type"] == kind
    )
