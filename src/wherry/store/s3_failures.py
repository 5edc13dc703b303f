"""What came back from S3 instead of what was asked for, read from either client's exceptions."""

from __future__ import annotations

import enum
import re
from typing import Any


class Kind(enum.Enum):
    """What is the matter, as far as it decides what to do next."""

    MISSING = "there is no such object"
    NO_BUCKET = "there is no such bucket"
    TAKEN = "the key is taken"
    PAST_END = "the range begins after the object's end"
    WHOLE = "the server does not mark a range as one"
    REGION = "the bucket is in another region"
    EXPIRED = "the credentials have expired"
    CREDENTIALS = "the credentials are not taken"
    NO_CREDENTIALS = "there are no credentials"
    DENIED = "not allowed"
    UNKNOWN_HEADER = "the server does not know conditions"
    BUSY = "the server failed, again and again"
    UNREACHABLE = "no answer"
    BROKEN = "the connection was lost in the middle of an answer"
    OTHER = "something else"


_BY_CODE = {
    "NoSuchKey": Kind.MISSING,
    "NoSuchBucket": Kind.NO_BUCKET,
    "PreconditionFailed": Kind.TAKEN,
    "ConditionalRequestConflict": Kind.TAKEN,
    "InvalidRange": Kind.PAST_END,
    "PermanentRedirect": Kind.REGION,
    "TemporaryRedirect": Kind.REGION,
    "AuthorizationHeaderMalformed": Kind.REGION,
    "IllegalLocationConstraintException": Kind.REGION,
    "ExpiredToken": Kind.EXPIRED,
    "ExpiredTokenException": Kind.EXPIRED,
    "TokenRefreshRequired": Kind.EXPIRED,
    "RequestExpired": Kind.EXPIRED,
    "InvalidAccessKeyId": Kind.CREDENTIALS,
    "InvalidToken": Kind.CREDENTIALS,
    "InvalidClientTokenId": Kind.CREDENTIALS,
    "SignatureDoesNotMatch": Kind.CREDENTIALS,
    "RequestTimeTooSkewed": Kind.CREDENTIALS,
    "AccessDenied": Kind.DENIED,
    "AllAccessDisabled": Kind.DENIED,
    "AccountProblem": Kind.DENIED,
    "NotImplemented": Kind.UNKNOWN_HEADER,
    "SlowDown": Kind.BUSY,
    "InternalError": Kind.BUSY,
    "ServiceUnavailable": Kind.BUSY,
    "RequestTimeout": Kind.BUSY,
}
_BY_STATUS = {
    301: Kind.REGION,
    307: Kind.REGION,
    401: Kind.CREDENTIALS,
    403: Kind.DENIED,
    404: Kind.MISSING,
    409: Kind.TAKEN,
    412: Kind.TAKEN,
    416: Kind.PAST_END,
    429: Kind.BUSY,
    501: Kind.UNKNOWN_HEADER,
}


class S3Failure(Exception):  # noqa: N818 — never leaves the store, which makes errors of it
    """S3 did not do what it was asked to do.

    Args:
        kind: what is the matter.
        message: S3's own words, or the client's.
        code: S3's name for it, such as ``NoSuchKey``; empty without one.
        status: the HTTP status; 0 when there was no answer.
        region: where S3 says the bucket is; empty when it does not.
    """

    def __init__(
        self, kind: Kind, message: str, *, code: str = "", status: int = 0, region: str = ""
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.code = code
        self.status = status
        self.region = region

    @property
    def words(self) -> str:
        """What S3 said, in one piece."""
        named = self.code or (f"HTTP {self.status}" if self.status else "")
        return " ".join(f"{self.message} ({named})".split()) if named else self.message


def kind_of(code: str, status: int) -> Kind:
    """Tell what an answer of S3 means."""
    known = _BY_CODE.get(code) or _BY_STATUS.get(status)
    if known:
        return known
    return Kind.BUSY if status >= 500 else Kind.OTHER


# -- obstore --------------------------------------------------------------------------------------

_STATUS = re.compile(r"status code: (\d{3})|status: (\d{3}),")
_ELEMENT = r"<{0}>([^<]*)</{0}>"
_EXPECTED = re.compile(r"expecting '([a-z0-9-]+)'")
_REDIRECTED = "redirect without LOCATION"
# obstore goes on where an answer broke off; some servers cannot.
_BROKEN = re.compile(
    r"body error|decoding response|incomplete|before message length|Content-Range header not",
    re.IGNORECASE,
)
_LOST = re.compile(r"connect|dns|timed out|timeout|error sending|broken pipe", re.IGNORECASE)


def of_obstore(error: BaseException) -> S3Failure:
    """Read what obstore raised: its classes say little, its text has S3's whole answer."""
    text = str(error)
    plain = text.partition("\n\nDebug source")[0]
    if "non-partial response" in plain:
        return S3Failure(Kind.WHOLE, plain)
    if _REDIRECTED in plain:
        return S3Failure(Kind.REGION, "the bucket is in another region", status=301)
    match = _STATUS.search(text)
    if match:
        return _of_answer(int(match[1] or match[2]), plain)
    if isinstance(error, FileNotFoundError):
        return S3Failure(Kind.MISSING, plain, status=404)
    if type(error).__name__ == "AlreadyExistsError":
        return S3Failure(Kind.TAKEN, plain, status=412)
    kinds = ((_BROKEN, Kind.BROKEN), (_LOST, Kind.UNREACHABLE))
    kind = next((kind for pattern, kind in kinds if pattern.search(plain)), Kind.OTHER)
    return S3Failure(kind, _without_address(plain))


def _of_answer(status: int, text: str) -> S3Failure:
    code, message, region = (_element(name, text) for name in ("Code", "Message", "Region"))
    expected = _EXPECTED.search(message)
    kind = kind_of(code, status)
    if code == "AuthorizationHeaderMalformed" and not (region or expected):
        kind = Kind.CREDENTIALS
    return S3Failure(
        kind,
        message or _without_address(text),
        code=code,
        status=status,
        region=region or (expected[1] if expected else ""),
    )


def _element(name: str, text: str) -> str:
    match = re.search(_ELEMENT.format(name), text)
    return match[1].strip() if match else ""


def _without_address(text: str) -> str:
    """Leave out what the caller says anyhow: which request it was, and how long it took."""
    return " ".join(
        re.sub(r"^.*?Error performing .*? in [0-9.]+[nµm]?s(, [^-]*)? - ", "", text).split()
    )


# -- botocore -------------------------------------------------------------------------------------


def of_botocore(error: Exception) -> S3Failure:
    """Read what botocore raised."""
    from botocore import exceptions as raised

    if isinstance(error, raised.ClientError):
        return _of_response(error.response)
    for kind, classes in _botocore_kinds():
        if isinstance(error, classes):
            return S3Failure(kind, str(error))
    return S3Failure(Kind.OTHER, str(error), code=type(error).__name__)


def _botocore_kinds() -> list[tuple[Kind, tuple[type[Exception], ...]]]:
    from botocore import exceptions as raised

    none = (raised.NoCredentialsError, raised.PartialCredentialsError)
    untaken = (
        raised.CredentialRetrievalError,
        raised.SSOError,
        raised.TokenRetrievalError,
        raised.MetadataRetrievalError,
    )
    broken = (raised.ResponseStreamingError, raised.IncompleteReadError)
    lost = (raised.HTTPClientError, raised.ConnectionError)
    return [
        (Kind.NO_CREDENTIALS, none),
        (Kind.CREDENTIALS, untaken),
        (Kind.BROKEN, broken),
        (Kind.UNREACHABLE, lost),
    ]


def _of_response(response: Any) -> S3Failure:
    error = response.get("Error", {})
    about = response.get("ResponseMetadata", {})
    status = int(about.get("HTTPStatusCode", 0))
    code = str(error.get("Code", ""))
    code = "" if code.isdigit() else code
    region = error.get("Region") or about.get("HTTPHeaders", {}).get("x-amz-bucket-region", "")
    message = str(error.get("Message", ""))
    expected = _EXPECTED.search(message)
    return S3Failure(
        kind_of(code, status),
        message,
        code=code,
        status=status,
        region=str(region or (expected[1] if expected else "")),
    )
