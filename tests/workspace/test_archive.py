"""Archives: what is read, what is sent, and what changes meanwhile."""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.trees import make
from support.waiting import until
from wherry.errors import WorkspaceError
from wherry.store.opening import open_store
from wherry.workspace import archive as archives
from wherry.workspace.archive import content_digest, pack, upload
from wherry.workspace.tree import scan

_opened: list[str] = []
_listening = threading.Event()


def _hear(event: str, args: tuple[object, ...]) -> None:
    if event == "open" and _listening.is_set():
        _opened.append(os.fsdecode(args[0]) if isinstance(args[0], (str, bytes)) else "")


sys.addaudithook(_hear)


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERRY_HOME", str(tmp_path / "home"))


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """Names every file that this process opens."""
    _opened.clear()
    _listening.set()
    yield _opened
    _listening.clear()


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A tree of 300 small files, of an age at which they can be remembered."""
    folder = tmp_path / "top"
    make(folder, {f"d{n % 7}/f{n}.py".encode(): source(n) for n in range(300)})
    settle(folder)
    return folder


def source(seed: int, size: int = 4000) -> bytes:
    return b" ".join(b"%d" % (n % 97) for n in random.Random(seed).choices(range(999), k=size // 3))


def settle(folder: Path) -> None:
    newest = max(entry.ctime_ns for entry in scan(str(folder)).entries)
    until(lambda: time.time_ns() > newest + 100_000_000, "the clock to go on")


def test_the_same_tree_gives_the_same_archive_wherever_it_lies(tmp_path):
    files = {b"a/x.py": b"1" * 3000, b"b": b"2", b"e": None, b"\xff": b"", b"big": bytes(2 << 20)}
    one, two = tmp_path / "one", tmp_path / "two"
    make(one, files)
    make(two, dict(reversed(files.items())))
    for path, content in files.items():
        if content is not None:
            os.utime(os.path.join(os.fsencode(two), path), (1, 1))
    (one / "link").symlink_to("gone")
    (two / "link").symlink_to("gone")
    first, second = pack(scan(str(one))), pack(scan(str(two)))
    assert (first.digest, first.content) == (second.digest, second.content)
    assert first.blobs == second.blobs


@pytest.mark.parametrize(
    "change", ["content", "mode", "name", "link", "empty folder", "folder mode"]
)
def test_every_difference_that_counts_gives_another_archive(tmp_path, change):
    make(tmp_path / "top", {b"a": b"12", b"d/x": b""})
    top = tmp_path / "top"
    (top / "l").symlink_to("a")
    before = pack(scan(str(top)))
    changes = {
        "content": lambda: (top / "a").write_bytes(b"21"),
        "mode": lambda: (top / "a").chmod(0o755),
        "name": lambda: (top / "a").rename(top / "b"),
        "link": lambda: ((top / "l").unlink(), (top / "l").symlink_to("d")),
        "empty folder": lambda: (top / "e").mkdir(),
        "folder mode": lambda: (top / "d").chmod(0o700),
    }
    changes[change]()
    after = pack(scan(str(top)))
    assert after.digest != before.digest
    assert after.content != before.content
    assert content_digest(scan(str(top))) == after.content


def test_an_unchanged_tree_is_not_read_again_and_sends_nothing(top, tmp_path, opened):
    store = open_store(str(tmp_path / "store"))
    first = upload(pack(scan(str(top))), store)
    assert first.kept == 0
    assert any(name.startswith(str(top)) for name in opened)
    opened.clear()
    archive = pack(scan(str(top)))
    assert [name for name in opened if name.startswith(str(top))] == []
    again = upload(archive, store)
    assert (again.sent, again.bytes_sent, again.kept) == (0, 0, first.sent)


def test_the_content_alone_is_known_without_making_an_archive(top, opened):
    assert content_digest(scan(str(top))) == pack(scan(str(top))).content
    (top / "d3/f3.py").write_bytes(b"changed")
    opened.clear()
    after = content_digest(scan(str(top)))
    assert [name for name in opened if name.startswith(f"{top}/d")] == [str(top / "d3/f3.py")]
    assert pack(scan(str(top))).content == after


def test_one_changed_file_sends_its_own_bundle_and_the_manifest(top, tmp_path, opened):
    store = open_store(str(tmp_path / "store"))
    first = upload(pack(scan(str(top))), store)
    (top / "d3/f3.py").write_bytes(b"changed")
    opened.clear()
    second = upload(pack(scan(str(top))), store)
    assert second.sent == 2
    assert second.bytes_sent < first.bytes_sent / 2
    assert len({name for name in opened if name.startswith(str(top))}) < 200


def test_a_new_file_changes_its_own_bundle_alone(top, tmp_path):
    store = open_store(str(tmp_path / "store"))
    upload(pack(scan(str(top))), store)
    (top / "d0" / "a-new-one.py").write_bytes(b"x" * 5000)
    assert upload(pack(scan(str(top))), store).sent <= 3


def test_large_files_are_sent_in_parts(tmp_path):
    top = tmp_path / "top"
    make(top, {b"small": b"1"})
    with open(top / "large", "wb") as stream:
        stream.truncate(40 << 20)
        stream.seek(39 << 20)
        stream.write(random.Random(1).randbytes(1000))
    store = open_store(str(tmp_path / "store"))
    archive = pack(scan(str(top)))
    assert len(archive.blobs) == 3, "two parts of zeros are the same, and one is not; a bundle"
    upload(archive, store)
    with open(top / "large", "ab") as stream:
        stream.write(b"more")
    assert upload(pack(scan(str(top))), store).sent == 2


def test_what_compresses_is_compressed_and_what_does_not_is_not(tmp_path):
    make(tmp_path / "text", {b"a": source(1, 500_000)})
    make(tmp_path / "noise", {b"a": random.Random(1).randbytes(500_000)})
    assert pack(scan(str(tmp_path / "text"))).size < 300_000
    assert 500_000 < pack(scan(str(tmp_path / "noise"))).size < 501_000


def test_the_manifest_is_what_the_module_says_it_is(tmp_path):
    make(tmp_path / "top", {b"d/a": b"abc", b"\xff\n": b"12345"})
    (tmp_path / "top" / "l").symlink_to("d")
    archive = pack(scan(str(tmp_path / "top")))
    assert archive.manifest.startswith(b"WHERRYT1")
    document = json.loads(zlib.decompress(archive.manifest[8:]))
    assert document["size"] == 8
    assert document["links"] == [["l", "d"]]
    assert [path for path, _ in document["dirs"]] == ["d"]
    files = {
        os.fsencode(path): size for group in document["groups"] for path, _, size in group["files"]
    }
    assert files == {b"d/a": 3, b"\xff\n": 5}
    assert document["content"] == archive.content


def test_an_edit_right_after_packing_is_seen_though_size_and_time_are_the_same(tmp_path):
    top = tmp_path / "top"
    seen = set()
    for number in range(20):
        make(top, {b"a": b"%02d" % number})
        os.utime(top / "a", ns=(1, 1))
        seen.add(pack(scan(str(top))).content)
    assert len(seen) == 20


def test_a_file_that_changed_since_the_scan_is_packed_as_it_is_now(tmp_path):
    make(tmp_path / "top", {b"a": b"1"})
    tree = scan(str(tmp_path / "top"))
    make(tmp_path / "top", {b"a": b"longer"})
    assert pack(tree).content == pack(scan(str(tmp_path / "top"))).content


def test_a_file_that_vanished_since_the_scan_is_named(tmp_path):
    make(tmp_path / "top", {b"a": b"1", b"b": b""})
    tree = scan(str(tmp_path / "top"))
    (tmp_path / "top" / "a").unlink()
    with pytest.raises(WorkspaceError, match=r"top/a' vanished while the workspace was read"):
        pack(tree)


@pytest.mark.parametrize("instead", ["pipe", "link"])
def test_a_file_that_became_something_else_holds_nothing_up(tmp_path, instead):
    make(tmp_path / "top", {b"a": b"1"})
    tree = scan(str(tmp_path / "top"))
    (tmp_path / "top" / "a").unlink()
    if instead == "pipe":
        os.mkfifo(tmp_path / "top" / "a")
    else:
        (tmp_path / "top" / "a").symlink_to("/etc/hostname")
    with pytest.raises(WorkspaceError, match=r"top/a'"):
        pack(tree)


def test_a_file_that_is_written_to_all_the_time_is_named(tmp_path):
    make(tmp_path / "top", {b"log": bytes(30 << 20)})
    tree = scan(str(tmp_path / "top"))
    stop = threading.Event()

    def write() -> None:
        with open(tmp_path / "top" / "log", "ab", buffering=0) as stream:
            while not stop.is_set():
                stream.write(b"x")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with pytest.raises(WorkspaceError, match=r"top/log' changes while it is read"):
            pack(tree)
    finally:
        stop.set()
        writer.join()


def test_a_change_between_packing_and_sending_is_told(top, tmp_path):
    pack(scan(str(top)))
    archive = pack(scan(str(top)))
    (top / "d3/f3.py").write_bytes(b"changed")
    with pytest.raises(WorkspaceError, match="changed while the workspace was sent"):
        upload(archive, open_store(str(tmp_path / "store")))


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"files": 1, "groups": {}}', b"\xff"])
def test_a_damaged_cache_costs_time_and_nothing_else(top, tmp_path, damage):
    before = pack(scan(str(top)))
    (cache,) = (tmp_path / "home/cache/trees").iterdir()
    cache.write_bytes(damage)
    assert pack(scan(str(top))).digest == before.digest


def test_a_home_that_cannot_be_written_is_no_error(top, tmp_path, monkeypatch):
    make(tmp_path, {b"file": b""})
    monkeypatch.setenv("WHERRY_HOME", str(tmp_path / "file" / "home"))
    assert pack(scan(str(top))).blobs


def test_an_empty_workspace_has_a_manifest_and_no_blobs(tmp_path):
    (tmp_path / "top").mkdir()
    archive = pack(scan(str(tmp_path / "top")))
    assert archive.blobs == []
    assert upload(archive, open_store(str(tmp_path / "store"))).sent == 1


def test_bundles_have_no_more_bytes_than_allowed(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "BUNDLE_MOST", 10_000)
    make(tmp_path / "top", {b"f%d" % n: random.Random(n).randbytes(3000) for n in range(50)})
    assert max(blob.size for blob in pack(scan(str(tmp_path / "top"))).blobs) <= 13_000
