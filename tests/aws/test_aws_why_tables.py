"""The tables that words, codes and policies are read with."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.aws import jobs
from wherry.aws.diagnosis import retries, starting, trust
from wherry.aws.diagnosis.ages import span
from wherry.aws.diagnosis.images import read_reference
from wherry.aws.diagnosis.reasons import REASONS, reason_of
from wherry.emulator.batch.reasons import STUCK
from wherry.specs import exits, printed
from wherry.specs.diagnosis import Certainty, Finding, ranked

TASKS = "ecs-tasks.amazonaws.com"


# -- why a job is RUNNABLE ------------------------------------------------------------------------


def test_every_documented_reason_is_known() -> None:
    assert set(REASONS) == set(STUCK)
    for key, text in STUCK.items():
        found = reason_of(text)
        assert found is not None
        assert found.key == key


def test_the_reason_of_a_cancellation_by_the_queue_is_read_too() -> None:
    found = reason_of("Canceled by JobStateTimeLimit action due to reason: UNDETERMINED")

    assert found is not None
    assert found.code == "undetermined"


@given(st.text())
def test_other_words_are_no_reason(text: str) -> None:
    if not any(key in text for key in REASONS):
        assert reason_of(text) is None


# -- exit codes and signals -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (0, "succeeded"),
        (1, "program-failed"),
        (2, "bad-usage"),
        (126, "not-executable"),
        (127, "not-found"),
        (132, "illegal-instruction"),
        (134, "aborted"),
        (135, "bus-error"),
        (137, "killed"),
        (139, "segmentation-fault"),
        (141, "broken-pipe"),
        (143, "asked-to-end"),
        (255, "out-of-range"),
        (3, "program-failed"),
        (200, "program-failed"),
    ],
)
def test_an_exit_code_has_a_meaning(code: int, expected: str) -> None:
    found = exits.meaning(code)

    assert found is not None
    assert found.code == expected


def test_a_signal_means_the_same_as_the_code_that_stands_for_it() -> None:
    assert exits.meaning(None, "SIGKILL") == exits.meaning(137)
    assert exits.meaning(None) is None
    assert exits.meaning(None, "SIGUSR1") is not None


@given(st.integers(-10, 400))
def test_every_code_means_something(code: int) -> None:
    assert exits.meaning(code) is not None


# -- last lines -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("exec /usr/bin/train: exec format error", "wrong-architecture"),
        ("RuntimeError: CUDA out of memory. Tried to allocate", "gpu-memory"),
        ("RuntimeError: Found no NVIDIA driver on your system", "no-gpu-inside"),
        ("OSError: [Errno 28] No space left on device: '/tmp/x'", "disk-full"),
        ("botocore.exceptions.NoCredentialsError: Unable to locate credentials", "no-credentials"),
        ("An error occurred (AccessDenied) when calling the GetObject", "not-permitted-inside"),
        ("ModuleNotFoundError: No module named 'torch'", "missing-module"),
        ("sh: 1: trian: not found", "not-found"),
        ("bash: line 1: trian: command not found", "not-found"),
        ("curl: (6) Could not resolve host: example.com", "no-network"),
        ("MemoryError", "out-of-memory"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "out-of-memory"),
        ("KeyError: 'price'", "exception"),
        ("subprocess.CalledProcessError: Command returned 1", "exception"),
    ],
)
def test_a_line_tells_something(line: str, expected: str) -> None:
    found = printed.read(["begin", line, "end"])

    assert found is not None
    assert found.code.startswith(expected)
    assert found.line == line


def test_the_last_of_several_exceptions_counts() -> None:
    found = printed.read(["KeyError: 'a'", "ValueError: b", "bye"])

    assert found is not None
    assert "ValueError" in found.summary


@pytest.mark.parametrize("lines", [[], ["all is well"], ["no error: 0"], ["UserWarning: old"]])
def test_ordinary_lines_tell_nothing(lines: list[str]) -> None:
    assert printed.read(lines) is None


@given(st.lists(st.text()))
def test_any_lines_can_be_read(lines: list[str]) -> None:
    printed.read(lines)


# -- starting -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("CannotPullContainerError: manifest for a:b not found: manifest unknown", "image-not-fou"),
        (
            "CannotPullContainerError: pull access denied for a, repository does not",
            "image-not-all",
        ),
        ("CannotPullContainerError: toomanyrequests: You have reached", "pull-rate-limit"),
        ("CannotPullContainerError: no space left on device", "host-disk-full"),
        ("CannotPullContainerError: dial tcp: i/o timeout", "registry-unreachable"),
        ("CannotPullContainerError: no matching manifest for linux/arm64", "image-architecture"),
        ("CannotPullContainerError: something new", "pull-failed"),
        ("ResourceInitializationError: unable to pull secrets or registry auth", "secret-not-read"),
        ("ResourceInitializationError: failed to invoke EFS utils commands", "mount-failed"),
        ("ResourceInitializationError: failed to validate logger args", "log-group-missing"),
        ("ResourceInitializationError: something new", "not-initialised"),
        ("ECS was unable to assume the role 'arn:aws:iam::1:role/a'", "role-not-assumed"),
        ("DockerTimeoutError: Could not transition to created", "host-too-slow"),
        ("CannotStartContainerError: exec: permission denied", "not-executable"),
        ("CannotStartContainerError: could not select device driver nvidia", "no-gpu-driver"),
        ("CannotCreateContainerError: invalid mode", "container-not-created"),
    ],
)
def test_words_of_ecs_are_understood(words: str, expected: str) -> None:
    found = starting.said(words)

    assert found is not None
    assert found.code.startswith(expected)
    assert words in found.detail


def test_other_words_are_left_alone() -> None:
    assert starting.said("Essential container in task exited") is None


# -- images ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "alpine",
        "alpine:3.20",
        "library/alpine",
        "localhost:5000/team/train:v2",
        "public.ecr.aws/docker/library/busybox:musl",
        "a/b@sha256:" + "0" * 64,
        "123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/train",
        "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/train:v1",
    ],
)
def test_names_of_images_are_valid(text: str) -> None:
    assert read_reference(text).is_valid


@pytest.mark.parametrize("text", ["", "Alpine", "a:", "a:b:c", "a//b", "http://a/b", "a b", "-a"])
def test_other_names_are_not(text: str) -> None:
    assert not read_reference(text).is_valid


def test_a_name_in_ecr_tells_where_it_is() -> None:
    found = read_reference("123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/train")

    assert (found.account, found.region) == ("123456789012", "eu-west-1")
    assert (found.path, found.tag) == ("team/train", "latest")


@given(st.text(max_size=40))
def test_any_text_can_be_read_as_a_name(text: str) -> None:
    assert read_reference(text).text == text


# -- trust ----------------------------------------------------------------------------------------


def policy(**statement: object) -> dict[str, object]:
    return {"Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", **statement}]}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (policy(Principal={"Service": TASKS}), True),
        (policy(Principal={"Service": ["ec2.amazonaws.com", TASKS]}), True),
        (policy(Principal={"Service": TASKS}, Action=["sts:*"]), True),
        (policy(Principal={"Service": TASKS}, Action="sts:TagSession"), False),
        (policy(Principal={"Service": "ec2.amazonaws.com"}), False),
        (policy(Principal={"AWS": "*"}), True),
        (policy(Principal={"AWS": "arn:aws:iam::123456789012:root"}), False),
        (policy(Principal="*"), True),
        (policy(Principal={"Service": TASKS}, Effect="Deny"), False),
        ({"Statement": {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": "*"}}, True),
        (json.dumps(policy(Principal={"Service": TASKS})), True),
        (quote(json.dumps(policy(Principal={"Service": TASKS}))), True),
        ("no policy", None),
        (None, None),
    ],
)
def test_a_trust_policy_lets_tasks_assume_the_role(document: object, expected: object) -> None:
    assert trust.allows(document, TASKS) is expected


# -- retries --------------------------------------------------------------------------------------


def failed(attempts: int, allowed: int, **more: object) -> jobs.JobView:
    ends = [
        {
            "container": {"exitCode": 3, "taskArn": f"t{number}"},
            "stoppedAt": 1000,
            "startedAt": 500,
            "statusReason": "Essential container in task exited",
        }
        for number in range(attempts)
    ]
    return jobs.view(
        {
            "jobId": "x",
            "status": "FAILED",
            "jobQueue": "q",
            "attempts": ends,
            "container": {"taskArn": f"t{attempts - 1}"},
            "retryStrategy": {"attempts": allowed, "evaluateOnExit": more.pop("rules", [])},
            **more,
        }
    )


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (failed(1, 1), "not retried: it may have 1 attempt"),
        (failed(2, 2), "all 2 attempts are used"),
        (failed(1, 3, rules=[{"onExitCode": "3", "action": "EXIT"}]), "rule 1, onExitCode 3"),
        (failed(1, 3, rules=[{"onExitCode": "30*", "action": "EXIT"}]), "holds another"),
        (failed(1, 3, isTerminated=True), "never retried"),
        (failed(1, 3, statusReason="Job attempt duration exceeded timeout"), "timeouts are never"),
        (failed(2, 2, rules=[{"onReason": "*", "action": "RETRY"}]), "was retried (rule 1"),
    ],
)
def test_why_there_was_no_other_attempt(job: jobs.JobView, words: str) -> None:
    assert words in retries.told(job)


# -- the rest -------------------------------------------------------------------------------------


def test_the_surest_come_first_and_nothing_is_said_twice() -> None:
    low = Finding("a", "low", certainty=Certainty.POSSIBLE)
    mid, other = Finding("b", "mid"), Finding("c", "other")
    top = Finding("a", "top", certainty=Certainty.CERTAIN)

    assert ranked([low, mid, other, top]) == (top, mid, other)


@given(st.floats(0, 1e9))
def test_a_span_is_words(seconds: float) -> None:
    assert span(seconds)[0].isdigit()
