"""Where the output of jobs is: the streams of each attempt, and how to remember them.

AWS Batch forgets a job seven days after its end; CloudWatch Logs keeps the streams for as long as
the group says. `known_streams` is what a record keeps of jobs so that their logs can be read then,
and `remembered` makes jobs of it again that readers of logs take like any other. No calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wherry.aws.documents import Document
from wherry.aws.jobs import LOG_DRIVER, LOG_GROUP, AttemptView, ContainerView, JobView

FORGOTTEN = "FORGOTTEN"
"""The status of a job that AWS Batch does not know any more."""


@dataclass(frozen=True)
class Place:
    """One stream.

    Args:
        stream: its name.
        group: the group that it is in.
        region: the group's region; empty for the job's own.
    """

    stream: str
    group: str = LOG_GROUP
    region: str = ""


@dataclass(frozen=True)
class AttemptLog:
    """The output of one attempt.

    Args:
        number: the attempt, from 1.
        places: the streams of its main containers.
        over: whether the attempt has ended.
        stopped_at: when, in seconds since the epoch, as far as it is known.
        elsewhere: the log drivers that take its output in place of CloudWatch Logs.
        reason: why it ended, in AWS's words.
        ran: whether its program was started, as far as AWS says.
    """

    number: int
    places: tuple[Place, ...] = ()
    over: bool = False
    stopped_at: float | None = None
    elsewhere: tuple[str, ...] = ()
    reason: str = ""
    ran: bool = True

    @property
    def never_ran(self) -> bool:
        """Whether it ended before its program was started, so that it has written nothing."""
        return self.over and not self.ran


def attempt_logs(job: JobView) -> list[AttemptLog]:
    """Return where the output of each of a job's attempts is, the first one first.

    Of several containers those count whose end is the job's; without such, all.
    """
    ended = job.ended or job.status == FORGOTTEN
    last = len(job.attempts)
    return [_attempt_log(each, over=ended or each.number < last) for each in job.attempts]


def _attempt_log(attempt: AttemptView, *, over: bool) -> AttemptLog:
    main = [each for each in attempt.containers if each.essential] or list(attempt.containers)
    streams = [each for each in main if each.log_driver == LOG_DRIVER and each.log_stream]
    reason = attempt.container_reason or attempt.reason
    return AttemptLog(
        attempt.number,
        tuple(Place(each.log_stream, each.log_group, each.log_region) for each in streams),
        over or attempt.stopped_at is not None,
        attempt.stopped_at,
        () if streams else elsewhere(main),
        reason,
        attempt.started_at is not None or attempt.exit_code is not None or not reason,
    )


def elsewhere(containers: Sequence[ContainerView]) -> tuple[str, ...]:
    """Return the log drivers of containers that keep their output out of CloudWatch Logs."""
    drivers = (each.log_driver for each in containers if each.log_driver != LOG_DRIVER)
    return tuple(dict.fromkeys(drivers))


# -- in a record ----------------------------------------------------------------------------------


def known_streams(views: Iterable[JobView]) -> list[Document]:
    """Return what is to be kept of jobs, so that their logs can be read when AWS forgot them.

    Args:
        views: jobs, children or nodes; those without a known stream are left out.

    Returns:
        Plain data: a line for each stream, with the job's id, the attempt and the stream's place.
        What is as usual (attempt 1, the default group, the job's own region) is left out.
    """
    lines: list[Document] = []
    for job in views:
        for attempt in attempt_logs(job):
            lines += [_line(job, attempt, place) for place in attempt.places]
    return lines


def _line(job: JobView, attempt: AttemptLog, place: Place) -> Document:
    line: Document = {"job": job.id, "stream": place.stream}
    if attempt.number != 1:
        line["attempt"] = attempt.number
    if place.group != LOG_GROUP:
        line["group"] = place.group
    if place.region:
        line["region"] = place.region
    return line


def remembered(streams: Iterable[Document]) -> dict[str, JobView]:
    """Return jobs made of what `known_streams` kept, by their ids.

    They have nothing but their attempts, and those nothing but their streams. A line that is not
    understood is passed over.
    """
    attempts: dict[str, dict[int, list[ContainerView]]] = {}
    for line in streams:
        if "job" not in line or "stream" not in line:
            continue
        numbers = attempts.setdefault(str(line["job"]), {})
        numbers.setdefault(int(line.get("attempt", 1)), []).append(
            ContainerView(
                log_stream=str(line["stream"]),
                log_group=str(line.get("group", LOG_GROUP)),
                log_region=str(line.get("region", "")),
            )
        )
    return {
        job_id: JobView(
            id=job_id,
            status=FORGOTTEN,
            attempts=tuple(
                AttemptView(number, tuple(containers), stopped_at=0.0)
                for number, containers in sorted(numbers.items())
            ),
        )
        for job_id, numbers in attempts.items()
    }
