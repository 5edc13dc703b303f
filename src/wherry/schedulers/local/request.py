"""From an app to a request, and from a request to what the supervisor is sent."""

from __future__ import annotations

import math
import os
import resource as rlimits
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wherry.errors import InvalidSpecError, LaunchError, nearest, unknown
from wherry.schedulers.local.gpus import gpu_pool
from wherry.schedulers.local.host_client import call_plan
from wherry.schedulers.shipping import FOLDER_KEY
from wherry.specs.app import AppDef, RetryPolicy, RetryScope, Role
from wherry.specs.handles import parse_app_handle
from wherry.specs.macro import macros
from wherry.specs.options import CfgVal, runopts
from wherry.specs.plain import to_plain

if TYPE_CHECKING:
    from wherry.schedulers.local.images import ImageProvider
    from wherry.schedulers.local.plan import CallPlan, RolePlan

RANK0_ENV = "WHERRY_RANK0_HOST"
SUPERVISED = ("local_cwd", "local_dir", "local_docker")
"""The schedulers whose apps are supervised on this machine, and can wait for each other."""

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_DIGITS = 9
_RANDOM_DIGITS = 4
_LIMITS = {
    name.removeprefix("RLIMIT_").lower(): number
    for name, number in vars(rlimits).items()
    if name.startswith("RLIMIT_")
}


def local_opts() -> runopts:
    """Return the options of the local schedulers."""
    opts = runopts()
    opts.add(
        "log_dir",
        help="folder for the logs, in a subfolder named after the app; kept with the app's "
        "record when not set. Never deleted.",
    )
    opts.add(
        "prepend_cwd",
        type_=bool,
        default=False,
        help="put the current working directory first in PATH",
    )
    opts.add(
        "auto_set_cuda_visible_devices",
        type_=bool,
        default=False,
        help="give each replica GPUs of its own, as many as its role asks for, through "
        "CUDA_VISIBLE_DEVICES",
    )
    opts.add(
        "max_parallel",
        type_=int,
        help="how many replicas of an array run at the same time; as many as the machine has "
        "cores for when not set",
    )
    opts.add(
        "grace",
        type_=float,
        default=10.0,
        help="seconds between asking a program to end (SIGTERM) and killing it (SIGKILL)",
    )
    opts.add(
        "disk_patience",
        type_=float,
        default=30.0,
        help="seconds that a program is held back while the disk is too full for its log, before "
        "it is ended",
    )
    return opts


@dataclass
class RoleRequest:
    """One role of a request; each field may be edited before it is scheduled.

    Args:
        name: the role's name.
        replicas: how many copies.
        args: the program and its arguments; ``${replica_id}`` and ``$$`` are replaced at start.
        env: variables on top of the client's environment.
        cwd: the working directory.
        min_replicas: how many must live for a gang to go on.
        max_retries: attempts beyond the first.
        retry_policy: what is retried.
        cores: what a replica of an array takes of the machine's cores.
        gpus: how many GPUs each replica is given.
        ulimits: limit → soft and hard value.
        secrets: variable → ``env:NAME`` or ``file:PATH``.
        call: the function call that the program runs, when a fork may run it instead.
    """

    name: str
    replicas: int
    args: list[str]
    env: dict[str, str]
    cwd: str
    min_replicas: int
    max_retries: int = 0
    retry_policy: RetryPolicy = RetryPolicy.APPLICATION
    cores: int = 1
    gpus: int = 0
    ulimits: dict[str, tuple[int, int]] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    call: CallPlan | None = None


@dataclass
class LocalRequest:
    """What a local scheduler starts; each field may be edited before it is scheduled.

    Args:
        app_id: the app's id.
        roles: its roles.
        array: whether replicas are independent.
        log_dir: the folder of this app's logs; beside its record when ``None``.
        timeout: seconds that an attempt may take.
        grace: seconds between SIGTERM and SIGKILL.
        disk_patience: seconds that a full disk may hold a program back.
        max_parallel: how many replicas of an array run at once.
        depends_on: handles of apps that must have succeeded.
    """

    app_id: str
    roles: list[RoleRequest]
    array: bool = False
    log_dir: str | None = None
    timeout: float | None = None
    grace: float = 10.0
    disk_patience: float = 30.0
    max_parallel: int | None = None
    depends_on: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        import json

        return json.dumps(to_plain(self), indent=2)


def make_request(
    app: AppDef,
    cfg: Mapping[str, CfgVal],
    provider: ImageProvider,
    extra_paths: Iterable[str],
    now: float | None = None,
) -> tuple[LocalRequest, list[str]]:
    """Turn an app into a request.

    Args:
        app: the app.
        cfg: resolved run options.
        provider: what images mean.
        extra_paths: folders to put into ``PATH``.
        now: seconds since the epoch; part of the app's id.

    Returns:
        The request, and what will not be honoured, in words.

    Raises:
        InvalidSpecError: the app asks for something that cannot be had here.
    """
    grace, disk_patience = _seconds(cfg, "grace"), _seconds(cfg, "disk_patience")
    max_parallel = cfg["max_parallel"]
    if max_parallel is not None and (not isinstance(max_parallel, int) or max_parallel < 1):
        raise InvalidSpecError(f"option 'max_parallel' must be 1 or more, not {max_parallel!r}")
    app_id = make_app_id(app.name, now)
    log_dir = cfg["log_dir"]
    if log_dir is not None:
        log_dir = os.path.join(os.path.abspath(os.path.expanduser(str(log_dir))), app_id)
    paths = [*extra_paths, *([os.getcwd()] if cfg["prepend_cwd"] else [])]
    request = LocalRequest(
        app_id=app_id,
        roles=[_make_role(role, app_id, cfg, provider, paths) for role in app.roles],
        array=app.array,
        log_dir=log_dir,
        timeout=app.timeout,
        grace=grace,
        disk_patience=disk_patience,
        max_parallel=max_parallel,
        depends_on=list(app.depends_on),
    )
    for handle in app.depends_on:
        require_local(handle)
    return request, [warning for role in app.roles for warning in _warnings(role, app)]


def _seconds(cfg: Mapping[str, CfgVal], name: str) -> float:
    value = cfg[name]
    if not isinstance(value, float) or not 0 <= value < math.inf:
        raise InvalidSpecError(f"option {name!r} must be seconds, 0 or more, not {value!r}")
    return value


def make_app_id(name: str, now: float | None = None) -> str:
    """Make an id that sorts by time among the ids of one name, and that nobody else makes."""
    moment = int((time.time() if now is None else now) * 1000)
    number = (moment << 5 * _RANDOM_DIGITS) | _random_bits(5 * _RANDOM_DIGITS)
    digits = []
    for _ in range(_TIME_DIGITS + _RANDOM_DIGITS):
        digits.append(_DIGITS[number & 31])
        number >>= 5
    return f"{name}-{''.join(reversed(digits))}"


def _random_bits(count: int) -> int:
    return int.from_bytes(os.urandom(8), "big") >> (64 - count)


def _make_role(
    role: Role,
    app_id: str,
    cfg: Mapping[str, CfgVal],
    provider: ImageProvider,
    paths: list[str],
) -> RoleRequest:
    workspace = str(role.metadata.get(FOLDER_KEY, ""))
    img_root = workspace or provider.fetch_role(role)
    values = macros.Values(img_root, app_id, None, RANK0_ENV)
    param = provider.get_replica_param(img_root, values.apply_to_role(role))
    env = dict(param.env)
    if paths:
        env["PATH"] = os.pathsep.join([*paths, env.get("PATH", os.environ.get("PATH", ""))])
    for name in role.ulimits:
        if name not in _LIMITS:
            raise InvalidSpecError(unknown(f"ulimit of role {role.name!r}:", name, _LIMITS))
    check_secrets(role)
    return RoleRequest(
        name=role.name,
        replicas=role.num_replicas,
        args=list(param.args),
        env=env,
        cwd=workspace or param.cwd or os.getcwd(),
        min_replicas=role.min_replicas or role.num_replicas,
        max_retries=role.max_retries,
        retry_policy=role.retry_policy,
        cores=min(max(1, math.ceil(role.resource.cpu)), machine_cores()),
        gpus=role.resource.gpu if cfg["auto_set_cuda_visible_devices"] else 0,
        ulimits=dict(role.ulimits),
        secrets=dict(role.secrets),
        call=call_plan(role.metadata),
    )


def check_secrets(role: Role) -> None:
    """Refuse a secret that is kept where this machine cannot read it.

    Raises:
        InvalidSpecError: there is one.
    """
    for name, reference in role.secrets.items():
        if not reference.startswith(("env:", "file:")):
            raise InvalidSpecError(
                f"role {role.name!r}: the secret {name} is kept at {reference!r}; on this machine "
                "secrets are env:NAME or file:PATH"
            )


def _warnings(role: Role, app: AppDef) -> Iterable[str]:
    where = f"role {role.name!r}"
    if role.mounts:
        yield f"{where}: mounts are ignored; programs here see this machine's own files"
    if role.resource.devices:
        names = ", ".join(role.resource.devices)
        yield f"{where}: devices are ignored: {names}"
    if app.array and role.resource.cpu > machine_cores():
        yield (
            f"{where} asks for {role.resource.cpu:g} cores a replica and this machine has "
            f"{machine_cores()}; replicas run one at a time"
        )


def require_local(handle: str) -> None:
    """Refuse a dependency on an app that has no record on this machine.

    Raises:
        InvalidSpecError: it is one.
    """
    scheduler = parse_app_handle(handle).scheduler
    if scheduler not in SUPERVISED:
        raise InvalidSpecError(
            f"a local app can depend on apps of this machine ({', '.join(SUPERVISED)}), "
            f"not {handle!r}"
        )


def machine_cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0))


def role_plan(role: RoleRequest) -> RolePlan:
    """Turn a role's request into what the supervisor is sent.

    Raises:
        LaunchError: the program or a secret is not there.
    """
    env = {
        **role.env,
        **{name: read_secret(role.name, name, ref) for name, ref in role.secrets.items()},
    }
    if not os.path.isdir(role.cwd):
        raise LaunchError(f"role {role.name!r}: the folder {role.cwd!r} does not exist")
    return {
        "name": role.name,
        "program": find_program(role.args[0], env, role),
        "argv": list(role.args),
        "env": env,
        "cwd": role.cwd,
        "replicas": role.replicas,
        "min_replicas": role.min_replicas,
        "retries": role.max_retries,
        "retry_alone": role.retry_policy.scope is RetryScope.REPLICA,
        "rules": [rule.as_tuple() for rule in role.retry_policy.rules],
        "cores": role.cores,
        "gpus": role.gpus,
        "limits": [(_LIMITS[name], *pair) for name, pair in role.ulimits.items()],
        "container": None,
        "call": role.call,
    }


def checked_gpu_pool(roles: Iterable[RoleRequest], *, array: bool) -> list[str]:
    """List the GPUs to give out, when a role asks for some.

    Raises:
        LaunchError: this machine has fewer than are asked for at once.
    """
    asking = [role for role in roles if role.gpus]
    if not asking:
        return []
    pool, why = gpu_pool()
    for role in asking:
        if role.gpus > len(pool):
            raise LaunchError(
                f"role {role.name!r} asks for {role.gpus} GPU(s) a replica and this machine has "
                f"{len(pool)} to give ({why}); ask for fewer, or leave out "
                "auto_set_cuda_visible_devices"
            )
    total = sum(role.gpus * role.replicas for role in asking)
    if not array and total > len(pool):
        raise LaunchError(
            f"the gang asks for {total} GPUs at once and this machine has {len(pool)} to give "
            f"({why}); ask for fewer, or run it as an array"
        )
    return pool


def find_program(name: str, env: Mapping[str, str], role: RoleRequest) -> str:
    """Return the path of a program, looked up as a shell would.

    Raises:
        LaunchError: there is none, or it is not executable.
    """
    replica = name.replace("${replica_id}", "0")
    if "/" in replica:
        path = os.path.join(role.cwd, replica)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.join(role.cwd, name)
        raise LaunchError(f"role {role.name!r}: {_what_is_wrong(path)}")
    folders = env.get("PATH", os.environ.get("PATH", os.defpath)).split(os.pathsep)
    found = _search(replica, folders, os.path.isfile)
    if found:
        return found
    if replica in ("python", "python3"):
        return sys.executable
    if os.path.isfile(os.path.join(role.cwd, replica)):
        hint = f"there is one in {role.cwd}: write './{replica}'"
    else:
        close = nearest(replica, _program_names(folders))
        hint = f"did you mean {close!r}?" if close else "it is in no folder of PATH"
    raise LaunchError(f"role {role.name!r}: no program {replica!r}; {hint}")


def _search(name: str, folders: list[str], is_file: Callable[[str], bool]) -> str:
    for folder in folders:
        path = os.path.join(folder or ".", name)
        if is_file(path) and os.access(path, os.X_OK):
            return os.path.abspath(path)
    return ""


def _program_names(folders: list[str]) -> set[str]:
    names: set[str] = set()
    for folder in folders:
        try:
            names.update(os.listdir(folder))
        except OSError:
            continue
    return names


def _what_is_wrong(path: str) -> str:
    if os.path.isdir(path):
        return f"{path!r} is a folder, not a program"
    if os.path.exists(path):
        return f"{path!r} is not executable; `chmod +x` makes it so"
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        return f"no program {path!r}; the folder {folder!r} does not exist"
    close = nearest(os.path.basename(path), os.listdir(folder))
    hint = f"; did you mean {os.path.join(folder, close)!r}?" if close else ""
    return f"no program {path!r}{hint}"


def read_secret(role: str, name: str, reference: str) -> str:
    """Read a secret where it is kept.

    Args:
        role: whose it is, for the message.
        name: the variable that it will be in.
        reference: ``env:NAME`` or ``file:PATH``.

    Raises:
        LaunchError: it is not there.
    """
    kind, _, place = reference.partition(":")
    if kind == "env":
        if place not in os.environ:
            raise LaunchError(
                f"role {role!r}: the secret {name} is kept in the environment variable {place}, "
                "which is not set"
            )
        return os.environ[place]
    try:
        with open(os.path.expanduser(place), encoding="utf-8") as file:
            return file.read().rstrip("\n")
    except OSError as error:
        raise LaunchError(
            f"role {role!r}: the secret {name} could not be read from {place}: {error.strerror}"
        ) from None
