"""The logs of an app in memory, as something to iterate over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from wherry.errors import UsageError, WaitTimeout
from wherry.schedulers.api import LogChunk, Stream, compiled
from wherry.schedulers.lines import LogLines
from wherry.testing.clock import Clock
from wherry.testing.replica import Replica, WrittenLine
from wherry.testing.simulation import SimulatedApp


def line_filter(
    regex: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    streams: Stream | None = None,
    attempt: int | None = None,
) -> Callable[[WrittenLine], bool]:
    """Make the test that a line must pass.

    Raises:
        UsageError: the regular expression is not one, or the stream is not offered.
    """
    pattern = compiled(regex)
    first = since.timestamp() if since else float("-inf")
    end = until.timestamp() if until else float("inf")
    wanted = _streams(streams)
    return lambda line: (
        line.stream in wanted
        and attempt in (None, line.attempt)
        and first <= line.at < end
        and (pattern is None or pattern.search(line.text) is not None)
    )


def _streams(streams: Stream | None) -> frozenset[Stream]:
    if streams is None or streams == Stream.COMBINED:
        return frozenset(Stream)
    if streams not in frozenset(Stream):
        raise UsageError(f"no such stream as {streams!r}; there are {', '.join(Stream)}")
    return frozenset((Stream(streams),))


def replica_lines(
    app: SimulatedApp,
    replica: Replica,
    clock: Clock,
    accepts: Callable[[WrittenLine], bool],
    *,
    should_tail: bool,
) -> LogLines:
    """Iterate over the lines of one replica.

    Args:
        app: its app.
        replica: the replica.
        clock: the time it lives by.
        accepts: which lines.
        should_tail: wait for what comes until the app has ended.
    """

    def start() -> Iterator[str]:
        for batch in _batches(app, [replica], clock, accepts, should_tail=should_tail):
            yield from (line.text for _, line in batch)

    return LogLines(start)


def app_chunks(app: SimulatedApp, stream: Stream, clock: Clock) -> Iterator[LogChunk]:
    """Follow all replicas of an app, line by line in the order of time."""
    accepts = line_filter(streams=stream)
    for batch in _batches(app, app.replicas, clock, accepts, should_tail=True):
        for replica, line in sorted(batch, key=lambda pair: pair[1].at):
            yield LogChunk(
                replica.role.name, replica.index, line.text.encode(errors="surrogateescape")
            )


def _batches(
    app: SimulatedApp,
    replicas: Sequence[Replica],
    clock: Clock,
    accepts: Callable[[WrittenLine], bool],
    *,
    should_tail: bool,
) -> Iterator[list[tuple[Replica, WrittenLine]]]:
    """Hand out what replicas have written since the last batch, until nothing can follow."""
    read = dict.fromkeys(replicas, 0)
    while True:
        with clock.changed:
            batch = []
            for replica in replicas:
                written = replica.lines(clock.now())
                batch += [(replica, line) for line in written[read[replica] :] if accepts(line)]
                read[replica] = len(written)
            over = app.ended or not should_tail
            if not batch and not over:
                if not clock.wait():
                    raise WaitTimeout(nothing_left(app))
                continue
        yield batch
        if over:
            return


def nothing_left(app: SimulatedApp) -> str:
    """Word the message for somebody who waits in vain."""
    return (
        f"{app.handle} is {app.state} and will not change: nothing more is scripted to happen, "
        "and the clock moves only for that; cancel the app, script an end for it, or wait for "
        "another thread with Clock(auto=False)"
    )
