"""Operations of service environments, and the answer to all operations of service jobs.

Environments are kept and shown, so that queues can name them; the emulator runs no service jobs.
"""

from __future__ import annotations

from wherry.emulator.batch import arns, limits
from wherry.emulator.batch.catalog import Catalog
from wherry.emulator.batch.errors import ClientError, refuse
from wherry.emulator.batch.paging import answer, known
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import ServiceEnvironment

JOB_OPERATIONS = (
    "DescribeServiceJob",
    "ListServiceJobs",
    "SubmitServiceJob",
    "TerminateServiceJob",
    "TerminateServiceJobs",
    "UpdateServiceJob",
)
_INSTANCES = "NUM_INSTANCES"


def refuse_jobs(_catalog: Catalog, _request: Document) -> Document:
    """Refuse an operation of service jobs.

    Raises:
        ClientError: always.
    """
    raise ClientError(
        "Service jobs (SageMaker training) are not available in this emulator; it runs container"
        " jobs only."
    )


def create(catalog: Catalog, request: Document) -> Document:
    """CreateServiceEnvironment."""
    name = request["serviceEnvironmentName"]
    limits.check_name("Service environment", name)
    limits.check_tags(request.get("tags", {}))
    _check_capacity(request["capacityLimits"])
    refuse(catalog.find_service_environment(name) is not None, "Object already exists")
    made = ServiceEnvironment(
        name=name,
        arn=catalog.arn(arns.SERVICE_ENVIRONMENT, name),
        type=request["serviceEnvironmentType"],
        capacity=list(request["capacityLimits"]),
        state=request.get("state", "ENABLED"),
        tags=dict(request.get("tags", {})),
    )
    catalog.keep(made)
    return {"serviceEnvironmentName": name, "serviceEnvironmentArn": made.arn}


def update(catalog: Catalog, request: Document) -> Document:
    """UpdateServiceEnvironment."""
    found = catalog.service_environment(request["serviceEnvironment"])
    if "capacityLimits" in request:
        _check_capacity(request["capacityLimits"])
        found.capacity = list(request["capacityLimits"])
    found.state = request.get("state", found.state)
    catalog.keep(found)
    return {"serviceEnvironmentName": found.name, "serviceEnvironmentArn": found.arn}


def delete(catalog: Catalog, request: Document) -> Document:
    """DeleteServiceEnvironment."""
    found = catalog.service_environment(request["serviceEnvironment"])
    if found.state != "DISABLED":
        raise ClientError("Cannot delete, ServiceEnvironment must be in DISABLED state")
    for queue in catalog.queues():
        for place in queue.service_environments:
            if catalog.find_service_environment(place["serviceEnvironment"]) is found:
                raise ClientError("Cannot delete, found existing JobQueue relationship")
    catalog.remove(found)
    return {}


def describe(catalog: Catalog, request: Document) -> Document:
    """DescribeServiceEnvironments. Unknown names are silently absent."""
    names = request.get("serviceEnvironments", [])
    limits.check_count("service environments", names, limits.DESCRIBED)
    if names:
        return known("serviceEnvironments", names, catalog.find_service_environment, _shown)
    all_of_them = catalog.service_environments()
    return answer("serviceEnvironments", all_of_them, lambda each: each.name, _shown, request)


def _shown(environment: ServiceEnvironment) -> Document:
    return {
        "serviceEnvironmentName": environment.name,
        "serviceEnvironmentArn": environment.arn,
        "serviceEnvironmentType": environment.type,
        "state": environment.state,
        "status": "VALID",
        "capacityLimits": list(environment.capacity),
        "tags": dict(environment.tags),
    }


def _check_capacity(capacity: list[Document]) -> None:
    refuse(not capacity, "Capacitylimits are required.")
    most = limits.SERVICE_CAPACITY_LIMITS
    refuse(len(capacity) > most, f"Number of capacity limits exceeds {most}.")
    units = [limit.get("capacityUnit", "") for limit in capacity]
    for limit, unit in zip(capacity, units, strict=True):
        refuse(limit.get("maxCapacity", 0) < 1, "Max capacity must be more than 0.")
        refuse(
            unit != _INSTANCES and not unit.startswith("ml."), f"{unit} is unknown capacity unit"
        )
    refuse(
        _INSTANCES in units and len(set(units)) > 1,
        "Capacity units must specify either number of instances OR instance type",
    )
