"""From an app's id to the jobs behind it.

This machine's record knows them. Without a record, ``<queue>:<job name>`` is looked up with one
ListJobs, and an id or ARN of AWS's own is one job, whoever has submitted it. A record without jobs
is one whose submission was cut short: it is completed by looking its name up, or removed when
nothing came of it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wherry.aws import jobs, lookup
from wherry.aws.calls import PATIENCE
from wherry.aws.documents import Document
from wherry.aws.jobs import JobView
from wherry.aws.session import Session
from wherry.errors import AwsError, CredentialsError, UsageError
from wherry.schedulers.aws_batch import naming
from wherry.schedulers.aws_batch.record import (
    BACKEND,
    JobRef,
    Record,
    Wish,
    read_record,
    under_way,
)
from wherry.schedulers.aws_batch.replicas import AppJobs
from wherry.schedulers.aws_batch.sessions import Sessions
from wherry.schedulers.aws_batch.shape import Group, Kind
from wherry.specs.handles import make_app_handle

_JOB_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}([:#]\d+)?\Z")
_ARN = re.compile(
    r"arn:[\w-]+:batch:(?P<region>[a-z0-9-]+):\d{12}:job/(?P<id>[0-9a-f-]{36}([:#]\d+)?)\Z"
)
_APP_ID = re.compile(r"(?P<queue>[A-Za-z0-9][\w-]{0,127}):(?P<name>[A-Za-z0-9][\w-]{0,127})\Z")
_RANGE = re.compile(r"(?P<first>\d*):(?P<last>\d*)\Z")

ROLE_ENV, REPLICAS_ENV = "WHERRY_ROLE_NAME", "WHERRY_NUM_REPLICAS"
OTHERS_ROLE = "main"
"""What the role of a job is called that was not submitted with Wherry."""

FORGOTTEN_AFTER = 24 * 3600.0
"""AWS keeps jobs that have ended for a day at least."""

_KINDS = {"array": Kind.ARRAY, "multinode": Kind.GANG}


@dataclass(frozen=True)
class KnownApp:
    """An app, and the jobs behind it.

    Args:
        app_id: its id.
        aws: where its jobs are, and who asks.
        session: the session of Wherry that it is filed under; empty where that is not known.
        kind: what it is at AWS Batch.
        groups: its roles.
        jobs: its jobs; none while its submission is not over.
        record: this machine's record.
        wish: the first wish for its end, as far as it is known.
        views: what was seen of its jobs while they were looked for, by id.
    """

    app_id: str
    aws: Session
    session: str = ""
    kind: Kind = Kind.SINGLE
    groups: tuple[Group, ...] = ()
    jobs: tuple[JobRef, ...] = ()
    record: Record | None = None
    wish: Wish | None = None
    views: Mapping[str, JobView] = field(default_factory=dict)

    @property
    def job_ids(self) -> tuple[str, ...]:
        """AWS's ids of its jobs."""
        return tuple(job.id for job in self.jobs)

    @property
    def replicas(self) -> int:
        """How many replicas it has."""
        return sum(group.count for group in self.groups)

    @property
    def handle(self) -> str:
        """Its name in messages, and for every command."""
        return make_app_handle(BACKEND, self.session, self.app_id)

    def with_jobs(self, *, over: bool = False, streams: Sequence[Document] = ()) -> AppJobs:
        """Return its jobs by replica."""
        return AppJobs(self.handle, self.kind, self.groups, self.jobs, over, streams)


class Finder:
    """Finds apps.

    Args:
        sessions: whom to ask.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def find(self, app_id: str) -> KnownApp | None:
        """Find an app; ``None`` when there is none.

        Raises:
            AwsError, UsageError: it would have to be looked for at AWS, and that cannot be done.
        """
        record = read_record(app_id)
        if record is not None:
            return self._recorded(record)
        arn = _ARN.match(app_id)
        if arn is not None:
            return _single(app_id, self._sessions.configured(arn["region"]), arn["id"])
        if _JOB_ID.match(app_id):
            return _single(app_id, self._sessions.configured(), app_id)
        named = _APP_ID.match(app_id)
        if named is not None:
            return _named(app_id, self._sessions.configured(), named["queue"], named["name"])
        return None

    def session_of(self, record: Record) -> Session:
        """Return the AWS session of a record."""
        options = {**record.options, "profile": record.profile, "region": record.region}
        return self._sessions.of(options)

    def _recorded(self, record: Record) -> KnownApp | None:
        aws = self.session_of(record)
        if not record.is_submitted:
            completed = completed_record(record, aws)
            if completed is None:
                return None
            record = completed
        return KnownApp(
            app_id=record.app_id,
            aws=aws,
            session=record.session,
            kind=record.app_kind,
            groups=record.role_groups,
            jobs=record.job_refs,
            record=record,
            wish=record.wish(),
        )


def completed_record(record: Record, aws: Session) -> Record | None:
    """Complete a record whose submission was cut short, by looking its jobs up.

    Returns:
        The record, with jobs if there are some; ``None``, and the record is removed, when the
        submission is over and nothing came of it.

    Raises:
        AwsError: AWS does not let us look.
    """
    age = time.time() - record.created_at
    if record.last() is not None or age > FORGOTTEN_AFTER:
        return record  # what AWS does not know any more says nothing
    parts = record.part_refs
    found = _by_name(aws, record.queue, [part.name for part in parts])
    known = [
        JobRef(found[part.name].id, found[part.name].arn, part.name, part.first, part.count)
        for part in parts
        if part.name in found
    ]
    if known:
        record = record.with_jobs(known)
        if record.is_submitted or not _is_under_way(record, age):
            record.save()
            record.announce()
        return record
    if _is_under_way(record, age):
        return record
    record.remove()
    return None


def _is_under_way(record: Record, age: float) -> bool:
    """Tell whether somebody may still be submitting it."""
    if record.pid == os.getpid():
        return record.app_id in under_way
    if age > 2 * PATIENCE:
        return False
    try:
        os.kill(record.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # somebody else's, so there is one
    return record.pid > 0


def _by_name(aws: Session, queue: str, names: Sequence[str]) -> dict[str, JobView]:
    """Return the jobs of these names; of twins the first."""
    found: dict[str, JobView] = {}
    for name in names:
        known = lookup.find(aws.calls(), queue, name)
        if known:
            found[name] = min(known, key=lambda job: (job.created_at or 0.0, job.id))
    return found


# -- without a record -----------------------------------------------------------------------------


def _single(app_id: str, aws: Session, job_id: str) -> KnownApp | None:
    seen = lookup.describe(aws.calls(), [job_id])
    job = seen.get(job_id)
    return None if job is None else of_jobs(app_id, aws, [job])


def _named(app_id: str, aws: Session, queue: str, name: str) -> KnownApp | None:
    ours = bool(naming.token_of(name))
    # A large array of ours is several jobs, whose names end in a number.
    pattern = f"{name}*" if ours else name
    try:
        listed = list(lookup.listed(aws.calls(), queue=queue, filter=("JOB_NAME", pattern)))
    except CredentialsError:
        raise
    except AwsError as error:
        if error.status == 400 and not error.denied:
            return None  # there is no such queue
        raise
    chosen = _of_this_name(listed, name, ours=ours)
    if not chosen:
        return None
    seen = lookup.describe(aws.calls(), [job.id for job in chosen])
    chosen = [seen.get(job.id, job) for job in chosen]
    return of_jobs(app_id, aws, sorted(chosen, key=lambda job: _number(job.name)))


def _of_this_name(listed: Sequence[JobView], name: str, *, ours: bool) -> list[JobView]:
    """Return the jobs that are meant: one, or the parts of a large array."""
    exact = [job for job in listed if job.name == name]
    if exact or not ours:
        return exact[-1:] if ours else exact[:1]  # of twins the first, of others' the newest
    part = re.compile(rf"{re.escape(name)}-\d+\Z")
    return [job for job in listed if part.match(job.name)]


def _number(name: str) -> int:
    end = name.rpartition("-")[2]
    return int(end) if end.isdigit() else 0


def of_jobs(app_id: str, aws: Session, views: Sequence[JobView]) -> KnownApp:
    """Make an app of the jobs that AWS has, in the order of their replicas."""
    kind = _KINDS.get(views[0].kind, Kind.SINGLE)
    refs, first = [], 0
    for job in views:
        count = job.array_size or job.num_nodes or 1
        refs.append(JobRef(job.id, job.arn, job.name, first, count))
        first += count
    wished = [job.reason for job in views if job.is_cancelled or job.is_terminated]
    return KnownApp(
        app_id=app_id,
        aws=aws,
        session=views[0].tags.get("wherry/session", ""),
        kind=kind,
        groups=_groups(views[0], first, kind),
        jobs=tuple(refs),
        wish=Wish(wished[0], 0.0) if wished else None,
        views={job.id: job for job in views},
    )


def _groups(job: JobView, count: int, kind: Kind) -> tuple[Group, ...]:
    if kind is not Kind.GANG:
        return (Group(role_name(environment_of(job.containers[:1])), 0, count),)
    ranges = (job.document.get("nodeProperties") or {}) if job.document else {}
    made = list(_node_groups(ranges, count)) if isinstance(ranges, Mapping) else []
    named = [name for _, name in made]
    doubled = len(set(named)) < len(named)
    return tuple(
        Group(f"{name}-{group[0]}" if doubled else name, group[0], group[1]) for group, name in made
    ) or (Group(OTHERS_ROLE, 0, count),)


def _node_groups(
    properties: Mapping[str, object], count: int
) -> Iterator[tuple[tuple[int, int], str]]:
    ranges = properties.get("nodeRangeProperties")
    for each in ranges if isinstance(ranges, (list, tuple)) else ():
        span = _RANGE.match(str(each.get("targetNodes", "")))
        if span is None:
            continue
        first = int(span["first"] or 0)
        last = int(span["last"] or count - 1)
        container = jobs.view({**each, "jobId": ""}).containers[:1]
        yield (first, last - first + 1), role_name(environment_of(container))


def environment_of(containers: Iterable[jobs.ContainerView]) -> dict[str, str]:
    """Return the environment of the first container."""
    for container in containers:
        pairs = container.document.get("environment")
        if isinstance(pairs, (list, tuple)):
            return {str(each.get("name")): str(each.get("value", "")) for each in pairs}
    return {}


def role_name(environment: Mapping[str, str]) -> str:
    """Return the role that a job's environment names."""
    return environment.get(ROLE_ENV) or OTHERS_ROLE


def check_account(app: KnownApp) -> None:
    """Refuse to say that an app is gone when it is somebody else who asks.

    Raises:
        UsageError: the credentials are of another account than the one that it was submitted to.
    """
    record = app.record
    if record is None or not record.account:
        return
    try:
        ours = app.aws.account_id()
    except AwsError:
        return  # nobody can tell
    if ours and ours != record.account:
        raise UsageError(
            f"{record.handle} was submitted to account {record.account}, and the AWS credentials "
            f"in use are of account {ours}; use those of the former"
            + (f" (profile {record.profile})" if record.profile else "")
        )


def refreshed(app: KnownApp) -> KnownApp:
    """Return an app with what its record says now about the wish for its end."""
    return app if app.record is None else replace(app, wish=app.record.wish())
