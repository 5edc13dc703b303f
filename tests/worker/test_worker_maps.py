"""The items of a map: which child runs which, chunks over processes, what is lost."""

from __future__ import annotations

import os
import signal

import pytest


def square(number):
    return number * number


def by_value(function):
    """Let a function of this module travel by value, as one of `__main__` does."""
    function.__module__ = "__main__"
    return function


SQUARE = by_value(square)


def numbers(outcome):
    return [item["item"] for item in outcome.header["items"]]


@pytest.mark.parametrize("parallel", [1, 3])
def test_each_child_runs_its_own_chunk(bench, parallel):
    items = bench.items([(number,) for number in range(10)])
    url = bench.call(SQUARE, items=items, count=10, chunksize=4, parallel=parallel)

    for child, expected in enumerate([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]):
        assert bench.run(url, child).code == 0
        outcome = bench.outcome(url, child)
        assert numbers(outcome) == expected
        assert [outcome.value(place) for place in range(len(expected))] == [
            number**2 for number in expected
        ]


def test_only_the_childs_own_items_are_read(bench):
    items = bench.items([(number, "x" * 1000) for number in range(100)])
    path = bench.root / "blobs" / items["blob"][:2] / items["blob"]
    data = bytearray(path.read_bytes())
    data[-1000:] = bytes(1000)  # the last item is damaged
    path.write_bytes(data)

    def first(number, _):
        return number

    url = bench.call(first, items=items, count=100, chunksize=50)

    assert bench.run(url, 0).code == 0
    assert bench.outcome(url, 0).value(49) == 49
    assert bench.run(url, 1).code == 1
    assert bench.outcome(url, 1).value(48) == 98
    assert bench.outcome(url, 1).error(49)["kind"] == "unpickle"


def test_a_rerun_takes_its_items_from_the_table(bench):
    items = bench.items([(number,) for number in range(10)])
    url = bench.call(SQUARE, items=items, count=10, chunksize=2, indices=[3, 4, 9])

    assert bench.run(url, 0).code == 0
    assert bench.run(url, 1).code == 0
    assert numbers(bench.outcome(url, 0)) == [3, 4]
    assert bench.outcome(url, 0).value(1) == 16
    assert numbers(bench.outcome(url, 1)) == [9]
    assert bench.outcome(url, 1).value() == 81


def test_an_array_that_is_not_the_first_counts_on(bench):
    items = bench.items([(number,) for number in range(10)])
    url = bench.call(SQUARE, items=items, count=10, chunksize=1, first=7)

    assert bench.run(url, 1).code == 0
    assert bench.outcome(url, 8).value() == 64


def test_the_index_of_aws_batch_is_the_child(bench):
    items = bench.items([(number,) for number in range(3)])
    url = bench.call(SQUARE, items=items, count=3, chunksize=1)
    bench.environ.update(WHERRY_REPLICA_ID="", AWS_BATCH_JOB_ARRAY_INDEX="2")

    assert bench.run(url).code == 0
    assert bench.outcome(url, 2).value() == 4


@pytest.mark.parametrize("parallel", [1, 2])
def test_an_item_that_fails_leaves_the_others_alone(bench, parallel):
    def picky(number):
        if number == 2:
            raise ValueError("two")
        if number == 4:
            raise SystemExit(9)
        return number

    items = bench.items([(number,) for number in range(6)])
    url = bench.call(picky, items=items, count=6, chunksize=6, parallel=parallel)
    ran = bench.run(url)
    outcome = bench.outcome(url)

    assert ran.code == 1
    assert [item["ok"] for item in outcome.header["items"]] == [
        True,
        True,
        False,
        True,
        False,
        True,
    ]
    assert repr(outcome.exception(2)) == "ValueError('two')"
    assert outcome.error(4)["kind"] == "exit"
    assert outcome.value(5) == 5


def test_an_item_whose_process_dies_is_lost_alone(bench):
    def picky(number):
        if number == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 5:
            os._exit(3)
        return number

    items = bench.items([(number,) for number in range(8)])
    url = bench.call(picky, items=items, count=8, chunksize=8, parallel=2)
    ran = bench.run(url)
    outcome = bench.outcome(url)

    assert ran.code == 1
    assert [place for place in range(8) if not outcome.header["items"][place]["ok"]] == [3, 5]
    assert outcome.error(3)["kind"] == "lost"
    assert "SIGKILL" in outcome.error(3)["message"]
    assert "code 3" in outcome.error(5)["message"]
    assert outcome.value(7) == 7


def test_items_of_a_chunk_run_at_the_same_time(bench):
    def meets(number, folder):
        import time

        with open(f"{folder}/{number}", "w"):
            pass
        end = time.monotonic() + 30
        while not os.path.exists(f"{folder}/{1 - number}"):
            assert time.monotonic() < end
            time.sleep(0.005)
        return os.getpid()

    items = bench.items([(number, str(bench.root)) for number in range(2)])
    url = bench.call(meets, items=items, count=2, chunksize=2, parallel=2)
    ran = bench.run(url)
    outcome = bench.outcome(url)

    assert ran.code == 0
    assert outcome.value(0) != outcome.value(1)


@pytest.mark.parametrize("parallel", [1, 2])
def test_the_initializer_runs_once_in_each_process(bench, parallel):
    def prepare(word):
        import builtins

        builtins.prepared = [*getattr(builtins, "prepared", []), word]

    def looks(_):
        import builtins

        return builtins.prepared

    items = bench.items([(number,) for number in range(6)])
    start = bench.value((prepare, ("ready",)))
    url = bench.call(looks, items=items, count=6, chunksize=6, parallel=parallel, initializer=start)

    assert bench.run(url).code == 0
    assert [bench.outcome(url).value(place) for place in range(6)] == [["ready"]] * 6


@pytest.mark.parametrize("parallel", [1, 2])
def test_an_initializer_that_raises_is_told_as_such(bench, parallel):
    def prepare():
        raise LookupError("no model")

    items = bench.items([(number,) for number in range(4)])
    start = bench.value((prepare, ()))
    url = bench.call(
        SQUARE, items=items, count=4, chunksize=4, parallel=parallel, initializer=start
    )
    ran = bench.run(url)
    error = bench.outcome(url).header["error"]

    assert ran.code == 1
    assert error["kind"] == "initializer"
    assert error["message"] == "no model"
    assert "LookupError" in error["traceback"]
    assert "no model" in ran.err


def test_large_values_of_a_chunk_are_whole(bench):
    def large(number):
        return bytes([number]) * 3_000_000

    items = bench.items([(number,) for number in range(6)])
    url = bench.call(large, items=items, count=6, chunksize=6, parallel=2)
    ran = bench.run(url)

    assert ran.code == 0, ran.err
    for place in range(6):
        assert bench.outcome(url).value(place) == bytes([place]) * 3_000_000


@pytest.mark.parametrize("parallel", [1, 2])
def test_an_array_that_every_item_writes_into_is_each_items_own(bench, parallel):
    numpy = pytest.importorskip("numpy")

    def fills(number):
        import builtins

        if not hasattr(builtins, "scratch"):
            builtins.scratch = numpy.zeros(10_000)
        builtins.scratch[:] = number
        return builtins.scratch

    items = bench.items([(number,) for number in range(6)])
    url = bench.call(fills, items=items, count=6, chunksize=6, parallel=parallel)
    bench.run(url)

    assert [bench.outcome(url).value(place)[0] for place in range(6)] == [0, 1, 2, 3, 4, 5]


def test_warnings_belong_to_their_items(bench):
    def warns(number):
        import warnings

        warnings.warn(f"number {number}", stacklevel=1)

    items = bench.items([(number,) for number in range(3)])
    url = bench.call(warns, items=items, count=3, chunksize=3)
    bench.run(url)

    assert [
        [warning["message"] for warning in item["warnings"]]
        for item in bench.outcome(url).header["items"]
    ] == [["number 0"], ["number 1"], ["number 2"]]
