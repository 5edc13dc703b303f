"""What containers write becomes events of CloudWatch Logs, as the awslogs driver makes them.

`LogSink` is what engines hand output to; it cuts bytes into events and keeps their order.
`LogStore` puts events into moto's CloudWatch Logs, in process and below its API: PutLogEvents
refuses events that are more than two hours ahead of the machine's clock, and the emulator's clock
may be.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import IO, Any

from wherry.emulator.clock import Clock
from wherry.emulator.cloud import moto
from wherry.emulator.engines.api import Container, Task
from wherry.emulator.faults import Faults

DEFAULT_GROUP = "/aws/batch/job"
MAX_EVENT_BYTES = 262_144 - 26
"""256 KB less what CloudWatch Logs counts for each event; the awslogs driver cuts longer lines."""

LOG_FAULTS = ("no-log-stream", "late-log-stream")
_GATHER = 0.02  # real seconds in which the flusher lets output come together

Event = tuple[int, str]
"""Emulated milliseconds since the epoch, and the text."""


def no_such_group() -> str:
    """Return what ECS says when the log driver is to write to a group that does not exist."""
    return (
        "ResourceInitializationError: failed to validate logger args: create stream has been"
        " retried 1 times: failed to create Cloudwatch log stream: ResourceNotFoundException: The"
        " specified log group does not exist."
    )


class LogStore:
    """Groups, streams and events in moto, and, when there is a folder, in a file for each region.

    Args:
        folder: where logs of jobs are kept for the next start; ``None`` keeps them in memory.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._files: dict[str, IO[str]] = {}

    def held(self) -> AbstractContextManager[bool]:
        """Hold off all writing, while moto goes through its streams to answer a request."""
        return self._lock

    def load(self) -> None:
        """Bring back what an earlier life wrote down."""
        if self._folder is None:
            return
        for name in sorted(os.listdir(self._folder)):
            if name.startswith("logs-") and name.endswith(".jsonl"):
                self._replay(os.path.join(self._folder, name), name[5:-6])

    def _replay(self, path: str, region: str) -> None:
        made: set[tuple[str, str]] = set()
        for group, stream, events in _records(path):
            if self._create(region, group, stream):
                made.add((group, stream))
            # What moto has already was kept by another emulator of this process.
            if (group, stream) in made:
                self._append(region, group, stream, [(int(ms), text) for ms, text in events])

    def has_group(self, region: str, group: str) -> bool:
        """Tell whether a group exists."""
        return group in moto.backend("logs", region).groups

    def create(self, region: str, group: str, stream: str = "") -> None:
        """Make a group and, when it is named, a stream, unless they exist."""
        with self._lock:
            if self._create(region, group, stream) and stream:
                self._note(region, group, stream, [])

    def append(self, region: str, group: str, stream: str, events: list[Event]) -> None:
        """Add events to a stream; those of a stream that somebody has deleted are dropped."""
        with self._lock:
            if self._append(region, group, stream, events):
                self._note(region, group, stream, events)

    def _create(self, region: str, group: str, stream: str) -> bool:
        backend = moto.backend("logs", region)
        if group not in backend.groups:
            backend.create_log_group(group, {})
        if not stream or stream in backend.groups[group].streams:
            return False
        backend.groups[group].create_log_stream(stream)
        return True

    def _append(self, region: str, group: str, stream: str, events: list[Event]) -> bool:
        found = moto.backend("logs", region).groups.get(group)
        target = found and found.streams.get(stream)
        if not target:
            return False
        if events:
            _put(target, [{"timestamp": ms, "message": text} for ms, text in events])
        return True

    def _note(self, region: str, group: str, stream: str, events: list[Event]) -> None:
        if self._folder is None:
            return
        if region not in self._files:
            path = os.path.join(self._folder, f"logs-{region}.jsonl")
            self._files[region] = open(path, "a", encoding="utf-8")  # noqa: SIM115 — kept open
        self._files[region].write(json.dumps([group, stream, events]) + "\n")
        self._files[region].flush()

    def forget(self) -> None:
        """Drop what was written down, after moto was reset."""
        with self._lock:
            for handle in self._files.values():
                handle.truncate(0)

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            for handle in self._files.values():
                handle.close()
            self._files.clear()


def _put(stream: Any, events: list[dict[str, Any]]) -> None:
    """Add events, and let nothing that a subscription does with them stop the log."""
    try:
        stream.put_log_events(events)
    except Exception:
        logging.getLogger("wherry.emulator").exception(
            "a subscription of %s failed", stream.log_group.name
        )


def _records(path: str) -> Iterator[tuple[str, str, list[tuple[int, str]]]]:
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            try:
                group, stream, events = json.loads(line)
            except ValueError:
                continue  # the last line of a life that was cut short
            yield group, stream, events


@dataclass
class _Stream:
    """The output of one container on its way."""

    region: str
    group: str
    name: str
    life: int = 0
    dropped: bool = False
    not_before: float = 0.0  # real, monotonic
    held: bytearray = field(default_factory=bytearray)
    events: list[Event] = field(default_factory=list)
    last_ms: int = 0
    made: bool = False
    writing: threading.Lock = field(default_factory=threading.Lock)


class LogSink:
    """Takes what containers write; the `Output` of engines.

    One thread writes for all streams, a few hundredths of a second after a line has come; the end
    of a container writes what is left before it returns, so that a job that is over has its log.

    Args:
        store: where events go.
        clock: dates them.
        faults: which streams are missing or late.
    """

    def __init__(self, store: LogStore, clock: Clock, faults: Faults) -> None:
        self._store = store
        self._clock = clock
        self._faults = faults
        self._streams: dict[tuple[str, str], _Stream] = {}
        self._pending: dict[tuple[str, str], _Stream] = {}
        self._forgotten: set[str] = set()
        self._life = 0
        self._changed = threading.Condition()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def open_stream(self, region: str, group: str, stream: str, *, create_group: bool) -> str:
        """Make a stream, and the group where that is asked for or is Batch's own.

        While a fault of logs is on, the stream waits for its first output, which says what job it
        is of; that is when it is decided whether the fault strikes.

        Returns:
            Nothing, or what ECS says when the log driver cannot start.
        """
        known = create_group or group == DEFAULT_GROUP or self._store.has_group(region, group)
        if not known:
            return no_such_group()
        undecided = any(fault.kind in LOG_FAULTS for _, fault, _ in self._faults.active())
        self._store.create(region, group, "" if undecided else stream)
        return ""

    def start(self) -> None:
        """Begin to write."""
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="wherry-logs", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what is there and end the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def forget(self, task_ids: Iterable[str]) -> None:
        """Drop what tasks have yet to write, because they and their logs are forgotten."""
        with self._changed:
            self._forgotten.update(task_ids)
            self._life += 1
            self._streams.clear()
            self._pending.clear()

    def __call__(self, task: Task, container: Container, data: bytes) -> None:
        """Take output; ``b""`` is the end."""
        if not container.log_stream or task.id in self._forgotten:
            return
        key = (task.id, container.name)
        with self._changed:
            stream = self._streams.get(key)
            if stream is None:
                stream = self._streams[key] = self._begin(task, container)
            if not stream.dropped:
                _take(stream, data, self._clock.now_ms())
                self._pending[key] = stream
                self._changed.notify()
            if not data:
                del self._streams[key]
        if not data and not stream.dropped and not stream.not_before:
            self._write(stream)

    def _begin(self, task: Task, container: Container) -> _Stream:
        group = container.log_group or DEFAULT_GROUP
        stream = _Stream(task.region, group, container.log_stream, self._life)
        labels = dict(task.labels)
        job = labels.get("job-id", ""), labels.get("job-name", ""), labels.get("queue", "")
        struck = {fault.kind: fault for fault in self._faults.for_job(LOG_FAULTS, *job)}
        stream.dropped = "no-log-stream" in struck
        if not stream.dropped and "late-log-stream" in struck:
            stream.not_before = _monotonic() + _seconds(struck["late-log-stream"].value)
        return stream

    def _run(self) -> None:
        while True:
            with self._changed:
                due = [key for key, stream in self._pending.items() if self._is_due(stream)]
                if not due:
                    if self._stopping:
                        return
                    self._changed.wait(self._until_next())
                    continue
                streams = [self._pending.pop(key) for key in due]
            for stream in streams:
                self._write(stream)
            with self._changed:
                if not self._stopping:
                    self._changed.wait_for(lambda: self._stopping, _GATHER)

    def _is_due(self, stream: _Stream) -> bool:
        return self._stopping or stream.not_before <= _monotonic()

    def _until_next(self) -> float | None:
        times = [stream.not_before for stream in self._pending.values()]
        return max(0.0, min(times) - _monotonic()) if times else None

    def _write(self, stream: _Stream) -> None:
        with stream.writing:
            with self._changed:
                events, stream.events = stream.events, []
                if stream.life != self._life:
                    return
            if not stream.made:
                self._store.create(stream.region, stream.group, stream.name)
                stream.made = True
            if events:
                self._store.append(stream.region, stream.group, stream.name, events)


def _take(stream: _Stream, data: bytes, now_ms: int) -> None:
    """Cut output into events; one line is one event, and an empty line is none."""
    stream.last_ms = max(stream.last_ms, now_ms)
    stream.held += data
    *lines, rest = bytes(stream.held).split(b"\n") if b"\n" in data else [bytes(stream.held)]
    if not data:
        lines, rest = [*lines, rest], b""
    while len(rest) > MAX_EVENT_BYTES:
        cut = _cut(rest)
        lines.append(rest[:cut])
        rest = rest[cut:]
    stream.held = bytearray(rest)
    for line in lines:
        stream.events += [(stream.last_ms, text) for text in _texts(line)]


def _texts(line: bytes) -> Iterator[str]:
    while line:
        cut = _cut(line)
        yield line[:cut].decode("utf-8", "replace")
        line = line[cut:]


def _cut(line: bytes) -> int:
    """Return where an event that begins a line ends: never inside a character."""
    if len(line) <= MAX_EVENT_BYTES:
        return len(line)
    for back in range(4):
        if line[MAX_EVENT_BYTES - back] & 0xC0 != 0x80:
            return MAX_EVENT_BYTES - back
    return MAX_EVENT_BYTES


def _monotonic() -> float:
    import time

    return time.monotonic()


def _seconds(value: str) -> float:
    try:
        return max(0.0, float(value))
    except ValueError:
        return 1.0
