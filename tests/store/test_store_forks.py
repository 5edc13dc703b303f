"""A store that was used is used on in a forked child, whose parent's threads stay behind."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable

import pytest

from wherry.store.api import Store

MIB = 1 << 20

# Python warns of forks of processes with threads; that is what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


def use(store: Store, name: str, answers: multiprocessing.SimpleQueue) -> None:
    body = os.urandom(9 * MIB)
    store.write(f"{name}/large", [body])
    store.write(f"{name}/small", [name.encode()])
    answers.put(
        (
            store.read("before"),
            store.read("before", 1, 3),
            store.read(f"{name}/large") == body,
            dict(store.read_many([f"{name}/small", f"{name}/none"])),
            [found.key for found in store.list(f"{name}/")],
            store.write_new("claim", [name.encode()]),
        )
    )
    store.delete([f"{name}/large"])


def test_a_forked_child_uses_the_store_of_its_parent(store: Store) -> None:
    store.write("before", [b"hello"])
    assert dict(store.read_many(["before"])) == {"before": b"hello"}
    assert store.write_new("claim", [b"parent"])
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()

    child = fork.Process(target=use, args=(store, "child", answers))
    child.start()
    child.join(60)

    assert child.exitcode == 0
    assert answers.get() == (
        b"hello",
        b"el",
        True,
        {"child/small": b"child", "child/none": None},
        ["child/large", "child/small"],
        False,
    )
    assert store.read("child/small") == b"child"
    assert store.head("child/large") is None


def test_a_forked_child_opens_a_store_of_its_own(
    store: Store, another: Callable[[], Store]
) -> None:
    store.write("before", [b"hello"])
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()

    def run() -> None:
        answers.put(another().read("before"))

    child = fork.Process(target=run)
    child.start()
    child.join(60)

    assert child.exitcode == 0
    assert answers.get() == b"hello"
