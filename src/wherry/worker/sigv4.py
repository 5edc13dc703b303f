"""Signature Version 4, as S3 wants it."""

from __future__ import annotations

import hashlib
import hmac
import time

from .http import host_of, split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .credentials import Credentials
    from .formats import Buffer

_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
UNSIGNED = "UNSIGNED-PAYLOAD"


def encode(text: str, plain: str = "") -> str:
    """Encode a part of a URL as the signature wants it.

    Args:
        text: what is encoded, in UTF-8.
        plain: characters left as they are besides letters, digits and ``-_.~``.
    """
    kept = _PLAIN | set(plain.encode())
    data = text.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if byte in kept else f"%{byte:02X}" for byte in data)


def payload_hash(url: str, body: Sequence[Buffer]) -> str:
    """Return what the signature says of a body: TLS protects it, or else its SHA-256 does."""
    if body and url.startswith("https:"):
        return UNSIGNED
    made = hashlib.sha256()
    for part in body:
        made.update(part)
    return made.hexdigest()


def sign(
    url: str,
    method: str,
    headers: dict[str, str],
    payload: str,
    credentials: Credentials,
    region: str,
    now: float,
) -> dict[str, str]:
    """Return a request's headers with those that sign it.

    Args:
        url: its query sorted and encoded.
        method: such as GET.
        headers: all of them are signed.
        payload: from `payload_hash`.
        credentials: whose.
        region: of the bucket.
        now: seconds since the epoch, by the server's clock.
    """
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    made = {name.lower(): value for name, value in headers.items()}
    made["x-amz-date"] = stamp
    made["x-amz-content-sha256"] = payload
    if credentials.token:
        made["x-amz-security-token"] = credentials.token
    signed = {**made, "host": host_of(url)}
    names = ";".join(sorted(signed))
    path, _, query = split(url)[3].partition("?")
    lines = [f"{name}:{' '.join(signed[name].split())}" for name in sorted(signed)]
    request = "\n".join([method, path, query, *lines, "", names, payload])
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    key = f"AWS4{credentials.secret}".encode()
    for word in scope.split("/"):
        key = hmac.new(key, word.encode(), "sha256").digest()
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}"
    signature = hmac.new(key, text.encode(), "sha256").hexdigest()
    made["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credentials.access}/{scope}, "
        f"SignedHeaders={names}, Signature={signature}"
    )
    return made
