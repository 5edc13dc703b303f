"""Archives laid into a folder: the same tree comes out, and nothing else is touched."""

from __future__ import annotations

import glob
import json
import os
import random
import shutil
import stat
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.trees import contents, make, nested
from wherry.store.blobs import get_blob
from wherry.store.opening import open_store
from wherry.worker.unpack import UnpackError, unpack
from wherry.workspace import archive as archives
from wherry.workspace.archive import Archive, pack, upload
from wherry.workspace.tree import scan
from wherry.workspace.tree_snapshot import snapshot

NAMES = st.one_of(
    st.sampled_from([b"a", b"b", b"a.py", b"\xff\xfe", b"x\ny", b" ", b"-", b"a\\", "é".encode()]),
    st.binary(min_size=1, max_size=6).map(lambda name: name.translate(None, b"/\0") or b"n"),
).filter(lambda name: name not in (b".", b"..", b".git") and not name.endswith(b"ignore"))


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERRY_HOME", str(tmp_path / "home"))


def packed(folder: Path) -> tuple[Archive, Callable[[str], bytes]]:
    archive = pack(scan(str(folder)))
    blobs = {blob.digest: blob.read() for blob in archive.blobs}
    return archive, blobs.__getitem__


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    files=nested(NAMES, most=14),
    modes=st.lists(
        st.sampled_from([0o644, 0o755, 0o600, 0o400, 0o777, 0o2755, 0o1777]), min_size=1
    ),
    links=st.dictionaries(
        st.sampled_from([b"l1", b"l2"]), st.sampled_from([b"a", b"..", b"/x\xff"])
    ),
    large=st.sampled_from([1, 2, 1 << 20]),
    over=st.booleans(),
)
def test_what_was_packed_comes_out(monkeypatch, files, modes, links, large, over):
    monkeypatch.setattr(archives, "LARGE", large)
    with tempfile.TemporaryDirectory() as name:
        top, target = Path(name, "top"), Path(name, "target")
        make(top, files)
        for number, path in enumerate(sorted(contents(top))):
            (top / path).chmod(modes[number % len(modes)] | stat.S_IRWXU)
        for path, pointed in links.items():
            if not os.path.lexists(os.path.join(os.fsencode(top), path)):
                os.symlink(pointed, os.path.join(os.fsencode(top), path))
        if over:
            target.mkdir()
        archive, read = packed(top)
        unpack(archive.manifest, read, str(target))
        assert contents(target) == contents(top)
        assert pack(scan(str(target))).digest == archive.digest
        copy = Path(name, "copy")
        snapshot(scan(str(top)), str(copy))
        assert contents(copy) == contents(top)
        assert sorted(os.listdir(name)) == ["copy", "target", "top"]


def test_a_tree_goes_through_a_store_and_back(tmp_path):
    make(tmp_path / "top", {b"f%d" % n: random.Random(n).randbytes(5000) for n in range(100)})
    make(tmp_path / "top", {b"large": random.Random(1).randbytes(20 << 20)})
    store = open_store(str(tmp_path / "store"))
    archive = pack(scan(str(tmp_path / "top")))
    upload(archive, store)
    manifest = get_blob(store, archive.digest)
    unpack(manifest, lambda digest: get_blob(store, digest), str(tmp_path / "deep/er/target"))
    assert contents(tmp_path / "deep/er/target") == contents(tmp_path / "top")


def test_a_target_that_is_there_keeps_what_the_tree_does_not_have(tmp_path):
    make(tmp_path / "top", {b"a": b"new", b"d/x": b"new", b"d/e/y": b"new"})
    make(tmp_path / "target", {b"a": b"old, and longer", b"d/z": b"old", b"other": b"old"})
    (tmp_path / "outside").write_bytes(b"safe")
    (tmp_path / "target/d/x").symlink_to("../../outside")
    archive, read = packed(tmp_path / "top")
    unpack(archive.manifest, read, str(tmp_path / "target"))
    found = {path: what[2] for path, what in contents(tmp_path / "target").items()}
    assert found == {
        "a": b"new",
        "other": b"old",
        "d": "",
        "d/x": b"new",
        "d/z": b"old",
        "d/e": "",
        "d/e/y": b"new",
    }
    assert (tmp_path / "outside").read_bytes() == b"safe"


def test_a_link_on_the_way_is_not_written_through(tmp_path):
    make(tmp_path / "top", {b"a": b"", b"d/x": b"new"})
    make(tmp_path, {b"outside/x": b"old", b"target": None})
    (tmp_path / "target/d").symlink_to("../outside")
    archive, read = packed(tmp_path / "top")
    with pytest.raises(UnpackError, match=r"target/d' is a link"):
        unpack(archive.manifest, read, str(tmp_path / "target"))
    assert (tmp_path / "outside/x").read_bytes() == b"old"
    assert os.listdir(tmp_path / "target") == ["d"]


@pytest.mark.parametrize(
    ("there", "packed_as", "said"),
    [
        (b"p", b"p/x", "is a file, and the workspace has a folder"),
        (b"p/x", b"p", "is a folder, and"),
    ],
)
def test_a_file_and_a_folder_in_one_place_are_refused(tmp_path, there, packed_as, said):
    make(tmp_path / "target", {there: b"old"})
    make(tmp_path / "top", {packed_as: b"new"})
    archive, read = packed(tmp_path / "top")
    before = contents(tmp_path / "target")
    with pytest.raises(UnpackError, match=said):
        unpack(archive.manifest, read, str(tmp_path / "target"))
    assert contents(tmp_path / "target") == before


def manifest(**fields: Any) -> bytes:
    document = {"version": 1, "content": "", "size": 0, "dirs": [], "links": [], "groups": []}
    return b"WHERRYT1" + zlib.compress(json.dumps({**document, **fields}).encode())


EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def one_file(path: str) -> dict[str, Any]:
    return {"groups": [{"blobs": [[EMPTY, 0, 0, ""]], "files": [[path, 0o644, 0]]}]}


@pytest.mark.parametrize(
    "document",
    [
        one_file("/etc/evil"),
        one_file("../evil"),
        one_file("a/../../evil"),
        one_file(".."),
        one_file("."),
        one_file(""),
        one_file("a//b"),
        one_file("a\0b"),
        one_file("not/there/x"),
        {"links": [["out", "/etc"]], **one_file("out/evil")},
        {"links": [["out", "/etc"], ["out/evil", "x"]]},
        {"links": [["out", "/etc"]], "dirs": [["out", 0o755]]},
        {"links": [["out", "/etc"]], "dirs": [["out/d", 0o755]]},
        {"dirs": [["../d", 0o755]]},
        {"dirs": [["d", 0o755]], **one_file("d")},
        {"groups": one_file("x")["groups"] * 2},
        {"groups": [{"blobs": [[EMPTY, 0, 0, ""]], "files": [["x", 0o644, 1]]}]},
        {"groups": [{"blobs": [[EMPTY, 0, 0, ""]], "files": [["x", 0o644, -1], ["y", 0o644, 1]]}]},
        {"groups": [{"blobs": [], "files": "x"}]},
        {"dirs": 3},
        {"version": 2},
    ],
)
def test_a_manifest_that_leads_elsewhere_writes_nothing(tmp_path, document):
    with pytest.raises(UnpackError):
        unpack(manifest(**document), lambda _: b"", str(tmp_path / "in/target"))
    assert [name for name in os.listdir(tmp_path) if name != "home"] == []


@pytest.mark.parametrize("cut", [0, 4, 8, 9, 40])
def test_a_manifest_that_is_cut_off_is_refused(tmp_path, cut):
    with pytest.raises(UnpackError):
        unpack(manifest()[:cut], lambda _: b"", str(tmp_path / "target"))


@pytest.mark.parametrize("over", [False, True])
def test_a_damaged_blob_is_refused_and_leaves_nothing_half_done(tmp_path, over):
    make(tmp_path / "top", {b"f%d" % n: random.Random(n).randbytes(9000) for n in range(200)})
    make(tmp_path, {b"target/old": b""} if over else {b"x": b""})
    archive, read = packed(tmp_path / "top")
    bad = archive.blobs[-1].digest
    damages = [lambda data: data[:-1] + b"\x00", lambda data: data[:-1], lambda data: data + b"x"]
    for damage in damages:
        with pytest.raises(UnpackError, match=f"{bad} of the workspace is not what was stored"):
            unpack(
                archive.manifest,
                lambda digest, damage=damage: (
                    damage(read(digest)) if digest == bad else read(digest)
                ),
                str(tmp_path / "target"),
            )
    there = set(os.listdir(tmp_path)) - {"home", "top"}
    assert there == ({"target"} if over else {"x"})
    if over:
        assert os.listdir(tmp_path / "target") == ["old"]


def test_a_blob_that_unfolds_into_more_than_it_should_is_refused(tmp_path):
    bomb = zlib.compress(bytes(50 << 20), 9)
    from hashlib import sha256

    digest = sha256(bomb).hexdigest()
    group = {"blobs": [[digest, len(bomb), 10, "zlib"]], "files": [["x", 0o644, 10]]}
    with pytest.raises(UnpackError, match="not the size it should have"):
        unpack(manifest(groups=[group]), lambda _: bomb, str(tmp_path / "target"))


def test_what_the_store_says_is_passed_on(tmp_path):
    make(tmp_path / "top", {b"a": b"1"})
    archive, _ = packed(tmp_path / "top")

    def read(digest: str) -> bytes:
        raise LookupError(digest)

    with pytest.raises(LookupError):
        unpack(archive.manifest, read, str(tmp_path / "target"))
    assert not (tmp_path / "target").exists()


FULL = """
import sys, pickle
from wherry.worker.unpack import unpack, UnpackError
manifest, blobs = pickle.load(sys.stdin.buffer)
try:
    unpack(manifest, blobs.__getitem__, sys.argv[1])
except UnpackError as error:
    print(error)
"""


def test_a_full_disk_is_told_and_left_as_it_was(tmp_path):
    """In a mount namespace of its own, with a disk of 256 KiB."""
    import pickle

    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=256k none {disk}"
    if subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("small disks cannot be mounted here")
    make(tmp_path / "top", {b"f%d" % n: random.Random(n).randbytes(9000) for n in range(100)})
    archive, read = packed(tmp_path / "top")
    blobs = {blob.digest: read(blob.digest) for blob in archive.blobs}
    script = f'{mount}; "$0" -c "$1" {disk}/target; ls -A {disk}'
    ran = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, sys.executable, FULL],
        input=pickle.dumps((archive.manifest, blobs)),
        capture_output=True,
        check=True,
    )
    said = ran.stdout.decode().splitlines()
    assert len(said) == 1, "nothing is left on the disk"
    assert f"the disk of '{disk}/target' is full: No space left on device" in said[0]
    assert "the workspace has 900000 bytes" in said[0]


def oldest_python() -> str:
    root = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    for path in (shutil.which("python3.9"), *glob.glob(f"{root}/versions/3.9.*/bin/python")):
        if path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return path
    return pytest.skip("there is no Python 3.9 on PATH or in pyenv")


def test_the_oldest_python_of_a_job_can_unpack(tmp_path):
    import pickle

    make(tmp_path / "top", {b"a": b"1", b"d/\xff": b"2" * 5000})
    archive, read = packed(tmp_path / "top")
    blobs = {blob.digest: read(blob.digest) for blob in archive.blobs}
    module = Path(sys.modules["wherry.worker.unpack"].__file__ or "").read_text()
    script = module + "\nimport pickle, sys\nmanifest, blobs = pickle.load(sys.stdin.buffer)\n"
    script += "unpack(manifest, blobs.__getitem__, sys.argv[1])\n"
    ran = subprocess.run(
        [oldest_python(), "-c", script, str(tmp_path / "target")],
        input=pickle.dumps((archive.manifest, blobs), protocol=4),
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert contents(tmp_path / "target") == contents(tmp_path / "top")


def test_the_bits_that_the_umask_takes_away_are_given_back(tmp_path):
    make(tmp_path / "top", {b"a": b"1", b"d/x": b""})
    (tmp_path / "top/a").chmod(0o666)
    (tmp_path / "top/d").chmod(0o777)
    archive, read = packed(tmp_path / "top")
    before = os.umask(0o077)
    try:
        unpack(archive.manifest, read, str(tmp_path / "target"))
    finally:
        os.umask(before)
    assert contents(tmp_path / "target") == contents(tmp_path / "top")


def test_a_snapshot_is_not_reached_by_later_edits(tmp_path):
    make(tmp_path / "top", {b"a": b"1", b"big": bytes(200_000), b"d/x": b""})
    snapshot(scan(str(tmp_path / "top")), str(tmp_path / "copy"))
    before = contents(tmp_path / "copy")
    for path in ("a", "big", "d/x"):
        with open(tmp_path / "top" / path, "r+b") as stream:
            stream.write(b"edited")
    assert contents(tmp_path / "copy") == before


def test_a_snapshot_is_not_made_over_anything(tmp_path):
    from wherry.errors import WorkspaceError

    make(tmp_path, {b"top/a": b"1", b"copy/b": b""})
    with pytest.raises(WorkspaceError, match="has something in it already"):
        snapshot(scan(str(tmp_path / "top")), str(tmp_path / "copy"))
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WorkspaceError, match="cannot make a snapshot"):
        snapshot(scan(str(tmp_path / "top")), str(tmp_path / "file"))
