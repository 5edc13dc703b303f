"""``local_docker`` with a workspace: edit, run, and the change is there."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.engine import client, image
from support.image_trees import Made, docker_build, files_in, removed_at_the_end
from support.registry import registry
from support.trees import contents, make
from wherry import AppDef, Role, Runner
from wherry.errors import DockerError, LaunchError, UsageError
from wherry.schedulers.shipping import IMAGE
from wherry.specs.states import AppState
from wherry.workspace.image import ensure_image, plan_image
from wherry.workspace.push import push_image


@pytest.fixture
def made() -> Iterator[Made]:
    with removed_at_the_end() as noted:
        yield noted


@pytest.fixture
def runner(made: Made) -> Iterator[Runner]:
    with Runner("ws") as opened:
        yield opened
        opened.prune()
        opened.clear()


@pytest.fixture
def base(made: Made) -> str:
    """A base of the test's own, so that nothing of another test is built on."""
    name = f"wherry-test/docked-{uuid.uuid4().hex[:8]}"
    docker_build(name, f"FROM {image('busybox')}\nLABEL x={name}\nWORKDIR /work\nRUN echo b > base")
    return made.note(name)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    make(tmp_path / "tree", {b"hello.txt": b"hello\n"})
    return tmp_path / "tree"


def app(base: str, *names: str, **more: object) -> AppDef:
    args = ["-c", "cat hello.txt base"]
    roles = [Role(name, image=base, entrypoint="sh", args=args, **more) for name in names]  # type: ignore[arg-type]
    return AppDef("app", roles)


def run(runner: Runner, what: AppDef, **more: object) -> str:
    handle = runner.run(what, "local_docker", **more)  # type: ignore[arg-type]
    status = runner.wait(handle, timeout=90)
    assert status.state is AppState.SUCCEEDED, status.msg
    return handle


def log(runner: Runner, handle: str, role: str = "main") -> str:
    return "".join(runner.log_lines(handle, role, 0))


def test_an_edit_is_seen_by_the_next_run(runner, base, tree):
    first = run(runner, app(base, "main"), workspace=str(tree))
    (tree / "hello.txt").write_text("edited\n")
    second = run(runner, app(base, "main"), workspace=str(tree))

    assert log(runner, first) == "hello\nb\n"
    assert log(runner, second) == "edited\nb\n"


def test_each_role_has_its_own_over_its_own_base(runner, base, tree, tmp_path):
    make(tmp_path / "other", {b"hello.txt": b"other\n"})

    handle = run(
        runner,
        app(base, "first", "second", "third"),
        workspace=[str(tree), f"second={tmp_path / 'other'}"],
    )

    assert [log(runner, handle, name) for name in ("first", "second", "third")] == [
        "hello\nb\n",
        "other\nb\n",
        "hello\nb\n",
    ]


def test_two_sources_are_laid_over_each_other(runner, base, tree, tmp_path):
    make(tmp_path / "over", {b"base": b"over\n"})

    handle = run(runner, app(base, "main"), workspace=[str(tree), str(tmp_path / "over")])

    assert log(runner, handle) == "hello\nover\n"


def test_a_dry_run_builds_nothing_and_names_the_image(runner, base, tree):
    info = runner.dryrun(app(base, "main"), "local_docker", workspace=str(tree))

    (shipment,) = info.shipments
    assert (shipment.mode, shipment.files, shipment.outcome) == (IMAGE, 1, "")
    assert info.request.roles[0].create["Image"] == shipment.place
    with client() as docker:
        assert docker.images(shipment.place) == []


def test_the_command_line_from_edit_to_run(base, tree):
    def wherry(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "wherry.cli", *words], capture_output=True, text=True
        )

    words = ("-s", "local_docker", "--workspace", str(tree), "utils.sh", "--image", base)
    planned = wherry("run", "--dryrun", *words, "cat hello.txt")
    first = wherry("run", *words, "cat hello.txt")
    (tree / "hello.txt").write_text("edited\n")
    second = wherry("run", *words, "cat hello.txt")
    again = wherry("run", *words, "cat hello.txt")
    pruned = wherry("prune", "--all")

    assert planned.stderr.startswith(f"workspace of sh: image of {tree}, 1 file, 6 bytes, digest ")
    assert json.loads(planned.stdout)["roles"][0]["create"]["Image"] in planned.stderr
    assert (first.stdout, second.stdout, again.stdout) == ("hello\n", "edited\n", "edited\n")
    assert "1 file, 6 bytes; image built\n" in first.stderr
    assert "1 file, 7 bytes; image built on the last one, with 1 new file\n" in second.stderr
    assert "1 file, 7 bytes; the image was there\n" in again.stderr
    assert "removed 3 records\nremoved 2 images with workspaces, about 13 bytes\n" in pruned.stderr


# -- options -------------------------------------------------------------------------------------


def test_pull_always_takes_what_the_registry_has_now(runner, base, tree, made, tmp_path):
    with registry(tmp_path / "registry") as host:
        name = made.note(f"{host}/team/base:1")
        push_image(base, f"{host}/team/base", "1", quiet=True)
        options = {"pull": "always"}
        first = run(runner, app(name, "main"), cfg=options, workspace=str(tree))
        newer = f"wherry-test/newer-{uuid.uuid4().hex[:8]}"
        docker_build(newer, f"FROM {base}\nRUN echo newer > base")
        made.note(newer)
        publish(newer, host, made)
        missing = run(runner, app(name, "main"), workspace=str(tree))
        always = run(runner, app(name, "main"), cfg=options, workspace=str(tree))

    assert log(runner, first) == log(runner, missing) == "hello\nb\n"
    assert log(runner, always) == "hello\nnewer\n"


def publish(image_name: str, host: str, made: Made) -> None:
    """Give the registry another image under the tag 1, as somebody else would."""
    with client() as docker:
        old = docker.inspect_image(f"{host}/team/base:1")["Id"]
        push_image(image_name, f"{host}/team/base", "2", quiet=True)
        made.note(f"{host}/team/base:2")
        docker.tag(image_name, f"{host}/team/base", "1", force=True)
        docker.push(f"{host}/team/base", tag="1")
        docker.tag(old, f"{host}/team/base", "1", force=True)


def test_a_workspace_image_is_never_pulled(runner, base, tree, made):
    plan = plan_image(base, str(tree))
    ensure_image(plan)
    made.note(plan.name)

    handle = run(runner, app(plan.name, "main"), cfg={"pull": "always"})

    assert log(runner, handle) == "hello\nb\n"


def test_a_workspace_image_that_is_gone_is_named(runner):
    gone = f"wherry-workspace:{uuid.uuid4().hex}"

    with pytest.raises(LaunchError, match="an image with a workspace is not pulled"):
        runner.run(app(gone, "main"), "local_docker")


def test_the_platform_is_asked_for(runner, base, tree):
    with pytest.raises(DockerError, match=rf"no registry gives the base image '{base}'"):
        runner.dryrun(
            app(base, "main"), "local_docker", {"platform": "linux/s390x"}, workspace=str(tree)
        )


def test_the_engines_own_platform_may_be_named(runner, base, tree):
    with client() as docker:
        found = docker.inspect_image(base)
    platform = f"{found['Os']}/{found['Architecture']}"

    handle = run(
        runner, app(base, "main"), cfg={"platform": platform}, workspace=str(tree)
    )  # fmt: skip

    assert log(runner, handle) == "hello\nb\n"


def test_pull_never_tells_a_base_that_is_not_here(runner, tree):
    with pytest.raises(DockerError, match=r"'no/such:1' is not on this machine, .*pull=never"):
        runner.dryrun(
            app("no/such:1", "main"), "local_docker", {"pull": "never"}, workspace=str(tree)
        )


def test_a_snapshot_is_refused_where_the_files_are_in_an_image_anyway(runner, base, tree):
    with pytest.raises(UsageError, match="the files are sent as they are now anyway"):
        runner.dryrun(app(base, "main"), "local_docker", workspace=str(tree), snapshot=True)


# -- clearing ------------------------------------------------------------------------------------


def there(name: str) -> bool:
    with client() as docker:
        return any(name in (found["RepoTags"] or ()) for found in docker.images())


def test_images_stay_while_a_record_names_them(runner, base, tree):
    handle = run(runner, app(base, "main"), workspace=str(tree))
    name = runner.describe(handle).app.roles[0].image

    kept = runner.clear()
    dry = there(name)
    runner.prune()
    planned = runner.clear(dry_run=True)
    cleared = runner.clear()

    assert (kept.images, dry) == ((), True)
    assert planned.images == cleared.images == (name,)
    assert cleared.image_size == 6
    assert not there(name)


def test_images_stay_while_a_container_is_of_them(runner, base, tree, made):
    plan = plan_image(base, str(tree))
    ensure_image(plan)
    made.note(plan.name)
    with client() as docker:
        box = docker.create_container(plan.name, ["sh"])["Id"]
        kept = runner.clear()
        docker.remove_container(box)
    cleared = runner.clear()

    assert kept.images == ()
    assert cleared.images == (plan.name,)


def test_young_images_stay_when_an_age_is_given(runner, base, tree, made):
    plan = plan_image(base, str(tree))
    ensure_image(plan)
    made.note(plan.name)

    assert runner.clear(3600).images == ()
    assert there(plan.name)


def test_images_of_other_records_stay(runner, base, tree, made, monkeypatch, tmp_path):
    plan = plan_image(base, str(tree))
    ensure_image(plan)
    made.note(plan.name)
    monkeypatch.setenv("WHERRY_HOME", str(tmp_path / "another"))
    (tmp_path / "another").mkdir()

    assert runner.clear().images == ()
    assert there(plan.name)


def test_a_chain_of_layers_goes_as_a_whole(runner, base, tree):
    names = []
    for number in range(3):
        (tree / "hello.txt").write_text(f"{number}\n")
        plan = plan_image(base, str(tree))
        ensure_image(plan)
        names.append(plan.name)

    cleared = runner.clear()

    assert sorted(cleared.images) == sorted(names)
    assert cleared.image_size == 6
    assert not any(map(there, names))


def test_names_that_pushes_gave_go(runner, base, tree, tmp_path, made):
    with registry(tmp_path / "registry") as host:
        plan = plan_image(base, str(tree))
        ensure_image(plan)
        push_image(plan.name, f"{host}/team/app", plan.tag, quiet=True)
        push_image(base, f"{host}/team/base", "mine", quiet=True)
        made.note(f"{host}/team/app:{plan.tag}")
        made.note(f"{host}/team/base:mine")

        cleared = runner.clear()

    assert sorted(cleared.names) == [f"{host}/team/app:{plan.tag}", f"{host}/team/base:mine"]
    assert cleared.images == (plan.name,)
    assert there(f"{base}:latest")
    assert not any(map(there, cleared.names))
    assert runner.clear().names == ()


def test_caches_go_and_are_made_again(runner, base, tree, own_home, made):
    plan = plan_image(base, str(tree))
    ensure_image(plan)
    made.note(plan.name)
    before = runner.clear(3600).cache_size

    cleared = runner.clear()

    assert before == 0
    assert cleared.cache_size > 0
    assert not [*own_home.glob("cache/trees/*"), *own_home.glob("cache/images/*")]
    again = plan_image(base, str(tree))
    ensure_image(again)
    assert files_in(again.name)["hello.txt"] == contents(tree)["hello.txt"]
