"""Resources of Batch in CloudFormation stacks: made by moto's CloudFormation, kept by our Batch.

moto lets a class say which type of resource it makes, and takes the last class that was defined. We
give it one for each type of Batch; where moto would make a queue of its own, the class asks our
Batch for one, with the same request that a client would send. So a stack's ARNs are the ones that
work, a refusal fails the stack, and updates and deletion need no second look.

Which emulator's Batch is asked follows from the request that moto is answering: see `serving`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from wherry.emulator.batch import wire
from wherry.emulator.batch.errors import BatchError
from wherry.emulator.batch.ports import Document

Batch = Callable[[str, str, Document], Document]
"""Region, operation, request: what carries out an operation of Batch."""

_asked: ContextVar[Batch] = ContextVar("wherry-batch-of-this-request")
_registering = threading.Lock()
_DELETION_PATIENCE = 20.0  # real seconds


@dataclass(frozen=True)
class Kind:
    """How one type of resource is made, changed and deleted.

    Attributes:
        name: the type, after ``AWS::Batch::``.
        name_member: the member of the request that takes the name.
        create, update, delete: operations; no update means a new one in place of the old.
        arn: the member of the answer that is the ARN, which is also the ``Ref``.
        key: the member by which `update` and `delete` take the ARN.
        switched: whether it must be disabled before it can be deleted.
        describe: operation, member of the request, member of the answer: to see it go.
    """

    name: str
    name_member: str
    create: str
    update: str
    delete: str
    arn: str
    key: str
    switched: bool = False
    describe: tuple[str, str, str] | None = None

    @property
    def name_property(self) -> str:
        """What the name is called in a template."""
        return self.name_member[0].upper() + self.name_member[1:]

    @property
    def attributes(self) -> tuple[str, ...]:
        """What ``Fn::GetAtt`` gives, always the ARN."""
        return ("Arn", self.arn[0].upper() + self.arn[1:])


# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_Batch.html
KINDS = (
    Kind(
        "ComputeEnvironment",
        "computeEnvironmentName",
        "CreateComputeEnvironment",
        "UpdateComputeEnvironment",
        "DeleteComputeEnvironment",
        "computeEnvironmentArn",
        "computeEnvironment",
        switched=True,
        describe=("DescribeComputeEnvironments", "computeEnvironments", "computeEnvironments"),
    ),
    Kind(
        "JobQueue",
        "jobQueueName",
        "CreateJobQueue",
        "UpdateJobQueue",
        "DeleteJobQueue",
        "jobQueueArn",
        "jobQueue",
        switched=True,
        describe=("DescribeJobQueues", "jobQueues", "jobQueues"),
    ),
    Kind(
        "JobDefinition",
        "jobDefinitionName",
        "RegisterJobDefinition",
        "",
        "DeregisterJobDefinition",
        "jobDefinitionArn",
        "jobDefinition",
    ),
    Kind(
        "SchedulingPolicy",
        "name",
        "CreateSchedulingPolicy",
        "UpdateSchedulingPolicy",
        "DeleteSchedulingPolicy",
        "arn",
        "arn",
    ),
    Kind(
        "ConsumableResource",
        "consumableResourceName",
        "CreateConsumableResource",
        "UpdateConsumableResource",
        "DeleteConsumableResource",
        "consumableResourceArn",
        "consumableResource",
    ),
    Kind(
        "ServiceEnvironment",
        "serviceEnvironmentName",
        "CreateServiceEnvironment",
        "UpdateServiceEnvironment",
        "DeleteServiceEnvironment",
        "serviceEnvironmentArn",
        "serviceEnvironment",
        switched=True,
    ),
    Kind(
        "QuotaShare",
        "quotaShareName",
        "CreateQuotaShare",
        "UpdateQuotaShare",
        "DeleteQuotaShare",
        "quotaShareArn",
        "quotaShareArn",
        switched=True,
    ),
)


@contextmanager
def serving(batch: Batch) -> Iterator[None]:
    """Let stacks that are made, changed or deleted within this block use a Batch."""
    _register()
    token = _asked.set(batch)
    try:
        yield
    finally:
        _asked.reset(token)


def as_request(operation: str, properties: Mapping[str, Any]) -> Document:
    """Put a template's properties into the shape of a request.

    Names differ only in the case of their first letters, and values may be text where the API
    wants numbers. What the operation does not take is left out.

    Args:
        operation: such as ``CreateJobQueue``.
        properties: with all references resolved.
    """
    shape = wire.model().operation_model(operation).input_shape
    found: Document = _shaped(shape, properties) if shape is not None else {}
    return found


def _shaped(shape: Any, value: Any) -> Any:
    if shape.type_name == "structure" and isinstance(value, Mapping):
        members = {name.lower(): name for name in shape.members}
        return {
            members[key.lower()]: _shaped(shape.members[members[key.lower()]], inner)
            for key, inner in value.items()
            if key.lower() in members
        }
    if shape.type_name == "list" and isinstance(value, str):
        # moto leaves the default of a CommaDelimitedList as it stands in the template.
        value = [part.strip() for part in value.split(",")]
    if shape.type_name == "list" and isinstance(value, list):
        return [_shaped(shape.member, inner) for inner in value]
    if shape.type_name == "map" and isinstance(value, Mapping):
        return {key: _shaped(shape.value, inner) for key, inner in value.items()}
    return _PLAIN.get(shape.type_name, _same)(value)


def _same(value: Any) -> Any:
    return value


def _number(value: Any) -> Any:
    try:
        return int(value)
    except (TypeError, ValueError):
        return value


def _fraction(value: Any) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def _truth(value: Any) -> Any:
    return {"true": True, "false": False}.get(str(value).lower(), value)


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (int, float)) else value


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "integer": _number,
    "long": _number,
    "float": _fraction,
    "double": _fraction,
    "boolean": _truth,
    "string": _text,
}


class _Resource:
    """What moto's classes for our types have in common."""

    kind: Kind
    cf_resource_type = ""
    logical_resource_id = ""

    def __init__(self, region: str, arn: str, name: str, properties: Mapping[str, Any]) -> None:
        self.region = region
        self.arn = arn
        self.name = name
        self.properties = dict(properties)

    @property
    def physical_resource_id(self) -> str:
        """What ``Ref`` gives."""
        return self.arn

    @classmethod
    def cloudformation_name_type(cls) -> str:
        return cls.kind.name_property

    @classmethod
    def cloudformation_type(cls) -> str:
        return f"AWS::Batch::{cls.kind.name}"

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return attr in cls.kind.attributes

    def get_cfn_attribute(self, attribute_name: str) -> str:
        from moto.cloudformation.exceptions import UnformattedGetAttTemplateException

        if attribute_name not in self.kind.attributes:
            raise UnformattedGetAttTemplateException
        return self.arn

    @classmethod
    def create_from_cloudformation_json(
        cls,
        resource_name: str,
        cloudformation_json: Mapping[str, Any],
        account_id: str,  # noqa: ARG003 — there is one account
        region_name: str,
        **_: Any,
    ) -> _Resource:
        kind, properties = cls.kind, cloudformation_json.get("Properties", {})
        name = str(properties.get(kind.name_property, resource_name))
        request = {**as_request(kind.create, properties), kind.name_member: name}
        answer = _call(region_name, kind.create, request)
        return cls(region_name, answer[kind.arn], name, properties)

    @classmethod
    def update_from_cloudformation_json(
        cls,
        original_resource: _Resource,
        new_resource_name: str,  # noqa: ARG003 — made up when the template gives none
        cloudformation_json: Mapping[str, Any],
        account_id: str,
        region_name: str,
    ) -> _Resource:
        kind, properties = cls.kind, cloudformation_json.get("Properties", {})
        name = str(properties.get(kind.name_property, original_resource.name))
        if name != original_resource.name or not kind.update:
            made = cls.create_from_cloudformation_json(
                name, cloudformation_json, account_id, region_name
            )
            original_resource.delete(account_id, region_name)
            return made
        request = _update(kind, original_resource.arn, properties)
        _call(region_name, kind.update, request)
        return cls(region_name, original_resource.arn, name, properties)

    def delete(self, account_id: str, region_name: str) -> None:  # noqa: ARG002
        kind, key = self.kind, {self.kind.key: self.arn}
        if kind.switched:
            _call(region_name, kind.update, {**key, "state": "DISABLED"})
        _call(region_name, kind.delete, key)
        if kind.describe is not None:
            _await_gone(region_name, kind.describe, self.arn)


def _update(kind: Kind, arn: str, properties: Mapping[str, Any]) -> Document:
    if kind.name == "ConsumableResource":
        return {kind.key: arn, "operation": "SET", "quantity": _number(properties["TotalQuantity"])}
    return {**as_request(kind.update, properties), kind.key: arn}


def _call(region: str, operation: str, request: Document) -> Document:
    from moto.cloudformation.exceptions import ValidationError

    try:
        request = wire.checked(operation, json.dumps(request).encode(), {}, {})
        return _asked.get()(region, operation, request)
    except BatchError as error:
        raise ValidationError(message=error.message) from None


def _await_gone(region: str, describe: tuple[str, str, str], arn: str) -> None:
    """Wait until a resource is gone, as CloudFormation does; others of the stack depend on it."""
    operation, member, answer = describe
    deadline = time.monotonic() + _DELETION_PATIENCE
    while time.monotonic() < deadline:
        found = _call(region, operation, {member: [arn]}).get(answer, [])
        if all(one.get("status") == "DELETED" for one in found):
            return
        time.sleep(0.02)


def _register() -> None:
    """Give moto our classes, once in a process."""
    with _registering:
        if _Registered.done:
            return
        from moto.cloudformation import parsing
        from moto.core.common_models import CloudFormationModel

        for kind in KINDS:
            make: Any = type(CloudFormationModel)
            make(f"Wherry{kind.name}", (_Resource, CloudFormationModel), {"kind": kind})
        for cached in (parsing.get_model_list, parsing.get_model_map, parsing.get_name_type_map):
            cached.cache_clear()
        _Registered.done = True


class _Registered:
    done = False
