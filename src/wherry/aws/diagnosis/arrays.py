"""Why an array failed: its children's failures, grouped by cause, most frequent first."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from wherry.aws.diagnosis import ended
from wherry.aws.diagnosis.asked import end_of
from wherry.aws.diagnosis.facts import Facts
from wherry.aws.jobs import JobView
from wherry.specs.diagnosis import Certainty, Finding

_NAMED = 5


def failures(facts: Facts) -> Iterator[Finding]:
    """Say how many children of an array failed of what, and which were the first."""
    job = facts.job
    if job is None or not facts.failed:
        return
    groups: dict[str, list[JobView]] = {}
    causes: dict[str, Finding] = {}
    for child in facts.failed:
        cause = _cause(child, facts)
        key = f"{cause.code} {child.exit_code}"
        causes.setdefault(key, cause)
        groups.setdefault(key, []).append(child)
    whole = len(facts.failed) >= job.counts.get("FAILED", 0)
    for key in sorted(groups, key=lambda key: -len(groups[key])):
        yield _of_group(groups[key], causes[key], job, is_whole=whole)


def _cause(child: JobView, facts: Facts) -> Finding:
    """Return why a child failed; of the one that was looked at closely, all is known."""
    sample = facts.sample
    if sample is not None and child.id == sample.id:
        close = dataclasses.replace(facts, job=sample)
        found = next(iter(ended.failed(close)), None)
        if found is not None:
            return _by_code(child, found)
    return ended.of_end(child, end_of(child), child.reason)


def _by_code(child: JobView, close: Finding) -> Finding:
    """Keep the group that a line of the list would put a child in, with the closer words."""
    listed = ended.of_end(child, end_of(child), child.reason)
    return dataclasses.replace(close, code=listed.code)


def _of_group(children: list[JobView], cause: Finding, job: JobView, *, is_whole: bool) -> Finding:
    count = f"{len(children)}" if is_whole else f"At least {len(children)}"
    first = ", ".join(each.id.partition(":")[2] for each in children[:_NAMED])
    more = ", …" if len(children) > _NAMED else ""
    summary = cause.summary[:1].lower() + cause.summary[1:]
    named = f"First: {first}{more}." if len(children) > 1 else f"It is {children[0].id}."
    return Finding(
        cause.code,
        f"{count} of {job.array_size} children failed: {summary}",
        " ".join(filter(None, (named, cause.detail))),
        f"{cause.resolution} One of them closely: wherry why {children[0].id}".strip(),
        Certainty.LIKELY,
    )
