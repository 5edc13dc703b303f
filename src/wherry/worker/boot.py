"""The first thing that runs in a container: fetches the worker's zip, checks it, and runs it.

Shipped as one compressed argument of ``python3 -c`` (see `shipping`), so that an image needs
nothing but Python. It can do just enough: read one object from a folder or from S3 with whatever
credentials there are. It runs in a namespace of its own, named as below, with ROOT-URL, DIGEST and
the worker's words as arguments. After a change: ``python -m wherry.worker.shipping``.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _ask(url: str, headers: dict[str, str], method: str = "GET") -> tuple[int, bytes, Any]:
    import http.client as client
    from urllib.parse import urlsplit

    at = urlsplit(url)
    kind = client.HTTPSConnection if at.scheme == "https" else client.HTTPConnection
    link = kind(at.netloc, timeout=20)
    try:
        link.request(method, at.path + ("?" + at.query if at.query else ""), None, headers)
        answer = link.getresponse()
        return answer.status, answer.read(), answer.headers
    finally:
        link.close()


def _credentials() -> tuple[str, str, str]:
    import json

    def env(name: str) -> str:
        return os.environ.get(name) or ""

    if env("AWS_ACCESS_KEY_ID"):
        return env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY"), env("AWS_SESSION_TOKEN")
    url = env("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    if env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        url = "http://169.254.170.2" + env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    headers = {}
    if url:
        token = env("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        path = env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        if path:
            with open(path) as file:
                token = file.read().strip()
        if token:
            headers["Authorization"] = token
    else:
        url = env("AWS_EC2_METADATA_SERVICE_ENDPOINT") or "http://169.254.169.254"
        url = url.rstrip("/") + "/latest/"
        headers["X-aws-ec2-metadata-token-ttl-seconds"] = "300"
        token = _ask(url + "api/token", headers, "PUT")[1].decode()
        headers = {"X-aws-ec2-metadata-token": token}
        url += "meta-data/iam/security-credentials/"
        url += _ask(url, headers)[1].decode().split("\n")[0]
    made = json.loads(_ask(url, headers)[1])
    return made["AccessKeyId"], made["SecretAccessKey"], made.get("Token") or ""


def _fetch(bucket: str, key: str, region: str) -> tuple[int, bytes, Any]:
    import hashlib
    import hmac
    import time
    from urllib.parse import quote, urlsplit

    env = os.environ.get
    url = (env("AWS_ENDPOINT_URL_S3") or env("AWS_ENDPOINT_URL") or "").rstrip("/")
    if url:
        url += "/" + bucket
    else:
        end = ".amazonaws.com" + (".cn" if region.startswith("cn-") else "")
        name = "https://s3." + region + end + "/" + bucket
        url = name if "." in bucket else "https://" + bucket + ".s3." + region + end
    url += "/" + quote(key, "/~")
    access, secret, token = _credentials()
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    at = urlsplit(url)
    sent = {
        "host": at.netloc,
        "x-amz-content-sha256": hashlib.sha256().hexdigest(),
        "x-amz-date": now,
    }
    if token:
        sent["x-amz-security-token"] = token
    names = ";".join(sorted(sent))
    lines = [f"{name}:{sent[name]}" for name in sorted(sent)]
    text = ["GET", at.path, "", *lines, "", names, sent["x-amz-content-sha256"]]
    scope = [now[:8], region, "s3", "aws4_request"]
    digest = hashlib.sha256("\n".join(text).encode()).hexdigest()
    signed = ("AWS4" + secret).encode()
    for word in [*scope, "\n".join(["AWS4-HMAC-SHA256", now, "/".join(scope), digest])]:
        signed = hmac.new(signed, word.encode(), "sha256").digest()
    who = "/".join([access, *scope])
    sent["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={who},SignedHeaders={names},Signature={signed.hex()}"
    )
    return _ask(url, sent)


def _from_s3(root: str, key: str) -> bytes:
    import time

    bucket, _, prefix = root[5:].partition("/")
    env = os.environ.get
    region = env("AWS_REGION") or env("AWS_DEFAULT_REGION") or "us-east-1"
    why = ""
    for attempt in range(6):
        if why:
            time.sleep(0.2 * 2**attempt)
        try:
            status, body, headers = _fetch(bucket, (prefix + "/" + key).lstrip("/"), region)
        except (OSError, KeyError, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
            continue
        if status == 200:
            return body
        actual = headers.get("x-amz-bucket-region")
        if actual and actual != region:
            region = actual
            continue
        why = f"HTTP {status} " + body[:300].decode("utf-8", "replace")
        if status in (403, 404):
            break
    raise OSError(why)


def _keep(data: bytes, digest: str) -> str:
    folders = [os.environ.get("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm", "."]  # noqa: S108
    for folder in filter(None, folders):
        path = f"{os.path.abspath(folder)}/wherry-{os.getuid()}"
        try:
            os.makedirs(path, 0o700, exist_ok=True)
            if os.stat(path).st_uid != os.getuid():
                continue
            path += "/" + digest
            with open(f"{path}.{os.getpid()}", "wb") as file:
                file.write(data)
            os.replace(file.name, path)
            return path
        except OSError:
            pass
    raise OSError("no folder for temporary files can be written")


def _start() -> None:
    root, digest, *words = sys.argv[1:]
    key = f"blobs/{digest[:2]}/{digest}"
    path = "" if root[:5] == "s3://" else root.replace("file://", "", 1) + "/" + key
    try:
        if "%" in path:
            from urllib.parse import unquote

            path = unquote(path)
        if path:
            with open(path, "rb") as file:
                data = file.read()
        else:
            data = _from_s3(root, key)
        try:
            from _sha2 import sha256  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            from hashlib import sha256
        if sha256(data).hexdigest() != digest:
            raise OSError("it is damaged: its SHA-256 is not its name")
        path = path or _keep(data, digest)
    except Exception as error:  # noqa: BLE001 — whatever it is, the log says it in a line
        sys.exit(f"wherry: the worker could not be fetched from {root}/{key}: {error}")
    sys.argv = [path, *words]
    sys.path.insert(0, path)
    from _wherry_worker.main import main  # type: ignore[import-not-found]

    sys.exit(main(words))


if __name__ == "wherry-boot":
    _start()
