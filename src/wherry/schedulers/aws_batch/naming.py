"""Names at AWS Batch: of jobs, definitions, queues, images and roles, and AWS's rules for each.

Pure text; nothing here knows what the names are used for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from wherry.aws.definitions import content_hash
from wherry.aws.documents import Document
from wherry.errors import InvalidOptionError, InvalidSpecError
from wherry.schedulers.aws_batch import limits

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_DIGITS = 9
_RANDOM_DIGITS = 4
TOKEN_LENGTH = _TIME_DIGITS + _RANDOM_DIGITS
_PREFIX = "wherry"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}\Z")
_QUEUE_ARN = re.compile(
    r"arn:[\w-]+:batch:[a-z0-9-]+:\d{12}:job-queue/(?P<name>[\w-]+)\Z", re.ASCII
)
_DEFINITION = re.compile(
    r"(arn:[\w-]+:batch:[a-z0-9-]+:\d{12}:job-definition/)?[\w-]{1,128}(:\d+)?\Z", re.ASCII
)
_ROLE_ARN = re.compile(r"arn:[\w-]+:iam::\d{12}:role/[\w+=,.@/-]+\Z", re.ASCII)
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@#-]*\Z")
_SECRET = re.compile(r"(arn:[\w-]+:(secretsmanager|ssm):\S+|[\w./-]+)\Z", re.ASCII)
_OURS = re.compile(rf"(?P<label>{_PREFIX}-.+)-[0-9a-f]{{16}}\Z")
_TOKEN = re.compile(rf"[{_DIGITS}]{{{TOKEN_LENGTH}}}\Z")


def make_token(now: float | None = None) -> str:
    """Make 13 lower-case characters that sort by time and that nobody else makes.

    Args:
        now: seconds since the epoch; the present when not given.
    """
    import os
    import time

    moment = int((time.time() if now is None else now) * 1000)
    noise = int.from_bytes(os.urandom(8), "big") >> (64 - 5 * _RANDOM_DIGITS)
    number = (moment << 5 * _RANDOM_DIGITS) | noise
    digits = [_DIGITS[(number >> 5 * place) & 31] for place in range(TOKEN_LENGTH)]
    return "".join(reversed(digits))


def job_name(app_name: str, token: str) -> str:
    """Return the job name of an app: its name, cut to fit, and the token.

    Room is left for what `part_name` adds.
    """
    room = limits.NAME_LENGTH - len(token) - 1 - _PART_ROOM
    return f"{_plain(app_name)[:room]}-{token}"


_PART_ROOM = 5


def part_name(name: str, index: int, parts: int) -> str:
    """Return the name of one of the jobs behind an app; the app's own when there is one only."""
    return name if parts == 1 else f"{name}-{index}"


def token_of(name: str) -> str:
    """Return the token in a job name that Wherry made, or nothing in another's."""
    for word in name.rsplit("-", 2)[:0:-1]:
        if _TOKEN.match(word):
            return word
    return ""


def app_id(queue: str, name: str) -> str:
    """Return the id of an app: its queue's name and its job name."""
    return f"{queue_name(queue)}:{name}"


def queue_name(queue: str) -> str:
    """Return the name in a queue's name or ARN.

    Raises:
        InvalidOptionError: it is neither.
    """
    arn = _QUEUE_ARN.match(queue)
    name = arn["name"] if arn else queue
    if not _NAME.match(name):
        raise InvalidOptionError(
            f"option 'queue' takes the name of a job queue (1 to {limits.NAME_LENGTH} letters, "
            f"digits, '-' and '_') or its ARN, not {queue!r}"
        )
    return name


def named(definition: Mapping[str, Any], app_name: str | None = None) -> Document:
    """Return a definition with the name that its content gives it.

    Args:
        definition: the parameters of RegisterJobDefinition.
        app_name: what to call it; when not given, the name that it has is renewed if it is one
            of ours, and kept if somebody chose another.
    """
    digest = content_hash(dict(definition))
    if app_name is None:
        ours = _OURS.match(str(definition.get("jobDefinitionName", "")))
        if ours is None:
            return dict(definition)
        label = ours["label"]
    else:
        room = limits.NAME_LENGTH - len(digest) - 1
        label = f"{_PREFIX}-{_plain(app_name)}"[:room]
    name = {"jobDefinitionName": f"{label}-{digest}"}  # first, where people look for it
    return {**name, **definition, **name}


def check_share(share_id: str) -> None:
    """Refuse a share identifier that AWS would not take.

    Raises:
        InvalidOptionError: it has other characters than letters and digits, or too many.
    """
    if not (share_id.isascii() and share_id.isalnum() and len(share_id) <= limits.SHARE_LENGTH):
        raise InvalidOptionError(
            f"option 'share_id' must be 1 to {limits.SHARE_LENGTH} letters and digits, "
            f"not {share_id!r}"
        )


def check_definition(reference: str) -> None:
    """Refuse what cannot name a job definition.

    Raises:
        InvalidOptionError: it is no name, ``name:revision`` or ARN.
    """
    if not _DEFINITION.match(reference):
        raise InvalidOptionError(
            "option 'job_definition' takes the name, name:revision or ARN of a job definition, "
            f"not {reference!r}"
        )


def check_role_arn(option: str, arn: str) -> None:
    """Refuse what is not the ARN of an IAM role.

    Raises:
        InvalidOptionError: it is something else, such as the role's name.
    """
    if not _ROLE_ARN.match(arn):
        raise InvalidOptionError(
            f"option {option!r} takes the ARN of an IAM role "
            f"(arn:aws:iam::<account>:role/<name>), not {arn!r}"
        )


def check_image(where: str, image: str) -> None:
    """Refuse what cannot be an image reference.

    Raises:
        InvalidSpecError: it is empty, too long, or has other characters than AWS takes.
    """
    if not image:
        raise InvalidSpecError(
            f"{where} has no image; on AWS Batch every job runs in one, such as alpine:3"
        )
    if not _IMAGE.match(image) or len(image) > limits.IMAGE_LENGTH:
        raise InvalidSpecError(
            f"{where}: {image!r} is not an image reference (at most {limits.IMAGE_LENGTH} "
            "letters, digits and any of . _ - / : @ #)"
        )


def secret_complaint(name: str, reference: str) -> str:
    """Say what is wrong with where a secret is kept; empty when AWS could find it."""
    if _SECRET.match(reference):
        return ""
    return (
        f"the secret {name} is kept at {reference!r}; on AWS Batch secrets are ARNs of AWS "
        "Secrets Manager or of the SSM parameter store, or names of SSM parameters in the same "
        "region"
    )


def _plain(name: str) -> str:
    """Return a name with what AWS does not take replaced; app names may have dots."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", name)
