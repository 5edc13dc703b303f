"""Starts an emulator in a process of its own, which outlives the terminal.

The process is a session of its own with its output in a file. It answers once, through a pipe:
that it serves, or why it does not. Until then its starter waits, so that a script's next line
finds the emulator there.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from dataclasses import asdict

from wherry import errors
from wherry.emulator import _serve, record
from wherry.emulator.record import Record
from wherry.emulator.settings import Settings
from wherry.errors import LaunchError, StateError

_PATIENCE = 120.0
_TAIL = 2000
_RAISED = {cls.__name__: cls for cls in (errors.UsageError, StateError, LaunchError)}


def launch(settings: Settings, *, verbose: bool = False) -> Record:
    """Start an emulator that goes on without this process.

    Args:
        settings: how it is to be.
        verbose: whether its log tells of each request.

    Returns:
        Its record: where it answers, and what runs its jobs.

    Raises:
        LaunchError: it could not start; nothing is left behind.
        StateError: there is one already.
        UsageError: a setting cannot be honoured.
    """
    other = record.find()
    if other is not None:
        raise StateError(record.already(other))
    log = os.path.join(record.folder(), "emulator.log")
    plan = {"settings": asdict(settings), "log": log, "verbose": verbose}
    reading, writing = os.pipe2(os.O_CLOEXEC)
    try:
        pid = _spawn(json.dumps(plan).encode(), log, writing)
    finally:
        os.close(writing)
    try:
        return _answer(reading, pid, log)
    except KeyboardInterrupt:
        os.kill(pid, signal.SIGTERM)
        raise
    finally:
        os.close(reading)


def _spawn(plan: bytes, log: str, writing: int) -> int:
    """Start the process; the plan, which may hold a key, comes by a pipe rather than in words."""
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    theirs, ours = os.pipe2(os.O_CLOEXEC)
    try:
        os.write(ours, plan)  # far less than a pipe holds
        return os.posix_spawn(
            sys.executable,
            [sys.executable, _serve.__file__],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, append | os.O_TRUNC, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                (os.POSIX_SPAWN_DUP2, writing, _serve.ANSWER),
            ],
            setsid=True,
            setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
        )
    finally:
        os.close(theirs)
        os.close(ours)


def _answer(reading: int, pid: int, log: str) -> Record:
    text = _read_all(reading, time.monotonic() + _PATIENCE)
    if text is None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise LaunchError(f"the emulator did not answer in {_PATIENCE:g} s{_end_of(log)}")
    if not text:
        os.waitpid(pid, 0)
        raise LaunchError(f"the emulator ended while it was starting{_end_of(log)}")
    answer = json.loads(text)
    if "error" in answer:
        os.waitpid(pid, 0)
        raise _RAISED.get(answer["kind"], LaunchError)(answer["error"])
    return Record(**answer["record"])


def _read_all(reading: int, deadline: float) -> bytes | None:
    """Read up to the end of the pipe; ``None`` when the time is up before."""
    parts: list[bytes] = []
    while True:
        left = max(0.0, deadline - time.monotonic())
        if not select.select([reading], [], [], left)[0]:
            return None
        part = os.read(reading, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)


def _end_of(log: str) -> str:
    try:
        with open(log, "rb") as file:
            text = file.read()[-_TAIL:].decode(errors="replace").strip()
    except OSError:
        text = ""
    return f"; its log, {log}, ends:\n{text}" if text else f"; its log is {log}"
