"""Why a job ended as it did: a table of AWS's words, then exit codes, signals and the log.

``Essential container in task exited`` says nothing by itself: success and failure both have it.
The texts and where they come from are AWS's own, as far as they are documented; see the reasons
catalogue in the tests' page, docs/why.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from wherry.aws.diagnosis import starting
from wherry.aws.diagnosis.ages import span
from wherry.aws.diagnosis.asked import amounts_of, decisive, end_of, finished, last_of
from wherry.aws.diagnosis.facts import Facts, Presence
from wherry.aws.diagnosis.reasons import CANCELLED, reason_of, says
from wherry.aws.jobs import AttemptView, ContainerView, JobView
from wherry.specs import exits, printed
from wherry.specs.diagnosis import Certainty, Finding

OUT_OF_MEMORY = "OutOfMemoryError"
_AGENT = "AGENT"
_NOTHING_SAID = "Essential container in task exited"


def failed(facts: Facts) -> Iterator[Finding]:
    """Say why a job FAILED."""
    job = facts.job
    if job is None:
        return
    whole = list(_of_job(facts, job))
    if whole:
        yield from whole
    elif last_of(job) is not None:
        yield from of_attempt(job, facts)
    else:
        yield Finding(
            "failed-before-it-ran",
            "It failed before it ran.",
            says("AWS", job.reason) if job.reason else "AWS does not say why.",
        )


def succeeded(facts: Facts) -> Iterator[Finding]:
    """Say that a job SUCCEEDED, and what is odd about it."""
    job = facts.job
    if job is None:
        return
    end = end_of(job)
    if end.reason.startswith(OUT_OF_MEMORY):
        yield _out_of_memory(job, end)
    attempts = len(finished(job))
    detail = f"It needed {attempts} attempts." if attempts > 1 else ""
    yield Finding("succeeded", "It succeeded; nothing is wrong.", detail)


def of_attempt(job: JobView, facts: Facts) -> Iterator[Finding]:
    """Say why the last attempt of a job ended as it did."""
    attempt = last_of(job)
    if attempt is None:
        return
    end = decisive(attempt)
    for words, meaning in _STATUS:
        if attempt.reason.startswith(words):
            yield meaning(job, attempt, facts)
            return
    yield from _of_end(job, end, facts)


def of_end(job: JobView, end: ContainerView, reason: str) -> Finding:
    """Return the cause of a failure as far as a line of ListJobs tells it: no log, no attempts."""
    if job.is_cancelled or job.is_terminated:
        return _ended_on_request(job)
    for words, of_job in _JOB:
        if reason.startswith(words):
            return of_job(job, Facts(job.id, 0.0))
    found = next(_of_end(job, end, Facts(job.id, 0.0)), None)
    return found or Finding("failed", reason or "AWS does not say why.")


# -- the job as a whole ---------------------------------------------------------------------------


def _of_job(facts: Facts, job: JobView) -> Iterator[Finding]:
    for words, meaning in _JOB:
        if job.reason.startswith(words):
            yield meaning(job, facts)
            return
    if job.is_cancelled or job.is_terminated:
        yield _ended_on_request(job)


def _ended_on_request(job: JobView) -> Finding:
    how = "terminated" if job.is_terminated else "cancelled"
    began = "while it ran" if job.started_at else "before it ran"
    return Finding(
        "cancelled",
        f"Somebody {how} it {began}.",
        f"The words given were: {job.reason}" if job.reason else "",
        certainty=Certainty.CERTAIN,
    )


def _dependency(_job: JobView, facts: Facts) -> Finding:
    bad = [each for each in facts.dependencies if each.status == "FAILED"]
    named = "; ".join(
        f"{each.name} ({each.id}) failed" + (f": {each.reason}" if each.reason else "")
        for each in bad[:3]
    )
    return Finding(
        "dependency-failed",
        "It never ran, because a job that it depends on failed.",
        f"{named}." if named else "AWS does not know any more which one it was.",
        f"See why: wherry why {bad[0].id}" if bad else "",
        Certainty.CERTAIN,
    )


def _timed_out(job: JobView, _facts: Facts) -> Finding:
    last = last_of(job)
    ran = _ran(last)
    bound = f"An attempt may take {span(job.timeout)}." if job.timeout else ""
    took = f"It ran for {span(ran)}." if ran else ""
    return Finding(
        "timed-out",
        "It took longer than its timeout allows.",
        " ".join(filter(None, (bound, took, "Timeouts are never retried."))),
        "Raise the timeout, or look in the log for where it hangs.",
        Certainty.CERTAIN,
    )


def _overrides_too_long(_job: JobView, _facts: Facts) -> Finding:
    return Finding(
        "overrides-too-long",
        "Its command and environment together are too long for ECS.",
        "ECS takes 8192 characters, braces and quotes included, after AWS Batch has merged "
        "definition and overrides.",
        "Put long arguments into a file (on S3, say) and pass its address; put constant "
        "variables into the image.",
        Certainty.CERTAIN,
    )


def _too_many_tags(job: JobView, _facts: Facts) -> Finding:
    return Finding(
        "too-many-tags",
        "Its tags and those of its definition together are more than ECS takes.",
        says("AWS", job.reason),
        "Use fewer tags, or do not propagate them (propagate_tags=no).",
        Certainty.CERTAIN,
    )


def _time_limit(job: JobView, _facts: Facts) -> Finding:
    reason = reason_of(job.reason)
    because = f" {reason.summary}" if reason else ""
    return Finding(
        "cancelled-by-queue",
        "Its queue's time limit cancelled it while it was stuck in RUNNABLE.",
        says("AWS", job.reason) + because,
        reason.resolution if reason else "",
        Certainty.CERTAIN,
    )


_JOB: tuple[tuple[str, Callable[[JobView, Facts], Finding]], ...] = (
    ("Dependent Job failed", _dependency),
    ("Job attempt duration exceeded timeout", _timed_out),
    ("Container Overrides length must be at most", _overrides_too_long),
    ("Number of tags exceeds", _too_many_tags),
    (CANCELLED, _time_limit),
)
"""How ``statusReason`` of a job begins, and what is made of it."""


# -- one attempt ----------------------------------------------------------------------------------


def _lost_host(job: JobView, attempt: AttemptView, facts: Facts) -> Finding:
    ran = _ran(attempt)
    after = f" It had run for {span(ran)}." if ran else ""
    spots = [each.name for each in facts.environments if each.is_spot]
    where = (
        f"The environment {' and '.join(spots)} is Spot capacity."
        if spots
        else "AWS took it back (Spot), or it was scaled in, stopped, or failed."
    )
    return Finding(
        "host-lost",
        "Its host went away while it ran" + (": Spot capacity was taken back." if spots else "."),
        f"{says('AWS', attempt.reason)}{after} {where[:1].upper()}{where[1:]}",
        _retry_advice(job) + " Write checkpoints, so that a new attempt need not begin anew.",
    )


def _spot_task(job: JobView, attempt: AttemptView, _facts: Facts) -> Finding:
    return Finding(
        "host-lost",
        "Fargate Spot took its capacity back.",
        says("AWS", attempt.reason),
        _retry_advice(job),
        Certainty.CERTAIN,
    )


def _retry_advice(job: JobView) -> str:
    if job.attempts_allowed > 1:
        return "Allow more attempts, or use on-demand capacity."
    return "Retry such losses (-cfg retries=spot), or use on-demand capacity."


_STATUS: tuple[tuple[str, Callable[[JobView, AttemptView, Facts], Finding]], ...] = (
    ("Host EC2", _lost_host),
    ("Your Spot Task was interrupted", _spot_task),
)
"""How ``statusReason`` of an attempt begins, and what is made of it."""


def _of_end(job: JobView, end: ContainerView, facts: Facts) -> Iterator[Finding]:
    """Say why a container ended: ECS's words, the log, the exit code."""
    if end.reason.startswith(OUT_OF_MEMORY):
        yield _out_of_memory(job, end)
        return
    if end.reason == _AGENT:
        yield Finding(
            "agent-lost",
            "The ECS agent of its host was lost, and nobody knows how the program ended.",
            f"{says('AWS', 'AGENT')} The host was overloaded, out of memory, stopped, or cut off "
            "from the network.",
            "Retry it; leave the host more memory if this comes again (ECS_RESERVED_MEMORY).",
        )
        return
    if end.exit_code is None:
        yield from _not_run(job, end, facts)
        return
    yield from _of_code(job, end, facts)


def _not_run(job: JobView, end: ContainerView, facts: Facts) -> Iterator[Finding]:
    yield from starting.of_parts(facts)
    found = starting.said(end.reason)
    if found is not None:
        yield found
    elif end.reason or job.reason:
        yield Finding(
            "did-not-start",
            "It did not start.",
            says("AWS", "; ".join(filter(None, (job.reason, end.reason)))),
        )


def _out_of_memory(job: JobView, end: ContainerView) -> Finding:
    asked = amounts_of((end,)).memory_mib or amounts_of(job.containers).memory_mib
    code = f"exit code {end.exit_code}; " if end.exit_code is not None else ""
    odd = (
        " The program went on without a child process that was killed."
        if end.exit_code not in (None, 137)
        else ""
    )
    more = f"Ask for more than {asked} MiB" if asked else "Ask for more memory"
    return Finding(
        "out-of-memory",
        "The program used more memory than the job asks for, and was killed.",
        f"It asks for {asked} MiB; {code}{says('ECS', end.reason)}{odd}",
        f"{more}, or let the program use less.",
        Certainty.CERTAIN,
    )


def _of_code(job: JobView, end: ContainerView, facts: Facts) -> Iterator[Finding]:
    code = end.exit_code
    meaning = exits.meaning(code)
    if meaning is None or code is None:
        return
    who = f"container {end.name}, " if len(job.containers) > 1 and end.name else ""
    how = f"{who}exit code {code}"
    name = exits.signal_of(code)
    how += f" (128 + {code - 128}, {name})" if name else ""
    hint = printed.read(facts.log.lines)
    if hint is not None:
        yield Finding(
            hint.code,
            hint.summary,
            f"{how[0].upper()}{how[1:]}; {says('the log', _short(hint.line))}",
            hint.resolution or _READ_ON,
        )
        if hint.code == meaning.code or code in (1, 255):
            return  # the code says nothing that the log has not said better
    said = f"; {says('ECS', end.reason).rstrip('.')}" if end.reason else ""
    silent = facts.log.presence is Presence.THERE and not facts.log.lines
    nothing = " It wrote nothing to its log." if silent else ""
    asked = amounts_of((end,)).memory_mib
    memory = f" It asks for {asked} MiB." if name == "SIGKILL" and asked else ""
    yield Finding(
        meaning.code,
        f"The program {meaning.means}.",
        f"{how[0].upper()}{how[1:]}{said}.{memory}{nothing}",
        _SAY_MORE if silent and meaning.resolution == exits.READ_THE_LOG else meaning.resolution,
        Certainty.LIKELY if hint is None else Certainty.POSSIBLE,
    )


_SAY_MORE = "Run it by hand in its image, or let it write what goes wrong."
_READ_ON = "The lines before it in the log say where."


def _ran(attempt: AttemptView | None) -> float:
    if attempt is None or attempt.started_at is None or attempt.stopped_at is None:
        return 0.0
    return attempt.stopped_at - attempt.started_at


def _short(line: str) -> str:
    text = re.sub(r"\s+", " ", line)
    return text if len(text) <= 200 else f"{text[:200]}…"
