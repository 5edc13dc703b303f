"""The options of the Docker scheduler, as data, and their reading into typed values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from wherry.errors import InvalidOptionError
from wherry.specs.options import CfgVal, runopts

ALL_GPUS = "all"
_LEAST_SHM_MIB = 1


def docker_opts() -> runopts:
    """Return the options of the Docker scheduler."""
    opts = runopts()
    opts.add(
        "copy_env",
        type_=list,
        default=[],
        help="variables of this environment that containers get too, by name or pattern "
        "(FOO_*;HOME); what the app sets itself goes before",
    )
    opts.add(
        "env",
        type_=dict,
        default={},
        help="variables for all containers (A:1;B:2), over those of copy_env; what the app sets "
        "itself goes before",
    )
    opts.add(
        "privileged",
        type_=bool,
        default=False,
        help="run the containers with the host's privileges, as `docker run --privileged` does",
    )
    opts.add("user", help="the user inside: name or number, with :group; the image's when not set")
    opts.add("workdir", help="the working directory inside; the image's when not set")
    opts.add(
        "init",
        type_=bool,
        help="run a small init process above the program, which passes signals on and reaps what "
        "the program leaves; when not set, wherever the Engine has one",
    )
    opts.add(
        "network",
        help="an existing network, host or none; when not set, a gang of several replicas gets "
        "a network of its own and all others are in the Engine's bridge",
    )
    opts.add(
        "pull",
        default="missing",
        choices=("always", "missing", "never"),
        help="when images are pulled",
    )
    opts.add("platform", help="the platform of the images, such as linux/arm64")
    opts.add(
        "gpus",
        type_=list,
        default=[],
        help="the GPUs of every container: all, or ids (0;1); when not set, as many as the role's "
        "resource asks for",
    )
    opts.add(
        "shm_size",
        type_=int,
        help="MiB of shared memory (/dev/shm); when not set, as much as the role's memory, or "
        "Docker's own default of 64",
    )
    opts.add(
        "bind",
        default="127.0.0.1",
        help="the address of this machine that the ports of port_map are published at; 0.0.0.0 "
        "lets other machines in",
    )
    opts.add(
        "max_parallel",
        type_=int,
        help="how many replicas of an array run at the same time; as many as the Engine's machine "
        "has cores for when not set",
    )
    opts.add(
        "grace",
        type_=float,
        default=10.0,
        help="seconds between asking a program to end (SIGTERM, or the image's own signal) and "
        "killing it (SIGKILL)",
    )
    opts.add(
        "disk_patience",
        type_=float,
        default=30.0,
        help="seconds that a program is held back while the disk is too full for its log, before "
        "it is ended",
    )
    opts.add(
        "log_dir",
        help="folder for the logs, in a subfolder named after the app; kept with the app's "
        "record when not set. Never deleted.",
    )
    return opts


@dataclass(frozen=True)
class Options:
    """The options, read and checked; `docker_opts` says what each is for."""

    copy_env: list[str] = field(default_factory=list)
    env: Mapping[str, str] = field(default_factory=dict)
    privileged: bool = False
    user: str | None = None
    workdir: str | None = None
    init: bool | None = None
    network: str | None = None
    pull: str = "missing"
    platform: str | None = None
    gpus: list[str] = field(default_factory=list)
    shm_size: int | None = None
    bind: str = "127.0.0.1"
    max_parallel: int | None = None
    grace: float = 10.0
    disk_patience: float = 30.0
    log_dir: str | None = None


def read_options(cfg: Mapping[str, CfgVal]) -> Options:
    """Read and check options.

    Args:
        cfg: values by name, resolved or not.

    Raises:
        InvalidOptionError: an option is unknown, of the wrong type, or cannot be right.
    """
    options = Options(**docker_opts().resolve(cfg))  # type: ignore[arg-type]  # their own types
    _check(options)
    return options


def _check(options: Options) -> None:
    for name in ("grace", "disk_patience"):
        value = getattr(options, name)
        if not 0 <= value < math.inf:
            raise InvalidOptionError(f"option {name!r} must be seconds, 0 or more, not {value!r}")
    for name, least in (("max_parallel", 1), ("shm_size", _LEAST_SHM_MIB)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise InvalidOptionError(f"option {name!r} must be {least} or more, not {value!r}")
    if options.workdir is not None and not options.workdir.startswith("/"):
        raise InvalidOptionError(
            f"option 'workdir' takes a path that begins with '/', not {options.workdir!r}"
        )
    _check_gpus(options.gpus)
    _check_address(options.bind)


def _check_gpus(gpus: list[str]) -> None:
    if ALL_GPUS in gpus and len(gpus) > 1:
        raise InvalidOptionError(f"option 'gpus' takes all, or ids, not both: {';'.join(gpus)!r}")
    for gpu in gpus:
        if gpus.count(gpu) > 1:
            raise InvalidOptionError(f"option 'gpus' names the GPU {gpu!r} twice")


def _check_address(address: str) -> None:
    import ipaddress

    try:
        ipaddress.ip_address(address)
    except ValueError:
        raise InvalidOptionError(
            f"option 'bind' takes an IP address such as 127.0.0.1 or 0.0.0.0, not {address!r}"
        ) from None
