"""Function calls by hand: a call document in a folder, and the app that runs it here."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import platform
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cloudpickle
import psutil
import pytest

from wherry.schedulers.api import DescribeAppResponse
from wherry.schedulers.local import LocalScheduler
from wherry.specs import AppDef, Role
from wherry.worker import formats

COLD = "import sys; from wherry.worker.main import main; sys.exit(main(['call', sys.argv[1]]))"


def put(store: Path, data: bytes) -> dict[str, Any]:
    """Store a blob."""
    digest = hashlib.sha256(data).hexdigest()
    path = store / formats.blob_key(digest)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{uuid.uuid4().hex}")
    beside.write_bytes(data)
    beside.rename(path)
    return {"blob": digest, "size": len(data)}


def record(value: Any) -> bytes:
    """Pickle a value as a record; a function of a test goes by value, wherever pytest runs."""
    module = sys.modules.get(getattr(value, "__module__", ""))
    is_test = module is not None and "test_" in module.__name__
    if is_test:
        cloudpickle.register_pickle_by_value(module)
    try:
        return b"".join(formats.record_parts(cloudpickle.dumps(value, protocol=5), []))
    finally:
        if is_test:
            cloudpickle.unregister_pickle_by_value(module)


@dataclass
class Call:
    """A call that was scheduled."""

    app_id: str
    job: str
    store: Path
    scheduler: LocalScheduler

    def end(self, seconds: float = 60) -> DescribeAppResponse:
        """Wait for the app's end and describe it."""
        self.scheduler.wait_for_change(self.app_id, seconds, until_end=True)
        described = self.scheduler.describe(self.app_id)
        assert described is not None
        assert described.to_status().is_terminal(), f"{self.app_id} did not end in {seconds} s"
        return described

    def outcome(self, child: int = 0) -> tuple[Any, list[memoryview]]:
        """Read a child's outcome."""
        return formats.read_outcome((self.store / formats.out_key(self.job, child)).read_bytes())

    def values(self, child: int = 0) -> list[Any]:
        """Return what a child's items returned."""
        header, parts = self.outcome(child)
        assert all(item["ok"] for item in header["items"]), header
        loaded = []
        for item in header["items"]:
            some = parts[item["value"] : item["value"] + item["parts"]]
            pickled, buffers = formats.read_record(b"".join(some))
            loaded.append(pickle.loads(pickled, buffers=buffers))
        return loaded

    def log(self, k: int = 0) -> str:
        """Read a child's log."""
        return "".join(self.scheduler.log_iter(self.app_id, "call", k))

    def exit_code(self) -> int | None:
        """Return the exit code of the first replica's last attempt."""
        return self.end().roles_statuses[0].replicas[0].attempts[-1].exit_code

    def processes(self) -> list[psutil.Process]:
        """List the living processes that carry the app's id."""
        mark = f"WHERRY_APP_ID={self.app_id}".encode()
        found = []
        for pid in psutil.pids():
            try:
                words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                if mark in words and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                    found.append(psutil.Process(pid))
            except (OSError, psutil.Error):
                continue
        return found


@dataclass
class Calls:
    """Makes calls in a store and schedules them."""

    scheduler: LocalScheduler
    store: Path
    env: dict[str, str] = field(default_factory=dict)
    scheduled: list[Call] = field(default_factory=list)

    def document(self, function: Callable[..., Any], **fields: Any) -> tuple[str, str]:
        """Store a call; returns its job and its URL."""
        job = uuid.uuid4().hex
        path = self.store / formats.call_key(job)
        path.parent.mkdir(parents=True)
        call = {
            "version": formats.FORMAT,
            "job": job,
            "python": platform.python_version(),
            "function": put(self.store, record(function)),
            "syspath": [*sys.path],
            **fields,
        }
        path.write_text(json.dumps(call))
        return job, f"file://{path}"

    def submit(
        self, function: Callable[..., Any], *args: Any, cfg: Any = None, **fields: Any
    ) -> Call:
        """Schedule one call."""
        arguments = put(self.store, record((args, {})))
        return self._schedule(function, 1, cfg, fields, arguments=arguments)

    def map(
        self,
        function: Callable[..., Any],
        items: Iterable[Any],
        chunksize: int = 1,
        cfg: Any = None,
        **fields: Any,
    ) -> Call:
        """Schedule an array of calls, one item or chunk a child."""
        records = [record(((item,), {})) for item in items]
        pack = put(self.store, formats.pack_index([len(r) for r in records]) + b"".join(records))
        children = -(-len(records) // chunksize)
        return self._schedule(
            function,
            children,
            cfg,
            fields,
            items=pack,
            count=len(records),
            chunksize=chunksize,
            parallel=1,
        )

    def _schedule(
        self,
        function: Callable[..., Any],
        children: int,
        cfg: Any,
        fields: dict[str, Any],
        **document: Any,
    ) -> Call:
        job, url = self.document(function, **document)
        of_app = {name: fields.pop(name) for name in ("timeout",) if name in fields}
        env = {**self.env, **fields.pop("env", {})}
        role = Role(
            name="call",
            entrypoint=sys.executable,
            args=["-c", COLD, url],
            num_replicas=children,
            env=env,
            metadata={
                "wherry.call": {
                    "url": url,
                    "syspath": [*sys.path],
                    "cwd": fields.pop("cwd", os.getcwd()),
                }
            },
            **fields,
        )
        app = AppDef("call", [role], array=children > 1, **of_app)
        app_id = self.scheduler.submit(app, {"grace": 0.5, **(cfg or {})})
        self.scheduled.append(Call(app_id, job, self.store, self.scheduler))
        return self.scheduled[-1]


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    """Calls in an empty folder; all that they started is gone at the end."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    made = Calls(LocalScheduler("test"), tmp_path / "store")
    yield made
    made.scheduler.close()
    left = [process for call in made.scheduled for process in call.processes()]
    for process in left:
        process.kill()
    assert not left, f"the test left {left}"
