"""How often AWS is asked: halved when it throttles, grown back with success, never one for all."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from support.aws_calls import HandClock
from wherry.aws.pacing import RATES, SUBMIT, Lane, Limiter, Rate, backoff


def lane(clock: HandClock, most: float = 40.0, least: float = 5.0) -> Lane:
    return Lane(Rate(most, least), time=clock.time)


def test_a_burst_of_one_second_goes_through_at_once_and_then_the_rate_is_kept():
    clock = HandClock()
    limited = lane(clock, most=10)

    waits = [limited.reserve() for _ in range(12)]

    assert waits[:10] == [0.0] * 10
    assert [round(wait, 6) for wait in waits[10:]] == [0.1, 0.2]


def test_a_throttled_call_halves_the_rate():
    limited = lane(HandClock())

    limited.throttled()

    assert limited.rate == 20.0


def test_calls_that_were_throttled_together_halve_it_once():
    clock = HandClock()
    limited = lane(clock)

    for _ in range(10):
        limited.throttled()
    assert limited.rate == 20.0

    clock.turn(1.5)
    limited.throttled()
    assert limited.rate == 10.0


def test_the_rate_has_a_floor_and_grows_back_to_where_it_began():
    clock = HandClock()
    limited = lane(clock)
    for _ in range(20):
        limited.throttled()
        clock.turn(2)
    assert limited.rate == 5.0

    for _ in range(100):
        limited.succeeded()

    assert limited.rate == 40.0


def test_after_a_throttle_the_burst_is_spent():
    limited = lane(HandClock())

    limited.throttled()

    assert limited.reserve() == 0.0
    assert limited.reserve() > 0.0


def test_a_flood_of_submissions_does_not_hold_up_a_cancellation_nor_a_look():
    limiter = Limiter(time=HandClock().time)
    for _ in range(1000):
        limiter.lane("SubmitJob").reserve()
    limiter.lane("SubmitJob").throttled()

    assert limiter.lane("SubmitJob").reserve() > 10
    for operation in ("TerminateJob", "CancelJob", "TerminateJobs", "CancelJobs", "DescribeJobs"):
        assert limiter.lane(operation).reserve() == 0.0


def test_submissions_stay_within_what_aws_documents():
    assert RATES[SUBMIT].most <= 50


def test_places_are_given_out_once_among_threads():
    limited = lane(HandClock(), most=100)
    waits: list[float] = []
    threads = [
        threading.Thread(target=lambda: waits.extend(limited.reserve() for _ in range(50)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(wait == 0.0 for wait in waits) == 100
    assert len({round(wait, 9) for wait in waits if wait}) == 300


@given(st.integers(1, 200), st.floats(0, 1), st.floats(0.01, 5))
def test_a_pause_before_a_repetition_is_never_above_its_bounds(attempt, chance, base):
    pause = backoff(attempt, lambda: chance, base=base, cap=20.0)

    assert 0.0 <= pause <= min(20.0, base * 2.0 ** min(attempt, 60))
