"""Any sequence of operations leaves a store as it leaves a dictionary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wherry.errors import MissingObjectError
from wherry.store.api import Store

# None is the folder of another, which a store of files could not hold.
KEYS = ["a", "b/c", "b/d", "b.c", "b-/x", "c d/é", "jobs/1/out/0", "jobs/1/out/1", "jobs/10/out/0"]
PREFIXES = ["", "a", "b", "b/", "b/c", "jobs/1", "jobs/1/", "jobs/1/out/1", "z"]

keys = st.sampled_from(KEYS)
bodies = st.binary(max_size=20)
parts = st.lists(bodies, max_size=4)
places = st.integers(0, 30)
operations = st.one_of(
    st.tuples(st.just("write"), keys, parts),
    st.tuples(st.just("write_new"), keys, parts),
    st.tuples(st.just("read"), keys, places, st.none() | places),
    st.tuples(st.just("read_into"), keys),
    st.tuples(st.just("head"), keys),
    st.tuples(st.just("list"), st.sampled_from(PREFIXES)),
    st.tuples(st.just("read_many"), st.lists(keys, max_size=4)),
    st.tuples(st.just("delete"), st.lists(keys, max_size=4)),
)


class Model:
    """What the store is to hold, and what each operation is to return."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def write(self, key: str, given_parts: list[bytes]) -> None:
        self.objects[key] = b"".join(given_parts)

    def write_new(self, key: str, given_parts: list[bytes]) -> bool:
        if key in self.objects:
            return False
        self.write(key, given_parts)
        return True

    def read(self, key: str, start: int, end: int | None) -> bytes | None:
        return self.objects[key][start:end] if key in self.objects else None

    def read_into(self, key: str) -> bytes | None:
        return self.objects.get(key)

    def head(self, key: str) -> int | None:
        return len(self.objects[key]) if key in self.objects else None

    def list(self, prefix: str) -> Any:
        return [
            (key, len(self.objects[key])) for key in sorted(self.objects) if key.startswith(prefix)
        ]

    def read_many(self, wanted: Any) -> Any:
        return sorted(((key, self.objects.get(key)) for key in wanted), key=repr)

    def delete(self, wanted: Any) -> None:
        for key in wanted:
            self.objects.pop(key, None)


class Real:
    """The same operations on a store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.write = store.write
        self.write_new = store.write_new
        self.delete = store.delete

    def read(self, key: str, start: int, end: int | None) -> bytes | None:
        try:
            return self.store.read(key, start, end)
        except MissingObjectError:
            return None

    def read_into(self, key: str) -> bytes | None:
        found = self.store.head(key)
        buffer = bytearray(found.size if found else 1)
        try:
            self.store.read_into(key, 0, memoryview(buffer))
        except MissingObjectError:
            return None
        return bytes(buffer)

    def head(self, key: str) -> int | None:
        found = self.store.head(key)
        return found.size if found else None

    def list(self, prefix: str) -> Any:
        return [(found.key, found.size) for found in self.store.list(prefix)]

    def read_many(self, wanted: Any) -> Any:
        return sorted(self.store.read_many(wanted), key=repr)


@pytest.mark.parametrize("kind", ["file", "rclone"], indirect=True)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(operations, max_size=30))
def test_a_store_is_a_dictionary(
    kind: str, another: Callable[[], Store], sequence: list[tuple[Any, ...]]
) -> None:
    store = another()
    store.delete([found.key for found in store.list()])
    real, model = Real(store), Model()

    for name, *given_ in sequence:
        assert getattr(real, name)(*given_) == getattr(model, name)(*given_), (name, given_)

    assert real.list("") == model.list("")
    store.close()
