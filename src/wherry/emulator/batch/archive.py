"""State in an SQLite file, which outlives the process however it ends.

The file is written ahead (WAL) and not synced: what was committed survives the death of the
process, which is what a test bench needs, and not the death of the machine, which would cost a sync
for each SubmitJob. Changes wait in memory until `commit`, so a record that changes often is written
once.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable

from wherry.emulator.batch.ports import Document
from wherry.errors import LaunchError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    place INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (kind, key)
)
"""
_SAVE = """
INSERT INTO records (kind, key, body) VALUES (?, ?, ?)
ON CONFLICT (kind, key) DO UPDATE SET body = excluded.body
"""


class SqliteArchive:
    """An `Archive` in a file. All methods may be called from any thread.

    Args:
        path: the file; made when it is not there.

    Raises:
        LaunchError: the file cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str], str | None] = {}
        try:
            self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=OFF", _SCHEMA):
                self._database.execute(statement)
        except sqlite3.Error as error:
            raise LaunchError(f"the state in {path!r} cannot be opened: {error}") from error

    def load(self, kind: str) -> Iterable[tuple[str, Document]]:
        """Return all committed records of a kind with their keys, first saved first."""
        with self._lock:
            rows = self._database.execute(
                "SELECT key, body FROM records WHERE kind = ? ORDER BY place", (kind,)
            ).fetchall()
        return [(key, json.loads(body)) for key, body in rows]

    def save(self, kind: str, key: str, record: Document) -> None:
        """Keep a record from the next `commit` on."""
        body = json.dumps(record, separators=(",", ":"))
        with self._lock:
            self._waiting[kind, key] = body

    def remove(self, kind: str, key: str) -> None:
        """Drop a record from the next `commit` on."""
        with self._lock:
            self._waiting[kind, key] = None

    def commit(self) -> None:
        """Write all that waits, in one transaction."""
        with self._lock:
            if not self._waiting:
                return
            self._database.execute("BEGIN IMMEDIATE")
            try:
                self._write()
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")
            self._waiting.clear()

    def close(self) -> None:
        """Let go of the file; harmless when repeated."""
        with self._lock:
            self._database.close()

    def _write(self) -> None:
        saved = ((kind, key, body) for (kind, key), body in self._waiting.items() if body)
        removed = ((kind, key) for (kind, key), body in self._waiting.items() if body is None)
        self._database.executemany(_SAVE, saved)
        self._database.executemany("DELETE FROM records WHERE kind = ? AND key = ?", removed)
