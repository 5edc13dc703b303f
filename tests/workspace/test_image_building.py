"""Images with a workspace in them, made by the real Engine."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.engine import client, image
from wherry.errors import DockerError, WorkspaceError
from wherry.workspace import image_labels
from wherry.workspace.image import (
    ImagePlan,
    build_workspace_image,
    ensure_image,
    plan_image,
)

LIST = "find . -mindepth 1 | sort | while read f; do stat -c '%A %n' \"$f\"; done"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "hello.txt").write_text(f"hello {uuid.uuid4()}\n")
    return folder


@pytest.fixture
def made() -> Iterator[Callable[[str], str]]:
    """Note images (and return them), to be removed at the end."""
    names: list[str] = []

    def note(name: str) -> str:
        names.append(name)
        return name

    yield note
    with client() as docker:
        for name in reversed(names):
            docker.remove_image(name, force=True)


@pytest.fixture
def base(made: Callable[[str], str]) -> str:
    """An image with a working directory of its own, which has a file."""
    name = f"wherry-test/base-{uuid.uuid4().hex[:8]}"
    text = f"FROM {image('busybox')}\nWORKDIR /opt/app\nRUN echo old > kept && echo old > hello.txt"
    docker_build(name, text)
    return made(name)


def docker_build(name: str, text: str) -> None:
    subprocess.run(
        ["docker", "build", "-q", "-t", name, "-"], input=text.encode(), check=True,
        capture_output=True,
    )  # fmt: skip


def build(made: Callable[[str], str], base: str, tree: Path) -> str:
    plan = plan_image(base, str(tree))
    ensure_image(plan)
    return made(plan.name)


def output(image_name: str, *command: str) -> str:
    ran = subprocess.run(
        ["docker", "run", "--rm", "--network", "none", image_name, *command],
        capture_output=True,
        check=True,
    )
    return os.fsdecode(ran.stdout)


def test_the_files_lie_over_the_working_directory_of_the_base(made, base, tree):
    name = build(made, base, tree)

    assert output(name, "pwd") == "/opt/app\n"
    assert output(name, "cat", "hello.txt") == (tree / "hello.txt").read_text()
    assert output(name, "cat", "kept") == "old\n"


def test_modes_links_empty_folders_and_odd_names_are_kept(made, base, tree):
    (tree / "run.sh").write_text("#!/bin/sh\n")
    (tree / "run.sh").chmod(0o750)
    (tree / "empty").mkdir(mode=0o700)
    (tree / "folder").mkdir()
    (tree / "to-folder").symlink_to("folder")
    (tree / "dangling").symlink_to("/nowhere/at/all")
    (tree / "outside").symlink_to("/etc")
    (tree / os.fsdecode(b"latin-\xe9")).write_text("x")
    (tree / "with space and $dollar").write_text("x")
    (tree / ("long" * 60)).write_text("x")

    name = build(made, base, tree)
    listed = output(name, "sh", "-c", LIST)

    assert "-rwxr-x--- ./run.sh\n" in listed
    assert "drwx------ ./empty\n" in listed
    assert "./with space and $dollar\n" in listed
    assert f"./{'long' * 60}\n" in listed
    links = "for link in dangling outside to-folder; do readlink $link; done"
    assert output(name, "sh", "-c", links) == "/nowhere/at/all\n/etc\nfolder\n"


def test_a_name_that_is_not_utf_8_comes_through(made, base, tree):
    (tree / os.fsdecode(b"latin-\xe9")).write_text("there")

    assert output(build(made, base, tree), "sh", "-c", "cat latin-*") == "there"


def test_what_docker_build_makes_of_the_same_folder_is_the_same(made, base, tree):
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "b" / "deep.txt").write_text("deep")
    (tree / "a" / "exe").write_text("x")
    (tree / "a" / "exe").chmod(0o755)
    (tree / "link").symlink_to("a/b/deep.txt")
    (tree / ".dockerignore").write_text("*.log\n")
    (tree / "a" / "b" / "run.log").write_text("left in: the pattern is for the top")
    (tree / "top.log").write_text("left out")
    theirs = made(f"wherry-test/theirs-{uuid.uuid4().hex[:8]}")
    (tree / "Dockerfile").write_text(f"FROM {base}\nCOPY . .\n")
    subprocess.run(["docker", "build", "-q", "-t", theirs, tree], check=True, capture_output=True)

    ours = build(made, base, tree)

    every = f"{LIST}; find . -type f | sort | xargs sha256sum; readlink link"
    assert output(ours, "sh", "-c", every) == output(theirs, "sh", "-c", every)


def test_an_unchanged_tree_is_not_built_again(made, base, tree):
    plan = plan_image(base, str(tree))
    first = ensure_image(plan)
    made(plan.name)

    again = ensure_image(plan_image(base, str(tree)))

    assert (first.made, again.made) == (True, False)
    assert again.image_id == first.image_id


def test_a_time_that_changed_alone_builds_nothing(made, base, tree):
    first = build(made, base, tree)
    os.utime(tree / "hello.txt", (1, 1))

    assert plan_image(base, str(tree)).name == first


def test_a_changed_file_gives_another_image(made, base, tree):
    before = plan_image(base, str(tree))
    (tree / "hello.txt").write_text("changed\n")

    name = build(made, base, tree)

    assert name != before.name
    assert output(name, "cat", "hello.txt") == "changed\n"


def test_a_mode_that_changed_gives_another_image(base, tree):
    before = plan_image(base, str(tree))
    (tree / "hello.txt").chmod(0o755)

    assert plan_image(base, str(tree)).name != before.name


def test_a_base_that_was_made_anew_gives_another_image(made, base, tree):
    before = plan_image(base, str(tree))
    docker_build(base, f"FROM {image('busybox')}\nWORKDIR /opt/app\nRUN echo new > kept")

    name = build(made, base, tree)

    assert name != before.name
    assert output(name, "cat", "kept") == "new\n"


def test_the_image_says_what_is_in_it(made, base, tree):
    plan = plan_image(base, str(tree))
    ensure_image(plan)
    made(plan.name)

    with client() as docker:
        labels = docker.inspect_image(plan.name)["Config"]["Labels"]
        base_id = docker.inspect_image(base)["Id"]

    assert labels[image_labels.BASE] == base_id
    assert labels[image_labels.CONTENT] == plan.content
    assert plan.name == f"wherry-workspace:{plan.tag}"


def test_the_seeds_function_returns_the_images_id(made, base, tree):
    found = build_workspace_image(base, str(tree))
    made(plan_image(base, str(tree)).name)

    assert found.startswith("sha256:")
    assert output(found, "cat", "hello.txt") == (tree / "hello.txt").read_text()


def test_several_folders_are_laid_over_each_other(made, base, tree, tmp_path):
    over = tmp_path / "over"
    over.mkdir()
    (over / "hello.txt").write_text("over\n")
    (tree / "under.txt").write_text("under\n")

    plan = plan_image(base, [str(tree), str(over)])
    ensure_image(plan)

    assert output(made(plan.name), "cat", "hello.txt", "under.txt") == "over\nunder\n"


def test_an_empty_folder_gives_the_base(made, base, tree):
    (tree / "hello.txt").unlink()

    assert output(build(made, base, tree), "cat", "hello.txt") == "old\n"


@pytest.mark.parametrize("name", ["Dockerfile.wherry", "Dockerfile.torchx"])
def test_the_projects_own_dockerfile_is_built(made, base, tree, name):
    lines = ("ARG IMAGE", "FROM $IMAGE", "ARG WORKSPACE", "COPY hello.txt /data/")
    (tree / name).write_text("\n".join(lines) + '\nRUN echo "of $WORKSPACE" > /data/told\n')

    built = build(made, base, tree)

    assert output(built, "cat", "/data/hello.txt") == (tree / "hello.txt").read_text()
    assert output(built, "cat", "/data/told") == f"of {tree}\n"
    assert output(built, "cat", "hello.txt") == "old\n"


def test_a_plain_dockerfile_is_a_file_like_others(made, base, tree):
    (tree / "Dockerfile").write_text("FROM scratch\n")

    assert output(build(made, base, tree), "cat", "Dockerfile") == "FROM scratch\n"


def test_a_build_that_fails_says_why(base, tree):
    (tree / "Dockerfile.wherry").write_text("ARG IMAGE\nFROM $IMAGE\nRUN exit 7\n")

    with pytest.raises(DockerError, match=r"Dockerfile\.wherry of the workspace.*exit 7.*code: 7"):
        ensure_image(plan_image(base, str(tree)))


def test_a_base_that_is_nowhere_is_named(tree):
    with pytest.raises(DockerError, match=r"base image 'localhost:1/no/such:1' \(it is not on"):
        plan_image("localhost:1/no/such:1", str(tree))


def test_a_file_that_changes_after_the_plan_ends_the_build(base, tree):
    plan = plan_image(base, str(tree))
    (tree / "hello.txt").write_text("something longer than it was before, by far\n" * 100)

    with pytest.raises(WorkspaceError, match=r"hello\.txt was changed while it was sent"):
        ensure_image(plan)
    assert gone(plan)


def test_a_file_that_became_a_link_is_not_followed(base, tree):
    plan = plan_image(base, str(tree))
    (tree / "hello.txt").unlink()
    (tree / "hello.txt").symlink_to("/etc/passwd")

    with pytest.raises(WorkspaceError, match=r"hello\.txt could not be read"):
        ensure_image(plan)


def test_a_name_that_means_removal_in_an_image_is_refused(base, tree):
    (tree / ".wh.data").write_text("x")

    with pytest.raises(WorkspaceError, match=r"'\.wh\.data' cannot be in an image"):
        plan_image(base, str(tree))


def test_no_engine_is_told_with_its_address(tree, tmp_path):
    with pytest.raises(DockerError, match=r"no Docker Engine answers at unix:///.*/none"):
        build_workspace_image("any", str(tree), host=f"unix://{tmp_path}/none")


def gone(plan: ImagePlan) -> bool:
    from docker.errors import ImageNotFound

    with client() as docker, pytest.raises(ImageNotFound):
        docker.inspect_image(plan.name)
    return True
