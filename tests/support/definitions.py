"""Definitions, requests and jobs of every shape, and surroundings that remember what was asked."""

from __future__ import annotations

from typing import Any

from wherry.emulator.batch.placing import Place
from wherry.emulator.batch.records import Job, JobDefinition

REGION = "us-east-1"
TASK_ID = "0123456789abcdef0123456789abcdef"
_ARN = "arn:aws:batch:us-east-1:123456789012"
_CLUSTER = "arn:aws:ecs:us-east-1:123456789012:cluster/c"

ON_EC2 = Place(f"{_ARN}:compute-environment/ce", "ce", _CLUSTER, "i-1", "m5.large", "arn:i")
ON_FARGATE = Place(f"{_ARN}:compute-environment/fg", "fg", _CLUSTER, "", "", "")


class Surroundings:
    """Gives what it was made with, and remembers what it was asked."""

    def __init__(self, secrets: dict[str, str] | None = None, complaint: str = "") -> None:
        self.secrets = secrets or {}
        self.complaint = complaint
        self.streams: list[tuple[str, str, str, bool]] = []
        self.roles: list[str | None] = []
        self.secret_roles: list[str | None] = []
        self.described: dict[str, Any] = {}
        self.over: list[str] = []

    def task_environment(self, task_id, region, role_arn):
        self.roles.append(role_arn)
        return {
            "AWS_REGION": region,
            "AWS_ENDPOINT_URL": "http://host:4566",
            "AWS_EXECUTION_ENV": "AWS_ECS_EC2",
            "ECS_CONTAINER_METADATA_URI_V4": "http://host:4566/v4/token",
        }

    def task_over(self, task_id):
        self.over.append(task_id)

    def describe_task(self, task_id, metadata):
        self.described[task_id] = metadata

    def secret(self, value_from, region, role_arn):
        self.secret_roles.append(role_arn)
        if value_from not in self.secrets:
            raise LookupError(f"unable to retrieve secret {value_from}")
        return self.secrets[value_from]

    def emit(self, region, detail_type, resources, detail):
        raise AssertionError("nothing is emitted here")

    def open_stream(self, region, group, stream, *, create_group):
        self.streams.append((region, group, stream, create_group))
        return self.complaint


def sizes(vcpus: str = "1", memory: str = "256", gpus: str = "") -> list[dict[str, str]]:
    found = [{"type": "VCPU", "value": vcpus}, {"type": "MEMORY", "value": memory}]
    return [*found, {"type": "GPU", "value": gpus}] if gpus else found


def env(**values: str) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def container(**properties: Any) -> dict[str, Any]:
    return {"image": "busybox", "resourceRequirements": sizes(), **properties}


def definition(document: dict[str, Any] | None = None, **properties: Any) -> JobDefinition:
    """A definition with containerProperties, unless it is given another document."""
    found = document or {"type": "container", "containerProperties": container(**properties)}
    return JobDefinition("def", 3, f"{_ARN}:job-definition/def:3", found)


def multinode(*groups: tuple[str, dict[str, Any]], number: int, main: int = 0) -> JobDefinition:
    ranges = [{"targetNodes": target, **group} for target, group in groups]
    properties = {"numNodes": number, "mainNode": main, "nodeRangeProperties": ranges}
    return definition({"type": "multinode", "nodeProperties": properties})


def ecs(*containers: dict[str, Any], **task: Any) -> JobDefinition:
    properties = {"taskProperties": [{"containers": list(containers), **task}]}
    return definition({"type": "container", "ecsProperties": properties})


def eks(*containers: dict[str, Any], **pod: Any) -> JobDefinition:
    properties = {"podProperties": {"containers": list(containers), **pod}}
    return definition({"type": "container", "eksProperties": properties})


def job_of(its: JobDefinition, kind: str = "single", **request: Any) -> Job:
    index = request.pop("index", -1)
    suffix = {"child": f":{index}", "node": f"#{index}"}.get(kind, "")
    return Job(
        id=f"id{suffix}",
        arn=f"{_ARN}:job/id{suffix}",
        name="work",
        queue_arn=f"{_ARN}:job-queue/q",
        definition=its,
        request={"jobName": "work", "jobQueue": "q", "jobDefinition": "def", **request},
        created_at=0,
        parent="id" if suffix else "",
        index=index,
        kind=kind,
    )
