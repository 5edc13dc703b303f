"""AWS Batch's resources without HTTP: a request goes through the wire, an answer through botocore.

Each answer is checked against the output shape of its operation, strictly, and then read with
botocore's own parser, so that a test sees what a client sees.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import botocore.parsers
import botocore.validate

from wherry.emulator.batch import wire
from wherry.emulator.batch.catalog import Catalog
from wherry.emulator.batch.catalog_operations import OPERATIONS
from wherry.emulator.clock import Clock

REGION = "us-east-1"
EC2_RESOURCES = {
    "type": "EC2",
    "minvCpus": 0,
    "maxvCpus": 16,
    "instanceTypes": ["m5.large"],
    "subnets": ["subnet-1"],
    "securityGroupIds": ["sg-1"],
    "instanceRole": "ecsInstanceRole",
}
FARGATE_RESOURCES = {
    "type": "FARGATE",
    "maxvCpus": 16,
    "subnets": ["subnet-1"],
    "securityGroupIds": ["sg-1"],
}
CONTAINER = {
    "image": "busybox",
    "command": ["true"],
    "resourceRequirements": [
        {"type": "VCPU", "value": "1"},
        {"type": "MEMORY", "value": "128"},
    ],
}
FARGATE_CONTAINER = {
    **CONTAINER,
    "executionRoleArn": "arn:aws:iam::123456789012:role/execution",
    "resourceRequirements": [
        {"type": "VCPU", "value": "0.25"},
        {"type": "MEMORY", "value": "512"},
    ],
}


def arn(kind: str, name: str) -> str:
    return f"arn:aws:batch:{REGION}:123456789012:{kind}/{name}"


class Api:
    """Calls operations of one catalog as a client would."""

    def __init__(self, catalog: Catalog | None = None) -> None:
        self.catalog = catalog or Catalog(REGION, Clock(wall=lambda: 1_000_000_000.0))

    def __call__(self, operation: str, /, **request: Any) -> dict[str, Any]:
        body = json.dumps(request).encode()
        answer = OPERATIONS[operation](self.catalog, wire.checked(operation, body, {}, {}))
        return read(operation, answer)

    # -- the usual things, made in one line

    def environment(self, name: str = "ce", resources: dict[str, Any] | None = None) -> str:
        answer = self(
            "CreateComputeEnvironment",
            computeEnvironmentName=name,
            type="MANAGED",
            computeResources=resources or EC2_RESOURCES,
        )
        return str(answer["computeEnvironmentArn"])

    def queue(self, name: str = "jq", environments: Iterable[str] = ("ce",), **more: Any) -> str:
        order = [
            {"order": place, "computeEnvironment": each}
            for place, each in enumerate(environments, start=1)
        ]
        request = {"priority": 1, "computeEnvironmentOrder": order, **more}
        return str(self("CreateJobQueue", jobQueueName=name, **request)["jobQueueArn"])

    def definition(self, name: str = "jd", **request: Any) -> str:
        body = {"type": "container", "containerProperties": CONTAINER, **request}
        answer = self("RegisterJobDefinition", jobDefinitionName=name, **body)
        return str(answer["jobDefinitionArn"])

    def described(self, name: str = "jd") -> dict[str, Any]:
        found = self("DescribeJobDefinitions", jobDefinitionName=name)["jobDefinitions"]
        return dict(found[0])


def read(operation: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Check an answer against the model, and return it as botocore reads it."""
    shape = wire.model().operation_model(operation).output_shape
    assert unknown_members(shape, answer, operation) == []
    report = botocore.validate.ParamValidator().validate(answer, shape)
    assert not report.has_errors(), report.generate_report()
    response = {"status_code": 200, "headers": {}, "body": json.dumps(answer).encode()}
    parsed: dict[str, Any] = botocore.parsers.create_parser("rest-json").parse(response, shape)
    parsed.pop("ResponseMetadata", None)
    return parsed


def unknown_members(shape: Any, value: Any, at: str) -> list[str]:
    """Return the paths of members that the output shape does not have."""
    walk: dict[str, Callable[[], list[str]]] = {
        "structure": lambda: [
            path
            for name, inner in value.items()
            for path in (
                unknown_members(shape.members[name], inner, f"{at}.{name}")
                if name in shape.members
                else [f"{at}.{name}"]
            )
        ],
        "list": lambda: [p for each in value for p in unknown_members(shape.member, each, at)],
        "map": lambda: [
            path for inner in value.values() for path in unknown_members(shape.value, inner, at)
        ],
    }
    return walk.get(shape.type_name, list)()
