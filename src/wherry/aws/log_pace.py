"""How often to look whether a log has grown. Arithmetic only.

Looks follow one another within a second while lines come, and for a few seconds after the last;
then each pause is longer than the one before, up to a bound at which an idle minute costs about 15
calls, and the minute after the last line about 20. Several streams that need several calls a look
share a budget: the more calls, the longer the pauses, so that up to a thousand streams cost no more
than 30 calls in a minute without lines.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wherry.aws.pacing import Seconds

CALLS_A_SECOND = 3.0
"""What one follower of many streams may ask for while lines come. CloudWatch Logs grants an
account 5 calls of FilterLogEvents a second and 10 of GetLogEvents (2023), and others want some."""

_SECONDS_FOR_A_CALL = 3.0
"""How many seconds there are for each call while no lines come: 20 calls a minute."""


@dataclass
class Pace:
    """The pauses between looks.

    Args:
        quick: the pause while lines come.
        slow: the longest pause, but for looks of several calls.
        growth: how much longer each pause is while none come; more for looks of several calls.
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
    lively: Seconds = 2.4
    _quiet: Seconds = field(default=0.0, init=False)
    _pause: Seconds = field(default=0.0, init=False)

    def after(self, *, lines: bool, calls: int = 1) -> Seconds:
        """Return how long to wait after a look.

        Args:
            lines: whether it has shown any.
            calls: what it has cost.
        """
        shortest = max(self.quick, calls / CALLS_A_SECOND)
        longest = max(self.slow, calls * _SECONDS_FOR_A_CALL)
        if lines:
            self._quiet, self._pause = 0.0, shortest
            return shortest
        if self._quiet >= self.lively:
            self._pause *= self.growth if calls <= 1 else 2 * calls
        self._pause = min(longest, max(shortest, self._pause))
        self._quiet += self._pause
        return self._pause
