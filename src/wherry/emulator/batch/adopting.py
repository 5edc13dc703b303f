"""Taking over resources that were made elsewhere: by a CloudFormation stack, say.

Whoever made them has checked them, by other rules than ours; so nothing is refused here for its
values, and what is known already is brought up to date.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wherry.emulator.batch import arns, definitions, environments, queues
from wherry.emulator.batch.catalog import Catalog
from wherry.emulator.batch.errors import ClientError
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import (
    REPLENISHABLE,
    ComputeEnvironment,
    ConsumableResource,
    JobDefinition,
    JobQueue,
    SchedulingPolicy,
)


def adopt(catalog: Catalog, kind: str, document: Document, arn: str) -> Any:
    """Keep a resource that exists already; see `Catalog.adopt`."""
    adopter = _ADOPTERS.get(kind)
    if adopter is None:
        raise ClientError(f"cannot adopt {kind!r}; known: {', '.join(_ADOPTERS)}")
    record = adopter(catalog, document, arn)
    catalog.keep(record)
    return record


def _environment(catalog: Catalog, document: Document, arn: str) -> ComputeEnvironment:
    name = arns.name_of(arn)
    known = catalog.find_environment(name)
    uuid = known.uuid if known else str(document.get("uuid") or "")
    request = {"type": "MANAGED", **document, "computeEnvironmentName": name}
    made = environments.make(catalog.region, request, arn, uuid)
    made.ecs_cluster_arn = document.get("ecsClusterArn") or made.ecs_cluster_arn
    return made


def _queue(catalog: Catalog, document: Document, arn: str) -> JobQueue:
    order = sorted(document.get("computeEnvironmentOrder", []), key=lambda each: int(each["order"]))
    places = [each["computeEnvironment"] for each in order]
    name = arns.name_of(arn)
    known = catalog.find_queue(name)
    return JobQueue(
        name=name,
        arn=arn,
        priority=int(document.get("priority", 1)),
        environments=[_environment_arn(catalog, place) for place in places],
        orders=queues.orders_of(order),
        state=document.get("state") or "ENABLED",
        scheduling_policy_arn=document.get("schedulingPolicyArn") or "",
        type=document.get("jobQueueType") or (known.type if known else ""),
        time_limits=list(document.get("jobStateTimeLimitActions", [])),
        tags=_tags(document),
    )


def _environment_arn(catalog: Catalog, place: str) -> str:
    return place if arns.is_arn(place) else catalog.arn(arns.ENVIRONMENT, place)


def _definition(catalog: Catalog, document: Document, arn: str) -> JobDefinition:
    name, _, revision = arns.name_of(arn).rpartition(":")
    known = catalog.find_definition(arn)
    request = {
        member: value
        for member, value in document.items()
        if member not in ("jobDefinitionArn", "revision", "status")
    }
    return JobDefinition(
        name=name,
        revision=int(revision),
        arn=arn,
        document=definitions.document_of({"type": "container", **request}),
        status=document.get("status") or "ACTIVE",
        deregistered_at=_deregistered(catalog, document, known),
        tags=_tags(document),
    )


def _deregistered(
    catalog: Catalog, document: Document, known: JobDefinition | None
) -> float | None:
    if document.get("status", "ACTIVE") == "ACTIVE":
        return None
    if known is not None and known.deregistered_at is not None:
        return known.deregistered_at
    return catalog.clock.now()


def _policy(_catalog: Catalog, document: Document, arn: str) -> SchedulingPolicy:
    kinds = ("fairsharePolicy", "quotaSharePolicy")
    kept = {kind: document[kind] for kind in kinds if document.get(kind) is not None}
    return SchedulingPolicy(
        arns.name_of(arn), arn, kept or {"fairsharePolicy": {}}, _tags(document)
    )


def _consumable(catalog: Catalog, document: Document, arn: str) -> ConsumableResource:
    name = arns.name_of(arn)
    known = catalog.find_consumable(name)
    return ConsumableResource(
        name=name,
        arn=arn,
        type=document.get("resourceType") or REPLENISHABLE,
        total=int(document.get("totalQuantity", 0)),
        in_use=known.in_use if known else 0,
        created_at=known.created_at if known else catalog.clock.now_ms(),
        tags=_tags(document),
    )


def _tags(document: Document) -> dict[str, str]:
    return dict(document.get("tags") or {})


_ADOPTERS: dict[str, Callable[[Catalog, Document, str], Any]] = {
    "environment": _environment,
    "queue": _queue,
    "definition": _definition,
    "policy": _policy,
    "consumable": _consumable,
}
