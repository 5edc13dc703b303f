"""Why an app is in the state that it is in: findings, most likely first, and what they rest on.

Pure data. Who looks, and where, is the business of schedulers; who prints, that of the command
line. The three parts of a finding are those that a reader asks for one after the other: what is
the matter, how do you know, what do I do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from wherry.specs.states import AppState


class Certainty(IntEnum):
    """How sure a finding is."""

    POSSIBLE = 1
    """It would explain what is seen; so would other things."""
    LIKELY = 2
    """It explains what is seen better than anything else that is known."""
    CERTAIN = 3
    """It was looked up; nothing is guessed."""

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Finding:
    """One possible cause.

    Args:
        code: its name for programs, such as ``too-much-memory``; it is not renamed.
        summary: what is the matter, in one sentence.
        detail: how that is known: what was compared with what, in the provider's own words.
        resolution: what to do about it; empty when there is nothing to do.
        certainty: how sure it is.
    """

    code: str
    summary: str
    detail: str = ""
    resolution: str = ""
    certainty: Certainty = Certainty.LIKELY


@dataclass(frozen=True)
class Fact:
    """Something that was looked at: a label of one or two words, and what was seen."""

    label: str
    text: str


@dataclass(frozen=True)
class Diagnosis:
    """The answer to "why?".

    Args:
        app_id: the app, or the provider's id of a part of it.
        state: the state that is explained.
        raw_state: the provider's word for it, where it has one.
        findings: possible causes, most likely first.
        facts: what was looked at.
        log: how the log ends.
        log_name: where that log is.
        unseen: a sentence for each thing that could not be looked at.
    """

    app_id: str
    state: AppState
    raw_state: str = ""
    findings: tuple[Finding, ...] = ()
    facts: tuple[Fact, ...] = ()
    log: tuple[str, ...] = ()
    log_name: str = ""
    unseen: tuple[str, ...] = ()

    @property
    def cause(self) -> Finding | None:
        """The most likely cause."""
        return self.findings[0] if self.findings else None

    @property
    def others(self) -> tuple[Finding, ...]:
        """The other possible causes."""
        return self.findings[1:]


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Put the surest first; equals keep their order, and what is said twice is said once."""
    first: dict[str, Finding] = {}
    for finding in sorted(findings, key=lambda finding: -finding.certainty):
        first.setdefault(finding.code, finding)
    return tuple(first.values())
