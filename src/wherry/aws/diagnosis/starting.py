"""Why a job does not get from STARTING to RUNNING, or failed on that way.

Two sources: what ECS says (a table of its words), and what was looked up: image, roles, log group.
The words are those of ECS's stopped-task error codes and of the threads in which users met them
(Amazon ECS developer guide, "Stopped tasks error messages"; nextflow-io/nextflow#4096, #5099;
nf-core/rnaseq#1787).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from wherry.aws.diagnosis.ages import span
from wherry.aws.diagnosis.asked import name_of
from wherry.aws.diagnosis.facts import Facts, Image, Presence, Role
from wherry.aws.diagnosis.reasons import says
from wherry.specs.diagnosis import Certainty, Finding

_PATIENCE = 600.0


@dataclass(frozen=True)
class _Said:
    """What words of ECS mean.

    Args:
        pattern: of the words, in any case.
        code, summary, resolution: of the finding.
    """

    pattern: str
    code: str
    summary: str
    resolution: str


_TABLE = (
    _Said(
        r"toomanyrequests|rate limit",
        "pull-rate-limit",
        "The registry refused to give out the image: too many pulls.",
        "Copy the image to Amazon ECR, use public.ecr.aws, or log in to the registry "
        "(ECS_ENGINE_AUTH_DATA, repositoryCredentials).",
    ),
    _Said(
        r"CannotPull\w*Error.*no space left|no space left on device",
        "host-disk-full",
        "The host's disk was full while the image was pulled.",
        "Give the instances a larger root volume (launch template), or use a smaller image.",
    ),
    _Said(
        r"CannotPull\w*Error.*(no match(?:ing manifest)? for|does not contain descriptor matching)",
        "image-architecture",
        "The image has no build for the host's processor architecture.",
        "Build the image for it (docker build --platform linux/amd64,linux/arm64), or use a "
        "queue with the other architecture.",
    ),
    _Said(
        r"CannotPull\w*Error.*(pull access denied|denied|unauthorized|no basic auth|403 forbidden)",
        "image-not-allowed",
        "The image may not be pulled, or it does not exist: the registry does not tell the two "
        "apart.",
        "Check the name; on Fargate give the execution role, on EC2 the instance role, the right "
        "to pull (AmazonEC2ContainerRegistryReadOnly), and across accounts a repository policy.",
    ),
    _Said(
        r"CannotPull\w*Error.*(not found|does not exist|manifest unknown|name unknown|404)",
        "image-not-found",
        "The image does not exist.",
        "Check its name and tag, and that it was pushed to that registry and region.",
    ),
    _Said(
        r"CannotPull\w*Error.*(timeout|timed out|i/o|deadline|awaiting headers|request canceled|"
        r"connection|no such host)",
        "registry-unreachable",
        "The host could not reach the registry of the image.",
        "Check the subnet's route (NAT gateway, public address or VPC endpoints for ECR and S3) "
        "and the security group's outbound rules.",
    ),
    _Said(
        r"CannotPull\w*Error",
        "pull-failed",
        "The image could not be pulled.",
        "Check the image's name, the right to pull it, and the way to its registry.",
    ),
    _Said(
        r"log group does not exist|log group .*(?:not exist|not found)|"
        r"failed to validate logger args|initialize logging driver",
        "log-group-missing",
        "The log driver could not start: the log group does not exist, or may not be written to.",
        "Make the log group, or set awslogs-create-group; the execution role (on EC2 the "
        "instance role) needs logs:CreateLogStream and logs:PutLogEvents.",
    ),
    _Said(
        r"unable to assume (?:the )?(?:service )?role|perform: sts:AssumeRole|cannot be assumed",
        "role-not-assumed",
        "A role of the job could not be assumed.",
        "Check that the role exists and that its trust policy lets ecs-tasks.amazonaws.com "
        "assume it.",
    ),
    _Said(
        r"unable to (?:pull|retrieve|fetch|extract) secrets?|secrets? .*(?:not found|can't find)|"
        r"fetching secret data|invalid ssm parameters",
        "secret-not-read",
        "A secret of the job could not be read.",
        "Check the secret's ARN and region, and that the execution role may read it "
        "(secretsmanager:GetSecretValue, ssm:GetParameters, kms:Decrypt).",
    ),
    _Said(
        r"failed to invoke EFS|mount\.nfs|EFS utils|mounting .*EFS|volume .*mount",
        "mount-failed",
        "A file system could not be mounted.",
        "Check the file system's id, its mount target in the job's zone, port 2049 in the "
        "security groups, and the access point's rights.",
    ),
    _Said(
        r"DockerTimeoutError|could not transition to (?:created|started)",
        "host-too-slow",
        "The host did not start the container in time: it was too busy, often with its disk.",
        "Retry (retries=spot does); use larger or faster root volumes, smaller images, or fewer "
        "containers on a host.",
    ),
    _Said(
        r"(?:CannotStart|CannotCreate)\w*Error.*(?:executable file not found|no such file or "
        r"directory)",
        "not-found",
        "The command is not in the image.",
        "Check the command's first word; an image without a shell has no sh either.",
    ),
    _Said(
        r"(?:CannotStart|CannotCreate)\w*Error.*permission denied",
        "not-executable",
        "The command is in the image, but is not executable.",
        "Make it executable in the image (chmod +x).",
    ),
    _Said(
        r"(?:CannotStart|CannotCreate)\w*Error.*exec format error",
        "wrong-architecture",
        "The program was built for another processor architecture than the host's.",
        "Build the image for the host's architecture.",
    ),
    _Said(
        r"(?:CannotStart|CannotCreate)\w*Error.*(?:nvidia|gpu|cuda)",
        "no-gpu-driver",
        "The container could not be given its GPU.",
        "Use the GPU-optimized ECS image for the environment (imageType ECS_AL2023_NVIDIA).",
    ),
    _Said(
        r"CannotCreate\w*Error",
        "container-not-created",
        "The host could not create the container.",
        "Check the mounts, devices, user and other settings of the container that the text names.",
    ),
    _Said(
        r"CannotStart\w*Error",
        "container-not-started",
        "The host could not start the container.",
        "Check the command, and the settings of the container that the text names.",
    ),
    _Said(
        r"ResourceInitializationError",
        "not-initialised",
        "ECS could not prepare what the task needs.",
        "Check the network's way to ECR, CloudWatch Logs and Secrets Manager, and the execution "
        "role's rights.",
    ),
)
_PATTERNS = tuple((re.compile(said.pattern, re.IGNORECASE | re.DOTALL), said) for said in _TABLE)


def still_starting(facts: Facts) -> Iterator[Finding]:
    """Say why a job, or the child that is looked at, is STARTING."""
    yield from of_parts(facts)
    job = facts.waiter
    if job is None:
        return
    if facts.waited < _PATIENCE:
        yield Finding(
            "starting",
            "It has a place and is being started: its image is pulled and its container made.",
            "",
            "Large images take minutes the first time on a host.",
        )
        return
    yield Finding(
        "starting-for-long",
        "It takes unusually long to start.",
        f"It was submitted {span(facts.waited)} ago, has a place, and does not run yet.",
        "Look at the size of the image, at the host's disk and network, and at whether the ECS "
        "agent of the host still answers (aws ecs describe-container-instances).",
    )


def said(reason: str) -> Finding | None:
    """Return what ECS's words about a failed start mean; nothing for other words."""
    for pattern, one in _PATTERNS:
        if pattern.search(reason):
            return Finding(
                one.code,
                one.summary,
                says("ECS", reason),
                one.resolution,
                Certainty.LIKELY,
            )
    return None


def of_parts(facts: Facts) -> Iterator[Finding]:
    """Say what is missing of what the job needs to start; only what was looked up."""
    for image in facts.images:
        yield from _of_image(image)
    for role in facts.roles:
        yield from _of_role(role)
    group = facts.group
    if group is not None and group.presence is Presence.MISSING:
        yield Finding(
            "log-group-missing",
            f"The log group {group.name} does not exist.",
            "The log driver does not start without it, and so the container does not.",
            f"Make it (aws logs create-log-group --log-group-name {group.name}), or set "
            "awslogs-create-group.",
            Certainty.CERTAIN,
        )


def _of_image(image: Image) -> Iterator[Finding]:
    reference = image.reference
    if not reference.is_valid:
        yield Finding(
            "image-name",
            f"{reference.text!r} cannot be the name of an image.",
            "A name is lower-case, as in registry/path:tag.",
            "Correct the image's name.",
            Certainty.CERTAIN,
        )
    elif image.repository is Presence.MISSING:
        yield Finding(
            "image-not-found",
            "The image does not exist.",
            f"ECR in {reference.region} has no repository {reference.path} in account "
            f"{reference.account}.",
            "Check account, region and name of the repository; make it and push the image.",
            Certainty.CERTAIN,
        )
    elif image.tag is Presence.MISSING:
        which = reference.digest or reference.tag
        yield Finding(
            "image-not-found",
            "The image does not exist.",
            f"ECR has the repository {reference.path}, but no image {which} in it.",
            "Push the image with this tag, or use a tag that is there.",
            Certainty.CERTAIN,
        )


def _of_role(role: Role) -> Iterator[Finding]:
    code = role.purpose.replace(" ", "-")
    if role.presence is Presence.MISSING:
        yield Finding(
            f"{code}-missing",
            f"The {role.purpose} {name_of(role.arn)} does not exist.",
            f"IAM knows no {role.arn}.",
            "Make the role, or name another.",
            Certainty.CERTAIN,
        )
    elif role.trusts is False:
        yield Finding(
            f"{code}-not-trusting",
            f"The {role.purpose} {name_of(role.arn)} cannot be assumed by the job.",
            f"Its trust policy does not let {role.service} assume it.",
            f"Allow sts:AssumeRole for {role.service} in the role's trust policy.",
            Certainty.CERTAIN,
        )
