"""The ledger's tables, as numbered steps; a step that was released is never edited.

A ledger says in ``PRAGMA user_version`` how many of the steps it has behind it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection

_APPS = """
CREATE TABLE apps (
    handle     TEXT PRIMARY KEY,
    scheduler  TEXT NOT NULL,
    session    TEXT NOT NULL,
    app_id     TEXT NOT NULL,
    name       TEXT NOT NULL,
    state      INTEGER NOT NULL,
    replicas   INTEGER NOT NULL,
    created_at REAL,
    ended_at   REAL,
    msg        TEXT NOT NULL
)
"""
_JOURNAL = """
CREATE TABLE journal (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    position INTEGER NOT NULL,
    head     BLOB NOT NULL,
    rebuilt  INTEGER NOT NULL
)
"""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (_APPS, _JOURNAL, "INSERT INTO journal VALUES (1, 0, x'', 0)"),
    (
        "CREATE INDEX apps_newest ON apps (created_at DESC)",
        "CREATE INDEX apps_open ON apps (scheduler) WHERE state NOT IN (4, 5, 6, 8)",
    ),
)
"""The statements of each step, from an empty file on."""

VERSION = len(MIGRATIONS)
"""The version that this program reads and writes."""


def version_of(db: Connection) -> int:
    """Return how many steps a ledger has behind it."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return int(version)


def migrate(db: Connection, to: int = VERSION) -> None:
    """Take a ledger from whatever version it has to this one; a newer one is left alone.

    Many processes may do it at once: each looks again once it alone may write.

    Args:
        db: a connection outside of a transaction.
        to: the version wanted.
    """
    if version_of(db) >= to:
        return
    db.execute("BEGIN IMMEDIATE")
    with db:
        for number in range(version_of(db), to):
            for statement in MIGRATIONS[number]:
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {number + 1}")
