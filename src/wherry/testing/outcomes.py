"""How attempts go: what a test scripts instead of a program.

Data only; `simulation` lets it happen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wherry.errors import UnknownNameError, UsageError, unknown
from wherry.schedulers.api import Stream
from wherry.specs.states import AppState
from wherry.testing.request import MemoryRequest


@dataclass(frozen=True)
class LogLine:
    """One line that an attempt writes.

    Args:
        text: the line; a newline is added unless it ends in one, or in a carriage return.
        stream: where it is written.
        at: how many seconds after the attempt's start.
    """

    text: str
    stream: Stream = Stream.STDOUT
    at: float = 0

    def __post_init__(self) -> None:
        _check_seconds("LogLine.at", self.at)
        if not self.text.endswith(("\n", "\r")):
            object.__setattr__(self, "text", self.text + "\n")


@dataclass(frozen=True)
class Outcome:
    """How one attempt of a replica goes; made by `succeed`, `fail`, `killed`, `lost` and `hang`.

    Args:
        state: how it ends; RUNNING when it does not.
        after: seconds from its start to its end.
        pending: seconds that it waits for its start.
        exit_code: the program's, when it exits by itself.
        signal: the signal that ends it.
        reason: why it ends, in words.
        log: what it writes, by time.
        error: the text of its structured error file.
        status_reason: the provider's words, which a retry policy may look for.
    """

    state: AppState
    after: float = 0
    pending: float = 0
    exit_code: int | None = None
    signal: str | None = None
    reason: str = ""
    log: tuple[LogLine, ...] = ()
    error: str | None = None
    status_reason: str = ""

    def __post_init__(self) -> None:
        _check_seconds("after", self.after)
        _check_seconds("pending", self.pending)
        late = [line for line in self.log if line.at > self.after]
        if late and self.ends:
            raise UsageError(
                f"{late[0].text!r} would be written {late[0].at} s after the start of an attempt "
                f"that ends after {self.after} s"
            )

    @property
    def ends(self) -> bool:
        """Whether it ends by itself."""
        return self.state is not AppState.RUNNING

    @classmethod
    def succeed(
        cls, *, after: float = 0, log: Sequence[str | LogLine] = (), pending: float = 0
    ) -> Outcome:
        """The program exits with 0."""
        return cls(AppState.SUCCEEDED, after, pending, exit_code=0, log=_lines(log))

    @classmethod
    def fail(
        cls,
        exit_code: int = 1,
        reason: str = "",
        *,
        after: float = 0,
        log: Sequence[str | LogLine] = (),
        error: str | None = None,
        pending: float = 0,
    ) -> Outcome:
        """The program exits with a code other than 0.

        Args:
            exit_code: 1 to 255.
            reason: why, in words; it names the code when empty.
            after: seconds from the attempt's start to its end.
            log: what it writes: lines, or text for lines on standard output at the start.
            error: what it leaves in its structured error file (JSON).
            pending: seconds that it waits for its start.

        Raises:
            UsageError: the exit code is not one of a failure.
        """
        if not 1 <= exit_code <= 255:
            raise UsageError(f"the exit code of a failure is 1 to 255, not {exit_code!r}")
        reason = reason or f"exited with code {exit_code}"
        return cls(AppState.FAILED, after, pending, exit_code, None, reason, _lines(log), error)

    @classmethod
    def killed(
        cls,
        signal: str = "SIGKILL",
        reason: str = "",
        *,
        after: float = 0,
        log: Sequence[str | LogLine] = (),
        pending: float = 0,
    ) -> Outcome:
        """A signal ends the program.

        Args:
            signal: its name, such as ``"SIGSEGV"``.
            reason: why, in words; it names the signal when empty.
            after: seconds from the attempt's start to its end.
            log: what it writes: lines, or text for lines on standard output at the start.
            pending: seconds that it waits for its start.

        Raises:
            UnknownNameError: there is no such signal.
        """
        from signal import Signals

        if signal not in Signals.__members__:
            raise UnknownNameError(unknown("signal", signal, Signals.__members__))
        reason = reason or f"killed by {signal}"
        return cls(AppState.FAILED, after, pending, None, signal, reason, _lines(log))

    @classmethod
    def lost(
        cls,
        status_reason: str = "Host EC2 (instance i-0123456789abcdef0) terminated.",
        *,
        after: float = 0,
        log: Sequence[str | LogLine] = (),
        pending: float = 0,
    ) -> Outcome:
        """The host is taken away, as Spot instances are.

        Args:
            status_reason: the provider's words.
            after: seconds from the attempt's start to its end.
            log: what it writes: lines, or text for lines on standard output at the start.
            pending: seconds that it waits for its start.
        """
        return cls(
            AppState.FAILED,
            after,
            pending,
            reason=status_reason,
            log=_lines(log),
            status_reason=status_reason,
        )

    @classmethod
    def hang(cls, *, log: Sequence[str | LogLine] = (), pending: float = 0) -> Outcome:
        """The program runs until it is cancelled or its time is over."""
        return cls(AppState.RUNNING, 0, pending, log=_lines(log))


@dataclass(frozen=True)
class _Rule:
    outcomes: tuple[Outcome, ...]
    app: str | None
    role: str | None
    replica: int | None
    attempt: int | None

    def applies(self, app: str, role: str, replica: int, attempt: int) -> bool:
        facts = (
            (self.app, app),
            (self.role, role),
            (self.replica, replica),
            (self.attempt, attempt),
        )
        return all(wanted is None or wanted == fact for wanted, fact in facts)

    def outcome(self, attempt: int) -> Outcome:
        return self.outcomes[min(attempt, len(self.outcomes)) - 1]


class Script:
    """Which attempt goes how; without a rule, every attempt succeeds at once."""

    def __init__(self) -> None:
        self._rules: list[_Rule] = []

    def add(
        self,
        outcomes: Iterable[Outcome],
        app: str | None,
        role: str | None,
        replica: int | None,
        attempt: int | None,
    ) -> None:
        """Add a rule; it goes before those that were added earlier.

        Raises:
            UsageError: no outcomes, or several for one attempt.
        """
        chosen = tuple(outcomes)
        if not chosen:
            raise UsageError("script() needs an outcome, such as Outcome.fail(exit_code=3)")
        if attempt is not None and (attempt < 1 or len(chosen) > 1):
            raise UsageError(
                f"one attempt has one outcome, and attempts count from 1; attempt={attempt!r} "
                f"was given {len(chosen)}"
            )
        self._rules.insert(0, _Rule(chosen, app, role, replica, attempt))

    def outcome(self, app: str, role: str, replica: int, attempt: int) -> Outcome:
        """Return how an attempt goes."""
        for rule in self._rules:
            if rule.applies(app, role, replica, attempt):
                return rule.outcome(attempt)
        return Outcome.succeed()

    def check(self, request: MemoryRequest) -> None:
        """Refuse an app whose own rules speak of a role or replica that it does not have.

        Raises:
            UnknownNameError: such a rule, which would never have applied.
        """
        for rule in self._rules:
            if rule.app != request.name:
                continue
            roles = request.roles if rule.role is None else [request.role(rule.role)]
            replicas = {replica.id for role in roles for replica in role.replicas}
            if rule.replica is not None and rule.replica not in replicas:
                raise UnknownNameError(
                    f"the script for app {request.name!r} speaks of replica {rule.replica}; "
                    f"there are {len(replicas)}, from 0"
                )


def _lines(log: Sequence[str | LogLine]) -> tuple[LogLine, ...]:
    if isinstance(log, str):
        raise UsageError(f"log is a list of lines, not {log!r}; write [{log!r}]")
    lines = [LogLine(line) if isinstance(line, str) else line for line in log]
    return tuple(sorted(lines, key=lambda line: line.at))


def _check_seconds(where: str, seconds: float) -> None:
    if not math.isfinite(seconds) or seconds < 0:
        raise UsageError(f"{where} must be seconds, 0 or more, not {seconds!r}")
