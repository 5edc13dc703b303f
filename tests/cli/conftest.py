"""Three ways to use the command: as a process, in this process, and on a terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from wherry.cli.main import main
from wherry.runner import Runner
from wherry.testing import MemoryScheduler

PATIENCE = 60.0
COMMAND = (sys.executable, "-m", "wherry.cli")


class Result(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


Command = Callable[..., Result]


@pytest.fixture(autouse=True)
def plain_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start in an empty folder, without colours asked for or forbidden."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)


@pytest.fixture
def wherry() -> Command:
    """Run the command as a process of its own, on this machine's scheduler."""

    def run(*words: str, env: dict[str, str] | None = None) -> Result:
        done = subprocess.run(
            [*COMMAND, *words],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE,
            env={**os.environ, **(env or {})},
            check=False,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def memory() -> MemoryScheduler:
    """A scheduler that runs nothing, and keeps its apps from one command to the next."""
    return MemoryScheduler("wherry")


@pytest.fixture
def invoke(
    memory: MemoryScheduler, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Run the command in this process, with the scheduler in memory as the only one."""
    monkeypatch.setenv("WHERRY_SCHEDULER", "memory")

    def runner() -> Runner:
        return Runner(schedulers={"memory": lambda _session: memory})

    def run(*words: str) -> Result:
        capfd.readouterr()
        code = main(list(words), runner)
        return Result(code, *capfd.readouterr())

    return run


class Terminal:
    """A command on a terminal of its own: what it shows, and keys to press."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.shown = ""
        self._code: int | None = None
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.execv(argv[0], list(argv))

    def press(self, key: bytes) -> None:
        """Press a key, such as ``b"\\x03"`` for Ctrl-C."""
        os.write(self._fd, key)

    def wait_for(self, text: str) -> None:
        """Wait until a text is shown."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.shown:
            if not self._read(deadline):
                raise AssertionError(f"{text!r} was not shown; this was: {self.shown!r}")

    def end(self) -> int:
        """Wait for the command's end; return its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        if self._code is None:
            _, status = os.waitpid(self.pid, 0)
            self._code = os.waitstatus_to_exitcode(status)
            os.close(self._fd)
        return self._code

    def close(self) -> None:
        """End the command if the test did not see its end."""
        if self._code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self._fd)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError:  # the other end was closed
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    """Open terminals in which a command runs."""
    opened: list[Terminal] = []

    def open_one(*words: str, command: Sequence[str] = COMMAND) -> Terminal:
        opened.append(Terminal([*command, *words]))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()
