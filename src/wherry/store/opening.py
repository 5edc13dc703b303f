"""From a URL to a store."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from urllib.parse import unquote, urlsplit

from wherry.errors import StoreError, nearest
from wherry.store.api import Store

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_ALMOST = re.compile(r"(s3|file)(:/?|//)(?=[^/:])", re.IGNORECASE)
_BUCKET = re.compile(r"[a-z0-9A-Z][a-z0-9A-Z._-]{1,61}[a-z0-9A-Z]\Z")
_ALLOWED = "expected a folder, file:///folder or s3://bucket/prefix"


def open_store(
    url: str,
    *,
    profile: str | None = None,
    region: str | None = None,
    endpoint: str | None = None,
    credentials_file: str | None = None,
) -> Store:
    """Open the store that a URL names; nothing is read, written or asked yet.

    Args:
        url: ``s3://bucket/prefix``, ``file:///folder``, or the path of a folder.
        profile: a profile of AWS's configuration; by default the one that boto3 takes.
        region: the bucket's region; by default it is found out.
        endpoint: an S3 server other than AWS's; by default ``AWS_ENDPOINT_URL_S3`` or
            ``AWS_ENDPOINT_URL``, or what the profile says.
        credentials_file: a file like ``~/.aws/credentials``, to be read instead of it.

    Raises:
        StoreError: the URL names no store.
    """
    match = _SCHEME.match(url)
    almost = _ALMOST.match(url)
    if match is None and almost is not None:
        meant = f"{almost[1].lower()}://{url[almost.end() :]}"
        raise StoreError(f"{url!r} names no store: did you mean {meant}? Or ./{url}, a folder?")
    if match is None:
        return _folder(url, url)
    scheme = match[1].lower()
    if scheme == "file":
        return _file(url)
    if scheme == "s3":
        return _s3(
            url,
            profile=profile,
            region=region,
            endpoint=endpoint,
            credentials_file=credentials_file,
        )
    close = nearest(scheme, _KNOWN)
    hint = f"did you mean {close}://{url[match.end() :]}? " if close else ""
    raise StoreError(f"{url!r} names no store: {scheme}:// is not known; {hint}{_ALLOWED}")


_KNOWN: dict[str, Callable[..., Store]] = {}


def _folder(path: str, url: str) -> Store:
    from wherry.store.files import FileStore

    if not path.strip():
        raise StoreError(f"{url!r} names no store: there is no folder in it; {_ALLOWED}")
    return FileStore(os.path.abspath(os.path.expanduser(path)))


def _file(url: str) -> Store:
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        raise StoreError(
            f"{url!r} names no store: {parts.netloc!r} stands where a machine's name would; did "
            f"you mean file:///{parts.netloc}{parts.path}?"
        )
    return _folder(unquote(parts.path), url)


def _s3(url: str, **options: str | None) -> Store:
    from wherry.store.s3 import S3Store

    bucket, _, prefix = url.partition("://")[2].partition("/")
    if not bucket:
        raise StoreError(f"{url!r} names no store: there is no bucket in it; {_ALLOWED}")
    if not _BUCKET.match(bucket):
        raise StoreError(
            f"{url!r} names no store: {bucket!r} cannot be a bucket's name, which has 3 to 63 "
            f"lower-case letters, digits, dots and hyphens; {_ALLOWED}"
        )
    return S3Store(bucket, prefix.strip("/"), **options)


_KNOWN.update({"file": _file, "s3": _s3})
