"""``wherry run --workspace`` as people type it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from wherry.cli.shipments import planned, shipped
from wherry.schedulers.shipping import Shipment


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "hello.txt").write_text("hello\n")
    return folder


def wherry(*words: str | Path, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wherry.cli", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        **more,  # type: ignore[call-overload]
    )


def test_the_program_runs_in_the_folder_and_the_line_goes_to_stderr(tree):
    ran = wherry("run", "--workspace", tree, "utils.sh", "cat hello.txt")

    assert (ran.returncode, ran.stdout) == (0, "hello\n")
    assert ran.stderr.startswith(f"workspace: {tree}, in place\nlocal_cwd://")


def test_a_relative_folder_is_meant_from_here(tree):
    assert wherry("run", "--workspace", ".", "utils.sh", "pwd", cwd=tree).stdout == f"{tree}\n"


def test_a_snapshot_tells_how_large_it_is(tree):
    ran = wherry("run", "--workspace", tree, "--snapshot", "utils.sh", "cat hello.txt")
    again = wherry("run", "--workspace", tree, "--snapshot", "utils.sh", "cat hello.txt")

    assert (ran.returncode, ran.stdout) == (0, "hello\n")
    assert ran.stderr.startswith("workspace: 1 file, 6 bytes; copied\n")
    assert again.stderr.startswith("workspace: 1 file, 6 bytes; a copy of it was there\n")


def test_several_are_laid_over_each_other(tree, tmp_path):
    over = tmp_path / "over"
    over.mkdir()
    (over / "hello.txt").write_text("over\n")

    ran = wherry("run", "--workspace", tree, "--workspace", over, "utils.sh", "cat hello.txt")

    assert ran.stdout == "over\n"


def test_one_role_has_its_own(tree):
    ran = wherry("run", "--workspace", f"sh={tree}", "utils.sh", "cat hello.txt")

    assert ran.stdout == "hello\n"


def test_none_wins_over_a_configured_one(tree, tmp_path):
    (tmp_path / "wherry.toml").write_text('[run]\nworkspace = "tree"\n')

    configured = wherry("run", "utils.sh", "pwd", cwd=tmp_path)
    none = wherry("run", "--workspace", "", "utils.sh", "pwd", cwd=tmp_path)

    assert configured.stdout == f"{tree}\n"
    assert none.stdout == f"{tmp_path}\n"
    assert "workspace" not in none.stderr


def test_a_dry_run_tells_the_plan_and_leaves_the_request_to_programs(tree, own_home):
    ran = wherry("run", "--dryrun", "--workspace", tree, "--snapshot", "utils.sh", "pwd")

    line = ran.stderr.splitlines()[0]
    assert line.startswith(f"workspace of sh: snapshot of {tree}, 1 file, 6 bytes, digest ")
    assert json.loads(ran.stdout)["roles"][0]["cwd"] == line.rpartition(" at ")[2]
    assert not any((own_home / "workspaces").glob("*"))


def test_a_dry_run_in_json_has_the_plan(tree):
    ran = wherry("run", "--dryrun", "--json", "--workspace", tree, "utils.sh", "pwd")

    (shipment,) = json.loads(ran.stdout)["shipments"]
    assert (shipment["mode"], shipment["place"]) == ("folder", str(tree))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--workspace", "none"], "is not there"),
        (["--workspace", "/"], "is the whole machine"),
        (["--workspace", "shh=."], "unknown role of app 'sh': 'shh'; did you mean 'sh'?"),
        (["--snapshot"], "a snapshot is made of a workspace; name a folder"),
    ],
)
def test_mistakes_are_usage_errors(words, said, tmp_path):
    ran = wherry("run", *words, "utils.sh", "pwd", cwd=tmp_path)

    assert ran.returncode == 2
    assert said in ran.stderr


def test_a_workspace_costs_nothing_where_there_is_none():
    code = (
        "import sys\nfrom wherry.cli.main import main\n"
        "main(['run', '--dryrun', 'utils.echo', '--msg', 'x'])\n"
        "print([name for name in sys.modules if 'workspace' in name], file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stderr.splitlines()[-1] == "[]"


def test_what_is_said_of_a_shipment():
    made = Shipment(
        "archive", ("main",), ("src", "more"), "ab" * 32, 12, 48_000, "s3://b/x", "1.2 KB sent"
    )

    assert shipped([made]) == "workspace: 12 files, 48 KB; 1.2 KB sent"
    assert planned(made) == (
        "workspace of main: archive of src + more, 12 files, 48 KB, "
        f"digest {('ab' * 8)}, at s3://b/x"
    )


def test_wherry_run_with_archive_on_the_emulator_ships_a_script(tree, tmp_path):
    from wherry.emulator.server.emulator import Emulator
    from wherry.emulator.settings import Settings

    (tree / "s.py").write_text("print('from the workspace')\n")
    with Emulator(Settings(port=0, engine="process")) as running:
        environ = {**os.environ, **running.environment()}
        ran = wherry(
            *("run", "--no-detach", "-s", "aws_batch", "-cfg", "queue=main,store=s3://wherry/ws"),
            *("--workspace", tree, "utils.python", "--script", "s.py"),
            env=environ,
            cwd=tmp_path,
        )

    assert (ran.returncode, ran.stdout) == (0, "from the workspace\n"), ran.stderr
    assert ran.stderr.startswith("workspace: 2 files, ")
