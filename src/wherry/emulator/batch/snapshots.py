"""What GetJobQueueSnapshot answers: who is next, since when, and how much the queue uses.

The shapes are those of botocore's model. This module knows the order of a queue and when places in
it changed; not why anybody waits.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable

from wherry.emulator.batch.placing import Waiting
from wherry.emulator.batch.ports import Document

TOP_SHARES = 20
"""How many shares a snapshot lists, those that use most (API reference)."""


class Moves:
    """Remembers when jobs in a queue moved up or down, without touching each of them.

    Jobs have numbers that grow in the order of the queue. When the job with some number leaves, or
    comes in, all with higher numbers move.

    >>> moves = Moves()
    >>> moves.note(3, 100.0)
    >>> moves.since(2, 50.0), moves.since(4, 50.0)
    (50.0, 100.0)
    """

    def __init__(self) -> None:
        # Both rise: a later change at a lower number makes all those at higher numbers forgotten.
        self._numbers: list[float] = []
        self._times: list[float] = []

    def note(self, number: float, time: float) -> None:
        """Take note that everybody with a higher number moved."""
        index = bisect.bisect_left(self._numbers, number)
        del self._numbers[index:], self._times[index:]
        self._numbers.append(number)
        self._times.append(time)

    def since(self, number: float, came: float) -> float:
        """Return the time at which a job came to where it is.

        Args:
            number: the job's.
            came: when it came into the queue.
        """
        index = bisect.bisect_left(self._numbers, number)
        return max(came, self._times[index - 1]) if index else came


def document(
    front: Iterable[tuple[Waiting, float]],
    usage: dict[str, float],
    now: float,
    *,
    is_fair: bool,
    unit: str,
) -> Document:
    """Return what GetJobQueueSnapshot answers.

    Args:
        front: the first jobs, and since when each is where it is, in seconds.
        usage: the virtual CPUs that each share uses.
        now: the emulated time, in seconds.
        is_fair: whether the queue has a fair-share policy.
        unit: ``VCPU``, or ``cpu`` for a queue on Amazon EKS.
    """
    time = int(now * 1000)
    jobs = [
        {"jobArn": waiting.arn, "earliestTimeAtPosition": int(since * 1000)}
        for waiting, since in front
    ]
    utilization: Document = {
        "totalCapacityUsage": quantity(sum(usage.values()), unit),
        "lastUpdatedAt": time,
    }
    if is_fair:
        utilization["fairshareUtilization"] = _by_share(usage, unit)
    return {
        "frontOfQueue": {"jobs": jobs, "lastUpdatedAt": time},
        "queueUtilization": utilization,
    }


def _by_share(usage: dict[str, float], unit: str) -> Document:
    top = sorted(usage.items(), key=lambda item: -item[1])[:TOP_SHARES]
    return {
        "activeShareCount": len(usage),
        "topCapacityUtilization": [
            {"shareIdentifier": name, "capacityUsage": quantity(vcpus, unit)} for name, vcpus in top
        ],
    }


def quantity(vcpus: float, unit: str) -> list[Document]:
    """Return an amount of capacity as the API shows it; units are those of `document`."""
    return [{"capacityUnit": unit, "quantity": vcpus}]
