"""Objects named by what they contain."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from support.s3_servers import ScriptedS3
from wherry.errors import CorruptObjectError, MissingObjectError
from wherry.store.api import Store
from wherry.store.blobs import digest_of, get_blob, has_blobs, put_blob
from wherry.store.files import FileStore
from wherry.store.opening import open_store
from wherry.worker.formats import blob_key


def test_a_blob_comes_back_by_its_digest(store: Store) -> None:
    parts = [b"hello, ", memoryview(b"world"), bytearray(b"!")]

    digest, size = put_blob(store, parts)

    assert digest == hashlib.sha256(b"hello, world!").hexdigest() == digest_of(parts)
    assert size == 13
    assert get_blob(store, digest) == b"hello, world!"
    assert [found.key for found in store.list()] == [f"blobs/{digest[:2]}/{digest}"]


def test_parts_of_other_items_are_counted_in_bytes(store: Store) -> None:
    numbers = memoryview(bytes(80)).cast("d")

    digest, size = put_blob(store, [numbers])

    assert size == 80
    assert get_blob(store, digest) == bytes(80)


def test_the_same_bytes_are_sent_once(scripted: ScriptedS3) -> None:
    store = open_store("s3://bucket", endpoint=scripted.url)

    first = put_blob(store, [b"hello"])
    again = put_blob(store, [b"hel", b"lo"])
    known = put_blob(store, [b"hello"], first[0])

    assert first == again == known
    assert scripted.count("PUT") == 1


def test_those_that_are_there_are_found(store: Store) -> None:
    digests = [put_blob(store, [b"%d" % number])[0] for number in range(30)]
    others = [digest_of([b"%d" % number]) for number in range(30, 50)]

    assert has_blobs(store, [*others, *digests, *digests]) == set(digests)
    assert has_blobs(store, digests[:1]) == {digests[0]}
    assert has_blobs(store, others[:1]) == set()
    assert has_blobs(store, []) == set()


def test_a_blob_that_was_deleted_is_missing(store: Store) -> None:
    digest, _ = put_blob(store, [b"hello"])
    store.delete([blob_key(digest)])

    with pytest.raises(MissingObjectError, match=digest):
        get_blob(store, digest)


@pytest.mark.parametrize("damage", [b"hell", b"hellO", b"hello!", b""])
def test_a_blob_that_was_changed_is_corrupt(store: Store, damage: bytes) -> None:
    digest, _ = put_blob(store, [b"hello"])
    store.write(blob_key(digest), [damage])

    with pytest.raises(CorruptObjectError, match=f"{store.url}/blobs/.*is not what was stored"):
        get_blob(store, digest)


def test_a_blob_that_was_cut_off_is_stored_anew(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path / "store"))
    digest, _ = put_blob(store, [b"hello"])
    os.truncate(tmp_path / "store" / blob_key(digest), 3)

    put_blob(store, [b"hello"])

    assert get_blob(store, digest) == b"hello"
