"""What is known of a running or finished app: its roles, replicas and attempts."""

from __future__ import annotations

from dataclasses import dataclass, field

from wherry.errors import AppFailedError
from wherry.specs.states import AppState, is_terminal


@dataclass(frozen=True)
class AttemptStatus:
    """One run of one replica.

    Args:
        number: counted from 1.
        state: RUNNING, or how it ended.
        exit_code: the program's; ``None`` when it never started, and when a signal ended it,
            unless a container runtime has made a code of that (128 and the signal's number).
        signal: the name of the signal that ended it, such as ``"SIGKILL"``.
        reason: why it ended, in words.
        started_at: seconds since the epoch.
        ended_at: seconds since the epoch.
        error: the structured error file's text (JSON), when the program wrote one.
        logs: what the paths of its log files begin with, for schedulers with files.
    """

    number: int
    state: AppState
    exit_code: int | None = None
    signal: str | None = None
    reason: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    error: str | None = None
    logs: str | None = None


@dataclass(frozen=True)
class ReplicaStatus:
    """One replica of a role.

    Args:
        id: its index within the role, from 0.
        state: its state.
        role: the role's name.
        hostname: where it runs or ran.
        structured_error_msg: the last attempt's error file (JSON), or empty.
        reason: why it is in this state, in words.
        attempts: its runs, oldest first.
    """

    id: int
    state: AppState
    role: str
    hostname: str = ""
    structured_error_msg: str = ""
    reason: str = ""
    attempts: tuple[AttemptStatus, ...] = ()

    @property
    def exit_code(self) -> int | None:
        """The last attempt's exit code."""
        return self.attempts[-1].exit_code if self.attempts else None

    @property
    def signal(self) -> str | None:
        """The signal that ended the last attempt."""
        return self.attempts[-1].signal if self.attempts else None


@dataclass(frozen=True)
class RoleStatus:
    """The replicas of one role.

    Args:
        role: its name.
        replicas: its replicas.
        counted: how many replicas are in each state besides those in ``replicas``, where it was
            only asked how many.
    """

    role: str
    replicas: tuple[ReplicaStatus, ...] = ()
    counted: tuple[tuple[AppState, int], ...] = ()

    def counts(self) -> dict[AppState, int]:
        """Count the replicas in each state; states that no replica is in are left out."""
        totals = dict(self.counted)
        for replica in self.replicas:
            totals[replica.state] = totals.get(replica.state, 0) + 1
        return totals


@dataclass(frozen=True)
class AppStatus:
    """What a scheduler says of an app.

    Args:
        state: the app's state.
        num_restarts: how many attempts were made beyond each replica's first.
        msg: why it is in this state, in words.
        structured_error_msg: the error file (JSON) of the failure that came first, or empty.
        ui_url: where more can be seen.
        roles: the state of each role's replicas.
    """

    state: AppState
    num_restarts: int = 0
    msg: str = ""
    structured_error_msg: str = ""
    ui_url: str | None = None
    roles: tuple[RoleStatus, ...] = field(default_factory=tuple)

    def is_terminal(self) -> bool:
        """Tell whether nothing will change any more."""
        return is_terminal(self.state)

    @property
    def exit_code(self) -> int | None:
        """The exit code that a shell would report for the app; ``None`` while it runs.

        It is the code of the replica that failed first, 128 plus the number for one ended by a
        signal, 0 for success, and 1 where nothing better is known.
        """
        if not self.is_terminal():
            return None
        if self.state is AppState.SUCCEEDED:
            return 0
        return self._first_failure() or 1

    def raise_for_status(self) -> None:
        """Raise `AppFailedError` with the reason, unless the app succeeded or still runs."""
        if self.is_terminal() and self.state is not AppState.SUCCEEDED:
            raise AppFailedError(f"{self.state}: {self.msg or 'no reason is known'}")

    def counts(self) -> dict[AppState, int]:
        """Count the replicas in each state; states that no replica is in are left out."""
        totals: dict[AppState, int] = {}
        for role in self.roles:
            for state, count in role.counts().items():
                totals[state] = totals.get(state, 0) + count
        return totals

    def _first_failure(self) -> int | None:
        ended = [
            replica.attempts[-1]
            for role in self.roles
            for replica in role.replicas
            if replica.attempts and replica.state is AppState.FAILED
        ]
        if not ended:
            return None
        first = min(ended, key=_ended_at)
        return shell_code(first.exit_code, first.signal)


def shell_code(exit_code: int | None, signal_name: str | None) -> int | None:
    """Return what a shell reports: the exit code, or 128 plus the signal's number.

    A signal without a number here, such as a real-time one, leaves the exit code.
    """
    if signal_name is not None:
        import signal

        if signal_name in signal.Signals.__members__:
            return 128 + signal.Signals[signal_name]
    return exit_code


def _ended_at(attempt: AttemptStatus) -> float:
    return float("inf") if attempt.ended_at is None else attempt.ended_at
