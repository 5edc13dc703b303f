"""What a workspace consists of, and which folders are refused."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
from pathlib import Path

import pytest

from support.trees import make
from wherry.errors import WorkspaceError
from wherry.workspace.tree import Entry, scan


def entries(*folders: Path) -> dict[str, Entry]:
    return {entry.path: entry for entry in scan([str(folder) for folder in folders]).entries}


def test_entries_are_sorted_and_say_what_they_are(tmp_path):
    make(tmp_path, {b"b/x": b"12", b"a.py": b"1", b"a/y": b"", b"empty": None})
    (tmp_path / "a.py").chmod(0o750)
    (tmp_path / "empty").chmod(0o700)
    (tmp_path / "link").symlink_to("a.py")
    tree = scan(str(tmp_path))
    found = [(entry.path, entry.kind, entry.size, entry.target) for entry in tree.entries]
    assert found == [
        ("a", "dir", 0, ""),
        ("a.py", "file", 1, ""),
        ("a/y", "file", 0, ""),
        ("b", "dir", 0, ""),
        ("b/x", "file", 2, ""),
        ("empty", "dir", 0, ""),
        ("link", "link", 0, "a.py"),
    ]
    modes = {entry.path: entry.mode for entry in tree.entries}
    assert (modes["a.py"], modes["empty"]) == (0o750, 0o700)
    assert tree.size == 3
    assert tree.sources == (str(tmp_path),)


def test_links_are_kept_as_they_are_wherever_they_point(tmp_path):
    top = tmp_path / "top"
    make(tmp_path, {b"outside/secret": b"", b"top/real/x": b""})
    targets = {"gone": "nowhere", "folder": "real", "out": "../outside", "far": "/etc", "me": "me"}
    for name, target in targets.items():
        (top / name).symlink_to(target)
    found = entries(top)
    assert {name: found[name].target for name in targets} == targets
    assert set(found) == {*targets, "real", "real/x"}


@pytest.mark.parametrize(
    "name", [b"a\nb", b"\xff\xfe", "é😀".encode(), b" ", b"-rf", b"a\\b", b"*"]
)
def test_unusual_names_are_kept_byte_by_byte(tmp_path, name):
    make(tmp_path, {name: b"1", b"in/" + name: b""})
    assert {os.fsencode(path) for path in entries(tmp_path)} == {name, b"in", b"in/" + name}


def test_sockets_pipes_and_devices_are_left_out_with_a_note(tmp_path):
    make(tmp_path, {b"a": b""})
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(os.path.relpath(tmp_path / "sock"))
    tree = scan(str(tmp_path))
    assert [entry.path for entry in tree.entries] == ["a"]
    assert sorted(tree.notes) == [
        f"{tmp_path}/pipe is a pipe; it was left out.",
        f"{tmp_path}/sock is a socket; it was left out.",
    ]


def test_a_link_to_the_workspace_itself_is_followed(tmp_path):
    make(tmp_path, {b"real/a": b""})
    (tmp_path / "link").symlink_to("real")
    assert set(entries(tmp_path / "link")) == {"a"}


def test_later_sources_are_laid_over_earlier_ones(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    make(one, {b"a": b"1", b"shared": b"1", b"sub/x": b""})
    make(two, {b"b": b"2", b"shared": b"22", b"sub/y": b"", b".gitignore": b"left\n", b"left": b""})
    make(one, {b"left": b""})
    found = entries(one, two)
    assert set(found) == {".gitignore", "a", "b", "left", "shared", "sub", "sub/x", "sub/y"}
    assert found["shared"].source == str(two)
    assert found["shared"].size == 2


def test_a_file_over_a_folder_is_refused_and_both_are_named(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    make(one, {b"x/inner": b""})
    make(two, {b"x": b""})
    for sources in ([one, two], [two, one]):
        with pytest.raises(WorkspaceError) as caught:
            entries(*sources)
        assert str(one / "x") in str(caught.value)
        assert str(two / "x") in str(caught.value)


def test_a_missing_folder_is_named_with_the_nearest_one(tmp_path):
    (tmp_path / "project").mkdir()
    with pytest.raises(WorkspaceError, match=r"projct' is not there; did you mean '.*/project'\?"):
        scan(str(tmp_path / "projct"))
    with pytest.raises(WorkspaceError, match="is not there, and neither is"):
        scan(str(tmp_path / "no" / "thing"))


def test_a_file_the_root_and_nothing_are_no_workspaces(tmp_path):
    make(tmp_path, {b"train.py": b""})
    with pytest.raises(WorkspaceError, match=r"train\.py' is not a folder"):
        scan(str(tmp_path / "train.py"))
    for root in ("/", "//", "/tmp/.."):
        with pytest.raises(WorkspaceError, match="root of all files"):
            scan(root)
    with pytest.raises(WorkspaceError, match=r"write '\.'"):
        scan("")
    with pytest.raises(WorkspaceError, match="at least one folder"):
        scan([])


def test_the_home_folder_needs_an_ignore_file_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    make(tmp_path, {b"a": b"", b".gitignore": b""})
    with pytest.raises(WorkspaceError, match="home folder"):
        scan("~")
    make(tmp_path, {b".wherryignore": b"a\n"})
    assert "a" not in entries(tmp_path)


def test_records_of_wherry_inside_the_workspace_are_not_shipped(tmp_path, monkeypatch):
    monkeypatch.setenv("WHERRY_HOME", str(tmp_path / "records"))
    make(tmp_path, {b"records/journal": b"", b"a": b""})
    assert "records/journal" not in entries(tmp_path)


def test_a_tree_that_is_too_large_names_what_makes_it_so(tmp_path):
    make(
        tmp_path,
        {
            b"data/deep/big.bin": bytes(6000),
            b"data/deep/note": b"x",
            b"a": bytes(500),
            b"b": bytes(400),
            b"c": bytes(300),
            b"d": bytes(200),
            b"e": bytes(100),
            b".dockerignore": b"",
        },
    )
    with pytest.raises(WorkspaceError) as caught:
        scan(str(tmp_path), size_limit=7000)
    said = str(caught.value)
    lines = [line.split()[-1] for line in said.splitlines()[1:6]]
    assert lines == ["data/deep/big.bin", "a", "b", "c", "d"]
    assert ".dockerignore" in said
    assert "7.3 KiB" in said
    assert scan(str(tmp_path), size_limit=None).size == 7501


def test_what_is_left_out_does_not_count(tmp_path):
    make(tmp_path, {b"big": bytes(5000), b"a": b"1", b".gitignore": b"big\n"})
    assert scan(str(tmp_path), size_limit=100).ignored == 1


@pytest.mark.parametrize(
    ("limit", "fits"),
    [("3KiB", True), ("3000", True), ("2K", False), ("none", True), ("1 GiB", True)],
)
def test_the_limit_can_be_set_in_the_environment(tmp_path, monkeypatch, limit, fits):
    monkeypatch.setenv("WHERRY_WORKSPACE_LIMIT", limit)
    make(tmp_path, {b"big": bytes(2500)})
    if fits:
        assert scan(str(tmp_path)).size == 2500
    else:
        with pytest.raises(WorkspaceError, match="WHERRY_WORKSPACE_LIMIT=1MiB"):
            scan(str(tmp_path))


@pytest.mark.parametrize("limit", ["much", "-1", "3 apples", "KiB"])
def test_a_limit_that_is_no_size_is_refused(tmp_path, monkeypatch, limit):
    monkeypatch.setenv("WHERRY_WORKSPACE_LIMIT", limit)
    make(tmp_path, {b"a": b""})
    with pytest.raises(WorkspaceError, match="write bytes, such as 2GiB"):
        scan(str(tmp_path))


@pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user for a moment")
def test_what_cannot_be_read_is_named(monkeypatch):
    # Not below pytest's own folder, which is closed to others.
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        monkeypatch.setenv("WHERRY_HOME", str(top / "records"))
        make(top, {b"locked/a": b"", b"x": b""})
        top.chmod(0o755)
        (top / "locked").chmod(0o700)
        scan(name)
        os.seteuid(65534)
        try:
            with pytest.raises(WorkspaceError) as caught:
                scan(name)
        finally:
            os.seteuid(0)
    assert f"cannot read '{name}/locked': Permission denied" in str(caught.value)


def test_a_tree_that_changes_all_the_time_is_read_or_refused_by_name(tmp_path):
    make(tmp_path, {b"d%d/f%d" % (n % 20, n): b"" for n in range(400)})
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            for n in range(20):
                make(tmp_path, {b"d%d/churn/x" % n: b""})
            for n in range(20):
                shutil.rmtree(tmp_path / f"d{n}" / "churn")

    writer = threading.Thread(target=churn)
    writer.start()
    outcomes = set()
    try:
        for _ in range(40):
            try:
                outcomes.add("read" if len(scan(str(tmp_path)).entries) >= 420 else "short")
            except WorkspaceError as error:
                outcomes.add("named" if "churn" in str(error) else str(error))
    finally:
        stop.set()
        writer.join()
    assert outcomes <= {"read", "named"}


# TorchX: dangling links and links to folders crash the build; `build/`, `/build`, `**/x`, `!x` and
# `#` are misread; empty folders and modes are lost.
@pytest.mark.parametrize("file", [".wherryignore", ".dockerignore", ".gitignore"])
def test_rules_that_others_misread_are_read_right_in_every_dialect(tmp_path, file):
    rules = "# a.py\nbuild/\n/only-here\n**/x\n*.log\n!keep.log\n"
    files = [b"a.py", b"build/in", b"only-here", b"sub/only-here", b"x", b"sub/deep/x", b"out.log"]
    make(tmp_path, dict.fromkeys([*files, b"keep.log"], b"") | {file.encode(): rules.encode()})
    found = set(entries(tmp_path))
    assert found == {file, "a.py", "keep.log", "sub", "sub/only-here", "sub/deep"}
