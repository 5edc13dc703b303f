"""``Ref::name`` in a command: the definition's parameters, over which the request's are laid.

"Parameters in a SubmitJob request override any corresponding parameter defaults from the job
definition" (API reference, SubmitJob). Only commands are searched; a name that has no value stays
as it was written; what comes out is not searched again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_REF = re.compile(r"Ref::([A-Za-z0-9_-]+)")


def overlaid(defaults: Mapping[str, str] | None, given: Mapping[str, str] | None) -> dict[str, str]:
    """Return the parameters of a job.

    Args:
        defaults: the definition's.
        given: the request's.
    """
    return {**(defaults or {}), **(given or {})}


def substituted(command: Sequence[str], parameters: Mapping[str, str]) -> tuple[str, ...]:
    """Return a command in which names have become values.

    Args:
        command: the words; a name may be a part of one.
        parameters: values by name.

    >>> substituted(["cp", "s3://Ref::bucket/x", "Ref::to"], {"bucket": "b"})
    ('cp', 's3://b/x', 'Ref::to')
    """
    return tuple(
        _REF.sub(lambda found: parameters.get(found[1], found[0]), word)
        if "Ref::" in word
        else word
        for word in command
    )
