"""Asking AWS Batch about jobs: by id, by name, by queue; children of arrays, nodes of gangs.

What comes back are `JobView`s. DescribeJobs takes 100 ids a call and passes over those that it does
not know; ListJobs shows one state at a time, or all with a filter, up to 1,000 (with a filter 100)
a page. Source: the API model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from wherry.aws import jobs
from wherry.aws.calls import Calls
from wherry.aws.documents import Document
from wherry.aws.jobs import STATES, JobView
from wherry.aws.pacing import Seconds

AT_ONCE = 100
"""Ids that DescribeJobs takes."""

_PAGE = 1000


def describe(
    calls: Calls, ids: Iterable[str], *, patience: Seconds | None = None
) -> dict[str, JobView]:
    """Return what AWS knows of some jobs.

    Args:
        calls: asks AWS Batch.
        ids: job ids or ARNs.
        patience: how long after its first failure a call is given up.

    Returns:
        Id or ARN, as it was given → job; without those that AWS does not know, or no more.

    Raises:
        AwsError: AWS refused, or does not answer.
    """
    asked = list(dict.fromkeys(ids))
    found: dict[str, JobView] = {}
    for start in range(0, len(asked), AT_ONCE):
        some = asked[start : start + AT_ONCE]
        answer = calls.call("DescribeJobs", jobs=some, patience=patience)
        seen = [jobs.view(document) for document in answer.get("jobs") or ()]
        names = {name: each for each in seen for name in (each.id, each.arn) if name}
        found.update({name: names[name] for name in some if name in names})
    return found


def listed(
    calls: Calls,
    *,
    queue: str = "",
    array: str = "",
    multinode: str = "",
    status: str = "",
    filter: tuple[str, str] | None = None,  # noqa: A002 — it is AWS's word
) -> Iterator[JobView]:
    """Yield jobs of a queue, an array or a multi-node job, as ListJobs has them.

    Args:
        calls: asks AWS Batch.
        queue, array, multinode: which; exactly one of them.
        status: only jobs in this state; AWS takes RUNNING when nothing is said.
        filter: a filter's name and value, in place of a state; newest first then. It works for
            queues alone.

    Raises:
        AwsError: AWS refused, or does not answer; the queue may be unknown.
    """
    params: Document = {}
    for name, value in (("jobQueue", queue), ("arrayJobId", array), ("multiNodeJobId", multinode)):
        if value:
            params[name] = value
    if status:
        params["jobStatus"] = status
    if filter is not None:
        params["filters"] = [{"name": filter[0], "values": [filter[1]]}]
    else:
        params["maxResults"] = _PAGE
    for document in calls.pages("ListJobs", "jobSummaryList", **params):
        yield jobs.view(document)


def find(calls: Calls, queue: str, name: str) -> list[JobView]:
    """Return the jobs of a queue that have exactly this name, newest first.

    AWS's filter takes no notice of case, and a ``*`` at the end; names have none.
    """
    named = listed(calls, queue=queue, filter=("JOB_NAME", name))
    return [each for each in named if each.name == name]


def children(
    calls: Calls,
    parent: str,
    *,
    states: Sequence[str] = STATES,
    size: int = 0,
    counts: Mapping[str, int] | None = None,
) -> dict[int, JobView]:
    """Return the children of an array.

    A child that moves on while they are listed is listed again, since the states are asked for in
    the order of a job's life. One that is retried meanwhile goes back and may be missed; those
    that are missing are asked for by id.

    Args:
        calls: asks AWS Batch.
        parent: the array's id.
        states: only children in these states.
        size: how many children there are; then none is missing, if all states are wanted.
        counts: the array's own count of them; states without children are not asked for.

    Returns:
        Index → child, in the order of the indices.
    """
    found: dict[int, JobView] = {}
    for state in STATES:
        if state not in states or (counts is not None and not _maybe(state, counts)):
            continue
        for child in listed(calls, array=parent, status=state):
            if child.index is not None:
                found[child.index] = child
    if set(states) == set(STATES):
        missing = [jobs.child_id(parent, k) for k in range(size) if k not in found]
        for child in describe(calls, missing).values():
            found[child.index or 0] = child
    return dict(sorted(found.items()))


def _maybe(state: str, counts: Mapping[str, int]) -> bool:
    """Tell whether there may be children in a state; counts lag behind, but an end is an end."""
    if state in jobs.ENDED or not counts:
        return True
    over = sum(counts.get(each, 0) for each in jobs.ENDED)
    return over < sum(counts.values())


def nodes(calls: Calls, parent: str, count: int) -> dict[int, JobView]:
    """Return the nodes of a multi-node job, as far as AWS knows them.

    Args:
        calls: asks AWS Batch.
        parent: the job's id.
        count: how many nodes it has.

    Returns:
        Number → node, in the order of the numbers.
    """
    found = describe(calls, [jobs.node_id(parent, k) for k in range(count)])
    return {each.index or 0: each for each in found.values()}
