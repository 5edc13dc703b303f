"""The journal: many writers, one reader, and emptying it without losing a line."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from wherry.runner.ledger import Ledger
from wherry.schedulers import journal


def created(number: int) -> bytes:
    entry = {"e": "created", "handle": f"local_cwd://s/app-{number}", "name": "app", "t": number}
    return json.dumps(entry).encode() + b"\n"


def test_a_line_cut_short_by_a_full_disk_does_not_spoil_the_next(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(created(1) + created(2)[:20])

    journal.append(str(path), created(3))
    entries, end = journal.read(str(path), 0)

    assert [entry["t"] for entry in entries] == [1, 3]
    assert end == path.stat().st_size


def test_a_journal_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    journal.append(str(tmp_path / "missing" / "journal"), created(1))

    assert journal.read(str(tmp_path / "missing" / "journal"), 0) == ([], 0)


def test_what_was_not_read_is_not_thrown_away(tmp_path: Path) -> None:
    path = str(tmp_path / "journal")
    journal.append(path, created(1))
    _, read_to = journal.read(path, 0)
    journal.append(path, created(2))

    assert not journal.compact(path, read_to)
    assert journal.compact(path, os.path.getsize(path))
    assert journal.read(path, 0) == ([], 0)


def test_compacting_beside_writers_loses_nothing(own_home: Path) -> None:
    own_home.mkdir()
    path = str(own_home / "journal.jsonl")
    ledger = Ledger()
    writers = [
        threading.Thread(
            target=lambda first=first: [
                journal.append(path, created(n)) for n in range(first, first + 200)
            ]
        )
        for first in (0, 200, 400)
    ]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        ledger.compact()
    ledger.compact()

    assert {app.app_id for app in ledger.apps()} == {f"app-{n}" for n in range(600)}
    assert os.path.getsize(path) == 0
