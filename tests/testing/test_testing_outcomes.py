"""Scripted outcomes: how attempts end, and what that makes of their app."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.errors import (
    LaunchError,
    StateError,
    UnknownAppError,
    UnknownNameError,
    UsageError,
    WaitTimeout,
)
from wherry.schedulers.api import ListFilter
from wherry.specs import AppDef, AppState, RetryPolicy, Role
from wherry.testing import Clock, LogLine, MemoryScheduler, Outcome

CANCELLED, FAILED, PENDING, RUNNING, SUCCEEDED = (
    AppState.CANCELLED,
    AppState.FAILED,
    AppState.PENDING,
    AppState.RUNNING,
    AppState.SUCCEEDED,
)


@pytest.fixture
def scheduler():
    return MemoryScheduler(clock=Clock(start=1000))


def app(name="a", *, array=False, timeout=None, depends_on=(), **fields):
    role = Role(**{"name": "main", "entrypoint": "prog", **fields})
    return AppDef(name, [role], array=array, timeout=timeout, depends_on=depends_on)


def replicas(scheduler, app_id):
    roles = scheduler.describe(app_id).roles_statuses
    return [replica for role in roles for replica in role.replicas]


def states(scheduler, app_id):
    return [replica.state for replica in replicas(scheduler, app_id)]


# Single attempts


def test_without_a_script_an_app_succeeds_at_once(scheduler):
    app_id = scheduler.submit(app(), {})

    answer = scheduler.describe(app_id)

    assert answer.state is SUCCEEDED
    assert answer.created_at == answer.started_at == answer.ended_at == 1000


def test_an_app_runs_until_its_time_has_come(scheduler):
    scheduler.script(Outcome.succeed(after=5, pending=2))
    app_id = scheduler.submit(app(), {})

    seen = []
    for _ in range(3):
        seen.append(scheduler.describe(app_id).state)
        scheduler.clock.advance(3.5)

    assert seen == [PENDING, RUNNING, SUCCEEDED]
    answer = scheduler.describe(app_id)
    assert (answer.created_at, answer.started_at, answer.ended_at) == (1000, 1002, 1007)


def test_a_failure_has_its_exit_code_reason_and_error_file(scheduler):
    scheduler.script(Outcome.fail(3, "no such table", error='{"message": "no such table"}'))
    app_id = scheduler.submit(app(), {})

    answer = scheduler.describe(app_id)

    assert answer.state is FAILED
    assert answer.to_status().exit_code == 3
    assert answer.msg == "main/0 no such table"
    assert answer.structured_error_msg == '{"message": "no such table"}'
    (replica,) = replicas(scheduler, app_id)
    assert replica.attempts[0].error == replica.structured_error_msg == answer.structured_error_msg


def test_a_signal_has_its_name_and_the_code_that_a_shell_gives(scheduler):
    scheduler.script(Outcome.killed("SIGSEGV"))
    app_id = scheduler.submit(app(), {})

    assert replicas(scheduler, app_id)[0].signal == "SIGSEGV"
    assert replicas(scheduler, app_id)[0].exit_code is None
    assert scheduler.describe(app_id).to_status().exit_code == 128 + 11


def test_an_attempt_that_takes_too_long_is_stopped_and_not_retried(scheduler):
    scheduler.script(Outcome.hang())
    app_id = scheduler.submit(app(timeout=30, max_retries=1), {})

    scheduler.clock.advance(29)
    assert scheduler.describe(app_id).state is RUNNING
    scheduler.clock.advance(1)

    assert scheduler.describe(app_id).state is FAILED
    assert scheduler.describe(app_id).msg == "main/0 timed out after 30 s"
    (attempt,) = replicas(scheduler, app_id)[0].attempts
    assert (attempt.signal, attempt.ended_at - attempt.started_at) == ("SIGTERM", 30)


def test_an_attempt_that_ends_in_time_is_not_stopped(scheduler):
    scheduler.script(Outcome.succeed(after=30))
    app_id = scheduler.submit(app(timeout=30), {})

    scheduler.clock.advance(30)

    assert scheduler.describe(app_id).state is SUCCEEDED


# Which rule is for which attempt


def test_outcomes_are_for_one_attempt_after_the_other(scheduler):
    scheduler.script(Outcome.fail(1), Outcome.fail(2))
    app_id = scheduler.submit(app(max_retries=2), {})

    attempts = replicas(scheduler, app_id)[0].attempts

    assert [(one.number, one.exit_code) for one in attempts] == [(1, 1), (2, 2), (3, 2)]
    assert scheduler.describe(app_id).num_restarts == 2


def test_what_was_scripted_last_counts_first(scheduler):
    scheduler.script(Outcome.fail(1), app="b")
    scheduler.script(Outcome.fail(2), app="b", role="main", replica=1, attempt=1)
    b = scheduler.submit(app("b", num_replicas=2, array=True), {})
    a = scheduler.submit(app("a"), {})

    assert [replica.exit_code for replica in replicas(scheduler, b)] == [1, 2]
    assert scheduler.describe(a).state is SUCCEEDED


@pytest.mark.parametrize(
    ("place", "words"),
    [({"role": "mian"}, "did you mean 'main'"), ({"replica": 2}, "there are 2, from 0")],
)
def test_a_script_that_could_never_apply_is_refused(scheduler, place, words):
    scheduler.script(Outcome.fail(), app="a", **place)

    with pytest.raises(UnknownNameError, match=words):
        scheduler.submit(app(num_replicas=2), {})
    assert not scheduler.submitted


@pytest.mark.parametrize(
    "make",
    [
        lambda: Outcome.fail(0),
        lambda: Outcome.fail(256),
        lambda: Outcome.killed("SIGKIL"),
        lambda: Outcome.succeed(after=-1),
        lambda: Outcome.succeed(log="a line"),
        lambda: Outcome.succeed(after=1, log=[LogLine("late", at=2)]),
        lambda: LogLine("early", at=-1),
        lambda: MemoryScheduler().script(),
        lambda: MemoryScheduler().script(Outcome.hang(), Outcome.hang(), attempt=1),
        lambda: MemoryScheduler().script(Outcome.hang(), attempt=0),
    ],
)
def test_an_outcome_that_cannot_be_is_refused(make):
    with pytest.raises(UsageError):
        make()


# Gangs and arrays


def test_a_gang_fails_when_its_first_replica_does(scheduler):
    scheduler.script(Outcome.hang())
    scheduler.script(Outcome.fail(7, after=5), replica=1)
    app_id = scheduler.submit(app(num_replicas=3), {})

    scheduler.clock.advance(5)

    assert states(scheduler, app_id) == [CANCELLED, FAILED, CANCELLED]
    assert scheduler.describe(app_id).to_status().exit_code == 7
    first = replicas(scheduler, app_id)[0]
    assert (first.signal, first.reason) == ("SIGTERM", "stopped because main/1 failed")


def test_a_gang_starts_together(scheduler):
    scheduler.script(Outcome.hang())
    scheduler.script(Outcome.hang(pending=10), replica=1)
    gang = scheduler.submit(app(num_replicas=2), {})
    array = scheduler.submit(app(num_replicas=2, array=True), {})

    assert states(scheduler, gang) == [PENDING, PENDING]
    assert states(scheduler, array) == [RUNNING, PENDING]
    scheduler.clock.advance(10)
    assert states(scheduler, gang) == states(scheduler, array) == [RUNNING, RUNNING]


def test_a_gang_goes_on_while_enough_replicas_live(scheduler):
    scheduler.script(Outcome.succeed(after=10))
    scheduler.script(Outcome.fail(after=1), replica=0)
    app_id = scheduler.submit(app(num_replicas=3, min_replicas=2), {})

    scheduler.clock.advance(10)

    assert states(scheduler, app_id) == [FAILED, SUCCEEDED, SUCCEEDED]
    assert scheduler.describe(app_id).state is SUCCEEDED
    assert scheduler.describe(app_id).msg == ""


def test_an_array_goes_on_without_the_replica_that_failed(scheduler):
    scheduler.script(Outcome.succeed(after=10))
    scheduler.script(Outcome.fail(7, after=5), replica=1)
    app_id = scheduler.submit(app(num_replicas=3, array=True), {})

    scheduler.clock.advance(5)
    assert states(scheduler, app_id) == [RUNNING, FAILED, RUNNING]
    scheduler.clock.advance(5)

    assert states(scheduler, app_id) == [SUCCEEDED, FAILED, SUCCEEDED]
    assert scheduler.describe(app_id).state is FAILED
    assert scheduler.describe(app_id).msg == (
        "1 of 3 replicas failed; the first: main/1 exited with code 7"
    )


# Retries


def test_a_gang_is_started_again_as_a_whole(scheduler):
    scheduler.script(Outcome.succeed(after=10))
    scheduler.script(Outcome.fail(after=5), replica=1, attempt=1)
    app_id = scheduler.submit(app(num_replicas=2, max_retries=1), {})

    scheduler.clock.advance(15)

    assert scheduler.describe(app_id).state is SUCCEEDED
    assert [
        [attempt.state for attempt in replica.attempts] for replica in replicas(scheduler, app_id)
    ] == [[CANCELLED, SUCCEEDED], [FAILED, SUCCEEDED]]
    assert replicas(scheduler, app_id)[0].attempts[0].reason == (
        "started again with the app: main/1 exited with code 1"
    )


def test_a_gang_without_the_replica_that_timed_out_does_not_go_on(scheduler):
    scheduler.script(Outcome.succeed(after=5))
    scheduler.script(Outcome.hang(), replica=1)
    app_id = scheduler.submit(app(num_replicas=3, min_replicas=1, timeout=10), {})

    scheduler.clock.advance(10)

    assert states(scheduler, app_id) == [SUCCEEDED, FAILED, SUCCEEDED]
    assert scheduler.describe(app_id).state is FAILED


def test_an_app_starts_again_as_often_as_the_role_that_failed_allows(scheduler):
    scheduler.script(Outcome.fail(1), app="two")
    scheduler.script(Outcome.hang(), app="two", role="patient")
    roles = [
        Role("patient", entrypoint="prog", max_retries=9),
        Role("hasty", entrypoint="prog", max_retries=2),
    ]

    app_id = scheduler.submit(AppDef("two", roles), {})

    assert [len(replica.attempts) for replica in replicas(scheduler, app_id)] == [3, 3]
    assert scheduler.describe(app_id).num_restarts == 4


@pytest.mark.parametrize("array", [True, False])
def test_a_replica_is_started_again_alone(scheduler, array):
    scheduler.script(Outcome.succeed(after=10))
    scheduler.script(Outcome.fail(after=5), replica=1, attempt=1)
    policy = RetryPolicy.APPLICATION if array else RetryPolicy.REPLICA
    app_id = scheduler.submit(
        app(num_replicas=2, max_retries=1, retry_policy=policy, array=array), {}
    )

    scheduler.clock.advance(15)

    assert scheduler.describe(app_id).state is SUCCEEDED
    assert [len(replica.attempts) for replica in replicas(scheduler, app_id)] == [1, 2]


def test_the_policy_says_which_failures_are_retried(scheduler):
    scheduler.script(Outcome.lost(), Outcome.fail(1, "a bug"))
    app_id = scheduler.submit(app(max_retries=5, retry_policy=RetryPolicy.spot()), {})

    attempts = replicas(scheduler, app_id)[0].attempts

    assert [attempt.reason.partition(" (")[0] for attempt in attempts] == ["Host EC2", "a bug"]
    assert scheduler.describe(app_id).state is FAILED


@given(
    codes=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), min_size=1, max_size=4),
    max_retries=st.integers(0, 3),
)
def test_an_array_succeeds_exactly_when_each_replica_does_in_time(codes, max_retries):
    scheduler = MemoryScheduler()
    for replica, wanted in enumerate(codes):
        outcomes = [Outcome.fail(code, after=1) if code else Outcome.succeed() for code in wanted]
        scheduler.script(*outcomes, replica=replica)
    app_id = scheduler.submit(app(num_replicas=len(codes), max_retries=max_retries, array=True), {})

    scheduler.clock.advance(1 + max_retries)

    padded = [[*wanted, *[wanted[-1]] * 4][: max_retries + 1] for wanted in codes]
    assert states(scheduler, app_id) == [SUCCEEDED if 0 in wanted else FAILED for wanted in padded]
    assert scheduler.describe(app_id).state is (
        SUCCEEDED if all(0 in wanted for wanted in padded) else FAILED
    )


# Cancelling


def test_cancelling_ends_what_runs_and_what_waits(scheduler):
    scheduler.script(Outcome.hang())
    scheduler.script(Outcome.hang(pending=60), replica=1)
    app_id = scheduler.submit(app(num_replicas=2, array=True), {})

    scheduler.cancel(app_id, "wrong data")
    scheduler.cancel(app_id, "again")
    scheduler.clock.advance(100)

    assert scheduler.describe(app_id).msg == "wrong data"
    assert states(scheduler, app_id) == [CANCELLED, CANCELLED]
    assert [len(replica.attempts) for replica in replicas(scheduler, app_id)] == [1, 0]
    assert replicas(scheduler, app_id)[0].signal == "SIGTERM"


def test_killing_skips_the_grace(scheduler):
    scheduler.script(Outcome.hang())
    app_id = scheduler.submit(app(), {})

    scheduler.cancel(app_id, kill=True)

    assert replicas(scheduler, app_id)[0].signal == "SIGKILL"
    assert scheduler.describe(app_id).msg == "cancelled"


# Dependencies


def test_an_app_waits_for_those_it_depends_on(scheduler):
    scheduler.script(Outcome.succeed(after=10), app="first")
    first = scheduler.submit(app("first"), {})
    second = scheduler.submit(app("second", depends_on=[f"memory://test/{first}"]), {})

    scheduler.clock.advance(9)
    assert scheduler.describe(second).state is PENDING
    assert scheduler.describe(second).msg == "waits for memory://test/first-1"
    scheduler.clock.advance(1)

    assert scheduler.describe(second).state is SUCCEEDED
    assert scheduler.describe(second).started_at == 1010
    assert scheduler.describe(second).msg == ""


@pytest.mark.parametrize(
    ("outcome", "words"), [(Outcome.fail(after=1), "failed"), (Outcome.hang(), "was cancelled")]
)
def test_an_app_does_not_start_when_what_it_depends_on_did_not_succeed(scheduler, outcome, words):
    scheduler.script(outcome, app="first")
    first = scheduler.submit(app("first"), {})
    second = scheduler.submit(app("second", depends_on=[f"memory://test/{first}"]), {})
    third = scheduler.submit(app("third", depends_on=[f"memory://test/{second}"]), {})

    scheduler.clock.advance(1)
    scheduler.cancel(first)

    assert scheduler.describe(second).state is scheduler.describe(third).state is FAILED
    assert scheduler.describe(second).msg == f"depends on memory://test/first-1, which {words}"
    assert states(scheduler, second) == [CANCELLED]
    assert replicas(scheduler, second)[0].attempts == ()


@pytest.mark.parametrize("handle", ["memory://test/gone-1", "local_cwd://test/first-1"])
def test_a_dependency_that_is_not_known_is_refused(scheduler, handle):
    scheduler.submit(app("first"), {})

    with pytest.raises(LaunchError, match="depends on an unknown app"):
        scheduler.submit(app("second", depends_on=[handle]), {})


# Waiting


def test_waiting_moves_the_clock_to_the_end(scheduler):
    scheduler.script(Outcome.succeed(after=3600))
    app_id = scheduler.submit(app(), {})

    while not scheduler.describe(app_id).to_status().is_terminal():
        scheduler.wait_for_change(app_id, timeout=86_400)

    assert scheduler.clock.now() == 1000 + 3600


def test_waiting_may_go_on_to_the_end(scheduler):
    scheduler.script(Outcome.fail(after=10), Outcome.succeed(after=20))
    app_id = scheduler.submit(app(max_retries=1), {})

    scheduler.wait_for_change(app_id, timeout=60, until_end=True)

    assert scheduler.describe(app_id).ended_at == scheduler.clock.now() == 1030


def test_waiting_goes_no_further_than_its_timeout(scheduler):
    scheduler.script(Outcome.succeed(after=100))
    app_id = scheduler.submit(app(), {})

    scheduler.wait_for_change(app_id, timeout=60, until_end=True)

    assert scheduler.describe(app_id).state is RUNNING
    assert scheduler.clock.now() == 1060


def test_waiting_for_what_will_never_end_says_so(scheduler):
    scheduler.script(Outcome.hang())
    app_id = scheduler.submit(app(), {})

    with pytest.raises(WaitTimeout, match="nothing more is scripted"):
        scheduler.wait_for_change(app_id, timeout=5)
    assert scheduler.clock.now() == 1005


def test_waiting_blocks_until_another_thread_moves_a_manual_clock():
    scheduler = MemoryScheduler(clock=Clock(auto=False))
    scheduler.script(Outcome.succeed(after=10))
    app_id = scheduler.submit(app(), {})

    def wait():
        while not scheduler.describe(app_id).to_status().is_terminal():
            scheduler.wait_for_change(app_id, timeout=60)

    thread = threading.Thread(target=wait)
    thread.start()
    scheduler.clock.advance(4)
    scheduler.clock.advance(6)
    thread.join()

    assert scheduler.describe(app_id).state is SUCCEEDED


def test_waiting_on_a_manual_clock_ends_when_the_app_is_cancelled():
    scheduler = MemoryScheduler(clock=Clock(auto=False))
    scheduler.script(Outcome.hang())
    app_id = scheduler.submit(app(), {})
    thread = threading.Thread(target=scheduler.wait_for_change, args=(app_id, 60))
    thread.start()

    scheduler.cancel(app_id)
    thread.join()

    assert scheduler.describe(app_id).state is CANCELLED


# Records


def test_a_list_is_filtered(scheduler):
    scheduler.script(Outcome.fail(), app="bad")
    for name in ("bad", "good", "good"):
        scheduler.submit(app(name, num_replicas=2), {})
        scheduler.clock.advance(10)

    def listed(**chosen):
        return [line.app_id for line in scheduler.list(ListFilter(**chosen))]

    assert listed() == ["good-2", "good-1", "bad-1"]
    assert listed(states=frozenset([FAILED])) == ["bad-1"]
    assert listed(name="go", limit=1) == ["good-2"]
    assert listed(since=1010) == ["good-2", "good-1"]
    assert listed(session="other") == []
    newest = next(scheduler.list())
    assert (newest.app_handle, newest.replicas) == ("memory://test/good-2", 2)


def test_a_forgotten_app_never_was(scheduler):
    app_id = scheduler.submit(app(), {})

    scheduler.forget(app_id)

    assert scheduler.describe(app_id) is None
    with pytest.raises(UnknownAppError):
        scheduler.forget(app_id)


def test_an_app_that_runs_is_not_forgotten(scheduler):
    scheduler.script(Outcome.hang())
    app_id = scheduler.submit(app(), {})

    with pytest.raises(StateError, match="only an ended app"):
        scheduler.forget(app_id)


def test_two_schedulers_may_share_a_clock():
    clock = Clock(start=0)
    one, two = MemoryScheduler("one", clock=clock), MemoryScheduler("two", clock=clock)
    for scheduler in (one, two):
        scheduler.script(Outcome.succeed(after=5))
        scheduler.submit(app(), {})

    one.wait_for_change("a-1", timeout=60)

    assert two.describe("a-1").ended_at == 5
