"""What lists answer: a page at a time, or what was asked for by name.

Tokens stay good while the list changes. A token names the last item that was shown, and is sealed
for its list, so that one that was made up, or that another list gave, is refused. The seal is
against mistakes, not against malice.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from wherry.emulator.batch import limits
from wherry.emulator.batch.errors import RefusedError, refuse
from wherry.emulator.batch.ports import Document


class _Record(Protocol):
    arn: str


T = TypeVar("T")
R = TypeVar("R", bound=_Record)

_SEAL_BYTES = 8


def answer(
    member: str,
    items: Iterable[T],
    key: Callable[[T], str],
    show: Callable[[T], Document],
    request: Document,
    most: int = limits.PAGE,
) -> Document:
    """Return the page of a list that a request asks for, as the API shows it.

    When the item that a token names has gone meanwhile, the page begins with the first item that
    the order puts after it.

    Args:
        member: the name of the list in the answer.
        items: the list, in ascending order of `key`.
        key: what tells an item from all others.
        show: what the API shows of an item.
        request: with ``maxResults`` and ``nextToken``, or without.
        most: the largest page, which is also the default.

    Raises:
        ClientError: the page's size or the token is not valid.
    """
    size = request.get("maxResults", most)
    refuse(not 1 <= size <= most, f"maxResults must be between 1 and {most}.")
    after = _read(member, request["nextToken"]) if request.get("nextToken") else None
    shown: list[T] = []
    for item in items:
        if after is not None and key(item) <= after:
            continue
        if len(shown) == size:
            token = _token(member, key(shown[-1]))
            return {member: [show(each) for each in shown], "nextToken": token}
        shown.append(item)
    return {member: [show(each) for each in shown]}


def known(
    member: str,
    refs: Iterable[str],
    find: Callable[[str], R | None],
    show: Callable[[R], Document],
) -> Document:
    """Return those of a list that are asked for by name or ARN, each once; unknown ones are absent.

    Args:
        member: the name of the list in the answer.
        refs: the names and ARNs.
        find: returns what has a name or ARN.
        show: what the API shows of it.
    """
    found = (find(ref) for ref in refs)
    return {member: list({one.arn: show(one) for one in found if one is not None}.values())}


def _token(member: str, key: str) -> str:
    return base64.urlsafe_b64encode(_seal(member, key.encode()) + key.encode()).decode()


def _read(member: str, token: str) -> str:
    """Return the key in a token.

    Raises:
        RefusedError: this list has not given it.
    """
    try:
        sealed = base64.b64decode(token, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        sealed = b""
    seal, key = sealed[:_SEAL_BYTES], sealed[_SEAL_BYTES:]
    if seal != _seal(member, key):
        raise RefusedError(f"Invalid nextToken: {token}")
    return key.decode()


def _seal(member: str, key: bytes) -> bytes:
    return hashlib.blake2b(key, key=member.encode(), digest_size=_SEAL_BYTES).digest()
