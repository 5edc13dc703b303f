"""Times as people write and read them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.cli.times import read_age, read_seconds, read_time, show_duration
from wherry.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("2h", 7200), ("1h30m", 5400), ("7d", 604800), ("2W", 1209600)],
)
def test_an_age_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert read_age(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "10x", "-5m", "5 minutes", "1h-2m"])
def test_what_is_not_an_age_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="10m"):
        read_age(text)


def test_an_age_counts_back_from_now() -> None:
    assert read_time("10m", now=1000.0) == 400.0


@pytest.mark.parametrize(
    "text", ["2026-01-31T08:00:00Z", "2026-01-31T08:00:00+00:00", "2026-01-31T10:00+02:00"]
)
def test_an_iso_time_with_a_zone_is_that_moment(text: str) -> None:
    assert read_time(text) == datetime(2026, 1, 31, 8, tzinfo=timezone.utc).timestamp()


def test_an_iso_time_without_a_zone_is_local() -> None:
    assert read_time("2026-01-31 08:00") == datetime(2026, 1, 31, 8).astimezone().timestamp()


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "12:30 pm", ""])
def test_what_is_not_a_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="ISO time"):
        read_time(text)


@given(st.datetimes(datetime(1971, 1, 2), datetime(2100, 1, 1)), st.integers(-720, 720))
def test_every_iso_time_is_read(moment: datetime, offset: int) -> None:
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=offset)))

    assert read_time(aware.isoformat()) == aware.timestamp()


@pytest.mark.parametrize(("text", "seconds"), [("5", 5), ("0.5", 0.5), ("10m", 600)])
def test_seconds_may_be_a_number_or_an_age(text: str, seconds: float) -> None:
    assert read_seconds(text) == seconds


@pytest.mark.parametrize("text", ["0", "-1", "inf", "nan", "soon"])
def test_seconds_that_cannot_be_waited_for_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        read_seconds(text)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1, "0.00 s"),
        (0.042, "0.04 s"),
        (3.14, "3.1 s"),
        (42.9, "42 s"),
        (75, "1m15s"),
        (3600, "1h"),
        (5400, "1h30m"),
        (90061, "1d1h"),
    ],
)
def test_a_duration_is_shown_in_two_units_at_most(seconds: float, shown: str) -> None:
    assert show_duration(seconds) == shown
