"""The diagnosis that any scheduler can give: from what `describe` and the log say.

A scheduler that can look further overrides `Scheduler.why`. Here nothing is asked again; exit
codes, signals, errors and last lines are read with the tables of `wherry.specs`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from wherry.specs import exits, printed
from wherry.specs.diagnosis import Certainty, Diagnosis, Fact, Finding, ranked
from wherry.specs.states import AppState
from wherry.specs.status import AttemptStatus, ReplicaStatus

if TYPE_CHECKING:
    from wherry.schedulers.api import DescribeAppResponse, Scheduler

_READ = 40
_SHOWN = 8
_LONGEST = 300


def explain(scheduler: Scheduler[Any], described: DescribeAppResponse) -> Diagnosis:
    """Say why an app is in its state.

    Args:
        scheduler: has its log.
        described: what is known of it.
    """
    replica = _telling(described)
    lines = _last_lines(scheduler, described, replica)
    findings = _CAUSES.get(described.state, _goes_on)(described, replica, lines)
    return Diagnosis(
        app_id=described.app_id,
        state=described.state,
        raw_state=described.raw_state or "",
        findings=ranked(findings),
        facts=tuple(_facts(described, replica)),
        log=tuple(line[:_LONGEST] for line in lines[-_SHOWN:]),
        log_name=f"{replica.role}/{replica.id}" if replica is not None and lines else "",
    )


def _telling(described: DescribeAppResponse) -> ReplicaStatus | None:
    """Return the replica that tells most: the one that failed first, else the first there is."""
    replicas = [one for role in described.roles_statuses for one in role.replicas]
    failed = [one for one in replicas if one.state is AppState.FAILED and one.attempts]
    started = [one for one in replicas if one.attempts]
    return min(failed, key=_ended_at, default=next(iter(started or replicas), None))


def _ended_at(replica: ReplicaStatus) -> float:
    ended = replica.attempts[-1].ended_at
    return float("inf") if ended is None else ended


def _last_lines(
    scheduler: Scheduler[Any], described: DescribeAppResponse, replica: ReplicaStatus | None
) -> list[str]:
    if replica is None or not replica.attempts:
        return []
    lines = scheduler.log_iter(described.app_id, replica.role, replica.id)
    return [line.rstrip("\r\n") for line in deque(lines, _READ)]


# -- causes ---------------------------------------------------------------------------------------

Lines = list[str]


def _goes_on(
    described: DescribeAppResponse, _replica: ReplicaStatus | None, _lines: Lines
) -> Iterator[Finding]:
    running = described.state is AppState.RUNNING
    if not described.msg or running:
        yield Finding(
            described.state.name.lower(),
            "It runs." if running else "It waits; no reason is known.",
            described.msg,
            certainty=Certainty.CERTAIN if running else Certainty.POSSIBLE,
        )
    else:
        yield Finding("waits", _sentence(described.msg), certainty=Certainty.CERTAIN)


def _succeeded(
    described: DescribeAppResponse, _replica: ReplicaStatus | None, _lines: Lines
) -> Iterator[Finding]:
    detail = f"It needed {described.num_restarts} restarts." if described.num_restarts else ""
    yield Finding("succeeded", "It succeeded; nothing is wrong.", detail)


def _cancelled(
    described: DescribeAppResponse, _replica: ReplicaStatus | None, _lines: Lines
) -> Iterator[Finding]:
    yield Finding("cancelled", "Somebody cancelled it.", described.msg, "", Certainty.CERTAIN)


def _expired(
    described: DescribeAppResponse, _replica: ReplicaStatus | None, _lines: Lines
) -> Iterator[Finding]:
    yield Finding("forgotten", "It existed, and nobody knows any more how it ended.", described.msg)


def _failed(
    described: DescribeAppResponse, replica: ReplicaStatus | None, lines: Lines
) -> Iterator[Finding]:
    attempt = replica.attempts[-1] if replica is not None and replica.attempts else None
    reason = attempt.reason if attempt is not None and attempt.reason else described.msg
    error = _error_message(described, replica)
    if error:
        yield Finding("program-error", f"The program reported: {error}", _how(attempt, reason))
    hint = printed.read(lines)
    if hint is not None:
        detail = f"{_how(attempt, reason)}; the log says: {hint.line}".lstrip("; ")
        yield Finding(hint.code, hint.summary, detail, hint.resolution)
    if attempt is None or (attempt.exit_code is None and attempt.signal is None):
        yield Finding("did-not-run", _sentence(reason or "It failed; no reason is known."))
        return
    meaning = exits.meaning(attempt.exit_code, attempt.signal)
    if meaning is not None and not (hint and (hint.code == meaning.code or attempt.exit_code == 1)):
        sure = Certainty.POSSIBLE if hint or error else Certainty.LIKELY
        yield Finding(
            meaning.code,
            f"The program {meaning.means}.",
            _how(attempt, reason),
            meaning.resolution,
            sure,
        )


_CAUSES = {
    AppState.SUCCEEDED: _succeeded,
    AppState.FAILED: _failed,
    AppState.CANCELLED: _cancelled,
    AppState.EXPIRED: _expired,
}


def _how(attempt: AttemptStatus | None, reason: str) -> str:
    if attempt is None:
        return reason
    if attempt.signal is not None:
        how = f"Killed by {attempt.signal}"
    elif attempt.exit_code is not None:
        name = exits.signal_of(attempt.exit_code)
        how = f"Exit code {attempt.exit_code}" + (f" (128 + {name})" if name else "")
    else:
        return reason
    is_news = reason and how.lower().split()[-1] not in reason.lower()
    return f"{how}; {reason}" if is_news else how


def _error_message(described: DescribeAppResponse, replica: ReplicaStatus | None) -> str:
    """Take the message out of a structured error file: torchelastic's form, or a plain one."""
    text = described.structured_error_msg or (replica.structured_error_msg if replica else "")
    if not text:
        return ""
    import json

    try:
        value = json.loads(text)
    except ValueError:
        return text.strip()
    while isinstance(value, dict):
        inner = next((value[key] for key in ("message", "error") if value.get(key)), None)
        if inner is None:
            break
        value = inner
    said = value.strip() if isinstance(value, str) else json.dumps(value)
    return said[:_LONGEST]


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def _facts(described: DescribeAppResponse, replica: ReplicaStatus | None) -> Iterator[Fact]:
    counts: dict[str, int] = {}
    for role in described.roles_statuses:
        for one in role.replicas:
            counts[one.state.name] = counts.get(one.state.name, 0) + 1
    if sum(counts.values()) > 1:
        yield Fact("replicas", ", ".join(f"{count} {state}" for state, count in counts.items()))
    if replica is not None and replica.attempts:
        last = replica.attempts[-1]
        yield Fact("replica", f"{replica.role}/{replica.id}, attempt {last.number}")
        if replica.hostname:
            yield Fact("host", replica.hostname)
    if described.msg:
        yield Fact("reason", described.msg)
