"""``builtins``, ``runopts``, ``configure``, ``ledger`` and ``prune``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from wherry.testing import MemoryScheduler, Outcome


def test_components_are_listed_with_a_line_each(wherry: Callable) -> None:
    done = wherry("builtins")

    assert done.code == 0
    assert "utils.echo" in done.out
    assert all(len(line.split(None, 1)) == 2 for line in done.out.splitlines())


def test_components_as_json(wherry: Callable) -> None:
    listed = json.loads(wherry("builtins", "--json").out)

    assert all(list(component) == ["name", "summary", "source"] for component in listed)
    assert "dist.ddp" in [component["name"] for component in listed]


def test_a_components_source_is_printed(wherry: Callable) -> None:
    shown = wherry("builtins", "--print", "utils.echo").out
    data = json.loads(wherry("builtins", "--print", "utils.echo", "--json").out)

    assert shown.startswith("def echo(")
    assert data["text"] == shown


def test_an_unknown_component_is_answered_with_the_nearest(wherry: Callable) -> None:
    done = wherry("builtins", "--print", "utils.ecko")

    assert done.code == 2
    assert "did you mean 'utils.echo'" in done.err


def test_options_of_all_schedulers_are_listed(wherry: Callable) -> None:
    shown = wherry("runopts").out

    assert "local_cwd" in shown
    assert "local_dir" in shown
    assert "log_dir" in shown


def test_options_of_one_scheduler_as_json(invoke: Callable) -> None:
    data = json.loads(invoke("runopts", "memory", "--json").out)

    assert data["memory"]["img_root"] == {
        "type": "str",
        "default": "/img",
        "required": False,
        "choices": [],
        "help": data["memory"]["img_root"]["help"],
    }


def test_options_of_an_unknown_scheduler(wherry: Callable) -> None:
    done = wherry("runopts", "local_cdw")

    assert done.code == 2
    assert "did you mean 'local_cwd'" in done.err


def test_a_configuration_is_written_and_holds_defaults(wherry: Callable) -> None:
    done = wherry("configure")

    text = Path("wherry.toml").read_text()
    assert done.code == 0
    assert "[scheduler.local_cwd]" in text
    assert wherry("configure", "--print").out == text
    assert wherry("run", "utils.echo", "--msg", "hi").out == "hi\n"
    assert [path.name for path in Path().iterdir()] == ["wherry.toml"]


def test_a_configuration_is_never_overwritten_unless_forced(wherry: Callable) -> None:
    Path("wherry.toml").write_text("# mine\n")

    refused = wherry("configure")
    kept = Path("wherry.toml").read_text()
    forced = wherry("configure", "--force")

    assert refused.code == 2
    assert "--force" in refused.err
    assert kept == "# mine\n"
    assert forced.code == 0
    assert "[run]" in Path("wherry.toml").read_text()


def test_a_dangling_link_is_not_written_through(wherry: Callable) -> None:
    Path("wherry.toml").symlink_to("elsewhere.toml")

    assert wherry("configure").code == 2
    assert not Path("elsewhere.toml").exists()


def test_a_folder_that_cannot_be_written_is_an_error_line(
    invoke: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/proc")

    done = invoke("configure")

    assert done.code == 1
    assert done.err.startswith("wherry: error: .wherry.toml.")


def test_a_ledger_is_made_again(wherry: Callable, own_home: Path) -> None:
    wherry("run", "utils.echo")
    before = wherry("list").out
    for file in own_home.glob("ledger*"):
        file.unlink()

    rebuilt = wherry("ledger", "rebuild", "--json")

    assert json.loads(rebuilt.out) == {"apps": 1}
    assert wherry("list").out == before


def test_old_records_are_removed(wherry: Callable) -> None:
    failed = wherry("run", "utils.sh", "exit 1").err.split()[0]
    kept = wherry("run", "utils.echo").err.split()[0]

    assert wherry("prune", "--older-than", "1h").code == 0
    listed = wherry("prune", "--state", "failed", "--dry-run")
    assert listed.out == f"{failed}\n"
    assert "would remove 1 record" in listed.err
    removed = json.loads(wherry("prune", "--state", "failed", "--json").out)

    assert [app["handle"] for app in removed] == [failed]
    assert [app["handle"] for app in json.loads(wherry("list", "--json").out)] == [kept]
    assert wherry("status", failed).code == 2


def test_all_that_ended_goes_only_when_asked(invoke: Callable, memory: MemoryScheduler) -> None:
    invoke("run", "utils.echo")
    memory.script(Outcome.hang())
    invoke("run", "-d", "utils.echo")

    refused = invoke("prune")
    removed = invoke("prune", "--all")

    assert refused.code == 2
    assert "--older-than" in refused.err
    assert removed.err == "removed 1 record\n"
    assert [app.app_id for app in memory.list()] == ["echo-2"]


def test_apps_that_have_not_ended_are_not_pruned(invoke: Callable) -> None:
    done = invoke("prune", "--state", "running")

    assert done.code == 2
    assert "cancel them first" in done.err
