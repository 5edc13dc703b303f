"""Many tasks and much output: nothing grows, nothing is left, and nobody waits for ever."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.process_engine import children_of, end_of, open_bench, until
from wherry.emulator.engines.agent import FULL
from wherry.emulator.engines.channel import Channel


@pytest.fixture
def bench(tmp_path):
    with open_bench(tmp_path) as bench:
        yield bench


def descriptors(pid: int | str) -> list[str]:
    return sorted(os.listdir(f"/proc/{pid}/fd"))


def resident_mib(pid: int | str) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / (1 << 20)


def test_hundreds_of_tasks_leave_nothing_behind(bench):
    (agent,) = children_of(bench.engine.agent)
    for _ in range(20):
        bench.run("true")
    before = descriptors(agent), descriptors("self"), threading.active_count()
    memory = resident_mib(agent)

    tasks = [bench.start("sh", "-c", f"echo {n}; touch f; exit {n % 3}") for n in range(300)]
    codes = [end_of(bench.ended(task))[0] for task in tasks]

    assert codes == [n % 3 for n in range(300)]
    assert [bench.output(task) for task in tasks] == [f"{n}\n" for n in range(300)]
    assert (descriptors(agent), descriptors("self"), threading.active_count()) == before
    assert children_of(agent) == []
    assert [path for home in bench.scratch.iterdir() for path in home.iterdir()] == []
    assert resident_mib(agent) < memory + 16


def test_a_flood_that_nobody_takes_holds_its_program_back(bench):
    (agent,) = children_of(bench.engine.agent)
    gate, first = threading.Event(), threading.Event()

    def hold(data):
        first.set()
        assert gate.wait(60)

    bench.take = hold
    before = resident_mib(agent)
    task = bench.start("sh", "-c", "yes | head -c 60000000; echo end")
    assert first.wait(30)
    until(lambda: _is_asleep(agent), "the agent goes on")

    assert resident_mib(agent) < before + 8 * FULL / (1 << 20)
    gate.set()
    assert end_of(bench.ended(task)) == (0, "")
    assert bench.written[task, "default"] == b"y\n" * 30000000 + b"end\n"
    assert resident_mib(agent) < before + 16


def _is_asleep(pid: int) -> bool:
    """Tell whether a process uses no time for a while."""

    def used():
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]

    before = used()
    time.sleep(0.3)
    return used() == before


def test_a_flood_loses_no_byte(bench):
    script = "seq 1 200000; seq 200001 400000 >&2; seq 400001 600000"

    task = bench.start("sh", "-c", script)

    assert end_of(bench.ended(task)) == (0, "")
    numbers = bench.output(task).split()
    assert len(numbers) == 600000
    assert sorted(map(int, numbers)) == list(range(1, 600001))


def test_a_flood_can_be_stopped_while_nobody_takes_it(bench):
    gate, first = threading.Event(), threading.Event()

    def hold(data):
        first.set()
        assert gate.wait(60)

    bench.take = hold
    task = bench.start("yes")
    assert first.wait(30)

    bench.engine.stop(task, 20)
    (agent,) = children_of(bench.engine.agent)
    until(lambda: children_of(agent) == [], "it still runs")
    gate.set()

    assert end_of(bench.ended(task)) == (143, "")


def test_streams_do_not_cut_each_others_lines(bench):
    script = "printf one; printf 'error\\n' >&2; printf ' line\\n'; printf end"

    task = bench.start("sh", "-c", script)
    bench.ended(task)

    assert bench.output(task) == "error\none line\nend"


def test_a_line_without_end_comes_in_pieces(bench):
    task = bench.start("sh", "-c", "head -c 20000 /dev/zero | tr '\\0' x; sleep 60")

    bench.says(task, "x" * 16384)


def test_an_engine_can_be_closed_in_the_middle_of_a_flood(tmp_path):
    with open_bench(tmp_path) as bench:
        task = bench.start("yes")
        bench.says(task, "y")

    assert bench.ended(task).reason == "Host EC2 terminated."


def test_a_folder_with_many_files_is_removed_while_others_go_on(bench):
    task = bench.start("sh", "-c", "mkdir d; cd d; seq 1 3000 | xargs touch")
    bench.ended(task)

    assert end_of(bench.run("true")) == (0, "")
    until(lambda: not list(bench.scratch.rglob(task)), "its folder is still there")


plain = st.recursive(
    st.none() | st.integers() | st.binary(max_size=99) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner),
    max_leaves=9,
)


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), plain), max_size=20), st.integers(1, 97))
def test_messages_arrive_whole_and_in_order_however_they_are_cut(messages, size):
    near, through = socket.socketpair()
    onward, far = socket.socketpair()
    with near, through, onward, far:
        sender, receiver = Channel(near.fileno()), Channel(far.fileno())
        for message in messages:
            sender.put(message)
        sender.flush()
        near.shutdown(socket.SHUT_WR)
        received = []
        while piece := through.recv(size):
            onward.sendall(piece)
            received += receiver.receive()
        onward.close()
        while not receiver.at_end:
            received += receiver.receive()

    assert sender.waiting == 0
    assert received == messages


def test_what_the_other_side_does_not_take_waits():
    near, far = socket.socketpair()
    with near, far:
        sender, receiver = Channel(near.fileno()), Channel(far.fileno())
        sender.put(("output", b"x" * (1 << 22)))
        sender.flush()
        assert sender.waiting > 0

        received = []
        while not received:
            received = receiver.receive()
            sender.flush()

        assert sender.waiting == 0
        assert received == [("output", b"x" * (1 << 22))]


def test_what_is_sent_to_nobody_is_dropped():
    near, far = socket.socketpair()
    with near:
        sender = Channel(near.fileno())
        far.close()
        sender.put(("a",))
        sender.flush()
        sender.put(("b",))

        assert sender.broken
        assert sender.waiting == 0
