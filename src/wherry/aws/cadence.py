"""How long to wait before jobs are looked at again.

Half a second after something has changed, and a little longer after each look that showed nothing
new, up to 30 seconds. A look of many calls is followed by a longer pause, so that a minute
in which nothing changes never costs more than 30 calls. Arithmetic only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wherry.aws.pacing import Seconds

IDLE_CALLS = 30
"""What a minute may cost in which nothing changes."""

MOST_CALLS = 12
"""What one look may cost, so that looks need not be more than 30 seconds apart."""

_GROWTH = {1: (1.2, 18), 2: (1.3, 14)}
_STEEP = (1.5, 11)
"""By the calls of a look: how much longer each pause is while nothing changes, and how many looks
such pauses, from half a second on, make in the first minute."""


@dataclass
class Cadence:
    """The pauses between looks.

    Args:
        quick: the pause after a change.
        slow: the longest pause.

    >>> cadence = Cadence()
    >>> [cadence.after(changed=False, calls=1) for _ in range(4)]
    [0.5, 0.6, 0.72, 0.864]
    >>> cadence.after(changed=True, calls=1)
    0.5
    """

    quick: Seconds = 0.5
    slow: Seconds = 30.0
    _grown: Seconds = field(default=0.0, init=False)

    def after(self, *, changed: bool, calls: int, counted: bool = False) -> Seconds:
        """Return how long to wait after a look.

        Args:
            changed: whether a job is in another state than before.
            calls: what the look has cost.
            counted: whether the counts of an array have changed.
        """
        growth, looks = _GROWTH.get(calls, _STEEP)
        if changed or counted:
            # The counts of a large array change all the time.
            self._grown = 0.0 if changed else self.quick * 4 / growth
            return max(self.quick if changed else self.quick * 4, calls * self.quick / 2)
        self._grown = min(self.slow, max(self.quick, self._grown * growth))
        return max(self._grown, self._affordable(calls, looks))

    def troubled(self) -> Seconds:
        """Return how long to wait after a look that AWS did not allow or answer."""
        self._grown = min(self.slow, max(self.quick * 4, self._grown * 2))
        return self._grown

    def reset(self) -> None:
        """Be quick again."""
        self._grown = 0.0

    def _affordable(self, calls: int, looks: int) -> Seconds:
        """Return the pause at which looks of some calls stay within a quiet minute's bound."""
        if calls * looks <= IDLE_CALLS:
            return 0.0
        return min(self.slow, 1.001 * self.slow * 2 / max(1, IDLE_CALLS // calls))
