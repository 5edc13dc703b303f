"""`.dockerignore`, with `docker build` on the real Engine as the judge."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import uuid
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from support.engine import require_engine
from support.trees import make, nested, patterns
from wherry.errors import WorkspaceError
from wherry.workspace.ignore_docker import BadPatternError, parse_patterns
from wherry.workspace.tree import scan

NAMES = [b"a", b"b", b"foo", b"build", b"foo.py", b"a b", b"#x", b"!x", b"a+b", b"a(b)"]
NAMES += ["é".encode(), b"[a]", b"a^b", b"a-b", b"foobar", b".git", b"d1"]
PIECES = [b"a", b"b", b"foo", b"build", b".py", b"*", b"**", b"/", b"/", b"?", b"!", b"#", b"."]
PIECES += [b"[a-c]", b"[^a]", b"[!a]", b"[b]", b"\\*", b"\\[", b"\\d", b" ", b"\t", b"\r", b"x"]
PIECES += ["é".encode(), b"../", b"./", b"**/", b"/**", b"!**/", b"+", b"(", b"^", b"-", b"[a^]"]

DOCKERFILE = b"FROM scratch\nCOPY . /tree/\n"


@pytest.fixture
def classic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the builder that every Engine has; the ignore rules follow the same variable."""
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")


@pytest.fixture
def judge(classic: None) -> None:
    require_engine()
    if shutil.which("docker") is None:
        pytest.skip("there is no docker command")


def docker(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["docker", *words], capture_output=True, check=False)


def built(folder: Path) -> set[str] | None:
    """Return the paths that `docker build` puts into an image; nothing when it refuses."""
    name = f"wherry-test-{uuid.uuid4().hex[:12]}"
    make(folder, {b"Dockerfile": DOCKERFILE})
    ran = docker("build", "-q", "-t", name, str(folder))
    if ran.returncode:
        assert b"pattern" in ran.stderr or b"dockerignore" in ran.stderr, ran.stderr
        return None
    try:
        assert docker("create", "--name", name, name, "none").returncode == 0
        exported = io.BytesIO(docker("export", name).stdout)
    finally:
        docker("rm", name)
        docker("rmi", name)
    with tarfile.open(fileobj=exported) as tree:
        paths = [member.name.rstrip("/") for member in tree]
    return {path.removeprefix("tree/") for path in paths if path.startswith("tree/")}


def kept(folder: Path) -> set[str] | None:
    try:
        return {entry.path for entry in scan(str(folder)).entries}
    except WorkspaceError:
        return None


def _others(paths: set[str] | None) -> set[str] | None:
    # The Engine takes these two out by itself, and old ones misread rare patterns there.
    return None if paths is None else paths - {"Dockerfile", ".dockerignore"}


@settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(files=nested(st.sampled_from(NAMES)), rules=patterns(PIECES))
def test_docker_build_takes_the_same_of_random_trees(judge, tmp_path_factory, files, rules):
    folder = tmp_path_factory.mktemp("context", numbered=True)
    # One file is always there: Docker refuses to copy nothing at all.
    make(folder, {**files, b".dockerignore": rules + b"\n!always", b"always": b""})
    expected = built(folder)
    assert _others(kept(folder)) == _others(expected), rules


def test_docker_build_takes_the_same_of_a_telling_tree(judge, tmp_path):
    folder = tmp_path / "context"
    files = [
        b"a.py",
        b"a.md",
        b"README.md",
        b"sub/a.md",
        b"sub/in/a.md",
        b"build/x",
        b"sub/build/x",
    ]
    files += [b"out/keep/x", b"out/drop/x", b"out/keep.py", b".git/config", b"#note", b"temp1/x"]
    files += [b"Dockerfile", b"sub/Dockerfile", b"deep/a/b/c.log", b"deep/keep.log", b"a b/x"]
    make(folder, dict.fromkeys(files, b"") | {b"empty": None, b"out/void": None})
    lines = ["# comment", " *.md ", "!README.md", "/build/", "out", "!out/keep", "**/*.log"]
    lines += ["!deep/keep.log", "temp?", "\\#note", ".dockerignore", "Dockerfile", "a\\ b/../a b"]
    make(folder, {b".dockerignore": "\n".join(lines).encode()})
    (folder / "link").symlink_to("sub")
    (folder / "dangling").symlink_to("nowhere")
    expected = built(folder)
    found = kept(folder)
    assert found == expected
    assert {"a.py", "README.md", "sub/a.md", "out", "out/keep/x", "deep/keep.log"} <= found
    assert found.isdisjoint({"a.md", "build", "out/drop", "deep/a/b/c.log", "temp1", "Dockerfile"})
    assert {"empty", "link", "dangling", ".git/config", "sub/build/x", "sub/Dockerfile"} <= found


@pytest.mark.parametrize("rule", ["[", "a[", "[]a]", "a\\", "[-a]", "!", "!/", "[b-a]"])
def test_a_pattern_that_docker_refuses_is_refused_with_its_line(judge, tmp_path, rule):
    folder = tmp_path / "context"
    make(folder, {b"a": b"", b".dockerignore": b"ok\n" + rule.encode() + b"\n"})
    assert built(folder) is None
    with pytest.raises(WorkspaceError, match=r"\.dockerignore, line 2: "):
        scan(str(folder))


@pytest.fixture
def excepted(tmp_path: Path) -> Path:
    make(tmp_path, {b".dockerignore": b"**\n!**/*.py\n", b"sub/in/a.py": b"", b"sub/data": b""})
    return tmp_path


def test_exceptions_with_wildcards_reach_into_folders_as_with_buildkit(excepted, monkeypatch):
    monkeypatch.delenv("DOCKER_BUILDKIT", raising=False)
    assert kept(excepted) == {"sub", "sub/in", "sub/in/a.py"}


def test_exceptions_with_wildcards_do_not_with_the_classic_builder(excepted, classic):
    assert kept(excepted) == set()


def test_a_folder_that_is_left_out_keeps_its_mode_when_something_in_it_is_kept(tmp_path):
    make(tmp_path, {b".dockerignore": b"out\n!out/in/keep\n", b"out/in/keep": b"", b"out/x": b""})
    (tmp_path / "out").chmod(0o711)
    entries = {entry.path: entry for entry in scan(str(tmp_path)).entries}
    assert set(entries) == {".dockerignore", "out", "out/in", "out/in/keep"}
    assert entries["out"].mode == 0o711


def test_nested_files_and_those_of_git_mean_nothing_to_docker(tmp_path):
    make(tmp_path, {b".dockerignore": b"", b".gitignore": b"a\n", b"a": b"", b"sub/a": b""})
    make(tmp_path, {b"sub/.dockerignore": b"a\n"})
    assert {"a", "sub/a"} <= (kept(tmp_path) or set())


@given(st.binary(max_size=60))
def test_no_file_is_too_odd_to_be_read_or_refused(content):
    refused = ""
    try:
        found = parse_patterns(content)
    except BadPatternError as error:
        found, refused = (), str(error)
    assert not refused or refused.startswith("line ")
    assert all(pattern.matches(os.fsdecode(b"a/b\xff")) in (True, False) for pattern in found)
