"""The worker's client of S3: against a real server that checks signatures, and one that fails."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from support.s3_servers import KEY, SECRET, ScriptedS3, rclone
from support.worker_bench import WorkerBench
from wherry.worker import s3, shipping
from wherry.worker.faults import CorruptObject, MissingObject, StoreFault
from wherry.worker.objects import Objects

MIB = 1 << 20
AWS_NAMES = [name for name in os.environ if name.startswith("AWS_")]


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch, tmp_path):
    for name in AWS_NAMES:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    (folder / "bucket").mkdir()
    with rclone(folder) as url:
        yield url, folder / "bucket"


@pytest.fixture
def real(served, monkeypatch):
    url, _ = served
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    return Objects("s3://bucket/some/prefix")


@pytest.fixture
def scripted(monkeypatch):
    with ScriptedS3() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        yield server


class S3Bench(WorkerBench):
    """Calls in a bucket."""

    def __init__(self, folder, url):
        super().__init__(folder)
        self.url = url
        self._objects = Objects(url)

    def read(self, key):
        return self._objects.read(key)

    def write(self, key, data):
        self._objects.write(key, [data])


@pytest.fixture
def s3_bench(bench, real, request):
    return S3Bench(
        bench.root, f"s3://bucket/{request.node.name.translate(str.maketrans('[]', '--'))}"
    )


class CredentialServer:
    """What a container's endpoint, an instance's metadata or STS would say."""

    def __init__(self, life=3600.0):
        self.life = life
        self.keys = []
        self.asked = []
        self.next_key = lambda: (KEY, SECRET)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self):
                size = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(size).decode()
                outer.asked.append((self.command, self.path, dict(self.headers), body))
                status, text = outer.answer(self.command, self.path, self.headers, body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = do_PUT = do_POST = _serve

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, method, path, headers, body):
        if path == "/latest/api/token":
            return (200, "session-token") if method == "PUT" else (405, "")
        if path.startswith("/latest/"):
            if headers.get("X-aws-ec2-metadata-token") != "session-token":
                return 401, ""
            if path.endswith("/security-credentials/"):
                return 200, "a-role"
        if path == "/guarded" and headers.get("Authorization") != "secret-word":
            return 403, ""
        access, secret = self.next_key()
        end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + self.life))
        self.keys.append(access)
        if "AssumeRoleWithWebIdentity" in body:
            if "WebIdentityToken=an-identity" not in body:
                return 403, "<Error/>"
            return 200, (
                f"<R><AccessKeyId>{access}</AccessKeyId><SecretAccessKey>{secret}"
                f"</SecretAccessKey><SessionToken>t</SessionToken><Expiration>{end}</Expiration></R>"
            )
        made = {"AccessKeyId": access, "SecretAccessKey": secret, "Token": "t", "Expiration": end}
        return 200, json.dumps(made)

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


def test_what_is_written_is_read(real):
    real.write("a/b c+d~ä'(1).txt", [b"one", memoryview(b"two"), bytearray(b"three")])

    assert real.read("a/b c+d~ä'(1).txt") == b"onetwothree"
    assert real.read("a/b c+d~ä'(1).txt", 3, 6) == b"two"
    assert real.read("a/b c+d~ä'(1).txt", 6) == b"three"
    assert real.size("a/b c+d~ä'(1).txt") == 11


def test_the_prefix_is_part_of_the_key(real, served):
    real.write("x", [b"here"])

    assert (served[1] / "some/prefix/x").read_bytes() == b"here"


def test_an_empty_object_is_an_object(real):
    real.write("empty", [])

    assert real.read("empty") == b""


def test_a_large_object_goes_up_and_comes_down_in_parts(real):
    data = os.urandom(40 * MIB + 123)
    pieces = [data[:7], data[7 : 17 * MIB], data[17 * MIB :]]
    real.write("large", pieces)
    back = bytearray(len(data))

    real.read_into("large", 0, memoryview(back))
    assert back == data
    real.read_into("large", 5, memoryview(back)[: 20 * MIB])
    assert back[: 20 * MIB] == data[5 : 5 + 20 * MIB]


def test_files_are_stored_and_fetched(real, tmp_path):
    data = os.urandom(20 * MIB)
    (tmp_path / "a").write_bytes(data)

    real.write_file("file", str(tmp_path / "a"))
    real.read_file("file", str(tmp_path / "b"))

    assert (tmp_path / "b").read_bytes() == data
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_an_object_that_is_not_there_is_named(real):
    with pytest.raises(MissingObject, match="s3://bucket/some/prefix/none is not there"):
        real.read("none")


def test_an_object_that_is_too_short_is_told(real):
    real.write("short", [b"12345"])

    with pytest.raises(CorruptObject, match="cut off"):
        real.read_into("short", 0, memoryview(bytearray(10)))
    with pytest.raises(CorruptObject, match="cut off"):
        real.read_into("short", 7, memoryview(bytearray(2)))


def test_a_wrong_secret_is_refused_with_the_source_of_the_keys(real, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")

    with pytest.raises(StoreFault, match=r"may not be read .* from the environment"):
        Objects("s3://bucket").read("x")


def test_no_credentials_at_all_say_what_to_do(served, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", served[0])

    with pytest.raises(StoreFault, match=r"no AWS credentials here.*batch_job_role_name"):
        Objects("s3://bucket").read("x")


@pytest.mark.parametrize(
    "source", ["environment", "container", "token", "token-file", "instance", "identity", "files"]
)
def test_a_call_runs_with_the_credentials_of_each_source(s3_bench, served, tmp_path, source):
    """From the boot command to the outcome, against a server that checks signatures."""
    bench = s3_bench
    environ = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environ |= {"AWS_ENDPOINT_URL_S3": served[0], "AWS_EC2_METADATA_DISABLED": "true"}
    data, digest = shipping.worker_zip()
    bench.blob([data])

    def adds(one, two):
        print("adding")
        return one + two

    url = bench.call(adds, 2, 3)
    with CredentialServer() as server:
        environ |= sources(server.url, tmp_path)[source]
        command = shipping.boot_command(bench.url, digest, ["call", url])
        if source in ("identity", "files"):  # in a pod the zip comes by other ways
            command = ["python3", shipping.worker_zip_path(), "call", url]
        ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)

    assert (ran.returncode, ran.stdout) == (0, "adding\n"), ran.stderr
    assert bench.outcome(url).value() == 5


def sources(url, folder):
    (folder / "word").write_text("secret-word\n")
    (folder / "identity").write_text("an-identity")
    (folder / ".aws").mkdir()
    (folder / ".aws" / "credentials").write_text(
        "[other]\naws_access_key_id = no\naws_secret_access_key = no\n"
        f"[default]\naws_access_key_id = {KEY}\naws_secret_access_key={SECRET}\n"
    )
    nowhere = {"HOME": "/nonexistent"}
    guarded = nowhere | {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{url}/guarded"}
    return {
        "environment": nowhere | {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET},
        "container": nowhere | {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{url}/open"},
        "token": guarded | {"AWS_CONTAINER_AUTHORIZATION_TOKEN": "secret-word"},
        "token-file": guarded | {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(folder / "word")},
        "instance": nowhere
        | {"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": url},
        "identity": nowhere
        | {
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(folder / "identity"),
            "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/r",
            "AWS_ENDPOINT_URL_STS": url,
        },
        "files": {"HOME": str(folder)},
    }


def test_credentials_are_renewed_before_they_expire(scripted, monkeypatch):
    keys = iter(f"KEY{number}" for number in range(10_000))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with CredentialServer(life=2.0) as server:
        server.next_key = lambda: (next(keys), "s")
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.url}/open")
        objects = Objects("s3://bucket")
        users = []
        scripted.script = lambda request: users.append(request.who) or False
        objects.write("x", [b"1"])
        while len(server.keys) < 2:
            objects.read("x")
        objects.read("x")

    assert users[0] == "KEY0"
    assert users[-1] != "KEY0"
    assert len(server.keys) <= 4  # asked for again when it is time, not at every request


def test_credentials_that_are_refused_as_expired_are_asked_for_again(scripted, monkeypatch):
    keys = iter(["OLD", "NEW"])
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")

    def refuse_old(request):
        if request.who == "OLD":
            request.refuse(400, "ExpiredToken", "The provided token has expired.")
            return True
        return False

    scripted.script = refuse_old
    with CredentialServer() as server:
        server.next_key = lambda: (next(keys), "s")
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.url}/open")
        Objects("s3://bucket").write("x", [b"1"])

    assert scripted.objects == {"x": b"1"}


def test_credentials_that_cannot_be_renewed_say_where_they_came_from(scripted):
    def refuse(request):
        request.refuse(400, "ExpiredToken")
        return True

    scripted.script = refuse
    with pytest.raises(StoreFault, match="from the environment have expired"):
        Objects("s3://bucket").read("x")
    assert len(scripted.seen) == 1


def test_a_secret_is_never_in_a_message(scripted):
    def refuse(request):
        request.refuse(403, "AccessDenied")
        return True

    scripted.script = refuse
    with pytest.raises(StoreFault) as caught:
        Objects("s3://bucket").write("x", [b"1"])
    assert SECRET not in str(caught.value)
    assert "AccessDenied" in str(caught.value)


def troubles(*answers):
    """Answer so many requests with trouble, and the rest as S3 does."""
    left = list(answers)

    def script(request):
        if not left:
            return False
        trouble = left.pop(0)
        if trouble == "hang up":
            request.hang_up()
        else:
            request.refuse(*trouble)
        return True

    return script


def test_passing_troubles_are_sat_out(scripted):
    scripted.objects["x"] = b"there"
    scripted.script = troubles((503, "SlowDown"), "hang up", (500, "InternalError"))

    assert Objects("s3://bucket").read("x") == b"there"
    assert len(scripted.seen) >= 4


def test_a_lasting_refusal_is_told_at_once(scripted):
    scripted.script = troubles((403, "AccessDenied", "not yours"))

    with pytest.raises(StoreFault, match="not yours"):
        Objects("s3://bucket").read("x")
    assert len(scripted.seen) == 1


def test_the_buckets_own_region_is_followed(scripted, monkeypatch):
    scripted.objects["x"] = b"there"

    def elsewhere(request):
        if request.region == "eu-west-1":
            return False
        request.refuse(301, "PermanentRedirect", x_amz_bucket_region="eu-west-1")
        return True

    scripted.script = elsewhere
    objects = Objects("s3://bucket")

    assert objects.read("x") == b"there"
    assert objects.read("x") == b"there"
    assert len(scripted.seen) == 3


def test_a_clock_that_is_wrong_is_made_up_for(scripted):
    scripted.objects["x"] = b"there"
    stamps = []

    def strict(request):
        stamps.append(request.headers["x-amz-date"])
        if stamps[-1][:4] == "2031":
            return False
        request.refuse(403, "RequestTimeTooSkewed")
        return True

    scripted.script = strict
    original = BaseHTTPRequestHandler.date_time_string
    BaseHTTPRequestHandler.date_time_string = lambda *_: "Wed, 01 Jan 2031 10:00:00 GMT"
    try:
        assert Objects("s3://bucket").read("x") == b"there"
    finally:
        BaseHTTPRequestHandler.date_time_string = original
    assert len(stamps) == 2


def test_a_part_that_fails_is_sent_again(scripted):
    data = os.urandom(40 * MIB)
    failed = []

    def once(request):
        if request.query.get("partNumber") == ["2"] and not failed:
            failed.append(request.refuse(503, "SlowDown"))
            return True
        return False

    scripted.script = once
    Objects("s3://bucket").write("x", [data])

    assert scripted.objects["x"] == data


def test_an_upload_that_fails_leaves_nothing_behind(scripted):
    def refuse(request):
        if request.query.get("partNumber") == ["2"]:
            request.refuse(403, "AccessDenied")
            return True
        return False

    scripted.script = refuse
    with pytest.raises(StoreFault):
        Objects("s3://bucket").write("x", [bytes(40 * MIB)])
    assert (scripted.objects, scripted.uploads) == ({}, {})


def test_a_completion_that_fails_inside_a_good_answer_is_tried_again(scripted):
    tried = []

    def late(request):
        if request.method == "POST" and "uploadId" in request.query and not tried:
            tried.append(1)
            request.answer(200, b"<Error><Code>InternalError</Code></Error>")
            return True
        return False

    scripted.script = late
    Objects("s3://bucket").write("x", [bytes(20 * MIB)])

    assert len(scripted.objects["x"]) == 20 * MIB


def test_a_body_that_breaks_off_is_asked_for_again(scripted):
    scripted.objects["x"] = bytes(1000)
    broken = []

    def break_off(request):
        if broken:
            return False
        broken.append(1)
        request.answer(206, bytes(100), Content_Length=1000)
        request.hang_up()
        return True

    scripted.script = break_off
    back = bytearray(b"x" * 1000)
    Objects("s3://bucket").read_into("x", 0, memoryview(back))

    assert back == bytes(1000)


def test_a_function_that_closes_every_descriptor_still_has_its_outcome(s3_bench):
    bench = s3_bench

    def closes():
        os.closerange(3, 256)
        print("still here")
        return "closed"

    url = bench.call(closes)
    ran = bench.run(url)

    assert ran.code == 0, ran.err
    assert ran.out == "still here\n"
    assert bench.outcome(url).value() == "closed"


def test_a_call_holds_its_arrays_once(s3_bench):
    numpy = pytest.importorskip("numpy")
    bench = s3_bench

    def returns(array):
        array += 1
        return array

    size = 96 * MIB
    url = bench.call(returns, numpy.zeros(size, dtype="u1"))
    ran = bench.run(url)
    outcome = bench.outcome(url)

    assert ran.code == 0, ran.err
    assert outcome.value().sum() == size
    assert outcome.header["peak_kib"] < 1.5 * size / 1024


@pytest.mark.parametrize(
    ("bucket", "region", "endpoint", "expected"),
    [
        ("b", "eu-west-1", "", "https://b.s3.eu-west-1.amazonaws.com"),
        ("b.c", "eu-west-1", "", "https://s3.eu-west-1.amazonaws.com/b.c"),
        ("b", "cn-north-1", "", "https://b.s3.cn-north-1.amazonaws.com.cn"),
        ("b", "us-east-1", "http://h:1", "http://h:1/b"),
    ],
)
def test_where_a_bucket_is(bucket, region, endpoint, expected):
    assert s3.bucket_url(bucket, region, endpoint) == expected
