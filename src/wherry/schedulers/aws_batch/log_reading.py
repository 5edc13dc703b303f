"""What there is of one replica's log: its attempts in order, each to its present end."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from wherry.aws.jobs import JobView
from wherry.aws.log_events import Lines, Milliseconds
from wherry.aws.log_places import FORGOTTEN, AttemptLog, Place, attempt_logs, elsewhere
from wherry.aws.logs import GROUP, Call, StreamReader, missing
from wherry.errors import AwsError, UnknownNameError
from wherry.schedulers.aws_batch import log_notices
from wherry.schedulers.aws_batch.log_notices import Notices
from wherry.schedulers.aws_batch.replicas import Replica

CallOf = Callable[[str], Call]
"""Gives what asks CloudWatch Logs in a region; the job's own when it is empty."""

_DAY: Milliseconds = 86_400_000


@dataclass(frozen=True)
class Wanted:
    """Which part of a log is wanted.

    Args:
        since, until: only events at or after the one, and before the other.
        attempt: only this attempt.
    """

    since: Milliseconds | None = None
    until: Milliseconds | None = None
    attempt: int | None = None


ALL = Wanted()


def lines_so_far(
    job: JobView, replica: Replica, wanted: Wanted, call_of: CallOf, notices: Notices
) -> Iterator[str]:
    """Yield the lines that a replica has written so far.

    Args:
        job: the replica's job, as it is now.
        replica: whose log.
        wanted: which part of it.
        call_of: asks CloudWatch Logs.
        notices: told why there are none, where AWS says it.

    Raises:
        UnknownNameError: there is no such attempt.
        AwsError: AWS refused, or does not answer.
    """
    logs = attempt_logs(job)
    if wanted.attempt is not None:
        logs = [each for each in logs if each.number == wanted.attempt]
        if not logs:
            raise no_such_attempt(replica, wanted.attempt, len(job.attempts))
    elif not logs:
        explain_silence(job, replica, notices)
    for log in logs:
        yield from _attempt_lines(log, job, replica, wanted, call_of, notices)


def _attempt_lines(
    log: AttemptLog,
    job: JobView,
    replica: Replica,
    wanted: Wanted,
    call_of: CallOf,
    notices: Notices,
) -> Iterator[str]:
    if not log.places or log.never_ran:
        explain_attempt(log, replica, notices)
    streams = [
        _stream_lines(open_reader(place, job, wanted, call_of), place, log, replica, notices)
        for place in log.places
    ]
    if len(streams) == 1:
        yield from (line for _, line in streams[0])
    else:
        yield from (line for _, line in heapq.merge(*streams, key=lambda each: each[0]))


def open_reader(place: Place, job: JobView, wanted: Wanted, call_of: CallOf) -> StreamReader:
    """Return a reader of one stream."""
    since = begin_of(job) if wanted.since is None else wanted.since
    return StreamReader(
        call_of(place.region), place.group, place.stream, since=since, until=wanted.until
    )


def begin_of(job: JobView) -> Milliseconds | None:
    """Return a time before which a job cannot have written, by any host's clock.

    A reading that begins at a time has fewer empty pages (API model, GetLogEvents).
    """
    return None if job.created_at is None else max(0, int(job.created_at * 1000) - _DAY)


def _stream_lines(
    reader: StreamReader, place: Place, log: AttemptLog, replica: Replica, notices: Notices
) -> Iterator[tuple[Milliseconds, str]]:
    lines = Lines()
    at = 0
    try:
        for event in reader.read():
            at = event.at
            for line in lines.feed(event):
                yield at, line
    except AwsError as error:
        what = missing(error)
        if not what:
            raise
        if not log.never_ran:
            explain_missing(what, place, replica, notices)
    for line in lines.rest():
        yield at, line


def explain_silence(job: JobView, replica: Replica, notices: Notices) -> None:
    """Tell why a job without attempts has no log; nothing while it may yet get one."""
    drivers = elsewhere(job.containers)
    if drivers:
        notices.no_log(str(replica), log_notices.elsewhere(drivers[0]))
    elif job.ended:
        reason = job.container_reason or job.reason
        notices.no_log(str(replica), log_notices.never_ran(reason))
    elif job.status == FORGOTTEN:
        notices.no_log(str(replica), log_notices.FORGOTTEN)


def explain_attempt(log: AttemptLog, replica: Replica, notices: Notices) -> None:
    """Tell why an attempt has no log; nothing while it may yet get one."""
    who = str(replica) if log.number == 1 else f"{replica}, attempt {log.number}"
    if log.elsewhere:
        notices.no_log(who, log_notices.elsewhere(log.elsewhere[0]))
    elif log.over:
        notices.no_log(who, log_notices.never_ran(log.reason))


def explain_missing(what: str, place: Place, replica: Replica, notices: Notices) -> None:
    """Tell that a stream or its group is not there."""
    cause = log_notices.no_group if what == GROUP else log_notices.no_stream
    notices.no_log(str(replica), cause(place))


def no_such_attempt(replica: Replica, attempt: int, made: int) -> UnknownNameError:
    """Return what to raise for an attempt that was not made."""
    return UnknownNameError(
        f"{replica} has no attempt {attempt}; it has made {made}, counted from 1"
    )
