"""The clock that tests turn by hand."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.errors import UsageError
from wherry.testing import Clock


def test_time_stands_still_until_it_is_moved():
    clock = Clock(start=100)

    assert clock.now() == 100
    clock.advance(2.5)
    assert clock.now() == 102.5


def test_small_steps_add_up_exactly():
    clock = Clock()
    fired = []
    clock.call_later(1, lambda: fired.append(True))

    for _ in range(10):
        clock.advance(0.1)

    assert fired


def test_what_becomes_due_happens_at_its_own_time():
    clock = Clock(start=0)
    seen = []
    for seconds in (30, 10, 20):
        clock.call_later(seconds, lambda: seen.append(clock.now()))

    clock.advance(25)

    assert seen == [10, 20]
    assert clock.now() == 25


def test_what_is_due_at_the_same_time_happens_in_the_order_it_was_asked_for():
    clock = Clock()
    seen = []
    for name in "abc":
        clock.call_later(1, lambda name=name: seen.append(name))

    clock.advance(1)

    assert seen == ["a", "b", "c"]


def test_an_action_can_ask_for_another_one():
    clock = Clock(start=0)
    seen = []
    clock.call_later(1, lambda: clock.call_later(1, lambda: seen.append(clock.now())))

    clock.advance(5)

    assert seen == [2]


def test_a_cancelled_timer_does_not_fire():
    clock = Clock()
    seen = []
    timer = clock.call_later(1, lambda: seen.append("late"))

    timer.cancel()
    clock.advance(2)

    assert seen == []


def test_a_wait_goes_straight_to_what_happens_next():
    clock = Clock(start=0)
    clock.call_later(3600, lambda: None)

    assert clock.wait() is True
    assert clock.now() == 3600


def test_a_wait_goes_no_further_than_its_timeout():
    clock = Clock(start=0)
    clock.call_later(3600, lambda: None)

    assert clock.wait(timeout=5) is True
    assert clock.now() == 5


def test_a_wait_tells_that_nothing_is_left_to_happen():
    clock = Clock(start=0)
    clock.call_later(1, lambda: None).cancel()

    assert clock.wait(timeout=5) is False
    assert clock.now() == 5
    assert clock.wait() is False
    assert clock.now() == 5


def test_without_auto_a_wait_blocks_until_another_thread_moves_the_clock():
    clock = Clock(start=0, auto=False)
    waiting = threading.Event()
    seen = []

    def wait():
        with clock.changed:
            waiting.set()
            clock.wait()
            seen.append(clock.now())

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait()
    clock.advance(7)
    thread.join()

    assert seen == [7]


def test_a_wait_may_go_on_until_something_is_true():
    clock = Clock(start=0)
    for seconds in (1, 2, 3):
        clock.call_later(seconds, lambda: None)

    assert clock.wait(until=lambda: clock.now() >= 2) is True
    assert clock.now() == 2


def test_without_auto_a_wait_ends_with_its_timeout():
    clock = Clock(start=0, auto=False)
    waiting = threading.Event()

    def wait():
        with clock.changed:
            waiting.set()
            clock.wait(timeout=5, until=lambda: False)

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait()
    clock.advance(4)
    assert thread.is_alive()
    clock.advance(1)
    thread.join()


def test_many_threads_lose_no_step():
    clock = Clock(start=0)

    def advance():
        for _ in range(200):
            clock.advance(0.5)

    threads = [threading.Thread(target=advance) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert clock.now() == 400


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_time_does_not_go_backward_or_for_ever(seconds):
    clock = Clock()

    with pytest.raises(UsageError, match="time goes forward"):
        clock.advance(seconds)
    with pytest.raises(UsageError, match="time goes forward"):
        clock.call_later(seconds, lambda: None)


@given(
    delays=st.lists(st.integers(0, 50), max_size=20),
    steps=st.lists(st.integers(0, 20), max_size=20),
)
def test_timers_fire_once_each_in_order_however_the_clock_is_moved(delays, steps):
    clock = Clock(start=0)
    fired = []
    for number, delay in enumerate(delays):
        clock.call_later(delay, lambda number=number: fired.append((clock.now(), number)))

    for step in steps:
        clock.advance(step)

    expected = sorted((delay, number) for number, delay in enumerate(delays))
    assert fired == [item for item in expected if item[0] <= sum(steps) and steps]
