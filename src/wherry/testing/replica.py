"""One replica in memory: its attempts, what they wrote, and how they ended.

What follows from an end is for the app to say, in `simulation`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wherry.schedulers.api import Stream
from wherry.specs.app import RetryScope
from wherry.specs.states import AppState, is_terminal
from wherry.specs.status import AttemptStatus, ReplicaStatus
from wherry.testing.clock import Timer
from wherry.testing.outcomes import Outcome
from wherry.testing.request import RoleRequest


@dataclass(frozen=True)
class WrittenLine:
    """A line that a replica has written."""

    text: str
    stream: Stream
    at: float
    attempt: int


@dataclass
class Attempt:
    """One run of a replica, and how it ended."""

    number: int
    outcome: Outcome
    started_at: float
    state: AppState = AppState.RUNNING
    exit_code: int | None = None
    signal: str | None = None
    reason: str = ""
    error: str | None = None
    ended_at: float | None = None
    timed_out: bool = False
    timers: list[Timer] = field(default_factory=list)

    def end(
        self,
        at: float,
        state: AppState,
        reason: str = "",
        *,
        exit_code: int | None = None,
        signal: str | None = None,
        error: str | None = None,
    ) -> None:
        """Note how it ended; its script goes no further."""
        for timer in self.timers:
            timer.cancel()
        self.state, self.reason, self.ended_at = state, reason, at
        self.exit_code, self.signal, self.error = exit_code, signal, error

    def lines(self, now: float) -> list[WrittenLine]:
        """Return the lines that were written until now, or until its end."""
        until = now if self.ended_at is None else self.ended_at
        written = (
            WrittenLine(line.text, line.stream, self.started_at + line.at, self.number)
            for line in self.outcome.log
        )
        return [line for line in written if line.at <= until]

    def status(self) -> AttemptStatus:
        """Return what is known of it."""
        return AttemptStatus(
            number=self.number,
            state=self.state,
            exit_code=self.exit_code,
            signal=self.signal,
            reason=self.reason,
            started_at=self.started_at,
            ended_at=self.ended_at,
            error=self.error,
        )


class Replica:
    """One of a role's copies and its attempts."""

    def __init__(self, role: RoleRequest, index: int) -> None:
        self.role = role
        self.index = index
        self.state = AppState.PENDING
        self.reason = ""
        self.attempts: list[Attempt] = []
        self.start: Timer | None = None

    @property
    def label(self) -> str:
        """How people and messages call it."""
        return f"{self.role.name}/{self.index}"

    @property
    def last(self) -> Attempt:
        """Its latest attempt."""
        return self.attempts[-1]

    @property
    def story(self) -> str:
        """What became of it, in words."""
        return f"{self.label} {self.reason}"

    @property
    def retried_alone(self) -> bool:
        """Whether a retry leaves the rest of the app as it is."""
        return self.role.retry_policy.scope is RetryScope.REPLICA

    def may_retry(self) -> bool:
        """Whether the policy answers its failure with another attempt; never for a timeout."""
        last = self.last
        return not last.timed_out and self.role.retry_policy.allows(
            last.exit_code, last.reason, last.outcome.status_reason
        )

    def stop(self, at: float, signal: str, reason: str) -> None:
        """End it from outside, whether it runs or waits; nothing for one that has ended."""
        if is_terminal(self.state):
            return
        if self.start is not None:
            self.start.cancel()
        if self.state is AppState.RUNNING:
            self.last.end(at, AppState.CANCELLED, reason, signal=signal)
        self.state, self.reason = AppState.CANCELLED, reason

    def lines(self, now: float) -> list[WrittenLine]:
        """Return what it has written until now, in all its attempts."""
        return [line for attempt in self.attempts for line in attempt.lines(now)]

    def status(self) -> ReplicaStatus:
        """Return what is known of it."""
        return ReplicaStatus(
            id=self.index,
            state=self.state,
            role=self.role.name,
            hostname="localhost" if self.attempts else "",
            structured_error_msg=(self.last.error or "") if self.attempts else "",
            reason=self.reason,
            attempts=tuple(attempt.status() for attempt in self.attempts),
        )
