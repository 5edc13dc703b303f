"""`.gitignore` and `.wherryignore`, with git itself as the judge."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from support.trees import every_path, make, nested, patterns
from wherry.workspace.ignore_git import parse_rules
from wherry.workspace.tree import scan

NAMES = [b"a", b"b", b"foo", b"build", b"foo.py", b"a b", b"a ", b"#x", b"!x", b"x\ny"]
NAMES += [b"\xff", "é".encode(), b"[a]", b"a\\b", b"*", b"a-b", b"foobar", b".gitignore.d"]
PIECES = [b"a", b"b", b"foo", b"build", b".py", b"*", b"**", b"/", b"/", b"?", b"!", b"\\", b"#"]
PIECES += [b"[", b"]", b"[a-c]", b"[!a]", b"[^b]", b"[[:alpha:]]", b"[[:x:]]", b"[]a]", b"[a\\]b]"]
PIECES += [b" ", b"\\ ", b"\t", b"\r", "é".encode(), b"\xff", b"-", b"**/", b"/**", b"/**/", b"x"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("git")
    git(folder, "init", "-q")
    return folder


def git(folder: Path, *words: str, given: bytes = b"") -> bytes:
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    ran = subprocess.run(
        ["git", *words], cwd=folder, input=given, capture_output=True, check=False, env=environ
    )
    assert ran.returncode in (0, 1), ran.stderr
    return ran.stdout


def kept_by_git(repository: Path, folder: Path) -> set[str]:
    """Return what git does not ignore; a case is a folder of the repository."""
    below = every_path(folder)
    prefix = os.path.relpath(folder, repository)
    asked = b"".join(os.fsencode(f"{prefix}/{path}") + b"\0" for path in below)
    said = git(repository, "check-ignore", "--no-index", "-z", "--stdin", given=asked)
    ignored = {os.path.relpath(os.fsdecode(path), prefix) for path in said.split(b"\0") if path}
    return below - ignored


def kept(folder: Path) -> set[str]:
    return {entry.path for entry in scan(str(folder)).entries}


names = st.sampled_from(NAMES)
case = st.tuples(
    nested(names), patterns(PIECES), st.dictionaries(names, patterns(PIECES), max_size=2)
)


@settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(case, min_size=20, max_size=30))
def test_git_ignores_the_same_of_random_trees(repository, tmp_path_factory, cases):
    top = Path(tmp_path_factory.mktemp("cases", numbered=True))
    top = repository / top.name
    folders = []
    for number, (files, rules, below) in enumerate(cases):
        folder = top / str(number)
        make(folder, {**files, b".gitignore": rules})
        for name, inner in below.items():
            if (folder / os.fsdecode(name)).is_dir():
                make(folder / os.fsdecode(name), {b".gitignore": inner})
        folders.append(folder)
    judged = kept_by_git(repository, top)
    for folder in folders:
        prefix = folder.name + "/"
        expected = {path.removeprefix(prefix) for path in judged if path.startswith(prefix)}
        assert kept(folder) == expected, (folder / ".gitignore").read_bytes()


@pytest.mark.parametrize(
    ("rules", "left_out"),
    [
        ("build/", {"build", "sub/build"}),
        ("/build", {"build"}),
        ("**/x", {"x", "sub/x"}),
        ("*.py\n!keep.py", {"a.py", "sub/b.py"}),
        ("# a.py\n", set()),
        ("\\#note", {"#note"}),
        ("\\!loud", {"!loud"}),
        ("sub/\n!sub/b.py", {"sub"}),
        ("sub/*\n!sub/b.py", {"sub/build", "sub/keep.py", "sub/x"}),
        ("trail   \n", {"trail"}),
        ("trail\\ ", {"trail "}),
        ("a.py\r\n", {"a.py"}),
        ("sub/**/in", {"sub/build/in"}),
        ("\ufeffa.py", {"a.py"}),
        ("", set()),
    ],
)
def test_a_rule_leaves_out_what_git_leaves_out(repository, tmp_path, rules, left_out):
    files = ["a.py", "keep.py", "x", "build/in", "sub/build/in", "sub/b.py", "sub/keep.py"]
    files += ["sub/x", "#note", "!loud", "trail", "trail "]
    folder = repository / tmp_path.name
    make(folder, {path.encode(): b"" for path in files} | {b".gitignore": rules.encode()})
    assert kept(folder) == kept_by_git(repository, folder)
    gone = every_path(folder) - kept(folder)
    assert {path for path in gone if os.path.dirname(path) not in gone} == left_out


def test_a_nested_file_speaks_of_its_own_folder_and_wins(tmp_path):
    make(
        tmp_path,
        {
            b".gitignore": b"*.log\n",
            b"sub/.gitignore": b"!keep.log\n/top\n",
            b"sub/keep.log": b"",
            b"sub/other.log": b"",
            b"sub/top": b"",
            b"sub/in/top": b"",
            b"keep.log": b"",
        },
    )
    found = kept(tmp_path)
    assert {"sub/keep.log", "sub/in/top"} <= found
    assert found.isdisjoint({"sub/other.log", "sub/top", "keep.log"})


def test_a_link_to_a_folder_is_no_folder_to_a_rule(tmp_path):
    make(tmp_path, {b".gitignore": b"data/\n", b"real/data/x": b""})
    (tmp_path / "data").symlink_to("real/data")
    assert kept(tmp_path) == {".gitignore", "data", "real"}


def test_git_s_own_folder_is_left_out_everywhere(tmp_path):
    make(tmp_path, {b".git/config": b"", b"sub/.git": b"gitdir: x", b"sub/a": b""})
    assert kept(tmp_path) == {"sub", "sub/a"}
    make(tmp_path, {b".wherryignore": b"!.git\n"})
    assert kept(tmp_path) == {".wherryignore", "sub", "sub/a"}


def test_excludes_of_the_user_and_the_clone_are_not_read(tmp_path):
    make(tmp_path, {b".git/info/exclude": b"a\n", b"a": b""})
    assert kept(tmp_path) == {"a"}


def test_the_first_ignore_file_of_three_decides(tmp_path):
    make(tmp_path, {b"a": b"", b"b": b"", b"c": b"", b".gitignore": b"c\n"})
    assert "c" not in kept(tmp_path)
    make(tmp_path, {b".dockerignore": b"b\n"})
    assert {"a", "c"} <= kept(tmp_path)
    assert "b" not in kept(tmp_path)
    make(tmp_path, {b".wherryignore": b"a\n"})
    assert {"b", "c"} <= kept(tmp_path)
    assert "a" not in kept(tmp_path)
    assert scan(str(tmp_path)).rules == (".wherryignore",)


def test_nested_files_of_another_dialect_are_plain_files(tmp_path):
    make(
        tmp_path,
        {
            b".wherryignore": b"",
            b"sub/.gitignore": b"a\n",
            b"sub/.wherryignore": b"b\n",
            b"sub/a": b"",
            b"sub/b": b"",
        },
    )
    assert {"sub/a", "sub/.gitignore"} <= kept(tmp_path)
    assert "sub/b" not in kept(tmp_path)


@given(st.binary(max_size=60))
def test_no_ignore_file_is_too_odd_to_read(content):
    assert isinstance(parse_rules(content), tuple)
