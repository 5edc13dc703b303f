"""The tags of a job: ours, the user's, and the app's metadata; within AWS's rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from wherry.errors import InvalidOptionError, UsageError
from wherry.schedulers.aws_batch import limits

PREFIX = "wherry/"
"""What the keys of our own tags begin with."""

_RESERVED = ("aws:", PREFIX)
_CHARACTERS = re.compile(r"[\w\s.:/=+\-@]*\Z")
_OTHERS = re.compile(r"[^\w\s.:/=+\-@]")
# The definition's own tag goes onto the tasks besides the job's.
_MOST = limits.TAGS - 1


def check_tags(where: str, tags: Mapping[str, str]) -> None:
    """Refuse tags that AWS would refuse, or that are ours to set.

    Raises:
        InvalidOptionError: a key or a value.
    """
    for key, value in tags.items():
        complaint = _complaint(key, value)
        if complaint:
            raise InvalidOptionError(f"{where}: {complaint}")


def job_tags(
    own: Mapping[str, str],
    user: Mapping[str, str],
    metadata: Mapping[str, str],
    warn: Callable[[str], None],
) -> dict[str, str]:
    """Put the tags of a job together; what the user set stands before the app's metadata.

    Args:
        own: ours, without the prefix; characters that tags cannot have become ``_``.
        user: the ``tags`` option, checked.
        metadata: the app's; what cannot be a tag is left out, and said so.
        warn: is told what was left out.

    Raises:
        UsageError: there are too many.
    """
    tags = {}
    for key, value in metadata.items():
        complaint = _complaint(key, value)
        if complaint:
            warn(f"metadata {key!r} is not made a tag: {complaint}")
        else:
            tags[key] = value
    tags.update(user)
    tags.update({PREFIX + key: _cleaned(value) for key, value in own.items()})
    if len(tags) > _MOST:
        raise UsageError(
            f"the job has {len(tags)} tags and AWS allows {_MOST} beside the job definition's: "
            f"{len(own)} of Wherry, {len(user)} of the option 'tags', and the app's metadata"
        )
    return tags


def _complaint(key: str, value: str) -> str:
    reserved = next((word for word in _RESERVED if key.lower().startswith(word)), None)
    if reserved:
        return f"the key {key!r} begins with {reserved!r}, which is reserved"
    if not 1 <= len(key) <= limits.TAG_KEY_LENGTH:
        return f"the key {key!r} must have 1 to {limits.TAG_KEY_LENGTH} characters"
    if len(value) > limits.TAG_VALUE_LENGTH:
        return (
            f"the value of {key!r} has {len(value)} characters; "
            f"AWS allows {limits.TAG_VALUE_LENGTH}"
        )
    if not (_CHARACTERS.match(key) and _CHARACTERS.match(value)):
        return (
            f"{key!r}={value!r} has characters other than letters, digits, spaces and "
            ". : / = + - @ _"
        )
    return ""


def _cleaned(value: str) -> str:
    return _OTHERS.sub("_", value)[: limits.TAG_VALUE_LENGTH]
