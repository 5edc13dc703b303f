"""The items of a map: which of them are a child's, and reading only those."""

from __future__ import annotations

import struct

from . import values
from .faults import CorruptObject
from .formats import blob_key, pack_slot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .formats import Call
    from .objects import Objects

_SLOT = 8


def numbers_of(call: Call, child: int) -> list[int]:
    """Return the numbers of a child's items."""
    size = call.get("chunksize", 1) or 1
    indices = call.get("indices")
    if indices is not None:
        return indices[child * size : (child + 1) * size]
    return list(range(child * size, min((child + 1) * size, call["count"])))


def chunk(call: Call, child: int, objects: Objects) -> Sequence[tuple[int, Callable[[], Any]]]:
    """Return a child's items: their numbers, and what loads their arguments.

    Neighbours in the pack are read together.

    Raises:
        Fault: the pack cannot be read.
    """
    key = blob_key(call["items"]["blob"])
    made: list[tuple[int, Callable[[], Any]]] = []
    for first, count in _spans(numbers_of(call, child)):
        for place, record in enumerate(_records(objects, key, first, count)):
            made.append((first + place, _loader(record, call.get("python", ""))))
    return made


def _spans(numbers: list[int]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for number in numbers:
        if spans and number == sum(spans[-1]):
            spans[-1] = (spans[-1][0], spans[-1][1] + 1)
        else:
            spans.append((number, 1))
    return spans


def _records(objects: Objects, key: str, first: int, count: int) -> list[memoryview]:
    start, _ = pack_slot(first)
    slots = objects.read(key, start, start + _SLOT * (count + 1))
    if len(slots) != _SLOT * (count + 1):
        raise CorruptObject(f"{objects.url}/{key} is cut off: its index has no item {first}.")
    offsets = struct.unpack(f"<{count + 1}Q", slots)
    data = memoryview(bytearray(offsets[-1] - offsets[0]))
    objects.read_into(key, offsets[0], data)
    ends = [offset - offsets[0] for offset in offsets]
    return [data[ends[place] : ends[place + 1]] for place in range(count)]


def _loader(record: memoryview, python: str) -> Callable[[], Any]:
    return lambda: values.load(record, "the item's arguments", python)
