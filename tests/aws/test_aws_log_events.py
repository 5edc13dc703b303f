"""Events become lines, and an event that is read twice is handed out once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.aws.log_events import Event, Lines, Recent, event_of

LIMIT = 262_144 - 26


def lines_of(*texts: str) -> list[str]:
    making = Lines()
    made = [line for text in texts for line in making.feed(Event(0, text, 0))]
    return made + making.rest()


def test_an_event_is_a_line() -> None:
    assert lines_of("a", "b") == ["a\n", "b\n"]


def test_control_characters_and_carriage_returns_stay() -> None:
    assert lines_of("\x1b[31m50%\r100%\r\x00") == ["\x1b[31m50%\r100%\r\x00\n"]


def test_what_was_not_utf_8_stays_as_cloudwatch_gives_it() -> None:
    assert lines_of("caf\ufffd") == ["caf\ufffd\n"]


def test_a_lone_surrogate_can_be_written_to_a_file() -> None:
    (line,) = lines_of("a\ud83dz")

    assert line.encode() == "a\ufffdz\n".encode()


def test_an_event_with_newlines_is_several_lines() -> None:
    assert lines_of("Traceback\n  File x\nError\n") == ["Traceback\n", "  File x\n", "Error\n"]


def test_a_unicode_line_separator_ends_no_line() -> None:
    assert lines_of("a\u2028b\x0bc\x85d") == ["a\u2028b\x0bc\x85d\n"]


@pytest.mark.parametrize("limit", [LIMIT, 1_048_576 - 26])
def test_a_line_that_the_driver_has_cut_is_whole_again(limit: int) -> None:
    assert lines_of("a" * limit, "b" * limit, "c", "d") == [
        "a" * limit + "b" * limit + "c\n",
        "d\n",
    ]


def test_a_line_that_was_cut_before_a_wide_character_is_whole_again() -> None:
    # 262,118 bytes hold 65,529 characters of four bytes, and two bytes are left over.
    assert lines_of("😀" * (LIMIT // 4), "tail") == ["😀" * (LIMIT // 4) + "tail\n"]


def test_a_line_a_little_shorter_than_the_limit_stands_alone() -> None:
    assert lines_of("a" * (LIMIT - 4), "b") == ["a" * (LIMIT - 4) + "\n", "b\n"]


def test_a_last_line_that_was_cut_ends_with_the_log() -> None:
    assert lines_of("a" * LIMIT) == ["a" * LIMIT + "\n"]


def test_an_event_without_the_time_of_its_coming_came_when_it_was_written() -> None:
    assert event_of({"timestamp": 5, "message": "x"}) == Event(5, "x", 5)


# -- what was read before -------------------------------------------------------------------------

events = st.builds(Event, st.integers(0, 50), st.sampled_from("abc"), st.integers(0, 3))


@given(first=st.lists(events, max_size=30), late=st.lists(events, max_size=10))
def test_a_second_reading_shows_what_the_first_has_not(
    first: list[Event], late: list[Event]
) -> None:
    recent = Recent(window=1_000_000)
    for event in first:
        recent.add(event)

    is_new = recent.comparison()
    found = [event for event in sorted(first + late) if is_new(event)]

    assert sorted(found) == sorted(late)


def test_events_that_are_equal_are_counted() -> None:
    recent = Recent(window=1000)
    recent.add(Event(1, "same", 1))
    is_new = recent.comparison()

    assert [is_new(Event(1, "same", 1)) for _ in range(3)] == [False, True, True]


def test_what_is_older_than_the_window_counts_as_read() -> None:
    recent = Recent(window=10_000)
    recent.add(Event(100_000, "x", 0))
    is_new = recent.comparison()

    assert recent.since == 90_000
    assert [is_new(Event(at, "y", 0)) for at in (89_999, 90_000, 100_001)] == [False, True, True]


def test_what_was_forgotten_is_not_new_again_when_the_window_grows() -> None:
    recent = Recent(window=1000)
    for second in range(100):
        recent.add(Event(second * 1000, "x", 0))
    recent.window = 50_000
    is_new = recent.comparison()

    assert not any(is_new(Event(second * 1000, "x", 0)) for second in range(100))
