"""What programs write, and how it is read."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from support.local_bench import Bench, until
from wherry.errors import UnknownAppError, UnknownNameError, UsageError
from wherry.schedulers.api import Stream
from wherry.specs import AppState

PYTHON_WRITER = """
import os
for i in range(3000):
    os.write(1 + (i * 7919 % 3 == 0), b"%d\\n" % i)
"""


def test_the_streams_are_kept_apart_and_together(bench: Bench) -> None:
    app_id = bench.run("echo a; echo b >&2; echo c; echo d >&2").app_id

    assert bench.log(app_id, stream="stdout") == "a\nc\n"
    assert bench.log(app_id, stream="stderr") == "b\nd\n"
    assert bench.log(app_id, stream="combined") == "a\nb\nc\nd\n"


def test_the_combined_log_is_in_the_order_of_writing(bench: Bench) -> None:
    (bench.folder / "writer.py").write_text(PYTHON_WRITER)
    app_id = bench.run("python3 writer.py").app_id

    assert [int(line) for line in bench.log(app_id).splitlines()] == list(range(3000))


def test_a_flood_with_a_last_word_on_the_other_stream_keeps_its_order(bench: Bench) -> None:
    app_id = bench.run("seq 200000; echo the end >&2").app_id

    lines = bench.log(app_id).splitlines()
    assert lines[-1] == "the end"
    assert lines[:-1] == [str(number) for number in range(1, 200001)]


def test_a_gigabyte_without_a_newline_is_kept_whole(bench: Bench) -> None:
    size = 64 << 20  # `make soak` writes the whole gigabyte.
    ended = bench.run(f"head -c {size} /dev/zero | tr '\\0' x")

    pieces = bench.scheduler.log_bytes(ended.app_id, "role")
    assert sum(len(piece) for piece in pieces) == size


def test_bytes_that_are_not_utf8_survive(bench: Bench) -> None:
    app_id = bench.run(r"printf 'ok\n\377\376 bad\nok\n'").app_id

    assert bench.log(app_id) == "ok\n\\xff\\xfe bad\nok\n"
    assert b"".join(bench.scheduler.log_bytes(app_id, "role")) == b"ok\n\xff\xfe bad\nok\n"


def test_progress_bars_and_white_space_survive(bench: Bench) -> None:
    app_id = bench.run(r"printf '10%%\r20%%\r\n\n  indented\t\nno newline'").app_id

    lines = list(bench.scheduler.log_iter(app_id, "role"))
    assert lines == ["10%\r20%\r\n", "\n", "  indented\t\n", "no newline"]


def test_a_program_that_closes_its_streams_is_no_trouble(bench: Bench) -> None:
    ended = bench.run("echo before; exec >&- 2>&-; sleep 0.2; exit 3")

    assert bench.log(ended.app_id) == "before\n"
    assert ended.to_status().exit_code == 3


def test_a_program_may_reopen_its_streams_by_name(bench: Bench) -> None:
    app_id = bench.run("echo one > /dev/stdout; echo two >> /dev/stderr; echo three").app_id

    assert sorted(bench.log(app_id).split()) == ["one", "three", "two"]
    assert bench.log(app_id, stream="stdout") == "one\nthree\n"


def test_lines_that_a_left_behind_child_still_writes_are_kept(bench: Bench) -> None:
    app_id = bench.run("(sleep 0.1; echo late) & echo early").app_id

    assert bench.log(app_id) == "early\nlate\n"


def test_an_index_seeks(bench: Bench) -> None:
    app_id = bench.run("seq 0 99").app_id
    lines = bench.scheduler.log_iter(app_id, "role")

    assert lines[50] == "50\n"
    assert next(lines) == "51\n"
    assert lines[10] == "10\n"
    assert lines[97:] == ["97\n", "98\n", "99\n"]
    with pytest.raises(IndexError, match="100 lines"):
        lines[200]
    with pytest.raises(IndexError):
        lines[-1]


def test_a_regular_expression_chooses_lines(bench: Bench) -> None:
    app_id = bench.run("seq 1 100").app_id

    assert bench.log(app_id, regex="^9.$").split() == [str(n) for n in range(90, 100)]
    with pytest.raises(UsageError, match="regular expression"):
        bench.scheduler.log_iter(app_id, "role", regex="(")


def test_reading_without_tail_does_not_wait(bench: Bench) -> None:
    app_id = bench.start(bench.app("echo first; sleep 60"))
    bench.wait_for_line(app_id, "first")

    assert list(bench.scheduler.log_iter(app_id, "role")) == ["first\n"]
    described = bench.scheduler.describe(app_id)
    assert described is not None
    assert described.state is AppState.RUNNING


def test_a_tail_ends_after_the_last_line(bench: Bench) -> None:
    app_id = bench.start(bench.app("echo 1; sleep 0.2; echo 2; sleep 0.2; printf 3"))

    assert list(bench.scheduler.log_iter(app_id, "role", should_tail=True)) == ["1\n", "2\n", "3"]


def test_a_tail_goes_through_all_attempts(bench: Bench) -> None:
    app = bench.app("echo $WHERRY_ATTEMPT; sleep 0.1; exit 1", max_retries=2)
    app_id = bench.start(app)

    lines = list(bench.scheduler.log_iter(app_id, "role", should_tail=True))
    assert lines == ["1\n", "2\n", "3\n"]


def test_a_tail_shows_a_progress_bar_while_it_moves(bench: Bench) -> None:
    script = (
        r"printf '10%%\r20%%\r30%%'; while ! test -e go; do sleep 0.02; done; printf '\rdone\n'"
    )
    app_id = bench.start(bench.app(script))

    lines = bench.scheduler.log_iter(app_id, "role", should_tail=True)
    assert next(lines) == "10%\r20%\r"
    (bench.folder / "go").touch()
    assert "".join(lines) == "30%\rdone\n"


def test_since_and_until_choose_by_time(bench: Bench) -> None:
    script = "echo old; touch old; while ! test -e go; do sleep 0.02; done; echo new"
    app_id = bench.start(bench.app(script))
    bench.wait_for_line(app_id, "old")
    until(lambda: (bench.folder / "old").exists(), "the first line")
    between = datetime.now(timezone.utc) + timedelta(milliseconds=50)
    until(lambda: datetime.now(timezone.utc) > between + timedelta(milliseconds=50), "the clock")
    (bench.folder / "go").touch()
    bench.end(app_id)

    assert bench.log(app_id, since=between) == "new\n"
    assert bench.log(app_id, until=between) == "old\n"
    assert bench.log(app_id, since=between, until=between) == ""
    assert bench.log(app_id, since=between, should_tail=True) == "new\n"


def test_an_unknown_app_role_or_replica_is_an_error(bench: Bench) -> None:
    app_id = bench.run("true", replicas=2).app_id

    with pytest.raises(UnknownAppError, match="nobody-1"):
        bench.scheduler.log_iter("nobody-1", "role")
    with pytest.raises(UnknownNameError, match="did you mean 'role'"):
        bench.scheduler.log_iter(app_id, "rol")
    with pytest.raises(UnknownNameError, match="replicas 0 to 1"):
        bench.scheduler.log_iter(app_id, "role", 2)


def test_an_unknown_stream_is_a_value_error(bench: Bench) -> None:
    app_id = bench.run("true").app_id

    with pytest.raises(ValueError, match="both"):
        bench.scheduler.log_iter(app_id, "role", streams=Stream("both"))


def test_following_hands_out_every_byte_of_every_replica(bench: Bench) -> None:
    app = bench.app("seq 1 5000; printf unfinished", replicas=8, array=True)
    app_id = bench.start(app)
    written: dict[int, bytes] = {}
    for chunk in bench.scheduler.follow(app_id):
        written[chunk.replica] = written.get(chunk.replica, b"") + chunk.data

    expected = b"".join(b"%d\n" % n for n in range(1, 5001)) + b"unfinished\n"
    assert written == dict.fromkeys(range(8), expected)


def test_following_one_replica_hands_out_bytes_as_they_come(bench: Bench) -> None:
    app_id = bench.start(bench.app("printf 'half a li'; while ! test -e go; do sleep 0.02; done"))
    chunks = bench.scheduler.follow(app_id)

    assert next(chunks).data == b"half a li"
    (bench.folder / "go").touch()
    assert list(chunks) == []


def test_many_may_follow_at_once(bench: Bench) -> None:
    app_id = bench.start(bench.app("seq 1 20000"))
    texts: list[str] = []

    def follow() -> None:
        texts.append(b"".join(c.data for c in bench.scheduler.follow(app_id)).decode())

    threads = [threading.Thread(target=follow) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert texts == ["".join(f"{n}\n" for n in range(1, 20001))] * 4


def test_the_log_folder_may_be_full_of_foreign_things(bench: Bench) -> None:
    folder = bench.folder / "logs"
    folder.mkdir()
    (folder / "mine").write_text("precious")

    bench.run(bench.app("echo x"), log_dir=str(folder))

    assert (folder / "mine").read_text() == "precious"
    assert Path(folder / "mine").exists()
