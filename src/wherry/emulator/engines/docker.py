"""The engine that runs tasks as containers of a Docker Engine on this machine.

This module is the front: it gets everything ready, finds the task that an event is about, and
cleans up. What a task does is in `docker_tasks`, how it is done in `docker_hands`.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from wherry.emulator.engines import docker_labels
from wherry.emulator.engines.api import Engine, Listener, Output, Task
from wherry.emulator.engines.docker_connection import probe
from wherry.emulator.engines.docker_events import Deaths
from wherry.emulator.engines.docker_hands import DockerHands
from wherry.emulator.engines.docker_keeper import Keeper
from wherry.emulator.engines.docker_network import Networks
from wherry.emulator.engines.docker_reasons import explanation
from wherry.emulator.engines.docker_sweep import sweep
from wherry.emulator.engines.docker_tasks import Box, Run, State
from wherry.emulator.engines.docker_watchdog import Watchdog
from wherry.errors import LaunchError

if TYPE_CHECKING:
    from docker import APIClient

_log = logging.getLogger(__name__)

CALL_TIMEOUT = 240
"""Seconds that one call to the Engine may take; ECS waits four minutes for a container."""

CLOSED = "The emulator was stopped."
"""Reason of tasks that ran when the engine was closed."""

HOST_ALIAS = "host.docker.internal"
"""How containers reach this machine where the Engine runs in a virtual machine beside it."""

CLOSING_SECONDS = 60.0
"""How long `close` waits for containers to end."""

AWAY_SECONDS = 5.0
"""How long it does when the Engine does not answer."""


class DockerEngine(Engine):
    """Runs tasks as containers.

    Args:
        listener, output: see `api`.
        name: of the emulator; one that is opened removes what an earlier one of its name left.
        state_dir: the emulator's folder; nothing of this engine has to be kept there.

    Attributes:
        notes: what a user should be told about this machine, after `open`.
    """

    name = "docker"

    def __init__(self, listener: Listener, output: Output, name: str, state_dir: str) -> None:
        self._listener = listener
        self._output = output
        self._emulator = name
        self._state_dir = state_dir
        self._life = uuid.uuid4().hex
        self._runs: dict[str, Run] = {}
        self._going: set[Run] = set()
        self._boxes: dict[str, tuple[Run, Box]] = {}
        self._connections = 0
        self._quiet = threading.Event()
        self._closing = False
        self._undo: list[Callable[[], object]] = []
        self._host = ""
        self._bound: tuple[str, ...] = ()
        self.notes: tuple[str, ...] = ()

    # Getting ready.

    def open(self) -> None:
        """Connect, make the network, and remove what an earlier life left behind.

        Raises:
            wherry.errors.LaunchError: there is no Engine that can be used; says why.
        """
        self._address = os.environ.get("DOCKER_HOST", "")
        self._client = client = connect()
        self._undo.append(client.close)
        try:
            self._set_up(client)
        except Exception as error:
            self.close()
            if isinstance(error, LaunchError):
                raise
            raise LaunchError(
                f"the Docker Engine cannot run the emulator's jobs: {explanation(error)}"
            ) from error

    def _set_up(self, client: APIClient) -> None:
        self._watchdog = Watchdog(self._emulator, self._life)
        self._watchdog.open()
        self._undo.append(self._watchdog.close)
        sweep(client, docker_labels.EMULATOR, self._emulator)
        labels = {docker_labels.EMULATOR: self._emulator, docker_labels.LIFE: self._life}
        self._undo.append(lambda: sweep(client, docker_labels.LIFE, self._life))
        self._networks = Networks(client, self._emulator, labels)
        self._networks.open()
        self.notes = self._networks.notes
        extra_hosts = self._find_host()
        self._keeper = Keeper()
        architecture = str(client.info().get("Architecture", ""))
        self._hands = DockerHands(
            client,
            architecture,
            self._networks,
            labels,
            extra_hosts,
            self._keeper,
            self._known,
            self._gone,
            self._listener,
            self._output,
        )
        self._keeper.open()
        self._undo.append(self._keeper.close)
        self._hands.open()
        self._undo.append(self._hands.close)
        self._deaths = Deaths(
            client,
            partial(probe, self._address),
            docker_labels.label_filter(docker_labels.LIFE, self._life),
            connected=lambda: self._keeper.do(self._look_after_all),
            died=lambda container, code: self._keeper.do(lambda: self._died(container, code)),
            out_of_memory=lambda container: self._keeper.do(lambda: self._starved(container)),
        )
        self._deaths.open()
        self._undo.append(self._deaths.close)
        self._undo.append(self._end_all)

    def _find_host(self) -> tuple[str, ...]:
        """Find out how containers reach this machine; returns lines for their hosts files."""
        gateway = self._networks.gateway
        if _is_own(gateway):
            self._host = gateway
            self._bound = (gateway,)
            return ()
        self._host = HOST_ALIAS
        note = (
            f"the Docker Engine runs in a machine of its own; jobs reach this one as {HOST_ALIAS}, "
            "and get their role's credentials as environment variables"
        )
        self.notes = (*self.notes, note)
        return (f"{HOST_ALIAS}:host-gateway",)

    # The contract.

    @property
    def credential_host(self) -> str:
        """The host for a job role's credentials, which SDKs accept; empty where there is none."""
        return self._networks.credential_host if self._bound else ""

    def start(self, task: Task) -> None:
        """Begin a task."""
        self._keeper.do(lambda: self._begin(task))

    def stop(self, task_id: str, grace: float) -> None:
        """Stop a task."""
        self._with(task_id, lambda run: run.stop(grace))

    def lose(self, task_id: str, reason: str) -> None:
        """Kill a task as if its host had gone."""
        self._with(task_id, lambda run: run.lose(reason))

    def forget_network(self, network: str) -> None:
        """Remove the network of a multi-node job."""
        self._hands.in_background(lambda: self._networks.forget(network))

    def addresses(self) -> tuple[str, ...]:
        """Return the address of this machine on the network of the jobs."""
        return self._bound

    def endpoint(self, port: int) -> str:
        """Return the address of a server on this machine as all containers see it."""
        return f"http://{self._host}:{port}"

    def close(self) -> None:
        """End everything, and remove it."""
        while self._undo:
            undo = self._undo.pop()
            try:
                undo()
            except Exception as error:  # noqa: BLE001 — the rest must be undone too
                _log.warning("the Docker engine could not be closed cleanly: %s", error)

    # In the keeper's thread.

    def _with(self, task_id: str, action: Callable[[Run], None]) -> None:
        def act() -> None:
            run = self._runs.get(task_id)
            if run is not None:
                action(run)

        self._keeper.do(act)

    def _begin(self, task: Task) -> None:
        run = Run(task, self._hands)
        self._runs[task.id] = run
        self._going.add(run)
        run.begin()
        if self._closing:
            run.lose(CLOSED)

    def _known(self, run: Run, box: Box) -> None:
        self._boxes[box.id] = (run, box)

    def _gone(self, run: Run) -> None:
        """Forget a task of which nothing is left in the Engine."""
        self._runs.pop(run.task.id, None)
        self._going.discard(run)
        for box in run.boxes.values():
            self._boxes.pop(box.id, None)
        if self._closing and not self._going:
            self._quiet.set()

    def _died(self, container: str, code: int) -> None:
        found = self._boxes.get(container)
        if found is not None and not found[1].died:
            self._hands.examine(*found, code)

    def _starved(self, container: str) -> None:
        found = self._boxes.get(container)
        if found is not None:
            found[1].starved = True

    def _look_after_all(self) -> None:
        """See what happened while there was no connection to the Engine."""
        self._connections += 1
        if self._connections == 1:
            return
        boxes = [found for found in self._boxes.values() if found[1].state is State.RUNNING]
        self._hands.in_background(lambda: self._look_after(boxes))

    def _look_after(self, boxes: list[tuple[Run, Box]]) -> None:
        filters = docker_labels.label_filter(docker_labels.LIFE, self._life)
        try:
            listed: list[dict[str, Any]] = self._client.containers(all=True, filters=filters)
        except Exception as error:  # noqa: BLE001 — there will be another connection
            _log.warning("the Docker Engine does not tell what runs: %s", error)
            return
        running = {entry["Id"] for entry in listed if entry["State"] == "running"}
        for run, box in boxes:
            self._keeper.do(partial(self._restore_output, run, box))
            if box.id in running:
                self._keeper.do(partial(run.still_runs, box))
            else:
                self._hands.examine(run, box, None)

    def _restore_output(self, run: Run, box: Box) -> None:
        """Read what a container wrote since its connection broke together with the Engine's."""
        if box.state is not State.RUNNING or not box.output_ended:
            return
        box.output_ended = False
        threading.Thread(
            target=self._hands.catch_up, args=(run, box), name="docker-catch-up", daemon=True
        ).start()

    def _end_all(self) -> None:
        def lose_all() -> None:
            self._closing = True
            for run in list(self._runs.values()):
                run.lose(CLOSED)
            if not self._going:
                self._quiet.set()

        self._keeper.do(lose_all)
        deadline = time.monotonic() + CLOSING_SECONDS
        answered = time.monotonic()
        while not self._quiet.wait(0.5):
            now = time.monotonic()
            if self._answers():
                answered = now
            if now > deadline or now - answered > AWAY_SECONDS:
                _log.warning("some containers did not end; they are removed by force")
                return

    def _answers(self) -> bool:
        try:
            probe(self._address)
        except OSError:
            return False
        return True


def connect() -> APIClient:
    """Connect to the Docker Engine of this machine.

    Raises:
        LaunchError: there is none, or what there is cannot be used; says why.
    """
    try:
        import docker
        from docker.utils import kwargs_from_env
    except ImportError:
        raise LaunchError(
            "the Docker engine needs the package docker; install wherry[emulator]"
        ) from None
    host = os.environ.get("DOCKER_HOST", "")
    if host and not host.startswith(("unix://", "tcp://127.", "tcp://localhost")):
        raise LaunchError(
            f"DOCKER_HOST is {host!r}; the emulator's jobs must reach this machine, "
            "so they need an Engine that runs on it (unset DOCKER_HOST, or use --engine process)"
        )
    client = None
    try:
        probe(host)
        client = docker.APIClient(
            **kwargs_from_env(), version="auto", timeout=CALL_TIMEOUT, max_pool_size=32
        )
        client.ping()
    except Exception as error:
        if client is not None:
            client.close()
        raise LaunchError(
            f"no Docker Engine answers ({error}); start one, or use --engine process"
        ) from error
    return client


def _is_own(address: str) -> bool:
    """Whether a server on this machine can listen at an address."""
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
