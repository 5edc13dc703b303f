"""A ledger of any earlier version becomes one of this version, and keeps its rows."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from wherry.runner import Ledger
from wherry.runner.ledger import LedgerUnavailableError
from wherry.runner.migrations import MIGRATIONS, VERSION, migrate, version_of
from wherry.specs import AppState
from wherry.specs.states import TERMINAL_STATES

ROW = "INSERT INTO apps VALUES ('desk://w/a-1', 'desk', 'w', 'a-1', 'a', 5, 2, 10.0, 11.0, 'why')"


@pytest.fixture
def make(own_home):
    """Make a ledger file of an old version, with one app in it."""

    def made(version: int) -> Ledger:
        own_home.mkdir()
        with closing(sqlite3.connect(own_home / "ledger.sqlite3", isolation_level=None)) as db:
            migrate(db, version)
            db.execute(ROW)
        return Ledger()

    return made


def schema(path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_the_rows_of_every_version_are_kept(make, version):
    ledger = make(version)

    (app,) = ledger.apps()

    assert (app.app_handle, app.state, app.msg) == ("desk://w/a-1", AppState.FAILED, "why")
    assert (app.created_at, app.ended_at, app.replicas, app.session) == (10.0, 11.0, 2, "w")


def test_every_way_leads_to_the_same_tables(make, tmp_path):
    ledger = make(1)
    ledger.apps()
    fresh = Ledger(str(tmp_path / "fresh"))
    fresh.apps()

    assert schema(ledger.path) == schema(fresh.path)


def test_many_at_once_migrate_once(make):
    ledger = make(1)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: Ledger().apps(), range(16)))

    assert {len(answer) for answer in answers} == {1}
    with closing(sqlite3.connect(ledger.path)) as db:
        assert version_of(db) == VERSION


def test_a_step_that_fails_leaves_the_version_before_it(own_home):
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute("CREATE TABLE journal (x)")
        with pytest.raises(sqlite3.OperationalError):
            migrate(db)

        assert version_of(db) == 0
        assert [name for (name,) in db.execute("SELECT name FROM sqlite_master")] == ["journal"]


def test_a_newer_programs_ledger_is_left_alone(make):
    ledger = make(VERSION)
    with closing(sqlite3.connect(ledger.path)) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")

    with pytest.raises(LedgerUnavailableError, match="made by a newer Wherry"):
        ledger.apps()
    with closing(sqlite3.connect(ledger.path)) as db:
        assert version_of(db) == VERSION + 1


def test_the_index_of_open_apps_leaves_out_the_states_in_which_apps_have_ended():
    states = ", ".join(str(int(state)) for state in sorted(TERMINAL_STATES))

    assert any(f"NOT IN ({states})" in text for step in MIGRATIONS for text in step)
