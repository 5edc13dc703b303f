"""Workspaces of apps on this machine: in place, in a snapshot, for each role."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.waiting import until
from wherry import AppDef, Role, Runner
from wherry.errors import UnknownNameError, UsageError, WorkspaceError
from wherry.runner.config import Config
from wherry.runner.snapshots import kept
from wherry.schedulers.shipping import FOLDER, SNAPSHOT
from wherry.specs.states import AppState

CAT = ["-c", "pwd; cat hello.txt"]


@pytest.fixture
def runner() -> Iterator[Runner]:
    with Runner("ws") as made:
        yield made


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return folder(tmp_path / "tree", "hello\n")


def folder(path: Path, text: str) -> Path:
    path.mkdir()
    (path / "hello.txt").write_text(text)
    return path


def role(name: str = "main", args: list[str] = CAT, **more: object) -> Role:
    return Role(name, image="", entrypoint="sh", args=args, **more)  # type: ignore[arg-type]


def run(runner: Runner, app: AppDef, **more: object) -> str:
    handle = runner.run(app, "local_cwd", **more)  # type: ignore[arg-type]
    assert runner.wait(handle, timeout=60).state is AppState.SUCCEEDED
    return handle


def log(runner: Runner, handle: str, name: str = "main", k: int = 0) -> str:
    return "".join(runner.log_lines(handle, name, k))


def snapshots(home: Path) -> list[str]:
    names = os.listdir(home / "workspaces") if (home / "workspaces").is_dir() else []
    return sorted(name for name in names if name != "lock" and not name.endswith(".json"))


def test_programs_run_in_the_folder_itself(runner, tree, own_home):
    handle = run(runner, AppDef("app", [role()]), workspace=str(tree))

    assert log(runner, handle) == f"{tree}\nhello\n"
    assert snapshots(own_home) == []


def test_a_program_of_the_folder_is_found(runner, tree):
    (tree / "go").write_text("#!/bin/sh\necho from ${0##*/} in $1\n")
    (tree / "go").chmod(0o755)
    app = AppDef("app", [Role("main", image="", entrypoint="./go", args=["${img_root}"])])

    assert log(runner, run(runner, app, workspace=str(tree))) == f"from go in {tree}\n"


def test_a_snapshot_is_a_copy_under_the_records_folder(runner, tree, own_home):
    handle = run(runner, AppDef("app", [role()]), workspace=str(tree), snapshot=True)

    (name,) = snapshots(own_home)
    assert log(runner, handle) == f"{own_home}/workspaces/{name}\nhello\n"


def test_equal_trees_share_a_snapshot(runner, tree, own_home, tmp_path):
    other = folder(tmp_path / "other", "hello\n")

    for source in (tree, other, tree):
        run(runner, AppDef("app", [role()]), workspace=str(source), snapshot=True)

    assert len(snapshots(own_home)) == 1


def test_a_changed_tree_has_a_snapshot_of_its_own(runner, tree, own_home):
    run(runner, AppDef("app", [role()]), workspace=str(tree), snapshot=True)
    (tree / "hello.txt").write_text("changed\n")

    handle = run(runner, AppDef("app", [role()]), workspace=str(tree), snapshot=True)

    assert log(runner, handle).endswith("changed\n")
    assert len(snapshots(own_home)) == 2


def test_a_snapshot_that_a_program_wrote_into_is_not_used_again(runner, tree, own_home):
    spoil = ["-c", "echo spoilt > hello.txt; echo out > result.txt"]
    run(runner, AppDef("spoil", [role(args=spoil)]), workspace=str(tree), snapshot=True)

    handle = run(runner, AppDef("app", [role()]), workspace=str(tree), snapshot=True)

    assert log(runner, handle).endswith("hello\n")
    assert (tree / "hello.txt").read_text() == "hello\n"
    assert len(snapshots(own_home)) == 2


def test_editing_while_a_queue_drains_changes_nothing(runner, tree, tmp_path):
    script = f'echo began > {tmp_path}/began-$WHERRY_REPLICA_ID; read x < "$1"; cat hello.txt'
    gates = [tmp_path / f"gate-{k}" for k in range(3)]
    for gate in gates:
        os.mkfifo(gate)
    args = ["-c", script, "sh", f"{tmp_path}/gate-${{replica_id}}"]
    app = AppDef("queue", [role(args=args, num_replicas=3)], array=True)
    handle = runner.run(app, "local_cwd", {"max_parallel": 1}, workspace=str(tree), snapshot=True)
    began = until(lambda: sorted(tmp_path.glob("began-*")), "the first replica")

    (tree / "hello.txt").write_text("edited\n")
    for gate in gates:
        gate.write_text("go on\n")

    assert runner.wait(handle, timeout=60).state is AppState.SUCCEEDED
    assert len(began) == 1
    assert [log(runner, handle, k=k) for k in range(3)] == ["hello\n"] * 3


def test_prune_removes_snapshots_with_the_last_record_that_names_them(runner, tree, own_home):
    first = run(runner, AppDef("first", [role()]), workspace=str(tree), snapshot=True)
    gate = own_home.parent / "gate"
    os.mkfifo(gate)
    waiting = AppDef("second", [role(args=["-c", f"read x < {gate}; cat hello.txt"])])
    second = runner.run(waiting, "local_cwd", workspace=str(tree), snapshot=True)

    pruned = runner.prune()
    in_use = snapshots(own_home)
    gate.write_text("go on\n")
    runner.wait(second, timeout=60)
    told = log(runner, second)
    runner.prune()

    assert [app.app_handle for app in pruned] == [first]
    assert len(in_use) == 1
    assert told == "hello\n"
    assert snapshots(own_home) == []
    assert not list((own_home / "workspaces").glob("*.json"))


def test_prune_removes_no_snapshot_while_an_app_is_started(runner, tree, own_home):
    run(runner, AppDef("app", [role()]), workspace=str(tree), snapshot=True)

    with kept():
        runner.prune()
        while_starting = snapshots(own_home)
    runner.prune()

    assert len(while_starting) == 1
    assert snapshots(own_home) == []


def test_a_dry_run_makes_nothing_and_says_what_it_would(runner, tree, own_home):
    info = runner.dryrun(AppDef("app", [role()]), "local_cwd", workspace=str(tree), snapshot=True)

    (shipment,) = info.shipments
    assert (shipment.mode, shipment.roles, shipment.files) == (SNAPSHOT, ("main",), 1)
    assert shipment.size == len("hello\n")
    assert info.request.roles[0].cwd == shipment.place
    assert shipment.outcome == ""
    assert snapshots(own_home) == []


def test_a_file_that_changes_after_the_dry_run_is_told(runner, tree, own_home):
    info = runner.dryrun(AppDef("app", [role()]), "local_cwd", workspace=str(tree), snapshot=True)
    (tree / "hello.txt").write_text("changed meanwhile\n")

    with pytest.raises(WorkspaceError, match=r"hello\.txt' was changed while the snapshot"):
        runner.schedule(info)
    assert snapshots(own_home) == []


def test_several_folders_are_laid_over_each_other_in_a_snapshot(runner, tree, tmp_path, own_home):
    over = folder(tmp_path / "over", "over\n")

    handle = run(runner, AppDef("app", [role()]), workspace=[str(tree), str(over)])

    (name,) = snapshots(own_home)
    assert log(runner, handle) == f"{own_home}/workspaces/{name}\nover\n"


def two_roles() -> AppDef:
    return AppDef("two", [role("first"), role("second")])


@pytest.mark.parametrize(
    "words",
    [
        lambda common, own: [common, f"second={own}"],
        lambda common, own: {"first": common, "second": [own]},
        lambda common, own: {"": common, "second": own},
    ],
)
def test_a_role_may_have_a_folder_of_its_own(
    runner, tree, tmp_path, words: Callable[[str, str], object]
):
    own = folder(tmp_path / "own", "own\n")

    handle = run(runner, two_roles(), workspace=words(str(tree), str(own)))

    assert log(runner, handle, "first") == f"{tree}\nhello\n"
    assert log(runner, handle, "second") == f"{own}\nown\n"


def test_a_role_may_have_none(runner, tree, tmp_path, monkeypatch):
    here = folder(tmp_path / "here", "here\n")
    monkeypatch.chdir(here)

    handle = run(runner, two_roles(), workspace=[str(tree), "second="])

    assert log(runner, handle, "second") == f"{here}\nhere\n"


def test_an_unknown_role_is_refused_with_the_nearest(runner, tree):
    with pytest.raises(UnknownNameError, match=r"'secnd'; did you mean 'second'"):
        runner.dryrun(two_roles(), "local_cwd", workspace=[f"secnd={tree}"])


def test_a_folder_whose_name_has_an_equals_sign(runner, tmp_path):
    odd = folder(tmp_path / "a=b", "odd\n")

    assert log(runner, run(runner, AppDef("app", [role()]), workspace=f"{odd}")).endswith("odd\n")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{tmp}/none", "is not there"),
        ("{tmp}/file", "is not a folder"),
        ("/", "is the whole machine"),
    ],
)
def test_what_cannot_be_a_workspace_is_refused(runner, tmp_path, source, words):
    (tmp_path / "file").write_text("x")

    with pytest.raises(WorkspaceError, match=words):
        runner.dryrun(AppDef("app", [role()]), "local_cwd", workspace=source.format(tmp=tmp_path))


def test_a_snapshot_of_nothing_is_refused(runner):
    with pytest.raises(UsageError, match="a snapshot is made of a workspace"):
        runner.dryrun(AppDef("app", [role()]), "local_cwd", snapshot=True)


def test_the_callers_app_is_not_changed(runner, tree):
    app = AppDef("app", [role()])
    runner.dryrun(app, "local_cwd", workspace=str(tree), snapshot=True)

    assert app == AppDef("app", [role()])


def test_local_dir_runs_there_too(runner, tree):
    app = AppDef("app", [Role("main", image=str(tree.parent), entrypoint="sh", args=CAT)])

    handle = runner.run(app, "local_dir", workspace=str(tree))

    assert runner.wait(handle, timeout=60).state is AppState.SUCCEEDED
    assert log(runner, handle) == f"{tree}\nhello\n"


def test_the_record_names_the_folder(runner, tree, own_home):
    handle = run(runner, AppDef("app", [role()]), workspace=str(tree))

    record = json.loads((own_home / "apps" / handle.rpartition("/")[2] / "app.json").read_text())
    (found,) = record["plain_app"]["roles"]
    assert found["metadata"] == {"wherry.workspace": str(tree)}
    assert (
        runner.dryrun(AppDef("a", [role()]), "local_cwd", workspace=str(tree)).shipments[0].mode
        == FOLDER
    )


# -- configuration -------------------------------------------------------------------------------


def test_the_configured_workspace_is_meant_from_the_files_folder(tree, tmp_path, monkeypatch):
    (tmp_path / "wherry.toml").write_text('[run]\nworkspace = "tree"\n')
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")

    with Runner("ws") as runner:
        handle = run(runner, AppDef("app", [role()]))
        assert log(runner, handle) == f"{tree}\nhello\n"


def test_the_variable_wins_over_the_file(tree, tmp_path):
    (tmp_path / "wherry.toml").write_text('[run]\nworkspace = ["a", "main=b"]\n')
    paths = [str(tmp_path / "wherry.toml")]
    of_file = Config(environ={}, paths=paths).workspace()
    of_variable = Config(environ={"WHERRY_RUN_WORKSPACE": "x,main=y"}, paths=paths).workspace()

    assert of_file is not None
    assert of_file.value == (f"{tmp_path}/a", f"main={tmp_path}/b")
    assert of_file.source == f"{paths[0]}:2"
    assert of_variable is not None
    assert of_variable.value == ("x", "main=y")
    assert of_variable.source == "WHERRY_RUN_WORKSPACE"


def test_an_argument_wins_over_the_configuration(tree, tmp_path, monkeypatch):
    other = folder(tmp_path / "other", "other\n")
    monkeypatch.setenv("WHERRY_RUN_WORKSPACE", str(other))
    monkeypatch.chdir(tree)

    with Runner("ws") as runner:
        configured = run(runner, AppDef("app", [role()]))
        given = run(runner, AppDef("app", [role()]), workspace=str(tree))
        none = run(runner, AppDef("app", [role()]), workspace="")

        assert log(runner, configured) == f"{other}\nother\n"
        assert log(runner, given) == log(runner, none) == f"{tree}\nhello\n"


@pytest.mark.parametrize("value", ["3", "[1]", "{a = 1}", "true"])
def test_a_configured_workspace_that_is_no_folder_is_refused(tmp_path, value):
    (tmp_path / "wherry.toml").write_text(f"[run]\nworkspace = {value}\n")

    with pytest.raises(UsageError, match=r"wherry\.toml:2: workspace of \[run\] takes a folder"):
        Config(environ={}, paths=[str(tmp_path / "wherry.toml")]).workspace()


def test_the_size_limit_is_configured(tree, tmp_path, monkeypatch):
    (tmp_path / "wherry.toml").write_text('[run]\nworkspace_limit = "1KiB"\n')
    (tree / "large").write_bytes(bytes(2000))
    monkeypatch.chdir(tmp_path)

    with Runner("ws") as runner:
        with pytest.raises(WorkspaceError, match=r"has 2\.0 KiB, and 1\.0 KiB are allowed"):
            runner.dryrun(AppDef("a", [role()]), "local_cwd", workspace=str(tree), snapshot=True)
    monkeypatch.setenv("WHERRY_WORKSPACE_LIMIT", "none")
    with Runner("ws") as runner:
        runner.dryrun(AppDef("a", [role()]), "local_cwd", workspace=str(tree), snapshot=True)
    monkeypatch.setenv("WHERRY_WORKSPACE_LIMIT", "1.5")
    with Runner("ws") as runner:
        with pytest.raises(WorkspaceError, match=r"WHERRY_WORKSPACE_LIMIT is '1\.5'; write bytes"):
            runner.dryrun(AppDef("a", [role()]), "local_cwd", workspace=str(tree), snapshot=True)


def test_a_scheduler_that_takes_none_refuses_it_and_passes_over_a_configured_one(tree, monkeypatch):
    from wherry.testing import MemoryScheduler

    with Runner("ws", {"memory": MemoryScheduler}) as runner:
        with pytest.raises(UsageError, match="memory takes no workspace"):
            runner.dryrun(AppDef("app", [role()]), "memory", workspace=str(tree))
        monkeypatch.setenv("WHERRY_RUN_WORKSPACE", str(tree))
        info = runner.dryrun(AppDef("app", [role()]), "memory")

        assert info.shipments == []
        assert runner.problems == [
            "WHERRY_RUN_WORKSPACE: memory takes no workspace; it is not used"
        ]
