"""What a compute environment may consist of, and what AWS adds to it.

The rules are those of the API model; refusals have the words that the service was seen to use
(badmintoncryer/cdk-preflight, rules ``batch-ce-*``; getmoto/moto#6463; Netflix/metaflow#70) where
they are known.
"""

from __future__ import annotations

import functools
import re

from wherry.emulator.batch import limits
from wherry.emulator.batch.errors import refuse
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import ComputeEnvironment

FARGATE = frozenset(("FARGATE", "FARGATE_SPOT"))
EC2 = frozenset(("EC2", "SPOT"))
MANAGED_INSTANCES = "ECS_MANAGED_INSTANCES"

BUNDLES = {"optimal": "x86_64", "default_x86_64": "x86_64", "default_arm64": "arm64"}
"""Names that stand for families which Batch chooses, and their architecture."""

_NOT_FOR_FARGATE = (
    "allocationStrategy",
    "minvCpus",
    "desiredvCpus",
    "instanceTypes",
    "imageId",
    "ec2KeyPair",
    "instanceRole",
    "tags",
    "placementGroup",
    "bidPercentage",
    "spotIamFleetRole",
    "launchTemplate",
    "ec2Configuration",
    "scalingPolicy",
)
_STRATEGY_IS_FOR = {
    "BEST_FIT_PROGRESSIVE_ORDERED": "EC2",
    "SPOT_CAPACITY_OPTIMIZED": "SPOT",
    "SPOT_PRICE_CAPACITY_OPTIMIZED": "SPOT",
    "SPOT_CAPACITY_OPTIMIZED_PRIORITIZED": "SPOT",
}
_EKS_ARN = re.compile(r"arn:[\w-]+:eks:[\w-]+:\d{12}:cluster/.+\Z")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z")


def check_new(request: Document) -> None:
    """Refuse a request of CreateComputeEnvironment that AWS would refuse.

    Raises:
        ClientError: it is refused.
    """
    refuse(
        request.get("state", "ENABLED") != "ENABLED",
        "Compute Environment must be created in ENABLED state.",
    )
    check = _check_managed if request["type"] == "MANAGED" else _check_unmanaged
    check(request)


def check_update(environment: ComputeEnvironment, request: Document) -> None:
    """Refuse a request of UpdateComputeEnvironment that AWS would refuse.

    Raises:
        ClientError: it is refused.
    """
    change = request.get("computeResources", {})
    managed = environment.type == "MANAGED"
    refuse(managed and "unmanagedvCpus" in request, _NOT_FOR_MANAGED)
    refuse(
        bool(change) and not managed,
        "computeResources is not applicable for unmanaged Compute Environments",
    )
    timeout = request.get("updatePolicy", {}).get("jobExecutionTimeoutMinutes")
    limits.check_range("jobExecutionTimeoutMinutes", timeout, *limits.UPDATE_TIMEOUT_MINUTES)
    if not change:
        return
    kind = change.get("type", environment.kind)
    families = (FARGATE, EC2, frozenset((MANAGED_INSTANCES,)))
    same = any(kind in family and environment.kind in family for family in families)
    refuse(not same, f"Compute resource type cannot be changed from {environment.kind} to {kind}.")
    _check_resources(changed(environment.resources, change), eks=bool(environment.eks))


def completed(resources: Document, *, managed: bool, eks: bool) -> Document:
    """Return compute resources with what AWS shows for members that were not given."""
    kind = resources.get("type", "")
    if not managed or kind not in EC2:
        return dict(resources)
    return {
        "desiredvCpus": resources.get("minvCpus", 0),
        "ec2Configuration": [{"imageType": "EKS_AL2023" if eks else "ECS_AL2023"}],
        **resources,
    }


def changed(resources: Document, change: Document) -> Document:
    """Return compute resources after an update; what it does not name stays."""
    after = {**resources, **change}
    after.pop("updateToLatestImageVersion", None)
    if "minvCpus" in change and "desiredvCpus" not in change and "desiredvCpus" in after:
        after["desiredvCpus"] = max(after["desiredvCpus"], change["minvCpus"])
    if "maxvCpus" in change and "desiredvCpus" not in change and "desiredvCpus" in after:
        after["desiredvCpus"] = min(after["desiredvCpus"], change["maxvCpus"])
    return after


def architecture(environment: ComputeEnvironment) -> str:
    """Return ``x86_64`` or ``arm64`` where the instance types tell it, else nothing."""
    kinds = (_architecture(name) for name in environment.resources.get("instanceTypes", ()))
    return next((kind for kind in kinds if kind), "")


# -- by type --------------------------------------------------------------------------------------

_NOT_FOR_MANAGED = "unmanagedvCpus is not applicable for managed Compute Environments"


def _check_unmanaged(request: Document) -> None:
    resources = request.get("computeResources", {})
    refuse(
        resources.get("type") in FARGATE, "Cannot create an UNMANAGED Fargate Compute Environment."
    )
    role = request.get("serviceRole", "")
    refuse(not role, "ServiceRole is required.")
    refuse(
        "AWSServiceRoleForBatch" in role,
        "Service Linked Role cannot be used with UNMANAGED Compute Environment",
    )
    refuse("eksConfiguration" in request, "Compute Environments of EKS must be MANAGED.")
    refuse(request.get("unmanagedvCpus", 0) < 0, "unmanagedvCpus should not be negative.")


def _check_managed(request: Document) -> None:
    resources = request.get("computeResources")
    refuse("unmanagedvCpus" in request, _NOT_FOR_MANAGED)
    refuse(not resources, "computeResources must be provided for a MANAGED compute environment")
    eks = request.get("eksConfiguration", {})
    if eks:
        _check_eks(eks, resources or {})
    _check_resources(resources or {}, eks=bool(eks))


def _check_eks(eks: Document, resources: Document) -> None:
    namespace = eks["kubernetesNamespace"]
    refuse(not _EKS_ARN.match(eks["eksClusterArn"]), "eksClusterArn must be an EKS cluster ARN.")
    refuse(
        namespace == "default",
        "kubernetesNamespace cannot be the default Kubernetes namespace",
    )
    refuse(
        namespace.startswith("kube-"),
        "kubernetesNamespace cannot be a Kubernetes system namespace",
    )
    refuse(not _NAMESPACE.match(namespace), "kubernetesNamespace should match a valid pattern.")
    refuse(
        resources["type"] not in EC2,
        "Supported compute types for EKS compute environments are [EC2, SPOT]",
    )
    refuse(
        resources.get("allocationStrategy", "BEST_FIT") == "BEST_FIT",
        "allocationStrategy BEST_FIT is not supported for EKS compute environments.",
    )


def _check_resources(resources: Document, *, eks: bool) -> None:
    kind = resources["type"]
    refuse(resources["maxvCpus"] < 1, "maxvCpus should be greater than 0.")
    refuse(
        "managedInstancesProvider" in resources and kind != MANAGED_INSTANCES,
        f"managedInstancesProvider is not applicable for {kind}.",
    )
    refuse(
        "capacityTags" in resources and kind != MANAGED_INSTANCES,
        f"capacityTags is not applicable for {kind}.",
    )
    if kind in FARGATE:
        _check_fargate(resources)
    elif kind == MANAGED_INSTANCES:
        _check_managed_instances(resources)
    else:
        _check_ec2(resources, eks=eks)


def _check_fargate(resources: Document) -> None:
    for member in _NOT_FOR_FARGATE:
        refuse(bool(resources.get(member)), f"{member} is not applicable for Fargate.")
    subnets, groups = resources.get("subnets", []), resources.get("securityGroupIds", [])
    refuse(not subnets, "Subnets are required.")
    refuse(not groups, "Security group ids are required.")
    for what, given, most in (
        ("subnets", subnets, limits.FARGATE_SUBNETS),
        ("security groups", groups, limits.FARGATE_SECURITY_GROUPS),
    ):
        refuse(len(given) > most, f"Fargate supports a maximum of {most} {what}.")


def _check_managed_instances(resources: Document) -> None:
    provider = resources.get("managedInstancesProvider")
    refuse(not provider, f"managedInstancesProvider is required for {MANAGED_INSTANCES}.")
    for member in _NOT_FOR_FARGATE:
        refuse(bool(resources.get(member)), f"{member} is not applicable for {MANAGED_INSTANCES}.")
    limits.check_tags(resources.get("capacityTags", {}))
    scale_in = (provider or {}).get("infrastructureOptimization", {}).get("scaleInAfter")
    limits.check_range("scaleInAfter", scale_in, *limits.SCALE_IN_SECONDS)


def _check_ec2(resources: Document, *, eks: bool) -> None:
    refuse(not resources.get("instanceRole"), "Instance role is required.")
    refuse("minvCpus" not in resources, "Resource minvCpus is required.")
    refuse(not resources.get("instanceTypes"), "Resource instanceTypes are required.")
    refuse(not resources.get("subnets"), "Subnets are required.")
    refuse(
        not resources.get("securityGroupIds") and not resources.get("launchTemplate"),
        "Security group ids are required.",
    )
    _check_vcpus(resources)
    _check_instance_types(resources["instanceTypes"])
    _check_strategy(resources)
    _check_launch_template(resources.get("launchTemplate"))
    bid = resources.get("bidPercentage", 100)
    refuse(not 0 <= bid <= 100, "Bid percentage must be between 0 to 100.")
    images = resources.get("ec2Configuration", [])
    limits.check_count("ec2Configuration", images, limits.EC2_CONFIGURATIONS)
    prefix = "EKS_" if eks else "ECS_"
    for image in images:
        stock = image["imageType"].startswith(("ECS_", "EKS_"))
        refuse(
            stock and not eks and not image["imageType"].startswith(prefix),
            f"imageType {image['imageType']} is not valid for ECS compute environments.",
        )
    delay = resources.get("scalingPolicy", {}).get("minScaleDownDelayMinutes")
    if delay:
        limits.check_range("minScaleDownDelayMinutes", delay, *limits.SCALE_DOWN_MINUTES)


def _check_vcpus(resources: Document) -> None:
    least, most = resources["minvCpus"], resources["maxvCpus"]
    refuse(least < 0, "minvCpus should be greater than or equal to 0.")
    refuse(most < least, "maxvCpus should be greater than or equal to minvCpus.")
    refuse(
        not least <= resources.get("desiredvCpus", least) <= most,
        "desiredvCpus should be between minvCpus and maxvCpus.",
    )


def _check_instance_types(names: list[str]) -> None:
    for name in names:
        refuse(not _is_known(name), f"Instance type {name} is not supported.")
    kinds = {_architecture(name) for name in names} - {""}
    refuse(len(kinds) > 1, "arm-based instance type cannot be used with other instance types")


def _check_strategy(resources: Document) -> None:
    strategy, kind = resources.get("allocationStrategy", "BEST_FIT"), resources["type"]
    wanted = _STRATEGY_IS_FOR.get(strategy, kind)
    refuse(
        wanted != kind, f"allocationStrategy {strategy} is only available for {wanted} resources."
    )
    refuse(
        kind == "SPOT" and strategy == "BEST_FIT" and not resources.get("spotIamFleetRole"),
        "compute resource spotIamFleetRole is required.",
    )


def _check_launch_template(template: Document | None) -> None:
    if not template:
        return
    overrides = template.get("overrides", [])
    named = sum(bool(template.get(key)) for key in ("launchTemplateId", "launchTemplateName"))
    refuse(
        named != 1 and not (named == 0 and overrides),
        "One of LaunchTemplateId and LaunchTemplateName or LaunchTemplate.overrides should be"
        " provided",
    )
    limits.check_count("launch template overrides", overrides, limits.LAUNCH_TEMPLATE_OVERRIDES)


# -- instance types -------------------------------------------------------------------------------

# Names that look like those of instance types pass even when the tables do not have them: the
# tables leave out families (storage, Mac, odd accelerators) that AWS would take.
_TYPE = re.compile(r"[a-z]{1,3}\d+[a-z0-9-]*(\.[a-z0-9-]+)?\Z")


@functools.cache
def _families() -> dict[str, str]:
    from wherry.specs.catalogue import aws

    found: dict[str, str] = {}
    for name in aws.instance_types():
        family = name.partition(".")[0]
        if family not in found:
            resource = aws.find(name)
            found[family] = str(resource.capabilities["arch"]) if resource else ""
    return found


def _is_known(name: str) -> bool:
    from wherry.specs.catalogue import aws

    family, dot, _ = name.partition(".")
    if name in BUNDLES or (family in _families() and not dot):
        return True
    if family in _families():
        return aws.find(name) is not None
    return bool(_TYPE.match(name))


def _architecture(name: str) -> str:
    return BUNDLES.get(name) or _families().get(name.partition(".")[0], "")
