"""What a task wants done, done in the Engine.

Starting and ending have threads of their own, so that a task can be stopped while others wait to be
started. What has been done is told to the task through the keeper, in its thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from wherry.emulator.engines import docker_holder, docker_labels
from wherry.emulator.engines.api import Container, Listener, Output, Task, TaskEvent
from wherry.emulator.engines.docker_connection import open_answer, socket_of
from wherry.emulator.engines.docker_container import Surrounds, creation, volume_names
from wherry.emulator.engines.docker_images import Images
from wherry.emulator.engines.docker_keeper import Keeper
from wherry.emulator.engines.docker_logs import Stream, Streams, hand_on, undelivered
from wherry.emulator.engines.docker_network import Networks
from wherry.emulator.engines.docker_reasons import CREATE, START, STATE, reason
from wherry.emulator.engines.docker_tasks import Box, Run
from wherry.engine.docker.frames import Frames

if TYPE_CHECKING:
    from docker import APIClient

_log = logging.getLogger(__name__)

STARTS_AT_ONCE = 8
ENDS_AT_ONCE = 4

TRY_AGAIN = 1.0
"""Seconds until a removal is tried again that the Engine did not answer."""


class DockerHands:
    """See `docker_tasks.Hands`.

    Args:
        client: the Engine.
        architecture: of the machine that the Engine runs on.
        networks: of this emulator.
        labels: of all that is made.
        extra_hosts: lines for every container's hosts file.
        keeper: runs what is told to tasks.
        known: called in the keeper's thread with each container that was created.
        gone: called there with a task of which nothing is left.
        listener, output: see `api`.
    """

    def __init__(
        self,
        client: APIClient,
        architecture: str,
        networks: Networks,
        labels: Mapping[str, str],
        extra_hosts: tuple[str, ...],
        keeper: Keeper,
        known: Callable[[Run, Box], None],
        gone: Callable[[Run], None],
        listener: Listener,
        output: Output,
    ) -> None:
        self._client = client
        self._architecture = architecture
        self._networks = networks
        self._labels = dict(labels)
        self._extra_hosts = extra_hosts
        self._keeper = keeper
        self._known = known
        self._gone = gone
        self._listener = listener
        self._output = output
        self._images = Images(client)
        self._streams = Streams()
        self._by_container: dict[str, Stream] = {}
        self._gpus: dict[Box, list[str]] = {}
        self._starts = ThreadPoolExecutor(STARTS_AT_ONCE, thread_name_prefix="docker-start")
        self._ends = ThreadPoolExecutor(ENDS_AT_ONCE, thread_name_prefix="docker-end")

    def open(self) -> None:
        """Begin to read output."""
        self._streams.open()

    def close(self) -> None:
        """End all threads; waits for what they do."""
        self._images.close()
        self._starts.shutdown(cancel_futures=True)
        self._ends.shutdown()
        self._streams.close()

    def emit(self, event: TaskEvent) -> None:
        """Tell the listener."""
        self._listener(event)

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Call an action after so many seconds."""
        self._keeper.later(seconds, action)

    def in_background(self, action: Callable[[], None]) -> None:
        """Do something that may take a while, and that concerns the end of something."""
        self._submit(self._ends, action)

    def _submit(self, pool: ThreadPoolExecutor, action: Callable[..., None], *args: object) -> None:
        try:
            pool.submit(action, *args)
        except RuntimeError:  # closed; what this was about is gone, or the last sweep gets it
            _log.debug("%s comes too late", action)

    # Starting.

    def hold(self, run: Run) -> None:
        """Start the container that holds the namespaces of a task."""
        self._submit(self._starts, self._hold, run)

    def launch(self, run: Run, box: Box) -> None:
        """Create and start a container."""
        self._take_gpus(box)
        self._submit(self._starts, self._launch, run, box)

    def pull(self, run: Run, box: Box) -> None:
        """Pull a container's image."""
        self._images.pull(
            box.spec.image, lambda why: self._keeper.do(partial(run.pulled, box, why))
        )

    def _hold(self, run: Run) -> None:
        holder = ""
        try:
            self._ensure_holder_image()
            body = docker_holder.creation(
                self._network_of(run.task), self._labels_of(run.task, ""), list(self._extra_hosts)
            )
            holder = self._create(body, None)
            self._client.start(holder)
        except Exception as error:  # noqa: BLE001 — whatever it was, the task's reason will say
            if holder:
                self._remove_container(holder)
            self._keeper.do(partial(run.not_held, reason(START if holder else CREATE, error)))
        else:
            self._keeper.do(partial(run.held, holder))

    def _ensure_holder_image(self) -> None:
        if self._client.images(docker_holder.IMAGE):
            return
        machine = docker_holder.MACHINES.get(self._architecture)
        if machine is None:
            known = ", ".join(docker_holder.MACHINES)
            raise NotImplementedError(
                f"containers that share a network need one of {known}; this is {self._architecture}"
            )
        self._client.import_image_from_data(
            docker_holder.archive(machine),
            repository=docker_holder.REPOSITORY,
            tag=docker_holder.TAG,
        )

    def _launch(self, run: Run, box: Box) -> None:
        from docker.errors import ImageNotFound

        if box.unwanted.is_set():
            self._tell_not_started(run, box, "")
            return
        try:
            container = self._create(self._body(run, box), self._name_of(run.task, box.spec))
        except ImageNotFound:
            self._keeper.do(partial(run.needs_image, box))
            return
        except Exception as error:  # noqa: BLE001 — whatever it was, the task's reason will say
            if "invalid reference format" in str(error):
                # ECS pulls before it creates, so it fails there.
                self._keeper.do(partial(run.needs_image, box))
            else:
                self._tell_not_started(run, box, reason(CREATE, error))
            return
        self._start(run, box, container)

    def _start(self, run: Run, box: Box, container: str) -> None:
        # Its id has to be known before it can die.
        self._keeper.do(partial(run.created, box, container))
        self._keeper.do(partial(self._known, run, box))
        if box.unwanted.is_set():
            self._tell_not_started(run, box, "")
            return
        stream = None
        try:
            stream = self._attach(run, box, container)
            self._client.start(container)
        except Exception as error:  # noqa: BLE001 — whatever it was, the task's reason will say
            if stream is not None:
                self._streams.drop(stream)
            self._tell_not_started(run, box, reason(START, error))
        else:
            self._keeper.do(partial(run.started, box, self._address_of(run, container)))

    def _create(self, body: dict[str, Any], name: str | None) -> str:
        made = self._client.create_container_from_config(body, name)  # type: ignore[no-untyped-call]
        return str(made["Id"])

    def _tell_not_started(self, run: Run, box: Box, why: str) -> None:
        self._keeper.do(partial(run.not_started, box, why))

    def _body(self, run: Run, box: Box) -> dict[str, Any]:
        network = f"container:{run.holder}" if run.holder else self._network_of(run.task)
        if run.task.host_network:
            network = "host"
        volumes = {name: self._volume(run.task, name) for name in volume_names(run.task)}
        around = Surrounds(
            network=network,
            labels=self._labels_of(run.task, box.spec.name),
            volumes=volumes,
            gpus=self._gpus.get(box, ()),
            extra_hosts=() if run.task.host_network else self._extra_hosts,
            holder=run.holder,
        )
        return creation(run.task, box.spec, around)

    def _network_of(self, task: Task) -> str:
        return "host" if task.host_network else self._networks.ensure(task.network)

    def _labels_of(self, task: Task, container: str) -> dict[str, str]:
        own = {docker_labels.TASK: task.id, docker_labels.CONTAINER: container}
        return dict(task.labels) | self._labels | own

    def _name_of(self, task: Task, container: Container) -> str:
        return f"{self._networks.common}-{task.id}-{container.name}"

    def _volume(self, task: Task, name: str) -> str:
        """Return Docker's name for a volume of a task; making it twice is harmless."""
        full = f"{self._networks.common}-{task.id}-{name}"
        labels = self._labels | {docker_labels.TASK: task.id}
        self._client.create_volume(full, labels=labels)
        return full

    def _address_of(self, run: Run, container: str) -> str:
        if run.task.host_network:
            return self._networks.gateway
        try:
            settings = self._client.inspect_container(run.holder or container)["NetworkSettings"]
        except Exception as error:  # noqa: BLE001 — it runs, or has; that it did is told first
            _log.debug("container %s has no address: %s", container[:12], error)
            return ""
        found = [str(net["IPAddress"]) for net in settings["Networks"].values()]
        return next(filter(None, found), "")

    # Output.

    def _attach(self, run: Run, box: Box, container: str) -> Stream:
        # Nothing runs yet, so nothing is read here beyond the head of the answer.
        with open_answer(
            self._client,
            "POST",
            f"/containers/{container}/attach",
            {"stdout": 1, "stderr": 1, "stream": 1},
        ) as response:
            connection = socket_of(response)
        stream = Stream(
            connection,
            partial(self._output, run.task, box.spec),
            lambda: self._keeper.do(partial(run.output_ended, box)),
        )
        self._by_container[container] = stream
        self._streams.add(stream)
        return stream

    def finish_output(self, run: Run, box: Box) -> None:
        """Say that a container's output is over."""
        hand_on(partial(self._output, run.task, box.spec), b"")

    def catch_up(self, run: Run, box: Box) -> None:
        """Hand on what was written since the connection broke, to the end of the container.

        Done in the calling thread, which may take as long as the container runs.
        """
        stream = self._by_container.get(box.id)
        before = dict(stream.delivered) if stream else {}
        sink = partial(self._output, run.task, box.spec)
        frames = Frames()
        try:
            with open_answer(
                self._client,
                "GET",
                f"/containers/{box.id}/logs",
                {"stdout": 1, "stderr": 1, "follow": 1},
            ) as response:
                for data in response.iter_content(64 * 1024):
                    for number, payload in frames.feed(data):
                        rest = undelivered(number, payload, before)
                        if rest:
                            hand_on(sink, rest)
        except Exception as error:  # noqa: BLE001 — what could be had was handed on
            _log.warning("some output of container %s is lost: %s", box.id[:12], error)
        self._keeper.do(partial(run.output_ended, box))

    # Ending.

    def signal(self, run: Run, box: Box, *, kill: bool) -> None:  # noqa: ARG002 — as `Hands`
        """Send the signal that asks a container to stop, or SIGKILL."""
        self._submit(self._ends, self._signal, box, kill)

    def _signal(self, box: Box, kill: bool) -> None:
        from docker.errors import APIError

        try:
            name = "SIGKILL"
            if not kill:
                # As `docker stop` does, which is what ECS uses.
                config = self._client.inspect_container(box.id)["Config"]
                name = config.get("StopSignal") or "SIGTERM"
            self._client.kill(box.id, name)
        except APIError as error:
            # It may have ended just now.
            _log.debug("container %s took no signal: %s", box.id[:12], error)
        except Exception as error:  # noqa: BLE001 — told again when the Engine is back
            _log.warning("container %s could not be told to stop: %s", box.id[:12], error)

    def examine(self, run: Run, box: Box, told_code: int | None) -> None:
        """Find out how a container ended, and tell its task."""
        self._submit(self._ends, self._examine, run, box, told_code)

    def _examine(self, run: Run, box: Box, told_code: int | None) -> None:
        code, out_of_memory, why = told_code, False, ""
        try:
            state = self._client.inspect_container(box.id)["State"]
        except Exception as error:  # noqa: BLE001 — it was removed by somebody, or the Engine is away
            if told_code is None:
                why = f"{STATE}: {error}"
        else:
            code = int(state["ExitCode"]) if told_code is None else told_code
            out_of_memory = bool(state.get("OOMKilled"))
            if state.get("Error"):
                why = f"{STATE}: {state['Error']}"
        tell = partial(run.died, box, code, out_of_memory=out_of_memory, reason=why)
        self._keeper.do(tell)

    def clear_away(self, run: Run) -> None:
        """Remove all that the task has in the Engine."""
        for box in run.boxes.values():
            self._gpus.pop(box, None)
            self._by_container.pop(box.id, None)
        self._submit(self._ends, self._clear_away, run)

    def _clear_away(self, run: Run) -> None:
        containers = filter(None, (*(box.id for box in run.boxes.values()), run.holder))
        gone = [self._remove_container(container) for container in containers]
        for name in volume_names(run.task):
            full = f"{self._networks.common}-{run.task.id}-{name}"
            gone.append(self._attempt(self._client.remove_volume, full))
        if all(gone):
            self._keeper.do(partial(self._gone, run))
        else:
            # The Engine is away. It will be back; if not, closing gives up after a while.
            again = partial(self._submit, self._ends, self._clear_away, run)
            self._keeper.do(partial(self._keeper.later, TRY_AGAIN, again))

    def _remove_container(self, container: str) -> bool:
        return self._attempt(partial(self._client.remove_container, v=True, force=True), container)

    def _attempt(self, remove: Callable[[str], object], name: str) -> bool:
        """Remove something; returns whether the Engine has had its say."""
        from docker.errors import APIError

        try:
            remove(name)
        except APIError as error:
            # What it refuses to remove now, a sweep gets at the end.
            if error.status_code not in (404, 409):
                _log.warning("%s could not be removed: %s", name, error)
        except Exception as error:  # noqa: BLE001 — in whatever way it is away
            _log.debug("%s could not be removed yet: %s", name, error)
            return False
        return True

    def _take_gpus(self, box: Box) -> None:
        """Give a container the GPUs with the lowest numbers that no other has."""
        if not box.spec.gpus or box in self._gpus:
            return
        taken = {number for numbers in self._gpus.values() for number in numbers}
        free = (str(number) for number in range(10_000) if str(number) not in taken)
        self._gpus[box] = [next(free) for _ in range(box.spec.gpus)]
