"""The ledger: filled from the journal, rebuilt from the schedulers, never the only copy."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.home import journal_path
from wherry.runner import Ledger
from wherry.runner.ledger import LedgerUnavailableError, prunable
from wherry.schedulers.api import ListAppResponse, ListFilter
from wherry.specs import AppState

S = AppState


def ids(apps: list[ListAppResponse]) -> list[str]:
    return [app.app_id for app in apps]


def synced(ledger: Ledger, *args) -> list[str]:
    ledger.sync()
    return ids(ledger.apps(*args))


def write(notes, *entries: object) -> None:
    notes.parent.mkdir(exist_ok=True)
    with notes.open("ab") as file:
        for entry in entries:
            file.write(entry if isinstance(entry, bytes) else json.dumps(entry).encode() + b"\n")


def created(app_id: str, at: object = 1.0, **more) -> dict:
    return {"e": "created", "handle": f"desk://w/{app_id}", "name": "n", "t": at, **more}


def ended(app_id: str, state: str = "SUCCEEDED", **more) -> dict:
    return {"e": "ended", "handle": f"desk://w/{app_id}", "state": state, "t": 9.0, **more}


# The journal


def test_the_journal_is_where_the_schedulers_write_it(own_home, notes):
    assert journal_path() == str(notes)


def test_the_journal_becomes_rows_newest_first(notes):
    write(notes, created("a-1", 1), created("b-2", 3, replicas=4), created("c-3", 2))
    write(notes, ended("b-2", "FAILED", msg="exit code 3"))
    ledger = Ledger()
    ledger.sync()

    b, c, a = ledger.apps()

    assert (a.app_id, c.app_id) == ("a-1", "c-3")
    assert b == ListAppResponse(
        "b-2", S.FAILED, "desk://w/b-2", "n", 3.0, 9.0, "exit code 3", 4, "w"
    )
    assert (a.state, a.ended_at) == (S.SUBMITTED, None)


def test_only_what_is_new_is_read_and_nothing_twice(notes):
    ledger = Ledger()
    write(notes, created("a-1"))
    assert synced(ledger) == ["a-1"]
    ledger.forget(["desk://w/a-1"])

    assert synced(ledger) == []
    write(notes, created("b-2"), ended("a-1"))
    assert synced(ledger) == ["b-2"]


def test_an_end_that_is_written_before_the_beginning_counts(notes):
    write(notes, ended("a-1", "CANCELLED"), created("a-1"))
    ledger = Ledger()
    ledger.sync()

    assert [app.state for app in ledger.apps()] == [S.CANCELLED]


def test_a_line_that_is_half_written_is_read_when_it_is_whole(notes):
    line = json.dumps(created("a-1")).encode() + b"\n"
    ledger = Ledger()
    for cut in (1, len(line) - 1):
        notes.unlink(missing_ok=True)
        write(notes, line[:cut])
        assert synced(ledger) == []
        write(notes, line[cut:])
        assert synced(ledger) == ["a-1"]
        ledger.forget(["desk://w/a-1"])


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b"\xff\xfe\n",
        b"[1, 2]\n",
        b"{}\n",
        b'{"e": "created"}\n',
        b'{"e": "created", "handle": 5}\n',
        b'{"e": "created", "handle": "no handle"}\n',
        b'{"e": "ended", "handle": "desk://w/a-1", "state": ["FAILED"]}\n',
        b'{"e": "ended", "handle": "desk://w/a-1", "state": "RUNNING"}\n',
        b'{"e": "ended", "handle": "desk://w/unheard-of", "state": "FAILED"}\n',
        b'{"e": "something newer", "handle": "desk://w/a-1"}\n',
    ],
)
def test_a_line_that_makes_no_sense_is_passed_over(notes, line):
    write(notes, created("a-1"), line, created("b-2", 2))
    ledger = Ledger()
    ledger.sync()

    assert [(app.app_id, app.state) for app in ledger.apps()] == [
        ("b-2", S.SUBMITTED),
        ("a-1", S.SUBMITTED),
    ]


def test_values_of_another_type_than_expected_do_no_harm(notes):
    write(notes, created("a-1", at="noon", name=None, replicas="2"))
    ledger = Ledger()
    ledger.sync()

    (app,) = ledger.apps()
    assert (app.name, app.created_at, app.replicas) == ("a-1", None, 0)


def test_a_reason_with_a_file_name_that_is_not_text_can_be_kept(notes):
    write(notes, created("a-1"), ended("a-1", "FAILED", msg="no file \udcff\udcfe é"))
    ledger = Ledger()
    ledger.sync()
    assert [app.msg for app in ledger.apps()] == ["no file ?? é"]

    write(notes, created("b-2", 2))
    ledger.sync()
    ledger.mark("desk://w/b-2", S.FAILED, msg="\udcff")
    assert ledger.apps()[0].msg == "?"


@pytest.mark.parametrize("more", [0, 1, 5])
def test_a_journal_that_was_emptied_is_read_from_its_beginning(notes, more):
    """Also when it has grown to its former size, or beyond."""
    write(notes, created("a-1"), created("b-2", 2))
    ledger = Ledger()
    ledger.sync()
    size = notes.stat().st_size

    os.truncate(notes, 0)
    write(notes, created("c-3", 3))
    while more and notes.stat().st_size < size * more:
        write(notes, created(f"d-{notes.stat().st_size}", 4))

    apps = synced(ledger)
    assert apps[-3:] == ["c-3", "b-2", "a-1"]
    assert len(apps) == 2 + notes.read_bytes().count(b"\n")
    assert synced(ledger) == apps


# What is listed


SOME = [
    created("train-1", 1),
    created("train-2", 2, name="train"),
    created("test-3", 3, name="tr%in"),
    {**created("test-4", 4), "handle": "other://s/test-4"},
]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (ListFilter(), ["test-4", "test-3", "train-2", "train-1"]),
        (ListFilter(limit=2), ["test-4", "test-3"]),
        (ListFilter(limit=0), []),
        (ListFilter(name="tr"), ["test-3", "train-2"]),
        (ListFilter(name="tr%"), ["test-3"]),
        (ListFilter(session="s"), ["test-4"]),
        (ListFilter(since=3), ["test-4", "test-3"]),
        (ListFilter(states=frozenset({S.FAILED})), ["train-2"]),
        (ListFilter(states=frozenset({S.FAILED, S.SUBMITTED}), since=2, limit=2, session="w"), 2),
    ],
)
def test_filters(notes, chosen, expected):
    write(notes, *SOME, ended("train-2", "FAILED"))
    ledger = Ledger()

    found = synced(ledger, chosen)

    assert found == (["test-3", "train-2"] if expected == 2 else expected)
    assert synced(ledger, chosen, "other") == [i for i in found if i == "test-4"]


states = st.sampled_from(list(S))
apps = st.lists(
    st.builds(
        ListAppResponse,
        app_id=st.text("ab", min_size=1, max_size=2),
        state=states,
        name=st.sampled_from(["a", "ab", "b"]),
        created_at=st.none() | st.floats(0, 3),
        session=st.sampled_from(["", "s"]),
    ),
    unique_by=lambda app: app.app_id,
)
filters = st.builds(
    ListFilter,
    states=st.frozensets(states, max_size=3),
    name=st.sampled_from(["", "a", "ab"]),
    session=st.none() | st.sampled_from(["", "s"]),
    since=st.none() | st.floats(0, 3),
    limit=st.none() | st.integers(0, 3),
)


@given(apps=apps, chosen=filters)
def test_the_ledger_chooses_as_the_filter_itself_does(tmp_path_factory, apps, chosen):
    desk = SimpleNamespace(recorded=lambda: iter(apps))
    ledger = Ledger(str(tmp_path_factory.mktemp("home")))
    ledger.rebuild({"desk": desk})

    expected = [app for app in apps if chosen.accepts(app)]
    expected.sort(key=lambda app: -1 if app.created_at is None else app.created_at, reverse=True)

    assert [app.app_id for app in ledger.apps(chosen)] == ids(expected)[: chosen.limit]


def test_an_app_is_found_by_the_beginning_of_its_id(notes):
    write(notes, created("train-1", 1), created("train-12", 2), created("Train_3", 3))
    ledger = Ledger()
    ledger.sync()

    assert ledger.beginning_with("train-1") == [
        ("train-12", "desk://w/train-12"),
        ("train-1", "desk://w/train-1"),
    ]
    assert ledger.beginning_with("train_") == []


# What is learned


def test_an_app_that_has_ended_stays_as_it_is(notes):
    write(notes, created("a-1"))
    ledger = Ledger()
    ledger.sync()

    ledger.mark("desk://w/a-1", S.RUNNING)
    assert ledger.apps()[0].state is S.RUNNING
    ledger.mark("desk://w/a-1", S.FAILED, msg="supervisor lost", ended_at=5.0)
    ledger.mark("desk://w/a-1", S.RUNNING, msg="late news")

    (app,) = ledger.apps()
    assert (app.state, app.msg, app.ended_at) == (S.FAILED, "supervisor lost", 5.0)


def test_the_journals_word_on_an_end_is_the_last(notes):
    write(notes, created("a-1"))
    ledger = Ledger()
    ledger.sync()
    ledger.mark("desk://w/a-1", S.FAILED)
    write(notes, ended("a-1", "FAILED", msg="exit code 2"))
    ledger.sync()

    assert [(app.msg, app.ended_at) for app in ledger.apps()] == [("exit code 2", 9.0)]


# Rebuilding


def test_a_rebuilt_ledger_says_what_the_schedulers_say(notes, desk):
    write(notes, created("gone-1"), ended("gone-1"))
    desk.add("a-1", at=1.0, replicas=3)
    desk.add("b-2", at=2.0)
    desk.end("a-1", S.FAILED, "why")
    ledger = Ledger()
    ledger.sync()

    assert ledger.rebuild({"desk": desk}) == []

    assert ledger.apps() == list(desk.list())
    assert synced(ledger) == ["b-2", "a-1"]


def test_what_happens_while_the_schedulers_list_is_not_lost(desk):
    desk.add("a-1")
    listed = desk.list

    def list_slowly(chosen=None):
        yield from listed()
        desk.end("a-1", S.SUCCEEDED)
        desk.add("b-2")

    desk.list = list_slowly
    ledger = Ledger()
    ledger.rebuild({"desk": desk})
    ledger.sync()

    assert {app.app_id: app.state for app in ledger.apps()} == {
        "a-1": S.SUCCEEDED,
        "b-2": S.SUBMITTED,
    }


def test_a_scheduler_that_cannot_answer_keeps_its_rows(notes, desk, cloud):
    write(notes, created("a-1"))
    cloud.add("c-3")
    ledger = Ledger()
    ledger.sync()
    desk.down = ConnectionError("no route")

    problems = ledger.rebuild({"desk": desk, "cloud": cloud})

    assert problems == ["scheduler desk could not list its apps: ConnectionError: no route"]
    assert sorted(synced(ledger)) == ["a-1", "c-3"]


def test_a_missing_ledger_is_rebuilt_once_and_forgotten_apps_stay_forgotten(notes, desk):
    write(notes, created("pruned-1"), ended("pruned-1"))
    desk.add("a-1")
    ledger = Ledger(sources=lambda: {"desk": desk})

    assert synced(ledger) == ["a-1"]
    desk.list = None
    assert synced(Ledger(sources=lambda: {"desk": desk})) == ["a-1"]


def test_a_missing_ledger_learns_from_the_journal_of_schedulers_that_do_not_answer(notes, desk):
    write(notes, {**created("b-1"), "handle": "elsewhere://w/b-1"})
    desk.add("a-1")
    desk.end("a-1", S.FAILED)
    desk.down = ConnectionError("no route")
    ledger = Ledger(sources=lambda: {"desk": desk})

    assert sorted(synced(ledger)) == ["a-1", "b-1"]
    assert {app.state for app in ledger.apps()} == {S.FAILED, S.SUBMITTED}
    assert ledger.problems == ["scheduler desk could not list its apps: ConnectionError: no route"]


DAMAGES = {
    "text": lambda data: b"this is no database" * 99,
    "one byte": lambda data: b"x",
    "beginning": lambda data: b"\0" * 16 + data[16:],
    "page": lambda data: data[:4096] + b"\xff" * 4096 + data[8192:],
    "rows": lambda data: data[:100] + b"\xee" * 3996 + data[4096:],
    "end": lambda data: data[: len(data) // 2],
    "nothing left": lambda data: b"",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_broken_ledger_is_moved_aside_and_made_again(desk, damage):
    for number in range(50):
        desk.add(f"a-{number:02}", at=float(number))
    ledger = Ledger(sources=lambda: {"desk": desk})
    assert len(synced(ledger)) == 50
    with open(ledger.path, "rb") as file:
        data = file.read()
    broken = DAMAGES[damage](data)
    with open(ledger.path, "wb") as file:
        file.write(broken)

    again = Ledger(sources=lambda: {"desk": desk})

    assert synced(again) == [f"a-{number:02}" for number in reversed(range(50))]
    assert again.problems == []
    desk.add("b-1", at=99.0)
    assert synced(ledger)[0] == "b-1"
    if damage not in ("one byte", "nothing left"):  # which SQLite takes for a new file
        with open(f"{ledger.path}.broken", "rb") as file:
            assert file.read() == broken


def test_a_ledger_that_lacks_a_table_is_made_again(desk):
    desk.add("a-1")
    ledger = Ledger(sources=lambda: {"desk": desk})
    ledger.sync()
    with closing(sqlite3.connect(ledger.path)) as db:
        db.execute("DROP TABLE apps")

    assert synced(ledger) == ["a-1"]


# Where no ledger can be


@pytest.mark.parametrize("home", ["/dev/null/wherry", "/proc/wherry"])
def test_a_home_that_cannot_be_written_is_said_to_be_so(home):
    with pytest.raises(LedgerUnavailableError, match=f"{home}/ledger.sqlite3 cannot be used"):
        Ledger(home).sync()


def test_a_folder_in_the_ledgers_place_is_said_to_be_so(own_home):
    (own_home / "ledger.sqlite3").mkdir(parents=True)

    with pytest.raises(LedgerUnavailableError):
        Ledger().apps()


def test_making_a_ledger_touches_nothing(own_home):
    Ledger()

    assert not own_home.exists()


# What may go


NOW = 1000.0
OLD = ListAppResponse("old-1", S.SUCCEEDED, created_at=10.0, ended_at=100.0)
NEW = ListAppResponse("new-2", S.FAILED, created_at=10.0, ended_at=950.0)
LOST = ListAppResponse("lost-3", S.EXPIRED, created_at=20.0)
BLANK = ListAppResponse("blank-4", S.CANCELLED)
BUSY = ListAppResponse("busy-5", S.RUNNING, created_at=1.0)
ALL = [OLD, NEW, LOST, BLANK, BUSY]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, [OLD, NEW, LOST, BLANK]),
        ({"older_than": 0}, [OLD, NEW, LOST]),
        ({"older_than": 900}, [OLD, LOST]),
        ({"older_than": 901}, [LOST]),
        ({"states": frozenset({S.FAILED, S.CANCELLED})}, [NEW, BLANK]),
        ({"states": frozenset({S.RUNNING})}, []),
        ({"states": frozenset({S.FAILED}), "older_than": 60}, []),
    ],
)
def test_only_apps_that_have_ended_and_are_old_enough_may_go(wanted, expected):
    assert prunable(ALL, now=NOW, **wanted) == expected
