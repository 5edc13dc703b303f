"""What a shell is told when somebody presses Tab."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

COMMAND = (sys.executable, "-m", "wherry.cli")


@pytest.fixture
def complete(tmp_path: Path) -> Callable[[str], list[str]]:
    """Ask as bash does: with the line so far."""

    def ask(line: str) -> list[str]:
        answer = tmp_path / "answer"
        variables = {
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
            "_ARGCOMPLETE_IFS": "\n",
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
        }
        environment = {**os.environ, **variables}
        done = subprocess.run(
            COMMAND, env=environment, timeout=60, capture_output=True, check=False
        )
        assert done.stdout == b""
        return [word.strip() for word in answer.read_text().split("\n") if word]

    return ask


def test_commands(complete: Callable) -> None:
    assert complete("wherry ru") == ["run", "runopts"]
    assert {"status", "log", "completion"} <= set(complete("wherry "))


def test_options_of_a_command(complete: Callable) -> None:
    assert complete("wherry log --st") == ["--streams"]
    assert complete("wherry run --arr") == ["--array"]


def test_components_and_python_files(complete: Callable) -> None:
    Path("train.py").touch()
    Path("notes.txt").touch()

    names = complete("wherry run ")

    assert {"utils.echo", "dist.ddp", "train.py:"} <= set(names)
    assert "notes.txt" not in names
    assert complete("wherry run utils.ec") == ["utils.echo"]
    assert complete("wherry builtins --print utils.ec") == ["utils.echo"]


def test_a_components_own_options_and_not_ours(complete: Callable) -> None:
    options = complete("wherry run utils.echo --")

    assert "--msg" in options
    assert "--detach" not in options


def test_options_of_a_component_in_a_file(complete: Callable) -> None:
    Path("job.py").write_text(
        "import wherry\n\n"
        "def job(*, speed: int = 1) -> wherry.AppDef:\n"
        "    return wherry.AppDef('job')\n"
    )

    assert complete("wherry run job.py:job --sp") == ["--speed"]


def test_schedulers(complete: Callable) -> None:
    assert complete("wherry run -s local_") == ["local_cwd", "local_dir", "local_docker"]
    assert complete("wherry runopts local_di") == ["local_dir"]


def test_handles_of_recent_apps_and_their_roles(complete: Callable, wherry: Callable) -> None:
    handle = wherry("run", "utils.echo").err.split()[0]
    app_id = handle.rpartition("/")[2]

    assert complete("wherry status ") == [app_id]
    assert complete("wherry run --depends-on echo") == [app_id]
    assert complete("wherry log echo") == [app_id]
    assert complete(f"wherry log {app_id}/") == [f"{app_id}/echo"]


def test_shells(complete: Callable) -> None:
    assert complete("wherry completion z") == ["zsh"]


def test_what_cannot_be_completed_is_silent(complete: Callable) -> None:
    Path("wherry.toml").write_text("[nonsense")

    assert complete("wherry status nothing") == []
    assert complete("wherry run no.such --x") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(wherry: Callable, shell: str) -> None:
    done = wherry("completion", shell)

    assert done.code == 0
    assert "wherry" in done.out
    assert "_ARGCOMPLETE" in done.out or "argcomplete" in done.out.lower()


def test_bash_accepts_the_script(wherry: Callable) -> None:
    script = wherry("completion", "bash").out

    subprocess.run(["bash", "-n"], input=script, text=True, timeout=60, check=True)


def test_commands_of_a_command(complete: Callable) -> None:
    assert set(complete("wherry emulator st")) == {"start", "status", "stop"}
    assert complete("wherry emulator start --eng") == ["--engine"]
    assert complete("wherry emulator start --engine do") == ["docker"]
    assert complete("wherry emulator fault a") == ["add"]
    assert complete("wherry emulator fault add pull") == ["pull-failure"]
