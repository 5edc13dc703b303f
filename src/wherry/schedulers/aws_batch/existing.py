"""A job definition of the user's own: what a submission can override, and whether it fits."""

from __future__ import annotations

from dataclasses import replace

from wherry.aws.documents import Document
from wherry.errors import InvalidOptionError
from wherry.schedulers.aws_batch.batch_job import BatchJob
from wherry.schedulers.aws_batch.options import Options
from wherry.schedulers.aws_batch.shape import Kind
from wherry.specs.app import Role

_TYPES = {Kind.SINGLE: "container", Kind.ARRAY: "container", Kind.GANG: "multinode"}


def fitted(request: BatchJob, definition: Document) -> BatchJob:
    """Fit a request to the definition that it is to use, once AWS has shown it.

    Args:
        request: a request with ``job_definition``.
        definition: from DescribeJobDefinitions.

    Returns:
        The request; with the number of nodes, where the definition leaves that open.

    Raises:
        InvalidOptionError: the definition is for another kind of job.
    """
    name = request.job_definition
    kind, wanted = definition.get("type", "container"), _TYPES[request.kind]
    if kind != wanted:
        raise InvalidOptionError(
            f"job_definition={name} is of type {kind}, and the app is a {request.kind} job, "
            f"which needs one of type {wanted}"
        )
    several = [key for key in ("ecsProperties", "eksProperties") if definition.get(key)]
    if several:
        raise InvalidOptionError(
            f"job_definition={name} has {several[0]}; this scheduler overrides "
            "containerProperties only, so use a definition that has those"
        )
    capabilities = definition.get("platformCapabilities") or ["EC2"]
    if str(request.platform) not in capabilities:
        raise InvalidOptionError(
            f"job_definition={name} is for {', '.join(capabilities)}, and queue "
            f"{request.queue!r} runs on {request.platform}"
        )
    return _with_nodes(request, definition["nodeProperties"]) if kind == "multinode" else request


def _with_nodes(request: BatchJob, properties: Document) -> BatchJob:
    nodes = sum(group.count for group in request.groups)
    if properties["numNodes"] == nodes:
        return request
    if not any(item["targetNodes"].endswith(":") for item in properties["nodeRangeProperties"]):
        raise InvalidOptionError(
            f"job_definition={request.job_definition} has {properties['numNodes']} nodes and no "
            f"range without an end, so that it cannot have the {nodes} of the app"
        )
    overrides = {**request.job["nodeOverrides"], "numNodes": nodes}
    return replace(request, job={**request.job, "nodeOverrides": overrides})


def stated_resources(definition: Document) -> dict[str, float]:
    """Return what a definition's container asks for: VCPU, MEMORY (MiB) and GPU.

    Of several nodes or containers, the first one's.
    """
    found = definition
    if definition.get("type") == "multinode":
        found = definition["nodeProperties"]["nodeRangeProperties"][0]
    container = found.get("containerProperties") or found.get("container") or {}
    stated = {
        item["type"]: float(item["value"]) for item in container.get("resourceRequirements", [])
    }
    older = {"VCPU": container.get("vcpus"), "MEMORY": container.get("memory")}
    return {**{name: float(value) for name, value in older.items() if value}, **stated}


def refuse_what_cannot_be_overridden(role: Role, options: Options) -> None:
    """Refuse what a role asks for that only a definition of our own could have.

    Raises:
        InvalidOptionError: it is named.
    """
    asked = {
        "mounts": role.mounts,
        "ulimits": role.ulimits,
        "secrets": role.secrets or options.secrets,
        "devices": role.resource.devices and "instance_type" not in role.resource.capabilities,
        "privileged": options.privileged,
        "job_role_arn": options.job_role_arn,
        "execution_role_arn": options.execution_role_arn,
        "log_group": options.log_group,
        "launcher=sidecar": options.launcher == "sidecar",
        "efa": options.efa,
    }
    found = [name for name, value in asked.items() if value]
    if found:
        raise InvalidOptionError(
            f"role {role.name!r}: {', '.join(found)} cannot be had with job_definition="
            f"{options.job_definition}, since a submission cannot override it; put it into that "
            "definition, or leave job_definition out"
        )
