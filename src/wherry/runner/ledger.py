"""The ledger: an index, in SQLite, over what the apps' own records say.

It is never the only copy of a fact: a ledger that is missing or broken is made again from the
schedulers, and from then on filled from the journal. Each reading of the journal and the place
where it stopped are one transaction, so that any number of processes may read at once and any of
them may be killed. A connection lives for one question: it costs a third of a millisecond, and
nothing is held across threads, forks or the end of the process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from wherry.errors import WherryError
from wherry.runner import intake
from wherry.runner.intake import storable
from wherry.schedulers.api import ListAppResponse, ListFilter
from wherry.specs.states import AppState, is_terminal

if TYPE_CHECKING:
    from sqlite3 import Connection

    from wherry.schedulers.api import Scheduler

T = TypeVar("T")

NAME = "ledger.sqlite3"
BUSY_SECONDS = 30.0
"""How long a process waits for others that write."""

_COLUMNS = "app_id, state, handle, name, created_at, ended_at, msg, replicas, session"
_MARK = """
UPDATE apps SET state = ?, msg = ?, ended_at = coalesce(?, ended_at)
WHERE handle = ? AND state NOT IN (4, 5, 6, 8)
"""


class LedgerUnavailableError(WherryError):
    """The ledger cannot be used here; the schedulers can be asked instead."""


class Ledger:
    """The index of all apps of one home folder.

    Making one touches nothing; the file is made, where it is missing, at the first question. Any
    method raises `LedgerUnavailableError` when the file cannot be opened or written, or belongs
    to a newer program.

    Args:
        home: the folder of all records; the user's by default.
        sources: gives the schedulers to ask when the ledger is missing or broken; without it the
            journal alone is read, from its beginning.
    """

    def __init__(
        self,
        home: str | None = None,
        sources: Callable[[], Mapping[str, Scheduler[Any]]] | None = None,
    ) -> None:
        self._home = home
        self._sources = sources
        self._inode = 0
        self.problems: list[str] = []

    @property
    def path(self) -> str:
        """The ledger's file."""
        return os.path.join(self._folder(), NAME)

    def sync(self) -> None:
        """Take in what the journal says since the last time."""
        self._run(lambda db: intake.sync(db, self._journal()))

    def apps(
        self,
        chosen: ListFilter = ListFilter(),  # noqa: B008 — a frozen value
        scheduler: str | None = None,
    ) -> list[ListAppResponse]:
        """List apps as they were last known, newest first.

        Args:
            chosen: which ones.
            scheduler: only those of one scheduler.
        """
        where, values = _conditions(chosen, scheduler)
        query = f"SELECT {_COLUMNS} FROM apps {where} ORDER BY created_at DESC, rowid DESC LIMIT ?"  # noqa: S608 — the words are ours
        limit = -1 if chosen.limit is None else max(chosen.limit, 0)
        return self._run(lambda db: [_app(row) for row in db.execute(query, (*values, limit))])

    def beginning_with(self, text: str) -> list[tuple[str, str]]:
        """Find apps by the beginning of their id.

        Returns:
            Ids and handles, newest first.
        """
        query = (
            "SELECT app_id, handle FROM apps WHERE substr(app_id, 1, ?) = ? "
            "ORDER BY created_at DESC, rowid DESC"
        )
        return self._run(lambda db: db.execute(query, (len(text), text)).fetchall())

    def mark(
        self, handle: str, state: AppState, *, msg: str = "", ended_at: float | None = None
    ) -> None:
        """Note what was learned of an app; one that has ended stays as it is.

        Args:
            handle: the app.
            state: its state now.
            msg: why it is in this state.
            ended_at: when it ended, if it did and that is known.
        """
        self.mark_all([(handle, state, msg, ended_at)])

    def mark_all(self, news: Iterable[tuple[str, AppState, str, float | None]]) -> None:
        """Note what was learned of many apps: handle, state, message, end."""
        rows = [(int(state), storable(msg), end, handle) for handle, state, msg, end in news]
        if rows:
            self._run(lambda db: _write(db, _MARK, rows))

    def forget(self, handles: Iterable[str]) -> None:
        """Take apps off the index."""
        rows = [(handle,) for handle in handles]
        if rows:
            self._run(lambda db: _write(db, "DELETE FROM apps WHERE handle = ?", rows))

    def compact(self) -> None:
        """Empty the journal, once all of it has been taken in."""
        self._run(lambda db: intake.compact(db, self._journal()))

    def rebuild(self, schedulers: Mapping[str, Scheduler[Any]]) -> list[str]:
        """Make the index again from what the schedulers list.

        What a scheduler that cannot answer had in the index stays in it.

        Args:
            schedulers: whom to ask, by name.

        Returns:
            A sentence for each scheduler that could not answer.
        """
        return self._run(lambda db: intake.rebuild(db, self._journal(), schedulers))

    def _folder(self) -> str:
        if self._home is None:
            from wherry.home import home

            self._home = home()
        return self._home

    def _journal(self) -> str:
        return os.path.join(self._folder(), "journal.jsonl")

    def _run(self, work: Callable[[Connection], T]) -> T:
        import sqlite3

        try:
            try:
                return self._once(work)
            except sqlite3.DatabaseError as error:
                if not _is_broken(error):
                    raise
            self._set_aside()
            return self._once(work)
        except (sqlite3.Error, OSError) as error:
            raise LedgerUnavailableError(f"{self.path} cannot be used: {error}") from error

    def _once(self, work: Callable[[Connection], T]) -> T:
        with closing(self._connect()) as db:
            _prepare(db, self.path)
            if self._sources is not None and not intake.is_complete(db):
                self.problems += intake.rebuild(db, self._journal(), self._sources())
            return work(db)

    def _connect(self) -> Connection:
        import sqlite3

        os.makedirs(self._folder(), mode=0o700, exist_ok=True)
        self._inode = _inode(self.path)
        return sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)

    def _set_aside(self) -> None:
        """Move a broken file out of the way, unless another process just did."""
        import fcntl

        with open(f"{self.path}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _inode(self.path) != self._inode:
                return
            for ending in ("-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.unlink(self.path + ending)
            os.replace(self.path, f"{self.path}.broken")


def prunable(
    apps: Iterable[ListAppResponse],
    *,
    older_than: float | None = None,
    states: frozenset[AppState] = frozenset(),
    now: float,
) -> list[ListAppResponse]:
    """Choose the apps whose records may go.

    Args:
        apps: the apps to choose from.
        older_than: only those that ended so many seconds ago, or were created then where the end
            is not known; ``None`` for any age.
        states: only those in one of these states; any in which an app has ended when empty.
        now: seconds since the epoch.

    Returns:
        Those that have ended and fit.
    """

    def is_old(app: ListAppResponse) -> bool:
        since = app.ended_at if app.ended_at is not None else app.created_at
        return older_than is None or (since is not None and now - since >= older_than)

    return [
        app
        for app in apps
        if is_terminal(app.state) and (not states or app.state in states) and is_old(app)
    ]


def _prepare(db: Connection, path: str) -> None:
    from wherry.runner import migrations

    version = migrations.version_of(db)
    if version > migrations.VERSION:
        raise LedgerUnavailableError(
            f"{path} was made by a newer Wherry (version {version} of the ledger; "
            f"this one knows {migrations.VERSION})"
        )
    if version < migrations.VERSION:
        _use_wal(db)
        migrations.migrate(db)
    db.execute("PRAGMA synchronous = NORMAL")


def _use_wal(db: Connection) -> None:
    """Let readers and one writer work at the same time."""
    import sqlite3

    # Of several that try at once some may be told that it is locked: another has done it.
    with suppress(sqlite3.OperationalError):
        db.execute("PRAGMA journal_mode = WAL")


def _is_broken(error: Exception) -> bool:
    """Tell a file that is no ledger from one that cannot be had at the moment.

    The former is reported as a plain ``DatabaseError``, but for what is missing in the schema.
    """
    import sqlite3

    words = ("malformed", "no such table", "no such column", "already exists")
    return type(error) is sqlite3.DatabaseError or any(word in str(error) for word in words)


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return 0


def _write(db: Connection, statement: str, rows: list[tuple[Any, ...]]) -> None:
    db.execute("BEGIN IMMEDIATE")
    with db:
        db.executemany(statement, rows)


def _app(row: tuple[Any, ...]) -> ListAppResponse:
    app_id, state, *rest = row
    return ListAppResponse(app_id, _STATES.get(state, AppState.UNKNOWN), *rest)


_STATES = {int(state): state for state in AppState}


def _conditions(chosen: ListFilter, scheduler: str | None) -> tuple[str, list[Any]]:
    """Write a filter as SQL; the meaning of each part is `ListFilter.accepts`."""
    states = [int(state) for state in chosen.states]
    parts: list[tuple[bool, str, list[Any]]] = [
        (bool(states), f"state IN ({', '.join('?' * len(states))})", states),
        (
            bool(chosen.name),
            "substr(name, 1, ?) = ?",
            [len(chosen.name), chosen.name],
        ),
        (chosen.session is not None, "session = ?", [chosen.session]),
        (chosen.since is not None, "coalesce(created_at, 0) >= ?", [chosen.since]),
        (scheduler is not None, "scheduler = ?", [scheduler]),
    ]
    used = [(text, values) for wanted, text, values in parts if wanted]
    where = " AND ".join(text for text, _ in used)
    return (f"WHERE {where}" if where else ""), [v for _, values in used for v in values]
