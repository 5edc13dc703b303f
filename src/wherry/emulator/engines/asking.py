"""What a process can be of a container: the plan that the agent gets, and what is left out of it.

A process sees this machine: its files, its programs, its user. What a container would get and a
process does not is said in a sentence, once; nothing is dropped in silence.
"""

from __future__ import annotations

import functools
import os
import resource
from collections.abc import Callable, Iterator

from wherry.emulator.engines.api import Container, Mount, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wherry.emulator.engines.plan import ContainerPlan, MountPlan, TaskPlan

_NO_COMMAND = (
    "CannotStartContainerError: the process engine has no image to take a command from; "
    "give the job a command, or use the Docker engine"
)
_UNKNOWN_ULIMIT = "CannotCreateContainerError: invalid ulimit type: {0}"
_MEBIBYTE = 1 << 20
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

ULIMITS = {
    "core": resource.RLIMIT_CORE,
    "cpu": resource.RLIMIT_CPU,
    "data": resource.RLIMIT_DATA,
    "fsize": resource.RLIMIT_FSIZE,
    "locks": 10,  # RLIMIT_LOCKS, which Python has no name for
    "memlock": resource.RLIMIT_MEMLOCK,
    "msgqueue": resource.RLIMIT_MSGQUEUE,
    "nice": resource.RLIMIT_NICE,
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
    "rss": resource.RLIMIT_RSS,
    "rtprio": resource.RLIMIT_RTPRIO,
    "rttime": resource.RLIMIT_RTTIME,
    "sigpending": resource.RLIMIT_SIGPENDING,
    "stack": resource.RLIMIT_STACK,
}
"""The names that ECS has for limits."""

_CAN_RAISE_LIMITS = 24  # CAP_SYS_RESOURCE, capabilities(7)

LEFT_OUT: tuple[tuple[Callable[[Container], object], str], ...] = (
    (
        lambda container: container.image,
        "Images are ignored: commands run as processes of this machine, with its programs.",
    ),
    (
        lambda container: container.vcpus,
        "vCPUs are counted when a job is placed, and do not slow its processes down.",
    ),
    (
        lambda container: container.memory_mib,
        (
            "Memory is looked at four times a second: a job that passes its limit is killed, but "
            "may hold more for a moment."
        ),
    ),
    (
        lambda container: container.gpus,
        "GPUs are counted when a job is placed, and not given out: a process sees all of them.",
    ),
    (
        lambda container: container.user,
        "`user` is ignored: processes run as the emulator's user.",
    ),
    (
        lambda container: container.privileged,
        "`privileged` is ignored: processes have the rights of the emulator's user.",
    ),
    (
        lambda container: container.read_only_root,
        "`readonlyRootFilesystem` is ignored: a process can write where the emulator's user can.",
    ),
    (
        lambda container: container.tmpfs or container.shm_mib,
        "`tmpfs` and `sharedMemorySize` are ignored: processes have this machine's /dev/shm.",
    ),
    (
        lambda container: container.devices,
        "`devices` are ignored: processes have those of this machine.",
    ),
    (
        lambda container: container.max_swap_mib >= 0 or container.swappiness >= 0,
        "`maxSwap` and `swappiness` are ignored: processes have this machine's swap.",
    ),
    (
        lambda container: container.working_dir,
        "A working directory is a folder of that name in the task's own folder.",
    ),
    (
        lambda container: any(mount.source != mount.target for mount in container.mounts),
        (
            "A mount is a link in the folder that the job starts in: /data is found as data, since "
            "a process sees this machine's own root. Where source and target are the same path, "
            "it is found there."
        ),
    ),
    (
        lambda container: any(mount.read_only for mount in container.mounts),
        "Mounts can be written to even if they are read-only in the job definition.",
    ),
    (
        lambda container: _nested(container.mounts),
        "A mount below another mount is left out.",
    ),
    (
        lambda container: any(
            _is_too_high(hard, number) for number, _, hard in _known(container.ulimits)
        ),
        "ulimits above those of the emulator are lowered to them: only root may raise them.",
    ),
)
"""What is left out: when it concerns a container, and the sentence."""


def plan_for(task: Task, base: dict[str, str]) -> TaskPlan:
    """Return what the agent is to do for a task.

    Args:
        task: what ECS would run.
        base: the environment that lies below that of each container.
    """
    return {
        "id": task.id,
        "ends_with_all": task.ends_with == "all",
        "containers": [_container(container, base) for container in task.containers],
        "fault": task.start_fault,
    }


def base_environment() -> dict[str, str]:
    """Return what every process gets of the emulator's own environment: nothing that is a secret.

    ``HOME`` and ``TMPDIR`` come from the task's folder.
    """
    return {
        "PATH": os.environ.get("PATH") or _DEFAULT_PATH,
        "LANG": os.environ.get("LANG") or "C.UTF-8",
    }


def _container(container: Container, base: dict[str, str]) -> ContainerPlan:
    return {
        "name": container.name,
        "argv": [*container.entrypoint, *container.command],
        "base": base,
        "env": dict(container.env),
        "working_dir": container.working_dir,
        "memory": container.memory_mib * _MEBIBYTE,
        "limits": list(_limits(container)),
        "mounts": [_mount(mount) for mount in _shown(container.mounts)],
        "essential": container.essential,
        "depends_on": [(need.container, need.condition) for need in container.depends_on],
        "start_timeout": container.start_timeout,
        "stop_timeout": container.stop_timeout,
        "problem": _problem(container),
    }


def _problem(container: Container) -> str:
    if not (container.entrypoint or container.command):
        return _NO_COMMAND
    for name, _, _ in container.ulimits:
        if name not in ULIMITS:
            return _UNKNOWN_ULIMIT.format(name)
    return ""


def _limits(container: Container) -> Iterator[tuple[int, int, int]]:
    for number, soft, hard in _known(container.ulimits):
        most = _allowed(number)
        yield number, _lower(soft, most), _lower(hard, most)


def _known(ulimits: tuple[tuple[str, int, int], ...]) -> Iterator[tuple[int, int, int]]:
    return ((ULIMITS[name], soft, hard) for name, soft, hard in ulimits if name in ULIMITS)


def _mount(mount: Mount) -> MountPlan:
    return {"target": mount.target, "source": mount.source, "volume": mount.volume}


def _shown(mounts: tuple[Mount, ...]) -> list[Mount]:
    nested = _nested(mounts)
    return [mount for mount in mounts if mount.source != mount.target and mount not in nested]


def _nested(mounts: tuple[Mount, ...]) -> list[Mount]:
    targets = [os.path.normpath(mount.target) for mount in mounts]
    return [
        mount
        for mount in mounts
        if any(os.path.normpath(mount.target).startswith(f"{target}/") for target in targets)
    ]


def _is_too_high(value: int, number: int) -> bool:
    return _lower(value, _allowed(number)) != value


def _allowed(number: int) -> int:
    """Return the highest limit that a process here may be given; -1 for any."""
    return resource.RLIM_INFINITY if _may_raise_limits() else resource.getrlimit(number)[1]


def _lower(value: int, most: int) -> int:
    if most == resource.RLIM_INFINITY:
        return value
    return most if value == resource.RLIM_INFINITY else min(value, most)


@functools.cache
def _may_raise_limits() -> bool:
    with open("/proc/self/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    return bool(int(fields["CapEff"], 16) >> _CAN_RAISE_LIMITS & 1)
