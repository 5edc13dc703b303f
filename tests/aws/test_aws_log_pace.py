"""How often a log is looked at."""

from __future__ import annotations

import pytest

from wherry.aws.log_pace import Pace


@pytest.mark.parametrize("calls", [1, 2, 3, 5, 10])
def test_the_minute_after_the_last_line_costs_at_most_30_calls(calls: int) -> None:
    pace, asked = Pace(), 0
    now = pace.after(lines=True, calls=calls)
    while now < 60:
        asked += calls
        now += pace.after(lines=False, calls=calls)

    assert asked <= 30


@pytest.mark.parametrize("calls", [1, 2, 5, 10])
def test_later_minutes_cost_at_most_20(calls: int) -> None:
    pace = Pace()
    pauses = [pace.after(lines=False, calls=calls) for _ in range(20)]

    assert calls * 60 / pauses[-1] <= 20


@pytest.mark.parametrize(("calls", "longest"), [(1, 0.8), (2, 0.8), (3, 1.0), (10, 3.4)])
def test_while_lines_come_looks_follow_one_another_quickly(calls: int, longest: float) -> None:
    pace = Pace()
    for _ in range(30):
        pace.after(lines=False, calls=calls)

    assert pace.after(lines=True, calls=calls) <= longest
    assert pace.after(lines=False, calls=calls) <= longest
