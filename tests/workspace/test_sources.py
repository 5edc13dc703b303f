"""Where workspaces come from."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.trees import contents, make
from wherry.errors import WorkspaceError
from wherry.workspace.tree import scan


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERRY_HOME", str(tmp_path / "home"))


def remote(files: dict[str, bytes]) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    for path, content in files.items():
        memory.pipe(path, content)


def test_a_file_address_is_the_folder_itself(tmp_path):
    make(tmp_path / "a b", {b"x": b""})
    tree = scan(f"file://{tmp_path}/a%20b")
    assert tree.sources == (str(tmp_path / "a b"),)
    assert [entry.path for entry in tree.entries] == ["x"]


def test_an_fsspec_address_is_copied_and_read_with_its_ignore_file(tmp_path):
    remote({"/one/a.py": b"1", "/one/sub/b": b"22", "/one/c.log": b"", "/one/.gitignore": b"*.log"})
    tree = scan("memory://one")
    assert {entry.path: entry.size for entry in tree.entries} == {
        ".gitignore": 5,
        "a.py": 1,
        "sub": 0,
        "sub/b": 2,
    }
    assert tree.sources[0].startswith(str(tmp_path / "home"))


def test_an_unchanged_address_is_not_copied_again_and_a_changed_one_is(tmp_path):
    remote({"/two/a": b"1", "/two/gone": b""})
    first = scan("memory://two")
    before = contents(first.sources[0])
    assert scan("memory://two").sources == first.sources
    import fsspec

    fsspec.filesystem("memory").rm("/two/gone")
    remote({"/two/a": b"2"})
    second = scan("memory://two")
    assert [entry.path for entry in second.entries] == ["a"]
    assert Path(second.entries[0].file).read_bytes() == b"2"
    assert contents(first.sources[0]) == before, "one that may be being read does not change"


def test_addresses_and_folders_are_laid_over_each_other(tmp_path):
    remote({"/three/a": b"remote", "/three/b": b"remote"})
    make(tmp_path / "top", {b"a": b"local"})
    tree = scan(["memory://three", str(tmp_path / "top")])
    assert {entry.path: Path(entry.file).read_bytes() for entry in tree.entries} == {
        "a": b"local",
        "b": b"remote",
    }


@pytest.mark.parametrize("address", ["memory://nothing/there", "nosuch://x/y"])
def test_an_address_with_nothing_at_it_is_named(address):
    with pytest.raises(WorkspaceError, match=address):
        scan(address)


def test_without_fsspec_the_line_that_installs_it_is_given(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(WorkspaceError, match=r"pip install 'wherry\[remote\]'"):
        scan("memory://one")
