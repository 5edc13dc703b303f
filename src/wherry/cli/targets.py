"""Whose logs are meant: ``HANDLE[/ROLE[/REPLICAS]]``, read with the help of what exists."""

from __future__ import annotations

from wherry.errors import (
    UnknownAppError,
    UnknownNameError,
    UsageError,
    WherryError,
    unknown,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from wherry.runner import Runner
    from wherry.schedulers.api import DescribeAppResponse
    from wherry.specs.status import RoleStatus

    Replica = tuple[str, int]
    Range = tuple[int, int]

_MOST_AFTER_APP = 2  # a role and its replicas
"""How many of the newest apps are looked through for a name that is nearly right."""


class Target:
    """An app and some of its replicas.

    Args:
        handle: the app.
        described: what is known of it.
        replicas: role and index of each replica that is meant.
        is_all: whether those are all there are.
    """

    def __init__(
        self, handle: str, described: DescribeAppResponse, replicas: list[Replica], is_all: bool
    ) -> None:
        self.handle = handle
        self.described = described
        self.replicas = replicas
        self.is_all = is_all


def read_target(runner: Runner, text: str) -> Target:
    """Find the app and the replicas that are meant.

    Args:
        runner: knows the apps.
        text: a handle, or enough of an app's id, with a role and replicas if not all are meant,
            such as ``echo-1``, ``local_cwd://wherry/job-2/trainer`` or ``job-2/trainer/0,3-5``.

    Raises:
        UnknownAppError: no such app.
        UnknownNameError: the app has no such role or replica.
        UsageError: the replicas are not numbers and ranges.
    """
    first_error: WherryError | None = None
    for app, parts in [*_readings(text), *_item_readings(text)]:
        try:
            handle = str(runner.resolve(app))
            described = describe(runner, handle)
        except WherryError as error:
            first_error = first_error or error
            continue
        return _chosen(handle, described, parts)
    raise first_error or UnknownAppError(f"{text!r} names no app")


def describe(runner: Runner, handle: str) -> DescribeAppResponse:
    """Describe an app that must exist.

    Raises:
        UnknownAppError: it does not.
    """
    described = runner.describe(handle)
    if described is None:
        raise runner.unknown_app(handle)
    return described


def read_ranges(text: str) -> list[Range]:
    """Read replicas such as ``0,1,3-5``.

    Returns:
        First and last index of each range, in the order written.

    Raises:
        UsageError: the text is not that.
    """
    ranges = []
    for word in text.split(","):
        first, dash, last = word.strip().partition("-")
        if not _is_index(first) or (dash and not _is_index(last)):
            raise UsageError(f"replicas are numbers and ranges such as 0,1,3-5, not {text!r}")
        span = (int(first), int(last or first))
        if span[0] > span[1]:
            raise UsageError(f"replicas {word.strip()!r}: the range ends before it begins")
        ranges.append(span)
    return ranges


def _readings(text: str) -> list[tuple[str, list[str]]]:
    """Cut the text into app and rest in each possible way, the likeliest first.

    An app's id at its scheduler may contain a slash, so only the records can tell where it ends.
    """
    scheduler, mark, rest = text.rpartition("://")
    start = 2 if mark else 1  # the session's name is not an app
    words = rest.split("/")
    head = scheduler + mark
    ends = range(max(start, len(words) - _MOST_AFTER_APP), len(words) + 1)
    return [(head + "/".join(words[:end]), words[end:]) for end in ends] or [(text, [])]


def _item_readings(text: str) -> list[tuple[str, list[str]]]:
    """Read ``ID:3`` as the process that runs item 3 of a map, if this machine knows the map."""
    job, colon, number = text.rpartition(":")
    if not colon or not _is_index(number) or "/" in text:
        return []
    from wherry.functions.defaults import executor_of
    from wherry.functions.handle import ROLE
    from wherry.functions.records import find, read

    try:
        entry = find(job)
        record = read(entry.id, executor_of(entry).store)
        app, replica = record.app_of(record.child_of(int(number)))
    except (WherryError, IndexError):
        return []
    handle = f"{record.scheduler}://{record.session}/{app.app_id}"
    return [(handle, [ROLE, str(replica)])]


def _chosen(handle: str, described: DescribeAppResponse, parts: Sequence[str]) -> Target:
    roles = _roles(described)
    every = [(role, k) for role, count in roles.items() for k in range(count)]
    if not parts:
        return Target(handle, described, every, True)
    role = parts[0]
    if role not in roles:
        raise UnknownNameError(f"app {handle}: {unknown('role', role, roles)}")
    if len(parts) == 1:
        chosen = [(role, k) for k in range(roles[role])]
    else:
        chosen = [(role, k) for k in _indexes(read_ranges(parts[1]), role, roles[role])]
    return Target(handle, described, chosen, len(chosen) == len(every))


def _roles(described: DescribeAppResponse) -> dict[str, int]:
    counts = {role.name: role.num_replicas for role in described.roles}
    for status in described.roles_statuses:
        counts[status.role] = max(counts.get(status.role, 0), _highest(status) + 1)
    return counts


def _highest(status: RoleStatus) -> int:
    return max((replica.id for replica in status.replicas), default=-1)


def _indexes(ranges: list[Range], role: str, count: int) -> list[int]:
    for first, last in ranges:
        if last >= count:
            wrong = first if first >= count else last
            there_are = "only replica 0" if count == 1 else f"replicas 0 to {count - 1}"
            raise UnknownNameError(f"role {role!r} has no replica {wrong}; it has {there_are}")
    every = (k for first, last in ranges for k in range(first, last + 1))
    return list(dict.fromkeys(every))


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 9
