"""What a failed call means: whether it was carried out, whether to repeat it, and how to say so.

botocore has some sixty exceptions, and AWS hundreds of codes; here they come down to a few kinds.
botocore is recognised by the names of its classes, so that reading a failure loads nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from wherry.errors import (
    AwsError,
    CredentialsError,
    LostReply,
    ThrottledError,
    UnreachableError,
    UsageError,
    WherryError,
)


class Kind(Enum):
    """What is known of a call that failed."""

    THROTTLED = auto()
    """Not carried out: too many of them."""
    FAILED = auto()
    """The service had a failure of its own; nobody knows whether it was carried out."""
    BROKEN = auto()
    """It was sent, and the answer did not come; nobody knows whether it was carried out."""
    UNREACHABLE = auto()
    """It was not sent: there was no connection."""
    EXPIRED = auto()
    """Not carried out: the credentials were good once."""
    CREDENTIALS = auto()
    """Not carried out: there are no credentials, or AWS does not know them."""
    REFUSED = auto()
    """Not carried out, and never will be."""
    INVALID = auto()
    """Not sent: botocore saw that AWS would refuse it."""


FATE_UNKNOWN = frozenset((Kind.FAILED, Kind.BROKEN))


@dataclass(frozen=True)
class Failure:
    """One failed call.

    Args:
        kind: what is known of it.
        message: AWS's or botocore's own words.
        code: AWS's name for it, or the name of botocore's exception.
        status: the HTTP status; 0 without an answer.
        request_id: AWS's name for the call.
        retry_after: seconds that AWS asks to wait; 0 when it does not.
        endpoint: the address that did not answer, where botocore says it.
    """

    kind: Kind
    message: str
    code: str = ""
    status: int = 0
    request_id: str = ""
    retry_after: float = 0.0
    endpoint: str = ""


_CODES = {
    Kind.THROTTLED: (
        "TooManyRequestsException",
        "ThrottlingException",
        "ThrottledException",
        "Throttling",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "BandwidthLimitExceeded",
        "PriorRequestNotComplete",
        "SlowDown",
        "EC2ThrottledException",
    ),
    Kind.EXPIRED: (
        "ExpiredToken",
        "ExpiredTokenException",
        "RequestExpired",
        "TokenRefreshRequired",
    ),
    Kind.CREDENTIALS: (
        "UnrecognizedClientException",
        "InvalidClientTokenId",
        "InvalidAccessKeyId",
        "InvalidSignatureException",
        "SignatureDoesNotMatch",
        "IncompleteSignature",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "AuthFailure",
    ),
}
_KIND_OF_CODE = {code: kind for kind, codes in _CODES.items() for code in codes}

# By the first name that is found among an exception's own class and its bases.
_KIND_OF_CLASS = {
    "ParamValidationError": Kind.INVALID,
    "NoCredentialsError": Kind.CREDENTIALS,
    "PartialCredentialsError": Kind.CREDENTIALS,
    "CredentialRetrievalError": Kind.CREDENTIALS,
    "UnknownCredentialError": Kind.CREDENTIALS,
    "NoAuthTokenError": Kind.CREDENTIALS,
    "UnauthorizedSSOTokenError": Kind.EXPIRED,
    "SSOTokenLoadError": Kind.EXPIRED,
    "TokenRetrievalError": Kind.EXPIRED,
    "LoginRefreshRequired": Kind.EXPIRED,
    "SSOError": Kind.CREDENTIALS,
    "LoginError": Kind.CREDENTIALS,
    "ConnectionError": Kind.UNREACHABLE,  # with all of no route, no name, no TLS, no proxy
    "HTTPClientError": Kind.BROKEN,  # time-outs, and connections that were cut
    "IncompleteReadError": Kind.BROKEN,
    "ResponseParserError": Kind.BROKEN,  # half an answer, or a proxy's page
}
_WRAPPING = re.compile(
    r"Error executing request, Exception : (?P<text>.*), RequestId: [\w-]+\s*\Z", re.DOTALL
)


def client_errors() -> tuple[type[Exception], ...]:
    """Return what a client raises when a call fails."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    return ClientError, BotoCoreError, ResponseParserError


def read(error: Exception) -> Failure:
    """Say what an exception of a client means."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping) and "Error" in response:
        return _answered(response)
    names = [cls.__name__ for cls in type(error).__mro__]
    kind = next((_KIND_OF_CLASS[name] for name in names if name in _KIND_OF_CLASS), Kind.REFUSED)
    fields = getattr(error, "kwargs", {})
    return Failure(kind, str(error), code=names[0], endpoint=str(fields.get("endpoint_url", "")))


def _answered(response: Mapping[str, Any]) -> Failure:
    about: Mapping[str, Any] = response.get("ResponseMetadata") or {}
    error: Mapping[str, Any] = response.get("Error") or {}
    code, status = str(error.get("Code", "")), int(about.get("HTTPStatusCode") or 0)
    return Failure(
        _kind(code, status),
        _unwrapped(str(error.get("Message", ""))),
        code,
        status,
        str(about.get("RequestId", "")),
        _seconds((about.get("HTTPHeaders") or {}).get("retry-after")),
    )


def _kind(code: str, status: int) -> Kind:
    known = _KIND_OF_CODE.get(code)
    if known is not None:
        return known
    if status == 429:
        return Kind.THROTTLED
    return Kind.FAILED if status >= 500 else Kind.REFUSED


def _unwrapped(message: str) -> str:
    """Return what AWS Batch says without the frame that it puts around most refusals."""
    framed = _WRAPPING.match(message)
    return framed["text"] if framed else message


def _seconds(text: str | None) -> float:
    try:
        return max(0.0, min(60.0, float(text or 0)))
    except ValueError:
        return 0.0


def error_of(failure: Failure, service: str, operation: str, *, words: str = "") -> WherryError:
    """Return what to raise for a failure.

    Args:
        failure: what happened.
        service: what was asked, as people call it.
        operation: what it was asked for.
        words: said instead of our own, where somebody knows better.
    """
    if failure.kind is Kind.INVALID:
        return UsageError(f"{service} {operation} cannot be asked so: {failure.message}")
    kind, frame = _ERRORS[failure.kind]
    if failure.kind is Kind.REFUSED and failure.code.startswith("AccessDenied"):
        frame = _DENIED
    said = f"{failure.message} ({failure.code})" if failure.code else failure.message
    message = words or frame.format(service=service, operation=operation, said=said)
    return kind(
        message,
        code=failure.code,
        operation=operation,
        status=failure.status,
        request_id=failure.request_id,
    )


def lost(failure: Failure, service: str, operation: str) -> LostReply:
    """Return what to raise when nobody knows whether a call was carried out."""
    return LostReply(
        f"{service} may or may not have carried out {operation}: {failure.message}",
        code=failure.code,
        operation=operation,
        status=failure.status,
        request_id=failure.request_id,
    )


_DENIED = "these credentials may not do {operation} at {service}: {said}"
_ERRORS: dict[Kind, tuple[type[AwsError], str]] = {
    Kind.THROTTLED: (
        ThrottledError,
        "{service} is asked too often, and has not done {operation}: {said}; try again later",
    ),
    Kind.FAILED: (AwsError, "{service} failed at {operation} again and again: {said}"),
    Kind.BROKEN: (UnreachableError, "{service} gave no answer to {operation}: {said}"),
    Kind.UNREACHABLE: (UnreachableError, "{service} cannot be reached: {said}"),
    Kind.EXPIRED: (CredentialsError, "the AWS credentials have expired: {said}"),
    Kind.CREDENTIALS: (CredentialsError, "AWS does not take the credentials: {said}"),
    Kind.REFUSED: (AwsError, "{service} refused {operation}: {said}"),
}
