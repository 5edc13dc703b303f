"""S3 that fails, refuses, moves, or does not answer: what is repeated, and what is said."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from support.s3_servers import KEY, Request, ScriptedS3, sign_as
from support.waiting import until
from wherry.errors import CorruptObjectError, CredentialsError, MissingObjectError, StoreError
from wherry.store import s3_obstore
from wherry.store.api import Store
from wherry.store.opening import open_store

MIB = 1 << 20


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait less between attempts than one would in earnest."""
    backoff = {"init_backoff": timedelta(seconds=0.01), "max_backoff": timedelta(seconds=0.05)}
    monkeypatch.setitem(s3_obstore._RETRY, "backoff", {**backoff, "base": 2})


@pytest.fixture
def store(scripted: ScriptedS3) -> Iterator[Store]:
    made = open_store("s3://bucket/p", endpoint=scripted.url)
    yield made
    made.close()


def first(
    times: int, misbehave: Callable[[Request], None], method: str = ""
) -> Callable[[Request], bool]:
    """Misbehave a few times, then behave."""
    left = [times]
    lock = threading.Lock()

    def script(request: Request) -> bool:
        with lock:
            if not left[0] or (method and request.method != method):
                return False
            left[0] -= 1
        misbehave(request)
        return True

    return script


def slow_down(request: Request) -> None:
    request.refuse(503, "SlowDown", "Please reduce your request rate.")


def hang_up(request: Request) -> None:
    request.hang_up()


def cut_short(request: Request) -> None:
    """Promise ten bytes, send four, and end the connection."""
    request.answer(
        200, b"0123", Content_Length=10, Last_Modified="Sat, 01 Jan 2028 00:00:00 GMT", ETag='"x"'
    )
    request.hang_up()


@pytest.mark.parametrize("misbehave", [slow_down, hang_up])
def test_a_passing_failure_is_not_seen(
    scripted: ScriptedS3, store: Store, misbehave: Callable[[Request], None]
) -> None:
    scripted.script = first(2, misbehave)
    store.write("k", [b"hello"])
    scripted.script = first(2, misbehave)
    assert store.read("k") == b"hello"
    scripted.script = first(2, misbehave)
    assert [found.key for found in store.list()] == ["k"]
    scripted.script = first(2, misbehave)
    assert store.head("k") is not None
    scripted.script = first(2, misbehave)
    store.delete(["k"])

    assert scripted.objects == {}


def test_an_answer_that_breaks_off_is_asked_for_again(scripted: ScriptedS3, store: Store) -> None:
    scripted.objects["p/k"] = b"0123456789"
    scripted.script = first(1, cut_short, "GET")
    assert store.read("k") == b"0123456789"

    scripted.script = first(3, cut_short, "GET")
    assert store.read("k") == b"0123456789"


def test_a_part_that_fails_is_sent_again(scripted: ScriptedS3, store: Store) -> None:
    body = os.urandom(20 * MIB)
    scripted.script = first(3, slow_down, "PUT")

    store.write("large", [body])

    assert scripted.objects == {"p/large": body}
    assert scripted.uploads == {}


def test_a_server_that_only_fails_is_given_up(scripted: ScriptedS3, store: Store) -> None:
    scripted.script = first(1000, slow_down)

    with pytest.raises(
        StoreError,
        match=r"read s3://bucket/p/k: .*again and again: Please reduce .* \(SlowDown\). Try",
    ):
        store.read("k")


def test_parts_of_an_upload_that_fails_are_not_left_behind(
    scripted: ScriptedS3, store: Store
) -> None:
    def script(request: Request) -> bool:
        if request.query.get("partNumber") != ["2"]:
            return False
        request.refuse(403, "AccessDenied", "Access Denied")
        return True

    scripted.script = script

    with pytest.raises(StoreError, match="s3:PutObject"):
        store.write("large", [os.urandom(20 * MIB)])

    assert scripted.objects == {}
    assert scripted.uploads == {}


def test_what_is_not_allowed_names_the_permission(scripted: ScriptedS3, store: Store) -> None:
    scripted.script = first(
        1000, lambda request: request.refuse(403, "AccessDenied", "Access Denied")
    )

    for ask, permission in (
        (lambda: store.read("a/k"), "s3:GetObject on arn:aws:s3:::bucket/p/a/*"),
        (lambda: store.head("a/k"), "s3:GetObject on arn:aws:s3:::bucket/p/a/*"),
        (lambda: store.write("a/k", [b""]), "s3:PutObject on arn:aws:s3:::bucket/p/a/*"),
        (lambda: list(store.list("a/")), "s3:ListBucket on arn:aws:s3:::bucket"),
        (lambda: store.delete(["a/k"]), "s3:DeleteObject on arn:aws:s3:::bucket/p/a/*"),
    ):
        with pytest.raises(StoreError) as caught:
            ask()
        assert permission in str(caught.value)
        assert "Access Denied (AccessDenied)" in str(caught.value)
        assert "s3://bucket/p/a" in str(caught.value)


def test_a_bucket_that_is_not_there_is_named_with_the_nearest(real_s3: tuple[str, Path]) -> None:
    store = open_store("s3://bukcet/p", endpoint=real_s3[0])

    for ask in (
        lambda: store.read("k"),
        lambda: store.head("k"),
        lambda: store.write("k", [b"x"]),
        lambda: list(store.list()),
        lambda: list(store.read_many(["k"])),
    ):
        with pytest.raises(
            StoreError, match=r"no bucket 'bukcet' at http.*did you mean 'bucket'"
        ) as caught:
            ask()
        assert not isinstance(caught.value, MissingObjectError)


def test_a_bucket_in_another_region_is_found(scripted: ScriptedS3, store: Store) -> None:
    def script(request: Request) -> bool:
        if request.region == "eu-central-1":
            return False
        request.refuse(301, "PermanentRedirect", "elsewhere", x_amz_bucket_region="eu-central-1")
        return True

    scripted.script = script
    store.write("k", [b"hello"])

    assert store.read("k") == b"hello"
    asked = len(scripted.seen)
    assert store.read("k") == b"hello"
    assert len(scripted.seen) == asked + 1


def test_a_server_that_wants_another_region_is_heard(scripted: ScriptedS3, store: Store) -> None:
    def script(request: Request) -> bool:
        if request.region == "eu-central-1":
            return False
        words = "the region 'us-east-1' is wrong; expecting 'eu-central-1'"
        request.refuse(400, "AuthorizationHeaderMalformed", words)
        return True

    scripted.script = script
    scripted.objects["p/k"] = b"hello"

    assert store.read("k") == b"hello"
    assert store.head("k") is not None


def test_a_region_that_nobody_tells_is_asked_for(scripted: ScriptedS3, store: Store) -> None:
    scripted.script = first(
        1000, lambda request: request.refuse(301, "PermanentRedirect", "elsewhere")
    )

    with pytest.raises(StoreError, match=r"is not in us-east-1, .* Give the region"):
        store.read("k")


def test_nobody_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(
            StoreError, match=rf"cannot read s3://bucket/k: {url} gives no answer .*refused"
        ):
            open_store("s3://bucket", endpoint=url).read("k")
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
        with pytest.raises(StoreError, match="The address is from AWS_ENDPOINT_URL_S3"):
            open_store("s3://bucket").write("k", [b""])


def test_a_server_that_goes_away_is_named(scripted: ScriptedS3) -> None:
    with ScriptedS3() as server:
        store = open_store("s3://bucket", endpoint=server.url)
        store.write("k", [b"x"])

    with pytest.raises(StoreError, match=f"{server.url} gives no answer"):
        store.read("k")


def test_an_object_that_is_replaced_meanwhile_is_not_mixed(
    scripted: ScriptedS3, store: Store
) -> None:
    scripted.objects["p/k"] = b"1" * 40 * MIB

    def script(request: Request) -> bool:
        if request.headers.get("Range", "").startswith("bytes=33554432"):
            scripted.objects["p/k"] = b"2" * 40 * MIB
        return False

    scripted.script = script

    with pytest.raises(
        CorruptObjectError, match="p/k was replaced while it was read; read it again"
    ):
        store.read_into("k", 0, memoryview(bytearray(40 * MIB)))


def test_a_server_that_does_not_mark_ranges_is_understood(
    scripted: ScriptedS3, store: Store
) -> None:
    scripted.objects["p/k"] = b"0123456789"

    def script(request: Request) -> bool:
        if "Range" not in request.headers:
            return False
        request.answer(
            200,
            b"234",
            Content_Range="bytes 2-4/10",
            ETag="x",
            Last_Modified="Sat, 01 Jan 2028 00:00:00 GMT",
        )
        return True

    scripted.script = script

    assert store.read("k", 2, 5) == b"234"


def test_of_many_who_try_at_once_one_stores_a_new_object(
    scripted: ScriptedS3, store: Store
) -> None:
    told = []
    threads = [
        threading.Thread(target=lambda n=n: told.append(store.write_new("claim", [b"%d" % n])))
        for n in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert told.count(True) == 1
    assert told.count(False) == 15


def test_a_server_that_does_not_know_the_condition_is_asked_beforehand(
    scripted: ScriptedS3, store: Store
) -> None:
    def script(request: Request) -> bool:
        if "If-None-Match" not in request.headers:
            return False
        request.refuse(501, "NotImplemented", "A header you provided implies functionality ...")
        return True

    scripted.script = script

    assert store.write_new("k", [b"one"])
    assert not store.write_new("k", [b"two"])
    assert scripted.objects == {"p/k": b"one"}


def test_a_thousand_objects_are_deleted_in_one_request(scripted: ScriptedS3, store: Store) -> None:
    for number in range(2500):
        scripted.objects[f"p/{number}"] = b""

    store.delete(str(number) for number in range(2500))

    assert scripted.objects == {}
    assert scripted.count("POST") == 3


# -- credentials ----------------------------------------------------------------------------------


def test_a_wrong_secret_is_named_and_not_shown(
    real_s3: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_as(monkeypatch, KEY, "this-is-not-it")
    store = open_store("s3://bucket", endpoint=real_s3[0])

    for ask in (
        lambda: store.read("k"),
        lambda: store.head("k"),
        lambda: store.write("k", [b"x"]),
        lambda: list(store.list()),
        lambda: store.delete(["k"]),
    ):
        with pytest.raises(
            CredentialsError, match=r"in the environment .*SignatureDoesNotMatch.*secret key"
        ) as caught:
            ask()
        assert "this-is-not-it" not in str(caught.value)


def test_without_credentials_the_ways_to_give_them_are_named(
    scripted: ScriptedS3, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    with pytest.raises(
        CredentialsError,
        match=r"cannot read s3://bucket/p/k: no AWS credentials were found.*aws sso login",
    ):
        store.read("k")


def test_a_profile_and_a_file_of_credentials_are_used(
    scripted: ScriptedS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    (tmp_path / "mine").write_text(
        "[default]\naws_access_key_id=AKIADEFAULT\naws_secret_access_key=x\n"
        "[other]\naws_access_key_id=AKIAOTHER\naws_secret_access_key=y\n"
    )
    scripted.objects["k"] = b"x"
    who: list[str] = []
    scripted.script = lambda request: bool(who.append(request.who))

    for profile in (None, "other"):
        file = str(tmp_path / "mine")
        store = open_store(
            "s3://bucket", endpoint=scripted.url, profile=profile, credentials_file=file
        )
        store.read("k")

    assert who == ["AKIADEFAULT", "AKIAOTHER"]


def test_the_endpoint_and_region_of_a_profile_are_used(
    scripted: ScriptedS3, tmp_path: Path
) -> None:
    (tmp_path / "aws-config").write_text(
        "[profile mine]\nregion = eu-west-3\nservices = local\n"
        f"[services local]\ns3 =\n  endpoint_url = {scripted.url}\n"
    )
    (tmp_path / "aws-credentials").write_text(
        "[mine]\naws_access_key_id=AKIAMINE\naws_secret_access_key=x\n"
    )
    scripted.objects["k"] = b"x"
    seen: list[tuple[str, str]] = []
    scripted.script = lambda request: bool(seen.append((request.who, request.region)))

    assert open_store("s3://bucket", profile="mine").read("k") == b"x"

    assert seen == [("AKIAMINE", "eu-west-3")]


def test_an_unknown_profile_is_named_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "aws-config").write_text("[profile research]\nregion = eu-west-3\n")

    with pytest.raises(ValueError, match=r"'reserach'.*did you mean 'research'"):
        open_store("s3://bucket", profile="reserach").read("k")


def test_credentials_that_have_expired_are_read_again(
    scripted: ScriptedS3, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has logged in meanwhile: the file, or the environment, has others."""
    store.write("k", [b"hello"])

    def script(request: Request) -> bool:
        if request.who == "AKIANEW":
            return False
        request.refuse(400, "ExpiredToken", "The provided token has expired.")
        return True

    scripted.script = script
    with pytest.raises(
        CredentialsError, match=r"have expired: The provided token has expired. \(ExpiredToken\)"
    ):
        store.read("k")
    sign_as(monkeypatch, "AKIANEW", "new")

    assert store.read("k") == b"hello"


def test_credentials_that_end_are_renewed_beforehand(
    scripted: ScriptedS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A profile's program gives credentials that live for a second."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    program = tmp_path / "give"
    program.write_text(
        "#!/bin/sh\n"
        f"echo x >> {tmp_path}/given\n"
        f"number=$(wc -l < {tmp_path}/given | tr -d ' ')\n"
        "end=$(date -u -d '+1 second' +%Y-%m-%dT%H:%M:%SZ)\n"
        """echo '{"Version": 1, "AccessKeyId": "AKIA'$number'", "SecretAccessKey": "s","""
        """ "SessionToken": "t", "Expiration": "'$end'"}'\n"""
    )
    program.chmod(0o755)
    (tmp_path / "aws-config").write_text(f"[default]\ncredential_process = {program}\n")
    scripted.objects["k"] = b"x"
    who: list[str] = []
    scripted.script = lambda request: bool(who.append(request.who))
    store = open_store("s3://bucket", endpoint=scripted.url)

    until(lambda: store.read("k") == b"x" and len(set(who)) > 2, "the third credentials")


def test_credentials_that_cannot_be_renewed_say_why(
    scripted: ScriptedS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    (tmp_path / "aws-config").write_text(
        "[default]\ncredential_process = sh -c 'echo gone >&2; exit 3'\n"
    )

    with pytest.raises(CredentialsError, match=r"cannot be had: .*gone"):
        open_store("s3://bucket", endpoint=scripted.url).read("k")
