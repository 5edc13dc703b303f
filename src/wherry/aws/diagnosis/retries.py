"""Why a job was, or was not, given another attempt, by AWS's rules.

Rules are tried in order; all conditions of a rule have to hold; when none matches, the job is
retried while attempts are left. Timeouts, cancellations and terminations are never retried (AWS
Batch user guide, "Automated job retries").
"""

from __future__ import annotations

from wherry.aws.diagnosis.asked import decisive, finished, rules_of
from wherry.aws.documents import Document
from wherry.aws.jobs import AttemptView, JobView

_TIMED_OUT = "Job attempt duration exceeded timeout"
_CONDITIONS = ("onStatusReason", "onReason", "onExitCode")


def told(job: JobView) -> str:
    """Say what became of each attempt that failed; empty when there is nothing to tell."""
    attempts = finished(job)
    if not attempts or (job.status == "SUCCEEDED" and len(attempts) == 1):
        return ""
    parts = []
    if len(attempts) > 1:
        before = attempts[-2]
        parts.append(f"attempt {before.number} was retried ({_why_retried(job, before)})")
    if job.status == "FAILED":
        parts.append(f"attempt {attempts[-1].number} was not: {_why_not(job, attempts[-1])}")
    text = "; ".join(parts)
    return text.replace("attempt 1 was not: ", "not retried: ") if len(attempts) == 1 else text


def _why_retried(job: JobView, attempt: AttemptView) -> str:
    number, rule = _matching(job, attempt)
    return f"rule {number}, {_worded(rule)}" if rule else "no rule forbids it"


def _why_not(job: JobView, attempt: AttemptView) -> str:
    if job.is_terminated or job.is_cancelled:
        return "what somebody ends is never retried"
    if _TIMED_OUT in (job.reason, attempt.reason):
        return "timeouts are never retried"
    if attempt.number >= job.attempts_allowed:
        count = job.attempts_allowed
        return "it may have 1 attempt" if count == 1 else f"all {count} attempts are used"
    number, rule = _matching(job, attempt)
    if rule and str(rule.get("action", "")).upper() == "EXIT":
        return f"rule {number}, {_worded(rule)}, says so"
    return "AWS holds another attempt for useless"


def _matching(job: JobView, attempt: AttemptView) -> tuple[int, Document]:
    end = decisive(attempt)
    code = None if end.exit_code is None else str(end.exit_code)
    seen = {"onStatusReason": attempt.reason, "onReason": end.reason, "onExitCode": code}
    for number, rule in enumerate(rules_of(job), 1):
        if all(_fits(str(rule[key]), seen[key]) for key in _CONDITIONS if rule.get(key)):
            return number, rule
    return 0, {}


def _fits(pattern: str, text: str | None) -> bool:
    if text is None:
        return False
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


def _worded(rule: Document) -> str:
    return " and ".join(f"{key} {rule[key]}" for key in _CONDITIONS if rule.get(key))
