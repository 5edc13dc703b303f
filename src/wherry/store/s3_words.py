"""What to tell people when S3 does not do what it was asked to do: what, why, the way out."""

from __future__ import annotations

import os
from collections.abc import Callable

from wherry.errors import (
    CorruptObjectError,
    CredentialsError,
    MissingObjectError,
    StoreError,
    WherryError,
    nearest,
)
from wherry.store.s3_access import Access
from wherry.store.s3_failures import Kind, S3Failure

_PERMISSIONS = {
    "read": "s3:GetObject",
    "look at": "s3:GetObject",
    "write": "s3:PutObject",
    "list": "s3:ListBucket",
    "delete": "s3:DeleteObject",
}


def error_of(
    failure: S3Failure,
    doing: str,
    url: str,
    key: str,
    access: Access,
    buckets: Callable[[], list[str]],
) -> WherryError:
    """Make an error of a failure.

    Args:
        failure: what came back.
        doing: what was asked: ``read``, ``look at``, ``write``, ``list``, ``delete``.
        url: the store's.
        key: the object's key, or the beginning of keys.
        access: how the bucket is reached.
        buckets: returns the buckets that there are, if we may know.
    """
    what = f"{url}/{key}".rstrip("/")
    if failure.kind is Kind.MISSING:
        return MissingObjectError(
            f"there is no {what}: it was deleted, or never stored, or the store is another one"
        )
    if failure.kind is Kind.TAKEN and doing == "read":
        return CorruptObjectError(f"{what} was replaced while it was read; read it again")
    if failure.kind in (Kind.NO_CREDENTIALS, Kind.CREDENTIALS, Kind.EXPIRED):
        return _of_credentials(failure, doing, what, access)
    return StoreError(f"cannot {doing} {what}: {_reason(failure, doing, what, access, buckets)}")


def _reason(
    failure: S3Failure, doing: str, what: str, access: Access, buckets: Callable[[], list[str]]
) -> str:
    if failure.kind is Kind.NO_BUCKET:
        return _no_bucket(access, buckets())
    if failure.kind is Kind.DENIED:
        return _denied(failure, doing, what, access)
    if failure.kind in (Kind.UNREACHABLE, Kind.BROKEN):
        return _unreachable(failure, access)
    if failure.kind is Kind.BUSY:
        return f"S3 failed at it again and again: {failure.words}. Try again later"
    if failure.kind is Kind.REGION:
        return (
            f"the bucket {access.bucket!r} is not in {access.region}, and S3 does not say where it "
            f"is ({failure.words}). Give the region, as an option or by AWS_REGION"
        )
    return failure.words


def _no_bucket(access: Access, names: list[str]) -> str:
    place = f" at {access.endpoint}" if access.endpoint else ""
    close = nearest(access.bucket, names)
    if close:
        hint = f"did you mean {close!r}?"
    elif names:
        hint = f"there are: {', '.join(sorted(names)[:12])}"
    else:
        hint = f"make it with: aws s3 mb s3://{access.bucket}"
    return f"there is no bucket {access.bucket!r}{place}; {hint}"


def _denied(failure: S3Failure, doing: str, what: str, access: Access) -> str:
    permission = _PERMISSIONS[doing]
    bucket = f"arn:aws:s3:::{access.bucket}"
    objects = f"arn:aws:s3:::{what.removeprefix('s3://').rpartition('/')[0]}/*"
    arn = bucket if doing == "list" else objects
    hint = ""
    if doing in ("read", "look at"):
        hint = (
            f", and s3:ListBucket on {bucket}, without which S3 says the same "
            "of objects that are not there"
        )
    return (
        f"S3 does not allow it: {failure.words}. The credentials {_whence(access)} need the "
        f"permission {permission} on {arn}{hint}; see who they are with: aws sts "
        "get-caller-identity"
    )


_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def _unreachable(failure: S3Failure, access: Access) -> str:
    address = access.server().url
    chosen = next(
        (name for name in _ENDPOINTS if os.environ.get(name, "").rstrip("/") == address), None
    )
    if chosen:
        hint = f"The address is from {chosen}; does anything listen there?"
    elif access.endpoint:
        hint = "Does anything listen there?"
    else:
        hint = f"Is the network there, and is {access.region} a region of AWS?"
    return f"{address} gives no answer ({failure.message}). {hint}"


def _of_credentials(failure: S3Failure, doing: str, what: str, access: Access) -> WherryError:
    return CredentialsError(
        f"cannot {doing} {what}: {_about_credentials(failure, access)}",
        code=failure.code,
        operation=doing,
        status=failure.status,
    )


def _about_credentials(failure: S3Failure, access: Access) -> str:
    if failure.kind is Kind.NO_CREDENTIALS:
        return _none_found(access)
    if failure.kind is Kind.EXPIRED:
        return (
            f"the AWS credentials {_whence(access)} have expired: {failure.words}. "
            f"{_renewing(access)}"
        )
    if failure.code == "RequestTimeTooSkewed":
        hint = "this machine's clock is wrong; compare it with: date -u"
    elif failure.code == "SignatureDoesNotMatch":
        hint = "the secret key does not belong to the access key; see: aws configure list"
    else:
        hint = f"see which are used with: aws sts get-caller-identity. {_renewing(access)}"
    if not failure.status:
        return f"the AWS credentials {_whence(access)} cannot be had: {failure.words}; {hint}"
    return f"S3 does not take the credentials {_whence(access)}: {failure.words}; {hint}"


def _none_found(access: Access) -> str:
    others = [name for name in access.profiles() if name != access.profile]
    choice = f" (there are: {', '.join(others[:8])})" if others else ""
    return (
        "no AWS credentials were found: neither in the environment (AWS_ACCESS_KEY_ID), nor for "
        f"the profile {access.profile!r} in ~/.aws/credentials and ~/.aws/config, nor as a role "
        "of this machine. Run aws configure, or aws sso login; or choose another profile with "
        f"the option profile or AWS_PROFILE{choice}; or set AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY"
    )


_WHENCE = {
    "env": "in the environment (AWS_ACCESS_KEY_ID)",
    "explicit": "that were given",
    "iam-role": "of this machine's role",
    "container-role": "of this container's role",
}
_ENVIRONMENT = "Set new AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"


def _whence(access: Access) -> str:
    return _WHENCE.get(access.method, f"of the profile {access.profile!r}")


def _renewing(access: Access) -> str:
    if access.method in ("env", "explicit"):
        return _ENVIRONMENT
    option = "" if access.profile == "default" else f" --profile {access.profile}"
    if "sso" in access.method:
        return f"Run: aws sso login{option}"
    return f"Run: aws sso login{option}, or aws configure{option}"
