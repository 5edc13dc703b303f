"""The Engine is killed, or told to end, and started again while containers run."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from support.container_bench import ContainerBench, container_bench
from support.own_engine import OwnEngine, own_engine
from support.waiting import until
from wherry.specs import AppState

COUNTING = (
    "i=0; while [ $$i -lt 150 ]; do echo line $$i; echo err $$i >&2; i=$$((i+1)); sleep 0.03; done"
)


@pytest.fixture
def options() -> tuple[str, ...]:
    return ()


@pytest.fixture
def engine(options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnEngine]:
    with own_engine(*options) as made:
        monkeypatch.setenv("DOCKER_HOST", made.address)
        yield made


@pytest.fixture
def bench(engine: OwnEngine) -> Iterator[ContainerBench]:
    assert engine.answers()
    with container_bench(network="none") as made:
        yield made


def waits_for_engine(bench: ContainerBench, app_id: str) -> bool:
    described = bench.scheduler.describe(app_id)
    return described is not None and "waits for the Docker Engine" in described.msg


def lines(bench: ContainerBench, app_id: str, stream: str) -> list[str]:
    return bench.log(app_id, stream=stream).splitlines()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_container_that_ended_with_its_engine_has_failed_for_that_reason(
    engine: OwnEngine, bench: ContainerBench, number: signal.Signals
) -> None:
    app_id = bench.start(COUNTING)
    bench.says(app_id, "line 9")

    engine.end(number)
    until(lambda: waits_for_engine(bench, app_id), "the supervisor to notice")
    engine.start()
    ended = bench.end(app_id)
    out = lines(bench, app_id, "stdout")

    assert ended.state is AppState.FAILED
    assert "the Docker Engine was restarted, and its container ended with it" in ended.msg
    assert out == [f"line {k}" for k in range(len(out))]


def test_a_retry_follows_once_the_engine_is_back(engine: OwnEngine, bench: ContainerBench) -> None:
    script = "echo ready; test $$WHERRY_ATTEMPT = 2 || sleep 1000"
    app_id = bench.start(script, max_retries=1)
    bench.says(app_id, "ready")

    engine.end(signal.SIGKILL)
    until(lambda: waits_for_engine(bench, app_id), "the supervisor to notice")
    engine.start()
    ended = bench.end(app_id)

    assert ended.state is AppState.SUCCEEDED, ended.msg
    assert len(ended.roles_statuses[0].replicas[0].attempts) == 2


@pytest.mark.parametrize("options", [("--live-restore",)])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_container_that_outlives_its_engine_is_followed_without_loss_or_repeat(
    engine: OwnEngine, bench: ContainerBench, number: signal.Signals
) -> None:
    app_id = bench.start(COUNTING)
    bench.says(app_id, "line 9")

    engine.end(number)
    until(lambda: waits_for_engine(bench, app_id), "the supervisor to notice")
    engine.start()
    ended = bench.end(app_id)

    assert ended.state is AppState.SUCCEEDED, ended.msg
    assert lines(bench, app_id, "stdout") == [f"line {k}" for k in range(150)]
    assert lines(bench, app_id, "stderr") == [f"err {k}" for k in range(150)]


def test_an_app_can_be_cancelled_while_its_engine_is_away(
    engine: OwnEngine, bench: ContainerBench
) -> None:
    app_id = bench.start(COUNTING)
    bench.says(app_id, "line 9")

    engine.end(signal.SIGKILL)
    until(lambda: waits_for_engine(bench, app_id), "the supervisor to notice")
    bench.scheduler.cancel(app_id, "enough")
    engine.start()
    ended = bench.end(app_id)

    assert (ended.state, ended.msg) == (AppState.CANCELLED, "enough")
    assert not bench.running(app_id)
