"""Calls for the worker, made by hand and run by real processes."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle

from wherry.worker import formats, shipping
from wherry.worker.digests import digest_of

VERSION = ".".join(str(number) for number in sys.version_info[:3])


def record(value: Any) -> list[Any]:
    """Return a value's record, as a client makes it."""
    buffers: list[pickle.PickleBuffer] = []
    data = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return formats.record_parts(data, [buffer.raw() for buffer in buffers])


@dataclass
class Ran:
    """How a worker ended."""

    code: int
    out: str
    err: str


class Outcome:
    """An outcome that has been read."""

    def __init__(self, data: bytes) -> None:
        self.header, self.parts = formats.read_outcome(data)

    def value(self, place: int = 0) -> Any:
        """Return the value of an item."""
        item = self.header["items"][place]
        assert item["ok"], item
        parts = self.parts[item["value"] : item["value"] + item["parts"]]
        return self._load(b"".join(parts))

    def error(self, place: int = 0) -> Any:
        """Return what is said of an item that failed."""
        return self.header["items"][place]["error"]

    def exception(self, place: int = 0) -> BaseException:
        """Return the exception of an item."""
        return self._load(self.parts[self.error(place)["exception"]])

    def text(self, stream: str) -> str:
        """Return what is kept of stdout or stderr."""
        return bytes(self.parts[self.header[stream]]).decode() if stream in self.header else ""

    def _load(self, data: Any) -> Any:
        head, buffers = formats.read_record(data)
        return pickle.loads(head, buffers=buffers)


class WorkerBench:
    """A store in a folder, with calls in it.

    Args:
        root: the store's folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = f"file://{root}"
        self.environ: dict[str, str] = {}
        self._jobs = 0

    def blob(self, parts: Sequence[Any]) -> formats.Part:
        """Store something under its digest."""
        digest = digest_of(parts)
        data = b"".join(parts)
        self.write(formats.blob_key(digest), data)
        return {"blob": digest, "size": len(data)}

    def value(self, value: Any) -> formats.Part:
        """Store a value."""
        return self.blob(record(value))

    def items(self, arguments: Sequence[tuple[Any, ...]]) -> formats.Part:
        """Store the items of a map."""
        records = [b"".join(record((args, {}))) for args in arguments]
        return self.blob([formats.pack_index([len(data) for data in records]), *records])

    def call(self, function: Callable[..., Any], *args: Any, **fields: Any) -> str:
        """Store a call; return its URL."""
        self._jobs += 1
        job = f"job-{self._jobs}"
        document = {"version": 1, "job": job, "python": VERSION, "function": self.value(function)}
        if "items" not in fields:
            document["arguments"] = self.value((args, {}))
        key = formats.call_key(job)
        self.write(key, json.dumps({**document, **fields}).encode())
        return f"{self.url}/{key}"

    def start(
        self, url: str, child: int = 0, python: str = sys.executable, **more: Any
    ) -> subprocess.Popen[bytes]:
        """Start a worker."""
        return subprocess.Popen(
            [python, shipping.worker_zip_path(), "call", url],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "WHERRY_REPLICA_ID": str(child), **self.environ},
            cwd=more.pop("cwd", self.root),
            **more,
        )

    def run(self, url: str, child: int = 0, **more: Any) -> Ran:
        """Run a worker to its end."""
        process = self.start(url, child, **more)
        out, err = process.communicate(timeout=90)
        return Ran(process.returncode, out.decode(), err.decode())

    def outcome(self, url: str, child: int = 0) -> Outcome:
        """Read a child's outcome."""
        return Outcome(self.read(formats.out_key(url.split("/")[-2], child)))

    def out_path(self, url: str, child: int = 0) -> Path:
        """Return the file with a child's outcome."""
        return self.root / formats.out_key(url.split("/")[-2], child)

    def has_outcome(self, url: str, child: int = 0) -> bool:
        """Tell whether there is one."""
        return self.out_path(url, child).exists()

    def done(self, function: Callable[..., Any], *args: Any, **fields: Any) -> tuple[Ran, Outcome]:
        """Call a function; return how the worker ended, and the outcome."""
        url = self.call(function, *args, **fields)
        ran = self.run(url)
        return ran, self.outcome(url)

    def read(self, key: str) -> bytes:
        """Return an object."""
        return (self.root / key).read_bytes()

    def write(self, key: str, data: bytes) -> None:
        """Store an object."""
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
