"""A process engine with a notebook: what it reported, in order, and how to wait for more."""

from __future__ import annotations

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from wherry.emulator.engines.api import Container, Task, TaskEnded, TaskEvent, TaskStarted
from wherry.emulator.engines.process import ProcessEngine

DEADLINE = 30.0
_numbers = itertools.count(1)


class Bench:
    """An open engine, and all that it has said.

    Args:
        scratch: the folder for scratch folders.
    """

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.events: list[TaskEvent] = []
        self.written: dict[tuple[str, str], bytearray] = defaultdict(bytearray)
        self.order: list[tuple[str, str]] = []
        self.take: Callable[[bytes], object] = lambda data: None
        self._news = threading.Condition()
        self.engine = ProcessEngine(self._on_event, self._on_output, str(scratch))

    def start(self, *command: str, **fields) -> str:
        """Start a task of one container; returns its id."""
        network = fields.pop("network", "")
        container = Container("default", "image", command=command, **fields)
        return self.start_task(container, network=network)

    def start_task(self, *containers: Container, **fields) -> str:
        task = Task(
            id=f"{next(_numbers):032x}", region="us-east-1", containers=containers, **fields
        )
        self.engine.start(task)
        return task.id

    def run(self, *command: str, **fields) -> TaskEnded:
        return self.ended(self.start(*command, **fields))

    def run_task(self, *containers: Container, **fields) -> TaskEnded:
        return self.ended(self.start_task(*containers, **fields))

    def started(self, task_id: str) -> TaskStarted:
        return self._await(TaskStarted, task_id)

    def ended(self, task_id: str) -> TaskEnded:
        return self._await(TaskEnded, task_id)

    def output(self, task_id: str, container: str = "default") -> str:
        return self.written[task_id, container].decode()

    def says(self, task_id: str, text: str, container: str = "default") -> str:
        """Wait until a container has written something; returns all that it wrote."""
        with self._news:
            assert self._news.wait_for(lambda: text in self.output(task_id, container), DEADLINE), (
                f"{text!r} is not in {self.output(task_id, container)!r}"
            )
            return self.output(task_id, container)

    def _await(self, kind, task_id):
        def found():
            return [e for e in self.events if isinstance(e, kind) and e.task_id == task_id]

        with self._news:
            assert self._news.wait_for(found, DEADLINE), f"no {kind.__name__} in {self.events}"
            return found()[0]

    def _on_event(self, event: TaskEvent) -> None:
        with self._news:
            self.events.append(event)
            self.order.append((event.task_id, type(event).__name__))
            self._news.notify_all()

    def _on_output(self, task: Task, container: Container, data: bytes) -> None:
        self.take(data)
        with self._news:
            self.written[task.id, container.name] += data
            self.order.append((task.id, "output" if data else "end of output"))
            self._news.notify_all()


@contextmanager
def open_bench(scratch: Path) -> Iterator[Bench]:
    bench = Bench(scratch)
    bench.engine.open()
    try:
        yield bench
    finally:
        bench.engine.close()


def end_of(ended: TaskEnded, container: str = "default") -> tuple[int | None, str]:
    end = ended.containers[container]
    return end.exit_code, end.reason


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that is dead and not reaped does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def until(condition: Callable[[], object], what: str = "") -> None:
    """Look again and again until something is so."""
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, what or "it never came to be so"
        time.sleep(0.005)


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
