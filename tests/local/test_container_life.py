"""Replicas in containers: how they start, end, are told to stop, and what they say."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from support.container_bench import ContainerBench, container_bench
from support.engine import require_engine
from support.waiting import until
from wherry.errors import LaunchError, WherryError
from wherry.specs import AppDef, AppState, Resource, Role

MEETING = """
if [ $$WHERRY_REPLICA_ID = 0 ]; then
    for _ in $$(seq 2 $$WHERRY_NUM_REPLICAS); do echo hello | nc -l -p 5000; done
else
    until nc $$WHERRY_RANK0_HOST 5000 < /dev/null | grep hello; do sleep 0.1; done
fi
echo $$WHERRY_RANK0_HOST
"""
"""The first replica waits for all others, and each of them for the first."""


@pytest.fixture
def bench() -> Iterator[ContainerBench]:
    require_engine()
    with container_bench() as made:
        yield made


def test_a_program_ends_well_and_its_two_streams_are_kept_apart(bench: ContainerBench) -> None:
    app_id = bench.start("echo out; echo err >&2")

    assert bench.end(app_id).state is AppState.SUCCEEDED
    assert bench.log(app_id, stream="stdout") == "out\n"
    assert bench.log(app_id, stream="stderr") == "err\n"
    assert sorted(bench.log(app_id).splitlines()) == ["err", "out"]


def test_bytes_that_are_no_text_arrive_unchanged(bench: ContainerBench) -> None:
    app_id = bench.start(r"printf '\377\000\n\r50%%\r100%%'")
    bench.end(app_id)

    assert b"".join(bench.scheduler.log_bytes(app_id, "role")) == b"\xff\x00\n\r50%\r100%"


def test_a_large_log_is_whole(bench: ContainerBench) -> None:
    app_id = bench.start("head -c 30000000 /dev/zero")

    assert bench.end(app_id).state is AppState.SUCCEEDED
    assert sum(map(len, bench.scheduler.log_bytes(app_id, "role"))) == 30_000_000


@pytest.mark.parametrize(
    ("script", "code", "signal", "why"),
    [
        ("exit 3", 3, None, "exited with code 3"),
        ("exit 127", 127, None, "exited with code 127 (a command in it was not found)"),
        ("kill -9 $$$$; sleep 9", 137, "SIGKILL", "killed by SIGKILL"),
        ("kill -SEGV $$$$; sleep 9", 139, "SIGSEGV", "killed by SIGSEGV"),
    ],
)
def test_how_a_program_failed_is_told(
    bench: ContainerBench, script: str, code: int, signal: str | None, why: str
) -> None:
    # An init process is the container's first: without one, signals to itself do nothing.
    ended = bench.run(script, cfg={"init": True})
    attempt = ended.roles_statuses[0].replicas[0].attempts[-1]

    assert ended.state is AppState.FAILED
    assert (attempt.exit_code, attempt.signal, attempt.reason) == (code, signal, why)


def test_running_out_of_memory_is_told_with_the_limit(bench: ContainerBench) -> None:
    resource = Resource(cpu=1, gpu=0, memMB=16)
    ended = bench.run("x=xxxxxxxxxxxxxxxx; while :; do x=$$x$$x; done", resource=resource)

    assert ended.state is AppState.FAILED
    assert "out of memory: the limit is 16 MiB" in ended.msg


def test_what_a_program_leaves_in_its_error_file_is_kept(bench: ContainerBench) -> None:
    ended = bench.run("""echo '{"message": "é"}' > $$WHERRY_ERROR_FILE; exit 1""")

    assert ended.structured_error_msg.strip() == '{"message": "é"}'


def test_each_replica_knows_who_it_is(bench: ContainerBench) -> None:
    app_id = bench.start(
        "echo $$WHERRY_REPLICA_ID/$$WHERRY_NUM_REPLICAS $$WHERRY_ROLE_NAME $$WHERRY_ATTEMPT"
        " ${replica_id} $$WHERRY_RANK0_HOST",
        replicas=2,
        array=True,
    )
    bench.end(app_id)

    assert bench.log(app_id, 1) == "1/2 role 1 1 localhost\n"


def test_a_container_tells_what_it_belongs_to(bench: ContainerBench) -> None:
    app_id = bench.start("true")
    bench.end(app_id)
    (container,) = bench.containers(app_id)

    assert container["Labels"]["wherry.role"] == "role"
    assert container["Labels"]["wherry.replica"] == "0"
    assert container["Labels"]["wherry.attempt"] == "1"
    assert bench.events(app_id)[1]["container"] == container["Id"]


def test_a_gang_reaches_its_first_replica_by_the_name_of_its_container(
    bench: ContainerBench,
) -> None:
    app_id = bench.start(MEETING, replicas=3)
    ended = bench.end(app_id)
    names = {container["Names"][0] for container in bench.containers(app_id)}

    assert ended.state is AppState.SUCCEEDED, ended.msg
    assert "hello" in bench.log(app_id, 1)
    assert "/" + bench.log(app_id, 2).splitlines()[-1] in names
    until(lambda: not bench.networks(app_id), "the end of the network")


def test_a_gang_of_long_names_finds_its_first_replica(bench: ContainerBench) -> None:
    role = bench.app(MEETING, replicas=2).roles[0]
    long = Role(name="a_role." + "r" * 50, image=role.image, entrypoint="sh", args=role.args,
                num_replicas=2)  # fmt: skip

    assert bench.run(AppDef("app", [long])).state is AppState.SUCCEEDED


def test_one_failure_ends_a_gang(bench: ContainerBench) -> None:
    app_id = bench.start("test $$WHERRY_REPLICA_ID = 1 && exit 4; sleep 1000", replicas=3)
    ended = bench.end(app_id)

    assert (ended.state, ended.msg) == (AppState.FAILED, "role/1 exited with code 4")
    assert [r.state.name for r in ended.roles_statuses[0].replicas] == [
        "CANCELLED", "FAILED", "CANCELLED"]  # fmt: skip
    assert not bench.running(app_id)


def test_a_failed_replica_is_tried_again_in_a_container_of_its_own(bench: ContainerBench) -> None:
    app_id = bench.start("echo try $$WHERRY_ATTEMPT; test $$WHERRY_ATTEMPT = 2", max_retries=1)
    ended = bench.end(app_id)

    assert ended.state is AppState.SUCCEEDED
    assert [a.exit_code for a in ended.roles_statuses[0].replicas[0].attempts] == [1, 0]
    assert bench.log(app_id, attempt=1) == "try 1\n"
    assert len({container["Names"][0] for container in bench.containers(app_id)}) == 2


def test_a_program_that_takes_too_long_is_ended(bench: ContainerBench) -> None:
    ended = bench.run("sleep 1000", timeout=0.5, cfg={"init": True})

    assert (ended.state, ended.msg) == (AppState.FAILED, "role/0 timed out after 0.5 s")


def test_cancel_asks_first_and_kills_after_the_grace(bench: ContainerBench) -> None:
    script = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.1; done"
    app_id = bench.start(script, cfg={"init": False})
    bench.says(app_id, "ready")

    bench.scheduler.cancel(app_id, "enough")
    ended = bench.end(app_id)

    assert (ended.state, ended.msg) == (AppState.CANCELLED, "enough")
    assert bench.log(app_id) == "ready\nasked\n"
    assert ended.roles_statuses[0].replicas[0].exit_code == 137


def test_a_cancelled_start_leaves_nothing_running(bench: ContainerBench) -> None:
    import threading

    app = bench.app("sleep 1000", replicas=4, array=True)
    app_id = bench.start(app, cfg={"max_parallel": 4})
    cancelling = threading.Thread(target=bench.scheduler.cancel, args=(app_id, "early"))
    cancelling.start()
    ended = bench.end(app_id)
    cancelling.join()

    assert (ended.state, ended.msg) == (AppState.CANCELLED, "early")
    assert not bench.running(app_id)


# Starts that fail.


def refused(bench: ContainerBench, app: AppDef, **cfg: object) -> str:
    with pytest.raises(WherryError) as caught:
        bench.start(app, cfg=cfg)
    return str(caught.value)


def made_for(bench: ContainerBench, name: str) -> list[str]:
    found = bench.engine.request("GET", "/containers/json", {"all": True})
    return [entry["Names"][0] for entry in found if name in entry["Names"][0]]


def test_a_missing_program_is_told_and_the_whole_gang_is_rolled_back(
    bench: ContainerBench,
) -> None:
    app = bench.app("", replicas=3, entrypoint="no-such-program", args=[])

    words = refused(bench, app, init=False)

    assert re.search(
        r'role/\d could not be started: .*"no-such-program".*not found in \$PATH', words
    )
    assert made_for(bench, app.name) == []
    assert [n for n in bench.engine.request("GET", "/networks") if app.name in n["Name"]] == []


def test_a_port_that_is_taken_is_told(bench: ContainerBench) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        app = bench.app("true", port_map={"http": port})
        words = refused(bench, app)

    assert "another program or container has the port" in words
    assert made_for(bench, app.name) == []


def test_an_array_goes_on_without_the_replica_that_did_not_start(bench: ContainerBench) -> None:
    app = bench.app("", replicas=2, array=True, entrypoint="no-such-program", args=[])
    ended = bench.run(app, cfg={"init": False})

    assert ended.state is AppState.FAILED
    first = r"2 of 2 replicas failed; the first: role/[01] could not be started"
    assert re.match(first, ended.msg), ended.msg
    assert [r.exit_code for r in ended.roles_statuses[0].replicas] == [127, 127]


def test_a_failed_launch_is_a_launch_error(bench: ContainerBench) -> None:
    app = bench.app("", entrypoint="/nowhere", args=[])

    with pytest.raises(LaunchError, match="could not be started"):
        bench.start(app, cfg={"init": False})
