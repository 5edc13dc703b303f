"""Operations of scheduling policies: fair share and quota share.

Refusals have the words that the service was seen to use (badmintoncryer/cdk-preflight, rules
``batch-sp-*``) where they are known.
"""

from __future__ import annotations

import re

from wherry.emulator.batch import arns, limits
from wherry.emulator.batch.catalog import Catalog
from wherry.emulator.batch.errors import ClientError, refuse
from wherry.emulator.batch.paging import answer, known
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import SchedulingPolicy

_KINDS = ("fairsharePolicy", "quotaSharePolicy")
_SHARE_OR_PREFIX = re.compile(rf"[A-Za-z0-9_-]{{1,{limits.SHARE_LENGTH}}}\*?\Z")


def create(catalog: Catalog, request: Document) -> Document:
    """CreateSchedulingPolicy."""
    name = request["name"]
    limits.check_name("Scheduling policy", name)
    limits.check_tags(request.get("tags", {}))
    arn = catalog.arn(arns.POLICY, name)
    refuse(catalog.find_policy(arn) is not None, "Object already exists")
    document = _document(request) or {"fairsharePolicy": {}}
    catalog.keep(SchedulingPolicy(name, arn, document, dict(request.get("tags", {}))))
    return {"name": name, "arn": arn}


def update(catalog: Catalog, request: Document) -> Document:
    """UpdateSchedulingPolicy: the whole policy is replaced; its kind stays."""
    found = catalog.policy(request["arn"])
    document = _document(request)
    refuse(
        bool(document) and set(document) != set(found.document),
        "The type of a scheduling policy cannot be changed.",
    )
    found.document = document or found.document
    catalog.keep(found)
    return {}


def delete(catalog: Catalog, request: Document) -> Document:
    """DeleteSchedulingPolicy."""
    found = catalog.policy(request["arn"])
    if any(queue.scheduling_policy_arn == found.arn for queue in catalog.queues()):
        raise ClientError("Cannot delete, found existing JobQueue relationship")
    catalog.remove(found)
    return {}


def describe(catalog: Catalog, request: Document) -> Document:
    """DescribeSchedulingPolicies. Unknown ARNs are silently absent."""
    limits.check_count("scheduling policies", request["arns"], limits.DESCRIBED)
    return known("schedulingPolicies", request["arns"], catalog.find_policy, _shown)


def list_(catalog: Catalog, request: Document) -> Document:
    """ListSchedulingPolicies."""
    return answer(
        "schedulingPolicies",
        catalog.policies(),
        lambda each: each.arn,
        lambda each: {"arn": each.arn},
        request,
    )


def _shown(policy: SchedulingPolicy) -> Document:
    head = {"name": policy.name, "arn": policy.arn, "tags": dict(policy.tags)}
    return {**head, **policy.document}


def _document(request: Document) -> Document:
    document = {kind: request[kind] for kind in _KINDS if kind in request}
    refuse(
        len(document) > 1, "A scheduling policy can have either fairsharePolicy or quotaSharePolicy"
    )
    _check_fair_share(document.get("fairsharePolicy", {}))
    return document


def _check_fair_share(policy: Document) -> None:
    limits.check_range(
        "shareDecaySeconds", policy.get("shareDecaySeconds"), *limits.SHARE_DECAY_SECONDS
    )
    limits.check_range(
        "computeReservation", policy.get("computeReservation"), *limits.COMPUTE_RESERVATION
    )
    shares = policy.get("shareDistribution", [])
    refuse(
        len(shares) > limits.SHARES,
        f"ShareDistribution size cannot be greater than {limits.SHARES}.",
    )
    least, most = limits.WEIGHT
    for share in shares:
        refuse(
            not _SHARE_OR_PREFIX.match(share["shareIdentifier"]),
            "ShareIdentifier name should match a valid pattern.",
        )
        refuse(
            not least <= share.get("weightFactor", 1.0) <= most,
            f"Weight factor should be between {least} and {most}.",
        )
    _check_overlaps([share["shareIdentifier"] for share in shares])


def _check_overlaps(names: list[str]) -> None:
    refuse(len(set(names)) < len(names), "Cannot have two or more identical shareIdentifiers.")
    for prefix in (name for name in names if name.endswith("*")):
        for name in names:
            refuse(
                name != prefix and name.startswith(prefix[:-1]),
                f"Share identifier {name} matches another share identifier {prefix}",
            )
