"""Records, packs and outcomes: what goes in comes out, and what is cut off is refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.worker import formats

buffers = st.lists(st.binary(max_size=50), max_size=5)


@given(head=st.binary(max_size=50), rest=buffers)
def test_a_record_is_taken_apart_as_it_was_made(head, rest):
    data = b"".join(formats.record_parts(head, rest))

    found, parts = formats.read_record(data)

    assert bytes(found) == head
    assert [bytes(part) for part in parts] == rest


@given(head=st.binary(min_size=1, max_size=20), rest=buffers, cut=st.integers(1, 60))
def test_a_record_that_is_cut_off_is_refused(head, rest, cut):
    data = b"".join(formats.record_parts(head, rest))

    with pytest.raises(ValueError, match="cut off"):
        formats.read_record(data[: max(len(data) - cut, 0)])


@given(records=st.lists(st.binary(max_size=30), min_size=1, max_size=20), data=st.data())
def test_an_item_of_a_pack_is_found_by_its_slot(records, data):
    pack = b"".join([formats.pack_index([len(record) for record in records]), *records])
    item = data.draw(st.integers(0, len(records) - 1))

    start, end = formats.pack_slot(item)
    first, last = struct.unpack("<QQ", pack[start:end])

    assert pack[first:last] == records[item]


@given(parts=buffers)
def test_an_outcome_is_taken_apart_as_it_was_made(parts):
    header = {"job": "j", "items": [], "parts": [len(part) for part in parts]}
    data = b"".join([formats.outcome_head(header), *parts])

    found, views = formats.read_outcome(data)

    assert found == header
    assert [bytes(view) for view in views] == parts


@given(parts=st.lists(st.binary(min_size=1, max_size=20), min_size=1), cut=st.integers(1, 30))
def test_an_outcome_that_is_cut_off_is_refused(parts, cut):
    header = {"job": "j", "items": [], "parts": [len(part) for part in parts]}
    data = b"".join([formats.outcome_head(header), *parts])

    with pytest.raises(ValueError, match=r"cut off|not an outcome"):
        formats.read_outcome(data[: max(len(data) - cut, 0)])
