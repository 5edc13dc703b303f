"""A function for `wherry map examples/roots.py:root --each-line FILE`."""

from __future__ import annotations

import math


def root(line):
    """Return the square root of the number in a line."""
    print(f"taking the root of {line}")
    return round(math.sqrt(float(line)), 3)
