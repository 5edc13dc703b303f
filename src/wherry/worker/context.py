"""What a call is told about itself: variables, folders, the nodes of a gang."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .formats import Call

MAIN_PORT = "29500"
_INDEX_NAMES = ("WHERRY_REPLICA_ID", "AWS_BATCH_JOB_ARRAY_INDEX", "AWS_BATCH_JOB_NODE_INDEX")
_ATTEMPT_NAMES = ("WHERRY_ATTEMPT", "AWS_BATCH_JOB_ATTEMPT")


def child_number(environ: Mapping[str, str]) -> int:
    """Return which replica this is; 0 where nothing says so."""
    return _first_number(environ, _INDEX_NAMES, 0)


def attempt_number(environ: Mapping[str, str]) -> int:
    """Return which attempt this is, from 1."""
    return _first_number(environ, _ATTEMPT_NAMES, 1)


def _first_number(environ: Mapping[str, str], names: tuple[str, ...], default: int) -> int:
    for name in names:
        text = environ.get(name, "")
        if text.isdigit():
            return int(text)
    return default


def gang_variables(environ: Mapping[str, str], rank: int, nodes: int) -> dict[str, str]:
    """Return what programs of several nodes look for: rank, world size, where rank 0 is."""
    main = environ.get("WHERRY_RANK0_HOST", "")
    if not main:
        main = environ.get("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS", "")
    if not main or rank == 0:
        # The main node is told its own address by nobody; it is here.
        main = main or "127.0.0.1"
    made = {
        "WHERRY_NODE_RANK": str(rank),
        "WHERRY_NUM_NODES": str(nodes),
        "NODE_RANK": str(rank),
        "RANK": str(rank),
        "WORLD_SIZE": str(nodes),
        "LOCAL_RANK": "0",
        "MASTER_ADDR": main,
        "MASTER_PORT": environ.get("MASTER_PORT", MAIN_PORT),
    }
    return {name: value for name, value in made.items() if name not in environ}


def set_up(call: Call, rank: int) -> None:
    """Set the call's variables, its working directory and where its modules are found.

    Raises:
        OSError: its working directory is not there.
    """
    os.environ.update(call.get("environ", {}))
    nodes = call.get("nodes", 0)
    if nodes > 1:
        os.environ.update(gang_variables(os.environ, rank, nodes))
    folder = call.get("cwd", "")
    if folder:
        os.chdir(folder)
    find_modules(call)


def find_modules(call: Call) -> None:
    """Put the call's folders in front of where modules are found."""
    folders = [os.path.abspath(folder) for folder in call.get("syspath", [])]
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]


def processors() -> int:
    """Return how many processes can run at once here: CPUs, or less where a quota says so."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:
        count = os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
        return max(1, min(count, round(int(quota) / int(period))))
    except (OSError, ValueError):
        return count
