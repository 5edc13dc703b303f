"""A store that is a folder: whole objects, several writers, disks that are full or not ours."""

from __future__ import annotations

import errno
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from wherry.errors import StoreError
from wherry.store import files
from wherry.store.files import FileStore

MIB = 1 << 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(folder: Path) -> FileStore:
    return FileStore(str(folder))


def inside(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_nothing_is_made_before_something_is_written(store: FileStore, folder: Path) -> None:
    assert store.head("k") is None
    assert list(store.list()) == []
    store.delete(["k"])
    assert not folder.exists()

    store.write("a/k", [b"x"])

    assert inside(folder) == ["a", "a/k"]


def test_an_object_is_a_plain_file_that_others_may_read(store: FileStore, folder: Path) -> None:
    before = os.umask(0o022)
    try:
        store.write("a/k", [b"hello"])
    finally:
        os.umask(before)

    assert (folder / "a" / "k").read_bytes() == b"hello"
    assert (folder / "a" / "k").stat().st_mode & 0o777 == 0o644


def test_what_a_killed_writer_leaves_is_not_an_object(store: FileStore, folder: Path) -> None:
    store.write("out/0", [b"x"])
    (folder / "out" / "1.4711.0a1b2c3d.part").write_bytes(b"half of it")

    assert [found.key for found in store.list()] == ["out/0"]


def test_a_writer_that_is_killed_leaves_the_old_object(store: FileStore) -> None:
    store.write("k", [b"old"])
    program = (
        "import os, sys; from wherry.store.files import FileStore\n"
        "class Deadly(bytes): pass\n"
        "def parts():\n"
        "    yield b'new' * 1_000_000\n"
        "    os.kill(os.getpid(), 9)\n"
        "import wherry.store.files as files\n"
        "whole = files.write_all\n"
        "def write(descriptor, given):\n"
        "    for part in given: whole(descriptor, [part])\n"
        "files.write_all = write\n"
        "FileStore(sys.argv[1]).write('k', parts())\n"
    )

    ended = subprocess.run([sys.executable, "-c", program, store.url[7:]], check=False)

    assert ended.returncode == -9
    assert store.read("k") == b"old"
    assert [found.key for found in store.list()] == ["k"]


def test_folders_that_have_become_empty_go(store: FileStore, folder: Path) -> None:
    store.write("a/b/c/k", [b"x"])
    store.write("a/k", [b"x"])

    store.delete(["a/b/c/k"])

    assert inside(folder) == ["a", "a/k"]
    store.delete(["a/k"])
    assert inside(folder) == []


def test_a_folder_is_no_object(store: FileStore) -> None:
    store.write("a/k", [b"x"])

    assert store.head("a") is None
    store.delete(["a"])
    assert store.read("a/k") == b"x"
    with pytest.raises(StoreError, match="a folder and an object cannot have the same name"):
        store.write("a", [b"x"])
    with pytest.raises(StoreError, match="a folder and an object cannot have the same name"):
        store.write("a/k/deeper", [b"x"])


def test_a_folder_whose_name_needs_quotes_has_a_url(tmp_path: Path) -> None:
    from wherry.store.opening import open_store

    store = FileStore(str(tmp_path / "50% of ünï#x"))
    store.write("k", [b"x"])

    assert open_store(store.url).read("k") == b"x"


def test_writers_and_deleters_of_one_folder_do_not_stumble(store: FileStore) -> None:
    def work(number: int) -> None:
        for round_ in range(100):
            store.write(f"d/{number}/{round_ % 3}", [b"x"])
            store.delete([f"d/{number}/{round_ % 3}"])
            store.write("d/e/same", [b"y"])
            store.delete(["d/e/same"])

    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except StoreError as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []


def write_often(url: str, letter: str, times: int) -> None:
    store = FileStore(url)
    for _ in range(times):
        store.write("same", [letter.encode() * 100_000, letter.encode() * 50_000])


def test_of_two_processes_that_write_the_same_each_reader_sees_one(store: FileStore) -> None:
    spawn = multiprocessing.get_context("spawn")
    root = store.url.removeprefix("file://")
    store.write("same", [b"0" * 150_000])
    writers = [spawn.Process(target=write_often, args=(root, letter, 200)) for letter in "ab"]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        data = store.read("same")
        assert len(data) == 150_000
        assert len(set(data)) == 1
        seen.add(data[0])
    for writer in writers:
        writer.join()

    assert [writer.exitcode for writer in writers] == [0, 0]
    assert len(seen) > 1
    assert [found.key for found in store.list()] == ["same"]


def claim_all(root: str, name: str, count: int) -> None:
    store = FileStore(root)
    won = [
        str(number) for number in range(count) if store.write_new(f"c/{number}", [name.encode()])
    ]
    store.write(f"won/{name}", [" ".join(won).encode()])


@pytest.mark.parametrize("links", [True, False])
def test_of_two_processes_one_gets_each_claim(
    store: FileStore, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_link(*_names: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if not links:  # as on a file system without hard links
        monkeypatch.setattr(files.os, "link", no_link)
    fork = multiprocessing.get_context("fork")
    root = store.url.removeprefix("file://")
    rivals = [fork.Process(target=claim_all, args=(root, name, 200)) for name in "ab"]
    for rival in rivals:
        rival.start()
    for rival in rivals:
        rival.join()

    won = [set(store.read(f"won/{name}").decode().split()) for name in "ab"]
    assert won[0] | won[1] == {str(number) for number in range(200)}
    assert not won[0] & won[1]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte, full but for little."""
    mount = tmp_path / "disk"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {made.stderr.strip()}")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


@pytest.mark.root
def test_a_full_disk_is_named_and_nothing_is_left(small_disk: Path, tmp_path: Path) -> None:
    store = FileStore(str(small_disk / "store"))
    store.write("k", [b"old"])
    (tmp_path / "large").write_bytes(b"x" * 2 * MIB)
    other = FileStore(str(tmp_path / "other"))
    other.write("large", [b"x" * 2 * MIB])

    with pytest.raises(
        StoreError, match=r"/store/k cannot be written: its disk is full.*MiB are left"
    ):
        store.write("k", [b"x" * 2 * MIB])
    with pytest.raises(StoreError, match="its disk is full"):
        store.write_new("new", [b"x" * 2 * MIB])
    with pytest.raises(StoreError, match="its disk is full"):
        store.write_file("file", str(tmp_path / "large"))
    with pytest.raises(StoreError, match=rf"{small_disk}/out cannot be written: its disk is full"):
        other.read_file("large", str(small_disk / "out"))

    assert store.read("k") == b"old"
    assert inside(small_disk) == ["store", "store/k"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_not_ours_is_named(store: FileStore, folder: Path) -> None:
    folder.mkdir(mode=0o555)

    with pytest.raises(StoreError, match=rf"Permission denied for user .*{folder}"):
        store.write("k", [b"x"])


def test_a_folder_that_cannot_be_is_named() -> None:
    with pytest.raises(StoreError, match=r"/proc/nowhere/k cannot be written: "):
        FileStore("/proc/nowhere").write("k", [b"x"])
