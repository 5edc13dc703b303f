"""``wherry why``: why an app, or a job of AWS Batch, is in the state that it is in."""

from __future__ import annotations

import re
import sys

from wherry.cli.output import Paint, clean, one_line, print_json
from wherry.cli.parsing import add_json, columns, set_completer
from wherry.cli.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator
    from typing import Any

    from wherry.cli.parsing import Parser
    from wherry.runner import Runner
    from wherry.specs.diagnosis import Diagnosis, Finding

_KEYS = (
    "handle, app_id, state, raw_state,\n  findings: [{code, certainty, summary, detail, "
    "resolution}],\n  facts: [{label, text}], log, log_name, unseen"
)
_AWS = "aws_batch"
# What AWS Batch calls a job: a UUID, a child's or a node's id, or an ARN of one of these.
_JOB = re.compile(
    r"(?:arn:[\w-]+:batch:[\w-]+:\d+:job/)?"
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?:[:#]\d+)?\Z"
)


def configure(parser: Parser) -> None:
    """Describe the command."""
    handle = parser.add_argument(
        "handle",
        metavar="HANDLE",
        help="the app: its handle, its id, or enough of the id's beginning; or the id or ARN of "
        "any job of AWS Batch, of a child (ID:7) or of a node (ID#1)",
    )
    set_completer(handle, "handles")
    add_json(parser, _KEYS)
    parser.set_defaults(func=why)


def why(args: Namespace) -> int:
    """Say why; the exit code is 0 whatever the answer is."""
    with Session(args) as runner:
        handle = find(runner, args.handle)
        diagnosis = runner.why(handle)
    if args.json:
        print_json(record(handle, diagnosis))
    else:
        print(text(handle, diagnosis, Paint(sys.stdout), columns()))
    return 0


def find(runner: Runner, words: str) -> str:
    """Return the handle of what is meant; AWS's own names of jobs are taken as they are."""
    if _JOB.match(words):
        return f"{_AWS}://{runner.name}/{words}"
    return str(runner.resolve(words))


def record(handle: str, diagnosis: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis as data for programs."""
    return {
        "handle": handle,
        "app_id": diagnosis.app_id,
        "state": diagnosis.state.name,
        "raw_state": diagnosis.raw_state or None,
        "findings": [
            {
                "code": finding.code,
                "certainty": str(finding.certainty),
                "summary": finding.summary,
                "detail": finding.detail,
                "resolution": finding.resolution,
            }
            for finding in diagnosis.findings
        ],
        "facts": [{"label": fact.label, "text": fact.text} for fact in diagnosis.facts],
        "log": list(diagnosis.log),
        "log_name": diagnosis.log_name or None,
        "unseen": list(diagnosis.unseen),
    }


def text(handle: str, diagnosis: Diagnosis, paint: Paint, width: int) -> str:
    """Write a diagnosis for people, most likely cause first.

    Args:
        handle: what was asked about.
        diagnosis: the answer.
        paint: puts colours around words.
        width: of the screen.
    """
    return "\n".join(_lines(handle, diagnosis, paint, width))


def _lines(handle: str, diagnosis: Diagnosis, paint: Paint, width: int) -> Iterator[str]:
    yield paint(one_line(handle), "bold")
    state = paint.state(diagnosis.state)
    raw = diagnosis.raw_state
    yield f"  {state} ({raw})" if raw and raw != diagnosis.state.name else f"  {state}"
    cause = diagnosis.cause
    yield ""
    if cause is None:
        yield "No cause is known."
    else:
        yield from _finding(cause, paint, width, "", "bold")
    if diagnosis.others:
        yield ""
        yield paint("also", "dim")
        for finding in diagnosis.others:
            yield from _finding(finding, paint, width, "  ", "")
    if diagnosis.facts:
        yield ""
        label = max(len(fact.label) for fact in diagnosis.facts)
        for fact in diagnosis.facts:
            head = f"  {fact.label:<{label}}  "
            yield from _wrapped(one_line(fact.text), width, head, " " * len(head))
    if diagnosis.log:
        yield ""
        yield paint(f"the log ends with ({one_line(diagnosis.log_name)})", "dim")
        yield from (f"  {clean(line).rstrip()}" for line in diagnosis.log)
    if diagnosis.unseen:
        yield ""
        yield paint("could not be looked at", "dim")
        for sentence in diagnosis.unseen:
            yield from _wrapped(one_line(sentence), width, "  ", "    ")


def _finding(finding: Finding, paint: Paint, width: int, indent: str, colour: str) -> Iterator[str]:
    first, *rest = _wrapped(one_line(finding.summary), width, indent, indent)
    yield from (paint(line, colour) if colour else line for line in (first, *rest))
    inner = f"{indent}  "
    if finding.detail:
        yield from _wrapped(one_line(finding.detail), width, inner, inner)
    if finding.resolution:
        head = f"{inner}fix: "
        yield from _wrapped(one_line(finding.resolution), width, head, " " * len(head))


def _wrapped(words: str, width: int, first: str, others: str) -> list[str]:
    import textwrap

    return textwrap.wrap(
        words,
        width,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )
