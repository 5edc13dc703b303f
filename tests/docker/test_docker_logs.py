"""Logs of containers: by the record, and by the Engine alone."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from support.docker_bench import Bench
from support.waiting import until
from wherry.errors import UnknownNameError
from wherry.schedulers.api import Stream
from wherry.schedulers.docker import DockerScheduler

Reader = Callable[[str], DockerScheduler]


@pytest.fixture(params=["record", "engine"])
def reader(
    request: pytest.FixtureRequest, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Reader]:
    """Give the scheduler that reads an app: the one that has its record, or one that has none."""

    def by_record(_: str) -> DockerScheduler:
        return bench.scheduler

    def by_engine(_: str) -> DockerScheduler:
        monkeypatch.setenv("WHERRY_HOME", str(tmp_path / "another-home"))
        return DockerScheduler("elsewhere")

    home = os.environ["WHERRY_HOME"]
    yield by_record if request.param == "record" else by_engine
    monkeypatch.setenv("WHERRY_HOME", home)


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=timezone.utc)


def test_streams_are_told_apart(bench: Bench, reader: Reader) -> None:
    app_id = bench.run("echo out; echo err >&2").app_id
    seen = reader(app_id)

    def read(stream: Stream) -> list[str]:
        return list(seen.log_iter(app_id, "role", streams=stream))

    assert read(Stream.STDOUT) == ["out\n"]
    assert read(Stream.STDERR) == ["err\n"]
    assert sorted(read(Stream.COMBINED)) == ["err\n", "out\n"]
    with pytest.raises(ValueError, match="sideways"):
        seen.log_iter(app_id, "role", streams="sideways")  # type: ignore[arg-type]


def test_spans_of_time(bench: Bench, reader: Reader) -> None:
    app_id = bench.start(
        "echo early; until [ -e /tmp/go ]; do sleep 0.05; done; echo late", {"init": False}
    )
    bench.wait_for_line(app_id, "early")
    time.sleep(0.2)  # a span of time is what this is about
    between = moment(time.time())
    time.sleep(0.2)
    # The container may be over before its `touch` is.
    touch = f"docker exec {bench.containers(app_id)[0]['Id']} touch /tmp/go"
    subprocess.run(touch.split(), check=False)
    bench.end(app_id)
    seen = reader(app_id)

    assert list(seen.log_iter(app_id, "role", since=between)) == ["late\n"]
    assert list(seen.log_iter(app_id, "role", until=between)) == ["early\n"]
    tail = seen.log_iter(app_id, "role", since=between, should_tail=True)
    assert list(tail) == ["late\n"]


def test_a_tail_follows_to_the_last_line(bench: Bench, reader: Reader) -> None:
    app_id = bench.start("for i in 1 2 3; do echo $i; sleep 0.2; done; printf end")
    seen = reader(app_id)

    assert list(seen.log_iter(app_id, "role", should_tail=True)) == ["1\n", "2\n", "3\n", "end"]


def test_all_attempts_are_read_in_their_order(bench: Bench, reader: Reader) -> None:
    app_id = bench.run(
        "echo $WHERRY_ATTEMPT; [ $WHERRY_ATTEMPT = 3 ]", array=True, max_retries=2
    ).app_id
    seen = reader(app_id)

    assert list(seen.log_iter(app_id, "role")) == ["1\n", "2\n", "3\n"]
    assert list(seen.log_iter(app_id, "role", attempt=2)) == ["2\n"]
    assert list(seen.log_iter(app_id, "role", should_tail=True)) == ["1\n", "2\n", "3\n"]
    with pytest.raises(UnknownNameError, match="made 3"):
        list(seen.log_iter(app_id, "role", attempt=4))


def test_bytes_stay_as_they_are(bench: Bench, reader: Reader) -> None:
    app_id = bench.run(r"printf '\377\200 caf\303\251\r50%%\r100%%\n\001end\n'").app_id
    seen = reader(app_id)

    data = b"\xff\x80 caf\xc3\xa9\r50%\r100%\n\x01end\n"
    assert b"".join(seen.log_bytes(app_id, "role")) == data
    assert list(seen.log_iter(app_id, "role")) == [
        "\\xff\\x80 café\r50%\r100%\n",
        "\x01end\n",
    ]


def test_long_lines_are_not_split(bench: Bench, reader: Reader) -> None:
    app_id = bench.run("head -c 200000 /dev/zero | tr '\\0' x; echo; echo next").app_id

    lines = list(reader(app_id).log_iter(app_id, "role"))

    assert [len(line) for line in lines] == [200_001, 5]


def test_lines_can_be_sought(bench: Bench, reader: Reader) -> None:
    app_id = bench.run("seq 0 99").app_id

    lines = reader(app_id).log_iter(app_id, "role")

    assert lines[50] == "50\n"
    assert next(lines) == "51\n"
    assert lines[10] == "10\n"


def test_following_takes_all_replicas_at_once(bench: Bench, reader: Reader) -> None:
    app_id = bench.start("for i in 1 2; do echo $WHERRY_REPLICA_ID.$i; sleep 0.2; done", replicas=3)

    chunks = list(reader(app_id).follow(app_id))

    told = {k: b"".join(c.data for c in chunks if c.replica == k) for k in range(3)}
    assert told == {k: f"{k}.1\n{k}.2\n".encode() for k in range(3)}
    assert all(chunk.data.endswith(b"\n") for chunk in chunks)


def test_a_hundred_megabytes_are_read_line_by_line(bench: Bench, reader: Reader) -> None:
    line = "all work and no play makes a dull line of a log, " * 20
    app_id = bench.run(f"yes '{line}' | head -n 100000").app_id

    lines = reader(app_id).log_iter(app_id, "role")
    lengths = {len(text) for text in lines}

    assert lengths == {len(line) + 1}
    assert lines[99_999] == line + "\n"
    assert next(lines, None) is None


def test_an_idle_tail_ends_when_the_app_is_cancelled(bench: Bench, reader: Reader) -> None:
    app_id = bench.start("echo ready; sleep 1000")
    bench.wait_for_line(app_id, "ready")
    lines = reader(app_id).log_iter(app_id, "role", should_tail=True)
    assert next(lines) == "ready\n"

    DockerScheduler("third").cancel(app_id, kill=True)

    assert list(lines) == []
    until(lambda: not bench.running(app_id), "its end")
