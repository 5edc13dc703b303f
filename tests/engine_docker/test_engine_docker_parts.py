"""The parts of the Engine's client that need no Engine: HTTP, addresses, names, words."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.engine.docker.address import DEFAULT, Place, engine_address
from wherry.engine.docker.ending import Ended, ended, first_file, not_started, signal_in
from wherry.engine.docker.frames import Frames
from wherry.engine.docker.http import Answer, BrokenAnswerError, query, request_bytes
from wherry.engine.docker.names import container_name, host_name
from wherry.engine.docker.refusals import needed_version, refusal, unreachable
from wherry.errors import DockerError

OK = b"HTTP/1.1 200 OK\r\n"
bodies = st.binary(max_size=300)
sizes = st.lists(st.integers(1, 40), min_size=1, max_size=8)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    """Cut bytes into pieces of these sizes, over and over."""
    pieces, at, turn = [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        pieces.append(data[at : at + size])
        at += size
        turn += 1
    return pieces


def read(pieces: list[bytes], method: str = "GET") -> tuple[Answer, bytes]:
    answer = Answer(method)
    body = b""
    for piece in pieces:
        answer.feed(piece)
        body += answer.take()
    return answer, body


@given(body=bodies, sizes=sizes)
def test_an_answer_with_a_length_is_read_however_it_is_cut(body: bytes, sizes: list[int]) -> None:
    message = OK + f"Content-Length: {len(body)}\r\n\r\n".encode() + body + b"next"

    answer, found = read(cut(message, sizes))

    assert (answer.done, answer.status, found, answer.rest) == (True, 200, body, b"next")


@given(chunks=st.lists(st.binary(min_size=1, max_size=50)), sizes=sizes)
def test_an_answer_in_chunks_is_read_however_it_is_cut(
    chunks: list[bytes], sizes: list[int]
) -> None:
    message = OK + b"Transfer-Encoding: chunked\r\n\r\n"
    for chunk in chunks:
        message += f"{len(chunk):x};more=1\r\n".encode() + chunk + b"\r\n"
    message += b"0\r\nTrailer: 1\r\n\r\nnext"

    answer, found = read(cut(message, sizes))

    assert (answer.done, found, answer.rest) == (True, b"".join(chunks), b"next")
    assert answer.keeps


@given(raw=bodies, sizes=sizes)
def test_after_an_upgrade_all_bytes_are_raw(raw: bytes, sizes: list[int]) -> None:
    head = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"

    answer, found = read(cut(head + raw, sizes))

    assert answer.upgraded
    assert found + answer.rest == raw


def test_an_answer_of_unknown_length_ends_with_its_connection() -> None:
    answer, found = read([OK + b"\r\nabc", b"def"])
    answer.end()

    assert (found, answer.done, answer.keeps) == (b"abcdef", True, False)


@pytest.mark.parametrize(
    "pieces",
    [[], [OK], [OK + b"Content-Length: 4\r\n\r\nabc"],
     [OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"]],
)  # fmt: skip
def test_an_answer_that_ends_too_early_is_noticed(pieces: list[bytes]) -> None:
    answer, _ = read(pieces)

    with pytest.raises(BrokenAnswerError):
        answer.end()


@pytest.mark.parametrize("data", [b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n"])
def test_what_is_no_http_is_refused(data: bytes) -> None:
    with pytest.raises(BrokenAnswerError, match="no HTTP"):
        Answer().feed(data)


def test_an_interim_answer_is_passed_over() -> None:
    answer, found = read([b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\nx"])

    assert (answer.status, found) == (200, b"x")


def test_a_request_is_written_with_its_length() -> None:
    message = request_bytes("POST", "/containers/create", b"{}")

    assert message.startswith(b"POST /containers/create HTTP/1.1\r\n")
    assert b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}" in message
    assert b"Content-Length: 0" in request_bytes("POST", "/containers/x/start")


def test_parameters_are_escaped() -> None:
    assert query({"name": "a/b c&d", "force": True, "none": None}) == "?name=a/b%20c%26d&force=1"


framed = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=60)), max_size=12)


@given(parts=framed, sizes=sizes)
def test_frames_give_back_every_byte_of_each_stream_in_order(
    parts: list[tuple[int, bytes]], sizes: list[int]
) -> None:
    wire = b"".join(
        bytes([number, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload
        for number, payload in parts
    )
    frames, found = Frames(), []
    for piece in cut(wire, sizes):
        found += list(frames.feed(piece))

    def joined(pairs: list[tuple[int, bytes]]) -> list[tuple[int, int]]:
        return [(number, byte) for number, payload in pairs for byte in payload]

    assert joined(found) == joined(parts)


# Where the Engine is.


def context(folder: Path, name: str, host: str, **more: object) -> None:
    digest = hashlib.sha256(name.encode()).hexdigest()
    meta = folder / "contexts" / "meta" / digest
    meta.mkdir(parents=True)
    endpoint = {"Host": host, **more}
    (meta / "meta.json").write_text(json.dumps({"Name": name, "Endpoints": {"docker": endpoint}}))


def test_without_any_word_the_engine_is_at_its_usual_place(tmp_path: Path) -> None:
    assert engine_address({"HOME": str(tmp_path)}) == DEFAULT


@pytest.mark.parametrize(
    ("environ", "address"),
    [
        ({"DOCKER_HOST": "unix:///run/podman.sock"}, "unix:///run/podman.sock"),
        ({"DOCKER_HOST": "tcp://10.0.0.1:2375/"}, "tcp://10.0.0.1:2375"),
        ({"DOCKER_HOST": "10.0.0.1"}, "tcp://10.0.0.1"),
        (
            {"DOCKER_HOST": "tcp://h:1", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/c"},
            "tcp://h:1?certs=/c&verify=1",
        ),
    ],
)
def test_the_environment_says_where_the_engine_is(environ: dict[str, str], address: str) -> None:
    assert engine_address(environ) == address


def test_the_current_context_of_docker_is_followed(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"currentContext": "other"}')
    context(tmp_path, "other", "unix:///other.sock")
    context(tmp_path, "third", "tcp://third:2375")
    environ = {"DOCKER_CONFIG": str(tmp_path)}

    assert engine_address(environ) == "unix:///other.sock"
    assert engine_address(environ | {"DOCKER_CONTEXT": "third"}) == "tcp://third:2375"
    assert engine_address(environ | {"DOCKER_CONTEXT": "default"}) == DEFAULT
    assert engine_address(environ | {"DOCKER_HOST": "unix:///x"}) == "unix:///x"


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"DOCKER_HOST": "ssh://me@far"}, "ssh -nNT -L /tmp/docker.sock"),
        ({"DOCKER_HOST": "npipe:////./pipe/docker"}, "expected unix:///PATH or tcp://HOST:PORT"),
        ({"DOCKER_HOST": "tcp://host:port"}, "not HOST:PORT"),
        ({"DOCKER_CONTEXT": "nosuch", "DOCKER_CONFIG": "/nosuch"}, "'nosuch' is not known"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_with_the_fix(
    environ: dict[str, str], words: str
) -> None:
    with pytest.raises(DockerError, match=re.escape(words)):
        engine_address(environ)


def test_an_address_is_taken_apart() -> None:
    place = Place("tcp://[::1]:77?certs=/my certs&verify=1")

    assert (place.host, place.port, place.certs) == ("::1", 77, "/my certs")
    assert (place.tls, place.verify) == (True, True)
    assert Place("tcp://h").port == 2375
    assert Place("unix:///a/b").path == "/a/b"


# What containers are called.


names = st.text("abcXYZ0189_.-", min_size=1, max_size=80)


@given(app=names, role=names, index=st.integers(0, 9999))
def test_a_host_name_is_one_that_resolves(app: str, role: str, index: int) -> None:
    name = host_name("{app_id}-{role}-{replica}", app, role, index)

    assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?", name)
    assert name == host_name("{app_id}-{role}-{replica}", app, role, index)


def test_host_names_that_had_to_be_changed_stay_different() -> None:
    pattern, long = "{app_id}-{role}-{replica}", "r" * 60
    made = {
        host_name(pattern, "app", role, index)
        for role in ("a_b", "a-b", "a.b", long, long + "s")
        for index in (0, 1, 10)
    }

    assert len(made) == 15


def test_a_later_attempt_has_a_container_of_its_own() -> None:
    assert [container_name("app-role-0", n) for n in (1, 2)] == ["app-role-0", "app-role-0-a2"]


# How things ended.


@pytest.mark.parametrize(
    ("state", "memory", "expected"),
    [
        ({"ExitCode": 0}, 0, (0, None, "")),
        ({"ExitCode": 3}, 0, (3, None, "exited with code 3")),
        ({"ExitCode": 137}, 0, (137, 9, "killed by SIGKILL")),
        ({"ExitCode": 255}, 0, (255, None, "exited with code 255")),
        (
            {"ExitCode": 137, "OOMKilled": True},
            64 << 20,
            (137, 9, "out of memory: the limit is 64 MiB"),
        ),
        ({"ExitCode": 0, "OOMKilled": True}, 64 << 20, (0, None, "")),
    ],
)
def test_a_containers_end_is_read(
    state: dict[str, object], memory: int, expected: tuple[int, int | None, str]
) -> None:
    end = ended(state, memory)

    assert (end.exit_code, end.signal, end.why) == expected
    assert end.out_of_memory == end.why.startswith("out of memory")


def test_an_end_that_nobody_knows_has_no_exit_code() -> None:
    assert Ended(None, "its container was removed").exit_code is None
    assert signal_in(None) is None


RUNC = (
    "OCI runtime create failed: container_linux.go:380: starting container process caused: exec: "
    '"nosuch": executable file not found in $PATH: unknown'
)


def test_the_engines_words_for_a_missing_program_are_shortened() -> None:
    problem = not_started(RUNC)

    assert str(problem) == 'exec: "nosuch": executable file not found in $PATH'
    assert problem.exit_code == 127
    assert not_started("something else").exit_code == 125


def test_the_first_file_of_an_archive_is_read(tmp_path: Path) -> None:
    import io
    import tarfile

    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        info = tarfile.TarInfo("error.json")
        info.size = 5
        archive.addfile(info, io.BytesIO(b"words"))

    assert first_file(made.getvalue(), 100) == "words"
    assert first_file(made.getvalue(), 2) == "wo"
    assert first_file(b"", 100) is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"message":"write /x: no space left on device"}', "disk is full"),
        (
            b'{"message":"could not find an available, non-overlapping IPv4 address pool"}',
            "docker network prune",
        ),
        (b'{"message":"Bind for 0.0.0.0:80 failed: port is already allocated"}', "publish another"),
        (b"not json", "not json"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_to_do(body: bytes, words: str) -> None:
    error = refusal(500, body)

    assert words in str(error)
    assert error.status == 500


def test_no_permission_and_no_engine_are_told_apart() -> None:
    denied = unreachable("unix:///s", PermissionError(13, "Permission denied"))
    missing = unreachable("unix:///s", FileNotFoundError(2, "No such file or directory"))

    assert "group docker" in str(denied)
    assert "start it with" in str(missing)


def test_an_engine_that_finds_the_version_too_old_says_which_it_wants() -> None:
    words = "client version 1.41 is too old. Minimum supported API version is 1.44, please upgrade"

    assert needed_version(400, json.dumps({"message": words}).encode()) == "1.44"
    assert needed_version(400, b'{"message":"bad"}') == ""
