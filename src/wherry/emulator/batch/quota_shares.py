"""Operations of quota shares: virtual queues with a capacity of their own.

They are kept and shown. As they only go with queues of SageMaker training jobs, of which the
emulator has none, nothing runs in them.
"""

from __future__ import annotations

from wherry.emulator.batch import limits
from wherry.emulator.batch.catalog import Catalog
from wherry.emulator.batch.errors import ClientError, refuse
from wherry.emulator.batch.paging import answer
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import QuotaShare

_MEMBERS = ("capacityLimits", "resourceSharingConfiguration", "preemptionConfiguration")
_UNLIMITED = -1


def create(catalog: Catalog, request: Document) -> Document:
    """CreateQuotaShare."""
    name = request["quotaShareName"]
    limits.check_name("Quota share", name)
    limits.check_tags(request.get("tags", {}))
    queue = catalog.queue(request["jobQueue"])
    policy = catalog.find_policy(queue.scheduling_policy_arn)
    refuse(
        policy is None or "quotaSharePolicy" not in policy.document,
        f"JobQueue {queue.name} does not have a quota share scheduling policy.",
    )
    _check(request)
    arn = f"{queue.arn}/quota-share/{name}"
    shares = list(catalog.quota_shares(queue.arn))
    refuse(any(share.arn == arn for share in shares), "Object already exists")
    most = limits.QUOTA_SHARES_PER_QUEUE
    refuse(len(shares) >= most, f"Maximum number of quota shares of a job queue is {most}")
    document = {member: request[member] for member in _MEMBERS}
    state, tags = request.get("state", "ENABLED"), dict(request.get("tags", {}))
    catalog.keep(QuotaShare(name, arn, queue.arn, document, state, tags))
    return {"quotaShareName": name, "quotaShareArn": arn}


def update(catalog: Catalog, request: Document) -> Document:
    """UpdateQuotaShare."""
    found = catalog.quota_share(request["quotaShareArn"])
    given = {member: request[member] for member in _MEMBERS if member in request}
    document = {**found.document, **given}
    _check(document)
    found.document, found.state = document, request.get("state", found.state)
    catalog.keep(found)
    return {"quotaShareName": found.name, "quotaShareArn": found.arn}


def delete(catalog: Catalog, request: Document) -> Document:
    """DeleteQuotaShare."""
    found = catalog.quota_share(request["quotaShareArn"])
    if found.state != "DISABLED":
        raise ClientError("Cannot delete, QuotaShare must be in DISABLED state")
    catalog.remove(found)
    return {}


def describe(catalog: Catalog, request: Document) -> Document:
    """DescribeQuotaShare."""
    found = catalog.quota_share(request["quotaShareArn"])
    return {**_shown(found), "tags": dict(found.tags)}


def list_(catalog: Catalog, request: Document) -> Document:
    """ListQuotaShares."""
    queue = catalog.queue(request["jobQueue"])
    shares = catalog.quota_shares(queue.arn)
    return answer("quotaShares", shares, lambda each: each.arn, _shown, request)


def _shown(share: QuotaShare) -> Document:
    return {
        "quotaShareName": share.name,
        "quotaShareArn": share.arn,
        "jobQueueArn": share.queue_arn,
        "state": share.state,
        "status": "VALID",
        **share.document,
    }


def _check(document: Document) -> None:
    refuse(not document["capacityLimits"], "Capacitylimits are required.")
    units = [limit["capacityUnit"] for limit in document["capacityLimits"]]
    refuse(len(set(units)) < len(units), "Duplicate capacityUnit in capacityLimits.")
    for limit in document["capacityLimits"]:
        refuse(limit["maxCapacity"] < 0, "Max capacity must not be negative.")
    sharing = document["resourceSharingConfiguration"]
    borrow = sharing.get("borrowLimit", _UNLIMITED)
    refuse(borrow < _UNLIMITED, "borrowLimit must be -1 or more.")
    refuse(
        "borrowLimit" in sharing and sharing["strategy"] != "LEND_AND_BORROW",
        "borrowLimit can only be applied with the strategy LEND_AND_BORROW.",
    )
