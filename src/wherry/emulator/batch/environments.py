"""Operations of compute environments.

They become VALID at once: there is no instance to wait for. What AWS checks only later, by way of
the status INVALID (roles and subnets that do not exist), is not checked.
"""

from __future__ import annotations

import uuid as uuids

from wherry.emulator.batch import arns, environment_rules, limits
from wherry.emulator.batch.catalog import Catalog
from wherry.emulator.batch.errors import ClientError, refuse
from wherry.emulator.batch.paging import answer, known
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import ComputeEnvironment

SERVICE_LINKED_ROLE = "aws-service-role/batch.amazonaws.com/AWSServiceRoleForBatch"
_UPDATE_POLICY = {"terminateJobsOnUpdate": False, "jobExecutionTimeoutMinutes": 30}


def create(catalog: Catalog, request: Document) -> Document:
    """CreateComputeEnvironment."""
    name = request["computeEnvironmentName"]
    limits.check_name("Compute Environment", name)
    limits.check_tags(request.get("tags", {}))
    refuse(catalog.find_environment(name) is not None, "Object already exists")
    environment_rules.check_new(request)
    refuse(
        catalog.count("environment") >= limits.ENVIRONMENTS,
        f"Maximum number of compute environments supported is {limits.ENVIRONMENTS}",
    )
    arn = catalog.arn(arns.ENVIRONMENT, name)
    catalog.keep(make(catalog.region, request, arn))
    return {"computeEnvironmentName": name, "computeEnvironmentArn": arn}


def make(region: str, request: Document, arn: str, uuid: str = "") -> ComputeEnvironment:
    """Make the record of an environment from the request that creates it.

    Args:
        region: where it is.
        request: of CreateComputeEnvironment, checked.
        arn: its ARN.
        uuid: the one it has already; a new one otherwise.
    """
    name = request["computeEnvironmentName"]
    uuid = uuid or str(uuids.uuid4())
    eks = request.get("eksConfiguration", {})
    managed = request["type"] == "MANAGED"
    return ComputeEnvironment(
        name=name,
        arn=arn,
        uuid=uuid,
        type=request["type"],
        state=request.get("state", "ENABLED"),
        resources=environment_rules.completed(
            request.get("computeResources", {}), managed=managed, eks=bool(eks)
        ),
        unmanaged_vcpus=request.get("unmanagedvCpus", 0),
        service_role=arns.role(region, request.get("serviceRole") or SERVICE_LINKED_ROLE),
        ecs_cluster_arn="" if eks else arns.cluster(region, name, uuid),
        eks=dict(eks),
        update_policy=dict(_UPDATE_POLICY) if managed else {},
        ecs_settings=dict(request.get("ecsSettings", {})),
        context=request.get("context", ""),
        tags=dict(request.get("tags", {})),
    )


def update(catalog: Catalog, request: Document) -> Document:
    """UpdateComputeEnvironment."""
    found = catalog.environment(request["computeEnvironment"])
    change = request.get("computeResources", {})
    environment_rules.check_update(found, request)
    if change:
        found.resources = environment_rules.changed(found.resources, change)
    found.state = request.get("state", found.state)
    found.unmanaged_vcpus = request.get("unmanagedvCpus", found.unmanaged_vcpus)
    if request.get("serviceRole"):
        found.service_role = arns.role(catalog.region, request["serviceRole"])
    found.update_policy = {**found.update_policy, **request.get("updatePolicy", {})}
    found.ecs_settings = {**found.ecs_settings, **request.get("ecsSettings", {})}
    found.eks = {**found.eks, **request.get("eksConfiguration", {})}
    found.context = request.get("context", found.context)
    catalog.keep(found)
    return {"computeEnvironmentName": found.name, "computeEnvironmentArn": found.arn}


def delete(catalog: Catalog, request: Document) -> Document:
    """DeleteComputeEnvironment.

    AWS lets an environment with running jobs become INVALID; here the call is refused, so that no
    job loses its place unseen.
    """
    found = catalog.environment(request["computeEnvironment"])
    if found.state != "DISABLED":
        raise ClientError("Cannot delete, ComputeEnvironment must be in DISABLED state")
    if any(found.arn in queue.environments for queue in catalog.queues()):
        raise ClientError("Cannot delete, found existing JobQueue relationship")
    if catalog.in_use(found.arn):
        raise ClientError("Cannot delete, jobs are still running in the ComputeEnvironment")
    catalog.remove(found)
    return {}


def describe(catalog: Catalog, request: Document) -> Document:
    """DescribeComputeEnvironments. Unknown names are silently absent."""
    names = request.get("computeEnvironments", [])
    refuse(
        bool(names) and "maxResults" in request,
        "ComputeEnvironments and MaxResults cannot both be set",
    )
    limits.check_count("compute environments", names, limits.DESCRIBED)
    if names:
        return known("computeEnvironments", names, catalog.find_environment, _shown)
    all_of_them = catalog.environments()
    return answer("computeEnvironments", all_of_them, lambda each: each.name, _shown, request)


def _shown(environment: ComputeEnvironment) -> Document:
    optional: Document = {
        "computeResources": environment.resources,
        "ecsClusterArn": environment.ecs_cluster_arn,
        "eksConfiguration": environment.eks,
        "updatePolicy": environment.update_policy,
        "ecsSettings": environment.ecs_settings,
        "context": environment.context,
    }
    if environment.type == "UNMANAGED":
        optional["unmanagedvCpus"] = environment.unmanaged_vcpus
    return {
        "computeEnvironmentName": environment.name,
        "computeEnvironmentArn": environment.arn,
        "type": environment.type,
        "state": environment.state,
        "status": environment.status,
        "statusReason": environment.status_reason,
        "serviceRole": environment.service_role,
        "containerOrchestrationType": "EKS" if environment.eks else "ECS",
        "uuid": environment.uuid,
        "tags": dict(environment.tags),
        **{member: value for member, value in optional.items() if value},
    }
