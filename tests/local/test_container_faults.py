"""Containers when something is killed: supervisor, guard, client, or the container itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from support.container_bench import ContainerBench, container_bench, supervisors
from support.engine import image, require_engine
from support.waiting import until
from wherry.schedulers.docker import DockerScheduler
from wherry.specs import AppState

FOREVER = "trap '' TERM; echo ready; while :; do sleep 0.1; done"


@pytest.fixture
def bench() -> Iterator[ContainerBench]:
    require_engine()
    with container_bench() as made:
        yield made


@pytest.fixture
def gang(bench: ContainerBench) -> str:
    app_id = bench.start(FOREVER, replicas=2)
    bench.says(app_id, "ready", 0)
    bench.says(app_id, "ready", 1)
    assert len(bench.running(app_id)) == 2
    return app_id


def test_a_killed_supervisor_takes_its_containers_with_it(bench: ContainerBench, gang: str) -> None:
    _, supervisor = supervisors(gang)

    supervisor.kill()
    ended = bench.end(gang)

    assert ended.state is AppState.FAILED
    assert "supervisor was killed (signal 9)" in ended.msg
    assert not bench.running(gang)
    until(lambda: not bench.networks(gang), "the end of the network")
    assert len(bench.containers(gang)) == 2


def test_when_supervisor_and_guard_are_killed_whoever_looks_ends_the_containers(
    bench: ContainerBench, gang: str
) -> None:
    processes = supervisors(gang)
    for process in processes:
        process.suspend()
    for process in processes:
        process.kill()

    def is_over() -> bool:
        described = DockerScheduler("other").describe(gang)
        return described is not None and described.to_status().is_terminal()

    until(is_over, "the end")

    assert not bench.running(gang)
    assert not bench.networks(gang)


CLIENT = """
import sys
from wherry.schedulers.docker import DockerScheduler
from wherry.specs import AppDef, Role
scheduler = DockerScheduler("client")
role = Role("role", image=sys.argv[1], entrypoint="sh", args=["-c", sys.argv[2]])
app_id = scheduler.submit(AppDef("app", [role]), {"grace": 0.3})
if "detach" in sys.argv[3:]:
    scheduler.detach(app_id)
print(app_id, flush=True)
sys.stdin.read()
"""


def start_client(bench: ContainerBench, *words: str) -> tuple[subprocess.Popen[str], str]:
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, image("busybox"), FOREVER, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert client.stdout is not None
    app_id = client.stdout.readline().strip()
    bench.apps.append(app_id)
    bench.says(app_id, "ready")
    return client, app_id


def test_containers_of_an_attached_app_die_with_the_client(bench: ContainerBench) -> None:
    client, app_id = start_client(bench)

    client.send_signal(signal.SIGKILL)
    client.communicate()
    ended = bench.end(app_id)

    assert ended.state is AppState.CANCELLED
    assert "its client ended" in ended.msg
    assert not bench.running(app_id)


def test_containers_of_a_detached_app_go_on_without_the_client(bench: ContainerBench) -> None:
    client, app_id = start_client(bench, "detach")

    client.send_signal(signal.SIGKILL)
    client.communicate()
    until(lambda: any(event["e"] == "detached" for event in bench.events(app_id)), "the news")

    assert len(bench.running(app_id)) == 1
    bench.scheduler.cancel(app_id, kill=True)
    assert bench.end(app_id).state is AppState.CANCELLED


def test_a_container_that_somebody_removed_has_failed(bench: ContainerBench) -> None:
    app_id = bench.start(FOREVER)
    bench.says(app_id, "ready")
    (container,) = bench.running(app_id)

    bench.engine.request("DELETE", f"/containers/{container}", {"force": True})
    ended = bench.end(app_id)

    assert (ended.state, ended.msg) == (AppState.FAILED, "role/0 its container was removed")


def test_a_container_that_somebody_stopped_has_failed_and_says_so(bench: ContainerBench) -> None:
    app_id = bench.start(FOREVER)
    bench.says(app_id, "ready")
    (container,) = bench.running(app_id)

    bench.engine.request("POST", f"/containers/{container}/kill", {"signal": "KILL"})
    ended = bench.end(app_id)

    assert ended.state is AppState.FAILED
    assert ended.msg == "role/0 killed by SIGKILL, which came through the Docker Engine"


def test_killing_one_container_of_a_gang_ends_all(bench: ContainerBench, gang: str) -> None:
    bench.engine.request("POST", f"/containers/{bench.running(gang)[0]}/kill")
    ended = bench.end(gang)

    assert ended.state is AppState.FAILED
    assert not bench.running(gang)


def test_a_program_that_closes_its_output_is_waited_for(bench: ContainerBench) -> None:
    app_id = bench.start("echo before; exec > /dev/null 2>&1; sleep 1; exit 5")
    ended = bench.end(app_id)

    assert ended.msg == "role/0 exited with code 5"
    assert bench.log(app_id) == "before\n"


def test_a_container_has_one_descriptor_of_its_supervisor(bench: ContainerBench) -> None:
    app_id = bench.start(FOREVER, replicas=4)
    for k in range(4):
        bench.says(app_id, "ready", k)
    _, supervisor = supervisors(app_id)

    links = [os.readlink(f"/proc/{supervisor.pid}/fd/{fd}") for fd in
             os.listdir(f"/proc/{supervisor.pid}/fd")]  # fmt: skip

    assert 4 <= sum("socket" in link for link in links) <= 8
    bench.scheduler.cancel(app_id, kill=True)
    bench.end(app_id)
