"""What came back from one child: read, checked, and taken apart item by item."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wherry.errors import CorruptObjectError, MissingObjectError, ResultError
from wherry.functions import failures
from wherry.worker.formats import OUTCOME_MAGIC, out_key, read_outcome

if TYPE_CHECKING:
    from wherry.store.api import Buffer, Store
    from wherry.worker.formats import Failure, Header, Item

_WHOLE_UP_TO = 1 << 20
_PEEK = 64 << 10


@dataclass(frozen=True)
class Outcome:
    """What came of one call, besides what the provider says of its process.

    Args:
        value: what the function returned; ``None`` when it raised.
        error: what it raised, or why there is no value; ``None`` when there is one.
        warnings: message, category, filename and lineno of each warning.
        stdout, stderr: the end of what was written.
        wall: seconds that the function took.
        cpu: seconds of processor time that it took.
        peak_memory: bytes that its process had at most.
        phases: seconds of fetching, installing, running and storing.
        host: where it ran.
        python: the version it ran on.
        attempt: the attempt that this came of, from 1.
    """

    value: Any = None
    error: BaseException | None = None
    warnings: tuple[Mapping[str, Any], ...] = ()
    stdout: str = ""
    stderr: str = ""
    wall: float = 0.0
    cpu: float = 0.0
    peak_memory: int = 0
    phases: Mapping[str, float] = field(default_factory=dict)
    host: str = ""
    python: str = ""
    attempt: int = 1

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return self.error is None


class Answer:
    """One child's outcome as it is stored.

    Args:
        header: its header.
        parts: its parts.
    """

    def __init__(self, header: Header, parts: list[memoryview]) -> None:
        self.header = header
        self._parts = parts

    @property
    def ok(self) -> bool:
        """Whether every item has a value."""
        return "error" not in self.header and all(
            item.get("ok") for item in self.header.get("items", [])
        )

    @property
    def kind(self) -> str:
        """The kind of the first failure; empty when there is none."""
        failure = self.header.get("error")
        for item in self.header.get("items", []):
            failure = failure or item.get("error")
        return failure.get("kind", "") if failure else ""

    def item(self, number: int = 0) -> Item | None:
        """Return what the header says of an item, by its place among the child's."""
        items = self.header.get("items", [])
        return items[number] if number < len(items) else None

    def error_of(self, number: int = 0) -> Failure | None:
        """Return what the header says of an item's failure; ``None`` when it has a value."""
        item = self.item(number)
        if item is not None and item.get("ok"):
            return None
        told = item.get("error") if item is not None else None
        return told or self.header.get("error") or {}

    def error(self, number: int = 0) -> BaseException | None:
        """Return why there is no value; ``None`` when there is one."""
        failure = self.error_of(number)
        if failure is None:
            return None
        if not failure:
            return ResultError(
                f"job {self.header.get('job')} left an outcome without a word on item {number}"
            )
        return failures.of_failure(failure, self._parts, self.header)

    def value(self, number: int = 0) -> Any:
        """Return an item's value.

        Raises:
            BaseException: what the function raised, or why there is no value.
        """
        error = self.error(number)
        if error is not None:
            raise error
        item = self.header["items"][number]
        first, count = item["value"], item.get("parts", 2)
        pieces = self._parts[first + 1 : first + count]
        try:
            return pickle.loads(pieces[0], buffers=map(_writable, pieces[1:]))  # noqa: S301 — ours
        except Exception as cause:
            raise ResultError(
                f"the value of job {self.header.get('job')} cannot be unpickled here: "
                f"{type(cause).__name__}: {cause}; its class must be importable, in the version "
                f"that the job had (Python {self.header.get('python', '?')})"
            ) from cause

    def outcome(self, number: int = 0) -> Outcome:
        """Return all that came of an item."""
        header, item = self.header, self.item(number) or {}
        error = self.error(number)
        value = None
        if error is None:
            try:
                value = self.value(number)
            except ResultError as cannot:
                error = cannot
        return Outcome(
            value=value,
            error=error,
            warnings=tuple(item.get("warnings", ())),
            stdout=self.text("stdout"),
            stderr=self.text("stderr"),
            wall=item.get("wall", 0.0),
            cpu=item.get("cpu", header.get("cpu", 0.0)),
            peak_memory=header.get("peak_kib", 0) << 10,
            phases=header.get("phases", {}),
            host=header.get("host", ""),
            python=header.get("python", ""),
            attempt=header.get("attempt", 1),
        )

    def text(self, stream: str) -> str:
        """Return the end of what was written to ``stdout`` or ``stderr``."""
        part = self.header.get(stream)
        if not isinstance(part, int) or part >= len(self._parts):
            return ""
        return bytes(self._parts[part]).decode(errors="backslashreplace")


def _writable(buffer: memoryview) -> Buffer:
    """Return a buffer that may be written to, as the one was that it is a copy of."""
    return bytearray(buffer) if buffer.readonly else buffer


def fetch(store: Store, job: str, child: int) -> Answer | None:
    """Read a child's outcome, large ones in parallel; ``None`` when there is none.

    Raises:
        CorruptObjectError: it is not what was stored.
    """
    key = out_key(job, child)
    try:
        found = store.head(key)
        if found is None:
            return None
        data: Buffer
        if found.size <= _WHOLE_UP_TO:
            data = store.read(key)
        else:
            data = bytearray(found.size)
            store.read_into(key, 0, memoryview(data))
    except MissingObjectError:
        return None
    return decoded(data, f"{store.url}/{key}")


def decoded(data: Buffer, where: str) -> Answer:
    """Check an outcome's bytes and take them apart.

    Raises:
        CorruptObjectError: they are not what was stored.
    """
    import hashlib

    try:
        header, parts = read_outcome(data)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptObjectError(
            f"{where} is not a whole outcome: {error}; run the job again (`job.rerun()`)"
        ) from error
    if "digest" in header:
        found = hashlib.sha256()
        for part in parts:
            found.update(part)
        if found.hexdigest() != header["digest"]:
            raise CorruptObjectError(
                f"{where} is not what the job has stored: its SHA-256 differs; run the job again "
                "(`job.rerun()`)"
            )
    return Answer(header, parts)


def peek(store: Store, key: str) -> Header | None:
    """Read the beginning of an outcome: its header, and nothing of a large value."""
    try:
        data = store.read(key, 0, _PEEK)
        start = len(OUTCOME_MAGIC) + 8
        size = start + int.from_bytes(data[start - 8 : start], "little")
        if len(data) < size:
            data = store.read(key, 0, size)
    except MissingObjectError:
        return None
    return _header_of(data, start)


def _header_of(data: bytes, start: int) -> Header | None:
    """Read a header; a broken one counts as one that failed, and is told when it is fetched."""
    import json

    try:
        if not data.startswith(OUTCOME_MAGIC):
            raise ValueError("not an outcome")
        size = int.from_bytes(data[start - 8 : start], "little")
        header: Header = json.loads(data[start : start + size])
    except ValueError:
        return {"error": {"kind": "store", "message": "the outcome cannot be read"}}
    return header
