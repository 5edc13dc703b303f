"""What a request asks for: which service, which region, which operation, as far as it says.

Signed requests say service and region in the scope of their signature; the rest is guesswork that
follows what clients of AWS send. Nothing here looks at who signed, or whether rightly.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_FORM_LIMIT = 1024 * 1024


@dataclass(frozen=True)
class Call:
    """One request, as far as it is understood.

    Attributes:
        service: the signing name, such as ``batch``; empty where the request does not say.
        region: empty where the request does not say.
        operation: such as ``SubmitJob``; empty where that is not cheap to know.
    """

    service: str = ""
    region: str = ""
    operation: str = ""


def identify(environ: WSGIEnvironment, batch_operation: Callable[[str, str], str | None]) -> Call:
    """Find out what a request asks for.

    Args:
        environ: the request; its body, when it is a small form, is read and put back.
        batch_operation: names Batch's operation at a method and path, or ``None``.
    """
    service, region = _scope(environ)
    if service == "batch" or not service:
        operation = batch_operation(environ["REQUEST_METHOD"], environ.get("PATH_INFO", ""))
        if operation is not None:
            return Call("batch", region, operation)
    return Call(service, region, "" if service in ("s3", "batch") else _operation(environ))


def _scope(environ: WSGIEnvironment) -> tuple[str, str]:
    """Return service and region of a signature, in the header or in the address."""
    header = str(environ.get("HTTP_AUTHORIZATION", ""))
    if "Credential=" in header:
        return _of_credential(header.split("Credential=", 1)[1].split(",", 1)[0], header)
    if header.startswith("AWS "):
        return "s3", ""  # signature version 2, which only S3 still takes
    query = str(environ.get("QUERY_STRING", ""))
    if "X-Amz-Credential=" in query:
        values = parse_qs(query).get("X-Amz-Credential", [""])
        return _of_credential(values[0], parse_qs(query).get("X-Amz-Algorithm", [""])[0])
    if "AWSAccessKeyId=" in query and "Signature=" in query:
        return "s3", ""
    return "", ""


def _of_credential(credential: str, algorithm: str) -> tuple[str, str]:
    """Take ``KEY/DATE/REGION/SERVICE/aws4_request`` apart; SigV4a has no region in it."""
    parts = credential.strip().split("/")
    if "ECDSA" in algorithm and len(parts) >= 4:
        return parts[-2].lower(), ""
    return (parts[-2].lower(), parts[-3]) if len(parts) >= 5 else ("", "")


def _operation(environ: WSGIEnvironment) -> str:
    target = str(environ.get("HTTP_X_AMZ_TARGET", ""))
    if target:
        return target.rpartition(".")[2]
    query = str(environ.get("QUERY_STRING", ""))
    if "Action=" in query:
        return parse_qs(query).get("Action", [""])[0]
    if not str(environ.get("CONTENT_TYPE", "")).startswith("application/x-www-form-urlencoded"):
        return ""
    length = int(environ.get("CONTENT_LENGTH") or 0)
    if not 0 < length <= _FORM_LIMIT:
        return ""
    body = bytes(environ["wsgi.input"].read(length))
    environ["wsgi.input"] = io.BytesIO(body)
    return parse_qs(body.decode("utf-8", "replace")).get("Action", [""])[0]
