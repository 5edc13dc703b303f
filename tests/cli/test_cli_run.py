"""``wherry run`` on this machine, as a process whose output goes to pipes and files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from wherry.errors import UsageError
from wherry.runner import Runner
from wherry.specs import AppState
from wherry.testing import MemoryScheduler, Outcome

COMMAND = (sys.executable, "-m", "wherry.cli")


def test_an_attached_run_streams_the_log_and_names_the_app_on_stderr(wherry: Callable) -> None:
    done = wherry("run", "utils.echo", "--msg", "hello")

    assert (done.code, done.out) == (0, "hello\n")
    assert done.err.startswith("local_cwd://wherry/echo-")
    assert len(done.err.splitlines()) == 1


def test_the_exit_code_of_the_app_is_passed_on_with_its_reason(wherry: Callable) -> None:
    done = wherry("run", "utils.sh", "echo before; exit 7")

    handle, *reason = done.err.splitlines()
    assert (done.code, done.out) == (7, "before\n")
    assert reason == [
        "FAILED: sh/0 exited with code 7",
        f"  more: wherry describe {handle}",
    ]


def test_a_signal_is_told_by_name_and_passed_on_as_a_shell_does(wherry: Callable) -> None:
    done = wherry("run", "utils.sh", "kill -9 $$$$")

    assert done.code == 128 + 9
    assert "killed by SIGKILL" in done.err


def test_stdout_and_stderr_stay_apart_where_they_go_to_different_places(wherry: Callable) -> None:
    done = wherry("run", "utils.sh", "echo out; echo err >&2")

    assert done.out == "out\n"
    assert done.err.splitlines()[1:] == ["err"]


def test_stdout_and_stderr_keep_their_order_where_they_go_to_one_place() -> None:
    script = "for i in 1 2 3; do echo out$i; echo err$i >&2; done"
    done = subprocess.run(
        [*COMMAND, "run", "utils.sh", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        check=True,
    )

    lines = done.stdout.decode().splitlines()[1:]
    assert lines == ["out1", "err1", "out2", "err2", "out3", "err3"]


def test_one_replica_is_passed_on_byte_for_byte(wherry: Callable, tmp_path: Path) -> None:
    script = r"printf '10%%\r20%%\r\033[31mred\033[0m\377\000 no newline'"
    with (tmp_path / "out").open("wb") as file:
        subprocess.run([*COMMAND, "run", "utils.sh", script], stdout=file, timeout=60, check=True)

    written = (tmp_path / "out").read_bytes()
    assert written == b"10%\r20%\r\x1b[31mred\x1b[0m\xff\x00 no newline"


def test_lines_of_an_array_begin_with_their_replica(wherry: Callable) -> None:
    done = wherry("run", "--array", "5", "utils.sh", "echo I am $WHERRY_REPLICA_ID")

    assert done.code == 0
    assert sorted(done.out.splitlines()) == [f"sh/{k} I am {k}" for k in range(5)]


def test_an_array_needs_an_app_of_one_role(wherry: Callable) -> None:
    Path("two.py").write_text(
        "import wherry\n\n"
        "def two() -> wherry.AppDef:\n"
        "    roles = [wherry.Role(name, entrypoint='true') for name in ('a', 'b')]\n"
        "    return wherry.AppDef('two', roles)\n"
    )

    done = wherry("run", "--array", "2", "two.py:two")

    assert done.code == 2
    assert "'two' has several (a, b)" in done.err


def test_a_gang_is_not_made_an_array(invoke: Callable) -> None:
    done = invoke("run", "--array", "2", "utils.echo", "--num-replicas", "3")

    assert done.code == 2
    assert "belong together" in done.err


def test_detach_prints_the_handle_alone_and_the_app_goes_on(wherry: Callable) -> None:
    fifo = Path("go")
    os.mkfifo(fifo)
    done = wherry("run", "--detach", "utils.sh", f"read word < {fifo.resolve()}; exit 3")

    handle = done.out.strip()
    assert (done.code, done.err) == (0, "")
    assert json.loads(wherry("status", handle, "--json").out)["state"] in ("PENDING", "RUNNING")
    fifo.write_text("go\n")
    assert wherry("wait", handle).code == 3


def test_detach_may_wait_or_follow_all_the_same(wherry: Callable) -> None:
    waited = wherry("run", "-d", "--wait", "utils.sh", "echo no; exit 4")
    followed = wherry("run", "-d", "--log", "utils.sh", "echo yes; exit 5")

    assert (waited.code, waited.out.count("\n")) == (4, 1)
    assert waited.out.startswith("local_cwd://")
    assert (followed.code, followed.out) == (5, "yes\n")


def test_the_configuration_may_detach_runs(wherry: Callable) -> None:
    Path("wherry.toml").write_text("[run]\ndetach = true\n")

    assert wherry("run", "utils.echo").out.startswith("local_cwd://")
    assert wherry("run", "--no-detach", "utils.echo", "--msg", "hi").out == "hi\n"


def test_json_keeps_stdout_for_the_answer(wherry: Callable) -> None:
    done = wherry("run", "--json", "utils.sh", "echo log; exit 2")

    answer = json.loads(done.out)
    assert "log" in done.err.splitlines()
    assert done.code == 2
    assert answer == {
        "handle": done.err.splitlines()[0],
        "state": "FAILED",
        "exit_code": 2,
        "msg": "sh/0 exited with code 2",
    }


def test_a_dry_run_prints_the_request_and_starts_nothing(wherry: Callable) -> None:
    shown = wherry("run", "--dryrun", "utils.echo", "--msg", "hello")
    data = wherry("run", "--dryrun", "--json", "utils.echo", "--msg", "hello")

    assert (shown.code, data.code) == (0, 0)
    assert "hello" in shown.out
    assert json.loads(data.out)["scheduler"] == "local_cwd"
    assert json.loads(data.out)["app"]["roles"][0]["args"] == ["hello"]
    assert json.loads(wherry("list", "--json").out) == []


def test_options_of_run_are_laid_over_the_component(
    invoke: Callable, memory: MemoryScheduler
) -> None:
    first = invoke("run", "--name", "first", "utils.echo").err.split()[0]

    code = invoke(
        *("run", "--name", "second", "--timeout", "10m", "--depends-on", first),
        *("--array", "3", "-cfg", "img_root=/x", "utils.echo"),
    ).code

    app = memory.submitted[1].app
    assert code == 0
    assert (app.name, app.timeout, tuple(app.depends_on)) == ("second", 600.0, (first,))
    assert (app.array, app.roles[0].num_replicas) == (True, 3)
    assert memory.submitted[1].cfg["img_root"] == "/x"


def test_the_options_of_a_scheduler_may_be_given_in_all_ways(
    invoke: Callable, memory: MemoryScheduler
) -> None:
    for option in ("-cfg", "--cfg", "--scheduler_args", "--scheduler-args"):
        invoke("run", "--scheduler", "memory", option, f"img_root=/{option}", "utils.echo")

    assert [info.cfg["img_root"] for info in memory.submitted] == [
        "/-cfg",
        "/--cfg",
        "/--scheduler_args",
        "/--scheduler-args",
    ]


def test_help_after_the_component_is_the_components(wherry: Callable) -> None:
    done = wherry("run", "utils.echo", "--help")

    assert done.code == 0
    assert "usage: wherry run utils.echo" in done.out
    assert "--msg" in done.out


def test_help_among_the_programs_arguments_is_the_programs(wherry: Callable) -> None:
    done = wherry("run", "utils.sh", "--", "echo", "--help")

    assert done.code == 0
    assert "usage: wherry" not in done.out


def test_an_option_of_run_behind_the_component_gets_a_hint(wherry: Callable) -> None:
    done = wherry("run", "utils.echo", "-s", "local_dir")

    assert done.code == 2
    assert "such as -s, come before the component" in done.err


def test_a_run_without_a_component_tells_how_to_find_one(wherry: Callable) -> None:
    done = wherry("run")

    assert done.code == 2
    assert "wherry builtins" in done.err


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ('{"message": {"message": "boom", "extraInfo": {"timestamp": 1}}}', "boom"),
        ('{"message": "boom"}', "boom"),
        ('{"code": 5}', '{"code": 5}'),
        ('"just text"', "just text"),
        ("not json", "not json"),
    ],
)
def test_the_message_of_an_error_file_is_shown(
    invoke: Callable, memory: MemoryScheduler, error: str, reason: str
) -> None:
    memory.script(Outcome.fail(3, error=error))

    done = invoke("run", "utils.echo")

    assert done.code == 3
    assert f"  error: {reason}" in done.err.splitlines()


def test_control_codes_in_a_reason_are_removed(invoke: Callable, memory: MemoryScheduler) -> None:
    memory.script(Outcome.fail(3, reason="bad \x1b[2Jnews", error='"\\u001b[31mred"'))

    done = invoke("run", "utils.echo")

    assert "\x1b" not in done.err
    assert "bad news" in done.err


def test_an_app_that_somebody_else_cancels_is_told_as_cancelled(wherry: Callable) -> None:
    with subprocess.Popen(
        [*COMMAND, "run", "utils.sh", "echo started; sleep 60"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        handle = running.stderr.readline().strip()
        assert running.stdout.readline() == "started\n"
        assert wherry("cancel", handle, "--reason", "not needed").code == 0
        rest = running.stderr.read()

    assert running.returncode == 1
    assert rest.startswith("CANCELLED: not needed\n")


def test_a_reader_that_goes_away_ends_the_app_quietly(wherry: Callable) -> None:
    with subprocess.Popen(
        [*COMMAND, "run", "utils.sh", "while :; do echo line; sleep 0.01; done"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline() == "line\n"
        running.stdout.close()
        errors = running.stderr.read()

    handle = errors.strip()
    assert running.returncode == 141
    assert handle.startswith("local_cwd://")
    assert len(errors.splitlines()) == 1
    assert wherry("wait", handle).code != 0
    assert json.loads(wherry("status", handle, "--json").out)["state"] == "CANCELLED"


def test_a_scheduler_that_cannot_tell_streams_apart_gives_all_to_stdout(
    invoke: Callable, memory: MemoryScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow = memory.follow

    def combined_only(app_id: str, stream: str) -> object:
        if str(stream) != "combined":
            raise UsageError("only combined logs are kept here")
        return follow(app_id)

    monkeypatch.setattr(memory, "follow", combined_only)
    memory.script(Outcome.succeed(log=["hello"]))

    done = invoke("run", "utils.echo")

    assert (done.code, done.out) == (0, "hello\n")
    assert len(done.err.splitlines()) == 1


def test_a_failure_while_following_is_an_error_line(
    invoke: Callable, memory: MemoryScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(app_id: str, stream: str) -> object:
        raise OSError(5, "Input/output error", "/the/log")

    monkeypatch.setattr(memory, "follow", broken)

    done = invoke("run", "utils.echo")

    assert done.code == 1
    assert "wherry: error: /the/log: Input/output error" in done.err


def test_warnings_of_a_scheduler_are_printed(
    invoke: Callable, memory: MemoryScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    dryrun = memory.submit_dryrun

    def with_warning(app: object, cfg: object) -> object:
        info = dryrun(app, cfg)  # type: ignore[arg-type]
        info.warnings.append("mounts are ignored here")
        return info

    monkeypatch.setattr(memory, "submit_dryrun", with_warning)

    assert "warning: mounts are ignored here" in invoke("run", "utils.echo").err


def test_problems_of_the_configuration_are_warnings(wherry: Callable) -> None:
    Path("wherry.toml").write_text("[scheduler.local_cw]\nx = 1\n")

    done = wherry("run", "utils.echo", "--msg", "hi")

    assert (done.code, done.out) == (0, "hi\n")
    assert "warning:" in done.err
    assert "local_cw" in done.err


def test_a_bare_process_can_use_the_command(memory: MemoryScheduler) -> None:
    from threading import Thread

    from wherry.cli.main import main

    codes: list[int] = []

    def use() -> None:
        codes.append(
            main(
                ["run", "-s", "memory", "utils.echo"],
                lambda: Runner(schedulers={"memory": lambda _: memory}),
            )
        )

    thread = Thread(target=use)  # signal handlers belong to the main thread alone
    thread.start()
    thread.join()

    assert codes == [0]
    (app,) = memory.list()
    assert app.state is AppState.SUCCEEDED
