"""A real Docker Engine for tests: whether there is one, images that need no registry, and tasks."""

from __future__ import annotations

import functools
import itertools
import os
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from wherry.emulator.engines.api import (
    Container,
    ContainerEnd,
    Task,
    TaskEnded,
    TaskEvent,
    TaskStarted,
)
from wherry.emulator.engines.docker import DockerEngine, connect
from wherry.errors import LaunchError

if TYPE_CHECKING:
    from docker import APIClient

SCRIPTS = Path(__file__).parents[2] / "scripts"
PATIENCE = 60.0
Found = TypeVar("Found")


@functools.lru_cache
def _why_no_engine() -> str:
    try:
        connect().close()
    except LaunchError as error:
        return str(error)
    return ""


def require_engine() -> None:
    """Skip the test where no Docker Engine answers; under ``CI=true`` that is a failure."""
    why = _why_no_engine()
    if why and os.environ.get("CI") == "true":
        pytest.fail(f"{why}; scripts/engine.sh gets one")
    if why:
        pytest.skip(why)


@functools.lru_cache
def _make_image(name: str) -> str:
    made = subprocess.run(
        [SCRIPTS / "images.sh", name], capture_output=True, text=True, check=False
    )
    return "" if made.returncode == 0 else made.stdout + made.stderr


def image(name: str) -> str:
    """Return a test image, ``busybox`` or ``python``, made if it is not there."""
    require_engine()
    why = _make_image(name)
    if why:
        pytest.fail(why)
    return f"wherry-test/{name}"


def packages() -> str:
    """Return the folder with this environment's packages, such as boto3.

    Mounted into a container, with PYTHONPATH, it gives the image's own Python those of them that
    are written in Python alone.
    """
    import boto3

    return str(Path(boto3.__file__).parents[1])


def task(*containers: Container, **more: Any) -> Task:
    """Return a task with an id of its own."""
    return Task(id=uuid.uuid4().hex, region="us-east-1", containers=containers, **more)


def container(*command: str, name: str = "default", **more: Any) -> Container:
    """Return a container of the small image, which stops soon when it is told to."""
    defaults: dict[str, Any] = {
        "image": image("busybox"),
        "stop_timeout": 1.0,
        "log_stream": f"stream/{name}",
    }
    return Container(name=name, command=command, **(defaults | more))


class Bench:
    """A Docker engine, and what it has told."""

    def __init__(self, name: str, state: Path) -> None:
        self._changed = threading.Condition()
        self._events: list[TaskEvent] = []
        self._output: list[tuple[str, str, bytes]] = []
        self.story: list[object] = []
        self.listeners: list[Callable[[TaskEvent], None]] = []
        self.name = name
        self.engine = DockerEngine(self._listen, self._write, name, str(state))

    def _listen(self, event: TaskEvent) -> None:
        with self._changed:
            self._events.append(event)
            self.story.append(event)
            self._changed.notify_all()
        for listener in self.listeners:
            listener(event)

    def _write(self, task: Task, container: Container, data: bytes) -> None:
        with self._changed:
            self._output.append((task.id, container.name, data))
            self.story.append((task.id, container.name, data))
            self._changed.notify_all()

    def until(self, found: Callable[[], Found], what: str, seconds: float = PATIENCE) -> Found:
        """Wait until something has been told."""
        with self._changed:
            assert self._changed.wait_for(found, seconds), f"gave up waiting for {what}"
            return found()

    def events(self, task: Task) -> list[TaskEvent]:
        """Return all events of a task."""
        with self._changed:
            return [event for event in self._events if event.task_id == task.id]

    def start(self, *containers: Container, **more: Any) -> Task:
        """Start a task."""
        made = task(*containers, **more)
        self.engine.start(made)
        return made

    def started(self, task: Task) -> TaskStarted:
        """Wait until a task runs."""
        return self._first(task, TaskStarted)

    def ended(self, task: Task) -> TaskEnded:
        """Wait until a task is over."""
        return self._first(task, TaskEnded)

    def _first(self, task: Task, kind: type[Found]) -> Found:
        def first() -> Found | None:
            return next((e for e in self.events(task) if isinstance(e, kind)), None)

        return self.until(first, f"{kind.__name__} of {task}")  # type: ignore[return-value]

    def end(self, task: Task, name: str = "default") -> ContainerEnd:
        """Wait until a task is over; return how a container of it ended."""
        return self.ended(task).containers[name]

    def output(self, task: Task, name: str = "default") -> bytes:
        """Return what a container has written so far."""
        with self._changed:
            return b"".join(d for i, n, d in self._output if (i, n) == (task.id, name))

    def says(self, task: Task, words: bytes, name: str = "default") -> None:
        """Wait until a container has written something."""
        self.until(lambda: words in self.output(task, name), f"{words!r}")

    def run(self, *command: str, **more: Any) -> tuple[ContainerEnd, str]:
        """Run one container; return how it ended, and what it wrote."""
        made = self.start(container(*command, **more))
        end = self.end(made)
        return end, self.output(made).decode()


_numbers = itertools.count()


def fresh_name() -> str:
    """Return the name of an emulator that no other test has."""
    return f"test-{os.getpid()}-{next(_numbers)}-{uuid.uuid4().hex[:6]}"


@contextmanager
def bench(state: Path, name: str = "") -> Iterator[Bench]:
    """Open a bench; close it, and see that nothing is left of it."""
    require_engine()
    made = Bench(name or fresh_name(), state)
    made.engine.open()
    try:
        yield made
    finally:
        made.engine.close()
    assert left(made.name) == []


def left(name: str, label: str = "org.wherry.emulator") -> list[str]:
    """Return what an emulator has in the Engine."""
    with client() as docker:
        filters = {"label": [f"{label}={name}"]}
        containers = docker.containers(all=True, filters=filters)
        networks = docker.networks(filters=filters)
        volumes = docker.volumes(filters=filters)["Volumes"] or []
        return [
            *(entry["Names"][0] for entry in containers),
            *(entry["Name"] for entry in (*networks, *volumes)),
        ]


@contextmanager
def client() -> Iterator[APIClient]:
    """Connect to the Engine."""
    made = connect()
    try:
        yield made
    finally:
        made.close()
