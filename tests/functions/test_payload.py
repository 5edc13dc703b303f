"""What cannot be sent is told before anything is submitted: where it is, why, and what to do."""

from __future__ import annotations

import functools
import socket
import sqlite3
import threading

import pytest

from wherry import LocalExecutor
from wherry.errors import PayloadError
from wherry.functions import payload
from wherry.worker.formats import read_record

LOCK = threading.Lock()


class Holder:
    def __init__(self, thing):
        self.thing = thing


def uses_a_global_lock():
    with LOCK:
        return 1


def refusal(ex, fn, *args, **kwargs) -> str:
    with pytest.raises(PayloadError) as caught:
        ex.submit(fn, *args, **kwargs)
    assert list(ex.jobs()) == []
    return str(caught.value)


def test_a_lock_in_a_closure_is_named(ex):
    guard = threading.Lock()

    def locked():
        with guard:
            return 1

    words = refusal(ex, locked)

    assert "the variable 'guard'" in words
    assert "locked()" in words
    assert "_thread.lock" in words
    assert "make it inside the function" in words


def test_a_lock_among_the_globals_is_named(ex):
    namespace = {"LOCK": LOCK, "__name__": "__main__"}
    exec("def uses():\n    with LOCK:\n        return 1\n", namespace)  # as in a notebook

    assert "the global 'LOCK'" in refusal(ex, namespace["uses"])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: (n for n in range(3)), "make a list"),
        (functools.partial(open, "/dev/null"), "pass its path"),
        (functools.partial(open, "/dev/null", "rb"), "pass its path"),
        (lambda: threading.Lock(), "a lock belongs to one process"),
        (lambda: sqlite3.connect(":memory:"), "open it inside the function"),
        (lambda: socket.socket(), "open it inside the function"),
    ],
    ids=["generator", "text file", "binary file", "lock", "database", "socket"],
)
def test_an_argument_that_cannot_be_sent_is_named_with_the_fix(ex, make, words):
    thing = make()
    try:
        told = refusal(ex, len, "first", thing)
        assert words in told
        assert "argument 2 is a" in told
        assert "argument 'thing'" in refusal(ex, len, thing=thing)
    finally:
        getattr(thing, "close", int)()


def test_the_place_within_an_argument_is_told(ex):
    words = refusal(ex, len, {"a": [1, Holder(threading.Lock())]})

    assert "argument 1 (dict), at ['a'][1].thing" in words


def test_an_item_of_a_map_is_named(ex):
    with pytest.raises(PayloadError, match=r"argument 1 of item 2 is a _thread\.lock"):
        ex.map_array(len, ["a", "b", threading.Lock()])


def test_what_refuses_to_be_pickled_itself_is_quoted(ex):
    class Stubborn:
        def __reduce__(self):
            raise RuntimeError("I stay here")

    assert "RuntimeError: I stay here" in refusal(ex, len, Stubborn())


def test_what_is_no_function_is_refused(ex):
    assert "cannot be called" in refusal(ex, 42)


def test_deep_nesting_is_told(ex):
    deep: list = []
    for _ in range(100_000):
        deep = [deep]

    assert "nest too deeply" in refusal(ex, len, deep)
    while deep:
        deep = deep.pop()


def test_large_buffers_are_not_copied():
    data = bytearray(1 << 21)

    record = payload.arguments_record([data, b"x" * (1 << 20)], {})

    assert [memoryview(part).nbytes for part in record.parts[2:]] == [1 << 21, 1 << 20]
    data[7] = 99
    assert memoryview(record.parts[2])[7] == 99  # the very same memory


def test_a_record_reads_back():
    import pickle

    value = (("a", b"x" * (2 << 20)), {"n": 1})
    record = payload.arguments_record(*value)
    pickled, buffers = read_record(b"".join(record.parts))

    assert pickle.loads(pickled, buffers=buffers) == value


def test_too_little_memory_is_told_before_anything_is_copied():
    with pytest.raises(PayloadError, match=r"'text' is a text of 2\.0 MiB and 1\.0 MiB of"):
        payload.arguments_record([], {"text": "x" * (2 << 20)}, room=1 << 20)


def test_too_small_a_disk_is_told_with_both_sizes():
    with pytest.raises(PayloadError, match=r"needs 5.0 GiB in the store and .* has 1.0 GiB left"):
        payload.check_disk("file:///tmp/store", 5 << 30, free=1 << 30)


def test_the_same_data_is_stored_once(ex):
    data = bytearray(b"y" * (2 << 20))
    for job in [ex.submit(len, data), ex.submit(len, data), ex.submit(len, data)]:
        assert job.result(60) == 2 << 20

    large = [info for info in ex.store.list("blobs/") if info.size > 1 << 20]
    assert len(large) == 1


def test_a_partial_and_a_method_are_named_like_their_function(ex):
    assert ex.submit(functools.partial(pow, 2), 5).id.startswith("pow-")
    assert ex.submit("a,b".split, ",").result(60) == ["a", "b"]


def test_a_module_that_no_path_leads_to_goes_along_by_value(tmp_path):
    import importlib.util

    (tmp_path / "nowhere.py").write_text(
        "def f(x):\n    return g(x)\ndef g(x):\n    return x + 1\n"
    )
    spec = importlib.util.spec_from_file_location("nowhere", tmp_path / "nowhere.py")
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["nowhere"] = module
    try:
        spec.loader.exec_module(module)
        assert LocalExecutor().submit(module.f, 1).result(60) == 2
    finally:
        del sys.modules["nowhere"]


def test_arrays_come_and_go_whole(ex):
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(1 << 18, dtype=float).reshape(512, 512)

    back = ex.submit(lambda a: a * 2, array).result(60)

    assert (back == array * 2).all()
    back[0, 0] = 5  # it may be written to
