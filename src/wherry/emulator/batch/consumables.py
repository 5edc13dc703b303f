"""Operations of consumable resources: licences, tokens and whatever else jobs count on.

How much is in use is counted by whoever places jobs.
"""

from __future__ import annotations

from collections.abc import Callable

from wherry.emulator.batch import arns, limits
from wherry.emulator.batch.catalog import Catalog
from wherry.emulator.batch.errors import ClientError, RefusedError, refuse
from wherry.emulator.batch.paging import answer
from wherry.emulator.batch.patterns import fits_any_case
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import NON_REPLENISHABLE, REPLENISHABLE, ConsumableResource

TYPES = (REPLENISHABLE, NON_REPLENISHABLE)
TOKEN_SECONDS = 8 * 3600
"""How long a client token is remembered; model: UpdateConsumableResourceRequest.clientToken."""

_FILTER = "CONSUMABLE_RESOURCE_NAME"


def create(catalog: Catalog, request: Document) -> Document:
    """CreateConsumableResource."""
    name = request["consumableResourceName"]
    kind = request.get("resourceType", REPLENISHABLE)
    total = request.get("totalQuantity", 0)
    limits.check_name("ConsumableResource", name)
    limits.check_tags(request.get("tags", {}))
    refuse(kind not in TYPES, f"resourceType must be one of [{', '.join(TYPES)}].")
    refuse(total < 0, "totalQuantity cannot be a negative number.")
    refuse(catalog.find_consumable(name) is not None, "Object already exists")
    refuse(
        catalog.count("consumable") >= limits.CONSUMABLE_RESOURCES,
        f"Maximum number of consumable resources supported is {limits.CONSUMABLE_RESOURCES}",
    )
    made = ConsumableResource(
        name=name,
        arn=catalog.arn(arns.CONSUMABLE, name),
        type=kind,
        total=total,
        created_at=catalog.clock.now_ms(),
        tags=dict(request.get("tags", {})),
    )
    catalog.keep(made)
    return {"consumableResourceName": name, "consumableResourceArn": made.arn}


def update(catalog: Catalog, request: Document) -> Document:
    """UpdateConsumableResource. The same request with the same client token acts once."""
    found = catalog.consumable(request["consumableResource"])
    operation, quantity = request.get("operation"), request.get("quantity")
    refuse(operation not in _OPERATIONS, "operation must be one of [SET, ADD, REMOVE].")
    refuse(quantity is None, "quantity is required.")
    refuse((quantity or 0) < 0, "quantity cannot be a negative number.")
    if not _is_repeated(catalog, found, request):
        total = _OPERATIONS[str(operation)](found.total, quantity or 0)
        refuse(total < 0, "totalQuantity cannot be a negative number.")
        _remember(catalog, found, request)
        found.total = total
        catalog.keep(found)
    return {
        "consumableResourceName": found.name,
        "consumableResourceArn": found.arn,
        "totalQuantity": found.total,
    }


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "SET": lambda _total, quantity: quantity,
    "ADD": lambda total, quantity: total + quantity,
    "REMOVE": lambda total, quantity: total - quantity,
}


def delete(catalog: Catalog, request: Document) -> Document:
    """DeleteConsumableResource. Refused while jobs ask for it, so that none waits for ever."""
    found = catalog.consumable(request["consumableResource"])
    if catalog.in_use(found.arn):
        raise ClientError(f"Cannot delete, ConsumableResource {found.name} is in use by jobs")
    catalog.remove(found)
    return {}


def describe(catalog: Catalog, request: Document) -> Document:
    """DescribeConsumableResource."""
    found = catalog.consumable(request["consumableResource"])
    return {
        **_summary(found),
        "availableQuantity": max(0, found.total - found.in_use),
        "createdAt": found.created_at,
        "tags": dict(found.tags),
    }


def list_(catalog: Catalog, request: Document) -> Document:
    """ListConsumableResources."""
    wanted = [_wanted(each) for each in request.get("filters", [])]
    found = (
        each
        for each in catalog.consumables()
        if all(any(fits_any_case(value, each.name) for value in values) for values in wanted)
    )
    return answer("consumableResources", found, lambda each: each.name, _summary, request)


def _summary(consumable: ConsumableResource) -> Document:
    return {
        "consumableResourceName": consumable.name,
        "consumableResourceArn": consumable.arn,
        "totalQuantity": consumable.total,
        "inUseQuantity": consumable.in_use,
        "resourceType": consumable.type,
    }


def _wanted(condition: Document) -> list[str]:
    if condition.get("name") != _FILTER:
        raise RefusedError(f"Invalid filter {condition.get('name')}. Valid filters: [{_FILTER}]")
    return list(condition.get("values", []))


# -- client tokens --------------------------------------------------------------------------------


def _is_repeated(catalog: Catalog, found: ConsumableResource, request: Document) -> bool:
    known = catalog.client_tokens.get((found.arn, request.get("clientToken", "")))
    if known is None or known[1] <= catalog.clock.now_ms():
        return False
    refuse(
        known[0] != _payload(request),
        "clientToken was used before with other parameters.",
    )
    return True


def _remember(catalog: Catalog, found: ConsumableResource, request: Document) -> None:
    now = catalog.clock.now_ms()
    tokens = catalog.client_tokens
    for key in [key for key, (_, until) in tokens.items() if until <= now]:
        del tokens[key]
    if request.get("clientToken"):
        key = (found.arn, request["clientToken"])
        tokens[key] = (_payload(request), now + TOKEN_SECONDS * 1000)


def _payload(request: Document) -> object:
    return (request.get("operation"), request.get("quantity"))
