"""The states of an app and of its replicas."""

from __future__ import annotations

from enum import IntEnum


class AppState(IntEnum):
    """Where an app, a replica or an attempt is in its life.

    The numbers are TorchX's, and ``EXPIRED`` follows them.
    """

    UNSUBMITTED = 0
    """Not handed to a scheduler yet."""
    SUBMITTED = 1
    """The scheduler has it and has done nothing about it."""
    PENDING = 2
    """Waits for capacity or for other apps."""
    RUNNING = 3
    """At least one replica has started."""
    SUCCEEDED = 4
    """Finished, and well."""
    FAILED = 5
    """Finished, and not well; the status says why."""
    CANCELLED = 6
    """Ended because somebody asked for it."""
    UNKNOWN = 7
    """The scheduler cannot tell."""
    EXPIRED = 8
    """It existed; the provider has forgotten how it ended, and so has our record."""

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{self.name} ({self.value})"

    def __format__(self, spec: str) -> str:
        return format(self.name, spec)


ReplicaState = AppState
"""Replicas go through the same states as apps."""

TERMINAL_STATES = frozenset(
    (AppState.SUCCEEDED, AppState.FAILED, AppState.CANCELLED, AppState.EXPIRED)
)
STARTED_STATES = TERMINAL_STATES | {AppState.RUNNING}


def is_terminal(state: AppState) -> bool:
    """Tell whether nothing will change any more."""
    return state in TERMINAL_STATES


def is_started(state: AppState) -> bool:
    """Tell whether the app has got as far as running."""
    return state in STARTED_STATES
