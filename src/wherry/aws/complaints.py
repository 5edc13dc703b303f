"""What to tell people who cannot get through to AWS: what was looked at, and how to go on.

Words only; `session` knows the facts, `failures` the kinds.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from wherry.aws.failures import Failure, Kind
from wherry.errors import nearest


@dataclass(frozen=True)
class Surroundings:
    """What a complaint may name.

    Args:
        profile: the profile that is used.
        profiles: all that there are.
        method: where the credentials come from, in botocore's words; empty without any.
        region: the region that is used.
        regions: all that botocore knows.
        ready: whether the client was given to us, so that nothing of this is ours.
    """

    profile: str = "default"
    profiles: Sequence[str] = ()
    method: str = ""
    region: str = ""
    regions: Sequence[str] = ()
    ready: bool = False


def no_region(profile: str) -> str:
    """Say that there is no region, and how to give one."""
    return (
        "no AWS region is set: neither by an option, nor by AWS_REGION or AWS_DEFAULT_REGION, nor "
        f"for the profile {profile!r} in ~/.aws/config. Set the option region, or AWS_REGION, "
        f"or run: aws configure set region eu-west-1 --profile {profile}"
    )


def explained(failure: Failure, around: Surroundings) -> str:
    """Word a failure; empty where AWS's own words are best."""
    if failure.kind is Kind.UNREACHABLE:
        return _unreachable(failure, around)
    if around.ready:
        return ""
    if failure.kind is Kind.EXPIRED:
        return _expired(failure, around)
    if failure.kind is Kind.CREDENTIALS:
        nothing = failure.code == "NoCredentialsError"
        return _none_found(around) if nothing else _not_taken(failure, around)
    return ""


def _none_found(around: Surroundings) -> str:
    others = [name for name in around.profiles if name != around.profile]
    choice = f" (there are: {', '.join(others[:8])})" if others else ""
    return (
        "no AWS credentials were found: neither in the environment (AWS_ACCESS_KEY_ID), nor for "
        f"the profile {around.profile!r} in ~/.aws/credentials and ~/.aws/config, nor as a role "
        "of this machine. Run aws configure, or aws sso login; or choose another profile with "
        f"the option profile or AWS_PROFILE{choice}; or set AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY"
    )


def _expired(failure: Failure, around: Surroundings) -> str:
    return (
        f"the AWS credentials {_whence(around)} have expired: {failure.message} "
        f"({failure.code}). {_renewing(around)}; jobs that run go on meanwhile"
    )


def _not_taken(failure: Failure, around: Surroundings) -> str:
    if "Signature" in failure.code and "expired" in failure.message.lower():
        hint = "this machine's clock may be wrong; compare it with: date -u"
    elif "Signature" in failure.code:
        hint = "the secret key does not belong to the access key; see: aws configure list"
    else:
        hint = f"see which are used with: aws sts get-caller-identity. {_renewing(around)}"
    return (
        f"AWS does not take the credentials {_whence(around)}: {failure.message} "
        f"({failure.code}); {hint}"
    )


_WHENCE = {
    "env": "in the environment (AWS_ACCESS_KEY_ID)",
    "explicit": "that were given",
    "iam-role": "of this machine's role",
    "container-role": "of this container's role",
}
_ENVIRONMENT = "Set new AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"


def _whence(around: Surroundings) -> str:
    return _WHENCE.get(around.method, f"of the profile {around.profile!r}")


def _renewing(around: Surroundings) -> str:
    if around.method in ("env", "explicit"):
        return _ENVIRONMENT
    option = "" if around.profile == "default" else f" --profile {around.profile}"
    if "sso" in around.method:
        return f"Run: aws sso login{option}"
    return f"Run: aws sso login{option}, or aws configure{option}"


def _unreachable(failure: Failure, around: Surroundings) -> str:
    hints = []
    close = nearest(around.region, around.regions) if around.region else None
    if around.regions and close and around.region not in around.regions:
        hints.append(f"there is no region {around.region!r} known; did you mean {close!r}?")
    chosen = next((name for name in _ENDPOINTS if os.environ.get(name)), None)
    if chosen and failure.endpoint.startswith(os.environ[chosen].rstrip("/")):
        hints.append(f"the address is from {chosen}; does anything listen there?")
    if not hints:
        hints.append("is the network there?")
    return f"AWS cannot be reached: {failure.message} {' '.join(hints)}"


_ENDPOINTS = ("AWS_ENDPOINT_URL_BATCH", "AWS_ENDPOINT_URL_LOGS", "AWS_ENDPOINT_URL")
