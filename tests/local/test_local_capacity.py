"""The machine's cores and GPUs: who gets them, who waits, and what a crash leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from support.local_bench import Bench, event_lines, until
from wherry.engine.slots import Slots
from wherry.errors import LaunchError
from wherry.schedulers.local.request import machine_cores
from wherry.specs import AppState, Resource

COUNTING = """
mkdir -p running; touch running/$WHERRY_REPLICA_ID; ls running | wc -l; sleep 0.05
rm running/$WHERRY_REPLICA_ID
"""


def counted(bench: Bench, app_id: str, replicas: int) -> int:
    """Return how many replicas the busiest moment saw."""
    return max(int(bench.log(app_id, k)) for k in range(replicas))


def test_an_array_runs_as_many_replicas_as_there_are_cores(bench: Bench) -> None:
    replicas = 3 * machine_cores()
    ended = bench.run(COUNTING, replicas=replicas, array=True)

    assert ended.state is AppState.SUCCEEDED
    assert counted(bench, ended.app_id, replicas) <= machine_cores()


def test_max_parallel_is_kept(bench: Bench) -> None:
    ended = bench.run(bench.app(COUNTING, replicas=6, array=True), max_parallel=1)

    assert counted(bench, ended.app_id, 6) == 1


def test_a_replica_that_asks_for_all_cores_runs_alone(bench: Bench) -> None:
    resource = Resource(cpu=machine_cores())
    ended = bench.run(COUNTING, replicas=4, array=True, resource=resource)

    assert counted(bench, ended.app_id, 4) == 1


def test_two_arrays_share_the_machine(bench: Bench) -> None:
    script = COUNTING.replace("$WHERRY_REPLICA_ID", "$WHERRY_APP_ID-$WHERRY_REPLICA_ID")
    apps = [bench.start(bench.app(script, replicas=8, array=True)) for _ in range(2)]
    for app_id in apps:
        assert bench.end(app_id).state is AppState.SUCCEEDED

    assert max(counted(bench, app_id, 8) for app_id in apps) <= machine_cores()


def test_a_gang_starts_at_once_however_many_cores_there_are(bench: Bench) -> None:
    replicas = 4 * machine_cores()
    all_up = f"while test $(ls up.* | wc -l) -lt {replicas}; do sleep 0.02; done"
    script = f"touch up.$WHERRY_REPLICA_ID; {all_up}"
    ended = bench.run(script, replicas=replicas)

    assert ended.state is AppState.SUCCEEDED


def test_an_array_waits_for_another_app_and_says_so(bench: Bench) -> None:
    hold = "while ! test -e go; do sleep 0.02; done"
    first = bench.start(bench.app(hold, replicas=machine_cores(), array=True))
    second = bench.start(bench.app("true", replicas=2, array=True))
    waiting = until(lambda: _pending(bench, second), "the second app to wait")
    (bench.folder / "go").touch()

    assert "waits for 1 core" in waiting
    assert bench.end(second).state is AppState.SUCCEEDED
    assert bench.end(first).state is AppState.SUCCEEDED


def _pending(bench: Bench, app_id: str) -> str:
    described = bench.scheduler.describe(app_id)
    assert described is not None
    return described.msg if described.state is AppState.PENDING else ""


def test_a_killed_supervisor_gives_its_cores_back(bench: Bench) -> None:
    app = bench.app("echo ready; sleep 1000", replicas=machine_cores(), array=True)
    first = bench.start(app)
    bench.wait_for_line(first, "ready")
    started = event_lines(bench, first).read_text()
    supervisor = int(started.partition('"pid":')[2].partition(",")[0])
    os.kill(supervisor, 9)

    assert bench.run("true", replicas=2, array=True).state is AppState.SUCCEEDED
    assert bench.end(first).state is AppState.FAILED


def test_the_count_of_cores_is_not_for_strangers(tmp_path: Path) -> None:
    folder = tmp_path / "slots"
    slots = Slots(str(folder), 1)
    slots.open()

    assert folder.stat().st_mode & 0o077 == 0


def test_whoever_asks_for_more_is_not_overtaken_for_ever(tmp_path: Path) -> None:
    big, small, holder = (Slots(str(tmp_path / "slots"), 2) for _ in range(3))
    big.open()
    held = holder.acquire(1, 0)
    assert held is not None

    assert big.acquire(2, 0) is None
    assert small.acquire(1, 0) is None, "the gate is kept by the one that waits"
    held.release()
    granted = big.acquire(2, 0)

    assert granted is not None
    granted.release()
    assert small.acquire(1, 0) is not None


# GPUs, given out by a stand-in for nvidia-smi.


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with four GPUs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "nvidia-smi"
    program.write_text("#!/bin/sh\nprintf '0\\n1\\n2\\n3\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return program


GPUS = {"auto_set_cuda_visible_devices": True}


def test_replicas_get_gpus_of_their_own(bench: Bench, nvidia_smi: Path) -> None:
    app = bench.app("echo $CUDA_VISIBLE_DEVICES", replicas=2, resource=Resource(gpu=2))
    ended = bench.run(app, **GPUS)

    shown = [set(bench.log(ended.app_id, k).strip().split(",")) for k in (0, 1)]
    assert shown[0] | shown[1] == {"0", "1", "2", "3"}
    assert not shown[0] & shown[1]


def test_other_running_apps_keep_their_gpus(bench: Bench, nvidia_smi: Path) -> None:
    hold = bench.app(
        "echo $CUDA_VISIBLE_DEVICES; while ! test -e go; do sleep 0.02; done",
        resource=Resource(gpu=3),
    )
    first = bench.start(hold, **GPUS)
    bench.wait_for_line(first, ",")
    show = bench.app("echo $CUDA_VISIBLE_DEVICES", resource=Resource(gpu=1))
    second = bench.end(bench.start(show, **GPUS)).app_id
    third = bench.start(bench.app("true", resource=Resource(gpu=2)), **GPUS)
    waiting = until(lambda: _pending(bench, third), "the third app to wait")
    (bench.folder / "go").touch()

    assert bench.log(second).strip() not in bench.log(first)
    assert "waits for 2 GPUs" in waiting
    assert bench.end(third).state is AppState.SUCCEEDED


def test_an_inherited_choice_of_gpus_is_respected(
    bench: Bench, nvidia_smi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-8932f937,2")
    app = bench.app("echo $CUDA_VISIBLE_DEVICES", resource=Resource(gpu=2))

    assert bench.log(bench.run(app, **GPUS).app_id) == "GPU-8932f937,2\n"
    with pytest.raises(LaunchError, match="CUDA_VISIBLE_DEVICES is set to"):
        bench.start(bench.app("true", resource=Resource(gpu=3)), **GPUS)


def test_without_a_wish_the_variable_is_left_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    app = bench.app("echo $CUDA_VISIBLE_DEVICES", resource=Resource(gpu=2))

    assert bench.log(bench.run(app).app_id) == "7\n"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (None, "nvidia-smi is not installed"),
        ("#!/bin/sh\necho 'no driver' >&2; exit 9\n", "nvidia-smi failed: no driver"),
        ("#!/bin/sh\n", "it lists none"),
    ],
)
def test_a_wish_for_gpus_where_there_are_none_is_told(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str | None, said: str
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "echo"):
        (folder / name).symlink_to(f"/bin/{name}")
    if program:
        (folder / "nvidia-smi").write_text(program)
        (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))

    with pytest.raises(LaunchError, match=said):
        bench.start(bench.app("true", resource=Resource(gpu=1)), **GPUS)


def test_a_gang_that_can_never_have_its_gpus_is_refused(bench: Bench, nvidia_smi: Path) -> None:
    with pytest.raises(LaunchError, match="8 GPUs at once"):
        bench.start(bench.app("true", replicas=4, resource=Resource(gpu=2)), **GPUS)


def test_an_array_shares_the_gpus(bench: Bench, nvidia_smi: Path) -> None:
    app = bench.app("true", replicas=4, array=True, resource=Resource(gpu=4))

    assert bench.run(app, **GPUS).state is AppState.SUCCEEDED


# The supervisor's diet.

SLOW_TO_LOAD = ("re", "enum", "typing", "json", "dataclasses", "inspect", "subprocess", "signal")


def test_the_supervisor_loads_nothing_that_is_slow() -> None:
    script = textwrap.dedent(
        """
        import sys
        import wherry.schedulers.local.guard
        import wherry.schedulers.local.supervisor
        print(*sorted(sys.modules))
        """
    )
    source = str(Path(__file__).resolve().parents[2] / "src")
    program = f"import sys; sys.path.insert(0, {source!r})\n{script}"
    answer = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True
    )

    assert not set(answer.stdout.split()) & set(SLOW_TO_LOAD)
