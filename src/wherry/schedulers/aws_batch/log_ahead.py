"""Reading the logs of many replicas that are asked for one after the other.

Each alone costs three calls. Whoever asks for replica 1 after replica 0 will ask for replica 2
next; from then on the logs of a hundred are read in two calls, as long as they are small. Only jobs
that have ended are read ahead: their logs do not change.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence

from wherry.aws import lookup
from wherry.aws.calls import Calls
from wherry.aws.jobs import JobView
from wherry.aws.log_events import Lines
from wherry.aws.log_groups import GroupReader, SharedStream
from wherry.aws.log_places import attempt_logs
from wherry.errors import AwsError
from wherry.schedulers.aws_batch.log_reading import CallOf, begin_of
from wherry.schedulers.aws_batch.replicas import AppJobs, Replica

_LARGE = 8 << 20
"""How many characters may be read ahead."""

_READ_ALONE = 5
"""How many replicas without a line are left to be read alone, which tells whether their streams
are there."""


class ReadAhead:
    """Logs that will probably be asked for next. May be used from any thread.

    Args:
        call_of: asks CloudWatch Logs.
    """

    def __init__(self, call_of: CallOf) -> None:
        self._call_of = call_of
        self._lock = threading.Lock()
        self._last = ("", -1)
        self._kept: dict[tuple[str, int], list[str]] = {}
        self._alone: set[str] = set()
        self._silent: dict[str, int] = {}

    def take(self, app: AppJobs, replica: Replica, calls: Calls) -> list[str] | None:
        """Return the lines of one replica that has ended; ``None`` to read it alone.

        Args:
            app: the app.
            replica: which.
            calls: asks AWS Batch.
        """
        number = app.number(replica)
        key = (app.handle, number)
        with self._lock:
            goes_on = self._last == (app.handle, number - 1)
            self._last = key
            known = self._kept.pop(key, None)
            if known is not None or not goes_on or app.handle in self._alone:
                return known
            self._kept.clear()
        found = self._read(app, number, calls)
        with self._lock:
            self._kept.update(found)
            return self._kept.pop(key, None)

    def _read(self, app: AppJobs, number: int, calls: Calls) -> dict[tuple[str, int], list[str]]:
        """Read a hundred replicas from one on."""
        some = list(itertools.islice(app.replicas(), number, number + lookup.AT_ONCE))
        try:
            jobs = lookup.describe(calls, [each.job_id for each in some])
            texts = self._texts([job for job in jobs.values() if job.ended])
        except AwsError:
            texts = None  # whoever reads alone is told why
        if texts is None:
            self._alone.add(app.handle)
            return {}
        return {
            (app.handle, app.number(each)): texts[each.job_id]
            for each in some
            if each.job_id in texts and (texts[each.job_id] or self._is_believed(app))
        }

    def _is_believed(self, app: AppJobs) -> bool:
        """Tell whether it may be taken for true that a replica has written nothing."""
        seen = self._silent[app.handle] = self._silent.get(app.handle, 0) + 1
        return seen > _READ_ALONE

    def _texts(self, jobs: Sequence[JobView]) -> dict[str, list[str]] | None:
        """Return the lines of jobs, by their ids; ``None`` when there are too many."""
        streams: dict[str, list[SharedStream]] = {}
        groups: dict[tuple[str, str], list[SharedStream]] = {}
        for job in jobs:
            logs = attempt_logs(job)
            if not logs or any(len(each.places) != 1 or each.never_ran for each in logs):
                continue  # there is something to be said about it
            for place in (each.places[0] for each in logs):
                stream = SharedStream(place.stream, begin_of(job) or 0)
                streams.setdefault(job.id, []).append(stream)
                groups.setdefault((place.region, place.group), []).append(stream)
        lines: dict[SharedStream, list[str]] = {}
        left = _LARGE
        for (region, name), some in groups.items():
            for stream, text in _lines(GroupReader(self._call_of(region), name), some):
                lines.setdefault(stream, []).append(text)
                left -= len(text)
                if left < 0:
                    return None
        return {
            job_id: [line for stream in some for line in lines.get(stream, ())]
            for job_id, some in streams.items()
            if not any(stream.missing or stream.again for stream in some)
        }


def _lines(
    reader: GroupReader, streams: Sequence[SharedStream]
) -> Iterator[tuple[SharedStream, str]]:
    making = {stream: Lines() for stream in streams}
    for stream, event in reader.look(streams):
        for line in making[stream].feed(event):
            yield stream, line
    for stream, lines in making.items():
        for line in lines.rest():
            yield stream, line
