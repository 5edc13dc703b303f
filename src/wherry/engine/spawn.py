"""Start one command as a process of its own session, and say so when it could not be started."""

from __future__ import annotations

import os
import resource

from wherry.engine import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import NoReturn

_EXIT_CODES = {2: 127, 20: 127}  # ENOENT, ENOTDIR; as a shell reports them
_CANNOT_EXECUTE = 126

_WORDS = {
    2: "no such program",
    8: "not a program (a script needs a first line such as #!/bin/sh)",
    13: "not executable (chmod +x makes it so)",
}


class StartError(Exception):
    """The command could not be started.

    Args:
        stage: what was being done: ``"fork"``, ``"chdir"``, ``"limit"`` or ``"exec"``.
        code: the errno.
        what: the path or name that it was about.
    """

    def __init__(self, stage: str, code: int, what: str) -> None:
        self.stage = stage
        self.code = code
        words = _WORDS.get(code, os.strerror(code).lower()) if stage == "exec" else ""
        super().__init__(f"could not start {what}: {words or os.strerror(code).lower()}")

    @property
    def exit_code(self) -> int:
        """What a shell would report: 127 for a program that is missing, 126 otherwise."""
        return _EXIT_CODES.get(self.code, _CANNOT_EXECUTE)


class Forked(BaseException):
    """Leaves the frames of the process that forked, in a child that becomes no other program.

    Args:
        work: what the child does at the bottom of its stack; never returns.
    """

    def __init__(self, work: Callable[[], NoReturn]) -> None:
        super().__init__()
        self.work = work


class Command:
    """What to start.

    Args:
        program: path of the file to execute.
        argv: the arguments, the program's own name first.
        env: the whole environment.
        cwd: the working directory.
        limits: resource number, soft and hard limit (``RLIM_INFINITY`` is -1).
    """

    __slots__ = ("argv", "cwd", "env", "limits", "program")

    def __init__(
        self,
        program: str,
        argv: list[str],
        env: Mapping[str, str],
        cwd: str,
        limits: Sequence[tuple[int, int, int]] = (),
    ) -> None:
        self.program = program
        self.argv = argv
        self.env = env
        self.cwd = cwd
        self.limits = limits

    def start(self, stdin: int, stdout: int, stderr: int) -> Spawned:
        """Begin to start it; see `Spawned`.

        Raises:
            StartError: there can be no more processes.
        """
        return Spawned(self, stdin, stdout, stderr)

    def enter(self, report: int) -> NoReturn:  # noqa: ARG002 — for those that do not exec
        """Become it, in the child that was forked for it.

        Args:
            report: the descriptor whose end says that the command runs.
        """
        os.execve(self.program, self.argv, self.env)


class Spawned:
    """A process on its way to become a command; `confirm` tells whether it did.

    Args:
        command: what to start.
        stdin, stdout, stderr: descriptors that become its 0, 1 and 2.

    Attributes:
        pid: the process, which leads a session and a group of its own. It dies with this one,
            even when this one is killed.

    Raises:
        StartError: there can be no more processes.
    """

    __slots__ = ("_command", "_report", "pid")

    def __init__(self, command: Command, stdin: int, stdout: int, stderr: int) -> None:
        self._command = command
        parent = os.getpid()
        self._report, report_write = os.pipe2(os.O_CLOEXEC)
        try:
            self.pid = os.fork()
        except OSError as error:
            os.close(self._report)
            os.close(report_write)
            raise StartError("fork", error.errno or 0, command.program) from None
        if self.pid == 0:
            _become(command, parent, report_write, (stdin, stdout, stderr))
        os.close(report_write)

    def confirm(self) -> None:
        """Wait until the command runs.

        Raises:
            StartError: it could not be started; no process is left.
        """
        # Empty once the program has replaced us: the descriptor closes itself on exec.
        report = os.read(self._report, 4096)
        os.close(self._report)
        if report:
            os.waitpid(self.pid, 0)
            stage, code, what = report.decode(errors="surrogateescape").split("\0")
            raise StartError(stage, int(code), what)


def _become(command: Command, parent: int, report: int, streams: tuple[int, int, int]) -> None:
    """Turn the forked child into the command; never returns, but may raise `Forked`."""
    stage, what = "exec", command.program
    try:
        # Every step here costs copies of pages; what the parent can do beforehand, it does.
        os.setsid()
        kernel.die_with_parent()
        if os.getppid() != parent:
            os._exit(1)
        for target, source in enumerate(streams):
            os.dup2(source, target)
        stage = "limit"
        for number, soft, hard in command.limits:
            what = f"{command.program} with limit {number} at {soft}:{hard}"
            resource.setrlimit(number, (soft, hard))
        stage, what = "chdir", f"{command.program} in {command.cwd}"
        os.chdir(command.cwd)
        stage, what = "exec", command.program
        command.enter(report)
    except Forked:
        raise
    except BaseException as error:  # noqa: BLE001 — this process must end here, whatever it was
        code = getattr(error, "errno", None) or 22
        os.write(report, f"{stage}\0{code}\0{what}".encode(errors="surrogateescape"))
        os._exit(127)
