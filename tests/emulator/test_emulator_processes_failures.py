"""What is left when emulator, agent or guard is killed: nothing, and no task is forgotten."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from support.process_engine import children_of, end_of, is_alive, open_bench, until
from wherry.emulator.engines.process import AGENT_LOST

# Ignores SIGTERM, moves to a session of its own, forks twice, and forgets its environment.
STUBBORN_FAMILY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def tell(): os.write(1, b"%d\\n" % os.getpid())
tell()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        tell()
        if os.fork() == 0:
            os.setsid()
            last = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
            args = [sys.executable, "-S", "-c", last]
            os.chdir("/")
            os.execve(sys.executable, args, {"KEEP": "none"})
        time.sleep(60)
    os._exit(0)
time.sleep(60)
"""
MEMBERS = 3


@pytest.fixture
def bench(tmp_path):
    with open_bench(tmp_path / "scratch") as bench:
        yield bench


def start_family(bench) -> tuple[str, list[int]]:
    task = bench.start(sys.executable, "-S", "-c", STUBBORN_FAMILY)
    until(lambda: bench.output(task).count("\n") == MEMBERS, "the family is not complete")
    return task, [int(line) for line in bench.output(task).split()]


def agent_of(bench) -> int:
    (agent,) = children_of(bench.engine.agent)
    return agent


@pytest.mark.parametrize("victims", ["agent", "guard", "both"])
def test_a_killed_agent_takes_all_with_it_and_the_next_task_gets_another(bench, victims):
    task, family = start_family(bench)
    guard, agent = bench.engine.agent, agent_of(bench)
    assert all(map(is_alive, family))

    for pid in {"agent": [agent], "guard": [guard], "both": [guard, agent]}[victims]:
        os.kill(pid, signal.SIGKILL)

    ended = bench.ended(task)
    assert (ended.reason, end_of(ended)) == (AGENT_LOST, (None, ""))
    marked = family[:2] if victims == "both" else family
    assert not any(map(is_alive, marked))
    assert not is_alive(agent)
    assert end_of(bench.run("echo", "again")) == (0, "")
    assert bench.engine.agent not in (0, guard)
    for pid in family:  # With both killed at once, one without environment is beyond reach.
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


def test_all_live_tasks_of_a_killed_agent_end_once(bench):
    tasks = [bench.start("sleep", "60") for _ in range(5)]
    for task in tasks:
        bench.started(task)

    os.kill(agent_of(bench), signal.SIGKILL)

    assert {bench.ended(task).reason for task in tasks} == {AGENT_LOST}
    told = [what for _, what in bench.order]
    assert told.count("TaskEnded") == told.count("end of output") == 5


def test_a_task_that_was_lost_keeps_its_reason_when_the_agent_is_killed(bench):
    task = bench.start("sleep", "60")
    bench.started(task)
    agent = agent_of(bench)
    os.kill(agent, signal.SIGSTOP)

    bench.engine.lose(task, "Host EC2 (instance i-1) terminated.")
    os.kill(agent, signal.SIGKILL)

    assert bench.ended(task).reason == "Host EC2 (instance i-1) terminated."


def test_a_stubborn_family_ends_with_its_task(bench):
    task, family = start_family(bench)

    bench.engine.stop(task, 0.1)

    assert end_of(bench.ended(task)) == (137, "")
    assert not any(map(is_alive, family))


def test_a_stubborn_family_ends_with_the_engine(tmp_path):
    with open_bench(tmp_path) as bench:
        _, family = start_family(bench)
        bench.start("sleep", "60")

    assert not any(map(is_alive, family))


EMULATOR = """
import sys, time
sys.path[:0] = {paths!r}
from pathlib import Path
from support.process_engine import Bench
bench = Bench(Path({scratch!r}))
bench.engine.open()
task = bench.start(sys.executable, "-S", "-c", {family!r})
bench.start("sleep", "60")
while bench.output(task).count("\\n") < {members}: time.sleep(0.005)
print(bench.engine.agent, *bench.output(task).split(), flush=True)
{finally_}
"""


@pytest.mark.parametrize(
    ("finally_", "how"),
    [
        ("time.sleep(60)", signal.SIGKILL),
        ("time.sleep(60)", signal.SIGTERM),
        ("import os\nif os.fork() == 0: time.sleep(60)\ntime.sleep(60)", signal.SIGKILL),
        ("sys.exit()", None),
    ],
    ids=["killed", "told to end", "killed, with a child that keeps its socket", "just ended"],
)
def test_an_emulator_that_dies_leaves_nothing_behind(tmp_path, finally_, how):
    script = EMULATOR.format(
        paths=[path for path in sys.path if path],
        scratch=str(tmp_path / "scratch"),
        family=STUBBORN_FAMILY,
        members=MEMBERS,
        finally_=finally_,
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True
    ) as emulator:
        assert emulator.stdout is not None
        guard, *family = map(int, emulator.stdout.readline().split())
        try:
            if how is not None:
                os.kill(emulator.pid, how)
            emulator.wait(30)
            until(lambda: not any(map(is_alive, [guard, *family])), "something is left")
        finally:
            _end_group(emulator.pid)

    assert list((tmp_path / "scratch").iterdir()) == []


def _end_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def test_an_agent_that_cannot_start_loses_the_task_and_is_tried_again(bench, monkeypatch, caplog):
    task = bench.start("sleep", "60")
    bench.started(task)
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    os.kill(agent_of(bench), signal.SIGKILL)
    bench.ended(task)

    lost = bench.run("true")
    monkeypatch.undo()

    assert lost.reason == AGENT_LOST
    assert "cannot start the process engine" in caplog.text
    assert end_of(bench.run("true")) == (0, "")


def test_the_agent_loads_nothing_that_is_slow():
    source = Path(__file__).parents[2] / "src"
    script = (
        f"import sys; sys.path.insert(0, {str(source)!r}); "
        "import wherry.emulator.engines.agent; print(*sys.modules)"
    )

    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()

    slow = {"argparse", "dataclasses", "enum", "json", "logging", "re", "subprocess", "typing"}
    assert slow.isdisjoint(loaded)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_done_to_tasks_each_ends_once(bench, seed):
    chance = random.Random(seed)
    commands = ["exit 3", "echo some; sleep 0.05", "trap '' TERM; sleep 0.2", "sleep 60 & sleep 60"]
    tasks = []

    for _ in range(120):
        tasks.append(bench.start("sh", "-c", chance.choice(commands)))
        action = chance.random()
        if action < 0.5:
            bench.engine.stop(chance.choice(tasks), chance.choice([0, 0.05]))
        elif action < 0.7:
            bench.engine.lose(chance.choice(tasks), "lost")
        elif action < 0.72:
            # There may be none at the moment, or its guard may have more children than it.
            with suppress(ProcessLookupError, FileNotFoundError, ValueError):
                os.kill(agent_of(bench), signal.SIGKILL)
    for task in tasks:
        bench.engine.stop(task, 0)
        bench.ended(task)

    for task in tasks:
        told = [what for task_id, what in bench.order if task_id == task and what != "output"]
        assert told in (
            ["TaskStarted", "end of output", "TaskEnded"],
            ["end of output", "TaskEnded"],
        )
    assert [path for home in bench.scratch.iterdir() for path in home.iterdir()] == []
