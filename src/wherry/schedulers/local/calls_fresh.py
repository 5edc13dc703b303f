"""Be like a fresh process after a fork: nothing of the parent's is left but what it has loaded."""

from __future__ import annotations

import gc
import os
import sys

from wherry.engine import signals
from wherry.schedulers.local import calls_mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, NoReturn

_LAST_SIGNAL = 64
_FLUSH_FAILED = 120
_INTERRUPTED = 130

BASE_PATH: list[str] = []
"""What this interpreter found modules in when it started; the host fills it."""


def close_others(*kept: int) -> None:
    """Close every descriptor but 0, 1, 2 and those named.

    The parent's locks are shared by a fork for as long as it holds them.
    """
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd > 2 and fd not in kept:
            try:
                os.close(fd)
            except OSError:
                pass  # The listing's own.


def settle_in(env: Mapping[str, str], argv: Sequence[str], syspath: Sequence[str]) -> None:
    """Take over an environment, arguments, a module path; and let go of the parent's handlers.

    Args:
        env: the whole environment.
        argv: the command that a process started afresh would have.
        syspath: the client's ``sys.path``.
    """
    calls_mark.mark(
        f"{name}={env[name]}" for name in ("WHERRY_APP_ID", "WHERRY_ATTEMPT_ID") if name in env
    )
    set_environ(env)
    default_signals()
    sys.argv = list(argv[1:])
    known = set(syspath)
    sys.path[:] = [*syspath, *(path for path in BASE_PATH if path not in known)]
    # Folders that were not there may be by now; the others are looked at anew when they change.
    importers = sys.path_importer_cache
    for path in [path for path, importer in importers.items() if importer is None]:
        del importers[path]
    main = type(sys)("__main__")
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = main
    gc.enable()


def set_environ(env: Mapping[str, str]) -> None:
    """Make ``os.environ`` equal to an environment."""
    current = os.environ
    for name in [name for name in current if name not in env]:
        del current[name]
    for name, value in env.items():
        if current.get(name) != value:
            current[name] = value


def default_signals() -> None:
    """Handle signals as an interpreter does that has just started."""
    signals.set_wakeup_fd(-1)
    for number in range(1, _LAST_SIGNAL + 1):
        if signals.handler_of(number) not in (signals.SIG_DFL, None):
            signals.handle(number, signals.SIG_DFL)
    signals.handle(signals.SIGINT, signals.interrupt)
    for number in (signals.SIGPIPE, signals.SIGXFSZ):
        signals.handle(number, signals.SIG_IGN)


def run(url: str, index: int, number: int, loaded: Any, control: str) -> NoReturn:
    """Run a call and end this process as an interpreter ends: threads, atexit, buffers.

    Args:
        url: of the call document.
        index: the child.
        number: the attempt.
        loaded: the call's function, when it is loaded already.
        control: the path of the supervisor's control pipe.
    """
    import faulthandler

    code = 1
    try:
        try:
            faulthandler.enable(2)
            reseed()
            from wherry.schedulers.local.calls_keeping import keeper
            from wherry.worker.running import run_call

            # The supervisor does what the worker's upper process does.
            keep = keeper(control)
            code = run_call(url, child=index, attempt=number, loaded=loaded, keep=keep)
        except SystemExit as request:
            code = _exit_code(request)
        except KeyboardInterrupt:
            sys.excepthook(*sys.exc_info())
            code = _INTERRUPTED
        except BaseException:  # noqa: BLE001 — the last place where it can be told
            sys.excepthook(*sys.exc_info())
        code = _wind_up(code)
    finally:
        os._exit(code)


def reseed() -> None:
    """Draw other random numbers than the siblings; `random` itself does so at each fork."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def _wind_up(code: int) -> int:
    """Do what an interpreter does before it ends; returns the exit code."""
    threading = sys.modules.get("threading")
    try:
        if threading is not None:
            threading._shutdown()  # noqa: SLF001 — as an interpreter ends
        import atexit

        atexit._run_exitfuncs()  # noqa: SLF001
    except BaseException:  # noqa: BLE001 — an interpreter prints it and goes on
        sys.excepthook(*sys.exc_info())
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            code = code or _FLUSH_FAILED
    return code & 0xFF


def _exit_code(request: SystemExit) -> int:
    if request.code is None:
        return 0
    if isinstance(request.code, int):
        return request.code
    sys.stderr.write(f"{request.code}\n")
    return 1
