"""A few thousand children of an array, in memory: a client of AWS Batch whose jobs move by hand."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

STATES = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED", "FAILED")
ENDED = STATES[-2:]
# A child that fails may be retried, and goes back.
_NEXT = {
    "SUBMITTED": ("RUNNABLE",),
    "RUNNABLE": ("STARTING",),
    "STARTING": ("RUNNING",),
    "RUNNING": ("SUCCEEDED", "SUCCEEDED", "SUCCEEDED", "FAILED", "RUNNABLE"),
}


class ArrayModel:
    """An array whose children move on, also between the pages of a list.

    Args:
        size: how many children it has.
        seed: makes chance repeatable.
        page: how many children a page has.
        moves: how many children move on with each call.
    """

    def __init__(self, size: int, seed: int = 0, *, page: int = 1000, moves: int = 0) -> None:
        self.id = "array"
        self.states = ["SUBMITTED"] * size
        self.moves = moves
        self.calls: Counter[str] = Counter()
        self._page = page
        self._chance = random.Random(seed)

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(self.states))

    @property
    def status(self) -> str:
        if any(state not in ENDED for state in self.states):
            return "PENDING"
        return "FAILED" if "FAILED" in self.states else "SUCCEEDED"

    def move(self, count: int) -> None:
        """Let some children go one step on."""
        left = [index for index, state in enumerate(self.states) if state not in ENDED]
        for index in self._chance.sample(left, min(count, len(left))):
            self.states[index] = self._chance.choice(_NEXT[self.states[index]])

    def describe_jobs(self, jobs: list[str]) -> dict[str, Any]:
        self.calls["DescribeJobs"] += 1
        assert len(jobs) <= 100
        found = [self._described(job_id) for job_id in jobs if job_id.startswith(self.id)]
        self.move(self.moves)
        return {"jobs": found}

    def list_jobs(
        self, arrayJobId: str, jobStatus: str, maxResults: int, nextToken: str = "0"
    ) -> dict[str, Any]:
        self.calls["ListJobs"] += 1
        assert arrayJobId == self.id
        start = int(nextToken)
        some = [
            {"jobId": f"{self.id}:{index}", "status": state, "arrayProperties": {"index": index}}
            for index, state in enumerate(self.states)
            if state == jobStatus and index >= start
        ]
        shown = some[: self._page]
        self.move(self.moves)
        if len(some) <= self._page:
            return {"jobSummaryList": shown}
        following = shown[-1]["arrayProperties"]["index"] + 1
        return {"jobSummaryList": shown, "nextToken": str(following)}

    def _described(self, job_id: str) -> dict[str, Any]:
        if job_id != self.id:
            index = int(job_id.partition(":")[2])
            return {"jobId": job_id, "jobQueue": "q", "status": self.states[index]}
        properties = {"size": len(self.states), "statusSummary": self.counts}
        return {
            "jobId": job_id,
            "jobQueue": "q",
            "status": self.status,
            "arrayProperties": properties,
        }
