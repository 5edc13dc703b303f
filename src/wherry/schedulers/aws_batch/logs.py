"""The logs of apps on AWS Batch: lines of one replica, its bytes, and all replicas as they write.

What there is comes from CloudWatch Logs, one stream for each attempt; which streams there are comes
from AWS Batch, or from our own record when AWS has forgotten the job. Who calls knows which jobs
are behind an app (`AppJobs`); nothing here reads records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from functools import partial

from wherry.aws import lookup
from wherry.aws.jobs import JobView
from wherry.aws.log_events import Milliseconds
from wherry.aws.log_jobs import JobFeed, OneLook, Watching
from wherry.aws.log_places import FORGOTTEN, remembered
from wherry.aws.logs import Call
from wherry.aws.session import Session
from wherry.errors import UsageError
from wherry.schedulers.api import LogChunk, Stream, compiled
from wherry.schedulers.aws_batch.log_ahead import ReadAhead
from wherry.schedulers.aws_batch.log_follow import Follower
from wherry.schedulers.aws_batch.log_notices import Notice, Notices, tell
from wherry.schedulers.aws_batch.log_reading import ALL, Wanted, lines_so_far
from wherry.schedulers.aws_batch.log_tail import ReplicaTail
from wherry.schedulers.aws_batch.replicas import AppJobs, Replica
from wherry.schedulers.lines import LogLines

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_BLOCK = 1 << 16


class BatchLogs:
    """Reads logs of apps. All methods may be called from any thread.

    Args:
        session: asks AWS where the apps run.
        session_in: gives a session for another region; log groups may be in one.
        notice: takes a line of text about a log that is not there.
    """

    def __init__(
        self,
        session: Session,
        *,
        session_in: Callable[[str], Session] | None = None,
        notice: Notice = tell,
    ) -> None:
        self._session = session
        self._session_in = session_in
        self._notice = notice
        self._ahead = ReadAhead(self._call_of)

    def lines(
        self,
        app: AppJobs,
        role: str,
        k: int = 0,
        *,
        regex: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        should_tail: bool = False,
        streams: Stream | None = None,
        attempt: int | None = None,
    ) -> LogLines:
        """Read the lines of one replica, over all its attempts or one.

        The arguments are those of `Scheduler.log_iter`, the app aside.

        Raises:
            UnknownNameError: the app has no such role, replica or attempt.
            UsageError: CloudWatch Logs does not offer the stream, or the regular expression is
                none.
            AwsError: AWS refused, or does not answer.
        """
        check_stream(streams)
        pattern = compiled(regex)
        replica = app.replica(role, k)
        wanted = Wanted(milliseconds(since), milliseconds(until), _checked(attempt))
        notices = Notices(self._notice)

        def start() -> Iterator[str]:
            if should_tail:
                lines = self._tailed(app, replica, wanted, notices)
            else:
                lines = self._lines_so_far(app, replica, wanted, notices)
            if pattern is None:
                yield from lines
            else:
                yield from (line for line in lines if pattern.search(line))

        return LogLines(start)

    def data(
        self,
        app: AppJobs,
        role: str,
        k: int = 0,
        stream: Stream | None = None,
        *,
        attempt: int | None = None,
    ) -> Iterator[bytes]:
        """Read what one replica has written so far, in large pieces; see `Scheduler.log_bytes`.

        Raises:
            UnknownNameError, UsageError, AwsError: as for `lines`.
        """
        check_stream(stream)
        replica = app.replica(role, k)
        wanted = Wanted(attempt=_checked(attempt))
        return _blocks(self._lines_so_far(app, replica, wanted, Notices(self._notice)))

    def follow(self, app: AppJobs, stream: Stream | None = None) -> Iterator[LogChunk]:
        """Read what all replicas write, as they write it, whole lines, until the last one.

        Raises:
            UsageError: CloudWatch Logs does not offer the stream.
            AwsError: AWS refused, or does not answer.
        """
        check_stream(stream)
        return self._followed(app)

    def _followed(self, app: AppJobs) -> Iterator[LogChunk]:
        replicas = list(app.replicas())
        notices = Notices(self._notice)
        if len(replicas) == 1:
            (replica,) = replicas
            for line in self._tailed(app, replica, ALL, notices):
                yield LogChunk(replica.role, replica.k, line.encode())
            return
        with self._feed(app, [replica.job_id for replica in replicas]) as feed:
            yield from Follower(feed, replicas, self._call_of, notices).chunks()

    def _lines_so_far(
        self, app: AppJobs, replica: Replica, wanted: Wanted, notices: Notices
    ) -> Iterator[str]:
        if wanted == ALL:
            kept = self._ahead.take(app, replica, self._session.calls())
            if kept is not None:
                yield from kept
                return
        job = self._job(app, replica.job_id)
        yield from lines_so_far(job, replica, wanted, self._call_of, notices)

    def _tailed(
        self, app: AppJobs, replica: Replica, wanted: Wanted, notices: Notices
    ) -> Iterator[str]:
        with self._feed(app, [replica.job_id]) as feed:
            yield from ReplicaTail(feed, replica, wanted, self._call_of, notices).lines()

    # -- AWS ------------------------------------------------------------------------------------

    def _job(self, app: AppJobs, job_id: str) -> JobView:
        """Return a job as it is now, or as it was when AWS last knew it."""
        found = lookup.describe(self._session.calls(), [job_id]).get(job_id)
        if found is not None:
            return found
        return remembered(app.streams).get(job_id) or JobView(job_id, FORGOTTEN)

    def _feed(self, app: AppJobs, ids: list[str]) -> JobFeed:
        calls = self._session.calls()
        watch: Watching = self._session.poller().watch if not app.over else partial(OneLook, calls)
        return JobFeed(calls, watch, ids, kept=remembered(app.streams))

    def _call_of(self, region: str) -> Call:
        """Return what asks CloudWatch Logs in a region."""
        if not region or region == self._session.region:
            return self._session.calls("logs").call
        if self._session_in is None:
            raise UsageError(
                f"the log is in region {region}, and this session is for {self._session.region}"
            )
        return self._session_in(region).calls("logs").call


def check_stream(stream: Stream | None) -> None:
    """Refuse a stream that CloudWatch Logs does not have.

    Raises:
        UsageError: it is one of stdout and stderr.
    """
    if stream is not None and Stream(stream) is not Stream.COMBINED:
        raise UsageError(
            f"CloudWatch Logs keeps stdout and stderr together, so that {stream} alone cannot be "
            "had; ask for combined"
        )


def milliseconds(moment: datetime | None) -> Milliseconds | None:
    """Return a time as CloudWatch Logs counts it; one without a zone is local."""
    if moment is None:
        return None
    return (moment.astimezone(timezone.utc) - _EPOCH) // timedelta(milliseconds=1)


def _checked(attempt: int | None) -> int | None:
    if attempt is not None and attempt < 1:
        raise UsageError(f"attempts are counted from 1; there is no attempt {attempt}")
    return attempt


def _blocks(lines: Iterator[str]) -> Iterator[bytes]:
    """Put lines together into larger pieces."""
    block: list[str] = []
    size = 0
    for line in lines:
        block.append(line)
        size += len(line)
        if size >= _BLOCK:
            yield "".join(block).encode()
            block, size = [], 0
    if block:
        yield "".join(block).encode()
