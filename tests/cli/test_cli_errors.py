"""What goes wrong is one line on stderr and an exit code, never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from wherry import __version__
from wherry.cli.main import COMMANDS, main
from wherry.errors import LaunchError
from wherry.testing import MemoryScheduler


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["statsu"], "did you mean 'status'"),
        (["xyzzy"], "known: aws, builtins, cancel"),
        (["--jsno"], "options come after the command"),
        (["run", "utils.ecko"], "did you mean 'utils.echo'"),
        (["run", "-s", "local_cdw", "utils.echo"], "did you mean 'local_cwd'"),
        (["run", "-cfg", "log_dri=x", "utils.echo"], "did you mean 'log_dir'"),
        (["run", "-cfg", "grace=soon", "utils.echo"], "takes a number, not 'soon'"),
        (["run", "-cfg", "grace", "utils.echo"], "not key=value"),
        (["run", "--array", "none", "utils.echo"], "whole number from 1"),
        (["run", "--timeout", "soon", "utils.echo"], "length of time"),
        (["run", "--name", "a b", "utils.echo"], "not 'a b'"),
        (["run", "utils.echo", "--mgs", "x"], "did you mean '--msg'"),
        (["run", "-s"], "expected one argument"),
        (["run", "broken.py:job"], "broken.py"),
        (["run", "absent.py:job"], "absent.py"),
        (["status"], "HANDLE"),
        (["status", "local_cwd:/x"], "no record"),
        (["completion", "bsh"], "did you mean 'bash'"),
        (["ledger", "rebiuld"], "did you mean 'rebuild'"),
    ],
)
def test_mistakes_are_usage_errors_with_the_fix(
    words: list[str], problem: str, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("broken.py").write_text("def job(:\n")

    code = main(words)

    printed = capfd.readouterr()
    assert (code, printed.out) == (2, "")
    assert printed.err.startswith("wherry: error: ")
    assert problem in printed.err
    assert "Traceback" not in printed.err


def test_a_launch_that_fails_exits_with_1(
    invoke: Callable, memory: MemoryScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> str:
        raise LaunchError("no processes are left")

    monkeypatch.setattr(memory, "schedule", refuse)

    done = invoke("run", "utils.echo")

    assert (done.code, done.err) == (1, "wherry: error: no processes are left\n")


def test_an_error_of_the_system_names_the_path(
    invoke: Callable, memory: MemoryScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> str:
        raise PermissionError(13, "Permission denied", "/the/path")

    monkeypatch.setattr(memory, "schedule", refuse)

    done = invoke("run", "utils.echo")

    assert (done.code, done.err) == (1, "wherry: error: /the/path: Permission denied\n")


def test_an_interrupt_anywhere_is_quiet(
    invoke: Callable, memory: MemoryScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(memory, "schedule", interrupted)

    done = invoke("run", "utils.echo")

    assert (done.code, done.out, done.err) == (130, "", "")


def test_a_traceback_comes_when_asked_for(wherry: Callable) -> None:
    done = wherry("status", "nothing", env={"WHERRY_DEBUG": "1"})

    assert "Traceback" in done.err
    assert "UnknownAppError" in done.err


def test_a_broken_configuration_names_file_and_line(wherry: Callable) -> None:
    Path("wherry.toml").write_text("[run]\nschedular = 'local_cwd'\n")

    done = wherry("run", "utils.echo")

    assert done.code == 2
    assert "wherry.toml:2" in done.err


def test_a_program_that_cannot_be_started_is_told(wherry: Callable) -> None:
    done = wherry("run", "utils.binary", "--entrypoint", "/no/such/program")

    assert done.code != 0
    assert "/no/such/program" in done.err
    assert "Traceback" not in done.err


def test_text_that_the_terminal_cannot_write_is_no_error(wherry: Callable) -> None:
    done = wherry("builtins", "--print", "utils.echo", env={"PYTHONIOENCODING": "ascii"})
    helped = wherry("run", "--help", env={"PYTHONIOENCODING": "ascii"})

    assert (done.code, helped.code) == (0, 0)


def test_help_lists_every_command(wherry: Callable) -> None:
    for words in (("--help",), ("-h",), ("help",)):
        done = wherry(*words)

        assert done.code == 0
        assert all(f"  {name}" in done.out for name in COMMANDS)


def test_help_for_a_command(wherry: Callable) -> None:
    assert "usage: wherry log" in wherry("help", "log").out
    assert wherry("help", "lgo").code == 2


def test_nothing_at_all_shows_help_as_a_mistake(wherry: Callable) -> None:
    done = wherry()

    assert (done.code, done.out) == (2, "")
    assert "usage: wherry" in done.err


def test_the_version_is_printed(wherry: Callable) -> None:
    assert wherry("--version").out == f"wherry {__version__}\n"
