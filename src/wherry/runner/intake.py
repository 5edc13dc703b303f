"""How what others say of apps becomes rows of the ledger: the journal, and the schedulers' lists.

The journal and the place where reading it stopped are taken in by one transaction.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from wherry.errors import InvalidHandleError
from wherry.schedulers import journal
from wherry.specs.handles import make_app_handle, parse_app_handle
from wherry.specs.states import TERMINAL_STATES, AppState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from sqlite3 import Connection

    from wherry.schedulers.api import ListAppResponse, Scheduler

    Row = tuple[str, int, str, str, float | None, float | None, str, int, str, str]
    Ending = tuple[int, float | None, str, str]

_INSERT = """
INSERT OR IGNORE INTO apps
    (app_id, state, handle, name, created_at, ended_at, msg, replicas, session, scheduler)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_END = "UPDATE apps SET state = ?, ended_at = ?, msg = ? WHERE handle = ?"
_HEAD_BYTES = 256


def sync(db: Connection, path: str) -> None:
    """Take in what the journal says since the last time.

    Args:
        db: the ledger, outside of a transaction.
        path: the journal.
    """
    if _place(db) == _end_of(path):
        return
    db.execute("BEGIN IMMEDIATE")
    with db:
        position, head = _place(db)
        size, head_now = _end_of(path)
        if size < position or (position and head != head_now):
            position = 0  # the journal was emptied and began anew
        entries, end = journal.read(path, position)
        created, ended = _news(entries)
        db.executemany(_INSERT, created)
        db.executemany(_END, ended)
        _set_place(db, end, head_now if end else b"")


def compact(db: Connection, path: str) -> None:
    """Empty the journal, once all of it has been taken in."""
    sync(db, path)
    db.execute("BEGIN IMMEDIATE")
    with db:
        position, _ = _place(db)
        if journal.compact(path, position):
            _set_place(db, 0, b"")


def _place(db: Connection) -> tuple[int, bytes]:
    """Return how far the journal was read, and how it began."""
    position, head = db.execute("SELECT position, head FROM journal").fetchone()
    return position, head


def _set_place(db: Connection, position: int, head: bytes) -> None:
    db.execute("UPDATE journal SET position = ?, head = ?", (position, head))


def _end_of(path: str) -> tuple[int, bytes]:
    """Return the journal's size and its first line, by which a new journal is told from an old."""
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD_BYTES).partition(b"\n")[0]
            return os.fstat(file.fileno()).st_size, head
    except FileNotFoundError:
        return 0, b""


def is_complete(db: Connection) -> bool:
    """Tell whether the schedulers were ever asked what they had before the ledger began."""
    (rebuilt,) = db.execute("SELECT rebuilt FROM journal").fetchone()
    return bool(rebuilt)


def rebuild(db: Connection, path: str, schedulers: Mapping[str, Scheduler[Any]]) -> list[str]:
    """Replace the rows of schedulers by what they list.

    Args:
        db: the ledger, outside of a transaction.
        path: the journal; what it says from now on will be read on top.
        schedulers: whom to ask, by name.

    Returns:
        A sentence for each scheduler that could not answer; its rows stay.
    """
    # The journal's end comes first: what is written while the schedulers list is read afterwards.
    place = _end_of(path)
    rows: list[Row] = []
    answered: set[str] = set()
    problems: list[str] = []
    for name, scheduler in schedulers.items():
        try:
            rows += [_row(name, app) for app in scheduler.recorded()]
            answered.add(name)
        except Exception as error:  # noqa: BLE001 — a plug-in's; the others must not suffer
            problems.append(
                f"scheduler {name} could not list its apps: {type(error).__name__}: {error}"
            )
    db.execute("BEGIN IMMEDIATE")
    with db:
        if not is_complete(db):
            _take_in_others(db, path, answered)
        db.executemany("DELETE FROM apps WHERE scheduler = ?", [(name,) for name in answered])
        # Oldest first, since of two made at the same moment the later row counts as the newer.
        db.executemany(_INSERT, reversed(rows))
        _set_place(db, *place)
        db.execute("UPDATE journal SET rebuilt = 1")
    return problems


def _take_in_others(db: Connection, path: str, answered: set[str]) -> None:
    """Take from the journal what a new ledger can learn of schedulers that did not answer."""
    entries, _ = journal.read(path, 0)
    created, ended = _news(entries)
    db.executemany(_INSERT, [row for row in created if row[-1] not in answered])
    db.executemany(_END, ended)


def _row(scheduler: str, app: ListAppResponse) -> Row:
    handle = app.app_handle or make_app_handle(scheduler, app.session, app.app_id)
    return (
        app.app_id,
        int(app.state),
        handle,
        storable(app.name or app.app_id),
        app.created_at,
        app.ended_at,
        storable(app.msg),
        app.replicas,
        app.session,
        scheduler,
    )


def _news(
    entries: Iterable[Mapping[str, Any]],
) -> tuple[list[Row], list[Ending]]:
    """Sort journal entries into new apps and endings; what is neither is left out."""
    created: list[Row] = []
    ended: list[Ending] = []
    for entry in entries:
        handle, at = str(entry.get("handle")), _number(entry.get("t"))
        if entry.get("e") == "created":
            with suppress(InvalidHandleError):
                created.append(_created(handle, at, entry))
        elif entry.get("e") == "ended" and str(entry.get("state")) in _ENDINGS:
            msg = storable(str(entry.get("msg") or ""))
            ended.append((_ENDINGS[str(entry["state"])], at, msg, handle))
    return created, ended


_ENDINGS = {state.name: int(state) for state in TERMINAL_STATES}


def _created(handle: str, at: float | None, entry: Mapping[str, Any]) -> Row:
    parts = parse_app_handle(handle)
    name, replicas = entry.get("name"), entry.get("replicas")
    return (
        parts.app_id,
        int(AppState.SUBMITTED),
        handle,
        storable(name) if isinstance(name, str) else parts.app_id,
        at,
        None,
        "",
        replicas if isinstance(replicas, int) else 0,
        parts.session,
        parts.scheduler,
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def storable(text: str) -> str:
    """Make text storable; a file's name that is not UTF-8 may be part of a message."""
    return text if text.isascii() else text.encode(errors="replace").decode()
