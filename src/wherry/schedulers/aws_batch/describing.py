"""What is known of an app, from what AWS says of its jobs, and from our record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from wherry.aws import jobs
from wherry.aws.jobs import AttemptView, ContainerView, JobView
from wherry.schedulers.api import DescribeAppResponse
from wherry.schedulers.aws_batch import wording
from wherry.schedulers.aws_batch.finding import KnownApp
from wherry.schedulers.aws_batch.looking import Seen, has_members
from wherry.schedulers.aws_batch.replicas import Replica
from wherry.schedulers.aws_batch.restoring import roles_of
from wherry.schedulers.aws_batch.shape import Group, Kind
from wherry.schedulers.aws_batch.states import STATES, combined, counted, state_of
from wherry.specs.states import AppState, is_terminal
from wherry.specs.status import AttemptStatus, ReplicaStatus, RoleStatus

EXPIRED = "AWS Batch does not know it any more, and how it ended was not seen from here"
_MAIN_ENDED = "stopped, as the main node had ended"
_NOT_KNOWN_YET = "not known to AWS Batch yet; it is being submitted"
_MOST_IDS = 3


def answer_of(app: KnownApp, seen: Seen) -> DescribeAppResponse:
    """Return all that is known of an app.

    Args:
        app: the app.
        seen: what AWS says of its jobs.
    """
    if not seen.jobs:
        return expired(app)
    views = [seen.jobs[each] for each in app.job_ids if each in seen.jobs]
    states = [state_of(job, app.wish) for job in views]
    state = combined(states)
    roles = tuple(_role_status(app, group, seen) for group in app.groups)
    return DescribeAppResponse(
        app_id=app.app_id,
        state=state,
        num_restarts=_restarts(roles),
        msg=_msg(app, state, seen, roles),
        ui_url=console_url(views[0]),
        roles_statuses=roles,
        roles=roles_of(app, seen),
        app=app.record.app if app.record else None,
        raw_state=_raw(views),
        created_at=_created(app, views),
        started_at=_earliest(each.started_at for each in _timed(views, seen)),
        ended_at=_latest(each.stopped_at for each in views) if is_terminal(state) else None,
        metadata=_metadata(app, views, seen),
    )


def submitting(app: KnownApp) -> DescribeAppResponse:
    """Return what is known of an app whose submission is not over."""
    return replace(expired(app), state=AppState.SUBMITTED, msg=_NOT_KNOWN_YET)


def expired(app: KnownApp) -> DescribeAppResponse:
    """Return what our record knows of an app that AWS has forgotten."""
    record = app.record
    return DescribeAppResponse(
        app_id=app.app_id,
        state=AppState.EXPIRED,
        msg=EXPIRED,
        roles=tuple(record.app.roles) if record and record.app else (),
        app=record.app if record else None,
        created_at=record.created_at if record else None,
        metadata=_metadata(app, (), None),
    )


# -- roles and replicas ---------------------------------------------------------------------------


def _role_status(app: KnownApp, group: Group, seen: Seen) -> RoleStatus:
    replicas = [each for each in app.with_jobs().replicas() if each.role == group.role]
    if not has_members(app):
        views = [(each, seen.jobs.get(each.job_id)) for each in replicas]
    elif seen.complete:
        views = [(each, seen.members.get(each.job_id)) for each in replicas]
    else:
        shown = [each for each in replicas if each.job_id in seen.members]
        statuses = tuple(_replica(app, each, seen.members[each.job_id], seen) for each in shown)
        return RoleStatus(group.role, statuses, _others(app, group, seen, statuses))
    return RoleStatus(group.role, tuple(_replica(app, each, job, seen) for each, job in views))


def _others(
    app: KnownApp, group: Group, seen: Seen, shown: Sequence[ReplicaStatus]
) -> tuple[tuple[AppState, int], ...]:
    """Count the replicas of a role that are not shown one by one."""
    totals: dict[AppState, int] = {}
    for job in app.jobs:
        view = seen.jobs.get(job.id)
        if view is None:
            continue
        counts = view.counts if sum(view.counts.values()) == job.count else {}
        if app.kind is Kind.GANG or not counts:
            size = group.count if app.kind is Kind.GANG else job.count
            counts = {view.status: size}
        for state, count in counted(counts):
            totals[state] = totals.get(state, 0) + count
    for replica in shown:
        raw = AppState.FAILED if replica.state is AppState.CANCELLED else replica.state
        totals[raw] = totals.get(raw, 0) - 1
    if app.wish is not None and app.kind is Kind.GANG and AppState.FAILED in totals:
        totals[AppState.CANCELLED] = totals.pop(AppState.FAILED)
    return tuple(sorted((state, count) for state, count in totals.items() if count > 0))


def _replica(app: KnownApp, replica: Replica, job: JobView | None, seen: Seen) -> ReplicaStatus:
    if job is None:
        return _missing(app, replica, seen)
    state = _replica_state(app, job, seen)
    attempts = _attempts(job, state, allowed=_attempts_allowed(job, seen))
    return ReplicaStatus(
        id=replica.k,
        state=state,
        role=replica.role,
        hostname=_host(job),
        reason=_reason(app, job, state),
        attempts=attempts,
    )


def _replica_state(app: KnownApp, job: JobView, seen: Seen) -> AppState:
    state = state_of(job, app.wish)
    if state is AppState.FAILED and job.kind == "node" and _was_stopped(app, job, seen):
        return AppState.CANCELLED
    return state


def _was_stopped(app: KnownApp, node: JobView, seen: Seen) -> bool:
    """Tell whether a node ended because the main node had."""
    whole = seen.jobs.get(app.job_ids[0])
    main = seen.members.get(jobs.node_id(app.job_ids[0], whole.main_node if whole else 0))
    if main is None or node.id == main.id or not main.ended:
        return False
    return node.stopped_at is None or (main.stopped_at or 0.0) <= node.stopped_at


def _missing(app: KnownApp, replica: Replica, seen: Seen) -> ReplicaStatus:
    """Return a replica that AWS does not name: it has not begun, or went with the others."""
    parent = seen.jobs.get(jobs.parent_of(replica.job_id))
    if parent is None:
        return ReplicaStatus(replica.k, AppState.UNKNOWN, replica.role)
    state = state_of(parent, app.wish)
    if parent.status == jobs.SUCCEEDED or not parent.ended:
        known = STATES.get(parent.status, AppState.UNKNOWN)
        return ReplicaStatus(
            replica.k, min(known, AppState.PENDING) if not parent.ended else known, replica.role
        )
    reason = wording.cancelled(app.wish, parent) if state is AppState.CANCELLED else parent.reason
    return ReplicaStatus(replica.k, AppState.CANCELLED, replica.role, reason=reason)


def _reason(app: KnownApp, job: JobView, state: AppState) -> str:
    if state is not AppState.CANCELLED:
        return wording.reason_of(job)
    if job.is_cancelled or job.is_terminated or app.wish is not None:
        return wording.cancelled(app.wish, job)
    return _MAIN_ENDED


def _host(job: JobView) -> str:
    """Return the container instance, which ECS knows by this name; Fargate has none."""
    for container in job.containers:
        if container.instance_arn:
            return container.instance_arn.rpartition("/")[2]
    return ""


# -- attempts -------------------------------------------------------------------------------------


def _attempts_allowed(job: JobView, seen: Seen) -> int:
    if job.detailed:
        return job.attempts_allowed
    parent = seen.jobs.get(job.parent)
    return parent.attempts_allowed if parent is not None else 1


def _attempts(job: JobView, state: AppState, *, allowed: int) -> tuple[AttemptStatus, ...]:
    if job.attempts:
        last = job.attempts[-1].number
        return tuple(_attempt(job, each, state, last=each.number == last) for each in job.attempts)
    if job.detailed or not job.ended or job.started_at is None:
        return ()
    if allowed > 1 and job.status == jobs.SUCCEEDED:
        return ()  # a list does not say how many there were
    return (
        AttemptStatus(
            number=1,
            state=state,
            exit_code=_code(job),
            signal=wording.signal_name(_code(job)),
            reason=wording.reason_of(job),
            started_at=job.started_at,
            ended_at=job.stopped_at,
        ),
    )


def _code(job: JobView) -> int | None:
    code = job.exit_code
    return 0 if code is None and job.status == jobs.SUCCEEDED else code


def _attempt(job: JobView, attempt: AttemptView, state: AppState, *, last: bool) -> AttemptStatus:
    code = attempt.exit_code
    if code is None and last and job.status == jobs.SUCCEEDED:
        code = 0
    return AttemptStatus(
        number=attempt.number,
        state=_attempt_state(job, attempt, state, last=last),
        exit_code=code,
        signal=wording.signal_name(code),
        reason=wording.why_it_ended(attempt),
        started_at=attempt.started_at,
        ended_at=attempt.stopped_at,
        logs=_logs(attempt.containers),
    )


def _attempt_state(job: JobView, attempt: AttemptView, state: AppState, *, last: bool) -> AppState:
    if last and job.ended:
        return state
    if attempt.stopped_at is not None or not last:
        return AppState.FAILED  # it was tried again
    return STATES.get(job.status, AppState.UNKNOWN)


def _logs(containers: Iterable[ContainerView]) -> str | None:
    """Return where the output of an attempt is, as ``group:stream``."""
    known = [each for each in containers if each.log_stream]
    main = next((each for each in known if each.essential), known[0] if known else None)
    return f"{main.log_group}:{main.log_stream}" if main else None


def _restarts(roles: Iterable[RoleStatus]) -> int:
    return sum(max(0, len(replica.attempts) - 1) for role in roles for replica in role.replicas)


# -- the app --------------------------------------------------------------------------------------


def _msg(app: KnownApp, state: AppState, seen: Seen, roles: Sequence[RoleStatus]) -> str:
    views = list(seen.jobs.values())
    if state is AppState.CANCELLED:
        ended = [job for job in views if state_of(job, app.wish) is AppState.CANCELLED]
        return wording.cancelled(app.wish, ended[0] if ended else None)
    if not is_terminal(state):
        words = next((found for job in views if (found := wording.reason_of(job))), "")
        if app.wish is not None:
            return f"being cancelled: {app.wish.reason}"
        failed = _failed_so_far(app, roles)
        return failed or words
    if state is AppState.FAILED:
        return _failure(app, seen, roles)
    return ""


def _failed_so_far(app: KnownApp, roles: Sequence[RoleStatus]) -> str:
    if not has_members(app):
        return ""
    failed = sum(role.counts().get(AppState.FAILED, 0) for role in roles)
    return f"{failed} of {app.replicas} replicas failed so far" if failed else ""


def _failure(app: KnownApp, seen: Seen, roles: Sequence[RoleStatus]) -> str:
    if not has_members(app):
        job = next(job for job in seen.jobs.values() if job.status == jobs.FAILED)
        return f"{app.groups[0].role}/0 {wording.story(job)}"
    first = _first_failed(app, seen, roles)
    if app.kind is Kind.GANG:
        return first or _words_of_parents(seen)
    failed = sum(role.counts().get(AppState.FAILED, 0) for role in roles)
    count = f"{failed} of {app.replicas} replicas failed" if failed else _words_of_parents(seen)
    return f"{count}; the first: {first}" if first else count


def _first_failed(app: KnownApp, seen: Seen, roles: Sequence[RoleStatus]) -> str:
    failed = [
        replica for role in roles for replica in role.replicas if replica.state is AppState.FAILED
    ]
    if not failed:
        return ""
    first = min(failed, key=_ended_at)
    job_id = app.with_jobs().replica(first.role, first.id).job_id
    job = seen.members.get(job_id)
    words = wording.story(job) if job is not None else first.reason
    return f"{first.role}/{first.id} {words}"


def _ended_at(replica: ReplicaStatus) -> float:
    ended = replica.attempts[-1].ended_at if replica.attempts else None
    return float("inf") if ended is None else ended


def _words_of_parents(seen: Seen) -> str:
    words = [wording.reason_of(job) for job in seen.jobs.values() if job.status == jobs.FAILED]
    return next(filter(None, words), "failed; AWS Batch says no more")


def _raw(views: Sequence[JobView]) -> str:
    """Return AWS's word, or words where there are several jobs."""
    return ", ".join(dict.fromkeys(job.status for job in views))


def _created(app: KnownApp, views: Sequence[JobView]) -> float | None:
    return _earliest(job.created_at for job in views) or (
        app.record.created_at if app.record else None
    )


def _timed(views: Sequence[JobView], seen: Seen) -> Iterable[JobView]:
    """Return the jobs that say when the app began: of an array the children, if they are known."""
    yield from (job for job in views if not job.array_size)
    yield from seen.members.values()
    if not seen.complete:
        yield from views


def _earliest(times: Iterable[float | None]) -> float | None:
    return min((each for each in times if each is not None), default=None)


def _latest(times: Iterable[float | None]) -> float | None:
    return max((each for each in times if each is not None), default=None)


def _metadata(app: KnownApp, views: Sequence[JobView], seen: Seen | None) -> dict[str, str]:
    ids = app.job_ids
    shown = ", ".join(ids[:_MOST_IDS]) + (" …" if len(ids) > _MOST_IDS else "")
    first = views[0] if views else None
    record = app.record
    member = next(iter(seen.members.values()), None) if seen is not None else None
    containers = first.containers if first and first.containers else ()
    containers = containers or (member.containers if member is not None else ())
    facts = {
        "session": app.session,
        "job_id": shown,
        "queue": first.queue_name if first else record.queue if record else "",
        "definition": first.definition_name if first else "",
        "region": first.region if first else record.region if record else "",
        "log_group": containers[0].log_group if containers else "",
        "share": first.share if first else "",
        "attempts_allowed": str(first.attempts_allowed) if first else "",
    }
    return {name: value for name, value in facts.items() if value}


_PAGES = {"array": "array-job", "multinode": "mnp-job"}
_CONSOLES = {
    "aws-cn": "console.amazonaws.cn",
    "aws-us-gov": "console.amazonaws-us-gov.com",
}


def console_url(job: JobView) -> str | None:
    """Return the page of a job in AWS's console."""
    if not job.region:
        return None
    partition = job.arn.split(":")[1]
    host = f"{job.region}.{_CONSOLES.get(partition, 'console.aws.amazon.com')}"
    page = _PAGES.get(job.kind, "detail")
    return f"https://{host}/batch/home?region={job.region}#jobs/{page}/{job.id}"
