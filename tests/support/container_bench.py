"""Real containers under a real supervisor, and a way to find what they leave behind."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from support.engine import image
from support.waiting import until
from wherry.engine.docker.address import engine_address
from wherry.engine.docker.connection import Engine
from wherry.engine.docker.sweeping import remove_containers, remove_networks
from wherry.schedulers.api import DescribeAppResponse, Stream
from wherry.schedulers.docker import DockerScheduler
from wherry.specs import AppDef, Role


@dataclass
class ContainerBench:
    """A Docker scheduler, and short ways to use it."""

    scheduler: DockerScheduler
    engine: Engine
    cfg: dict[str, Any] = field(default_factory=dict)
    apps: list[str] = field(default_factory=list)

    def app(self, script: str, *, replicas: int = 1, **fields: Any) -> AppDef:
        """Make an app of one role that runs a shell script."""
        of_app = {
            name: fields.pop(name) for name in ("array", "timeout", "depends_on") if name in fields
        }
        words = {"entrypoint": "sh", "args": ["-c", script], "image": image("busybox")}
        role = Role(name="role", num_replicas=replicas, **(words | fields))
        return AppDef(f"app-{uuid.uuid4().hex[:6]}", [role], **of_app)

    def start(self, app: AppDef | str, **fields: Any) -> str:
        """Schedule an app, or a script as one."""
        cfg = {"grace": 0.5, **self.cfg, **fields.pop("cfg", {})}
        made = app if isinstance(app, AppDef) else self.app(app, **fields)
        app_id = self.scheduler.submit(made, cfg)
        self.apps.append(app_id)
        return app_id

    def end(self, app_id: str, seconds: float = 90) -> DescribeAppResponse:
        """Wait for an app's end and describe it."""
        self.scheduler.wait_for_change(app_id, seconds, until_end=True)
        described = self.scheduler.describe(app_id)
        assert described is not None
        assert described.to_status().is_terminal(), f"{app_id} did not end in {seconds} s"
        return described

    def run(self, app: AppDef | str, **fields: Any) -> DescribeAppResponse:
        """Run an app, or a script as one, to its end."""
        return self.end(self.start(app, **fields))

    def log(self, app_id: str, k: int = 0, stream: str = "combined", **how: Any) -> str:
        """Read a replica's log."""
        lines = self.scheduler.log_iter(app_id, "role", k, streams=Stream(stream), **how)
        return "".join(lines)

    def says(self, app_id: str, text: str, k: int = 0) -> None:
        """Wait until a replica has written something."""
        until(lambda: text in self.log(app_id, k), f"{text!r} in the log of {app_id}", 60)

    def containers(self, app_id: str) -> list[dict[str, Any]]:
        """List what the Engine has of an app, running or not."""
        filters = {"label": [f"wherry.app_id={app_id}"]}
        found = self.engine.request("GET", "/containers/json", {"all": True, "filters": filters})
        return list(found)

    def running(self, app_id: str) -> list[str]:
        """List the containers of an app that run."""
        return [c["Id"] for c in self.containers(app_id) if c["State"] == "running"]

    def networks(self, app_id: str) -> list[str]:
        """List the networks that were made for an app."""
        filters = {"label": [f"wherry.app_id={app_id}"]}
        found = self.engine.request("GET", "/networks", {"filters": filters})
        return [network["Name"] for network in found]

    def events(self, app_id: str) -> list[dict[str, Any]]:
        """Read the events of an app."""
        path = Path(os.environ["WHERRY_HOME"]) / "apps" / app_id / "events.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def close(self) -> None:
        """End and remove everything."""
        self.scheduler.close()
        for app_id in self.apps:
            remove_containers(self.engine, app_id)
            remove_networks(self.engine, app_id)
        self.engine.close()


@contextmanager
def container_bench(**cfg: Any) -> Iterator[ContainerBench]:
    """Open a bench at the Engine that the environment names; close it, and leave nothing there."""
    made = ContainerBench(DockerScheduler("test"), Engine(engine_address(os.environ)), cfg)
    try:
        yield made
    finally:
        made.close()


def supervisors(app_id: str) -> list[psutil.Process]:
    """Find an app's guard and supervisor, in this order."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(word.endswith(f"/apps/{app_id}") for word in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return sorted(found, key=lambda process: process.create_time())
