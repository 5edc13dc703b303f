"""How often to look whether a log has grown. Arithmetic only.

Looks follow one another within a second while lines come, and for a few seconds after the last;
then each pause is longer than the one before, up to a bound at which an idle minute costs about 15
calls, and at most 20 from the last line on. Several streams that need several calls a look share
that: the more calls, the longer the pauses.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wherry.aws.pacing import Seconds

_CALLS_A_SECOND = 3.0
"""What one follower of many streams may ask for while lines come. CloudWatch Logs grants an
account 5 calls of FilterLogEvents a second and 10 of GetLogEvents (2023), and others want some."""

_SECONDS_FOR_A_CALL = 2.4
"""How many seconds there are for each call while no lines come: 25 calls a minute."""


@dataclass
class Pace:
    """The pauses between looks.

    Args:
        quick: the pause while lines come.
        slow: the longest pause, but for looks of several calls.
        growth: how much longer each pause is while none come.
        lively: how long after the last line pauses stay short.

    >>> pace = Pace()
    >>> pace.after(lines=True)
    0.8
    >>> [round(pace.after(lines=False), 1) for _ in range(8)]
    [0.8, 0.8, 0.8, 1.3, 2.0, 3.3, 4.0, 4.0]
    """

    quick: Seconds = 0.8
    slow: Seconds = 4.0
    growth: float = 1.6
    lively: Seconds = 3.2
    _quiet: Seconds = field(default=0.0, init=False)
    _pause: Seconds = field(default=0.0, init=False)

    def after(self, *, lines: bool, calls: int = 1) -> Seconds:
        """Return how long to wait after a look.

        Args:
            lines: whether it has shown any.
            calls: what it has cost.
        """
        shortest = max(self.quick, calls / _CALLS_A_SECOND)
        longest = max(self.slow, calls * _SECONDS_FOR_A_CALL)
        if lines:
            self._quiet, self._pause = 0.0, shortest
        elif self._quiet >= self.lively:
            self._pause = min(longest, max(shortest, self._pause * self.growth))
        self._pause = min(longest, max(shortest, self._pause))
        self._quiet += self._pause
        return self._pause
