"""Looks at what a job needs to start and leaves behind: roles, images, groups, resources, log."""

from __future__ import annotations

import dataclasses

from wherry.aws.diagnosis import trust
from wherry.aws.diagnosis.asked import (
    consumables_of,
    end_of,
    main_containers,
    name_of,
    part_of,
    roles_of,
)
from wherry.aws.diagnosis.asking import Answer, Asking
from wherry.aws.diagnosis.facts import Consumable, Facts, Group, Image, Log, Presence, Role
from wherry.aws.diagnosis.images import Reference, read_reference
from wherry.aws.jobs import LOG_DRIVER, LOG_GROUP, ContainerView, JobView

TASKS = "ecs-tasks.amazonaws.com"
INSTANCES = "ec2.amazonaws.com"
BATCH = "batch.amazonaws.com"
"""Who assumes the roles of tasks, instances and environments."""

_LINES = 40
_PAGES = 3
_GONE = ("ResourceNotFoundException",)
_NO_ROLE = ("NoSuchEntity", "NoSuchEntityException")
_NO_REPOSITORY = "RepositoryNotFoundException"
_NO_IMAGE = "ImageNotFoundException"


def with_roles(asking: Asking, facts: Facts, job: JobView) -> Facts:
    """Look at the roles of a job: whether they exist, and let ECS tasks assume them."""
    execution, own = roles_of(job)
    wanted = {execution: "execution role", own: "job role"}
    roles = [
        look_at_role(asking, arn, purpose, TASKS, job.account)
        for arn, purpose in wanted.items()
        if arn
    ]
    return dataclasses.replace(facts, roles=(*facts.roles, *roles))


def with_instance_roles(asking: Asking, facts: Facts) -> Facts:
    """Look at the instance profiles of environments, and at the roles in them."""
    roles = list(facts.roles)
    for profile in {each.instance_role for each in facts.environments if each.has_instances}:
        if profile:
            roles += _instance_role(asking, profile)
    return dataclasses.replace(facts, roles=tuple(roles))


def with_service_roles(asking: Asking, facts: Facts) -> Facts:
    """Look at the roles that AWS Batch acts as; its own, linked to the service, is always there."""
    arns = {each.service_role for each in facts.environments}
    roles = [
        look_at_role(asking, arn, "service role", BATCH, part_of(arn, 4))
        for arn in sorted(arns)
        if arn and "/aws-service-role/" not in arn
    ]
    return dataclasses.replace(facts, roles=(*facts.roles, *roles))


def look_at_role(asking: Asking, arn: str, purpose: str, service: str, account: str) -> Role:
    """Return what IAM tells of a role.

    Args:
        asking: asks.
        arn: of the role.
        purpose: what it is for, in words.
        service: who must be allowed to assume it.
        account: the job's; roles of others cannot be looked at.
    """
    role = Role(arn, purpose, service)
    if account and part_of(arn, 4) not in ("", account):
        asking.note(f"the {purpose}: {arn} belongs to another account")
        return role
    answer = asking.ask(
        "iam", "GetRole", f"the {purpose}", expected=_NO_ROLE, RoleName=name_of(arn)
    )
    if answer.code in _NO_ROLE:
        return dataclasses.replace(role, presence=Presence.MISSING)
    if not answer.is_given:
        return role
    policy = (answer.document.get("Role") or {}).get("AssumeRolePolicyDocument")
    return dataclasses.replace(role, presence=Presence.THERE, trusts=trust.allows(policy, service))


def with_security_groups(asking: Asking, facts: Facts) -> Facts:
    """Look for environments whose security groups let nothing out: instances never reach ECS.

    The rules of several groups add up, so that all of an environment's have to be closed.
    """
    wanted = sorted({one for each in facts.environments for one in each.groups})
    if not wanted:
        return facts
    answer = asking.ask("ec2", "DescribeSecurityGroups", "the security groups", GroupIds=wanted)
    closed = {
        str(one.get("GroupId"))
        for one in answer.document.get("SecurityGroups") or ()
        if not one.get("IpPermissionsEgress")
    }
    shut = {
        group
        for each in facts.environments
        if each.groups and closed.issuperset(each.groups)
        for group in each.groups
    }
    return dataclasses.replace(facts, closed_groups=tuple(sorted(shut)))


def with_images(asking: Asking, facts: Facts, job: JobView) -> Facts:
    """Look at the images of a job; those in ECR of the job's region are asked for."""
    names = dict.fromkeys(each.image for each in main_containers(job) if each.image)
    images = tuple(look_at_image(asking, read_reference(name), job.region) for name in names)
    return dataclasses.replace(facts, images=images)


def look_at_image(asking: Asking, reference: Reference, region: str) -> Image:
    """Return what ECR tells of an image; other registries are not asked.

    Args:
        asking: asks.
        reference: which.
        region: the job's; that of the registry must be the same to be asked.
    """
    if not reference.is_ecr:
        return Image(reference)
    if region and reference.region != region:
        asking.note(f"the image {reference.text}: it is in {reference.region}, not in {region}")
        return Image(reference)
    chosen = {"imageDigest": reference.digest} if reference.digest else {"imageTag": reference.tag}
    answer = asking.ask(
        "ecr",
        "DescribeImages",
        f"the image {reference.text}",
        expected=(_NO_REPOSITORY, _NO_IMAGE),
        registryId=reference.account,
        repositoryName=reference.path,
        imageIds=[chosen],
    )
    return Image(reference, *_presences(answer))


def with_group(asking: Asking, facts: Facts, job: JobView) -> Facts:
    """Look whether the log group of a job is there, unless the log driver makes it."""
    container = next(iter(main_containers(job)), None)
    if container is None or container.log_driver != LOG_DRIVER:
        return facts
    name = container.log_group
    if name == LOG_GROUP or _makes_group(container):
        return dataclasses.replace(facts, group=Group(name, is_made=True))
    if container.log_region not in ("", job.region):
        asking.note(f"the log group {name}: it is in {container.log_region}, not in {job.region}")
        return dataclasses.replace(facts, group=Group(name))
    answer = asking.ask(
        "logs", "DescribeLogGroups", "the log group", logGroupNamePrefix=name, limit=50
    )
    if not answer.is_given:
        return dataclasses.replace(facts, group=Group(name))
    names = {one.get("logGroupName") for one in answer.document.get("logGroups") or ()}
    presence = Presence.THERE if name in names else Presence.MISSING
    return dataclasses.replace(facts, group=Group(name, presence))


def with_consumables(asking: Asking, facts: Facts, job: JobView) -> Facts:
    """Look at the consumable resources that a job takes."""
    found = []
    for name, quantity in consumables_of(job):
        answer = asking.ask(
            "batch",
            "DescribeConsumableResource",
            f"the consumable resource {name_of(name)}",
            expected=("ClientException",),
            consumableResource=name,
        )
        if answer.is_given:
            document = answer.document
            total, used = int(document["totalQuantity"]), int(document.get("inUseQuantity") or 0)
            found.append(Consumable(name_of(name), quantity, total, used))
        elif answer.code == "ClientException":
            found.append(Consumable(name_of(name), quantity))
    return dataclasses.replace(facts, consumables=tuple(found))


def with_log(asking: Asking, facts: Facts, job: JobView) -> Facts:
    """Read the last lines of a job: of the attempt that runs, or of the last one."""
    container = _logged(job)
    if container is None or not container.log_stream or container.log_driver != LOG_DRIVER:
        return facts
    group, stream = container.log_group, container.log_stream
    if container.log_region not in ("", job.region):
        asking.note(f"the log: it is in {container.log_region}, not in {job.region}")
        return facts
    presence, lines = _tail(asking, group, stream)
    if presence is Presence.MISSING:
        asking.note(f"the log: the stream {stream}, which AWS names, does not exist")
    return dataclasses.replace(facts, log=Log(group, stream, lines, presence))


def _logged(job: JobView) -> ContainerView | None:
    """Return the container whose log tells most: the one that decided, or the first that runs."""
    if not job.attempts:
        return None
    last = job.attempts[-1]
    return end_of(job) if last.stopped_at is not None else next(iter(last.containers), None)


def _tail(asking: Asking, group: str, stream: str) -> tuple[Presence, tuple[str, ...]]:
    """Return the last lines of a stream; a page may be empty although lines come before it."""
    token = ""
    for _page in range(_PAGES):
        answer = asking.ask(
            "logs",
            "GetLogEvents",
            "the log",
            expected=_GONE,
            logGroupName=group,
            logStreamName=stream,
            limit=_LINES,
            startFromHead=False,
            **({"nextToken": token} if token else {}),
        )
        if not answer.is_given:
            return Presence.MISSING if answer.code in _GONE else Presence.UNKNOWN, ()
        lines = tuple(str(one.get("message", "")) for one in answer.document.get("events") or ())
        before = str(answer.document.get("nextBackwardToken") or "")
        if lines or before in ("", token):
            return Presence.THERE, lines
        token = before
    return Presence.THERE, ()


def _instance_role(asking: Asking, profile: str) -> list[Role]:
    answer = asking.ask(
        "iam",
        "GetInstanceProfile",
        "the instance role",
        expected=_NO_ROLE,
        InstanceProfileName=name_of(profile),
    )
    if answer.code in _NO_ROLE:
        return [Role(profile, "instance profile", INSTANCES, Presence.MISSING)]
    roles = (answer.document.get("InstanceProfile") or {}).get("Roles") or ()
    return [
        Role(
            str(one.get("Arn")),
            "instance role",
            INSTANCES,
            Presence.THERE,
            trust.allows(one.get("AssumeRolePolicyDocument"), INSTANCES),
        )
        for one in roles
    ]


def _presences(answer: Answer) -> tuple[Presence, Presence]:
    if answer.code == _NO_REPOSITORY:
        return Presence.MISSING, Presence.MISSING
    if answer.code == _NO_IMAGE:
        return Presence.THERE, Presence.MISSING
    if answer.code:
        return Presence.UNKNOWN, Presence.UNKNOWN
    return Presence.THERE, Presence.THERE


def _makes_group(container: ContainerView) -> bool:
    log = container.document.get("logConfiguration")
    options = log.get("options") if isinstance(log, dict) else None
    return (options or {}).get("awslogs-create-group") == "true"
