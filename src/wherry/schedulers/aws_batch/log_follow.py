"""The logs of all replicas of an app as they grow, at a cost that hardly depends on how many.

A replica's attempts are read one after the other, so that its lines stay in order; what all
replicas write at present is read together, a hundred streams in a call. A round looks at all of
them; between rounds only at streams that are new, that were not there, or whose last lines are due.
"""

from __future__ import annotations

import time as _time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from wherry.aws.jobs import JobView
from wherry.aws.log_events import Lines
from wherry.aws.log_groups import AT_ONCE, GroupReader, SharedStream
from wherry.aws.log_jobs import JobFeed, Sleep
from wherry.aws.log_pace import CALLS_A_SECOND, Pace
from wherry.aws.log_places import FORGOTTEN, AttemptLog, Place, attempt_logs, elsewhere
from wherry.aws.logs import GROUP, StreamReader, missing
from wherry.aws.pacing import Clock, Seconds
from wherry.errors import AwsError
from wherry.schedulers.api import LogChunk
from wherry.schedulers.aws_batch import log_notices
from wherry.schedulers.aws_batch.log_notices import Notices
from wherry.schedulers.aws_batch.log_reading import CallOf, begin_of
from wherry.schedulers.aws_batch.log_tail import LATE_LINES, LATE_STREAM, OVERDUE, age_of
from wherry.schedulers.aws_batch.log_trouble import Trouble
from wherry.schedulers.aws_batch.replicas import Replica

_LOOKED_FOR = 20
"""How many streams without a line are looked for by name. FilterLogEvents may pass over what does
not exist, and a call for each of a thousand silent replicas is not worth it."""

_LATER: Seconds = 1.0
_LONGEST: Seconds = 15.0
"""The first and the longest pause before a stream that is not there is looked for again."""

_LONG: Seconds = 60.0
_CHUNK = 1 << 16

_Key = tuple[str, str]
"""Region and name of a log group."""


@dataclass(eq=False)
class _Followed:
    """One replica.

    Args:
        replica: which.
        number: the attempt that is being read, or will be.
        attempt: what is known of it.
        over_since: when it was first known to be over.
        sources: its streams.
        finished: whether no attempt follows.
    """

    replica: Replica
    number: int = 1
    attempt: AttemptLog | None = None
    over_since: Seconds | None = None
    sources: dict[Place, _Source] = field(default_factory=dict)
    finished: bool = False

    def age(self, now: Seconds, heard_at: Seconds | None, wall: Seconds) -> Seconds:
        """Return how long the attempt has been over; -1 while it is not.

        Args:
            now: by our clock.
            heard_at: by the clock of AWS, where it is known.
            wall: the time, in seconds since the epoch, by our clock.
        """
        if self.attempt is None or self.over_since is None:
            return -1.0
        if self.attempt.never_ran:
            return float("inf")
        return age_of(self.attempt, now - self.over_since, heard_at, wall)


@dataclass(eq=False)
class _Source:
    """One stream of the attempt that is being read.

    Args:
        of: whose.
        place: where it is.
        shared: how far it was read.
        lines: makes lines of its events.
        due: when it is looked at besides the rounds; ``None`` when it is not.
        looked: whether it was looked at.
        last_look: whether the present look begins when all lines have come.
        absent_since: since when it is not there.
        pause: the last pause while it is not there.
        checked: whether it was looked for by name.
        done: whether nothing follows any more.
    """

    of: _Followed
    place: Place
    shared: SharedStream
    lines: Lines = field(default_factory=Lines)
    due: Seconds | None = 0.0
    looked: bool = False
    last_look: bool = False
    absent_since: Seconds | None = None
    pause: Seconds = _LATER / 2
    checked: bool = False
    done: bool = False


class Follower:
    """The logs of all replicas of an app.

    Args:
        feed: the replicas' jobs.
        replicas: whose logs.
        call_of: asks CloudWatch Logs.
        notices: told what a person should know.
        time: tells how time passes, in seconds.
        sleep: lets it pass.
        wall: tells the time, in seconds since the epoch.
    """

    def __init__(
        self,
        feed: JobFeed,
        replicas: Iterable[Replica],
        call_of: CallOf,
        notices: Notices,
        *,
        time: Clock = _time.monotonic,
        sleep: Sleep = _time.sleep,
        wall: Clock = _time.time,
    ) -> None:
        self._feed = feed
        self._followed = {each.job_id: _Followed(each) for each in replicas}
        self._unfinished = len(self._followed)
        self._call_of = call_of
        self._notices = notices
        self._time = time
        self._sleep = sleep
        self._wall = wall
        self._trouble = Trouble(notices, time)
        self._groups: dict[_Key, GroupReader] = {}
        self._active: dict[_Source, None] = {}
        self._pace = Pace()
        self._round_at: Seconds = 0.0
        self._free_at: Seconds = 0.0
        self._looked_for = 0
        self._is_overdue = False

    def chunks(self) -> Iterator[LogChunk]:
        """Yield whole lines until the last one of the last replica has come.

        Raises:
            AwsError: AWS refused, or has not answered for a long time.
        """
        while self._unfinished and not (self._feed.over and not self._active):
            self._wait(self._pause())
            try:
                yield from self._look()
            except AwsError as error:
                self._sleep(self._trouble.bear(error))
            if self._is_overdue:
                self._is_overdue = False
                self._notices.tell_gathered()
        self._notices.tell_gathered()

    # -- jobs -----------------------------------------------------------------------------------

    def _wait(self, seconds: Seconds) -> None:
        """Wait until there is something to do, and take note of what jobs have done."""
        try:
            self._feed.wait(seconds)
            for job in self._feed.changed():
                followed = self._followed.get(job.id)
                if followed is not None and not followed.finished:
                    self._advance(followed, job)
        except AwsError as error:
            self._sleep(self._trouble.bear(error))

    def _advance(self, followed: _Followed, job: JobView) -> None:
        """Go on to the attempt that is to be read now, as far as there is one."""
        logs = {each.number: each for each in attempt_logs(job)}
        while (attempt := logs.get(followed.number)) is not None:
            self._take(followed, attempt, job)
            if attempt.over and (attempt.never_ran or not attempt.places):
                self._explain_attempt(followed, attempt)
            if followed.sources or not attempt.over:
                return
            self._pass(followed)
        if job.ended or job.status == FORGOTTEN:
            self._finish(followed, job)
        else:
            self._explain_elsewhere(elsewhere(job.containers))

    def _take(self, followed: _Followed, attempt: AttemptLog, job: JobView) -> None:
        """Take note of what is known of the attempt that is being read."""
        followed.attempt = attempt
        for place in attempt.places:
            if place not in followed.sources:
                shared = SharedStream(place.stream, begin_of(job) or 0)
                source = followed.sources[place] = _Source(followed, place, shared)
                self._active[source] = None
        if attempt.over and followed.over_since is None:
            followed.over_since = self._time()
            for source in followed.sources.values():
                source.due = 0.0
        if not attempt.places:
            self._explain_elsewhere(attempt.elsewhere)

    def _pass(self, followed: _Followed) -> None:
        """Be done with an attempt."""
        followed.number += 1
        followed.attempt, followed.over_since = None, None
        followed.sources = {}

    def _finish(self, followed: _Followed, job: JobView) -> None:
        """Be done with a replica."""
        followed.finished = True
        self._unfinished -= 1
        drivers = elsewhere(job.containers)
        if drivers:
            self._explain_elsewhere(drivers)
        elif followed.number == 1 and job.ended:
            reason = log_notices.never_ran(job.container_reason or job.reason)
            self._notices.gather("silent", str(followed.replica), reason)
        elif followed.number == 1:
            self._notices.gather("gone", str(followed.replica), log_notices.FORGOTTEN)

    # -- looking --------------------------------------------------------------------------------

    def _pause(self) -> Seconds:
        """Return how long there is nothing to look at."""
        due = [source.due for source in self._active if source.due is not None]
        if any(source.absent_since is None for source in self._active):
            due.append(self._round_at)
        return max(0.0, max(min(due), self._free_at) - self._time()) if due else _LONG

    def _look(self) -> Iterator[LogChunk]:
        """Look at all that is due."""
        now = self._time()
        is_round = now >= self._round_at
        chosen: dict[_Key, list[_Source]] = {}
        for source in self._active:
            is_due = source.due is not None and source.due <= now
            if is_due or (is_round and source.absent_since is None):
                chosen.setdefault((source.place.region, source.place.group), []).append(source)
        any_lines = False
        for key, sources in chosen.items():
            group = self._group(*key)
            before = group.calls
            for chunk in self._look_at(group, sources):
                any_lines = True
                yield chunk
            self._trouble.over()
            self._free_at = max(self._free_at, now) + (group.calls - before) / CALLS_A_SECOND
        if chosen and (is_round or any_lines):
            calls = -(-len(self._active) // AT_ONCE)
            self._round_at = self._time() + self._pace.after(lines=any_lines, calls=calls)

    def _group(self, region: str, name: str) -> GroupReader:
        if (region, name) not in self._groups:
            self._groups[region, name] = GroupReader(self._call_of(region), name)
        return self._groups[region, name]

    def _look_at(self, group: GroupReader, sources: list[_Source]) -> Iterator[LogChunk]:
        """Look at some streams of one group."""
        by_stream = {source.shared: source for source in sources}
        for source in sources:
            source.last_look = self._age(source, group) >= LATE_LINES
            if source.last_look:
                source.shared.rewind()
        heard: set[_Source] = set()
        for source, text in self._texts(group, by_stream):
            heard.add(source)
            yield from _chunk(source.of.replica, text)
        for source in sources:
            if source.shared.missing:
                self._note_absent(source, group, source.shared.missing)
            else:
                yield from self._note_look(source, group, heard=source in heard)
        self._go_on(sources)

    def _texts(
        self, group: GroupReader, by_stream: dict[SharedStream, _Source]
    ) -> Iterator[tuple[_Source, str]]:
        """Yield what is new, what one stream has in a row together."""
        begun: _Source | None = None
        text = ""
        failure: AwsError | None = None
        try:
            for shared, event in group.look(list(by_stream)):
                source = by_stream[shared]
                if begun is not None and (source is not begun or len(text) >= _CHUNK):
                    yield begun, text
                    text = ""
                begun = source
                text += "".join(source.lines.feed(event))
        except AwsError as error:
            failure = error
        if begun is not None:
            yield begun, text  # also before a failure: it counts as read
        if failure is not None:
            raise failure

    def _age(self, source: _Source, group: GroupReader) -> Seconds:
        return source.of.age(self._time(), group.heard_at, self._wall())

    def _note_look(self, source: _Source, group: GroupReader, *, heard: bool) -> Iterator[LogChunk]:
        """Say when a stream is looked at next, or that it has ended."""
        now, age = self._time(), self._age(source, group)
        first, source.looked = not source.looked, True
        source.absent_since = None
        if source.shared.again:
            source.due = now
        elif age < 0:
            source.due = None
        elif age < LATE_LINES:
            source.due = now + LATE_LINES - age
        elif first or (source.last_look and not heard):
            yield from self._end(source, group)
        else:
            source.due = now + _LATER if source.last_look else now

    def _end(self, source: _Source, group: GroupReader) -> Iterator[LogChunk]:
        """Be done with a stream, if it was there."""
        if source.shared.silent and not source.checked and self._looked_for < _LOOKED_FOR:
            source.checked = True
            self._looked_for += 1
            what = self._is_missing(source)
            if what:
                self._note_absent(source, group, what)
                return
        source.done = True
        yield from _chunk(source.of.replica, "".join(source.lines.rest()))

    def _is_missing(self, source: _Source) -> str:
        call = self._call_of(source.place.region)
        try:
            StreamReader(call, source.place.group, source.place.stream).page()
        except AwsError as error:
            what = missing(error)
            if not what:
                raise
            return what
        return ""

    def _note_absent(self, source: _Source, group: GroupReader, what: str) -> None:
        """Say when a stream that is not there is looked for again, or that it never came."""
        now = self._time()
        source.looked = source.checked = False
        source.absent_since = now if source.absent_since is None else source.absent_since
        source.pause = min(_LONGEST, source.pause * 2)
        source.due = now + source.pause
        overdue = now - source.absent_since > OVERDUE
        source.done = self._age(source, group) >= LATE_STREAM
        attempt = source.of.attempt
        if (overdue or source.done) and not (attempt and attempt.never_ran):
            cause = log_notices.no_group if what == GROUP else log_notices.no_stream
            self._notices.gather(what, str(source.of.replica), cause(source.place))
        self._is_overdue = self._is_overdue or overdue

    def _go_on(self, sources: Iterable[_Source]) -> None:
        """Go on to the next attempt where all streams of one have ended."""
        for source in sources:
            followed = source.of
            if not source.done or source not in self._active:
                continue
            del self._active[source]
            is_current = followed.sources.get(source.place) is source
            job = self._feed.view(followed.replica.job_id)
            if is_current and job and all(each.done for each in followed.sources.values()):
                self._pass(followed)
                self._advance(followed, job)

    # -- words ----------------------------------------------------------------------------------

    def _explain_attempt(self, followed: _Followed, attempt: AttemptLog) -> None:
        """Tell why an attempt has no log."""
        if not attempt.elsewhere:
            which = "" if attempt.number == 1 else f", attempt {attempt.number}"
            cause = log_notices.never_ran(attempt.reason)
            self._notices.gather("silent", f"{followed.replica}{which}", cause)

    def _explain_elsewhere(self, drivers: tuple[str, ...]) -> None:
        """Tell that the output of an app goes elsewhere; that of the others does, too."""
        if drivers:
            self._notices.say(f"no log: {log_notices.elsewhere(drivers[0])}")


def _chunk(replica: Replica, text: str) -> Iterator[LogChunk]:
    if text:
        yield LogChunk(replica.role, replica.k, text.encode())
