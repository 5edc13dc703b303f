"""What is known of an app, as text for people."""

from __future__ import annotations

import time

from wherry.cli.output import clean, one_line
from wherry.cli.times import show_duration, show_time
from wherry.specs.states import AppState, is_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wherry.cli.output import Paint
    from wherry.schedulers.api import DescribeAppResponse
    from wherry.specs.app import AppDef, Role
    from wherry.specs.status import AppStatus, AttemptStatus, ReplicaStatus, RoleStatus

_FEW = 8
"""Up to so many replicas of a role are all shown; of more, only those that failed."""
_SHOWN = 20
_ERROR_LINES = 4
_FILE = "file://"


def how_it_ended(attempt: AttemptStatus) -> str:
    """Word the end of an attempt: its exit code, or its signal by name."""
    if attempt.signal:
        return f"killed by {attempt.signal}"
    if attempt.exit_code is not None:
        return f"exited with code {attempt.exit_code}"
    return "running" if not is_terminal(attempt.state) else "not started"


def error_message(text: str | None) -> str:
    """Take the message out of a structured error file.

    Args:
        text: JSON, in torchelastic's form or any other; text that is not JSON is returned as is.
    """
    if not text:
        return ""
    import json

    try:
        value = json.loads(text)
    except ValueError:
        return text.strip()
    # {"message": {"message": "…", "extraInfo": {…}}}, {"message": "…"}, {"error": "…"} or a string
    while isinstance(value, dict):
        inner = next((value[key] for key in ("message", "error") if value.get(key)), None)
        if inner is None:
            break
        value = inner
    return value.strip() if isinstance(value, str) else json.dumps(value)


def first_failed(roles: Iterable[RoleStatus]) -> ReplicaStatus | None:
    """Return the replica whose failure came first."""
    failed = [
        replica
        for role in roles
        for replica in role.replicas
        if replica.state is AppState.FAILED and replica.attempts
    ]
    return min(failed, key=_ended_at, default=None)


def _ended_at(replica: ReplicaStatus) -> float:
    ended = replica.attempts[-1].ended_at
    return float("inf") if ended is None else ended


def failure(handle: str, status: AppStatus, paint: Paint) -> str:
    """Write the short block that follows an app that did not succeed."""
    lines = [f"{paint.state(status.state)}: {one_line(status.msg) or 'no reason is known'}"]
    replica = first_failed(status.roles)
    error = error_message(status.structured_error_msg)
    if replica is not None:
        last = replica.attempts[-1]
        more = f" in attempt {last.number}" if last.number > 1 else ""
        ending = f"{replica.role}/{replica.id} {how_it_ended(last)}{more}"
        if ending not in lines[0]:
            lines.append(f"  {ending}")
        error = error or error_message(replica.structured_error_msg or last.error)
    if error:
        lines += _indented("error: ", error)
    return "\n".join([*lines, f"  more: wherry describe {handle}"])


def status_text(handle: str, described: DescribeAppResponse, paint: Paint) -> str:
    """Write an app's state, and that of its roles."""
    return "\n".join([*_head(handle, described, paint), *_roles(described, paint)])


def description(handle: str, described: DescribeAppResponse, paint: Paint) -> str:
    """Write all that is known: the state, and the app as it was submitted."""
    lines = [*_head(handle, described, paint)]
    shown = "\n".join(lines)
    facts = described.metadata.items()
    lines += [_fact(key, value) for key, value in facts if value not in shown]
    lines += _roles(described, paint, attempts=True)
    if described.app is not None:
        lines += ["", paint("app", "bold"), *_app(described.app)]
    roles = described.app.roles if described.app is not None else described.roles
    for role in roles:
        lines += ["", f"{paint('role', 'bold')} {role.name}", *_role(role)]
    return "\n".join(lines)


def _head(handle: str, described: DescribeAppResponse, paint: Paint) -> Iterator[str]:
    page = described.ui_url or ""
    yield f"{paint(handle, 'bold')}"
    yield f"  state     {paint.state(described.state)}"
    facts = (
        ("reason", one_line(described.msg)),
        ("provider", described.raw_state or ""),
        ("created", show_time(described.created_at) if described.created_at else ""),
        ("started", show_time(described.started_at) if described.started_at else ""),
        ("ended", show_time(described.ended_at) if described.ended_at else ""),
        ("took", _took(described)),
        ("restarts", str(described.num_restarts or "")),
        ("logs" if page.startswith(_FILE) else "page", page.removeprefix(_FILE)),
    )
    yield from (_fact(key, value) for key, value in facts if value)
    error = error_message(described.structured_error_msg)
    if error:
        yield from _indented("error     ", error)


def _fact(key: str, value: str) -> str:
    return f"  {key:<9} {one_line(value)}"


def _took(described: DescribeAppResponse) -> str:
    if described.started_at is None:
        return ""
    end = described.ended_at
    if end is None:
        end = time.time()
    so_far = "" if is_terminal(described.state) else " so far"
    return show_duration(end - described.started_at) + so_far


def _indented(label: str, text: str) -> list[str]:
    first, *rest = clean(text).rstrip().splitlines() or [""]
    return [f"  {label}{first}", *(" " * (len(label) + 2) + line for line in rest)]


def _roles(
    described: DescribeAppResponse, paint: Paint, *, attempts: bool = False
) -> Iterator[str]:
    for role in described.roles_statuses:
        yield ""
        yield f"{paint('role', 'bold')} {role.role}: {_counts(role)}"
        shown, left_out = _worth_showing(role.replicas)
        for replica in shown:
            yield from _replica(replica, paint, attempts=attempts)
        if left_out:
            yield f"  and {left_out} more that failed; --json has all"


def _counts(role: RoleStatus) -> str:
    counts: dict[AppState, int] = {}
    for replica in role.replicas:
        counts[replica.state] = counts.get(replica.state, 0) + 1
    words = [f"{count} {state.name.lower()}" for state, count in sorted(counts.items())]
    return ", ".join(words) or "no replicas yet"


def _worth_showing(replicas: Sequence[ReplicaStatus]) -> tuple[Sequence[ReplicaStatus], int]:
    if len(replicas) <= _FEW:
        return replicas, 0
    failed = [replica for replica in replicas if replica.state is AppState.FAILED]
    return failed[:_SHOWN], max(0, len(failed) - _SHOWN)


def _replica(replica: ReplicaStatus, paint: Paint, *, attempts: bool) -> Iterator[str]:
    words = [f"  {replica.role}/{replica.id}", paint.state(replica.state)]
    if replica.attempts:
        last = replica.attempts[-1]
        words += [how_it_ended(last)] if is_terminal(replica.state) else []
        words += [f"attempt {last.number}"] if last.number > 1 else []
        words += [f"took {_attempt_time(last)}"] if last.ended_at and last.started_at else []
    words += [f"on {replica.hostname}"] if replica.hostname else []
    yield "  ".join(words)
    if replica.reason and replica.reason not in words:
        yield f"      {one_line(replica.reason)}"
    error = error_message(replica.structured_error_msg)
    if error:
        yield from (f"    {line}" for line in _indented("error: ", error)[:_ERROR_LINES])
    if attempts or replica.state is AppState.FAILED:
        yield from _attempts(replica.attempts, all_of_them=attempts)


def _attempts(attempts: Sequence[AttemptStatus], *, all_of_them: bool) -> Iterator[str]:
    for attempt in attempts if all_of_them else attempts[-1:]:
        if all_of_them:
            ending = how_it_ended(attempt)
            reason = "" if attempt.reason in ("", ending) else f": {one_line(attempt.reason)}"
            began = show_time(attempt.started_at)
            yield f"      attempt {attempt.number}  {began}  {ending}{reason}"
        if attempt.logs:
            yield f"      logs {one_line(attempt.logs)}{_files(attempt.logs)}"


def _files(logs: str) -> str:
    """Return what stands for the endings of log files; nothing for logs that are no files."""
    import os

    return ".*" if os.path.isdir(os.path.dirname(logs)) else ""


def _attempt_time(attempt: AttemptStatus) -> str:
    return show_duration((attempt.ended_at or 0) - (attempt.started_at or 0))


def _app(app: AppDef) -> Iterator[str]:
    yield _fact("name", app.name)
    if app.array:
        yield _fact("kind", "array: the replicas are independent")
    if app.timeout is not None:
        yield _fact("timeout", f"{show_duration(app.timeout)} for an attempt")
    yield from (_fact("after", handle) for handle in app.depends_on)
    yield from (_fact(key, value) for key, value in app.metadata.items())


def _role(role: Role) -> Iterator[str]:
    import shlex

    resource = role.resource
    asks = {"cpu": resource.cpu, "gpu": resource.gpu, "memory MiB": resource.memMB}
    facts = (
        ("image", role.image),
        ("command", shlex.join([role.entrypoint, *role.args])),
        ("replicas", str(role.num_replicas)),
        ("at least", str(role.min_replicas or "")),
        ("retries", f"{role.max_retries} ({role.retry_policy.scope})" if role.max_retries else ""),
        ("asks for", ", ".join(f"{value} {key}" for key, value in asks.items() if value > 0)),
        ("mounts", ", ".join(map(str, role.mounts))),
        # Values of variables may be secrets; --json has them for those who want them.
        ("env", ", ".join(sorted(role.env))),
        ("secrets", ", ".join(sorted(role.secrets))),
        ("ports", ", ".join(f"{name} {port}" for name, port in role.port_map.items())),
    )
    yield from (_fact(key, value) for key, value in facts if value)
