"""Multi-node jobs: the main node decides, and another node's death goes unnoticed.

"The main node's exit ends the job, decides its status, and stops the rest"; another node is never
retried by itself (AWS Batch user guide, "Multi-node parallel jobs").
"""

from __future__ import annotations

from collections.abc import Iterator

from wherry.aws.diagnosis import ended
from wherry.aws.diagnosis.asked import end_of, last_of
from wherry.aws.diagnosis.facts import Facts
from wherry.aws.jobs import JobView
from wherry.specs import exits
from wherry.specs.diagnosis import Certainty, Finding

_STOPPED_WITH_MAIN = "Main node of the multi-node parallel job ended"
_STOPPED = (137, 143)


def of_failed(facts: Facts) -> Iterator[Finding]:
    """Say which node of a failed multi-node job ended first, and of what the main node died."""
    job = facts.job
    if job is None:
        return
    main = _main(facts)
    first = _first_bad(facts)
    if main is not None and first is not None and first.id != main.id:
        yield Finding(
            "node-failed-first",
            f"Node {first.index} failed first, and the main node after it.",
            f"First, {_how(first)}; later, the main {_how(main)}. A job does not end when a node "
            "dies, but the others may give up.",
            f"See why the node died: wherry why {first.id}",
        )
    yield from ended.failed(facts)


def of_running(facts: Facts) -> Iterator[Finding]:
    """Say which nodes have died, or have not come up, while the main node runs."""
    dead = [node for node in facts.nodes if node.status == "FAILED"]
    late = [node for node in facts.nodes if node.status in ("STARTING", "RUNNABLE", "SUBMITTED")]
    if dead:
        named = ", ".join(str(node.index) for node in dead[:5])
        yield Finding(
            "node-died",
            f"{_counted(len(dead))} ended while the main node runs: {named}.",
            f"The dead {_how(dead[0])}. Nobody restarts a node, and the job does not end for it.",
            f"End the job if the others wait for it; see why: wherry why {dead[0].id}",
        )
    elif late:
        named = ", ".join(str(node.index) for node in late[:5])
        yield Finding(
            "nodes-missing",
            f"{_counted(len(late))} do not run yet: {named}."
            if len(late) > 1
            else f"A node does not run yet: {named}.",
            f"Node {late[0].index} is {late[0].status}.",
            "The main node starts first; the others pull their image when it runs.",
            Certainty.POSSIBLE,
        )


def of_node(facts: Facts) -> Iterator[Finding]:
    """Say why a node failed: by itself, or because the main node ended."""
    job = facts.job
    if job is None:
        return
    main = _main(facts)
    with_main = job.reason.startswith(_STOPPED_WITH_MAIN) or (
        end_of(job).exit_code in _STOPPED and main is not None and _before(main, job)
    )
    if with_main and main is not None and main.id != job.id:
        yield Finding(
            "stopped-with-main-node",
            "It was stopped, because the main node ended and with it the job.",
            f"The main {_how(main)}.",
            f"See why that ended: wherry why {main.id}",
            Certainty.CERTAIN,
        )
        return
    yield from ended.failed(facts)


def _main(facts: Facts) -> JobView | None:
    return next((node for node in facts.nodes if node.is_main_node), None)


def _first_bad(facts: Facts) -> JobView | None:
    bad = [node for node in facts.nodes if node.status == "FAILED" and last_of(node)]
    own = [node for node in bad if not node.reason.startswith(_STOPPED_WITH_MAIN)]
    return min(own, key=lambda node: node.stopped_at or float("inf"), default=None)


def _before(one: JobView, other: JobView) -> bool:
    return (_stopped(one) or 0.0) <= (_stopped(other) or float("inf"))


def _stopped(node: JobView) -> float | None:
    last = last_of(node)
    return last.stopped_at if last else node.stopped_at


def _how(node: JobView) -> str:
    end = end_of(node)
    if end.exit_code is None:
        return f"node {node.index} ended without an exit code ({end.reason or node.reason})"
    name = exits.signal_of(end.exit_code)
    signal = f", {name}" if name else ""
    said = f" ({end.reason})" if end.reason else ""
    return f"node {node.index} ended with exit code {end.exit_code}{signal}{said}"


def _counted(number: int) -> str:
    return "A node" if number == 1 else f"{number} nodes"
