"""What is known of an app is a fold over its events, whatever they are and wherever they stop."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wherry.schedulers.local.events import encode
from wherry.schedulers.local.record import Record, fold
from wherry.specs import AppState, is_terminal

RECORD = Record(
    directory="/records/app-1",
    app_id="app-1",
    session="s",
    scheduler="local_cwd",
    created_at=0.0,
    log_dir="/logs",
    plain_app={"name": "app", "roles": [{"name": "role", "entrypoint": "x", "num_replicas": 3}]},
)

scalars = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)


@given(st.dictionaries(st.text(), scalars))
def test_an_event_reads_back_as_it_was_written(fields: dict[str, Any]) -> None:
    fields = {name: v for name, v in fields.items() if v not in (float("inf"), float("-inf"))}

    line = encode(fields)

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == fields


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw what a supervisor may write: attempts that start, end and start again, and an end."""
    events: list[dict[str, Any]] = [{"e": "supervising", "pid": 1, "boot": ""}]
    attempts = [0, 0, 0]
    running: set[int] = set()
    for _ in range(draw(st.integers(0, 20))):
        k = draw(st.integers(0, 2))
        if k in running:
            code = draw(st.integers(0, 2))
            state = draw(st.sampled_from(["FAILED", "CANCELLED"])) if code else "SUCCEEDED"
            ended = {"e": "ended", "k": k, "n": attempts[k], "code": code, "sig": None}
            events.append({**ended, "role": "role", "state": state, "why": "because"})
            running.discard(k)
        else:
            attempts[k] += 1
            running.add(k)
            events.append({"e": "started", "role": "role", "k": k, "n": attempts[k], "pid": 2})
        if draw(st.integers(0, 9)) == 0:
            events.append({"e": "cancelling", "why": "somebody asked"})
    if draw(st.booleans()):
        state = draw(st.sampled_from(["SUCCEEDED", "FAILED", "CANCELLED"]))
        events.append({"e": "finished", "state": state, "why": "all over"})
    return [{"t": float(moment), **event} for moment, event in enumerate(events)]


@given(histories())
def test_counts_add_up_and_the_end_is_the_end(events: list[dict[str, Any]]) -> None:
    status = fold(RECORD, events).to_status()

    assert sum(status.counts().values()) == 3
    assert status.is_terminal() == (events[-1]["e"] == "finished")
    replicas = status.roles[0].replicas
    if status.is_terminal():
        assert all(is_terminal(replica.state) for replica in replicas)
        assert all(is_terminal(a.state) for replica in replicas for a in replica.attempts)
    started = [(event["k"], event["n"]) for event in events if event["e"] == "started"]
    known = [(replica.id, a.number) for replica in replicas for a in replica.attempts]
    assert sorted(known) == sorted(started)
    assert status.num_restarts == sum(number > 1 for _, number in started)


@given(histories(), st.data())
def test_no_prefix_of_a_history_is_ahead_of_it(
    events: list[dict[str, Any]], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(events)))

    before, after = fold(RECORD, events[:cut]), fold(RECORD, events)

    attempts = [len(replica.attempts) for replica in before.roles_statuses[0].replicas]
    later = [len(replica.attempts) for replica in after.roles_statuses[0].replicas]
    assert all(few <= many for few, many in zip(attempts, later, strict=True))
    if is_terminal(before.state):
        assert before == after


@given(histories(), histories())
def test_nothing_follows_the_end(events: list[dict[str, Any]], more: list[dict[str, Any]]) -> None:
    finished = {"e": "finished", "t": 99.0, "state": "CANCELLED", "why": "stop"}

    once = fold(RECORD, [*events, finished])
    again = fold(RECORD, [*events, finished, *more])

    assert once == again


def test_events_of_a_newer_version_are_passed_over() -> None:
    events = [{"e": "supervising", "t": 0.0}, {"e": "teleported", "t": 1.0, "to": "the moon"}]

    assert fold(RECORD, events).state is AppState.SUBMITTED
