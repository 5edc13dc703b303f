"""CloudWatch Logs at its most unpleasant, and jobs that go through their states on time.

The emulator is kind: what was written is there at once, all pages are full, and who names a stream
that is not there is forgiven. Here events come late and in the wrong order, pages are small or
empty, tokens expire, and time stands still until somebody waits.
"""

from __future__ import annotations

import email.utils
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from wherry.aws.jobs import AttemptView, ContainerView, JobView
from wherry.errors import AwsError

START = 1_700_000_000.0
GROUP = "/aws/batch/job"
TOKEN_LIFE = 86_400.0


class Time:
    """Seconds that pass when somebody waits, and what is to happen in them."""

    def __init__(self) -> None:
        self.now = START
        self._plans: list[tuple[float, int, Callable[[], None]]] = []

    def __call__(self) -> float:
        return self.now

    def at(self, second: float, action: Callable[[], None]) -> None:
        """Plan something for a number of seconds after the start."""
        self._plans.append((START + second, len(self._plans), action))
        self._plans.sort(key=lambda plan: plan[:2])

    def next(self) -> float:
        return self._plans[0][0] if self._plans else float("inf")

    def go_to(self, moment: float) -> None:
        self.now = max(self.now, moment)
        while self._plans and self._plans[0][0] <= self.now:
            self._plans.pop(0)[2]()


class FakeLogs:
    """Answers GetLogEvents and FilterLogEvents from memory.

    Args:
        time: says what has come by now.
        page: how many events a page has at most.
        gaps: whether every other page before the end is empty.
    """

    def __init__(self, time: Time, *, page: int = 10_000, gaps: bool = False) -> None:
        self.time = time
        self.page = page
        self.gaps = gaps
        self.streams: dict[str, list[tuple[int, int, int, str]]] = {}
        self.calls: list[tuple[float, str]] = []
        self.failures: list[AwsError] = []
        self._count = 0

    # -- writing --------------------------------------------------------------------------------

    def create(self, stream: str) -> None:
        self.streams.setdefault(stream, [])

    def write(self, stream: str, text: str, *, at: float, comes: float | None = None) -> None:
        """Have a line that was written at a second be there at the same one, or later."""
        self._count += 1
        ingested = at if comes is None else comes
        event = (int((START + at) * 1000), int((START + ingested) * 1000), self._count, text)
        insort(self.streams.setdefault(stream, []), event)

    # -- the API --------------------------------------------------------------------------------

    @property
    def counts(self) -> Counter[str]:
        return Counter(operation for _, operation in self.calls)

    def calls_between(self, begin: float, end: float) -> int:
        return sum(START + begin <= moment < START + end for moment, _ in self.calls)

    def __call__(self, operation: str, /, *, patience: Any = None, **params: Any) -> Any:
        self.calls.append((self.time.now, operation))
        if self.failures:
            raise self.failures.pop(0)
        if params["logGroupName"] != GROUP:
            raise _not_found("group")
        answer = {"GetLogEvents": self._get, "FilterLogEvents": self._filter}[operation](params)
        date = email.utils.formatdate(self.time.now, usegmt=True)
        return {**answer, "ResponseMetadata": {"HTTPHeaders": {"date": date}}}

    def _visible(self, stream: str, params: Any) -> list[tuple[int, int, int, str]]:
        now = int(self.time.now * 1000)
        low, high = params.get("startTime", 0), params.get("endTime", float("inf"))
        if stream not in self.streams:
            raise _not_found("stream")
        events = self.streams[stream]
        begin = bisect_left(events, (low,))
        return [e for e in events[begin:] if e[1] <= now and e[0] < high]

    def _get(self, params: Any) -> Any:
        assert params["startFromHead"] is True
        events = self._visible(params["logStreamName"], params)
        token = params.get("nextToken", "f/0/0/0/0")
        *position, made, gap = self._parsed(token)
        if "nextToken" in params and self.time.now - made > TOKEN_LIFE:
            raise _refused("The specified nextToken is invalid.")
        rest = [event for event in events if event[:2] > tuple(position)]
        if rest and self.gaps and not gap:
            return {"events": [], "nextForwardToken": self._token(*position, gap=1)}
        chosen = rest[: self.page]
        if not chosen:
            same = token if "nextToken" in params else self._token(*position)
            return {"events": [], "nextForwardToken": same}
        # A page ends where no events with the same place follow.
        chosen += [e for e in rest[self.page :] if e[:2] == chosen[-1][:2]]
        return {
            "events": [_document(event) for event in chosen],
            "nextForwardToken": self._token(*chosen[-1][:2]),
        }

    def _token(self, at: int, ingested: int, gap: int = 0) -> str:
        return f"f/{at}/{ingested}/{self.time.now}/{gap}"

    @staticmethod
    def _parsed(token: str) -> tuple[int, int, float, int]:
        _, at, ingested, made, gap = token.split("/")
        return int(at), int(ingested), float(made), int(gap)

    def _filter(self, params: Any) -> Any:
        names = params["logStreamNames"]
        assert 1 <= len(names) <= 100
        events = sorted((event, name) for name in names for event in self._visible(name, params))
        begin = int(params.get("nextToken", "0"))
        if self.gaps and begin % 2 == 0 and events[begin // 2 :]:
            return {"events": [], "nextToken": str(begin + 1)}
        step = 2 * self.page
        page = events[begin // 2 : begin // 2 + self.page]
        more = (
            {"nextToken": str(begin - begin % 2 + step)} if events[begin // 2 + self.page :] else {}
        )
        return {"events": [{**_document(e), "logStreamName": name} for e, name in page], **more}


def _document(event: tuple[int, int, int, str]) -> dict[str, Any]:
    at, ingested, number, text = event
    return {"timestamp": at, "ingestionTime": ingested, "eventId": str(number), "message": text}


def _not_found(what: str) -> AwsError:
    return AwsError(
        f"CloudWatch Logs refused it: The specified log {what} does not exist. "
        "(ResourceNotFoundException)",
        code="ResourceNotFoundException",
        status=400,
    )


def _refused(message: str) -> AwsError:
    return AwsError(message, code="InvalidParameterException", status=400)


class FakeFeed:
    """Jobs that change when it is time; what `JobFeed` is for tails, without AWS Batch.

    Args:
        time: passes while somebody waits.
    """

    def __init__(self, time: Time) -> None:
        self.time = time
        self.jobs: dict[str, JobView] = {}
        self._changed: dict[str, None] = {}

    def put(self, job: JobView) -> None:
        self.jobs[job.id] = job
        self._changed[job.id] = None

    def view(self, job_id: str) -> JobView | None:
        return self.jobs.get(job_id)

    def changed(self) -> Iterator[JobView]:
        changed, self._changed = self._changed, {}
        yield from (self.jobs[job_id] for job_id in changed)

    @property
    def over(self) -> bool:
        return bool(self.jobs) and not self._changed and all(j.ended for j in self.jobs.values())

    def wait(self, timeout: float) -> None:
        end = self.time.now + timeout
        while not self._changed and self.time.now < end:
            self.time.go_to(min(end, self.time.next()))
        self.time.go_to(self.time.now)


def job(
    job_id: str,
    status: str = "RUNNING",
    *streams: str,
    ended_at: float | None = None,
    **fields: Any,
) -> JobView:
    """Make a job whose attempts have these streams; the last one goes on unless it has ended."""
    over = status in ("SUCCEEDED", "FAILED")
    attempts = tuple(
        AttemptView(
            number,
            (ContainerView(log_stream=name),),
            stopped_at=(START + (ended_at or 0.0) if over or number < len(streams) else None),
        )
        for number, name in enumerate(streams, 1)
    )
    return JobView(job_id, status, attempts=attempts, created_at=START, detailed=True, **fields)
