"""Apps as AWS has them: of all queues or some, newest first, page by page.

A list's line of AWS has neither tags nor, of an array, what its children do; so each page that is
looked at is described, 100 jobs with one call. Several jobs that are one app are one line.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from wherry.aws import jobs, lookup
from wherry.aws.calls import Calls
from wherry.aws.jobs import JobView
from wherry.schedulers.api import ListAppResponse, ListFilter
from wherry.schedulers.aws_batch import naming, wording
from wherry.schedulers.aws_batch.record import BACKEND, Record, read_record, records
from wherry.schedulers.aws_batch.states import STATES, combined, state_of
from wherry.schedulers.aws_batch.tags import PREFIX
from wherry.specs.handles import make_app_handle
from wherry.specs.states import AppState, is_terminal

_PAGE = 100
_CLOCKS_DIFFER = 24 * 3600
"""AWS's clock may be ahead of ours; who looks for jobs of all times allows for that."""


def listed(
    calls: Calls,
    chosen: ListFilter,
    *,
    queues: Sequence[str] = (),
    everyone: bool = False,
) -> Iterator[ListAppResponse]:
    """List apps, newest first.

    Args:
        calls: asks AWS Batch.
        chosen: which ones.
        queues: names or ARNs; all queues when empty.
        everyone: also jobs that were not submitted with Wherry.

    Raises:
        AwsError: AWS refused, or does not answer.
    """
    names = list(queues) or [str(each["jobQueueName"]) for each in _queues(calls)]
    lists = [_of_queue(calls, naming.queue_name(name), chosen, everyone) for name in names]
    merged = heapq.merge(*lists, key=lambda app: -(app.created_at or 0.0))
    yield from islice(filter(chosen.accepts, merged), chosen.limit)


def recorded(chosen: ListFilter, session: str | None = None) -> Iterator[ListAppResponse]:
    """List the apps that this machine has records of, newest first, as they were last known.

    Args:
        chosen: which ones.
        session: only of this session.
    """
    lines = (_of_record(each) for each in records() if session in (None, each.session))
    yield from islice(filter(chosen.accepts, lines), chosen.limit)


def _queues(calls: Calls) -> Iterator[dict[str, object]]:
    return calls.pages("DescribeJobQueues", "jobQueues")


def _of_queue(
    calls: Calls, queue: str, chosen: ListFilter, everyone: bool
) -> Iterator[ListAppResponse]:
    seen: set[str] = set()
    for page in _pages(_jobs(calls, queue, chosen)):
        wanted = [job for job in page if everyone or naming.token_of(job.name)]
        told = lookup.describe(calls, [job.id for job in wanted])
        for job in wanted:
            app_id = _app_id(queue, told.get(job.id, job), everyone=everyone)
            if app_id in seen:
                continue
            seen.add(app_id)
            parts = _parts(calls, queue, told.get(job.id, job))
            yield _line(app_id, parts)


def _jobs(calls: Calls, queue: str, chosen: ListFilter) -> Iterator[JobView]:
    """Yield the jobs of a queue, newest first, narrowed as far as one filter of AWS's can do."""
    if chosen.name:
        begins = naming.job_name(chosen.name, "").removesuffix("-")
        narrow = ("JOB_NAME", f"{begins}*")
    elif chosen.since is not None:
        narrow = ("AFTER_CREATED_AT", str(max(0, int(chosen.since * 1000) - 1)))
    else:
        narrow = ("BEFORE_CREATED_AT", str(int((time.time() + _CLOCKS_DIFFER) * 1000)))
    since = chosen.since
    for job in lookup.listed(calls, queue=queue, filter=narrow):
        if since is not None and (job.created_at or 0.0) < since:
            return  # they come newest first
        yield job


def _pages(found: Iterator[JobView]) -> Iterator[list[JobView]]:
    while page := list(islice(found, _PAGE)):
        page.sort(key=lambda job: -(job.created_at or 0.0))  # not every emulator of AWS does
        yield page


def _app_id(queue: str, job: JobView, *, everyone: bool) -> str:
    name, token = job.name, naming.token_of(job.name)
    if everyone and not token:
        return job.id
    return naming.app_id(queue, name[: name.index(token) + len(token)])


def _parts(calls: Calls, queue: str, job: JobView) -> list[JobView]:
    """Return all jobs of the app that a job belongs to; the job itself where it is alone."""
    token = naming.token_of(job.name)
    if not token or job.name.endswith(token):
        return [job]
    whole = job.name[: job.name.index(token) + len(token)]
    found = list(lookup.listed(calls, queue=queue, filter=("JOB_NAME", f"{whole}-*")))
    return list(lookup.describe(calls, [each.id for each in found]).values()) or [job]


def _line(app_id: str, parts: Sequence[JobView]) -> ListAppResponse:
    record = read_record(app_id)
    wish = record.wish() if record is not None else None
    first = parts[0]
    tags = first.tags
    state = combined([state_of(job, wish) for job in parts])
    token = naming.token_of(first.name)
    name = tags.get(f"{PREFIX}app") or (
        first.name[: first.name.index(token) - 1] if token else first.name
    )
    session = record.session if record is not None else tags.get(f"{PREFIX}session", "")
    return ListAppResponse(
        app_id=app_id,
        state=state,
        app_handle=make_app_handle(BACKEND, session, app_id),
        name=record.name if record is not None else name,
        created_at=min((each.created_at for each in parts if each.created_at), default=None),
        ended_at=_ended(parts) if is_terminal(state) else None,
        msg=_words(parts, state),
        replicas=sum(job.array_size or job.num_nodes or 1 for job in parts),
        session=session,
        user=tags.get(f"{PREFIX}user", ""),
        tags=dict(tags),
    )


def _ended(parts: Iterable[JobView]) -> float | None:
    return max((each.stopped_at for each in parts if each.stopped_at), default=None)


def _words(parts: Iterable[JobView], state: AppState) -> str:
    if state is AppState.SUCCEEDED:
        return ""
    for job in parts:
        words = job.reason if state is AppState.CANCELLED else wording.reason_of(job)
        if words and (job.status == jobs.FAILED or STATES.get(job.status) is state):
            return words
    return ""


def _of_record(record: Record) -> ListAppResponse:
    known = record.last()
    last = known[0] if known is not None else None
    return ListAppResponse(
        app_id=record.app_id,
        state=last.state if last is not None else AppState.SUBMITTED,
        app_handle=record.handle,
        name=record.name,
        created_at=last.created_at if last is not None else record.created_at,
        ended_at=last.ended_at if last is not None else None,
        msg=last.msg if last is not None else "",
        replicas=record.replicas,
        session=record.session,
        user=record.user,
        tags=dict(record.tags),
    )
