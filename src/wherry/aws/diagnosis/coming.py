"""Why no instance comes for a job: roles, security groups, and what is left when all is in order.

Causes that AWS Batch does not name by itself (AWS Batch user guide, "Jobs stuck in a RUNNABLE
status"; AWS re:Post, "Why is my AWS Batch job stuck in RUNNABLE").
"""

from __future__ import annotations

from collections.abc import Iterator

from wherry.aws.diagnosis import parts
from wherry.aws.diagnosis.ages import span
from wherry.aws.diagnosis.facts import Facts, Presence, Role
from wherry.aws.diagnosis.fit import counted
from wherry.aws.diagnosis.gathering import GRACE
from wherry.specs.diagnosis import Certainty, Finding


def stay_away(facts: Facts) -> Iterator[Finding]:
    """What keeps instances from being launched, or from registering with ECS."""
    for role in facts.roles:
        if role.presence is Presence.MISSING:
            yield Finding(
                f"{_code(role)}-missing",
                f"The {role.purpose} of its environment does not exist.",
                f"IAM knows no {role.arn}; without it instances cannot be launched, or cannot "
                "register with ECS.",
                _MAKE_ROLE[role.service],
                Certainty.CERTAIN,
            )
        elif role.trusts is False:
            yield Finding(
                f"{_code(role)}-not-trusting",
                f"The {role.purpose} of its environment cannot be assumed by {role.service}.",
                f"The trust policy of {role.arn} does not let {role.service} assume it.",
                f"Allow sts:AssumeRole for {role.service} in its trust policy.",
                Certainty.CERTAIN,
            )
    if facts.closed_groups:
        yield Finding(
            "nothing-goes-out",
            "A security group of its environment lets nothing out, so that instances never reach "
            "ECS.",
            f"No outbound rules: {', '.join(facts.closed_groups)}.",
            "Add an outbound rule (all traffic, or HTTPS to ECS, ECR, S3 and CloudWatch Logs).",
        )


_MAKE_ROLE = {
    parts.INSTANCES: "Make the instance profile with a role that has "
    "AmazonEC2ContainerServiceforEC2Role, or name another in a new environment.",
    parts.BATCH: "Make the role with AWSBatchServiceRole, or give the environment the "
    "service-linked role AWSServiceRoleForBatch.",
}


def _code(role: Role) -> str:
    return "service-role" if role.service == parts.BATCH else "instance-role"


def nothing_known(facts: Facts) -> Iterator[Finding]:
    """What to think of when nothing that was looked at is in the way."""
    if facts.waited < GRACE:
        yield Finding(
            "scaling-up",
            "It waits for room; its compute environment is probably still scaling up.",
            f"It has waited for {span(facts.waited)}, and nothing that was looked at is in its "
            "way.",
            f"Look again in {span(GRACE - facts.waited + 60)}; instances take minutes to come.",
        )
        return
    environments = facts.open_environments
    if environments and all(each.is_fargate for each in environments):
        yield _no_fargate(facts)
    else:
        yield _no_instances(facts)


def _no_fargate(facts: Facts) -> Finding:
    return Finding(
        "no-fargate",
        f"It has waited for {span(facts.waited)} without a reason: probably Fargate gives no room "
        "for it.",
        "Nothing that was looked at is in its way.",
        "Look at the Fargate vCPU quota of the account (Service Quotas), and at whether the "
        "subnets of the environment have free addresses.",
    )


def _no_instances(facts: Facts) -> Finding:
    environments = facts.open_environments
    names = " and ".join(each.name for each in environments) or "its compute environment"
    used = facts.line.used if facts.line else 0.0
    desired = sum(each.desired for each in environments)
    if desired > used:
        return Finding(
            "not-registered",
            "Instances were asked for, and jobs do not get them: probably they do not register "
            "with ECS.",
            f"{names} wants {counted(desired, 'vCPU')}, of which jobs of the queue use {used:g}; "
            f"it has waited for {span(facts.waited)}.",
            "Look at the instances' way to ECS (NAT gateway, public addresses or VPC endpoints), "
            "their security group, instance role and image (ECS agent), and at the Auto Scaling "
            "activity for launch errors.",
        )
    return Finding(
        "no-instances",
        f"It has waited for {span(facts.waited)} without a reason: probably {names} cannot get "
        "instances, or they do not register with ECS.",
        "Nothing that was looked at is in its way.",
        "Look at the environment's Auto Scaling activity for launch errors (quotas, Spot "
        "capacity, launch template), and that its subnets have a route to ECS (NAT gateway, "
        "public addresses or VPC endpoints).",
    )
