"""The client's side of a host: one for each process that calls functions (see `host`).

A host is an interpreter like the client's own: same program, same flags, same limits, same
variables as far as an interpreter or a library reads them only when it starts. When one of these
has changed, the next app gets a new host. All else (variables, working directory, ``sys.path``)
goes along with each app.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock

from wherry.schedulers.local.calls_mark import ROOM, ROOM_ENV, fits
from wherry.schedulers.local.events import EVENTS_FILE
from wherry.specs.substitution import substitute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from wherry.schedulers.local.plan import CallPlan, Plan, RolePlan

CALL_KEY = "wherry.call"
"""The key of a role's metadata that says which function call its program runs."""

_CONTROL_FD = 3
_MOST_HOSTS = 4
_TRIES = 2
_STARTUP_NAMES = ("TZ", "LANG", "LANGUAGE")
_STARTUP_PREFIXES = ("PYTHON", "LC_", "LD_", "MALLOC_", "GLIBC_")
_LONGEST_NUMBER = 20
_LIMITS = 16
# sys.flags → the letter that sets it.
_FLAGS = {
    "isolated": "I",
    "ignore_environment": "E",
    "no_user_site": "s",
    "no_site": "S",
    "safe_path": "P",
    "dont_write_bytecode": "B",
    "optimize": "O",
    "bytes_warning": "b",
}


class HostGoneError(Exception):
    """The host ended before it had begun an app; nothing of it has run."""


class _Host:
    """A line to a host."""

    def __init__(self) -> None:
        import _socket as kernel_socket
        import fcntl
        import marshal

        ours, theirs = kernel_socket.socketpair(kernel_socket.AF_UNIX, kernel_socket.SOCK_SEQPACKET)
        source = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, _CONTROL_FD + 1)
        theirs.close()
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        # A pipe that nobody reads: Python's streams are made for what they find at its start, and
        # in the forks it will be a pipe.
        nobody, output = os.pipe()
        script = os.path.join(os.path.dirname(__file__), "host_start.py")
        python = sys.executable or "python3"
        try:
            ours.send(marshal.dumps((os.getpid(), [*map(os.path.abspath, sys.path)])))
            self.pid = os.posix_spawn(
                python,
                [python, *_interpreter_flags(), script],
                # The last variable is where forks show what they are (`calls_mark`).
                {**os.environ, ROOM_ENV: "." * ROOM},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, null, 0),
                    (os.POSIX_SPAWN_DUP2, output, 1),
                    (os.POSIX_SPAWN_DUP2, output, 2),
                    (os.POSIX_SPAWN_DUP2, source, _CONTROL_FD),
                ],
                setsid=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            for fd in (source, null, nobody, output):
                os.close(fd)
        # A number: nobody complains of it when this process ends.
        self.line = ours.detach()

    def begin(self, handed: tuple[int, int, int, int]) -> None:
        """Have it begin an app with these descriptors.

        Raises:
            OSError: it is gone.
        """
        import _socket as kernel_socket

        packed = b"".join(fd.to_bytes(4, sys.byteorder) for fd in handed)
        rights = (kernel_socket.SOL_SOCKET, kernel_socket.SCM_RIGHTS, packed)
        line = kernel_socket.socket(fileno=self.line)
        try:
            line.sendmsg([b"app"], [rights], kernel_socket.MSG_NOSIGNAL)
        finally:
            line.detach()

    def let_go(self) -> None:
        """Close the line; a host without one ends."""
        fd, self.line = self.line, -1
        if fd >= 0:
            os.close(fd)

    def close(self) -> None:
        """Let the host end."""
        self.let_go()
        try:
            os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            pass


_hosts: dict[object, _Host] = {}
_lock = allocate_lock()
_watches_forks = False


def call_plan(metadata: Mapping[str, Any]) -> CallPlan | None:
    """Return the function call that a role stands for, if it stands for one.

    As in a role's arguments, ``$$`` in its texts stands for one dollar.
    """
    call = metadata.get(CALL_KEY)
    if call is None:
        return None
    return {
        "url": substitute(call["url"], {}),
        "syspath": [substitute(path, {}) for path in call.get("syspath") or ()],
        "cwd": substitute(call.get("cwd") or "", {}),
        "umask": _umask(),
    }


def _umask() -> int | None:
    """Return this process's umask without a moment in which it has another (proc(5), status)."""
    try:
        with open("/proc/self/status", "rb", buffering=0) as file:
            _, found, rest = file.read(1024).partition(b"\nUmask:")
    except OSError:
        return None
    return int(rest.split(None, 1)[0], 8) if found else None


def has_calls(plan: Plan) -> bool:
    """Tell whether an app has roles that a host can run."""
    return any(role.get("call") for role in plan["roles"])


def warm_plan(plan: Plan) -> Plan:
    """Return the plan for a host; roles that need an interpreter of their own get one."""
    roles = [
        {**role, "call": None} if _needs_own_interpreter(plan, role) else role
        for role in plan["roles"]
    ]
    return {**plan, "roles": roles, "environ": dict(os.environ)}  # type: ignore[typeddict-item]


def cold_plan(plan: Plan) -> Plan:
    """Return the plan for a supervisor without a host: each call is a program."""
    roles = [{**role, "call": None} for role in plan["roles"]]
    return {**plan, "roles": roles}  # type: ignore[typeddict-item]


def spawn(directory: str, plan: int, events: int, ready: int, attach: int) -> None:  # noqa: ARG001
    """Have a guard forked with these descriptors.

    Raises:
        HostGoneError: there is no host, and none can be started.
    """
    for _ in range(_TRIES):
        try:
            _host().begin((plan, events, ready, attach))
            return
        except OSError:
            _forget_all()
    raise HostGoneError


def require_begun(directory: str) -> None:
    """Make sure that an app without a word from its supervisor has at least had one.

    Raises:
        HostGoneError: it has not; nothing of it has run.
    """
    if not os.path.getsize(f"{directory}/{EVENTS_FILE}"):
        raise HostGoneError


def warm_up() -> None:
    """Start this process's host if there is none yet, and do not wait for it.

    One that cannot be started is nobody's trouble before it is needed.
    """
    if _hosts:
        return  # Whether it is still the right one is looked at when it is needed.
    try:
        _host()
    except OSError:
        pass


def _host() -> _Host:
    """Return this process's host; starts it if need be, and does not wait for it.

    Raises:
        OSError: it cannot be started.
    """
    global _watches_forks
    key = _surroundings()
    with _lock:
        host = _hosts.get(key)
        if host is None:
            if not _watches_forks:
                os.register_at_fork(after_in_child=_forget_parents)
                _watches_forks = True
            while len(_hosts) >= _MOST_HOSTS:
                _hosts.pop(next(iter(_hosts))).close()
            host = _hosts[key] = _Host()
        return host


def _forget_all() -> None:
    with _lock:
        for host in _hosts.values():
            host.close()
        _hosts.clear()


def _forget_parents() -> None:
    """A forked client has no host: its parent's is to end with the parent."""
    global _lock
    _lock = allocate_lock()
    for host in _hosts.values():
        host.let_go()
    _hosts.clear()


def _surroundings() -> object:
    """Return what a process inherits and cannot be told later."""
    import resource

    return (
        tuple(sorted(_startup_variables(os.environ).items())),
        tuple(resource.getrlimit(number) for number in range(_LIMITS)),
        frozenset(os.sched_getaffinity(0)),
        sys.executable,
    )


def _startup_variables(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if name.startswith(_STARTUP_PREFIXES) or name in _STARTUP_NAMES
    }


def _needs_own_interpreter(plan: Plan, role: RolePlan) -> bool:
    """Tell whether a role's own variables come too late for an interpreter that runs already."""
    attempt = f"WHERRY_ATTEMPT_ID={plan['app_id']}/{role['name']}/" + "0" * _LONGEST_NUMBER
    own = _startup_variables(role["env"])
    return any(os.environ.get(name) != value for name, value in own.items()) or not fits(
        (f"WHERRY_APP_ID={plan['app_id']}", attempt)
    )


def _interpreter_flags() -> list[str]:
    flags = [
        "-" + letter * int(count)
        for name, letter in _FLAGS.items()
        if (count := getattr(sys.flags, name, 0))
    ]
    options = sys._xoptions.items()  # noqa: SLF001 — no public name
    flags += [f"-X{name}" if value is True else f"-X{name}={value}" for name, value in options]
    return flags + [f"-W{option}" for option in sys.warnoptions]
