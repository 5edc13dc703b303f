"""The contract between the control plane and what runs containers.

A task is what ECS would run for one attempt of one job or node: one container, or several that
share their fate. The control plane fills everything in (command after substitution, environment,
secrets resolved); an engine adds nothing but what its kind of isolation needs, and reports what
happens. Engines never block their caller and never call back from within a call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Mount:
    """A folder, or a volume, that a container sees.

    Attributes:
        target: the path inside the container.
        source: a path of this machine; or empty for a volume that lives as long as the task.
        volume: the name of the volume, by which containers of one task share it.
        read_only: whether the container may not write to it.
    """

    target: str
    source: str = ""
    volume: str = ""
    read_only: bool = False


@dataclass(frozen=True)
class Device:
    """A device of this machine that a container sees; permissions are of ``rwm``."""

    host: str
    target: str
    permissions: str = "rwm"


@dataclass(frozen=True)
class Tmpfs:
    """A file system in memory.

    Attributes:
        target: the path inside the container.
        size_mib: its size.
        options: mount options such as ``noexec``.
    """

    target: str
    size_mib: int
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dependency:
    """What has to have happened to another container of the task first.

    Attributes:
        container: its name.
        condition: ``START``, ``COMPLETE`` (ended, with any code) or ``SUCCESS`` (ended with 0).
    """

    container: str
    condition: str


@dataclass(frozen=True)
class Container:
    """One container.

    Attributes:
        name: ``default`` where the job has only one.
        image: as the job definition says it; an engine of processes ignores it.
        command: the words; empty for the image's own.
        entrypoint: replaces the image's own; empty (only pods have one).
        env: the whole environment that is given to it; the image's own lies below it.
        vcpus: CPU shares (soft, as ECS on EC2) unless `hard_cpu`.
        memory_mib: the hard limit.
        gpus: how many.
        user: ``uid``, ``uid:gid`` or a name of the image.
        working_dir: empty for the image's own (only pods set one).
        shm_mib: size of ``/dev/shm``; 0 for the default.
        max_swap_mib: -1 where swap was not set.
        swappiness: -1 where it was not set.
        ulimits: name, soft, hard.
        init: whether an init process reaps and forwards signals.
        essential: whether the task has started when it runs, fails when it cannot start, and
            depends on how it ends; see `Task.ends_with` for whether its end ends the task.
        start_timeout: seconds after which those that wait for its end give up; 0 for never.
        stop_timeout: seconds between SIGTERM and SIGKILL. Both are emulated seconds; an engine
            gets real ones from the plane.
        log_stream: where its output goes, or empty for nowhere; an engine hands it to `Output`.
    """

    name: str
    image: str
    command: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    vcpus: float = 1.0
    hard_cpu: bool = False
    memory_mib: int = 128
    gpus: int = 0
    user: str = ""
    working_dir: str = ""
    privileged: bool = False
    read_only_root: bool = False
    init: bool = False
    shm_mib: int = 0
    max_swap_mib: int = -1
    swappiness: int = -1
    ulimits: tuple[tuple[str, int, int], ...] = ()
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()
    tmpfs: tuple[Tmpfs, ...] = ()
    essential: bool = True
    depends_on: tuple[Dependency, ...] = ()
    start_timeout: float = 0.0
    stop_timeout: float = 30.0
    log_group: str = ""
    log_stream: str = ""


@dataclass(frozen=True)
class Task:
    """What one attempt of one job, array child or node runs.

    Attributes:
        id: 32 hexadecimal digits, the last part of the task's ARN.
        region: where its logs are, among others.
        containers: in the order of the definition.
        network: name of a network of its own, shared by tasks with the same one (the nodes of a
            multi-node job); empty for the common one.
        host_network, pid_mode, ipc_mode: as the definition asks; empty for the default.
        ends_with: ``essential``: the end of an essential container ends the others and the task,
            as on ECS. ``all``: the task is over when all containers have ended, as a pod of
            Kubernetes is.
        labels: what a person who looks into the Engine should see (job id, name, attempt).
        start_fault: text for a start that fails on purpose; empty mostly. It becomes the reason of
            the first container, which gets no exit code.
    """

    id: str
    region: str
    containers: tuple[Container, ...]
    network: str = ""
    host_network: bool = False
    pid_mode: str = ""
    ipc_mode: str = ""
    ends_with: Literal["essential", "all"] = "essential"
    labels: tuple[tuple[str, str], ...] = ()
    start_fault: str = ""


@dataclass(frozen=True)
class ContainerEnd:
    """How a container ended.

    Attributes:
        exit_code: ``None`` when it has none: never started, or its host is gone. A signal is
            128 plus its number.
        reason: ECS's words, such as ``OutOfMemoryError: Container killed due to memory usage`` or
            ``CannotPullContainerError: …``; mostly empty.
    """

    exit_code: int | None
    reason: str = ""


@dataclass(frozen=True)
class TaskStarted:
    """The task's first essential container runs.

    Attributes:
        task_id: which.
        address: the IPv4 address at which other tasks of the same network reach it.
    """

    task_id: str
    address: str


@dataclass(frozen=True)
class TaskEnded:
    """The task is over: nothing of it runs, and all its output has been handed over.

    Attributes:
        task_id: which.
        reason: `ESSENTIAL_EXITED`, `FAILED_TO_START`, or the fate of its host.
        containers: how each ended, by name; those that never started have no exit code.
    """

    task_id: str
    reason: str
    containers: dict[str, ContainerEnd] = field(default_factory=dict)


TaskEvent = TaskStarted | TaskEnded
Listener = Callable[[TaskEvent], None]
"""Gets each event once, from any thread; returns at once."""

Output = Callable[[Task, Container, bytes], None]
"""Gets what a container wrote, as it comes, from any thread: bytes as written, cut anywhere. One
call with ``b""`` follows the last one. Output of both streams comes in the order of writing as far
as the engine can tell."""

ESSENTIAL_EXITED = "Essential container in task exited"
FAILED_TO_START = "Task failed to start"
OUT_OF_MEMORY = "OutOfMemoryError: Container killed due to memory usage"


class Engine(ABC):
    """Runs tasks.

    Made with a `Listener` and an `Output`; no constructor starts anything.
    """

    name: str

    @abstractmethod
    def open(self) -> None:
        """Get ready: start the agent, make the network, remove what an earlier life left behind.

        Raises:
            wherry.errors.LaunchError: it cannot run here; says why.
        """

    @abstractmethod
    def start(self, task: Task) -> None:
        """Begin a task; `TaskStarted` and `TaskEnded`, or only the latter, will follow."""

    @abstractmethod
    def stop(self, task_id: str, grace: float) -> None:
        """Send SIGTERM, and SIGKILL after so many real seconds; ends with the usual `TaskEnded`.

        A task that has not started any container yet never will. Unknown ids are ignored.
        """

    @abstractmethod
    def lose(self, task_id: str, reason: str) -> None:
        """Kill a task at once, as if its host had gone: `TaskEnded` with this reason, no codes."""

    @abstractmethod
    def forget_network(self, network: str) -> None:
        """Remove the network of a multi-node job that is over; unknown names are ignored."""

    @abstractmethod
    def addresses(self) -> tuple[str, ...]:
        """Return addresses, besides loopback, at which containers reach this machine."""

    @abstractmethod
    def endpoint(self, port: int) -> str:
        """Return ``http://HOST:PORT``, the address of this machine as a container sees it."""

    @abstractmethod
    def close(self) -> None:
        """End everything that runs, and wait until nothing is left; harmless when repeated."""
