"""``wherry why`` and ``wherry run --preflight``, as people and programs use them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.why_world import World
from wherry.cli.main import main
from wherry.emulator import Running
from wherry.runner import Runner
from wherry.specs.diagnosis import Certainty, Diagnosis, Fact, Finding
from wherry.specs.states import AppState
from wherry.testing import MemoryScheduler, Outcome

JOB = "11111111-1111-1111-1111-111111111111"
Command = Callable[..., Any]


class Told(MemoryScheduler):
    """A scheduler that has the answers of a test."""

    def __init__(self) -> None:
        super().__init__("wherry")
        self.asked: list[str] = []
        self.answer = Diagnosis("", AppState.PENDING, "RUNNABLE")
        self.beforehand: Sequence[Finding] = ()

    def why(self, app_id: str) -> Diagnosis:
        self.asked.append(app_id)
        return self.answer

    def preflight(self, dryrun_info: object) -> Sequence[Finding]:
        return self.beforehand


class Result(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def ask(told: Told, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run the command with two schedulers that a test holds, one of them for AWS Batch."""
    monkeypatch.setenv("WHERRY_SCHEDULER", "memory")

    def runner() -> Runner:
        return Runner(schedulers={"memory": lambda _: told, "aws_batch": lambda _: told})

    def run(*words: str) -> Result:
        capfd.readouterr()
        code = main(list(words), runner)
        return Result(code, *capfd.readouterr())

    return run


# -- what is printed ------------------------------------------------------------------------------

FULL = Diagnosis(
    "main:train",
    AppState.PENDING,
    "RUNNABLE",
    (
        Finding("a", "It is too large.", "It asks for 2.", "Ask for 1.", Certainty.CERTAIN),
        Finding("b", "Or something else.", certainty=Certainty.POSSIBLE),
    ),
    (Fact("queue", "main"), Fact("asks for", "2")),
    ("first\x1b[2J", "last"),
    "/aws/batch/job x",
    ("the roles: not permitted (iam:GetRole)",),
)


def test_causes_facts_log_and_what_was_not_seen_are_printed(ask: Command, told: Told) -> None:
    told.answer = FULL

    result = ask("why", "memory://wherry/main:train")

    assert result.code == 0
    assert result.out == (
        "memory://wherry/main:train\n"
        "  PENDING (RUNNABLE)\n"
        "\n"
        "It is too large.\n"
        "  It asks for 2.\n"
        "  fix: Ask for 1.\n"
        "\n"
        "also\n"
        "  Or something else.\n"
        "\n"
        "  queue     main\n"
        "  asks for  2\n"
        "\n"
        "the log ends with (/aws/batch/job x)\n"
        "  first\n"
        "  last\n"
        "\n"
        "could not be looked at\n"
        "  the roles: not permitted (iam:GetRole)\n"
    )


def test_json_has_the_same(ask: Command, told: Told) -> None:
    told.answer = FULL

    record = json.loads(ask("why", "--json", "memory://wherry/main:train").out)

    assert record["handle"] == "memory://wherry/main:train"
    assert (record["app_id"], record["state"]) == ("main:train", "PENDING")
    assert record["raw_state"] == "RUNNABLE"
    assert record["findings"][0] == {
        "code": "a",
        "certainty": "certain",
        "summary": "It is too large.",
        "detail": "It asks for 2.",
        "resolution": "Ask for 1.",
    }
    assert record["facts"][1] == {"label": "asks for", "text": "2"}
    assert record["log"] == ["first\x1b[2J", "last"]
    assert record["unseen"] == ["the roles: not permitted (iam:GetRole)"]


def test_the_keys_of_json_are_always_there(ask: Command, told: Told) -> None:
    told.answer = Diagnosis("x", AppState.UNKNOWN)

    record = json.loads(ask("why", "--json", "memory://wherry/x").out)

    assert list(record) == [
        "handle",
        "app_id",
        "state",
        "raw_state",
        "findings",
        "facts",
        "log",
        "log_name",
        "unseen",
    ]


def test_words_of_others_are_wrapped_and_cannot_write_on_the_terminal(
    ask: Command, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    told.answer = Diagnosis(
        "x", AppState.FAILED, "FAILED", (Finding("a", "evil \x1b]0;title\x07" + "word " * 30),)
    )

    out = ask("why", "memory://wherry/x").out

    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 60


# -- whose --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        JOB,
        f"{JOB}:7",
        f"{JOB}#1",
        f"arn:aws:batch:eu-west-1:123456789012:job/{JOB}",
        f"arn:aws-cn:batch:cn-north-1:123456789012:job/{JOB}:7",
    ],
)
def test_aws_s_own_names_of_jobs_are_taken(ask: Command, told: Told, words: str) -> None:
    result = ask("why", words)

    assert result.code == 0
    assert told.asked == [words]
    assert result.out.startswith(f"aws_batch://wherry/{words}\n")


def test_the_beginning_of_an_id_will_do(invoke: Command, memory: MemoryScheduler) -> None:
    handle = invoke("run", "--detach", "utils.echo", "--msg", "hello").out.strip()
    app_id = handle.rpartition("/")[2]

    assert invoke("why", app_id[:-3]).out.startswith(handle)


def test_an_unknown_app_is_a_usage_error(invoke: Command) -> None:
    result = invoke("why", "memory://wherry/nothing-1")

    assert result.code == 2
    assert "nothing-1" in result.err


# -- this machine ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "code", "summary"),
    [
        ("import nothing_at_all", "missing-module", "A Python module is missing"),
        ("raise SystemExit(3)", "program-failed", "The program ended with 3"),
        ("import os; os.kill(os.getpid(), 9)", "killed", "The program was killed (SIGKILL)"),
        ("print('exec format error'); raise SystemExit(1)", "wrong-architecture", "The program"),
    ],
)
def test_an_app_of_this_machine_that_failed_is_explained(
    wherry: Command, tmp_path: Path, script: str, code: str, summary: str
) -> None:
    file = tmp_path / "train.py"
    file.write_text(script)
    ran = wherry("run", "--json", "utils.python", "--script", str(file))
    handle = json.loads(ran.out)["handle"]

    text, record = wherry("why", handle), json.loads(wherry("why", "--json", handle).out)

    assert record["findings"][0]["code"] == code
    assert record["state"] == "FAILED"
    assert text.out.splitlines()[3].startswith(summary)


def test_an_app_that_succeeded_has_nothing_wrong(wherry: Command) -> None:
    handle = json.loads(wherry("run", "--json", "utils.echo", "--msg", "hi").out)["handle"]

    out = wherry("why", handle).out

    assert "It succeeded; nothing is wrong." in out
    assert "  hi\n" in out


def test_a_cancelled_app_says_so(invoke: Command, memory: MemoryScheduler) -> None:
    memory.script(Outcome.hang())
    handle = invoke("run", "--detach", "utils.echo", "--msg", "hello").out.strip()
    invoke("cancel", handle, "--reason", "wrong data")

    out = invoke("why", handle).out

    assert "Somebody cancelled it.\n" in out
    assert "wrong data" in out


# -- AWS Batch ------------------------------------------------------------------------------------


def test_a_job_of_anybody_is_explained(
    wherry_aws: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    world = World(wherry_aws)
    job = world.run("echo no input; exit 3")

    code = main(["why", job])

    out = capfd.readouterr().out
    assert code == 0
    assert out.startswith(f"aws_batch://wherry/{job}\n  FAILED\n\nThe program ended with 3")
    assert "  no input\n" in out


def test_an_app_that_wherry_submitted_is_explained(
    wherry_aws: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    World(wherry_aws).queue("small", {})
    words = ["-s", "aws_batch", "-cfg", "queue=small", "--detach", "utils.sh"]
    main(["run", *words, "--image", "alpine:3", "--memMB", "64000", "true"])
    handle = capfd.readouterr().out.strip()

    code = main(["why", handle])

    out = capfd.readouterr().out
    assert code == 0
    assert out.startswith(f"{handle}\n  PENDING (RUNNABLE)\n\nThe job asks for more memory than")


def test_what_can_never_run_is_not_submitted(
    wherry_aws: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    world = World(wherry_aws)
    world.queue("small", {})
    words = ["-s", "aws_batch", "-cfg", "queue=small", "--detach", "utils.sh"]

    code = main(["run", "--preflight", *words, "--image", "alpine:3", "--memMB", "64000", "true"])

    shown = capfd.readouterr()
    assert code == 2
    assert shown.out == ""
    assert "it can never run there, and was not started" in shown.err
    assert "Ask for at most 7407 MiB" in shown.err
    for status in ("SUBMITTED", "RUNNABLE", "RUNNING"):
        assert world.batch.list_jobs(jobQueue="small", jobStatus=status)["jobSummaryList"] == []


# -- beforehand -----------------------------------------------------------------------------------


def test_a_certain_finding_refuses_and_others_warn(ask: Command, told: Told) -> None:
    told.beforehand = (
        Finding("a", "It may be too large.", "It asks for 2.", certainty=Certainty.LIKELY),
    )
    warned = ask("run", "--preflight", "--detach", "utils.echo", "--msg", "hello")
    told.beforehand = (Finding("b", "It is too large.", certainty=Certainty.CERTAIN),)
    refused = ask("run", "--preflight", "--detach", "utils.echo", "--msg", "hello")

    assert warned.code == 0
    assert "warning: It may be too large. It asks for 2." in warned.err
    assert refused.code == 2
    assert "It is too large." in refused.err
    assert refused.out == ""


def test_nothing_is_asked_beforehand_unless_wanted(ask: Command, told: Told) -> None:
    told.beforehand = (Finding("b", "It is too large.", certainty=Certainty.CERTAIN),)

    assert ask("run", "--detach", "utils.echo", "--msg", "hello").code == 0


def test_a_scheduler_without_a_check_lets_all_pass(invoke: Command) -> None:
    assert invoke("run", "--preflight", "--detach", "utils.echo", "--msg", "hello").code == 0
