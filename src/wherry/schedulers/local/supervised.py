"""What the schedulers have in common whose apps run under a supervisor of this machine.

A scheduler makes a record and starts the supervisor; everything else works on the record, from
any process.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TypeVar

from wherry.errors import LaunchError, StateError, UnknownAppError, UnknownNameError, unknown
from wherry.home import home, journal_path
from wherry.schedulers.api import (
    DescribeAppResponse,
    ListAppResponse,
    ListFilter,
    LogChunk,
    Scheduler,
    Stream,
)
from wherry.schedulers.lines import LogLines
from wherry.schedulers.local import logs
from wherry.schedulers.local.events import CONTROL_FILE, SUPERVISOR_LOG
from wherry.schedulers.local.plan import DETACH
from wherry.schedulers.local.record import Record, fold, read_events, read_record
from wherry.schedulers.local.settling import settle_if_lost
from wherry.schedulers.local.starting import start_supervisor
from wherry.schedulers.local.watching import EventTail, Wakeup
from wherry.specs.app import AppDef
from wherry.specs.plain import to_plain
from wherry.specs.states import is_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wherry.schedulers.local.plan import Plan

T = TypeVar("T")

_CANCEL_SECONDS = 5.0
_CLOSE_SECONDS = 15.0


class SupervisedScheduler(Scheduler[T]):
    """A scheduler whose apps are supervised on this machine, and whose records are folders here.

    Args:
        backend: the scheduler's name.
        session_name: the session that apps are filed under.
        cache_size: how many finished apps' answers are remembered.
    """

    attached = True
    journaled = True

    def __init__(self, backend: str, session_name: str, cache_size: int = 100) -> None:
        super().__init__(backend, session_name)
        self._cache_size = max(0, cache_size)
        self._attached: dict[str, int] = {}
        self._finished: dict[str, DescribeAppResponse] = {}

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Tell all about an app of this machine, running or not."""
        known = self._finished.get(app_id)
        if known is not None and os.path.isdir(self._directory(app_id)):
            return known
        record = self._record(app_id)
        if record is None:
            return None
        answer = fold(record, read_events(record.directory))
        if not is_terminal(answer.state) and settle_if_lost(record, journal_path()):
            answer = fold(record, read_events(record.directory))
        if is_terminal(answer.state):
            self._remember(answer)
        return answer

    def exists(self, app_id: str) -> bool:
        """Tell whether there is a record of the app."""
        return self._record(app_id) is not None

    def list(self, chosen: ListFilter = ListFilter()) -> Iterator[ListAppResponse]:  # noqa: B008
        """Go through the records of this scheduler's apps, newest first."""
        try:
            names = os.listdir(self._directory(""))
        except FileNotFoundError:
            return
        found = 0
        for app_id in sorted(names, key=lambda name: name.rpartition("-")[2], reverse=True):
            answer = self.describe(app_id)
            if answer is None or (line := self._line(answer)) is None or not chosen.accepts(line):
                continue
            yield line
            found += 1
            if chosen.limit is not None and found >= chosen.limit:
                return

    def cancel(self, app_id: str, reason: str = "", *, kill: bool = False) -> None:
        """Ask for an app's end; returns when its supervisor has taken note.

        Programs get SIGTERM, and SIGKILL after the grace; with ``kill`` at once.
        """
        record = self._required(app_id)
        verb = "kill" if kill else "cancel"
        message = f"{verb}\t{' '.join(reason.split()) or 'cancelled'}\n".encode()[:4096]
        tail, wakeup = EventTail(record, journal_path()), Wakeup(record)
        deadline = time.monotonic() + _CANCEL_SECONDS
        sent = False
        try:
            while True:
                noted = any(event["e"] == "cancelling" for event in tail.read()) and not kill
                if tail.finished or noted or (sent and kill):
                    return
                sent = sent or post(f"{record.directory}/{CONTROL_FILE}", message)
                soon = deadline if sent else time.monotonic() + 0.01
                if not wakeup.wait(tail, soon) and time.monotonic() > deadline:
                    raise StateError(
                        f"the supervisor of {record.handle} did not take note of the request "
                        f"within {_CANCEL_SECONDS:g} s; see {record.directory}/{SUPERVISOR_LOG}"
                    )
                if not sent:
                    tail.check_alive()
        finally:
            tail.close()
            wakeup.close()

    def log_iter(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        regex: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        should_tail: bool = False,
        streams: Stream | None = None,
        *,
        attempt: int | None = None,
    ) -> LogLines:
        r"""Iterate over the lines of one replica; see `Scheduler.log_iter`.

        Bytes that are not UTF-8 appear as ``\xNN``.
        """
        record = self._replica_record(app_id, role_name, k)
        if attempt is not None:
            self._require_attempt(record, role_name, k, attempt)
        return logs.replica_lines(
            record,
            role_name,
            k,
            Stream(streams or Stream.COMBINED),
            journal_path=journal_path(),
            regex=regex,
            since=since,
            until=until,
            should_tail=should_tail,
            attempt=attempt,
        )

    def log_bytes(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        stream: Stream = Stream.COMBINED,
        *,
        attempt: int | None = None,
    ) -> Iterator[bytes]:
        """Read what one replica has written so far, in large pieces."""
        record = self._replica_record(app_id, role_name, k)
        if attempt is not None:
            self._require_attempt(record, role_name, k, attempt)
        return logs.replica_bytes(record, role_name, k, stream, attempt)

    def follow(self, app_id: str, stream: Stream = Stream.COMBINED) -> Iterator[LogChunk]:
        """Read what all replicas write, as they write it, until the app's last byte."""
        return logs.follow_all(self._required(app_id), stream, journal_path())

    def wait_for_change(self, app_id: str, timeout: float, *, until_end: bool = False) -> None:
        """Block until something happened to the app, or for ``timeout`` seconds."""
        record = self._required(app_id)
        deadline = time.monotonic() + timeout
        tail, wakeup = EventTail(record, journal_path()), Wakeup(record)
        try:
            tail.read()
            while not tail.finished and wakeup.wait(tail, deadline):
                if tail.read() and not until_end:
                    return
        finally:
            tail.close()
            wakeup.close()

    def detach(self, app_id: str) -> None:
        """Let an app go on when this process ends."""
        fd = self._attached.pop(app_id, -1)
        if fd >= 0:
            try:
                os.write(fd, DETACH)
            except BrokenPipeError:
                pass  # It has ended already.
            os.close(fd)

    def forget(self, app_id: str) -> None:
        """Remove the record of an app that has ended; logs in a folder of the user's stay.

        Raises:
            UnknownAppError: there is no such app.
            StateError: it has not ended.
        """
        record = self._required(app_id)
        described = self.describe(app_id)
        if described is not None and not is_terminal(described.state):
            raise StateError(f"{record.handle} has not ended; cancel it first")
        _remove(record.directory)
        self._finished.pop(app_id, None)

    def close(self) -> None:
        """End the apps that were scheduled here and not detached; may be called many times."""
        attached, self._attached = self._attached, {}
        for fd in attached.values():
            os.close(fd)
        for app_id in attached:
            if app_id not in self._finished and self.exists(app_id):
                self.wait_for_change(app_id, _CLOSE_SECONDS, until_end=True)

    def _directory(self, app_id: str) -> str:
        return os.path.join(home(), "apps", app_id)

    def _record(self, app_id: str) -> Record | None:
        if not app_id or "/" in app_id or app_id.startswith("."):
            return None
        record = read_record(self._directory(app_id))
        return record if record is not None and record.scheduler == self.backend else None

    def _required(self, app_id: str) -> Record:
        record = self._record(app_id)
        if record is None:
            raise UnknownAppError(
                f"there is no app {app_id!r} at {self.backend}; `wherry list` shows those there are"
            )
        return record

    def _replica_record(self, app_id: str, role_name: str, k: int) -> Record:
        record = self._required(app_id)
        counts = {
            role["name"]: role.get("num_replicas", 1) for role in record.plain_app.get("roles", ())
        }
        if role_name not in counts:
            raise UnknownNameError(unknown(f"role of {record.handle}:", role_name, counts))
        if not 0 <= k < counts[role_name]:
            last = counts[role_name] - 1
            choice = "only replica 0" if last == 0 else f"replicas 0 to {last}"
            raise UnknownNameError(
                f"role {role_name!r} of {record.handle} has no replica {k}; it has {choice}"
            )
        return record

    def _require_attempt(self, record: Record, role_name: str, k: int, attempt: int) -> None:
        made = logs.attempts_made(record, role_name, k)
        if not 1 <= attempt <= made:
            raise UnknownNameError(
                f"{role_name}/{k} of {record.handle} has no attempt {attempt}; "
                f"it has made {made}, counted from 1"
            )

    def _launch(self, record: Record, plan: Plan) -> None:
        """Start the supervisor of an app; a record without one does not stay.

        Raises:
            LaunchError: it could not be started; nothing was left behind.
        """
        try:
            self._attached[record.app_id] = start_supervisor(record.directory, plan)
        except BaseException:
            _remove(record.directory)
            _remove(record.log_dir)
            raise

    def _folder_of(self, handle: str) -> str:
        """Return the folder of the record that a handle of this machine names."""
        return self._directory(handle.rpartition("/")[2])

    def _make_record(
        self, app: AppDef, app_id: str, replicas: Mapping[str, int], log_dir: str | None
    ) -> Record:
        """Make the folder of an app's record.

        Args:
            app: the app.
            app_id: its id.
            replicas: how many each role has; an edited request may differ from the app.
            log_dir: where its logs go; beside its record when ``None``.

        Raises:
            LaunchError: it cannot be written, or is there already.
        """
        directory = self._directory(app_id)
        record = Record(
            directory=directory,
            app_id=app_id,
            session=self.session_name,
            scheduler=self.backend,
            created_at=time.time(),
            log_dir=log_dir or f"{directory}/logs",
            plain_app=_as_submitted(app, replicas),
        )
        try:
            os.makedirs(os.path.dirname(directory), mode=0o700, exist_ok=True)
            os.mkdir(directory, 0o700)
        except FileExistsError:
            raise LaunchError(
                f"{app_id} was scheduled already; make a new dry run to run it again"
            ) from None
        except OSError as error:
            raise _cannot("keep a record of the app", error) from None
        try:
            for role in replicas:
                os.makedirs(f"{record.log_dir}/{role}", exist_ok=True)
            if not os.access(record.log_dir, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), record.log_dir)
            record.write()
            os.mkfifo(f"{directory}/{CONTROL_FILE}", 0o600)
        except OSError as error:
            _remove(directory)
            raise _cannot("write the app's logs", error) from None
        return record

    def _remember(self, answer: DescribeAppResponse) -> None:
        while self._finished and len(self._finished) >= self._cache_size:
            del self._finished[next(iter(self._finished))]
        if self._cache_size:
            self._finished[answer.app_id] = answer

    def _line(self, answer: DescribeAppResponse) -> ListAppResponse | None:
        session = answer.metadata.get("session", "")
        return ListAppResponse(
            app_id=answer.app_id,
            state=answer.state,
            app_handle=f"{self.backend}://{session}/{answer.app_id}",
            name=answer.app.name if answer.app else "",
            created_at=answer.created_at,
            ended_at=answer.ended_at,
            msg=answer.msg,
            replicas=sum(len(role.replicas) for role in answer.roles_statuses),
            session=session,
        )


def _as_submitted(app: AppDef, replicas: Mapping[str, int]) -> dict[str, object]:
    """Return the app as plain data, with what an edited request changed of its replicas."""
    plain = to_plain(app)
    for role in plain["roles"]:
        role["num_replicas"] = replicas.get(role["name"], role.get("num_replicas", 1))
    return dict(plain)


def post(path: str, message: bytes) -> bool:
    """Put a message into the supervisor's control pipe; tells whether somebody listens there."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):
            return False
        raise
    try:
        os.write(fd, message)
    except BrokenPipeError:
        return False
    finally:
        os.close(fd)
    return True


def _remove(folder: str) -> None:
    """Remove a folder of ours and all that is in it."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def _cannot(what: str, error: OSError) -> LaunchError:
    return LaunchError(
        f"cannot {what}: {error.strerror or error}: {error.filename}; "
        "set log_dir (or WHERRY_HOME) to a folder that you may write to"
    )
