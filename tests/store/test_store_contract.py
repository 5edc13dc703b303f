"""What every kind of store promises."""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from wherry.errors import CorruptObjectError, MissingObjectError, StoreError
from wherry.store.api import Store

MIB = 1 << 20


def keys(store: Store, prefix: str = "") -> list[str]:
    return [found.key for found in store.list(prefix)]


def test_an_object_comes_back_as_it_was_stored(store: Store) -> None:
    store.write("jobs/one/call.json", [b"hello, ", bytearray(b"wor"), memoryview(b"ld")])

    assert store.read("jobs/one/call.json") == b"hello, world"


@pytest.mark.parametrize("parts", [[], [b""], [b"", memoryview(b""), b""]])
def test_an_object_may_be_empty(store: Store, parts: list[bytes]) -> None:
    store.write("empty", parts)

    found = store.head("empty")
    assert store.read("empty") == b""
    assert store.read("empty", 0, 10) == b""
    assert found is not None
    assert found.size == 0
    store.read_into("empty", 0, memoryview(bytearray()))


def test_another_object_takes_the_place_of_the_first(store: Store) -> None:
    store.write("k", [b"a longer one"])
    store.write("k", [b"short"])

    assert store.read("k") == b"short"


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (0, None),
        (3, None),
        (2, 5),
        (0, 1),
        (9, 10),
        (5, 100),
        (4, 4),
        (20, 30),
        (10, None),
        (12, None),
    ],
)
def test_a_range_is_what_a_slice_would_be(store: Store, start: int, end: int | None) -> None:
    store.write("ten", [b"0123456789"])

    assert store.read("ten", start, end) == b"0123456789"[start:end]


def test_a_range_of_an_empty_object_is_empty(store: Store) -> None:
    store.write("empty", [b""])

    assert [store.read("empty", 0, 5), store.read("empty", 1)] == [b"", b""]


def test_a_buffer_is_filled_from_a_place_on(store: Store) -> None:
    store.write("ten", [b"0123456789"])
    buffer = bytearray(4)

    store.read_into("ten", 3, memoryview(buffer))

    assert buffer == b"3456"


def test_a_buffer_of_other_items_is_filled(store: Store) -> None:
    store.write("numbers", [memoryview(b"\1\0\0\0\2\0\0\0")])
    buffer = memoryview(bytearray(8)).cast("I")

    store.read_into("numbers", 0, buffer)

    assert buffer.tolist() == [1, 2]


@pytest.mark.parametrize("size", [8, 9 * MIB])
def test_an_object_that_is_too_short_for_the_buffer_is_corrupt(store: Store, size: int) -> None:
    store.write("short", [b"0123456789"])

    with pytest.raises(CorruptObjectError, match=r"/short is cut off: .* from 5 on.*there are 5"):
        store.read_into("short", 5, memoryview(bytearray(size)))


def test_what_is_not_there_is_missing(store: Store, tmp_path: Path) -> None:
    store.write("there", [b"x"])

    assert store.head("nowhere") is None
    for ask in (
        lambda: store.read("nowhere"),
        lambda: store.read("nowhere", 2, 5),
        lambda: store.read("nowhere", 2, 2),
        lambda: store.read_into("nowhere", 0, memoryview(bytearray(3))),
        lambda: store.read_into("nowhere", 0, memoryview(bytearray(9 * MIB))),
        lambda: store.read_file("nowhere", str(tmp_path / "out")),
    ):
        with pytest.raises(MissingObjectError, match="nowhere"):
            ask()
    assert not (tmp_path / "out").exists()


def test_a_store_with_nothing_in_it_is_empty(store: Store) -> None:
    assert keys(store) == []
    assert store.head("x") is None
    store.delete(["x", "y/z"])


def test_an_object_knows_its_size_and_its_time(store: Store) -> None:
    before = time.time()
    store.write("k", [b"12345"])

    found = store.head("k")

    assert found is not None
    assert (found.key, found.size) == ("k", 5)
    assert before - 2 < found.modified < time.time() + 2
    (listed,) = store.list()
    assert listed.size == 5
    assert abs(listed.modified - found.modified) < 1.1


def test_a_list_has_the_keys_that_begin_so_in_their_order(store: Store) -> None:
    names = [
        "a/b",
        "a.b",
        "a-b",
        "a/b-c",
        "a/c/d",
        "ab/c",
        "b",
        "jobs/1/out/0",
        "jobs/1/out/10",
        "jobs/1/out/9",
    ]
    for name in random.sample(names, len(names)):
        store.write(name, [name.encode()])

    assert keys(store) == sorted(names)
    assert keys(store, "a") == ["a-b", "a.b", "a/b", "a/b-c", "a/c/d", "ab/c"]
    assert keys(store, "a/") == ["a/b", "a/b-c", "a/c/d"]
    assert keys(store, "a/b") == ["a/b", "a/b-c"]
    assert keys(store, "jobs/1/out/") == ["jobs/1/out/0", "jobs/1/out/10", "jobs/1/out/9"]
    assert keys(store, "jobs/1/out/1") == ["jobs/1/out/10"]
    assert keys(store, "c") == []


@pytest.mark.parametrize(
    "key",
    [
        "with space",
        "plus+=&?#%41",
        "ünï/çode",
        "~a(b)[c]{d}",
        "'quoted\"",
        "back\\slash",
        "a/.b/..c",
        "x" * 200,
    ],
)
def test_a_key_may_have_all_letters(store: Store, key: str) -> None:
    store.write(key, [b"x"])

    assert store.read(key) == b"x"
    assert keys(store) == [key]
    assert list(store.read_many([key])) == [(key, b"x")]
    store.delete([key])
    assert keys(store) == []


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("", "empty"),
        ("/etc/passwd", "empty part"),
        ("a//b", "empty part"),
        ("a/", "empty part"),
        ("../x", "'..'"),
        ("a/../../x", "'..'"),
        ("a/./b", "'.'"),
        ("a\0b", "control"),
        ("a\nb", "control"),
        ("x" * 231, "230"),
        ("x/" * 600 + "x", "1,024"),
        ("\udcff", "Unicode"),
        ("out/0.12.0a1b2c3d.part", "written"),
    ],
)
def test_a_key_that_is_none_is_refused(store: Store, key: str, why: str) -> None:
    for ask in (
        lambda: store.read(key),
        lambda: store.write(key, [b""]),
        lambda: store.write_new(key, [b""]),
        lambda: store.head(key),
        lambda: store.delete([key]),
        lambda: list(store.read_many([key])),
    ):
        with pytest.raises(StoreError, match=why):
            ask()


def test_only_the_first_stores_a_new_object(store: Store) -> None:
    assert store.write_new("claim", [b"mine"])
    assert not store.write_new("claim", [b"yours"])

    assert store.read("claim") == b"mine"
    store.delete(["claim"])
    assert store.write_new("claim", [b"yours"])


def test_a_large_new_object_is_stored_once(store: Store) -> None:
    body = os.urandom(9 * MIB)

    assert store.write_new("large", [body[:100], memoryview(body)[100:]])
    assert not store.write_new("large", [b"x" * 10 * MIB])

    assert store.read("large") == body


def test_what_is_deleted_is_gone_and_the_rest_stays(store: Store) -> None:
    for number in range(5):
        store.write(f"d/{number}", [b"x"])

    store.delete(f"d/{number}" for number in (0, 2, 4, 7))

    assert keys(store) == ["d/1", "d/3"]


def test_many_small_objects_come_as_they_arrive(store: Store) -> None:
    bodies = {f"many/{number}": os.urandom(number) for number in range(120)}
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.write(key, [bodies[key]]), bodies))

    found = dict(store.read_many([*bodies, "many/none", "none"]))

    assert found == {**bodies, "many/none": None, "none": None}


def test_keys_are_read_as_they_are_needed(store: Store) -> None:
    store.write("k", [b"x"])
    taken = []

    def endless() -> object:
        for number in range(1_000_000):
            taken.append(number)
            yield "k"

    found = store.read_many(endless())
    assert [next(found) for _ in range(10)] == [("k", b"x")] * 10
    found.close()

    assert len(taken) < 2_000
    assert not [thread for thread in threading.enumerate() if thread.name == "wherry-gather"]


def test_a_failure_of_the_keys_is_the_callers(store: Store) -> None:
    def broken() -> object:
        yield "k"
        raise RuntimeError("no more keys")

    with pytest.raises(RuntimeError, match="no more keys"):
        list(store.read_many(broken()))


def test_64_mib_go_up_and_down(store: Store, tmp_path: Path) -> None:
    body = random.Random(1).randbytes(MIB) * 64
    view = memoryview(body)
    cuts = [0, 1, 7, 100, 5 * MIB, 20 * MIB + 3, 20 * MIB + 5, 50 * MIB, len(body)]

    store.write("big", [view[start:end] for start, end in itertools.pairwise(cuts)])

    assert store.read("big") == body
    buffer = bytearray(len(body) - 10)
    store.read_into("big", 10, memoryview(buffer))
    assert buffer == body[10:]
    assert store.read("big", 3 * MIB, 30 * MIB) == body[3 * MIB : 30 * MIB]
    assert store.read("big", 60 * MIB) == body[60 * MIB :]
    store.read_file("big", str(tmp_path / "file"))
    assert (tmp_path / "file").read_bytes() == body
    store.write_file("again", str(tmp_path / "file"))
    assert store.read("again") == body


def test_a_small_file_goes_up_and_down(store: Store, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"hello")
    (tmp_path / "out").write_bytes(b"what was there before")

    store.write_file("file", str(tmp_path / "in"))
    store.read_file("file", str(tmp_path / "out"))

    assert (tmp_path / "out").read_bytes() == b"hello"
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["in", "out"]


def test_a_file_that_is_not_there_is_named(store: Store, tmp_path: Path) -> None:
    store.write("k", [b"x"])

    with pytest.raises(StoreError, match=r"/nowhere cannot be read, so it cannot be stored"):
        store.write_file("file", str(tmp_path / "nowhere"))
    with pytest.raises(StoreError, match=r"/no/folder cannot be written"):
        store.read_file("k", str(tmp_path / "no" / "folder"))


def test_threads_share_a_store(store: Store) -> None:
    def use(number: int) -> bytes:
        store.write(f"t/{number % 7}/{number}", [str(number).encode()])
        assert store.write_new("t/claim", [b"x"]) in (True, False)
        return store.read(f"t/{number % 7}/{number}")

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(use, range(200)))

    assert found == [str(number).encode() for number in range(200)]


def test_another_store_of_the_same_url_sees_the_same(another: Callable[[], Store]) -> None:
    one, two = another(), another()

    one.write("k", [b"x"])

    assert two.read("k") == b"x"
    assert one.url == two.url
    one.close()
    one.close()
    assert one.read("k") == b"x"
