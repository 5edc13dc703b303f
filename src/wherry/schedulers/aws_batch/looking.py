"""Looking at the jobs behind apps, in as few calls as what is asked for takes.

A glance (`glance`) is for the states of many apps at once: one DescribeJobs for 100 jobs, an array
by its counts; of apps that have just ended also those members that say how. A look (`look`) is for
all about one app: with up to 99 replicas one DescribeJobs for everything, with more the members
are listed, 1,000 a page, and those that failed are described.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from wherry.aws import jobs, lookup
from wherry.aws.calls import Calls
from wherry.aws.jobs import JobView
from wherry.schedulers.aws_batch.finding import KnownApp
from wherry.schedulers.aws_batch.shape import Kind

Views = Mapping[str, JobView]

_MOST_AT_ONCE = lookup.AT_ONCE
_DESCRIBED_FAILURES = 99
_GANG_STATES = (jobs.STARTING, jobs.RUNNING, *jobs.ENDED)


@dataclass(frozen=True)
class Seen:
    """What was seen of one app.

    Args:
        jobs: its jobs, by id; those that AWS does not know (any more) are missing.
        members: children or nodes, by id.
        complete: whether all members were looked at.
    """

    jobs: Views
    members: Views = field(default_factory=dict)
    complete: bool = False

    @property
    def over(self) -> bool:
        """Whether all that was seen has ended."""
        return bool(self.jobs) and all(job.ended for job in self.jobs.values())


def has_members(app: KnownApp) -> bool:
    """Tell whether an app's replicas are not jobs themselves."""
    return app.kind is not Kind.SINGLE and app.replicas > 1


def look(app: KnownApp, known: Views) -> Seen:
    """Look at all of one app.

    Args:
        app: the app.
        known: jobs that were seen just now, or have ended; they are not asked for again.

    Raises:
        AwsError: AWS refused, or does not answer.
    """
    calls = app.aws.calls()
    known = {**app.views, **known}
    if not has_members(app):
        return Seen(_with(calls, app.job_ids, known), complete=True)
    members = [replica.job_id for replica in app.with_jobs().replicas()]
    missing = [each for each in app.job_ids if each not in known]
    if len(missing) + len(members) <= _MOST_AT_ONCE:
        found = _with(calls, [*app.job_ids, *members], known)
        return _seen(app, found)
    parents = _with(calls, app.job_ids, known)
    return Seen(parents, _listed(calls, app, parents), complete=True)


def glance(apps: Sequence[KnownApp], known: Views) -> dict[str, Seen]:
    """Look at the states of many apps.

    Args:
        apps: all of the same AWS session.
        known: jobs that were seen just now, or have ended; they are not asked for again.

    Returns:
        App id → what was seen.

    Raises:
        AwsError: AWS refused, or does not answer.
    """
    if not apps:
        return {}
    calls = apps[0].aws.calls()
    parents = _with(calls, [each for app in apps for each in app.job_ids], known)
    mine = {app.app_id: Seen(_of(app.job_ids, parents)) for app in apps}
    over = [app for app in apps if has_members(app) and mine[app.app_id].over]
    small = [app for app in over if app.replicas < _MOST_AT_ONCE]
    wanted = [replica.job_id for app in small for replica in app.with_jobs().replicas()]
    members = lookup.describe(calls, wanted) if wanted else {}
    for app in small:
        mine[app.app_id] = _seen(app, {**parents, **members})
    for app in over:
        if app not in small:
            jobs_seen = mine[app.app_id].jobs
            mine[app.app_id] = Seen(jobs_seen, _tellers(calls, app, jobs_seen))
    for app in apps:
        if not has_members(app):
            mine[app.app_id] = Seen(mine[app.app_id].jobs, complete=True)
    return mine


def _with(calls: Calls, ids: Iterable[str], known: Views) -> dict[str, JobView]:
    wanted = list(ids)
    missing = [each for each in wanted if each not in known]
    found = lookup.describe(calls, missing) if missing else {}
    return {each: view for each in wanted if (view := known.get(each) or found.get(each))}


def _of(ids: Iterable[str], views: Views) -> dict[str, JobView]:
    return {each: views[each] for each in ids if each in views}


def _seen(app: KnownApp, found: Views) -> Seen:
    members = [replica.job_id for replica in app.with_jobs().replicas()]
    return Seen(_of(app.job_ids, found), _of(members, found), complete=True)


def _listed(calls: Calls, app: KnownApp, parents: Views) -> dict[str, JobView]:
    """Return the members of a large app: listed, and those that failed described."""
    listed: dict[str, JobView] = {}
    for job in app.jobs:
        parent = parents.get(job.id)
        if parent is None:
            continue
        if app.kind is Kind.GANG:
            listed.update(_nodes(calls, parent))
        elif job.count == 1:
            listed[job.id] = parent
        else:
            listed.update(_children(calls, parent, job.count))
    return {**listed, **_details(calls, app, listed)}


def _children(calls: Calls, parent: JobView, count: int) -> dict[str, JobView]:
    counts = parent.counts
    if counts.get(jobs.SUCCEEDED) == count:
        states: Sequence[str] = (jobs.SUCCEEDED,)
        found = lookup.children(calls, parent.id, states=states)
    else:
        found = lookup.children(calls, parent.id, size=count, counts=counts)
    return {child.id: child for child in found.values()}


def _nodes(calls: Calls, parent: JobView) -> dict[str, JobView]:
    states = jobs.ENDED if parent.ended else _GANG_STATES
    if parent.status in jobs.WAITING and not parent.attempts:
        return {}
    return {
        node.id: node
        for state in states
        for node in lookup.listed(calls, multinode=parent.id, status=state)
    }


def _details(calls: Calls, app: KnownApp, listed: Views) -> dict[str, JobView]:
    """Describe the members that say why: the main node, and those that failed."""
    main = [jobs.node_id(app.job_ids[0], 0)] if app.kind is Kind.GANG else []
    failed = [each.id for each in _by_end(listed.values()) if each.status == jobs.FAILED]
    wanted = [*main, *failed[:_DESCRIBED_FAILURES]]
    return lookup.describe(calls, wanted) if wanted else {}


def _tellers(calls: Calls, app: KnownApp, parents: Views) -> dict[str, JobView]:
    """Return the members of a large app that has ended which say how."""
    if app.kind is Kind.GANG:
        return lookup.describe(calls, [jobs.node_id(app.job_ids[0], 0)])
    found: dict[str, JobView] = {}
    for parent in parents.values():
        if parent.status == jobs.FAILED and parent.array_size:
            failed = lookup.children(calls, parent.id, states=(jobs.FAILED,))
            found.update({child.id: child for child in failed.values()})
        elif parent.status == jobs.FAILED:
            found[parent.id] = parent
    return found


def _by_end(views: Iterable[JobView]) -> list[JobView]:
    """Return jobs by the time of their end, the first first."""
    return sorted(views, key=lambda job: (job.stopped_at or float("inf"), job.index or 0))
