"""What was looked at, as labelled lines: the part of an answer that lets a reader judge it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from wherry.aws.diagnosis import retries, waiting
from wherry.aws.diagnosis.ages import span
from wherry.aws.diagnosis.asked import end_of, finished, main_containers, name_of
from wherry.aws.diagnosis.environments import Environment
from wherry.aws.diagnosis.facts import Facts
from wherry.aws.diagnosis.fit import counted, read_request
from wherry.aws.jobs import JobView
from wherry.specs.diagnosis import Fact

WORDS = frozenset(("AWS says", "ECS says"))
"""Labels of lines that only repeat somebody's words."""


def facts_of(facts: Facts) -> tuple[Fact, ...]:
    """Return what was seen, in few lines."""
    found: list[Fact] = []
    if facts.job is not None:
        for look in _LOOKS:
            found += look(facts, facts.job)
    return tuple(found)


def _job(facts: Facts, job: JobView) -> Iterator[Fact]:
    kinds = {
        "array": f"an array of {job.array_size}",
        "multinode": f"{job.num_nodes} nodes",
        "child": f"child {job.index} of {job.parent}",
        "node": f"node {job.index} of {job.parent}",
    }
    kind = kinds.get(job.kind)
    yield Fact("job", f"{job.name}, {kind}" if kind else job.name)
    if job.array_size and job.counts:
        counts = ", ".join(f"{count} {state}" for state, count in job.counts.items())
        yield Fact("children", counts)
    if facts.child is not None:
        yield Fact("looked at", f"child {facts.child.index}, which waits ({facts.child.id})")
    elif facts.sample is not None:
        yield Fact("looked at", f"child {facts.sample.index}, which failed first")


def _waiting(facts: Facts, _job: JobView) -> Iterator[Fact]:
    waiter = facts.waiter
    if waiter is not None and waiter.status in ("SUBMITTED", "RUNNABLE", "STARTING"):
        yield Fact("waiting", f"for {span(facts.waited)}")


def _asks(facts: Facts, job: JobView) -> Iterator[Fact]:
    if not main_containers(job):
        return
    if job.ended and (job.started_at is not None or facts.sample is not None):
        return
    request = read_request(facts.waiter or job)
    platforms = "" if request.platforms == ("EC2",) else f" on {' or '.join(request.platforms)}"
    yield Fact("asks for", f"{request}{platforms}")


def _queue(facts: Facts, _job: JobView) -> Iterator[Fact]:
    queue, line, waiter = facts.queue, facts.line, facts.waiter
    if queue is None:
        return
    text = f"{queue.name}, {queue.state}, {queue.status}"
    yield Fact("queue", f"{text}, fair share" if queue.policy else text)
    if line is not None and waiter is not None and waiter.status == "RUNNABLE":
        place = line.place(facts.in_line.arn if facts.in_line is not None else waiter.arn)
        of = f"{len(line.arns)}" if len(line.arns) < 100 else "more than 100"
        if place is not None:
            yield Fact("place", f"{place} of {of}")
        elif line.arns:
            yield Fact("place", f"behind the first {len(line.arns)}")
        yield Fact("in use", f"{counted(line.used, 'vCPU')} by jobs of the queue")
    for limit in waiting.limits_of(facts):
        yield Fact("time limit", limit)


def _environments(facts: Facts, _job: JobView) -> Iterator[Fact]:
    for each in facts.environments:
        yield Fact("environment", _environment(each))


def _environment(each: Environment) -> str:
    parts = [each.name, each.kind if each.is_managed else "UNMANAGED", each.state, each.status]
    if each.most != float("inf"):
        parts.append(f"at most {each.most:g} vCPUs")
    if each.instance_types:
        types = ", ".join(each.instance_types[:4])
        parts.append(types + (", …" if len(each.instance_types) > 4 else ""))
    return ", ".join(parts)


def _needs(facts: Facts, _job: JobView) -> Iterator[Fact]:
    for each in facts.dependencies[:3]:
        yield Fact("depends on", f"{each.name} ({each.id}), {each.status}")
    for one in facts.consumables:
        has = "gone" if one.total is None else f"{one.used} of {one.total} in use"
        yield Fact("consumable", f"{one.asked} of {one.name}, {has}")


def _image(facts: Facts, job: JobView) -> Iterator[Fact]:
    if job.status == "STARTING" or facts.images:
        for container in main_containers(job)[:3]:
            yield Fact("image", container.image)
        for role in facts.roles:
            yield Fact(role.purpose, name_of(role.arn))


def _end(facts: Facts, job: JobView) -> Iterator[Fact]:
    looked = facts.sample or job
    end = end_of(looked)
    done = finished(looked)
    if done:
        last = done[-1]
        code = "no exit code" if end.exit_code is None else f"exit code {end.exit_code}"
        ran = ""
        if last.started_at is not None and last.stopped_at is not None:
            ran = f", after {span(last.stopped_at - last.started_at)}"
        yield Fact("ended", f"attempt {last.number} of {looked.attempts_allowed}: {code}{ran}")
    if job.ended and job.reason:
        yield Fact("AWS says", job.reason)
    if end.reason:
        yield Fact("ECS says", end.reason)
    text = retries.told(looked)
    if text and (job.attempts_allowed > 1 or len(done) > 1):
        yield Fact("retries", text)


def _nodes(facts: Facts, _job: JobView) -> Iterator[Fact]:
    if facts.nodes:
        states: dict[str, int] = {}
        for node in facts.nodes:
            states[node.status] = states.get(node.status, 0) + 1
        yield Fact("nodes", ", ".join(f"{count} {state}" for state, count in states.items()))


_LOOKS: tuple[Callable[[Facts, JobView], Iterator[Fact]], ...] = (
    _job,
    _waiting,
    _asks,
    _queue,
    _environments,
    _needs,
    _image,
    _nodes,
    _end,
)
