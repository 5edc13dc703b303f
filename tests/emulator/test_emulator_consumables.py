"""Consumable resources."""

from __future__ import annotations

from typing import Any

import pytest

from support.emulated import MemoryArchive, World
from support.emulator_api import REGION, Api, arn
from wherry.emulator.batch import consumables
from wherry.emulator.batch.catalog import Catalog
from wherry.emulator.batch.errors import ClientError
from wherry.emulator.batch.records import ConsumableResource
from wherry.emulator.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(wall=lambda: 1_000_000_000.0, monotonic=lambda: 0.0)


@pytest.fixture
def api(clock) -> Api:
    made = Api(Catalog(REGION, clock))
    made("CreateConsumableResource", consumableResourceName="licence", totalQuantity=10)
    return made


def update(api: Api, operation: str, quantity: int, **more: str) -> int:
    answer = api(
        "UpdateConsumableResource",
        consumableResource="licence",
        operation=operation,
        quantity=quantity,
        **more,
    )
    return int(answer["totalQuantity"])


def test_a_resource_is_shown_with_what_is_in_use_and_what_is_left(api):
    api.catalog.consumable("licence").in_use = 4

    shown = api("DescribeConsumableResource", consumableResource="licence")

    assert shown == {
        "consumableResourceName": "licence",
        "consumableResourceArn": arn("consumable-resource", "licence"),
        "totalQuantity": 10,
        "inUseQuantity": 4,
        "availableQuantity": 6,
        "resourceType": "REPLENISHABLE",
        "createdAt": 1_000_000_000_000,
        "tags": {},
    }


def test_quantities_are_set_added_to_and_removed_from(api):
    assert update(api, "SET", 5) == 5
    assert update(api, "ADD", 3) == 8
    assert update(api, "REMOVE", 8) == 0


def test_more_than_there_is_cannot_be_removed(api):
    with pytest.raises(ClientError, match="cannot be a negative number"):
        update(api, "REMOVE", 11)

    assert update(api, "ADD", 0) == 10


def test_the_same_request_with_the_same_token_acts_once(api):
    assert update(api, "ADD", 5, clientToken="t") == 15
    assert update(api, "ADD", 5, clientToken="t") == 15
    assert update(api, "ADD", 5, clientToken="u") == 20


def test_a_token_with_another_request_is_refused(api):
    update(api, "ADD", 5, clientToken="t")

    with pytest.raises(ClientError, match="clientToken was used before"):
        update(api, "ADD", 6, clientToken="t")


def test_a_token_is_forgotten_after_eight_hours(api, clock):
    update(api, "ADD", 5, clientToken="t")
    clock.advance(8 * 3600)

    assert update(api, "ADD", 5, clientToken="t") == 20


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"operation": "DOUBLE", "quantity": 1}, r"one of \[SET, ADD, REMOVE\]"),
        ({"quantity": 1}, r"one of \[SET, ADD, REMOVE\]"),
        ({"operation": "SET"}, "quantity is required"),
        ({"operation": "SET", "quantity": -1}, "cannot be a negative number"),
    ],
)
def test_updates_are_checked(api, request_, words):
    with pytest.raises(ClientError, match=words):
        api("UpdateConsumableResource", consumableResource="licence", **request_)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"resourceType": "ENDLESS"}, "resourceType must be one of"),
        ({"totalQuantity": -1}, r"totalQuantity cannot be a negative number\."),
        ({"consumableResourceName": "licence"}, "Object already exists"),
    ],
)
def test_new_resources_are_checked(api, request_, words):
    with pytest.raises(ClientError, match=words):
        api("CreateConsumableResource", **{"consumableResourceName": "new", **request_})


@pytest.mark.parametrize(
    ("values", "listed"),
    [
        (["LICENCE"], ["licence"]),
        (["lic*"], ["licence", "licence2"]),
        (["token", "licence2"], ["licence2", "token"]),
        (["lic"], []),
    ],
)
def test_the_list_can_be_narrowed_by_name_in_any_case(api, values, listed):
    for name in ("licence2", "token"):
        api("CreateConsumableResource", consumableResourceName=name)

    narrowed = {"name": "CONSUMABLE_RESOURCE_NAME", "values": values}
    answer = api("ListConsumableResources", filters=[narrowed])

    names = [each["consumableResourceName"] for each in answer["consumableResources"]]
    assert names == listed


def test_an_unknown_filter_is_refused(api):
    with pytest.raises(ClientError, match="Invalid filter COLOUR"):
        api("ListConsumableResources", filters=[{"name": "COLOUR", "values": ["red"]}])


def test_a_resource_that_jobs_ask_for_cannot_be_deleted(api):
    api.catalog.in_use = lambda asked: asked == arn("consumable-resource", "licence")
    with pytest.raises(ClientError, match="in use by jobs"):
        api("DeleteConsumableResource", consumableResource="licence")
    api.catalog.in_use = lambda asked: False

    api("DeleteConsumableResource", consumableResource=arn("consumable-resource", "licence"))

    with pytest.raises(ClientError, match="ConsumableResource licence does not exist"):
        api("DescribeConsumableResource", consumableResource="licence")


# -- jobs that use them up


def using(world: World, name: str, quantity: int, **more: Any) -> str:
    asked = {"consumableResourceList": [{"consumableResource": name, "quantity": quantity}]}
    return world.submit(consumableResourcePropertiesOverride=asked, **more)


def stock(world: World, kind: str) -> ConsumableResource:
    made = ConsumableResource("stock", world.catalog.arn("consumable-resource", "stock"), kind, 3)
    world.catalog.keep(made)
    world.placement.changed()
    return made


def amounts(world: World) -> tuple[int, int]:
    shown = consumables.describe(world.catalog, {"consumableResource": "stock"})
    return shown["inUseQuantity"], shown["availableQuantity"]


def test_what_is_replenished_comes_back_when_its_job_ends():
    world = World()
    stock(world, "REPLENISHABLE")
    job = using(world, "stock", 2)
    assert amounts(world) == (2, 1)

    world.run(job)

    assert amounts(world) == (0, 3)


def test_what_is_used_up_stays_so_and_can_be_deleted_once_its_jobs_have_ended():
    world = World()
    arn = stock(world, "NON_REPLENISHABLE").arn
    job, waiting = using(world, "stock", 2), using(world, "stock", 2)
    world.run(job)
    assert amounts(world) == (2, 1)
    with pytest.raises(ClientError, match="in use by jobs"):
        consumables.delete(world.catalog, {"consumableResource": arn})

    world.call("TerminateJob", jobId=waiting, reason="x")
    consumables.delete(world.catalog, {"consumableResource": arn})

    assert world.catalog.find_consumable("stock") is None


@pytest.mark.parametrize(
    ("kind", "after"), [("REPLENISHABLE", (0, 3)), ("NON_REPLENISHABLE", (2, 1))]
)
def test_a_restart_frees_what_is_replenished_and_nothing_else(kind, after):
    archive = MemoryArchive()
    world = World(archive=archive)
    stock(world, kind)
    world.begin(using(world, "stock", 2))
    world.catalog.keep(world.catalog.consumable("stock"))

    again = World(archive=archive, clock=world.clock)

    assert amounts(again) == after
