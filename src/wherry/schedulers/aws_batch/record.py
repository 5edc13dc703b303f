"""The record of one app on AWS Batch: what was submitted, who wished its end, and how it ended.

A folder of files, each written whole or not at all: ``app.json`` is written before anything is
sent, without jobs, and again with them; ``cancel.json`` has the first wish for the app's end;
``last.json`` is the last answer about an app that has ended, for when AWS has forgotten it. No
AWS here; the files are plain data that any later version can read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from wherry.errors import LaunchError
from wherry.home import home, journal_path
from wherry.schedulers import journal
from wherry.schedulers.aws_batch.answers import answer_from_plain, answer_to_plain
from wherry.schedulers.aws_batch.shape import Group, Kind, Part
from wherry.specs.handles import make_app_handle
from wherry.specs.plain import app_from_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wherry.schedulers.api import DescribeAppResponse
    from wherry.specs.app import AppDef

BACKEND = "aws_batch"

under_way: set[str] = set()
"""The ids of the apps that this process is submitting."""

_APP, _CANCEL, _LAST = "app.json", "cancel.json", "last.json"


@dataclass(frozen=True)
class JobRef:
    """One of the jobs behind an app.

    Args:
        id: AWS's id.
        arn: its ARN.
        name: its name.
        first: the number of its first replica within the app.
        count: how many replicas it has.
    """

    id: str
    arn: str
    name: str
    first: int = 0
    count: int = 1


@dataclass(frozen=True)
class Wish:
    """The first wish for an app's end.

    Args:
        reason: why.
        at: seconds since the epoch.
        before: what AWS gave as the reason for each job's state at that time, by job id; AWS
            overwrites it.
    """

    reason: str
    at: float
    before: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """What was submitted, or is about to be.

    Args:
        app_id: the app's id.
        session: the session that it is filed under.
        name: the app's name.
        created_at: seconds since the epoch.
        token: what its job names end in.
        queue: the queue, as it was named.
        region, profile, account: where, and as whom; the account is known once it was submitted.
        kind: what it is at AWS Batch.
        groups: the roles.
        parts: the jobs that it is to have.
        jobs: those that it has; none until AWS has said so.
        definition: the ARN of its job definition.
        attempts: how many attempts each job may make.
        user: whom it is tagged with.
        tags: the user's tags.
        plain_app: the `AppDef` as plain data.
        options: the run options, resolved.
        pid: the process that submits it.
    """

    app_id: str
    session: str
    name: str
    created_at: float
    token: str
    queue: str
    region: str = ""
    profile: str | None = None
    account: str = ""
    kind: str = "single"
    groups: Sequence[Mapping[str, Any]] = ()
    parts: Sequence[Mapping[str, Any]] = ()
    jobs: Sequence[Mapping[str, Any]] = ()
    definition: str = ""
    attempts: int = 1
    user: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    plain_app: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    pid: int = 0

    @property
    def handle(self) -> str:
        """The app's name for every command."""
        return make_app_handle(BACKEND, self.session, self.app_id)

    @property
    def directory(self) -> str:
        """The folder of this record."""
        return folder(self.app_id)

    @cached_property
    def app(self) -> AppDef | None:
        """The app as it was submitted; ``None`` where a newer version has written it."""
        try:
            return app_from_plain(self.plain_app)
        except ValueError:
            return None

    @property
    def job_refs(self) -> tuple[JobRef, ...]:
        """The jobs behind it, in the order of their replicas."""
        return tuple(JobRef(**job) for job in self.jobs)

    @property
    def part_refs(self) -> tuple[Part, ...]:
        """The jobs that it is to have."""
        return tuple(Part(**part) for part in self.parts)

    @property
    def role_groups(self) -> tuple[Group, ...]:
        """The roles, and which replicas or nodes are theirs."""
        return tuple(Group(**group) for group in self.groups)

    @property
    def app_kind(self) -> Kind:
        """What it is at AWS Batch."""
        return Kind(self.kind)

    @property
    def replicas(self) -> int:
        """How many replicas it has."""
        return sum(group.count for group in self.role_groups)

    @property
    def is_submitted(self) -> bool:
        """Whether all of its jobs are known."""
        return bool(self.jobs) and len(self.jobs) == len(self.parts)

    # -- writing --------------------------------------------------------------------------------

    def create(self) -> None:
        """Write it for the first time.

        Raises:
            LaunchError: there is one of this id already, or the folder cannot be written.
        """
        try:
            os.makedirs(os.path.dirname(self.directory), mode=0o700, exist_ok=True)
            os.mkdir(self.directory, 0o700)
        except FileExistsError:
            raise LaunchError(
                f"{self.app_id} was scheduled already; make a new dry run to run it again"
            ) from None
        except OSError as error:
            raise _cannot_keep(error) from None
        try:
            self.save()
        except OSError as error:
            self.remove()
            raise _cannot_keep(error) from None

    def save(self) -> None:
        """Write it again, whole."""
        _write(f"{self.directory}/{_APP}", asdict(self))

    def with_jobs(self, jobs: Sequence[JobRef]) -> Record:
        """Return it with these jobs, which tell the account too."""
        parts = jobs[0].arn.split(":") if jobs else []
        account = parts[4] if len(parts) > 4 else self.account
        return replace(self, jobs=[asdict(job) for job in jobs], account=account)

    def remove(self) -> None:
        """Remove the folder and all that is in it."""
        import shutil

        shutil.rmtree(self.directory, ignore_errors=True)

    def announce(self) -> None:
        """Tell the journal that the app is there."""
        _tell(
            {
                "e": "created",
                "handle": self.handle,
                "t": self.created_at,
                "name": self.name,
                "replicas": self.replicas,
            }
        )

    # -- its end --------------------------------------------------------------------------------

    def wish(self) -> Wish | None:
        """Return the first wish for its end; ``None`` when there was none."""
        known = _read(f"{self.directory}/{_CANCEL}")
        if known is None:
            return None
        before = known.get("before") or {}
        return Wish(str(known.get("reason", "")), float(known.get("at", 0.0)), before)

    def note_wish(self, wish: Wish) -> Wish:
        """Note a wish for its end, unless there was an earlier one.

        Returns:
            The first wish.
        """
        _write_once(f"{self.directory}/{_CANCEL}", asdict(wish))
        return self.wish() or wish

    def last(self) -> tuple[DescribeAppResponse, bool] | None:
        """Return the last answer about its end, and whether it is complete; ``None`` without."""
        known = _read(f"{self.directory}/{_LAST}")
        if known is None:
            return None
        try:
            answer = answer_from_plain(known["answer"], self.app)
        except (KeyError, TypeError, ValueError):
            return None  # of another version; AWS may still know
        return answer, bool(known.get("complete"))

    def streams(self) -> list[dict[str, Any]]:
        """Return what is kept of its log streams; see `wherry.aws.log_places.known_streams`."""
        known = _read(f"{self.directory}/{_LAST}") or {}
        found = known.get("streams")
        return found if isinstance(found, list) else []

    def note_last(
        self,
        answer: DescribeAppResponse,
        *,
        complete: bool,
        streams: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Note how it ended, and tell the journal when nobody has done so yet.

        Args:
            answer: what is known of it.
            complete: whether all of its replicas are in the answer.
            streams: what is to be kept of its log streams.
        """
        if not os.path.isdir(self.directory):
            return  # forgotten meanwhile
        path = f"{self.directory}/{_LAST}"
        content = {
            "complete": complete,
            "answer": answer_to_plain(answer),
            "streams": list(streams),
        }
        if not _write_once(path, content):
            known = _read(path) or {}
            if complete and not known.get("complete"):
                _write(path, content)
            return
        _tell(
            {
                "e": "ended",
                "handle": self.handle,
                "t": answer.ended_at or answer.created_at or self.created_at,
                "state": answer.state.name,
                "msg": answer.msg,
            }
        )


def folder(app_id: str) -> str:
    """Return where the record of an app is, or would be."""
    return os.path.join(home(), BACKEND, app_id)


def read_record(app_id: str) -> Record | None:
    """Read a record; ``None`` where there is none, or only half of one."""
    if not app_id or "/" in app_id or app_id.startswith("."):
        return None
    known = _read(f"{folder(app_id)}/{_APP}")
    if known is None:
        return None
    names = {each.name for each in fields(Record)}
    try:
        return Record(**{name: value for name, value in known.items() if name in names})
    except TypeError:
        return None


def records() -> Iterator[Record]:
    """Read all records, newest first."""
    try:
        names = os.listdir(folder(""))
    except FileNotFoundError:
        return
    for name in sorted(names, key=lambda each: each.rpartition("-")[2], reverse=True):
        found = read_record(name)
        if found is not None:
            yield found


def _tell(entry: Mapping[str, Any]) -> None:
    journal.append(journal_path(), json.dumps(entry).encode() + b"\n")


def _read(path: str) -> dict[str, Any] | None:
    try:
        with open(path, encoding="utf-8") as file:
            known = json.load(file)
    except (OSError, ValueError):
        return None
    return known if isinstance(known, dict) else None


def _write(path: str, content: Mapping[str, Any]) -> None:
    """Put a file in the place of another, in one step."""
    draft = _draft(path, content)
    os.replace(draft, path)


def _write_once(path: str, content: Mapping[str, Any]) -> bool:
    """Write a file unless it is there; tells whether it was written."""
    if os.path.exists(path):
        return False
    try:
        draft = _draft(path, content)
    except FileNotFoundError:
        return False  # the record was removed meanwhile
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(draft)
    return True


def _draft(path: str, content: Mapping[str, Any]) -> str:
    import threading

    draft = f"{path}.{os.getpid()}.{threading.get_ident()}"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="utf-8") as file:
        json.dump(content, file)
    return draft


def _cannot_keep(error: OSError) -> LaunchError:
    return LaunchError(
        f"cannot keep a record of the app: {error.strerror or error}: {error.filename}; "
        "set WHERRY_HOME to a folder that you may write to"
    )
