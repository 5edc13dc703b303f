"""Parts of the Docker engine that need no Engine: frames, requests, the life of a task."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wherry.emulator.engines.api import (
    ESSENTIAL_EXITED,
    FAILED_TO_START,
    Container,
    ContainerEnd,
    Dependency,
    Mount,
    Task,
    TaskEnded,
    TaskEvent,
    TaskStarted,
)
from wherry.emulator.engines.docker_container import Surrounds, creation
from wherry.emulator.engines.docker_holder import MACHINES, program
from wherry.emulator.engines.docker_keeper import Keeper
from wherry.emulator.engines.docker_logs import Stream, Streams, undelivered
from wherry.emulator.engines.docker_reasons import PULL, START, reason
from wherry.emulator.engines.docker_tasks import Box, Run, State
from wherry.engine.docker.frames import Frames

# Frames.

messages = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=50)), max_size=10)


def framed(number: int, payload: bytes) -> bytes:
    return bytes([number, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload


@given(messages, st.data())
def test_frames_come_out_the_same_however_they_are_cut(
    sent: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    wire = b"".join(framed(*message) for message in sent)
    frames = Frames()
    got = []
    while wire:
        size = data.draw(st.integers(1, len(wire)))
        got += list(frames.feed(wire[:size]))
        wire = wire[size:]

    for number in (1, 2):
        assert b"".join(p for n, p in got if n == number) == b"".join(
            p for n, p in sent if n == number
        )
    assert [n for n, p in got if p] == [n for n, p in got]


@given(st.binary(max_size=200), st.integers(0, 200), st.data())
def test_what_was_handed_on_is_not_handed_on_again(
    written: bytes, before: int, data: st.DataObject
) -> None:
    done = written[:before]
    delivered = {1: len(done), 2: 5}
    again = written
    rest = b""
    while again:
        size = data.draw(st.integers(1, len(again)))
        rest += undelivered(1, again[:size], delivered)
        again = again[size:]

    assert done + rest == written
    assert delivered == {1: 0, 2: 5}


def test_a_stream_that_ends_says_so_once_and_one_that_is_dropped_does_not() -> None:
    streams = Streams()
    streams.open()
    ours, theirs = socket.socketpair()
    dropped, other = socket.socketpair()
    got: list[bytes] = []
    ended = threading.Event()
    try:
        never = Stream(dropped, got.append, lambda: got.append(b"dropped ended"))
        streams.add(never)
        streams.drop(never)
        streams.add(Stream(ours, got.append, ended.set))
        theirs.sendall(framed(1, b"hello"))
        theirs.close()
        assert ended.wait(10)
    finally:
        streams.close()
        other.close()

    assert got == [b"hello"]


def test_a_sink_that_fails_does_not_stop_the_others() -> None:
    streams = Streams()
    streams.open()
    ours, theirs = socket.socketpair()
    ended = threading.Event()

    def fail(data: bytes) -> None:
        raise ValueError(data)

    try:
        streams.add(Stream(ours, fail, ended.set))
        theirs.sendall(framed(2, b"x"))
        theirs.close()
        assert ended.wait(10)
    finally:
        streams.close()


# Requests.

TASK = Task("t", "r", (Container("default", "image"),))
AROUND = Surrounds(network="net", labels={}, volumes={"scratch": "full-scratch"})


def host(container: Container, **around: object) -> dict[str, object]:
    given = Surrounds(**({**AROUND.__dict__, **around}))  # type: ignore[arg-type]
    return creation(TASK, container, given)["HostConfig"]  # type: ignore[no-any-return]


def test_what_the_definition_leaves_out_is_the_image_s_own() -> None:
    body = creation(TASK, Container("default", "image"), AROUND)

    assert not {"Cmd", "Entrypoint", "User", "WorkingDir"} & set(body)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"vcpus": 0.25}, {"CpuShares": 256}),
        ({"vcpus": 0.0}, {"CpuShares": 2}),
        ({"vcpus": 400}, {"CpuShares": 262_144}),
        ({"vcpus": 0.5, "hard_cpu": True}, {"CpuQuota": 50_000, "CpuPeriod": 100_000}),
        ({"memory_mib": 4}, {"Memory": 6 * 2**20}),
        (
            {"memory_mib": 100, "max_swap_mib": 50, "swappiness": 10},
            {"MemorySwap": 150 * 2**20, "MemorySwappiness": 10},
        ),
        ({"memory_mib": 100, "max_swap_mib": 0}, {"MemorySwap": 100 * 2**20}),
        ({"privileged": True}, {"Privileged": True}),
        ({"shm_mib": 64}, {"ShmSize": 64 * 2**20}),
        ({"mounts": (Mount("/x", volume="scratch"),)}, {"Binds": ["full-scratch:/x"]}),
    ],
)
def test_limits_are_translated_as_ecs_does(
    asked: dict[str, object], said: dict[str, object]
) -> None:
    config = host(Container("default", "image", **asked))  # type: ignore[arg-type]

    assert {key: config[key] for key in said} == said


def test_swappiness_without_swap_is_ignored() -> None:
    assert "MemorySwappiness" not in host(Container("default", "image", swappiness=10))


def test_gpus_are_given_by_number() -> None:
    config = host(Container("default", "image", gpus=2), gpus=("0", "3"))

    assert config["DeviceRequests"] == [{"DeviceIDs": ["0", "3"], "Capabilities": [["gpu"]]}]


def test_reasons_are_ecs_s() -> None:
    class RefusedError(Exception):
        explanation = "pull access denied for x"

    class ReadTimeoutError(Exception):
        pass

    assert reason(PULL, RefusedError()) == (
        "CannotPullContainerError: Error response from daemon: pull access denied for x"
    )
    assert reason(START, ReadTimeoutError()) == (
        "DockerTimeoutError: Could not transition to started; timed out"
    )


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_the_holder_is_a_small_program(name: str) -> None:
    assert program(MACHINES[name]).startswith(b"\x7fELF")
    assert len(program(MACHINES[name])) < 256


# The keeper.


def test_alarms_come_in_time_and_a_failing_action_stops_nothing() -> None:
    keeper = Keeper()
    keeper.open()
    seen: list[str] = []
    done = threading.Event()

    def fail() -> None:
        raise ValueError

    def later() -> None:
        keeper.later(0.02, lambda: (seen.append("second"), done.set()))  # type: ignore[arg-type]
        keeper.later(0.01, lambda: seen.append("first"))

    keeper.do(fail)
    keeper.do(later)
    assert done.wait(10)
    keeper.close()

    assert seen == ["first", "second"]


# The life of a task, with an Engine that does things in any order.


class Hands:
    """Keeps what is to be done, until a test does it."""

    def __init__(self) -> None:
        self.events: list[TaskEvent] = []
        self.todo: list[Callable[[], None]] = []
        self.alive: set[Box] = set()
        self.cleared = 0

    def hold(self, run: Run) -> None:
        self.todo.append(lambda: run.held("holder"))

    def launch(self, run: Run, box: Box) -> None:
        def launched() -> None:
            if box.unwanted.is_set():
                run.not_started(box, "")
                return
            run.created(box, f"id-{box.spec.name}")
            if box.spec.image == "broken":
                run.not_started(box, "CannotStartContainerError: broken")
                return
            self.alive.add(box)
            run.started(box, "1.2.3.4")

        self.todo.append(launched)

    def pull(self, run: Run, box: Box) -> None:
        self.todo.append(lambda: run.pulled(box, ""))

    def signal(self, run: Run, box: Box, *, kill: bool) -> None:
        if kill:
            self.todo.append(lambda: self.die(run, box, 137))

    def die(self, run: Run, box: Box, code: int) -> None:
        if box in self.alive:
            self.alive.discard(box)
            self.todo.append(lambda: run.output_ended(box))
            self.todo.append(lambda: run.died(box, code, out_of_memory=False, reason=""))

    def finish_output(self, run: Run, box: Box) -> None:
        assert box not in self.alive

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        self.todo.append(action)

    def emit(self, event: TaskEvent) -> None:
        if isinstance(event, TaskEnded):
            assert not self.alive
        self.events.append(event)

    def clear_away(self, run: Run) -> None:
        self.cleared += 1


conditions = st.sampled_from(["START", "COMPLETE", "SUCCESS"])


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    """A task of up to four containers, of which each depends on some before it."""
    containers = []
    for number in range(draw(st.integers(1, 4))):
        needed = draw(st.sets(st.integers(0, number - 1))) if number else set()
        containers.append(
            Container(
                name=f"c{number}",
                image=draw(st.sampled_from(["good", "good", "good", "broken"])),
                essential=number == 0 or draw(st.booleans()),
                depends_on=tuple(Dependency(f"c{n}", draw(conditions)) for n in sorted(needed)),
            )
        )
    # One that others wait for to complete is not essential; the last one always is.
    awaited = {d.container for c in containers for d in c.depends_on if d.condition != "START"}
    settled = [
        Container(
            c.name,
            c.image,
            essential=c.essential and c.name not in awaited,
            depends_on=c.depends_on,
        )
        for c in containers
    ]
    last = settled[-1]
    settled[-1] = Container(last.name, last.image, essential=True, depends_on=last.depends_on)
    ends_with: Literal["essential", "all"] = draw(st.sampled_from(["essential", "all"]))
    return Task("task", "region", tuple(settled), ends_with=ends_with)


@settings(max_examples=300)
@given(tasks(), st.data())
def test_every_task_ends_once_after_all_its_containers(task: Task, data: st.DataObject) -> None:
    hands = Hands()
    run = Run(task, hands)
    run.begin()
    for _ in range(data.draw(st.integers(0, 60))):
        moves: list[Callable[[], None]] = list(hands.todo)
        moves += [lambda box=box: hands.die(run, box, 0) for box in hands.alive]  # type: ignore[misc]
        moves += [lambda box=box: hands.die(run, box, 3) for box in hands.alive]  # type: ignore[misc]
        moves += [lambda: run.stop(1), lambda: run.lose("gone")]
        move = moves[data.draw(st.integers(0, len(moves) - 1))]
        if move in hands.todo:
            hands.todo.remove(move)
        move()
    run.stop(0)
    while hands.todo:
        hands.todo.pop(0)()

    kinds = [type(event) for event in hands.events]
    assert kinds in ([TaskEnded], [TaskStarted, TaskEnded])
    assert all(box.state is State.ENDED for box in run.boxes.values())
    assert hands.cleared == 1


def pod(*names: str) -> tuple[Run, Hands]:
    """A pod of which all containers run."""
    hands = Hands()
    containers = tuple(Container(name, "good") for name in names)
    run = Run(Task("task", "region", containers, host_network=True, ends_with="all"), hands)
    run.begin()
    while hands.todo:
        hands.todo.pop(0)()
    return run, hands


def test_a_pod_is_over_when_all_its_containers_have_ended() -> None:
    run, hands = pod("one", "other")

    hands.die(run, run.boxes["one"], 3)
    while hands.todo:
        hands.todo.pop(0)()
    assert [type(event) for event in hands.events] == [TaskStarted]
    assert hands.alive == {run.boxes["other"]}
    hands.die(run, run.boxes["other"], 0)
    while hands.todo:
        hands.todo.pop(0)()

    ends = {"one": ContainerEnd(3), "other": ContainerEnd(0)}
    assert hands.events[1:] == [TaskEnded("task", ESSENTIAL_EXITED, ends)]


def test_a_task_that_waits_for_an_image_can_be_stopped() -> None:
    hands = Hands()
    task = Task("task", "region", (Container("default", "image"),))
    run = Run(task, hands)
    run.begin()
    run.needs_image(run.boxes["default"])

    run.stop(30)

    assert hands.events == [TaskEnded("task", FAILED_TO_START, {"default": ContainerEnd(None)})]


def test_an_image_that_is_missing_after_it_was_pulled_is_not_pulled_for_ever() -> None:
    hands = Hands()
    task = Task("task", "region", (Container("default", "image"),))
    run = Run(task, hands)
    run.begin()
    box = run.boxes["default"]
    hands.todo.clear()
    run.needs_image(box)
    run.pulled(box, "")

    run.needs_image(box)

    assert hands.events[0].containers["default"].reason.startswith("CannotCreate")  # type: ignore[union-attr]
