"""Images with a workspace beside those that the Engine itself builds of the same folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from support.engine import image
from support.image_trees import Made, docker_build, files_in, removed_at_the_end
from support.own_engine import own_engine
from support.trees import make, nested, patterns
from wherry.engine.docker.connection import Engine
from wherry.errors import DockerError, WorkspaceError
from wherry.workspace.image import ensure_image, plan_image

NAMES = st.sampled_from([b"a", b"b.log", b".c", b"build", b"x y", b"-f"])
PIECES = [b"*", b"**", b"/", b"a", b"build", b"!", b".log", b".c", b"?"]
MODES = st.sampled_from([0o644, 0o755, 0o600, 0o444])


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with removed_at_the_end() as made:
        name = f"wherry-test/judge-{uuid.uuid4().hex[:8]}"
        lines = "WORKDIR /work\nRUN mkdir -p a/b build && echo b > a/base && ln -s a x"
        docker_build(name, f"FROM {image('busybox')}\n{lines}")
        yield made.note(name)


def built_by_the_engine(made: Made, base: str, tree: Path) -> str:
    """Build it; return an empty name where a pattern is refused."""
    name = made.note(f"wherry-test/theirs-{uuid.uuid4().hex[:8]}")
    (tree / "Dockerfile").write_text(f"FROM {base}\nCOPY . .\n")
    ran = subprocess.run(
        ["docker", "build", "-q", "-t", name, tree],
        check=False,
        capture_output=True,
        env={**os.environ, "DOCKER_BUILDKIT": "0"},
    )
    assert ran.returncode == 0 or b"pattern" in ran.stderr, ran.stderr
    return "" if ran.returncode else name


def build(made: Made, base: str, tree: Path) -> str:
    plan = plan_image(base, str(tree))
    ensure_image(plan)
    return made.note(plan.name)


@settings(
    max_examples=4,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a build takes too long to shrink
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(nested(NAMES, depth=3, most=8), patterns(PIECES), st.lists(MODES, min_size=8, max_size=8))
def test_a_random_tree_with_its_ignore_file(base, tmp_path, files, ignored, modes):
    tree = tmp_path / uuid.uuid4().hex
    make(tree, {**files, b".dockerignore": ignored})
    for number, path in enumerate(sorted(path for path, text in files.items() if text is not None)):
        os.chmod(os.path.join(os.fsencode(tree), path), modes[number % len(modes)])
    (tree / "link").symlink_to("a")
    with removed_at_the_end() as made:
        theirs = built_by_the_engine(made, base, tree)
        if not theirs:
            with pytest.raises(WorkspaceError):
                plan_image(base, str(tree))
            return

        ours = build(made, base, tree)

        assert files_in(ours) == files_in(theirs)


def test_what_stands_in_the_way_in_the_base(base, tmp_path):
    """A file where the base has a folder, a folder where it has a link, an own mode."""
    tree = tmp_path / "tree"
    make(tree, {b"x/inside": b"1", b"a/b/new": b"2"})
    (tree / "a").chmod(0o700)
    with removed_at_the_end() as made:
        theirs = built_by_the_engine(made, base, tree)

        assert files_in(build(made, base, tree)) == files_in(theirs)


# -- an Engine whose disk is full ----------------------------------------------------------------


@pytest.fixture
def small_engine(tmp_path: Path) -> Iterator[str]:
    """An Engine with 24 MiB for images."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", disk], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted: {mounted.stderr.decode()}")
    try:
        with own_engine(f"--data-root={disk}/data") as running:
            yield running.address
    finally:
        subprocess.run(["umount", "--lazy", disk], check=False, capture_output=True)


def test_a_full_disk_is_named_and_nothing_is_left(small_engine, tmp_path):
    tree = tmp_path / "tree"
    make(tree, {b"fits": b"1"})
    base = "wherry-test/busybox"
    ensure_image(plan_image(base, str(tree), host=small_engine), host=small_engine)
    (tree / "large").write_bytes(os.urandom(30 << 20))

    with pytest.raises(DockerError) as told:
        ensure_image(plan_image(base, str(tree), host=small_engine), host=small_engine)

    assert "laying the workspace over wherry-test/busybox failed: " in str(told.value)
    assert "no space left on device; the Engine's disk is full; " in str(told.value)
    with Engine(small_engine) as engine:
        assert engine.request("GET", "/containers/json", {"all": True}) == []
    shutil.rmtree(tree)
    make(tree, {b"fits": b"2"})
    after = ensure_image(plan_image(base, str(tree), host=small_engine), host=small_engine)
    assert after.made
