"""Real containers under a real supervisor, and a way to find what they leave behind."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.engine import image, require_engine
from support.waiting import until
from wherry.engine.docker.address import engine_address
from wherry.engine.docker.connection import Engine
from wherry.schedulers.api import DescribeAppResponse, Stream
from wherry.schedulers.docker import DockerScheduler
from wherry.schedulers.docker.labelled import Labelled
from wherry.specs import AppDef, Role

APP_FIELDS = ("array", "timeout", "depends_on")


@dataclass
class Bench:
    """A Docker scheduler, and short ways to use it."""

    scheduler: DockerScheduler
    folder: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    started: list[str] = field(default_factory=list)
    home: str = field(default_factory=lambda: os.environ["WHERRY_HOME"])

    def app(self, script: str, *, replicas: int = 1, **fields: Any) -> AppDef:
        """Make an app of one role that runs a shell script in the small image."""
        of_app = {name: fields.pop(name) for name in APP_FIELDS if name in fields}
        chosen: dict[str, Any] = {"image": image(fields.pop("of", "busybox"))}
        role = Role(
            "role",
            entrypoint="sh",
            args=["-c", script],
            num_replicas=replicas,
            **{**chosen, **fields},
        )
        return AppDef("app", [role], **of_app)

    def start(self, app: AppDef | str, cfg: dict[str, Any] | None = None, **fields: Any) -> str:
        """Schedule an app, or a script."""
        made = app if isinstance(app, AppDef) else self.app(app, **fields)
        app_id = self.scheduler.submit(made, {"grace": 1, **(cfg or {})})
        self.started.append(app_id)
        return app_id

    def end(self, app_id: str, seconds: float = 90) -> DescribeAppResponse:
        """Wait for an app's end and describe it."""
        self.scheduler.wait_for_change(app_id, seconds, until_end=True)
        described = self.scheduler.describe(app_id)
        assert described is not None
        assert described.to_status().is_terminal(), f"{app_id} did not end in {seconds} s"
        return described

    def run(
        self, app: AppDef | str, cfg: dict[str, Any] | None = None, **fields: Any
    ) -> DescribeAppResponse:
        """Run a script, or an app, to its end."""
        return self.end(self.start(app, cfg, **fields))

    def out(self, app: AppDef | str, cfg: dict[str, Any] | None = None, **fields: Any) -> str:
        """Run a script, or an app, to a good end; return what it wrote to standard output."""
        ended = self.run(app, cfg, **fields)
        assert ended.state.name == "SUCCEEDED", f"{ended.msg}: {self.log(ended.app_id)}"
        return self.log(ended.app_id, stream="stdout")

    def log(self, app_id: str, k: int = 0, stream: str = "combined", **how: Any) -> str:
        """Read a replica's log."""
        return "".join(self.scheduler.log_iter(app_id, "role", k, streams=Stream(stream), **how))

    def wait_for_line(self, app_id: str, text: str, k: int = 0) -> None:
        """Wait until a replica has written something."""
        until(lambda: text in self.log(app_id, k), f"{text!r} in the log of {app_id}", 60)

    def containers(self, app_id: str, **filters: Any) -> list[dict[str, Any]]:
        """List what the Engine has of an app."""
        chosen = {"label": [f"wherry.app_id={app_id}"], **filters}
        with engine() as api:
            found: list[dict[str, Any]] = api.request(
                "GET", "/containers/json", {"all": True, "filters": chosen}
            )
        return found

    def running(self, app_id: str) -> list[dict[str, Any]]:
        """List an app's containers that run."""
        return self.containers(app_id, status=["running"])

    def inspect(self, app_id: str) -> dict[str, Any]:
        """Return what the Engine says of an app's only container."""
        (one,) = self.containers(app_id)
        with engine() as api:
            found: dict[str, Any] = api.request("GET", f"/containers/{one['Id']}/json")
        return found

    def networks(self, app_id: str) -> list[str]:
        """List the networks of an app."""
        with engine() as api:
            chosen = {"filters": {"label": [f"wherry.app_id={app_id}"]}}
            return [one["Name"] for one in api.request("GET", "/networks", chosen)]

    def clear(self) -> None:
        """Remove all that was started, wherever it was started from."""
        self.scheduler.close()
        with engine() as api:
            seen = Labelled(api)
            mine = [app.app_id for app in seen.apps() if app.tags.get("wherry.home") == self.home]
            for app_id in {*self.started, *mine}:
                seen.remove(app_id)


@contextmanager
def engine() -> Iterator[Engine]:
    """Connect to the Engine."""
    with Engine(engine_address(os.environ)) as made:
        yield made


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A scheduler in an empty folder; all that it started is gone at the end."""
    require_engine()
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    made = Bench(DockerScheduler("test"), folder)
    yield made
    made.clear()


def docker(*words: str) -> str:
    """Run the command line of Docker; return what it printed."""
    return subprocess.run(["docker", *words], check=True, capture_output=True, text=True).stdout
