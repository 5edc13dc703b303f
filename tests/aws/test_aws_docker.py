"""The AWS Batch scheduler with real containers: no shell but the image's own, or a sidecar's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.engine import image, require_engine
from wherry import AppDef, Resource, Role, Runner
from wherry.emulator.server.emulator import Emulator
from wherry.emulator.settings import Settings
from wherry.specs.states import AppState

WHO = "echo $WHERRY_ROLE_NAME $WHERRY_REPLICA_ID of $WHERRY_NUM_REPLICAS"


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    require_engine()
    with Emulator(Settings(port=0, engine="docker")) as running:
        yield running


@pytest.fixture
def runner(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    with Runner("docker") as made:
        yield made


def role(script: str, **more: object) -> Role:
    fields = {"image": image("busybox"), "resource": Resource(cpu=1, memMB=64), **more}
    return Role("main", entrypoint="sh", args=["-c", script], **fields)  # type: ignore[arg-type]


def log(runner: Runner, handle: str, k: int = 0) -> str:
    return "".join(runner.log_lines(handle, "main", k))


def test_a_single_replica(runner: Runner) -> None:
    handle = runner.run(AppDef("one", [role(WHO)]), "aws_batch", {"queue": "main"})

    assert runner.wait(handle, timeout=60).state is AppState.SUCCEEDED
    assert log(runner, handle) == "main 0 of 1\n"


def test_an_array_with_a_retry(runner: Runner) -> None:
    script = f"{WHO}; test $WHERRY_REPLICA_ID.$WHERRY_ATTEMPT != 1.1"
    app = AppDef("array", [role(script, num_replicas=3, max_retries=1)], array=True)

    handle = runner.run(app, "aws_batch", {"queue": "main"})

    assert runner.wait(handle, timeout=60).state is AppState.SUCCEEDED
    logs = [log(runner, handle, k) for k in range(3)]
    assert logs == ["main 0 of 3\n", "main 1 of 3\n" * 2, "main 2 of 3\n"]


def test_a_gang_reaches_its_first_replica(runner: Runner) -> None:
    script = (
        "if [ $WHERRY_REPLICA_ID = 0 ]; then nc -l -p 5000; "
        "else until echo hello from $WHERRY_REPLICA_ID | nc $WHERRY_RANK0_HOST 5000; "
        "do sleep 0.1; done; sleep 30; fi"
    )
    app = AppDef("gang", [role(script, num_replicas=2)])

    handle = runner.run(app, "aws_batch", {"queue": "main"})

    assert runner.wait(handle, timeout=60).state is AppState.SUCCEEDED
    assert log(runner, handle) == "hello from 1\n"


def test_a_sidecar_brings_the_shell(runner: Runner) -> None:
    options = {
        "queue": "main",
        "launcher": "sidecar",
        "launcher_image": image("busybox"),
    }
    app = AppDef("side", [role("echo attempt $WHERRY_ATTEMPT", max_retries=1)])

    handle = runner.run(app, "aws_batch", options)

    assert runner.wait(handle, timeout=60).state is AppState.SUCCEEDED
    assert log(runner, handle) == "attempt 1\n"


def test_a_program_that_takes_too_much_memory(runner: Runner) -> None:
    app = AppDef("greedy", [role("x=$(cat /dev/zero | tr '\\0' x)")])

    handle = runner.run(app, "aws_batch", {"queue": "main"})
    status = runner.wait(handle, timeout=60)

    assert status.state is AppState.FAILED
    assert "OutOfMemoryError: Container killed due to memory usage" in status.msg
