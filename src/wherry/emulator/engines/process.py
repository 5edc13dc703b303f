"""The engine that runs a task's containers as processes of this machine.

It keeps the books, and an agent of its own process does the work: so that a thousand tasks cost
the emulator no more than their messages, and nothing that runs outlives it. One thread listens to
the agent and calls back; the others only send.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections.abc import Callable, Iterator

from wherry.emulator.engines.api import (
    ESSENTIAL_EXITED,
    FAILED_TO_START,
    Container,
    ContainerEnd,
    Engine,
    Listener,
    Output,
    Task,
    TaskEnded,
    TaskEvent,
    TaskStarted,
)
from wherry.emulator.engines.asking import LEFT_OUT, base_environment, plan_for
from wherry.emulator.engines.host import Host, remove_remains
from wherry.errors import LaunchError, StateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wherry.emulator.engines.channel import Message
    from wherry.emulator.engines.plan import End

AGENT_LOST = "Host EC2 terminated."
"""How a task ended whose agent was killed: as one whose instance is gone, so that it is retried."""

_LOOPBACK = "127.0.0.1"
_CLOSING = 60.0

_log = logging.getLogger(__name__)


class ProcessEngine(Engine):
    """Runs tasks as processes.

    Args:
        listener: gets what happens, from the engine's thread.
        output: gets what containers write, from the same thread; while it is busy, programs that
            write much have to wait.
        scratch: a folder for the tasks' folders; made when missing.

    Attributes:
        notes: what a process does not have of a container, a sentence each, as tasks ask for it.
    """

    name = "process"

    def __init__(self, listener: Listener, output: Output, scratch: str) -> None:
        self._listener = listener
        self._output = output
        self._scratch = os.path.realpath(scratch)
        self.notes: list[str] = []
        self._left_out = list(LEFT_OUT)
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._live: dict[str, _Live] = {}
        self._addresses = _Addresses()
        self._backlog: list[Message] = []
        self._host: Host | None = None
        self._thread: threading.Thread | None = None
        self._is_closing = False
        self._base: dict[str, str] = {}
        self._handlers: dict[str, Callable[..., None]] = {
            "output": self._on_output,
            "started": self._on_started,
            "ended": self._on_ended,
        }

    @property
    def agent(self) -> int:
        """The process above all that runs; 0 while there is none."""
        with self._lock:
            return self._host.pid if self._host else 0

    def open(self) -> None:
        """Start the agent, and clear away what an earlier one left behind.

        Raises:
            LaunchError: it does not start.
        """
        if self._thread is not None:
            raise StateError("the process engine is open already")
        remove_remains(self._scratch)
        self._base = base_environment()
        self._host = Host.launch(self._scratch)
        self._thread = threading.Thread(target=self._serve, name="process-engine", daemon=True)
        self._thread.start()

    def start(self, task: Task) -> None:
        """Begin a task."""
        with self._lock:
            if self._thread is None or self._is_closing:
                raise StateError("the process engine is not open")
            self._note(task)
            address = self._addresses.take() if task.network else _LOOPBACK
            self._live[task.id] = _Live(task, address)
            self._send(("start", plan_for(task, self._base)))

    def stop(self, task_id: str, grace: float) -> None:
        """Send SIGTERM to the programs of a task, and SIGKILL after so many seconds."""
        with self._lock:
            if task_id in self._live:
                self._send(("stop", task_id, max(0.0, grace)))

    def lose(self, task_id: str, reason: str) -> None:
        """Kill a task at once, as if its host had gone."""
        with self._lock:
            live = self._live.get(task_id)
            if live is not None:
                live.lost = live.lost or reason
                self._send(("stop", task_id, 0.0))

    def forget_network(self, network: str) -> None:
        """Do nothing: an address is free again when its task is over."""

    def addresses(self) -> tuple[str, ...]:
        """Return none: processes reach this machine at its loopback addresses."""
        return ()

    def endpoint(self, port: int) -> str:
        """Return the address of this machine as a process sees it."""
        return f"http://{_LOOPBACK}:{port}"

    def close(self) -> None:
        """Kill all that runs, and wait until nothing is left of it.

        What still ran ends as if its host had gone.
        """
        with self._lock:
            self._is_closing = True
            if self._host is not None:
                self._host.dismiss()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_CLOSING)

    def _send(self, message: Message) -> None:
        if self._host is not None:
            self._host.send(message)
        else:
            self._backlog.append(message)
            self._changed.notify_all()

    def _note(self, task: Task) -> None:
        for concerns, sentence in list(self._left_out):
            if any(concerns(container) for container in task.containers):
                self._left_out.remove((concerns, sentence))
                self.notes.append(sentence)

    # The engine's thread.

    def _serve(self) -> None:
        host = self._host
        while host is not None:
            messages = host.receive()
            if messages is None:
                self._bury(host)
                host = self._next_host()
            else:
                for verb, task_id, *rest in messages:
                    self._handlers[verb](task_id, *rest)

    def _bury(self, host: Host) -> None:
        """See an agent off, and end all tasks that it ran."""
        with self._lock:
            self._host = None
            lost, self._live = self._live, {}
            is_expected = self._is_closing
        words = host.bury()
        if words or not is_expected:
            _log.warning("the agent of the process engine is gone: %s", words or "it was killed")
        for live in lost.values():
            self._over(live, live.lost or AGENT_LOST, {})

    def _next_host(self) -> Host | None:
        """Wait until there is something to do, and start another agent; ``None`` to end."""
        while self._is_wanted():
            try:
                host = Host.launch(self._scratch)
            except LaunchError as error:
                _log.error("%s", error)
                self._lose_all()
            else:
                self._take_over(host)
                return host
        self._lose_all()
        return None

    def _is_wanted(self) -> bool:
        """Wait until there is something to do; tells whether there is, or all is over."""
        with self._lock:
            self._changed.wait_for(lambda: self._backlog or self._is_closing)
            return not self._is_closing

    def _take_over(self, host: Host) -> None:
        """Give a new agent what has waited for it."""
        with self._lock:
            self._host = host
            for message in self._backlog:
                host.send(message)
            self._backlog.clear()
            if self._is_closing:
                host.dismiss()

    def _lose_all(self) -> None:
        with self._lock:
            lost, self._live = self._live, {}
            self._backlog.clear()
        for live in lost.values():
            self._over(live, live.lost or AGENT_LOST, {})

    def _on_output(self, task_id: str, index: int, data: bytes) -> None:
        task = self._live[task_id].task
        self._hand_over(task, task.containers[index], data)

    def _on_started(self, task_id: str) -> None:
        live = self._live[task_id]
        self._tell(TaskStarted(task_id, live.address))

    def _on_ended(self, task_id: str, has_run: bool, ends: list[End]) -> None:
        with self._lock:
            live = self._live.pop(task_id)
        if live.lost:
            self._over(live, live.lost, {})
            return
        reason = ESSENTIAL_EXITED if has_run else FAILED_TO_START
        names = (container.name for container in live.task.containers)
        self._over(
            live, reason, {name: ContainerEnd(*end) for name, end in zip(names, ends, strict=True)}
        )

    def _over(self, live: _Live, reason: str, ends: dict[str, ContainerEnd]) -> None:
        for container in live.task.containers:
            self._hand_over(live.task, container, b"")
        with self._lock:
            self._addresses.give_back(live.address)
        without = {container.name: ContainerEnd(None) for container in live.task.containers}
        self._tell(TaskEnded(live.task.id, reason, {**without, **ends}))

    def _hand_over(self, task: Task, container: Container, data: bytes) -> None:
        try:
            self._output(task, container, data)
        except Exception:  # noqa: BLE001 — another room's mistake must not stop the engine
            _log.exception("output of task %s was not taken", task.id)

    def _tell(self, event: TaskEvent) -> None:
        try:
            self._listener(event)
        except Exception:  # noqa: BLE001 — another room's mistake must not stop the engine
            _log.exception("%s was not taken", event)


class _Live:
    """A task that is not over: its address, and why it was lost, if it was."""

    __slots__ = ("address", "lost", "task")

    def __init__(self, task: Task, address: str) -> None:
        self.task = task
        self.address = address
        self.lost = ""


class _Addresses:
    """Loopback addresses, a different one for each that is taken; Linux has all of 127/8."""

    def __init__(self) -> None:
        self._next = self._all()
        self._taken: set[str] = set()

    def take(self) -> str:
        """Return an address that nobody has."""
        address = next(address for address in self._next if address not in self._taken)
        self._taken.add(address)
        return address

    def give_back(self, address: str) -> None:
        """Let an address be taken again."""
        self._taken.discard(address)

    @staticmethod
    def _all() -> Iterator[str]:
        # Not the same ones in each emulator: their tasks may use the same ports.
        first = 1 + os.getpid() % 250
        hosts = itertools.cycle(itertools.product(range(first, 251), range(250), range(1, 251)))
        return (f"127.{b}.{c}.{d}" for b, c, d in hosts)
