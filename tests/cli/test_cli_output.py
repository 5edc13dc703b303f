"""Control codes of others, colours, and lines of several replicas."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.cli.output import Cleaner, Paint, clean, one_line
from wherry.cli.sinks import Sink, goes_to_same_place

PIECES = (
    *(b"\x1b", b"[", b"]", b"0;t", b"31m", b"\x07", b"\\", b"\n", b"\r", b"\t", b"\xc2\x9b"),
    *(b"\xc2", b"\x9d", b"abc", b"\xe2\x82\xac", b"\xff", b"\x00", b"P", b" ", b"m"),
)
ANY_BYTES = st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\x1b[31mred\x1b[0m", b"red"),
        (b"\x1b]0;title\x07text", b"text"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", b"link"),
        (b"\x1bPdevice\x1b\\text", b"text"),
        (b"\x1bcreset", b"reset"),
        (b"\x1b(Btext", b"text"),
        (b"\xc2\x9b31mred", b"red"),
        (b"bell\x07 back\x08 null\x00", b"bell back null"),
        (b"tab\tline\nbar\r", b"tab\tline\nbar\r"),
        ("é € 漢".encode(), "é € 漢".encode()),
        (b"\x1b]never ends\nnext", b"\nnext"),
    ],
)
def test_control_sequences_are_removed(data: bytes, shown: bytes) -> None:
    cleaner = Cleaner()

    assert cleaner.feed(data) + cleaner.flush() == shown


@given(ANY_BYTES)
def test_what_is_left_cannot_control_a_terminal(data: bytes) -> None:
    cleaner = Cleaner()

    shown = cleaner.feed(data) + cleaner.flush()

    assert not [byte for byte in shown if byte < 0x20 and byte not in b"\t\n\r"]
    assert b"\x7f" not in shown


@given(ANY_BYTES, st.data())
def test_a_sequence_cut_in_two_is_removed_all_the_same(data: bytes, draw: st.DataObject) -> None:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=5)))
    whole, cut = Cleaner(), Cleaner()

    pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]

    expected = whole.feed(data) + whole.flush()
    assert b"".join(map(cut.feed, pieces)) + cut.flush() == expected


def test_text_of_others_is_cleaned_and_put_on_one_line() -> None:
    assert clean("a\x1b[2Jb\nc") == "ab\nc"
    assert one_line("a\nb\rc\x1b[0m") == "a b c"


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": ""}, False),
    ],
)
def test_colours_off_a_terminal_are_a_matter_of_the_environment(
    variables: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert ("\x1b" in Paint(io.StringIO())("text", "red")) is coloured


Chunks = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.integers(0, 2),
        st.lists(st.binary(max_size=4).filter(lambda b: not set(b) & set(b"\r\n")), max_size=4).map(
            lambda lines: b"".join(line + b"\n" for line in lines)
        ),
    ),
    max_size=10,
)


@given(Chunks)
def test_every_line_of_several_replicas_begins_with_its_name(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[tuple[str, int, bytes]]
) -> None:
    path = tmp_path_factory.mktemp("sink") / "out"
    with path.open("w") as file:
        sink = Sink(file, prefixed=True)
        for role, replica, data in chunks:
            if data:
                sink.write(role, replica, data)
        sink.finish()

    written = path.read_bytes()

    expected = [
        f"{role}/{k} ".encode() + line + b"\n"
        for role, k, data in chunks
        for line in data.split(b"\n")[:-1]
    ]
    assert written == b"".join(expected)


def test_a_line_in_pieces_has_one_prefix_and_ends_when_another_replica_speaks(
    tmp_path: Path,
) -> None:
    with (tmp_path / "out").open("w") as file:
        sink = Sink(file, prefixed=True)
        sink.write("a", 0, b"one ")
        sink.write("a", 0, b"line")
        sink.write("a", 1, b"other\n")
        sink.write("a", 0, b"rest")
        sink.finish()

    assert (tmp_path / "out").read_text() == "a/0 one line\na/1 other\na/0 rest\n"


def test_one_replica_is_written_as_it_is(tmp_path: Path) -> None:
    data = b"10%\r20%\r\x1b[0m\xff\x00 no newline"
    with (tmp_path / "out").open("w") as file:
        sink = Sink(file, prefixed=False)
        sink.write("a", 0, data)
        sink.finish()

    assert (tmp_path / "out").read_bytes() == data


def test_a_file_that_exists_only_in_python_gets_text() -> None:
    file = io.StringIO()

    Sink(file, prefixed=True).write("a", 0, b"line\xff\n")

    assert file.getvalue() == "a/0 line\ufffd\n"


def test_the_same_place_is_known_by_what_it_is(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    with one.open("w") as first, one.open("a") as again, other.open("w") as elsewhere:
        assert goes_to_same_place(first, again)
        assert not goes_to_same_place(first, elsewhere)


def test_a_pipe_that_somebody_made_non_blocking_gets_every_byte() -> None:
    from threading import Thread

    from wherry.cli.sinks import write_all

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    data = b"x" * 1_000_000
    got: list[bytes] = []
    thread = Thread(target=lambda: got.extend(iter(lambda: os.read(reader, 65536), b"")))
    thread.start()
    write_all(writer, data)
    os.close(writer)
    thread.join()
    os.close(reader)

    assert b"".join(got) == data
