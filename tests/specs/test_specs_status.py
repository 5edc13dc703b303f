"""States and statuses: the tables, exit codes, counts and reasons."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from wherry.errors import AppFailedError
from wherry.specs import (
    AppState,
    AppStatus,
    AttemptStatus,
    ReplicaState,
    ReplicaStatus,
    RoleStatus,
    is_started,
    is_terminal,
)
from wherry.specs.status import shell_code

# state: number, whether nothing will change any more, whether it has got as far as running
TABLE = {
    "UNSUBMITTED": (0, False, False),
    "SUBMITTED": (1, False, False),
    "PENDING": (2, False, False),
    "RUNNING": (3, False, True),
    "SUCCEEDED": (4, True, True),
    "FAILED": (5, True, True),
    "CANCELLED": (6, True, True),
    "UNKNOWN": (7, False, False),
    "EXPIRED": (8, True, True),
}


def test_the_table_has_every_state() -> None:
    assert {state.name: state.value for state in AppState} == {
        name: number for name, (number, _, _) in TABLE.items()
    }


@pytest.mark.parametrize("name", TABLE)
def test_what_a_state_means(name: str) -> None:
    state = AppState[name]
    _, terminal, started = TABLE[name]

    assert is_terminal(state) is terminal
    assert is_started(state) is started
    assert AppStatus(state).is_terminal() is terminal


@pytest.mark.parametrize("name", TABLE)
def test_a_state_prints_its_name(name: str) -> None:
    state = AppState[name]

    assert str(state) == f"{state}" == name
    assert f"{state:>12}" == name.rjust(12)
    assert repr(state) == f"{name} ({state.value})"


def test_replicas_have_the_states_of_apps() -> None:
    assert ReplicaState is AppState


def attempt(number: int = 1, **fields: Any) -> AttemptStatus:
    return AttemptStatus(number, **{"state": AppState.FAILED, **fields})


def replica(index: int, *attempts: AttemptStatus, **fields: Any) -> ReplicaStatus:
    state = attempts[-1].state if attempts else AppState.PENDING
    return ReplicaStatus(index, **{"state": state, "role": "r", "attempts": attempts, **fields})


def status(state: AppState, *replicas: ReplicaStatus, **fields: Any) -> AppStatus:
    return AppStatus(state, roles=(RoleStatus("r", tuple(replicas)),), **fields)


# -- exit codes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "state", [state for state in AppState if not TABLE[state.name][1]], ids=str
)
def test_an_app_that_goes_on_has_no_exit_code(state: AppState) -> None:
    assert status(state, replica(0, attempt(exit_code=3))).exit_code is None


def test_success_is_zero_even_after_a_failed_attempt() -> None:
    retried = replica(0, attempt(1, exit_code=3), attempt(2, state=AppState.SUCCEEDED, exit_code=0))

    assert status(AppState.SUCCEEDED, retried).exit_code == 0


def test_failure_is_the_programs_own_code() -> None:
    assert status(AppState.FAILED, replica(0, attempt(exit_code=3))).exit_code == 3


def test_the_replica_that_failed_first_gives_the_code() -> None:
    failed = status(
        AppState.FAILED,
        replica(0, attempt(exit_code=1, ended_at=20.0)),
        replica(1, attempt(exit_code=7, ended_at=10.0)),
        replica(2, attempt(signal="SIGTERM", ended_at=30.0)),
    )

    assert failed.exit_code == 7


def test_time_zero_is_a_time() -> None:
    failed = status(
        AppState.FAILED,
        replica(0, attempt(exit_code=1, ended_at=1.0)),
        replica(1, attempt(exit_code=7, ended_at=0.0)),
    )

    assert failed.exit_code == 7


def test_a_replica_whose_end_is_not_known_comes_last() -> None:
    failed = status(
        AppState.FAILED,
        replica(0, attempt(exit_code=1)),
        replica(1, attempt(exit_code=7, ended_at=10.0)),
    )

    assert failed.exit_code == 7


def test_the_last_attempt_counts() -> None:
    retried = replica(
        0, attempt(1, exit_code=3, ended_at=1.0), attempt(2, exit_code=4, ended_at=2.0)
    )

    assert status(AppState.FAILED, retried).exit_code == 4


def test_replicas_that_were_stopped_do_not_count() -> None:
    failed = status(
        AppState.FAILED,
        replica(0, attempt(state=AppState.CANCELLED, signal="SIGTERM", ended_at=1.0)),
        replica(1, attempt(exit_code=7, ended_at=2.0)),
    )

    assert failed.exit_code == 7


@pytest.mark.parametrize(
    ("name", "code"),
    [("SIGKILL", 137), ("SIGTERM", 143), ("SIGSEGV", 139), ("SIGINT", 130), ("SIGABRT", 134)],
)
def test_a_signal_is_128_and_its_number(name: str, code: int) -> None:
    assert status(AppState.FAILED, replica(0, attempt(signal=name))).exit_code == code
    assert code == 128 + signal.Signals[name]


@pytest.mark.parametrize(
    "failed",
    [
        AppStatus(AppState.FAILED),
        status(AppState.FAILED, replica(0)),
        status(AppState.FAILED, replica(0, attempt())),
        status(AppState.FAILED, replica(0, attempt(exit_code=0))),
        status(AppState.FAILED, replica(0, attempt(signal="SIGRTMIN+5"))),
        status(AppState.CANCELLED, replica(0, attempt(state=AppState.CANCELLED, exit_code=0))),
        AppStatus(AppState.EXPIRED),
    ],
)
def test_without_anything_better_the_code_is_one(failed: AppStatus) -> None:
    assert failed.exit_code == 1


@pytest.mark.parametrize(
    ("exit_code", "name", "code"),
    [
        (0, None, 0),
        (3, None, 3),
        (None, None, None),
        (None, "SIGKILL", 137),
        (None, "SIGRTMIN+5", None),
        (9, "no signal", 9),
    ],
)
def test_what_a_shell_reports(exit_code: int | None, name: str | None, code: int | None) -> None:
    assert shell_code(exit_code, name) == code


def test_a_replica_tells_of_its_last_attempt() -> None:
    retried = replica(0, attempt(1, exit_code=3), attempt(2, signal="SIGKILL"))

    assert (retried.exit_code, retried.signal) == (None, "SIGKILL")
    assert (replica(0).exit_code, replica(0).signal) == (None, None)


# -- counts and reasons ------------------------------------------------------------------------


def test_replicas_are_counted_by_state_over_all_roles() -> None:
    running, failed = attempt(state=AppState.RUNNING), attempt()
    counted = AppStatus(
        AppState.RUNNING,
        roles=(
            RoleStatus("a", (replica(0, running), replica(1, failed), replica(2, failed))),
            RoleStatus("b", (replica(0), replica(1, running))),
        ),
    )

    assert counted.counts() == {AppState.RUNNING: 2, AppState.FAILED: 2, AppState.PENDING: 1}
    assert AppStatus(AppState.PENDING).counts() == {}


@pytest.mark.parametrize(
    "state", [s for s in AppState if not TABLE[s.name][1] or s is AppState.SUCCEEDED], ids=str
)
def test_an_app_that_did_not_fail_raises_nothing(state: AppState) -> None:
    AppStatus(state, msg="x").raise_for_status()


@pytest.mark.parametrize("state", [AppState.FAILED, AppState.CANCELLED, AppState.EXPIRED], ids=str)
def test_an_app_that_failed_raises_its_reason(state: AppState) -> None:
    with pytest.raises(AppFailedError, match=f"^{state.name}: replica 3 exited with 7$"):
        AppStatus(state, msg="replica 3 exited with 7").raise_for_status()


def test_a_failure_without_a_reason_says_so() -> None:
    with pytest.raises(AppFailedError, match="FAILED: no reason is known"):
        AppStatus(AppState.FAILED).raise_for_status()
