"""Where every request comes in: faults first, then to the one that answers.

Batch is ours, and so is one reading of the logs; S3 may be another server's; the rest is moto's.
What is ours beside AWS lies under ``/_wherry/``.
"""

from __future__ import annotations

import io
import json
import logging
import threading
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs, urlsplit

from wherry.emulator.batch import wire
from wherry.emulator.batch.errors import BatchError, ClientError
from wherry.emulator.batch.ports import Document
from wherry.emulator.cloud import moto, stacks
from wherry.emulator.cloud.log_pages import LogPages, LogsError, as_moto_takes_it
from wherry.emulator.cloud.moto import UnknownServiceError
from wherry.emulator.cloud.surroundings import CREDENTIALS_PATH, METADATA_PATH, Cloud
from wherry.emulator.faults import Fault, Faults
from wherry.emulator.server.calls import Call, identify
from wherry.emulator.server.listening import LOCAL_ADDRESS, ConnectionCut
from wherry.emulator.server.refusals import Answer, refusal, rest_json, status_line, target_json

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

OWN_PATH = "/_wherry/"
_MOTO_PATHS = ("/moto-api", "/latest/", "/favicon.ico")
_requests = logging.getLogger("wherry.emulator.requests")
_LOOPBACK_HOSTS = frozenset(("127.0.0.1", "localhost", "::1"))


class Services(Protocol):
    """What the front needs of the emulator behind it."""

    def call(self, region: str, operation: str, request: Document) -> Document:
        """Carry out an operation of Batch."""

    def stacks_changed(self) -> None:
        """Take note that CloudFormation may have made something."""


class Front:
    """The WSGI application of the emulator.

    Args:
        services: Batch in all regions.
        cloud: logs, credentials and metadata.
        faults: what is to go wrong.
        region: for requests that name none.
        aws: moto's server.
        admin: answers under ``/_wherry/``.
        s3: answers requests to S3, if moto is not to.
    """

    def __init__(
        self,
        services: Services,
        cloud: Cloud,
        faults: Faults,
        region: str,
        aws: WSGIApplication,
        admin: Callable[[str, str, Document, Document], tuple[int, Document]],
        s3: WSGIApplication | None,
    ) -> None:
        self._services = services
        self._cloud = cloud
        self._faults = faults
        self._region = region
        self._aws = aws
        self._admin = admin
        self._s3 = s3
        self._pages = LogPages()
        self._closing = threading.Event()

    def close(self) -> None:
        """Let nobody wait any longer."""
        self._closing.set()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        path = environ.get("PATH_INFO", "")
        if _requests.isEnabledFor(logging.INFO):
            start_response = _noted(environ, start_response)
        if path.startswith(OWN_PATH):
            return _send(self._own(path, environ), start_response)
        call = identify(environ, _batch_operation)
        struck = self._faults.for_request(call.service, call.operation)
        early = self._early(call, environ, struck) if struck else None
        if early is not None:
            return _send(early, start_response)
        if any(fault.kind == "lost-reply" for fault in struck):
            self._lose_reply(call, environ)
        return self._dispatch(call, environ, start_response)

    # -- faults ---------------------------------------------------------------------------------

    def _early(self, call: Call, environ: WSGIEnvironment, struck: list[Fault]) -> Answer | None:
        """Wait where a fault says so, and answer where a fault takes the place of the work."""
        for fault in struck:
            if fault.kind == "latency":
                self._closing.wait(_seconds(fault.value))
        for fault in struck:
            if fault.kind in _ANSWERS:
                status, code, message = _ANSWERS[fault.kind](call)
                return refusal(call, environ, status, code, message)
        return None

    def _lose_reply(self, call: Call, environ: WSGIEnvironment) -> None:
        """Do the work, and break the connection.

        Raises:
            ConnectionCut: always.
        """
        answer = self._dispatch(call, environ, _unheard)
        for _ in answer:
            pass
        close = getattr(answer, "close", None)
        if close is not None:
            close()
        raise ConnectionCut

    # -- who answers ----------------------------------------------------------------------------

    def _dispatch(
        self, call: Call, environ: WSGIEnvironment, start_response: StartResponse
    ) -> Iterable[bytes]:
        if call.service == "batch":
            return _send(self._batch(call, environ), start_response)
        if call.service == "logs" and call.operation == "GetLogEvents":
            return _send(self._log_events(call, environ), start_response)
        if call.service == "logs" and call.operation == "FilterLogEvents":
            self._translate(call, environ)
        if self._s3 is not None and _is_s3(call, environ):
            return self._s3(environ, start_response)
        try:
            if call.service in ("cloudformation", "iam"):
                moto.know_managed_policies(call.region or self._region)
            if call.service == "cloudformation":
                return self._stack(environ, start_response)
            if call.service == "logs":
                with self._cloud.store.held():
                    return self._aws(environ, start_response)
            return self._aws(environ, start_response)
        except UnknownServiceError:
            message = f"this emulator has no service {call.service!r}"
            answer = refusal(call, environ, 501, "UnknownOperationException", message)
            return _send(answer, start_response)

    def _stack(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        with stacks.serving(self._services.call):
            answer = self._aws(environ, start_response)
        self._services.stacks_changed()
        return answer

    def _batch(self, call: Call, environ: WSGIEnvironment) -> Answer:
        request_id = str(uuid.uuid4())
        try:
            document = self._answered(call, environ)
        except BatchError as error:
            known = getattr(error, "request_id", "") or request_id
            return rest_json(error.status, error.code, error.message, known)
        headers = [("Content-Type", "application/json"), ("x-amzn-RequestId", request_id)]
        body = json.dumps(document, separators=(",", ":")).encode()
        return Answer(status_line(200), headers, body)

    def _answered(self, call: Call, environ: WSGIEnvironment) -> Document:
        if not _is_welcome(environ):
            raise _ForbiddenError(
                "requests from a web page of another origin are refused, because jobs run programs"
            )
        found = wire.operation_for(environ["REQUEST_METHOD"], _raw_path(environ))
        if found is None:
            raise _UnknownOperationError(
                f"{environ['REQUEST_METHOD']} {environ.get('PATH_INFO', '')} is no operation of"
                " AWS Batch"
            )
        operation, path_params = found
        query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        request = wire.checked(operation, _body(environ), path_params, query)
        return self._services.call(call.region or self._region, operation, request)

    def _log_events(self, call: Call, environ: WSGIEnvironment) -> Answer:
        try:
            document = self._pages.get(call.region or self._region, _json(_body(environ)))
        except LogsError as error:
            return target_json(400, error.code, error.message)
        headers = [
            ("Content-Type", "application/x-amz-json-1.1"),
            ("x-amzn-RequestId", str(uuid.uuid4())),
        ]
        return Answer(status_line(200), headers, json.dumps(document).encode())

    def _translate(self, call: Call, environ: WSGIEnvironment) -> None:
        """Change a request to what moto understands of it; a bad one is moto's to refuse."""
        body = _body(environ)
        with suppress(LogsError):
            body = json.dumps(as_moto_takes_it(call.region or self._region, _json(body))).encode()
        environ["wsgi.input"] = io.BytesIO(body)
        environ["CONTENT_LENGTH"] = str(len(body))

    # -- what is ours beside AWS ----------------------------------------------------------------

    def _own(self, path: str, environ: WSGIEnvironment) -> Answer:
        if path.startswith(CREDENTIALS_PATH):
            return _found(self._cloud.credentials.fetch(path.removeprefix(CREDENTIALS_PATH)))
        if path.startswith(METADATA_PATH):
            return _found(self._cloud.metadata.answer(path.removeprefix(METADATA_PATH)))
        if not _is_local(environ):
            return _plain(403, _error("the admin path answers only to this machine's loopback"))
        query = {
            name: values[-1] for name, values in parse_qs(environ.get("QUERY_STRING", "")).items()
        }
        try:
            body = _json(_body(environ))
        except LogsError as error:
            return _plain(400, _error(error.message))
        status, document = self._admin(
            environ["REQUEST_METHOD"], path.removeprefix(OWN_PATH).strip("/"), query, body
        )
        return _plain(status, document)


class _ForbiddenError(ClientError):
    code = "AccessDeniedException"
    status = 403


class _UnknownOperationError(ClientError):
    code = "UnknownOperationException"
    status = 404


def _throttled(call: Call) -> tuple[int, str, str]:
    if call.service == "batch":
        return 429, "TooManyRequestsException", "Too Many Requests"
    if call.service == "s3":
        return 503, "SlowDown", "Please reduce your request rate."
    return 400, "ThrottlingException", "Rate exceeded"


def _failed(call: Call) -> tuple[int, str, str]:
    code = "ServerException" if call.service == "batch" else "InternalFailure"
    return 500, code, "The service had an internal failure; a fault of the emulator asked for it."


def _denied(call: Call) -> tuple[int, str, str]:
    action = f"{call.service or 's3'}:{call.operation or '*'}"
    return (
        403,
        "AccessDenied" if call.service == "s3" else "AccessDeniedException",
        f"User: arn:aws:iam::123456789012:user/wherry is not authorized to perform: {action}",
    )


def _expired(call: Call) -> tuple[int, str, str]:
    code = "ExpiredToken" if call.service == "s3" else "ExpiredTokenException"
    return 403, code, "The security token included in the request is expired"


_ANSWERS = {
    "throttle": _throttled,
    "server-error": _failed,
    "access-denied": _denied,
    "expired-token": _expired,
}


def _batch_operation(method: str, path: str) -> str | None:
    found = wire.operation_for(method, path)
    return found[0] if found is not None else None


def _is_s3(call: Call, environ: WSGIEnvironment) -> bool:
    """Tell S3 from the rest as moto does: what says nothing of itself is S3."""
    path = environ.get("PATH_INFO", "")
    if call.service:
        return call.service == "s3" and not path.startswith("/v20180820/")
    return not call.operation and not path.startswith(_MOTO_PATHS)


def _is_local(environ: WSGIEnvironment) -> bool:
    """Tell whether a request came over loopback, and was meant for it by whoever sent it."""
    if not str(environ.get(LOCAL_ADDRESS, "127.0.0.1")).startswith("127."):
        return False
    host = urlsplit(f"//{environ.get('HTTP_HOST', '')}").hostname
    return host in _LOOPBACK_HOSTS and _is_welcome(environ)


def _is_welcome(environ: WSGIEnvironment) -> bool:
    """Tell whether a request comes from a program, or from a page of this machine.

    A web page anywhere may send a browser's request to loopback addresses; its origin gives it
    away.
    """
    origin = environ.get("HTTP_ORIGIN")
    if not origin:
        return environ.get("HTTP_SEC_FETCH_SITE") not in ("cross-site", "same-site")
    return urlsplit(origin).hostname in _LOOPBACK_HOSTS


def _raw_path(environ: WSGIEnvironment) -> str:
    """Return the path as it was sent: a slash in an ARN is not one of the path's."""
    raw = str(environ.get("RAW_URI") or environ.get("PATH_INFO", "")).partition("?")[0]
    return raw if raw.startswith("/") else urlsplit(raw).path


def _body(environ: WSGIEnvironment) -> bytes:
    if environ.get("wsgi.input_terminated"):
        return bytes(environ["wsgi.input"].read())
    length = int(environ.get("CONTENT_LENGTH") or 0)
    return bytes(environ["wsgi.input"].read(length)) if length > 0 else b""


def _json(body: bytes) -> Document:
    if not body.strip():
        return {}
    try:
        found = json.loads(body)
    except ValueError as error:
        raise LogsError("SerializationException", f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise LogsError("SerializationException", "the body is not a JSON object")
    return found


def _seconds(value: str) -> float:
    try:
        return max(0.0, float(value))
    except ValueError:
        return 1.0


def _error(message: str) -> Document:
    return {"error": message, "message": message}


def _plain(status: int, document: object) -> Answer:
    headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
    return Answer(status_line(status), headers, json.dumps(document).encode())


def _found(document: object) -> Answer:
    return _plain(404, _error("not found")) if document is None else _plain(200, document)


def _noted(environ: WSGIEnvironment, start_response: StartResponse) -> StartResponse:
    """Let whoever listens know how a request was answered."""
    call = identify(environ, _batch_operation)

    def start(
        status: str, headers: list[tuple[str, str]], exc_info: Any = None
    ) -> Callable[[bytes], object]:
        what = f"{call.service}:{call.operation}" if call.service else environ.get("PATH_INFO")
        who = {"client": environ.get("HTTP_USER_AGENT", "")}
        _requests.info("%s %s %s", environ["REQUEST_METHOD"], what, status, extra=who)
        return start_response(status, headers, exc_info)

    return start


def _unheard(
    _status: str, _headers: list[tuple[str, str]], _exc_info: object = None
) -> Callable[[bytes], object]:
    """Take the head of an answer that nobody will get."""
    return len


def _send(answer: Answer, start_response: StartResponse) -> list[bytes]:
    headers = [*answer.headers, ("Content-Length", str(len(answer.body)))]
    start_response(answer.status, headers)
    return [answer.body]
