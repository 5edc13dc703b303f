"""The record of an app: whole or not there, one first wish, one end, later versions can read it."""

from __future__ import annotations

import json
import os
import threading

import pytest

from wherry.errors import LaunchError
from wherry.home import home, journal_path
from wherry.schedulers import journal
from wherry.schedulers.api import DescribeAppResponse
from wherry.schedulers.aws_batch.record import JobRef, Record, Wish, read_record, records
from wherry.specs import AppDef, AppState, AttemptStatus, ReplicaStatus, Role, RoleStatus, to_plain

APP = AppDef(
    "train", [Role("main", image="busybox", entrypoint="true", num_replicas=2)], array=True
)
APP_ID = "main:train-1m7ykpz1z1gwd"
ARN = "arn:aws:batch:eu-west-1:123456789012:job/6f1c"


def made(app_id: str = APP_ID, **fields: object) -> Record:
    given = {
        "app_id": app_id,
        "session": "tests",
        "name": "train",
        "created_at": 1000.0,
        "token": app_id.rpartition("-")[2],
        "queue": "main",
        "region": "eu-west-1",
        "kind": "array",
        "groups": [{"role": "main", "first": 0, "count": 2}],
        "parts": [{"name": "train-1m7ykpz1z1gwd", "first": 0, "count": 2}],
        "plain_app": to_plain(APP),
        **fields,
    }
    return Record(**given)  # type: ignore[arg-type]


def submitted() -> Record:
    record = made()
    record.create()
    record = record.with_jobs([JobRef("6f1c", ARN, "train-1m7ykpz1z1gwd", 0, 2)])
    record.save()
    return record


def answer(state: AppState = AppState.FAILED, msg: str = "it failed") -> DescribeAppResponse:
    attempt = AttemptStatus(1, state, 3, None, "exited with code 3", 1.0, 2.5, logs="g:s")
    replica = ReplicaStatus(0, state, "main", "host", reason="r", attempts=(attempt,))
    counted = ((AppState.SUCCEEDED, 1),)
    return DescribeAppResponse(
        APP_ID,
        state,
        msg=msg,
        ui_url="https://x",
        roles_statuses=(RoleStatus("main", (replica,), counted),),
        roles=tuple(APP.roles),
        app=APP,
        raw_state="FAILED",
        created_at=0.5,
        started_at=1.0,
        ended_at=2.5,
        metadata={"queue": "main"},
    )


def entries() -> list[dict[str, object]]:
    return journal.read(journal_path(), 0)[0]


def test_it_is_read_as_it_was_written():
    record = submitted()

    found = read_record(APP_ID)

    assert found == record
    assert found.app == APP
    assert found.handle == f"aws_batch://tests/{APP_ID}"
    assert found.account == "123456789012"
    assert found.is_submitted
    assert found.replicas == 2


def test_before_anything_is_sent_it_has_no_jobs():
    made().create()

    found = read_record(APP_ID)

    assert found is not None
    assert not found.is_submitted
    assert found.job_refs == ()


def test_it_is_nobody_elses_business():
    submitted()
    folder = f"{home()}/aws_batch/{APP_ID}"

    assert os.stat(folder).st_mode & 0o777 == 0o700
    assert os.stat(f"{folder}/app.json").st_mode & 0o777 == 0o600
    assert os.listdir(folder) == ["app.json"]


def test_there_is_one_of_an_id():
    made().create()

    with pytest.raises(LaunchError, match="was scheduled already"):
        made().create()


def test_a_folder_that_cannot_be_written_is_told(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WHERRY_HOME", str(tmp_path / "file"))

    with pytest.raises(LaunchError, match="cannot keep a record"):
        made().create()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"app_id": 1', "null"])
def test_half_a_record_is_none(text):
    submitted()
    with open(f"{home()}/aws_batch/{APP_ID}/app.json", "w") as file:
        file.write(text)

    assert read_record(APP_ID) is None
    assert list(records()) == []


def test_what_a_newer_version_adds_is_passed_over():
    record = submitted()
    path = f"{record.directory}/app.json"
    with open(path) as file:
        known = json.load(file)
    with open(path, "w") as file:
        json.dump({**known, "invented_later": 1}, file)

    assert read_record(APP_ID) == record


@pytest.mark.parametrize("app_id", ["", ".", "..", ".lately", "a/b", "no-such"])
def test_what_is_no_id_has_no_record(app_id):
    submitted()

    assert read_record(app_id) is None


def test_the_first_wish_counts():
    record = submitted()
    assert record.wish() is None

    first = record.note_wish(Wish("enough", 1000.0, {"6f1c": "UNDETERMINED"}))
    second = record.note_wish(Wish("too much", 1001.0))

    assert first == second == record.wish() == Wish("enough", 1000.0, {"6f1c": "UNDETERMINED"})


def test_the_last_answer_is_read_as_it_was_written():
    record = submitted()
    streams = [{"job": "6f1c:0", "stream": "s"}]

    record.note_last(answer(), complete=True, streams=streams)

    assert record.last() == (answer(), True)
    assert record.streams() == streams


def test_the_end_is_told_once_whoever_sees_it():
    record = submitted()
    seen = threading.Barrier(4)

    def see() -> None:
        seen.wait()
        record.note_last(answer(), complete=False)

    threads = [threading.Thread(target=see) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    told = [each for each in entries() if each["e"] == "ended"]
    assert [(each["handle"], each["state"], each["t"]) for each in told] == [
        (record.handle, "FAILED", 2.5)
    ]
    assert sorted(os.listdir(record.directory)) == ["app.json", "last.json"]


def test_a_complete_answer_takes_the_place_of_another():
    record = submitted()
    record.note_last(answer(msg="counted"), complete=False)

    record.note_last(answer(msg="all of it"), complete=True)
    record.note_last(answer(msg="counted again"), complete=False)

    assert record.last() == (answer(msg="all of it"), True)
    assert len(entries()) == 1


def test_a_record_that_was_removed_stays_so():
    record = submitted()
    record.remove()

    record.note_last(answer(), complete=True)

    assert not os.path.exists(record.directory)
    assert entries() == []


def test_an_answer_of_another_version_is_none():
    record = submitted()
    with open(f"{record.directory}/last.json", "w") as file:
        json.dump({"complete": True, "answer": {"state": "DANCING"}}, file)

    assert record.last() is None


def test_the_newest_comes_first():
    tokens = ["1m7ykpz1z1gwd", "1m7ykpz1z1gwe", "1m7ykpz1z2aaa"]
    for token in (tokens[1], tokens[0], tokens[2]):
        made(f"main:zz-{token}").create()

    assert [record.token for record in records()] == tokens[::-1]


def test_the_journal_is_told_of_a_new_app():
    submitted().announce()

    assert entries() == [
        {
            "e": "created",
            "handle": f"aws_batch://tests/{APP_ID}",
            "t": 1000.0,
            "name": "train",
            "replicas": 2,
        }
    ]
