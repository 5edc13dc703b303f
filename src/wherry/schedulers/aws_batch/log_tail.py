"""The log of one replica as it grows: from before it runs until its last line has come.

A tail looks at two things: at the job, through the feed that everybody shares, and at the stream of
the attempt that is being read. It sleeps on the feed, which wakes it when the job has changed. When
an attempt is over, the tail goes on for some seconds, since lines reach CloudWatch Logs late.
"""

from __future__ import annotations

import time as _time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from wherry.aws.jobs import JobView
from wherry.aws.log_events import Event, Lines
from wherry.aws.log_jobs import JobFeed, Sleep
from wherry.aws.log_pace import Pace
from wherry.aws.log_places import FORGOTTEN, AttemptLog, Place, attempt_logs, elsewhere
from wherry.aws.logs import StreamReader, missing
from wherry.aws.pacing import Clock, Seconds
from wherry.errors import AwsError
from wherry.schedulers.aws_batch import log_notices
from wherry.schedulers.aws_batch.log_notices import Notices
from wherry.schedulers.aws_batch.log_reading import (
    CallOf,
    Wanted,
    explain_attempt,
    explain_missing,
    explain_silence,
    no_such_attempt,
    open_reader,
)
from wherry.schedulers.aws_batch.log_trouble import Trouble
from wherry.schedulers.aws_batch.replicas import Replica

LATE_LINES: Seconds = 5.0
"""How long after the end of an attempt lines are waited for."""

LATE_STREAM: Seconds = 10.0
"""How long after the end of an attempt its stream is waited for, when it is not there."""

OVERDUE: Seconds = 30.0
"""How long a stream may be missing before a person is told."""

_LONG: Seconds = 60.0
_NEAR = (1000, 10_000)
"""How many events a page may have, and how old the last one may be in ms, for it to be enough
though it was not the last."""

_MOST_WRONG: Seconds = 900.0
"""How wrong a clock can be with which calls are signed that AWS takes."""


@dataclass
class Source:
    """One stream of the attempt that is being read.

    Args:
        place: where it is.
        reader: reads it.
        lines: makes lines of its events.
        absent_since: since when it is not there.
        done: whether nothing follows any more.
    """

    place: Place
    reader: StreamReader
    lines: Lines = field(default_factory=Lines)
    absent_since: Seconds | None = None
    begun: bool = False
    done: bool = False


class ReplicaTail:
    """The log of one replica as it grows.

    Args:
        feed: the replica's job.
        replica: whose log.
        wanted: which part of it.
        call_of: asks CloudWatch Logs.
        notices: told what a person should know.
        time: tells how time passes, in seconds.
        sleep: lets it pass.
        wall: tells the time, in seconds since the epoch.
    """

    def __init__(
        self,
        feed: JobFeed,
        replica: Replica,
        wanted: Wanted,
        call_of: CallOf,
        notices: Notices,
        *,
        time: Clock = _time.monotonic,
        sleep: Sleep = _time.sleep,
        wall: Clock = _time.time,
    ) -> None:
        self._feed = feed
        self._replica = replica
        self._wanted = wanted
        self._call_of = call_of
        self._notices = notices
        self._time = time
        self._sleep = sleep
        self._wall = wall
        self._trouble = Trouble(notices, time)
        self._known_over: dict[int, Seconds] = {}

    def lines(self) -> Iterator[str]:
        """Yield lines until the last one of the last attempt has come.

        Raises:
            UnknownNameError: there is no such attempt, and none will come.
            AwsError: AWS refused, or has not answered for a long time.
        """
        number = self._wanted.attempt or 1
        while (attempt := self._await(number)) is not None:
            yield from self._read(attempt)
            if self._wanted.attempt is not None:
                return
            number += 1

    # -- the job --------------------------------------------------------------------------------

    def _await(self, number: int) -> AttemptLog | None:
        """Wait until an attempt has a log, or is over without one; ``None`` when none will come."""
        while True:
            found = self._attempt(number)
            if found is not None and (found.places or found.over):
                return found
            job = self._feed.view(self._replica.job_id)
            if self._is_past(None):
                return None
            if self._feed.over or (job is not None and _is_at_end(job)):
                self._explain_end(job, number)
                return None
            drivers = found.elsewhere if found else elsewhere(job.containers) if job else ()
            if drivers:
                who = str(self._replica)
                self._notices.no_log(who, log_notices.elsewhere(drivers[0]))
            self._wait(_LONG)

    def _attempt(self, number: int) -> AttemptLog | None:
        job = self._feed.view(self._replica.job_id)
        logs = [] if job is None else attempt_logs(job)
        found = next((each for each in logs if each.number == number), None)
        if found is not None and found.over:
            self._known_over.setdefault(number, self._time())
        return found

    def _explain_end(self, job: JobView | None, number: int) -> None:
        made = 0 if job is None else len(job.attempts)
        if self._wanted.attempt is not None:
            raise no_such_attempt(self._replica, number, made)
        if number == 1:
            explain_silence(job or JobView("", FORGOTTEN), self._replica, self._notices)

    def _wait(self, seconds: Seconds) -> None:
        """Wait for the job to change, and take note of what has changed."""
        try:
            self._feed.wait(seconds)
            for _ in self._feed.changed():
                pass
        except AwsError as error:
            self._sleep(min(seconds, self._trouble.bear(error)))

    # -- one attempt ----------------------------------------------------------------------------

    def _read(self, attempt: AttemptLog) -> Iterator[str]:
        """Yield the lines of one attempt until no more will come."""
        sources: list[Source] = []
        if not attempt.places:
            explain_attempt(attempt, self._replica, self._notices)
        pace = Pace()
        while True:
            known = {source.place for source in sources}
            sources += [self._open(place) for place in attempt.places if place not in known]
            any_lines = False
            for source in sources:
                for line in self._look(source, attempt):
                    any_lines = True
                    yield line
            left = [source for source in sources if not source.done]
            if not left:
                if attempt.never_ran:
                    explain_attempt(attempt, self._replica, self._notices)
                return
            pause = pace.after(lines=any_lines, calls=len(left))
            self._wait(min(pause, self._until_old(attempt)))
            attempt = self._attempt(attempt.number) or attempt

    def _open(self, place: Place) -> Source:
        job = self._feed.view(self._replica.job_id) or JobView("", FORGOTTEN)
        return Source(place, open_reader(place, job, self._wanted, self._call_of))

    def _look(self, source: Source, attempt: AttemptLog) -> Iterator[str]:
        """Yield new lines of a stream; take note when they were the last."""
        if source.done:
            return
        first, source.begun = not source.begun, True
        old = not first and self._is_old(attempt, source)
        any_lines = False
        try:
            for event in self._events(source, attempt, first=first, old=old):
                any_lines = True
                yield from source.lines.feed(event)
        except AwsError as error:
            self._bear(error, source, attempt)
            return
        self._trouble.over()
        source.absent_since = None
        read_whole = first and source.reader.at_end and self._is_old(attempt, source)
        if read_whole or (old and not any_lines):
            source.done = True
            yield from source.lines.rest()

    def _events(
        self, source: Source, attempt: AttemptLog, *, first: bool, old: bool
    ) -> Iterator[Event]:
        """Yield new events: to the very end, or, while more will come, about to the present."""
        reader = source.reader
        if old:
            yield from reader.again()
        elif first and attempt.over:
            yield from reader.read()
        else:
            yield from _until_now(reader)

    def _bear(self, error: AwsError, source: Source, attempt: AttemptLog) -> None:
        """Take note that a stream is not there, or that it cannot be read now."""
        what = missing(error)
        if not what:
            self._sleep(self._trouble.bear(error))
            return
        self._trouble.over()
        now = self._time()
        source.begun = False
        source.absent_since = now if source.absent_since is None else source.absent_since
        overdue = now - source.absent_since > OVERDUE
        too_late = self._is_old(attempt, source, LATE_STREAM)
        if (overdue or too_late) and not attempt.never_ran:
            explain_missing(what, source.place, self._replica, self._notices)
        source.done = too_late

    # -- time -----------------------------------------------------------------------------------

    def _is_old(self, attempt: AttemptLog, source: Source, seconds: Seconds = LATE_LINES) -> bool:
        """Tell whether what is wanted was written some seconds ago, so that it has come."""
        if attempt.never_ran:
            return True
        return self._age(attempt, source) >= seconds or self._is_past(source)

    def _age(self, attempt: AttemptLog, source: Source | None = None) -> Seconds:
        """Return how long an attempt has been over, as far as is known; -1 while it is not."""
        known = self._known_over.get(attempt.number)
        if not attempt.over or known is None:
            return -1.0
        heard_at = source.reader.heard_at if source is not None else None
        return age_of(attempt, self._time() - known, heard_at, self._wall())

    def _until_old(self, attempt: AttemptLog) -> Seconds:
        """Return how long it is until no more lines are waited for."""
        age = self._age(attempt)
        return max(0.05, LATE_LINES - age) if 0 <= age < LATE_LINES else _LONG

    def _is_past(self, source: Source | None) -> bool:
        """Tell whether what is wanted was written long ago by now."""
        if self._wanted.until is None:
            return False
        now = (source.reader.heard_at if source else None) or self._wall()
        return now - self._wanted.until / 1000 >= LATE_LINES


def age_of(
    attempt: AttemptLog, known_for: Seconds, heard_at: Seconds | None, wall: Seconds
) -> Seconds:
    """Return how long an attempt has been over, at least.

    Args:
        attempt: one that is over.
        known_for: how long that has been known.
        heard_at: the time by the clock of AWS, where it is known.
        wall: the time by ours, which may be wrong; AWS takes no calls when it is very wrong.
    """
    if attempt.stopped_at is None:
        return known_for
    if heard_at is None:
        long_ago = wall - attempt.stopped_at - _MOST_WRONG
        return max(known_for, long_ago)
    return max(known_for, heard_at - attempt.stopped_at)


def _is_at_end(job: JobView) -> bool:
    return job.ended or job.status == FORGOTTEN


def _until_now(reader: StreamReader) -> Iterator[Event]:
    """Yield new events until there are none, or the newest was written just now.

    The look that shows that nothing follows may be the next one.
    """
    while True:
        events = reader.page()
        yield from events
        if reader.at_end or _is_near(events, reader.heard_at):
            return


def _is_near(events: Sequence[Event], heard_at: Seconds | None) -> bool:
    most, oldest = _NEAR
    if not 0 < len(events) < most or heard_at is None:
        return False
    return events[-1].at > heard_at * 1000 - oldest
