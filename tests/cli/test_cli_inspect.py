"""``status``, ``describe``, ``list``, ``wait`` and ``cancel``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from wherry.testing import MemoryScheduler, Outcome

ENDED_BADLY = '{"message": {"message": "disk is full", "extraInfo": {"timestamp": 1}}}'


@pytest.fixture
def failed(invoke: Callable, memory: MemoryScheduler) -> str:
    """The handle of an app of 30 replicas, of which the odd ones failed."""
    for k in range(1, 30, 2):
        memory.script(Outcome.fail(9, error=ENDED_BADLY), replica=k)
    done = invoke("run", "--array", "30", "utils.echo")
    assert done.code == 9
    return str(done.err.split()[0])


@pytest.fixture
def running(invoke: Callable, memory: MemoryScheduler) -> str:
    """The handle of an app that does not end by itself."""
    memory.script(Outcome.hang())
    return str(invoke("run", "-d", "utils.echo").out.strip())


def test_a_status_is_text_that_says_what_happened(invoke: Callable, failed: str) -> None:
    done = invoke("status", failed)

    lines = [line.strip() for line in done.out.splitlines()]
    assert done.code == 0
    assert lines[0] == failed
    assert "state     FAILED" in lines
    assert "role echo: 15 succeeded, 15 failed" in lines
    assert "error     disk is full" in lines
    assert any(line.startswith("echo/1  FAILED  exited with code 9") for line in lines)


def test_of_many_replicas_only_those_that_failed_are_listed(invoke: Callable, failed: str) -> None:
    shown = invoke("status", failed).out

    assert "echo/29" in shown
    assert "echo/2 " not in shown


def test_no_more_than_twenty_failures_are_listed(invoke: Callable, memory: MemoryScheduler) -> None:
    memory.script(Outcome.fail(1))
    handle = invoke("run", "--array", "50", "utils.echo").err.split()[0]

    shown = invoke("status", handle).out

    assert shown.count("FAILED  exited") == 20
    assert "and 30 more that failed" in shown


def test_a_description_has_the_app_as_it_was_submitted(invoke: Callable, failed: str) -> None:
    shown = invoke("describe", failed).out

    assert "command   echo 'hello world'" in shown
    assert "replicas  30" in shown
    assert "attempt 1" in shown


def test_values_of_variables_are_not_shown_to_whoever_looks(
    invoke: Callable, memory: MemoryScheduler
) -> None:
    Path("env.py").write_text(
        "import wherry\n\n"
        "def env() -> wherry.AppDef:\n"
        "    role = wherry.Role('main', entrypoint='x', env={'TOKEN': 'hush'})\n"
        "    return wherry.AppDef('env', [role])\n"
    )
    invoke("run", "env.py:env")

    shown = invoke("describe", "env-1").out

    assert "TOKEN" in shown
    assert "hush" not in shown


def test_a_status_as_json_has_all_keys(invoke: Callable, failed: str) -> None:
    record = json.loads(invoke("status", "--json", failed).out)

    replica = record["roles"][0]["replicas"][1]
    assert list(record) == [
        *("handle", "app_id", "state", "raw_state", "msg", "exit_code", "num_restarts", "error"),
        *("ui_url", "created_at", "started_at", "ended_at", "roles"),
    ]
    assert (record["handle"], record["state"], record["exit_code"]) == (failed, "FAILED", 9)
    assert record["error"] == json.loads(ENDED_BADLY)
    assert list(replica) == [
        *("id", "state", "exit_code", "signal", "reason", "error", "hostname", "attempts")
    ]
    assert list(replica["attempts"][0]) == [
        *("number", "state", "exit_code", "signal", "reason", "error"),
        *("started_at", "ended_at", "logs"),
    ]


def test_a_description_as_json_has_the_app(invoke: Callable, failed: str) -> None:
    record = json.loads(invoke("describe", "--json", failed).out)

    assert record["app"]["roles"][0]["num_replicas"] == 30
    assert record["metadata"] is not None


def test_an_app_may_be_named_by_the_beginning_of_its_id(invoke: Callable, running: str) -> None:
    assert json.loads(invoke("status", "--json", "ech").out)["handle"] == running


@pytest.mark.parametrize("command", ["status", "describe", "wait", "cancel", "log"])
def test_an_unknown_app_is_a_usage_error_with_the_nearest(
    invoke: Callable, running: str, command: str
) -> None:
    done = invoke(command, "memory://wherry/ecko-1")

    assert (done.code, done.out) == (2, "")
    assert "wherry: error: no record of app" in done.err
    assert "did you mean memory://wherry/echo-1" in done.err


def test_an_ambiguous_beginning_names_the_candidates(invoke: Callable, running: str) -> None:
    invoke("run", "utils.echo")

    done = invoke("status", "echo")

    assert done.code == 2
    assert "memory://wherry/echo-1" in done.err
    assert "memory://wherry/echo-2" in done.err


def test_waiting_exits_as_the_app_did(invoke: Callable, failed: str) -> None:
    done = invoke("wait", failed)

    assert done.code == 9
    assert done.err.startswith("FAILED: ")


def test_waiting_as_json_tells_the_end(invoke: Callable, failed: str) -> None:
    record = json.loads(invoke("wait", "--json", failed).out)

    assert list(record) == ["handle", "state", "exit_code", "msg"]
    assert (record["state"], record["exit_code"]) == ("FAILED", 9)


def test_waiting_may_be_given_up_and_the_app_goes_on(wherry: Callable) -> None:
    handle = wherry("run", "-d", "utils.sh", "sleep 3600").out.strip()

    done = wherry("wait", "--timeout", "0.1", handle)

    assert done.code == 124
    assert "had not ended" in done.err
    assert json.loads(wherry("status", "--json", handle).out)["state"] == "RUNNING"
    wherry("cancel", "--kill", handle)


def test_cancelling_keeps_the_reason(invoke: Callable, running: str) -> None:
    cancelled = invoke("cancel", "--json", "--reason", "not needed", running)
    again = invoke("cancel", running)

    status = json.loads(invoke("status", "--json", running).out)
    assert (cancelled.code, again.code) == (0, 0)
    assert json.loads(cancelled.out)["handle"] == running
    assert (status["state"], status["msg"]) == ("CANCELLED", "not needed")


def test_a_list_has_the_newest_first(invoke: Callable, failed: str, running: str) -> None:
    lines = invoke("list").out.splitlines()

    assert lines[0].split() == ["STATE", "CREATED", "TOOK", "REPLICAS", "HANDLE"]
    assert [line.split()[-1] for line in lines[1:]] == [running, failed]
    assert [line.split()[0] for line in lines[1:]] == ["RUNNING", "FAILED"]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ((), ["b-2", "a-2", "b-1", "a-1"]),
        (("--name", "a"), ["a-2", "a-1"]),
        (("--state", "failed"), ["b-2", "b-1"]),
        (("--state", "failed,succeeded", "--limit", "1"), ["b-2"]),
        (
            ("--state", "FAILED", "--state", "succeeded", "--limit", "0"),
            ["b-2", "a-2", "b-1", "a-1"],
        ),
        (("--scheduler", "memory", "--limit", "3"), ["b-2", "a-2", "b-1"]),
        (("--since", "2200-01-01"), []),
        (("--since", "1000w"), ["b-2", "a-2", "b-1", "a-1"]),
        (("--state", "cancelled"), []),
    ],
)
def test_a_list_can_be_filtered(
    invoke: Callable, memory: MemoryScheduler, options: tuple[str, ...], names: list[str]
) -> None:
    memory.script(Outcome.fail(1), app="b")
    for name in ("a", "b", "a", "b"):
        invoke("run", "--name", name, "utils.echo")
        memory.clock.advance(1)

    listed = json.loads(invoke("list", "--json", *options).out)

    assert [app["app_id"] for app in listed] == names


def test_a_list_as_json_has_all_keys(invoke: Callable, failed: str) -> None:
    (record,) = json.loads(invoke("list", "--json").out)

    assert list(record) == [
        *("handle", "app_id", "name", "state", "msg", "created_at", "ended_at", "replicas"),
        "session",
    ]
    assert (record["handle"], record["replicas"]) == (failed, 30)


def test_a_list_that_is_cut_short_says_so(invoke: Callable, failed: str, running: str) -> None:
    done = invoke("list", "--limit", "1")

    assert len(done.out.splitlines()) == 2
    assert "--limit 0 shows all" in done.err


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--state", "faild"), "did you mean 'FAILED'"),
        (("--scheduler", "memery"), "did you mean 'memory'"),
        (("--limit", "-1"), "whole number from 0"),
        (("--since", "tomorrow"), "ISO time"),
    ],
)
def test_a_filter_that_cannot_be_is_told(
    invoke: Callable, options: tuple[str, ...], problem: str
) -> None:
    done = invoke("list", *options)

    assert (done.code, done.out) == (2, "")
    assert problem in done.err


def test_describe_shows_how_the_log_of_a_failed_replica_ends(tmp_path):
    import subprocess
    import sys

    def wherry(*words):
        command = [sys.executable, "-m", "wherry.cli", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    wherry("run", "utils.sh", "seq 1 50; echo it broke here >&2; exit 1")
    shown = wherry("describe", "sh").stdout

    assert "the log of sh/0 ends with" in shown
    assert shown.rstrip().endswith("it broke here")
    assert "\n  41\n" not in shown
    assert "\n  42\n" in shown
