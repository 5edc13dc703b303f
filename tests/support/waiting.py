"""Waiting for what no event tells of."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], what: str, seconds: float = 30.0) -> T:
    """Ask again and again until the answer is a true one; return it."""
    end = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < end, f"gave up waiting for {what}"
        time.sleep(0.02)
    return answer
