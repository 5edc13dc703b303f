"""Refusals as each protocol of AWS writes them, so that every client can read code and message."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from wherry.emulator.server.calls import Call

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed.wsgi import WSGIEnvironment

Headers = list[tuple[str, str]]


@dataclass(frozen=True)
class Answer:
    """A whole answer: status line without the protocol, headers, body."""

    status: str
    headers: Headers
    body: bytes


_PHRASES = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    429: "Too Many Requests",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
}


def status_line(status: int) -> str:
    """Return a status with its phrase."""
    return f"{status} {_PHRASES.get(status, 'Unknown')}"


def rest_json(status: int, code: str, message: str, request_id: str = "") -> Answer:
    """Word a refusal as Batch does."""
    headers = [
        ("Content-Type", "application/json"),
        ("x-amzn-ErrorType", code),
        ("x-amzn-RequestId", request_id or str(uuid.uuid4())),
    ]
    return Answer(status_line(status), headers, json.dumps({"message": message}).encode())


def target_json(status: int, code: str, message: str) -> Answer:
    """Word a refusal as services with an ``X-Amz-Target`` header do, such as Logs."""
    headers = [
        ("Content-Type", "application/x-amz-json-1.1"),
        ("x-amzn-RequestId", str(uuid.uuid4())),
    ]
    body = json.dumps({"__type": code, "message": message}).encode()
    return Answer(status_line(status), headers, body)


def _xml(status: int, code: str, message: str, frame: str) -> Answer:
    request_id = str(uuid.uuid4())
    error = f"<Code>{escape(code)}</Code><Message>{escape(message)}</Message>"
    body = '<?xml version="1.0" encoding="UTF-8"?>' + frame.format(error=error, id=request_id)
    headers = [("Content-Type", "text/xml"), ("x-amzn-RequestId", request_id)]
    return Answer(status_line(status), headers, body.encode())


def _query_xml(status: int, code: str, message: str) -> Answer:
    frame = "<ErrorResponse><Error><Type>Sender</Type>{error}</Error><RequestId>{id}</RequestId>"
    return _xml(status, code, message, frame + "</ErrorResponse>")


def _ec2_xml(status: int, code: str, message: str) -> Answer:
    frame = "<Response><Errors><Error>{error}</Error></Errors><RequestID>{id}</RequestID>"
    return _xml(status, code, message, frame + "</Response>")


def _s3_xml(status: int, code: str, message: str) -> Answer:
    return _xml(status, code, message, "<Error>{error}<RequestId>{id}</RequestId></Error>")


def refusal(call: Call, environ: WSGIEnvironment, status: int, code: str, message: str) -> Answer:
    """Word a refusal in the protocol of the request."""
    return _protocol(call, environ)(status, code, message)


def _protocol(call: Call, environ: WSGIEnvironment) -> Callable[[int, str, str], Answer]:
    if call.service == "s3":
        return _s3_xml
    if call.service == "ec2":
        return _ec2_xml
    if environ.get("HTTP_X_AMZ_TARGET"):
        return target_json
    return _query_xml if call.operation and call.service != "batch" else rest_json
