"""Apps in real containers: how they start, end, are retried, and what they find inside."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.docker_bench import Bench, docker, engine
from support.engine import image
from support.waiting import until
from wherry.errors import LaunchError
from wherry.specs import AppDef, AppState, Resource, RetryPolicy, Role, parse_mounts

RENDEZVOUS = """
import os, socket, time
host, rank = os.environ["WHERRY_RANK0_HOST"], int(os.environ["WHERRY_REPLICA_ID"])
if rank == 0:
    door = socket.create_server(("", 29500))
    told = sorted(door.accept()[0].recv(10).decode() for _ in range(2))
    print("heard", *told, flush=True)
else:
    while True:
        try:
            line = socket.create_connection((host, 29500), 5)
            break
        except OSError:
            time.sleep(0.05)
    line.sendall(str(rank).encode())
    print("told", host, flush=True)
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        return int(door.getsockname()[1])


# -- gangs ----------------------------------------------------------------------------------------


def test_a_gang_reaches_its_first_replica_by_name(bench: Bench) -> None:
    app = bench.app("", replicas=3, of="python")
    role = Role(**{**vars(app.roles[0]), "entrypoint": "python3", "args": ["-c", RENDEZVOUS]})

    ended = bench.run(AppDef("gang", [role]))

    assert ended.state is AppState.SUCCEEDED, [bench.log(ended.app_id, k) for k in range(3)]
    assert bench.log(ended.app_id) == "heard 1 2\n"
    host = bench.log(ended.app_id, 1).split()[1]
    assert host == bench.log(ended.app_id, 2).split()[1]
    assert host in {one["Names"][0].lstrip("/") for one in bench.containers(ended.app_id)}
    until(lambda: not bench.networks(ended.app_id), "the end of its network")


def test_a_very_long_name_still_resolves(bench: Bench) -> None:
    wait = "[ ${replica_id} = 0 ] && sleep 1000"
    role = Role(
        "r" * 60,
        image=image("busybox"),
        entrypoint="sh",
        args=["-c", f"{wait}; ping -c 1 -w 20 $$WHERRY_RANK0_HOST && exit 7"],
        num_replicas=2,
    )

    ended = bench.run(AppDef("an_app.of-" + "n" * 80, [role]))

    assert ended.msg == f"{role.name}/1 exited with code 7"


def test_roles_of_a_gang_share_its_network(bench: Bench) -> None:
    first = Role("first", image=image("busybox"), entrypoint="sleep", args=["1000"])
    second = Role(
        "second",
        image=image("busybox"),
        entrypoint="sh",
        args=["-c", "ping -c 1 -w 20 $$WHERRY_RANK0_HOST && exit 7"],
    )

    ended = bench.run(AppDef("two", [first, second]))

    assert ended.msg.startswith("second/0 exited with code 7")
    assert [role.replicas[0].state for role in ended.roles_statuses] == [
        AppState.CANCELLED,
        AppState.FAILED,
    ]


def test_one_killed_replica_ends_all(bench: Bench) -> None:
    app_id = bench.start("echo ready; sleep 1000", replicas=3)
    for k in range(3):
        bench.wait_for_line(app_id, "ready", k)
    one = next(c for c in bench.running(app_id) if c["Labels"]["wherry.replica"] == "1")

    docker("kill", one["Id"])
    ended = bench.end(app_id)

    assert ended.state is AppState.FAILED
    assert "role/1 killed by SIGKILL" in ended.msg
    assert bench.running(app_id) == []


def test_a_gang_starts_again_as_a_whole(bench: Bench) -> None:
    script = 'echo $WHERRY_ATTEMPT; [ "$WHERRY_REPLICA_ID$WHERRY_ATTEMPT" != 11 ] && sleep 0.5'

    ended = bench.run(script, replicas=2, max_retries=1)

    assert ended.state is AppState.SUCCEEDED
    assert bench.log(ended.app_id, 0) == "1\n2\n"
    assert len(bench.containers(ended.app_id)) == 4


def test_a_partial_start_is_rolled_back(bench: Bench) -> None:
    good = Role("good", image=image("busybox"), entrypoint="sleep", args=["1000"], num_replicas=2)
    bad = Role("bad", image=image("busybox"), entrypoint="no-such-program")

    with pytest.raises(LaunchError, match="no-such-program") as caught:
        bench.scheduler.submit(AppDef("partial", [good, bad]), {"init": False})

    assert "bad/0" in str(caught.value) or "no-such-program" in str(caught.value)
    with engine() as api:
        found = api.request("GET", "/containers/json", {"all": True})
        left = [c for c in found if os.environ["WHERRY_HOME"] == c["Labels"].get("wherry.home")]
        networks = [n for n in api.request("GET", "/networks") if "partial" in n["Name"]]
    assert left == []
    assert networks == []
    assert list(bench.scheduler.recorded()) == []


# -- arrays ---------------------------------------------------------------------------------------


def test_an_array_retries_what_failed(bench: Bench) -> None:
    script = "echo $WHERRY_REPLICA_ID.$WHERRY_ATTEMPT; [ $WHERRY_ATTEMPT = 2 ] || exit 4"

    ended = bench.run(
        script, replicas=4, array=True, max_retries=1, retry_policy=RetryPolicy.REPLICA
    )

    assert ended.state is AppState.SUCCEEDED
    replicas = ended.roles_statuses[0].replicas
    assert [[a.exit_code for a in one.attempts] for one in replicas] == [[4, 0]] * 4
    assert [bench.log(ended.app_id, k) for k in range(4)] == [f"{k}.1\n{k}.2\n" for k in range(4)]
    assert bench.networks(ended.app_id) == []


def test_an_array_goes_on_without_what_failed(bench: Bench) -> None:
    ended = bench.run("exit $WHERRY_REPLICA_ID", replicas=3, array=True)

    assert ended.state is AppState.FAILED
    assert ended.msg.startswith("2 of 3 replicas failed")


def test_an_array_is_admitted_by_what_may_run_at_once(bench: Bench) -> None:
    app_id = bench.start("sleep 1000", {"max_parallel": 2}, replicas=5, array=True)
    until(lambda: len(bench.running(app_id)) == 2, "two replicas", 60)

    described = bench.scheduler.describe(app_id)

    assert described is not None
    assert described.to_status().counts() == {AppState.RUNNING: 2, AppState.PENDING: 3}
    assert len(bench.containers(app_id)) == 2


# -- how it ends ----------------------------------------------------------------------------------


def test_out_of_memory_is_told_with_the_limit(bench: Bench) -> None:
    ended = bench.run("tail /dev/zero", resource=Resource(memMB=16), max_retries=0)

    (attempt,) = ended.roles_statuses[0].replicas[0].attempts
    assert ended.state is AppState.FAILED
    assert attempt.exit_code == 137
    assert "out of memory" in attempt.reason
    assert "16 MiB" in attempt.reason
    cause = bench.scheduler.why(ended.app_id).cause
    assert cause is not None
    assert (cause.code, "16 MiB" in cause.detail) == ("out-of-memory", True)


def test_a_timeout_ends_an_attempt_and_is_not_retried(bench: Bench) -> None:
    ended = bench.run("sleep 1000", timeout=0.5, max_retries=2)

    assert ended.state is AppState.FAILED
    assert "timed out after 0.5 s" in ended.msg
    assert len(bench.containers(ended.app_id)) == 1


def test_a_program_is_asked_before_it_is_killed(bench: Bench) -> None:
    app_id = bench.start(
        "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.05; done", {"grace": 30}
    )
    bench.wait_for_line(app_id, "ready")

    bench.scheduler.cancel(app_id, "enough")
    ended = bench.end(app_id)

    assert (ended.state, ended.msg) == (AppState.CANCELLED, "enough")
    assert bench.log(app_id) == "ready\nasked\n"


def test_a_program_that_ignores_signals_is_killed_after_the_grace(bench: Bench) -> None:
    app_id = bench.start("trap '' TERM; echo ready; while :; do sleep 1; done", {"grace": 0.3})
    bench.wait_for_line(app_id, "ready")

    bench.scheduler.cancel(app_id)

    assert bench.end(app_id).state is AppState.CANCELLED
    assert bench.running(app_id) == []


def test_the_images_own_stop_signal_is_used(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {image('busybox')}\nSTOPSIGNAL SIGUSR1\n")
    name = f"wherry-test/stop-{bench.mark}"
    docker("build", "--quiet", "--tag", name, str(tmp_path))
    try:
        app_id = bench.start(
            "trap 'echo USR1; exit 0' USR1; echo ready; while :; do sleep 0.05; done",
            {"grace": 30},
            image=name,
        )
        bench.wait_for_line(app_id, "ready")
        bench.scheduler.cancel(app_id)
        bench.end(app_id)
        assert bench.log(app_id) == "ready\nUSR1\n"
    finally:
        bench.scheduler.forget(app_id)
        docker("image", "rm", name)


def test_a_dependency_is_waited_for(bench: Bench) -> None:
    first = bench.start("sleep 0.5; exit 3")

    ended = bench.run("true", depends_on=[f"local_docker://test/{first}"])

    assert ended.state is AppState.FAILED
    assert "depends on" in ended.msg
    assert bench.containers(ended.app_id) == []


# -- the client -----------------------------------------------------------------------------------

CLIENT = """
import sys, time
from wherry.schedulers.docker import DockerScheduler
from wherry.specs import AppDef, Role
scheduler = DockerScheduler("test")
role = Role("role", image=sys.argv[1], entrypoint="sh", args=["-c", "echo ready; sleep 1000"],
            num_replicas=2)
app_id = scheduler.submit(AppDef("app", [role]), {"grace": 1})
if sys.argv[2] == "detached":
    scheduler.detach(app_id)
print(app_id, flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("how", ["attached", "detached"])
def test_a_killed_client_takes_along_only_what_is_attached(bench: Bench, how: str) -> None:
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, image("busybox"), how], stdout=subprocess.PIPE, text=True
    )
    assert client.stdout is not None
    app_id = client.stdout.readline().strip()
    bench.started.append(app_id)
    bench.wait_for_line(app_id, "ready", 1)

    client.send_signal(signal.SIGKILL)
    client.wait()
    client.stdout.close()

    if how == "attached":
        assert bench.end(app_id).state is AppState.CANCELLED
        assert bench.running(app_id) == []
    else:
        assert len(bench.running(app_id)) == 2
        bench.scheduler.cancel(app_id, kill=True)
        assert bench.end(app_id).state is AppState.CANCELLED


# -- what is seen inside --------------------------------------------------------------------------


def test_limits_are_seen_inside(bench: Bench) -> None:
    script = """
    cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max
    cat /sys/fs/cgroup/memory/memory.memsw.limit_in_bytes /sys/fs/cgroup/memory.swap.max
    ulimit -n
    df -k /dev/shm | tail -1
    id -u; pwd
    """
    config = {"user": "65534", "workdir": "/tmp", "shm_size": 8}

    out = bench.out(
        f"{{ {script} }} 2>/dev/null; true",
        config,
        resource=Resource(cpu=0.5, memMB=48),
        ulimits={"nofile": (123, 456)},
    ).split("\n")

    memory, swap, files, shm, user, folder = out[:6]
    assert int(memory) == 48 << 20
    assert int(swap) in (48 << 20, 0)  # cgroups 1 count both together
    assert (files, user, folder) == ("123", "65534", "/tmp")
    assert shm.split()[1] == "8192"


def test_cores_are_limited(bench: Bench) -> None:
    out = bench.out(
        "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu.max 2>/dev/null; true",
        resource=Resource(cpu=0.5),
    )

    assert int(out.split()[0]) == 50_000


def test_variables_are_the_containers_own(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COPIED_ONE", "price: $5")
    monkeypatch.setenv("LEFT_BEHIND", "yes")

    out = bench.out(
        "env", {"copy_env": ["COPIED_*"]}, env={"MINE": "${app_id}/${replica_id}/$$HOME"}
    )

    found = dict(line.split("=", 1) for line in out.splitlines())
    assert found["COPIED_ONE"] == "price: $5"
    assert found["MINE"] == f"{found['WHERRY_APP_ID']}/0/$HOME"
    assert (found["WHERRY_NUM_REPLICAS"], found["WHERRY_ATTEMPT"]) == ("1", "1")
    assert "LEFT_BEHIND" not in found


def test_a_secret_reaches_the_program_and_no_label_or_record(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUSH", "open-sesame")

    ended = bench.run("echo $$TOKEN", secrets={"TOKEN": "env:HUSH"})

    assert bench.log(ended.app_id) == "open-sesame\n"
    labels = bench.inspect(ended.app_id)["Config"]["Labels"]
    assert "open-sesame" not in json.dumps(labels)
    record = Path(os.environ["WHERRY_HOME"], "apps", ended.app_id)
    texts = [path.read_bytes() for path in record.rglob("*.json*") if path.is_file()]
    assert texts
    assert not any(b"open-sesame" in text for text in texts)


def test_a_missing_secret_is_told_before_anything_starts(bench: Bench) -> None:
    with pytest.raises(LaunchError, match="NO_SUCH_VARIABLE"):
        bench.start("true", secrets={"TOKEN": "env:NO_SUCH_VARIABLE"})

    assert list(bench.scheduler.recorded()) == []


def test_folders_and_volumes_are_mounted(bench: Bench) -> None:
    (bench.folder / "in").mkdir()
    (bench.folder / "in" / "word").write_text("hello\n")
    (bench.folder / "out").mkdir()
    volume = f"wherry-test-{bench.mark}"
    mounts = parse_mounts(
        f"type=bind,src=in,dst=/in,readonly,type=bind,src=out,dst=/out,type=volume,src={volume},dst=/v"
    )
    script = "cat /in/word; touch /in/x || echo read-only; cp /in/word /out/copy; echo kept > /v/k"

    try:
        out = bench.out(script, mounts=mounts)
        again = bench.out("cat /v/k", mounts=mounts)
    finally:
        for app_id in bench.started:
            bench.scheduler.forget(app_id)
        docker("volume", "rm", volume)

    assert out == "hello\nread-only\n"
    assert (bench.folder / "out" / "copy").read_text() == "hello\n"
    assert again == "kept\n"


def test_a_device_is_handed_on(bench: Bench) -> None:
    mounts = parse_mounts("type=device,src=/dev/null,dst=/dev/nothing,perm=rw")

    assert bench.out("echo x > /dev/nothing; ls -l /dev/nothing | cut -c1", mounts=mounts) == "c\n"


def test_a_program_has_an_init_process_above_it(bench: Bench) -> None:
    script = "cat /proc/1/comm"

    assert "init" in bench.out(script)
    assert "init" not in bench.out(script, {"init": "no"})


def test_a_published_port_takes_connections(bench: Bench) -> None:
    port = free_port()
    app_id = bench.start(f"echo ready; echo served | nc -l -p {port}", port_map={"http": port})
    bench.wait_for_line(app_id, "ready")

    def answer() -> bytes:
        try:
            with socket.create_connection(("127.0.0.1", port), 5) as line:
                return line.recv(100)
        except OSError:
            return b""

    described = bench.scheduler.describe(app_id)
    assert until(answer, "an answer") == b"served\n"
    assert described is not None
    assert described.metadata["ports"] == f"role/0 {port} at 127.0.0.1:{port}"
    assert bench.end(app_id).state is AppState.SUCCEEDED


def test_ports_of_several_containers_are_all_reachable(bench: Bench) -> None:
    app_id = bench.start(
        "echo ready; while :; do echo $$WHERRY_REPLICA_ID | nc -l -p 80; done",
        replicas=2,
        port_map={"http": 80},
    )
    for k in range(2):
        bench.wait_for_line(app_id, "ready", k)
    described = bench.scheduler.describe(app_id)
    assert described is not None
    places = [words.rpartition(":")[2] for words in described.metadata["ports"].split(", ")]

    def answers() -> bool:
        told = []
        for port in places:
            try:
                with socket.create_connection(("127.0.0.1", int(port)), 5) as line:
                    told.append(line.recv(10))
            except OSError:
                return False
        return told == [b"0\n", b"1\n"]

    assert until(answers, "two answers")
    bench.scheduler.cancel(app_id, kill=True)
    bench.end(app_id)


def test_a_port_that_is_taken_is_named(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        with pytest.raises(LaunchError, match=str(port)):
            bench.start("sleep 10", port_map={"http": port})

    assert list(bench.scheduler.recorded()) == []


def test_an_existing_network_can_be_used(bench: Bench) -> None:
    name = f"wherry-test-{bench.mark}"
    docker("network", "create", name)
    try:
        ended = bench.run(
            "[ ${replica_id} = 0 ] && sleep 1000; ping -c 1 $$WHERRY_RANK0_HOST && exit 7",
            {"network": name},
            replicas=2,
        )
        assert ended.msg == "role/1 exited with code 7"
        assert name in docker("network", "ls", "--format", "{{.Name}}").split()
    finally:
        for app_id in bench.started:
            bench.scheduler.forget(app_id)
        docker("network", "rm", name)


def test_the_gpus_of_a_machine_without_any_are_refused_before_anything_starts(
    bench: Bench,
) -> None:
    with engine() as api:
        if "nvidia" in api.request("GET", "/info")["Runtimes"]:
            pytest.skip("this Engine has GPUs")

    with pytest.raises(LaunchError, match="no driver for them"):
        bench.start("true", resource=Resource(gpu=1))
    with pytest.raises(LaunchError, match="asks for GPUs"):
        bench.start("true", {"gpus": ["all"]})

    assert list(bench.scheduler.recorded()) == []


# -- pruning --------------------------------------------------------------------------------------


def wherry(*words: str) -> Any:
    made = subprocess.run(
        [sys.executable, "-m", "wherry.cli", *words], capture_output=True, text=True, check=True
    )
    return json.loads(made.stdout) if "--json" in words else made.stdout


def test_pruning_removes_what_is_forgotten_and_keeps_what_runs(bench: Bench) -> None:
    done = bench.run("echo done").app_id
    runs = bench.start("sleep 1000", replicas=2)

    removed = wherry("prune", "--all", "--json")

    assert [one["app_id"] for one in removed] == [done]
    assert bench.containers(done) == []
    assert bench.scheduler.describe(done) is None
    assert len(bench.running(runs)) == 2
    bench.scheduler.cancel(runs, kill=True)
    bench.end(runs)


def test_pruning_removes_what_a_lost_record_has_left(bench: Bench) -> None:
    done = bench.run("echo done").app_id
    shutil.rmtree(Path(os.environ["WHERRY_HOME"], "apps", done))
    assert len(bench.containers(done)) == 1

    removed = wherry("prune", "--all", "--json")

    assert [one["app_id"] for one in removed] == [done]
    assert bench.containers(done) == []


def test_the_command_line_runs_a_component_in_a_container(bench: Bench) -> None:
    made = subprocess.run(
        [
            *(sys.executable, "-m", "wherry.cli", "run", "-s", "local_docker", "utils.sh"),
            *("--image", image("busybox"), "echo out; echo err >&2; exit 5"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert made.returncode == 5
    assert made.stdout == "out\n"
    assert "err\n" in made.stderr
    assert "exited with code 5" in made.stderr
