"""Faults on demand: which there are, and which apply to what is about to happen.

This module is data and matching. What a fault does is done where it happens: at the front
(``throttle``, ``latency``, …), in the control plane (``stuck-runnable``, ``hold``), or when a
task starts (``pull-failure``). What happens once and at once (a Spot reclaim, say) is an action
of the control plane, not a fault.
"""

from __future__ import annotations

import fnmatch
import itertools
import random
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from wherry.errors import UsageError, unknown

KINDS = {
    # at the front, for requests
    "throttle": "answer 429 TooManyRequestsException instead of doing what was asked",
    "server-error": "answer 500 ServerException instead of doing what was asked",
    "access-denied": "answer 403 AccessDeniedException",
    "expired-token": "answer 403 ExpiredTokenException",
    "latency": "wait `value` real seconds before the answer",
    "lost-reply": "do what was asked, then break the connection without an answer",
    # in the control plane, for jobs
    "stuck-runnable": "keep jobs RUNNABLE; `value` is a key of wherry.emulator.batch.reasons.STUCK",
    "hold": "keep jobs in the state `value`: SUBMITTED, RUNNABLE or STARTING",
    # at the start of a task
    "pull-failure": "CannotPullContainerError; `value` is the text after it",
    "start-failure": "another start without an exit code; `value` is the whole reason",
    "no-log-stream": "the log stream that DescribeJobs names never comes into being",
    "late-log-stream": "the log stream, and what is in it, come `value` real seconds late",
}
"""Every kind, with what it does."""

HELD = ("SUBMITTED", "RUNNABLE", "STARTING")
"""The states in which ``hold`` can keep a job."""

REQUEST_KINDS = frozenset(itertools.takewhile(lambda kind: kind != "stuck-runnable", KINDS))


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        kind: a key of `KINDS`.
        value: what the kind makes of it: seconds, a text, a name. Empty for its default.
        job: only for these jobs: an id, or a pattern of job names (``*`` and ``?``); empty for all.
        queue: only for jobs of this queue; a name.
        operation: only for this operation of the API, such as ``SubmitJob``.
        service: only for requests to this service, by its signing name; ``*`` for all of AWS.
        rate: the share of matching events that it strikes, 0 to 1.
        every: strikes every n-th matching event instead; 0 for `rate`.
        times: how often it strikes before it is spent; 0 for ever.
    """

    kind: str
    value: str = ""
    job: str = ""
    queue: str = ""
    operation: str = ""
    service: str = "batch"
    rate: float = 1.0
    every: int = 0
    times: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError(unknown("fault", self.kind, KINDS))
        _check_value(self.kind, self.value)
        if not 0 <= self.rate <= 1:
            raise UsageError(f"a fault's rate is a share from 0 to 1; got {self.rate!r}")
        for name in ("every", "times"):
            if getattr(self, name) < 0:
                raise UsageError(f"a fault's {name} is 0 or more; got {getattr(self, name)!r}")


class Faults:
    """The faults that are on. All methods may be called from any thread.

    Args:
        seed: makes rates repeatable.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._active: dict[int, Fault] = {}
        self._seen: dict[int, int] = {}
        self._struck: dict[int, int] = {}
        self._random = random.Random(seed)  # noqa: S311 — chance, not secrecy

    def add(self, fault: Fault) -> int:
        """Turn a fault on; returns the number by which it can be removed."""
        with self._lock:
            number = next(self._ids)
            self._active[number] = fault
            return number

    def remove(self, number: int) -> None:
        """Turn a fault off.

        Raises:
            UsageError: there is no such fault.
        """
        with self._lock:
            if self._active.pop(number, None) is None:
                on = ", ".join(map(str, sorted(self._active))) or "none"
                raise UsageError(f"there is no fault {number}; on: {on}")

    def clear(self) -> None:
        """Turn all faults off."""
        with self._lock:
            self._active.clear()

    def active(self) -> list[tuple[int, Fault, int]]:
        """Return number, fault and how often it has struck, in the order of their coming."""
        with self._lock:
            return [(n, fault, self._struck.get(n, 0)) for n, fault in self._active.items()]

    def for_request(self, service: str, operation: str) -> list[Fault]:
        """Return the faults that strike one request; counts them as having struck."""
        if not self._active:
            return []
        return self._strike(
            lambda fault: (
                fault.kind in REQUEST_KINDS
                and fault.service in ("*", service)
                and fault.operation in ("", operation)
            )
        )

    def for_job(
        self, kinds: Iterable[str], job_id: str, job_name: str, queue: str, *, value: str = ""
    ) -> list[Fault]:
        """Return the faults of some kinds that strike one job; counts them as having struck.

        Args:
            kinds: keys of `KINDS`.
            job_id, job_name, queue: what the job is called, and where it waits.
            value: only faults with this value, in any case of letters; empty for all.
        """
        if not self._active:
            return []
        return self._strike(
            lambda fault: (
                fault.kind in kinds
                and (not value or fault.value.upper() == value)
                and fault.queue in ("", queue)
                and (fault.job in ("", job_id) or fnmatch.fnmatchcase(job_name, fault.job))
            )
        )

    def _strike(self, concerns: Callable[[Fault], bool]) -> list[Fault]:
        with self._lock:
            return [
                fault
                for number, fault in list(self._active.items())
                if concerns(fault) and self._hits(number, fault)
            ]

    def _hits(self, number: int, fault: Fault) -> bool:
        self._seen[number] = seen = self._seen.get(number, 0) + 1
        hit = seen % fault.every == 0 if fault.every else self._random.random() < fault.rate
        if hit:
            self._struck[number] = struck = self._struck.get(number, 0) + 1
            if struck == fault.times:
                del self._active[number]
        return hit


def _check_value(kind: str, value: str) -> None:
    """Refuse a value that its kind can make nothing of; an empty one is most kinds' default."""
    check = _VALUES.get(kind)
    if check is not None and (value or kind == "hold"):
        check(kind, value)


def _is_state(kind: str, value: str) -> None:
    if value.upper() not in HELD:
        raise UsageError(unknown(f"state to {kind} jobs in:", value, HELD))


def _is_seconds(kind: str, value: str) -> None:
    try:
        good = 0 <= float(value) < float("inf")
    except ValueError:
        good = False
    if not good:
        raise UsageError(f"the value of {kind} is seconds, 0 or more; got {value!r}")


def _is_reason(_: str, value: str) -> None:
    from wherry.emulator.batch.reasons import STUCK

    words = {key.rpartition(":")[2] for key in STUCK}
    if value.partition(" ")[0].upper() not in words | STUCK.keys():
        raise UsageError(unknown("reason to be stuck:", value, words))


_VALUES: dict[str, Callable[[str, str], None]] = {
    "latency": _is_seconds,
    "late-log-stream": _is_seconds,
    "hold": _is_state,
    "stuck-runnable": _is_reason,
}
