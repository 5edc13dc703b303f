"""Patterns of AWS Batch: a text, or the beginning of one with an asterisk after it.

So in rules of retry strategies and in filters of lists. Which of them heed case is said where they
are used.
"""

from __future__ import annotations


def fits(pattern: str, text: str) -> bool:
    """Tell whether a pattern stands for a text.

    >>> fits("Host EC2*", "Host EC2 (instance i-1) terminated."), fits("137", "1")
    (True, False)
    """
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


def fits_any_case(pattern: str, text: str) -> bool:
    """Tell whether a pattern stands for a text, whichever way they are spelt.

    >>> fits_any_case("test1*", "Test10"), fits_any_case("test1", "test10")
    (True, False)
    """
    return fits(pattern.lower(), text.lower())
