"""Real processes under a real supervisor, and a way to find what they leave behind."""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from wherry.schedulers.api import DescribeAppResponse, Stream
from wherry.schedulers.local import LocalScheduler
from wherry.specs import AppDef, Role


def until(condition: Callable[[], Any], what: str, seconds: float = 20.0) -> Any:
    """Wait for something that no event tells of; returns what the condition returned."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"gave up waiting for {what}"
        time.sleep(0.01)
    return value


def processes_with(text: str) -> list[psutil.Process]:
    """Find living processes that have a text in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = " ".join(process.environ().values())
            if text in environment and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


@dataclass
class Bench:
    """A local scheduler, and short ways to use it."""

    scheduler: LocalScheduler
    folder: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def app(self, script: str, *, replicas: int = 1, **fields: Any) -> AppDef:
        """Make an app of one role that runs a shell script."""
        of_app = {
            name: fields.pop(name) for name in ("array", "timeout", "depends_on") if name in fields
        }
        env = {"TEST_MARK": self.mark, **fields.pop("env", {})}
        role = Role(
            name="role",
            entrypoint="sh",
            args=["-c", script],
            num_replicas=replicas,
            env=env,
            **fields,
        )
        return AppDef("app", [role], **of_app)

    def start(self, app: AppDef, **cfg: Any) -> str:
        """Schedule an app."""
        return self.scheduler.submit(app, {"grace": 0.5, **cfg})

    def end(self, app_id: str, seconds: float = 60) -> DescribeAppResponse:
        """Wait for an app's end and describe it."""
        self.scheduler.wait_for_change(app_id, seconds, until_end=True)
        described = self.scheduler.describe(app_id)
        assert described is not None
        assert described.to_status().is_terminal(), f"{app_id} did not end in {seconds} s"
        return described

    def run(self, script: str | AppDef, **fields: Any) -> DescribeAppResponse:
        """Run a script, or an app, to its end."""
        if isinstance(script, AppDef):
            return self.end(self.start(script, **fields))
        return self.end(self.start(self.app(script, **fields)))

    def log(self, app_id: str, k: int = 0, stream: str = "combined", **how: Any) -> str:
        """Read a replica's log."""
        lines = self.scheduler.log_iter(app_id, "role", k, streams=Stream(stream), **how)
        return "".join(lines)

    def wait_for_supervisor(self, app_id: str) -> None:
        """Wait until nobody writes an app's events any more."""
        with event_lines(self, app_id).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)

    def survivors(self) -> list[psutil.Process]:
        """List the processes that this bench's apps have left."""
        return processes_with(self.mark)

    def wait_for_line(self, app_id: str, text: str, k: int = 0) -> None:
        """Wait until a replica has written something."""
        until(lambda: text in self.log(app_id, k), f"{text!r} in the log of {app_id}")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A scheduler in an empty folder; all that it started is gone at the end."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    made = Bench(LocalScheduler("test"), folder)
    yield made
    made.scheduler.close()
    left = made.survivors()
    for process in left:
        process.kill()
    assert not left, f"the test left {left}"


def pid_in(path: Path) -> int:
    """Wait for a process to write its id into a file."""
    return int(until(lambda: path.exists() and path.read_text().strip(), f"a pid in {path}"))


def is_alive(pid: int) -> bool:
    """Tell whether a process runs (a zombie does not)."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def event_lines(bench: Bench, app_id: str) -> Path:
    """Return the file with an app's events."""
    return Path(os.environ["WHERRY_HOME"]) / "apps" / app_id / "events.jsonl"
