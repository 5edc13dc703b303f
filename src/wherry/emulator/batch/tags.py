"""Operations of tags, for all that has an ARN and may have tags."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from wherry.emulator.batch import arns, limits
from wherry.emulator.batch.catalog import Catalog
from wherry.emulator.batch.errors import ClientError, refuse
from wherry.emulator.batch.ports import Document


class _Tagged(Protocol):
    tags: dict[str, str]


_FINDERS: dict[str, Callable[[Catalog, str], _Tagged]] = {
    arns.QUEUE: Catalog.queue,
    arns.ENVIRONMENT: Catalog.environment,
    arns.POLICY: Catalog.policy,
    arns.CONSUMABLE: Catalog.consumable,
    arns.SERVICE_ENVIRONMENT: Catalog.service_environment,
    arns.QUOTA_SHARE: Catalog.quota_share,
}


def list_(catalog: Catalog, request: Document) -> Document:
    """ListTagsForResource."""
    return {"tags": _read(catalog, request["resourceArn"])}


def tag(catalog: Catalog, request: Document) -> Document:
    """TagResource: tags that are not named stay."""
    arn = request["resourceArn"]
    limits.check_tags(request["tags"])
    after = {**_read(catalog, arn), **request["tags"]}
    limits.check_tags(after)
    _write(catalog, arn, after)
    return {}


def untag(catalog: Catalog, request: Document) -> Document:
    """UntagResource: keys that are not there are ignored."""
    arn, keys = request["resourceArn"], request["tagKeys"]
    refuse(not 1 <= len(keys) <= limits.TAGS, f"tagKeys should have 1 to {limits.TAGS} members")
    before = _read(catalog, arn)
    _write(catalog, arn, {key: value for key, value in before.items() if key not in keys})
    return {}


def _read(catalog: Catalog, arn: str) -> dict[str, str]:
    if arns.kind_of(arn) != arns.JOB:
        return dict(_resource(catalog, arn).tags)
    _refuse_children(arn)
    tags = catalog.job_tags(arn, None)
    if tags is None:
        raise ClientError(f"Job {arn} not found.")
    return dict(tags)


def _write(catalog: Catalog, arn: str, tags: dict[str, str]) -> None:
    if arns.kind_of(arn) == arns.JOB:
        catalog.job_tags(arn, tags)
        return
    resource = _resource(catalog, arn)
    resource.tags = tags
    catalog.keep(resource)


def _resource(catalog: Catalog, arn: str) -> _Tagged:
    kind = arns.kind_of(arn)
    if kind == arns.DEFINITION:
        definition = catalog.find_definition(arn) if ":" in arns.name_of(arn) else None
        if definition is None:
            raise ClientError(f"JobDefinition {arn} not found.")
        return definition
    finder = _FINDERS.get(kind)
    if finder is None:
        raise ClientError(f"Resource ARN {arn} is not valid.")
    return finder(catalog, arn)


def _refuse_children(arn: str) -> None:
    name = arns.name_of(arn)
    refuse(
        ":" in name or "#" in name,
        "Tags of child jobs of array and multi-node parallel (MNP) jobs are not supported.",
    )
