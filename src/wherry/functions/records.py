"""The client's records of jobs: ``jobs/ID/job.json`` in the store, and an index of them at home.

A record is written before its app is submitted, with every name already chosen, so that a job can
be taken up again whenever its client died: a name is never used for two apps.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from wherry.errors import ResultError, UnknownAppError
from wherry.home import home
from wherry.worker.formats import job_key

if TYPE_CHECKING:
    from wherry.store.api import Store

VERSION = 1
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_DIGITS = 9
_RANDOM_DIGITS = 4


@dataclass(frozen=True)
class AppPart:
    """One app of a job; only large maps have several.

    Args:
        app_id: its id at its scheduler.
        first: the number of its first child.
        children: how many it has.
        plain: the `AppDef` as plain data.
        job: the name under ``jobs/`` where its call and its outcomes are.
    """

    app_id: str
    first: int
    children: int
    plain: Mapping[str, Any]
    job: str


@dataclass(frozen=True)
class JobRecord:
    """What was submitted.

    Args:
        id: the job's id.
        kind: single, array or gang.
        name: its name.
        created: seconds since the epoch.
        environment: the executor's kind, such as ``local``.
        settings: the executor's arguments, to make it again from.
        store: the store's URL.
        scheduler, session: the first two parts of its apps' handles.
        cfg: the run options.
        apps: its apps.
        count: items of a map; 1 for others.
        chunksize: items of one child.
        indices: the items of an earlier job that these are, in a rerun.
        max_failures: failures after which the rest is stopped.
        retries: attempts beyond the first.
        retry_exceptions: whether an exception of the function is retried.
        retry_of: the job that this one runs again.
        call: what the call document says, to run it again.
        python: the client's version.
        host: the client's machine.
        inputs: the names of its input files.
        memory: GiB of the first attempt and of those that may follow (`Escalate`).
        stage: which of those amounts this is.
        earlier: the apps that had less memory.
        client: the process that submitted it, as `own_mark` has it.
        home: that process's folder of records.
    """

    id: str
    kind: str
    name: str
    created: float
    environment: str
    settings: Mapping[str, Any]
    store: str
    scheduler: str
    session: str
    cfg: Mapping[str, Any]
    apps: tuple[AppPart, ...]
    count: int = 1
    chunksize: int = 1
    indices: tuple[int, ...] | None = None
    max_failures: int | None = None
    retries: int = 0
    retry_exceptions: bool = False
    retry_of: str | None = None
    call: Mapping[str, Any] = field(default_factory=dict)
    python: str = ""
    host: str = ""
    inputs: tuple[str, ...] = ()
    memory: tuple[float, ...] = ()
    stage: int = 0
    earlier: tuple[AppPart, ...] = ()
    client: str = ""
    home: str = ""

    @property
    def children(self) -> int:
        """How many processes there are: children of an array, or nodes of a gang."""
        return sum(app.children for app in self.apps)

    @property
    def handles(self) -> list[str]:
        """The handles of its apps."""
        return [f"{self.scheduler}://{self.session}/{app.app_id}" for app in self.apps]

    def app_of(self, child: int) -> tuple[AppPart, int]:
        """Return the app of a child, and the replica's index in it."""
        for app in self.apps:
            if app.first <= child < app.first + app.children:
                return app, child - app.first
        raise IndexError(f"{self.id} has no child {child}; it has {self.children}")

    def child_of(self, item: int) -> int:
        """Return the child that runs an item."""
        return item // self.chunksize if self.kind == "array" else item


def make_id(name: str, now: float | None = None) -> str:
    """Make an id that sorts by time among the ids of one name, and that nobody else makes."""
    moment = int((time.time() if now is None else now) * 1000)
    number = moment << 5 * _RANDOM_DIGITS
    number |= int.from_bytes(os.urandom(8), "big") >> (64 - 5 * _RANDOM_DIGITS)
    digits = []
    for _ in range(_TIME_DIGITS + _RANDOM_DIGITS):
        digits.append(_DIGITS[number & 31])
        number >>= 5
    return f"{name}-{''.join(reversed(digits))}"


def write(record: JobRecord, store: Store) -> bool:
    """Write a job's record; tells whether the id was free."""
    if not store.write_new(job_key(record.id), [_text_of(record)]):
        return False
    remember(record)
    return True


def write_stage(record: JobRecord, store: Store) -> bool:
    """Write what a job goes on as, with more memory; tells whether nobody else had."""
    return store.write_new(stage_key(record.id, record.stage), [_text_of(record)])


def stage_key(job: str, stage: int) -> str:
    """Return the key of the record of a job that goes on with more memory."""
    return f"jobs/{job}/more/{stage}"


def _text_of(record: JobRecord) -> bytes:
    # Not `asdict`: it copies the whole app, value by value.
    plain = {"version": VERSION, **vars(record), "apps": [vars(app) for app in record.apps]}
    plain["earlier"] = [vars(app) for app in record.earlier]
    return json.dumps(plain, separators=(",", ":")).encode()


def read(job: str, store: Store) -> JobRecord:
    """Read a job's record.

    Raises:
        UnknownAppError: the store has no such job.
        ResultError: the record is of a newer version, or not one.
    """
    from wherry.errors import MissingObjectError

    try:
        text = store.read(job_key(job))
    except MissingObjectError:
        raise UnknownAppError(
            f"there is no job {job!r} in {store.url}; `wherry jobs` shows those that this machine "
            "knows, and an executor with another store=… finds those of another"
        ) from None
    record = _decoded(text, f"the record of job {job!r} in {store.url}")
    for stage in range(1, len(record.memory)):
        key = stage_key(job, stage)
        try:
            record = _decoded(store.read(key), f"{store.url}/{key}")
        except MissingObjectError:
            break
    return record


def own_mark() -> str:
    """Return what tells this process from all others of this machine, before and after it."""
    pid = os.getpid()
    if _own[0] != pid:
        _own[:] = [pid, f"{pid}:{_started_at(pid)}"]
    return str(_own[1])


_own: list[Any] = [0, ""]


def is_at_work(mark: str) -> bool:
    """Tell whether the process with this mark is still there."""
    pid, _, began = mark.partition(":")
    return pid.isdigit() and began != "" and _started_at(int(pid)) == began


def _started_at(pid: int) -> str:
    """Return when a process began, in the kernel's ticks (proc(5), stat); empty without one."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields_after_name = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields_after_name[0] in (b"Z", b"X") else fields_after_name[19].decode()


def remove(job: str) -> None:
    """Take a job out of the index."""
    try:
        os.unlink(_index_path(job))
    except FileNotFoundError:
        pass


def remember(record: JobRecord) -> None:
    """Put a job into the index of this machine."""
    entry = {
        "id": record.id,
        "kind": record.kind,
        "created": record.created,
        "environment": record.environment,
        "settings": dict(record.settings),
        "store": record.store,
    }
    path = _index_path(record.id)
    text = json.dumps(entry, separators=(",", ":")).encode()
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, text)
    finally:
        os.close(fd)


@dataclass(frozen=True)
class Entry:
    """A job in the index: enough to find its record."""

    id: str
    kind: str
    created: float
    environment: str
    settings: Mapping[str, Any]
    store: str


def find(job: str) -> Entry:
    """Find a job in the index, by its id or the beginning of one.

    Raises:
        UnknownAppError: this machine knows no such job, or more than one.
    """
    found = _entry(job)
    if found is not None:
        return found
    try:
        names = os.listdir(_index_folder())
    except FileNotFoundError:
        names = []
    near = [name for name in names if name.startswith(job)] if job else []
    if len(near) == 1 and (found := _entry(near[0])) is not None:
        return found
    if near:
        raise UnknownAppError(f"{job!r} begins the ids of {len(near)} jobs: {', '.join(near[:5])}")
    from wherry.errors import unknown

    raise UnknownAppError(
        f"{unknown('job', job, names)} For one that another machine has submitted, ask its "
        "executor: ex.attach(id)"
    )


def entries() -> Iterator[Entry]:
    """Give the jobs that this machine knows, newest first."""
    try:
        names = os.listdir(_index_folder())
    except FileNotFoundError:
        return
    for name in sorted(names, key=lambda name: name.rpartition("-")[2], reverse=True):
        found = _entry(name)
        if found is not None:
            yield found


def _decoded(text: bytes, what: str) -> JobRecord:
    try:
        plain = json.loads(text)
        version = plain.pop("version")
        known = {one.name for one in fields(JobRecord)}
        plain = {name: value for name, value in plain.items() if name in known}
        for name in ("apps", "earlier"):
            plain[name] = tuple(AppPart(**app) for app in plain.get(name) or ())
        for name in ("inputs", "memory"):
            plain[name] = tuple(plain.get(name) or ())
        if plain.get("indices") is not None:
            plain["indices"] = tuple(plain["indices"])
        record = JobRecord(**plain)
    except (ValueError, KeyError, TypeError) as error:
        raise ResultError(f"{what} cannot be read: {error}") from error
    if version > VERSION:
        raise ResultError(f"{what} is of version {version}; update Wherry to read it")
    return record


def _index_folder() -> str:
    return os.path.join(home(), "jobs")


def _index_path(job: str) -> str:
    return os.path.join(_index_folder(), job)


def _entry(job: str) -> Entry | None:
    if not job or "/" in job or job.startswith("."):
        return None
    try:
        with open(_index_path(job), "rb") as file:
            plain = json.load(file)
        return Entry(**{one.name: plain[one.name] for one in fields(Entry)})
    except (OSError, ValueError, KeyError, TypeError):
        return None
