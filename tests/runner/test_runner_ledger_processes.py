"""Many processes and one ledger: nothing is lost, nothing is doubled, whoever is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from wherry.runner import Ledger
from wherry.schedulers import journal
from wherry.specs import AppState

READERS, WRITERS, APPS = 3, 2, 300

WRITE = """
import json, sys
from wherry.schedulers import journal
path, writer, apps = sys.argv[1], sys.argv[2], int(sys.argv[3])
for number in range(apps):
    handle = f"desk://w/{writer}-{number}"
    for entry in ({"e": "created", "handle": handle, "name": writer, "replicas": 1, "t": number},
                  {"e": "ended", "handle": handle, "state": "SUCCEEDED", "t": number}):
        journal.append(path, json.dumps(entry).encode() + b"\\n")
"""

READ = """
import sys
from wherry.runner import Ledger
ledger = Ledger()
print("ready", flush=True)
wanted = int(sys.argv[1])
while len(ledger.apps()) < wanted:
    ledger.sync()
"""

SYNC_AND_DIE = """
import os, signal, sqlite3, sys
from wherry.runner import Ledger

real_connect = sqlite3.connect
seen = 0

def die(statement):
    global seen
    seen += statement.strip().startswith(sys.argv[1])
    if seen == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

def connect(*args, **kwargs):
    db = real_connect(*args, **kwargs)
    db.set_trace_callback(die)
    return db

sqlite3.connect = connect
Ledger().sync()
"""


@pytest.fixture
def start() -> Iterator:
    """Start Python programs; what still runs at the end is killed by its id."""
    started: list[subprocess.Popen] = []

    def begin(program: str, *args: object) -> subprocess.Popen:
        command = [sys.executable, "-c", program, *map(str, args)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def write_apps(notes, count: int) -> None:
    notes.parent.mkdir(exist_ok=True)
    for number in range(count):
        handle = f"desk://w/a-{number}"
        for entry in (
            {"e": "created", "handle": handle, "name": "a", "replicas": 1, "t": number},
            {"e": "ended", "handle": handle, "state": "FAILED", "t": number},
        ):
            journal.append(str(notes), json.dumps(entry).encode() + b"\n")


def test_readers_and_writers_at_once_lose_nothing_and_double_nothing(notes, start):
    notes.parent.mkdir()
    readers = [start(READ, WRITERS * APPS) for _ in range(READERS)]
    for reader in readers:
        assert reader.stdout.readline() == "ready\n"
    writers = [start(WRITE, notes, f"writer{number}", APPS) for number in range(WRITERS)]

    assert [process.wait() for process in writers + readers] == [0] * (READERS + WRITERS)

    ledger = Ledger()
    ledger.sync()
    apps = ledger.apps()
    expected = {f"writer{w}-{number}" for w in range(WRITERS) for number in range(APPS)}
    assert len(apps) == len(expected)
    assert {app.app_id for app in apps} == expected
    assert {app.state for app in apps} == {AppState.SUCCEEDED}


@pytest.mark.parametrize(
    ("statement", "nth"),
    [
        ("CREATE TABLE", 2),
        ("PRAGMA user_version =", 1),
        ("INSERT OR IGNORE INTO apps", 1),
        ("INSERT OR IGNORE INTO apps", 150),
        ("UPDATE apps", 150),
        ("UPDATE journal", 1),
        ("COMMIT", 1),
        ("COMMIT", 2),
    ],
)
def test_a_reader_that_is_killed_leaves_a_right_ledger(notes, start, statement, nth):
    write_apps(notes, 200)

    assert start(SYNC_AND_DIE, statement, nth).wait() == -signal.SIGKILL

    ledger = Ledger()
    assert len(ledger.apps()) == 0
    ledger.sync()
    assert [app.app_id for app in ledger.apps()] == [f"a-{n}" for n in reversed(range(200))]
    assert {app.state for app in ledger.apps()} == {AppState.FAILED}


def test_a_fork_and_its_parent_may_use_the_same_ledger(notes):
    write_apps(notes, 3)
    ledger = Ledger()
    ledger.sync()
    child = os.fork()
    if child == 0:
        ledger.mark("desk://w/a-0", AppState.RUNNING)
        ledger.forget(["desk://w/a-1"])
        os._exit(0 if len(ledger.apps()) == 2 else 1)

    assert os.waitpid(child, 0)[1] == 0
    assert [app.app_id for app in ledger.apps()] == ["a-2", "a-0"]


def test_many_that_find_the_ledger_broken_at_once_make_it_again(own_home, notes, start):
    write_apps(notes, 50)
    (own_home / "ledger.sqlite3").write_bytes(b"this is no database" * 99)

    readers = [start(READ, 50) for _ in range(4)]

    assert [reader.wait() for reader in readers] == [0] * 4
    assert len(Ledger().apps()) == 50
