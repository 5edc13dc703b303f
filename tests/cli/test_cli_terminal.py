"""What a person at a terminal sees, and what the keys do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from wherry.specs import parse_app_handle

CTRL_C, CTRL_Z = b"\x03", b"\x1a"

# An app on a scheduler whose apps are not this process's: it never ends by itself.
REMOTE = """
import sys
from wherry.cli.main import main
from wherry.runner import Runner
from wherry.testing import MemoryScheduler, Outcome

memory = MemoryScheduler("wherry")
memory.script(Outcome.hang(log=["started"]))
memory.clock.auto = False
code = main(
    ["run", "-s", "memory", "utils.echo"], lambda: Runner(schedulers={"memory": lambda _: memory})
)
(app,) = memory.list()
print("app", app.state.name, flush=True)
sys.exit(code)
"""


def handle_in(shown: str) -> str:
    """Return the handle that the first line shows."""
    handle = shown.split()[0]
    assert parse_app_handle(handle).scheduler == "local_cwd"
    return handle


def state_of(handle: str, wherry: Callable) -> str:
    return str(json.loads(wherry("status", handle, "--json").out)["state"])


def test_ctrl_c_cancels_an_app_of_this_machine_with_grace(
    terminal: Callable, wherry: Callable
) -> None:
    script = "trap 'echo cleaned up; exit 0' TERM; echo started; while :; do sleep 0.05; done"
    shell = terminal("run", "utils.sh", script)
    shell.wait_for("started")
    shell.press(CTRL_C)

    assert shell.end() == 130
    assert "cancelling … (Ctrl-C again to kill)" in shell.shown
    assert "cleaned up" in shell.shown
    assert "CANCELLED" in shell.shown
    assert state_of(handle_in(shell.shown), wherry) == "CANCELLED"


def test_a_second_ctrl_c_kills(terminal: Callable, wherry: Callable) -> None:
    script = "trap '' TERM; echo started; while :; do sleep 0.05; done"
    shell = terminal("run", "-cfg", "grace=3600", "utils.sh", script)
    shell.wait_for("started")
    shell.press(CTRL_C)
    shell.wait_for("again to kill")
    shell.press(CTRL_C)

    assert shell.end() == 130
    assert "killing …" in shell.shown
    assert state_of(handle_in(shell.shown), wherry) == "CANCELLED"


def test_ctrl_z_detaches_and_the_app_goes_on(terminal: Callable, wherry: Callable) -> None:
    fifo = Path("go")
    os.mkfifo(fifo)
    shell = terminal("run", "utils.sh", f"echo started; read word < {fifo.resolve()}; exit 6")
    shell.wait_for("started")
    shell.press(CTRL_Z)

    assert shell.end() == 0
    handle = handle_in(shell.shown)
    assert f"detached; the app goes on. Follow again: wherry log -f {handle}" in shell.shown
    assert state_of(handle, wherry) == "RUNNING"
    fifo.write_text("go\n")
    assert wherry("wait", handle).code == 6


def test_ctrl_c_leaves_an_app_elsewhere_running(terminal: Callable) -> None:
    shell = terminal("-c", REMOTE, command=[sys.executable])
    shell.wait_for("started")
    shell.press(CTRL_C)

    assert shell.end() == 130
    assert "the app goes on. Follow again: wherry log -f memory://wherry/echo-1" in shell.shown
    assert "app RUNNING" in shell.shown


def test_ctrl_c_while_waiting_for_a_detached_app_leaves_it_running(
    terminal: Callable, wherry: Callable
) -> None:
    shell = terminal("run", "-d", "--log", "utils.sh", "echo started; sleep 3600")
    shell.wait_for("started")
    shell.press(CTRL_C)

    assert shell.end() == 130
    handle = handle_in(shell.shown)
    assert state_of(handle, wherry) == "RUNNING"
    assert wherry("cancel", "--kill", handle).code == 0


def test_sigint_that_is_ignored_stays_ignored(wherry: Callable, tmp_path: Path) -> None:
    # A shell without job control ignores SIGINT for what it starts in the background.
    script = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        "os.execv(sys.executable, [sys.executable, '-m', 'wherry.cli', 'run', 'utils.sh', "
        "'echo started; read word < go; echo done'])"
    )
    os.mkfifo("go")
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"started\n"
        running.send_signal(2)
        Path("go").write_text("go\n")
        assert running.stdout.read() == b"done\n"

    assert running.returncode == 0


def test_control_codes_of_a_program_do_not_reach_a_terminal(terminal: Callable) -> None:
    script = r"printf '\033]0;title\007\033[31mred\033[0m\r\n'"
    shell = terminal("run", "utils.sh", script)

    assert shell.end() == 0
    assert "red" in shell.shown
    assert "\x1b[31mred" not in shell.shown
    assert "title" not in shell.shown


def test_raw_lets_control_codes_through(terminal: Callable) -> None:
    shell = terminal("run", "--raw", "utils.sh", r"printf '\033[35mpink\033[0m'")

    assert shell.end() == 0
    assert "\x1b[35mpink" in shell.shown


def test_success_is_told_in_a_word(terminal: Callable) -> None:
    shell = terminal("run", "utils.echo")

    assert shell.end() == 0
    assert "\x1b[32mSUCCEEDED\x1b[0m in " in shell.shown


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_refused(
    terminal: Callable, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    shell = terminal("run", "--array", "2", "utils.echo")

    assert shell.end() == 0
    assert "SUCCEEDED in " in shell.shown
    assert "\x1b[3" not in shell.shown


def test_several_replicas_show_how_far_they_are(terminal: Callable) -> None:
    fifo = Path("go")
    os.mkfifo(fifo)
    script = f"echo started; read word < {fifo.resolve()}"
    shell = terminal("run", "utils.sh", "--num-replicas", "3", script)
    shell.wait_for("3 running")
    with fifo.open("w") as go:
        go.write("go\n" * 3)

    assert shell.end() == 0
    assert "sh/2\x1b[0m started" in shell.shown
    assert "\r\x1b[K" in shell.shown


def test_a_log_command_on_a_terminal_cleans_unless_raw(
    terminal: Callable, wherry: Callable
) -> None:
    handle = wherry("run", "utils.sh", r"printf '\033[31mred\033[0m\n'").err.split()[0]

    cleaned, raw = terminal("log", handle), terminal("log", "--raw", handle)

    assert (cleaned.end(), raw.end()) == (0, 0)
    assert cleaned.shown == "red\r\n"
    assert raw.shown == "\x1b[31mred\x1b[0m\r\n"


def test_a_log_without_lines_says_why(terminal: Callable, wherry: Callable) -> None:
    handle = wherry("run", "utils.sh", "exit 3").err.split()[0]

    shell = terminal("log", handle)

    assert shell.end() == 0
    assert "(no output; the app is FAILED: sh/0 exited with code 3)" in shell.shown


def test_a_list_on_a_terminal_has_colours(terminal: Callable, wherry: Callable) -> None:
    wherry("run", "utils.echo")

    shell = terminal("list")

    assert shell.end() == 0
    assert "\x1b[32mSUCCEEDED\x1b[0m" in shell.shown
